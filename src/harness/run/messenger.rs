//! The worker's voice: a thread that writes messages as JSON lines, and progress at a pace that the
//! pipe and the parent can follow. What was written survives the worker's death.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use remat_core::schedule::ScheduleDocument;
use remat_core::{Instance, Schedule};
use remat_formulations::{Answer, Claimed, Progress, Reporter, Spec};

use super::job::{AnswerDocument, Job, Message, Point, ProgressDocument, Used};

/// Least time between two messages about the progress on a budget.
const POINT_PAUSE: Duration = Duration::from_millis(20);
/// Least time between two schedules for a budget, which are large.
const SCHEDULE_PAUSE: Duration = Duration::from_millis(200);

/// What the method's threads hand to the writing thread.
pub enum Event {
    /// Progress on a budget, and when.
    Progress(usize, Duration, Progress),
    /// A message, as it is.
    Message(Message),
}

/// The reporter that methods are given in a worker.
pub struct Messenger<'a> {
    job: &'a Job,
    instance: &'a Instance,
    began: Instant,
    sender: Sender<Event>,
}

impl<'a> Messenger<'a> {
    /// Speaks to the thread at the other end of `sender`; time counts from now.
    pub fn new(job: &'a Job, instance: &'a Instance, sender: Sender<Event>) -> Self {
        Self { job, instance, began: Instant::now(), sender }
    }

    fn send(&self, event: Event) {
        // A writer that is gone has lost its pipe, and the parent with it.
        let _ = self.sender.send(event);
    }
}

impl Reporter for Messenger<'_> {
    fn report(&self, index: usize, progress: Progress) {
        self.send(Event::Progress(index, self.began.elapsed(), progress));
    }

    fn answer(&self, index: usize, answer: &Answer) {
        let document = answer_document(self.job, self.instance, index, answer, self.began.elapsed());
        self.send(Event::Message(Message::Answer(Box::new(document))));
    }
}

/// Writes what comes until all senders are gone.
///
/// # Errors
/// The pipe is closed.
pub fn write_all(job: &Job, instance: &Instance, receiver: &Receiver<Event>, out: impl Write) -> std::io::Result<()> {
    let mut writer = Pace { job, instance, out, budgets: BTreeMap::new() };
    loop {
        match receiver.recv_timeout(POINT_PAUSE) {
            Ok(Event::Progress(index, when, progress)) => writer.budgets.entry(index).or_default().note(when, progress),
            Ok(Event::Message(message)) => {
                if let Message::Answer(answer) = &message {
                    // It supersedes whatever is known of this budget.
                    writer.flush_points(answer.index)?;
                }
                line(&mut writer.out, &message)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return writer.flush(true),
        }
        writer.flush(false)?;
    }
}

/// Writes a message as one line, at once.
///
/// # Errors
/// The pipe is closed.
pub fn line(out: &mut impl Write, message: &Message) -> std::io::Result<()> {
    let text = serde_json::to_string(message)?;
    writeln!(out, "{text}").and_then(|()| out.flush())
}

/// What is known of a budget and not yet written.
#[derive(Default)]
struct Unsaid {
    point: Point,
    fresh: bool,
    schedule: Option<(Schedule, Claimed)>,
    point_written: Option<Instant>,
    schedule_written: Option<Instant>,
}

impl Unsaid {
    fn note(&mut self, when: Duration, progress: Progress) {
        self.fresh = true;
        self.point.seconds = when.as_secs_f64();
        self.point.lower_bound = self.point.lower_bound.max(progress.lower_bound);
        self.point.effort = progress.effort.or(self.point.effort);
        if let Some((schedule, claimed)) = progress.incumbent {
            self.point.claimed_time = Some(claimed.time);
            self.point.claimed_peak = Some(claimed.peak_bytes);
            self.point.found_by = progress.finder.map(Into::into);
            self.schedule = Some((schedule, claimed));
        }
    }
}

struct Pace<'a, W> {
    job: &'a Job,
    instance: &'a Instance,
    out: W,
    budgets: BTreeMap<usize, Unsaid>,
}

impl<W: Write> Pace<'_, W> {
    /// Writes what is due, or all of it.
    fn flush(&mut self, all: bool) -> std::io::Result<()> {
        let due = |written: Option<Instant>, pause| all || written.is_none_or(|written| written.elapsed() >= pause);
        for (&index, unsaid) in &mut self.budgets {
            let schedule = unsaid.schedule.take_if(|_| due(unsaid.schedule_written, SCHEDULE_PAUSE));
            if schedule.is_none() && !(unsaid.fresh && due(unsaid.point_written, POINT_PAUSE)) {
                continue;
            }
            let now = Some(Instant::now());
            if schedule.is_some() {
                unsaid.schedule_written = now;
            }
            (unsaid.fresh, unsaid.point_written) = (false, now);
            let schedule =
                schedule.map(|(schedule, claimed)| document(self.job, self.instance, index, &schedule, Some(claimed)));
            let message =
                Message::Progress(Box::new(ProgressDocument { index, point: unsaid.point.clone(), schedule }));
            line(&mut self.out, &message)?;
        }
        Ok(())
    }

    /// Writes the last numbers about a budget that is done, without its schedule.
    fn flush_points(&mut self, index: usize) -> std::io::Result<()> {
        let Some(unsaid) = self.budgets.remove(&index).filter(|unsaid| unsaid.fresh) else { return Ok(()) };
        let document = ProgressDocument { index, point: unsaid.point, schedule: None };
        line(&mut self.out, &Message::Progress(Box::new(document)))
    }
}

fn document(
    job: &Job,
    instance: &Instance,
    index: usize,
    schedule: &Schedule,
    claimed: Option<Claimed>,
) -> ScheduleDocument {
    let spec = Spec { id: job.method.clone(), parameters: job.parameters.clone() };
    ScheduleDocument {
        method: Some(spec.to_string()),
        budget_bytes: job.budgets[index],
        claimed_time: claimed.map(|claimed| claimed.time),
        claimed_peak_bytes: claimed.map(|claimed| claimed.peak_bytes),
        ..ScheduleDocument::new(instance, schedule)
    }
}

/// What this process and those that it has waited for have used so far.
fn used() -> Option<Used> {
    let both = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).ok());
    let [own, children] = both;
    let (own, children) = (own?, children?);
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    let cpu = |usage: &nix::sys::resource::Usage| seconds(usage.user_time()) + seconds(usage.system_time());
    let kibibytes = u64::try_from(own.max_rss().max(children.max_rss())).unwrap_or(0);
    Some(Used { cpu_seconds: cpu(&own) + cpu(&children), peak_rss_bytes: kibibytes << 10 })
}

/// An answer in the instance's own ids.
fn answer_document(job: &Job, instance: &Instance, index: usize, answer: &Answer, after: Duration) -> AnswerDocument {
    AnswerDocument {
        index,
        termination: answer.termination,
        schedule: answer.schedule.as_ref().map(|schedule| document(job, instance, index, schedule, answer.claimed)),
        claimed_time: answer.claimed.map(|claimed| claimed.time),
        claimed_peak_bytes: answer.claimed.map(|claimed| claimed.peak_bytes),
        lower_bound: answer.lower_bound,
        claim: answer.claim,
        build_seconds: Some(answer.build.as_secs_f64()),
        solve_seconds: Some(answer.solve.as_secs_f64()),
        note: answer.note.clone(),
        given_after: Some(after.as_secs_f64()),
        used: used(),
    }
}
