//! A worker process: started in a process group of its own, watched, killed with its group at its limits
//! on wall time, CPU time and memory, and turned into messages and a cause of death. Knows nothing of
//! methods or instances.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use remat_core::schedule::ScheduleDocument;
use remat_formulations::Termination;
use wait4::{ResUse, Wait4};

use super::group::{self, Usage};
use super::job::{Job, Message, Point};

/// How often the deadline and the interrupt are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often the usage of the group is looked at, where it is limited.
const USAGE_PAUSE: Duration = Duration::from_millis(200);
/// Bytes that are kept of the beginning, and of the end, of standard error.
const STDERR_BYTES: usize = 2048;
/// Longest line that a worker may send.
const LINE_BYTES: u64 = 1 << 30;
/// The most that a pipe holds, unless the system was told otherwise.
const PIPE_BYTES: usize = 1 << 20;

/// What became of a worker.
#[derive(Debug)]
pub struct Outcome {
    /// What it said before it ended.
    pub heard: Heard,
    /// Why it did not come to its end, if so, with the words for the record.
    pub death: Option<(Termination, String)>,
    /// Wall seconds from start to end.
    pub wall_seconds: f64,
    /// User and system seconds of the worker and of what it started.
    pub cpu_seconds: f64,
    /// Peak resident memory of the largest process, or of the group where that was seen to be more.
    pub peak_rss_bytes: u64,
}

/// What a worker said.
#[derive(Debug, Default)]
pub struct Heard {
    /// Everything but progress.
    pub messages: Vec<Message>,
    /// Progress by budget, in the order of time.
    pub traces: BTreeMap<usize, Vec<Point>>,
    /// The last schedule reported for each budget.
    pub incumbents: BTreeMap<usize, ScheduleDocument>,
    /// Seconds after which work on each budget began: when the last answer to another was there before its first message.
    pub begun: BTreeMap<usize, f64>,
    /// Seconds after which each answer was there.
    pub answered: BTreeMap<usize, f64>,
    /// The first line that was no message, and how many messages came before it.
    nonsense: Option<(usize, String)>,
}

impl Heard {
    /// How many of the messages came before a line that was none.
    pub fn whole(&self) -> usize {
        self.nonsense.as_ref().map_or(self.messages.len(), |(before, _)| *before)
    }

    fn note(&mut self, message: Message, seconds: f64) {
        let before = self.answered.values().copied().fold(0.0, f64::max);
        match message {
            Message::Progress(progress) => {
                self.begun.entry(progress.index).or_insert(before);
                self.traces.entry(progress.index).or_default().push(progress.point);
                self.incumbents.extend(progress.schedule.map(|schedule| (progress.index, schedule)));
            }
            other => {
                if let Message::Answer(answer) = &other {
                    self.begun.entry(answer.index).or_insert(before);
                    self.answered.insert(answer.index, seconds);
                }
                self.messages.push(other);
            }
        }
    }
}

/// Why the parent killed the worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    Deadline,
    Cpu,
    Memory,
    Interrupt,
}

/// The wall time after which a worker that answers so many budgets is killed: each has the limit for itself,
/// and the method a second and a tenth of all to stop by itself and to hand over what it has.
pub fn deadline(limit: Duration, budgets: usize) -> Duration {
    let all = times(limit, budgets);
    all.saturating_add(all / 10).saturating_add(Duration::from_secs(1))
}

/// A limit of one budget, for so many.
pub fn times(limit: Duration, budgets: usize) -> Duration {
    limit.saturating_mul(u32::try_from(budgets).unwrap_or(u32::MAX))
}

/// Runs a job in a process of its own; `hear` hears every message as it comes.
///
/// # Errors
/// No process can be started.
pub fn run(job: &Job, hear: &(dyn Fn(&Message) + Sync), interrupted: &AtomicBool) -> std::io::Result<Outcome> {
    let started = Instant::now();
    let (ended, alive) = std::io::pipe()?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    // Open until the worker has ended: its end tells the worker that nobody is there any more.
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A worker that died before it read its job says why by its status.
        let _ = serde_json::to_string(job).map_err(Into::into).and_then(|job| writeln!(stdin, "{job}"));
    }
    let stdout = child.stdout.take().map(|pipe| Output { pipe, ended: &ended, left: PIPE_BYTES });
    let stderr = child.stderr.take().map(|pipe| Output { pipe, ended: &ended, left: PIPE_BYTES });
    std::thread::scope(|scope| {
        let messages = scope.spawn(|| stdout.map(|stdout| read_messages(stdout, started, hear)).unwrap_or_default());
        let words = scope.spawn(|| stderr.map(read_ends).unwrap_or_default());
        let watched = watch(child, job, interrupted);
        drop((stdin, alive));
        let Watched { usage, killed, group } = watched?;
        let wall_seconds = started.elapsed().as_secs_f64();
        let heard = messages.join().unwrap_or_default();
        let words = words.join().unwrap_or_default();
        let mut death = cause(usage.status, killed, &words, job);
        if death.is_none() {
            death = incomplete(&heard, if job.command.is_empty() { "the worker" } else { "the program" });
        }
        Ok(Outcome {
            heard,
            death,
            wall_seconds,
            cpu_seconds: (usage.rusage.utime + usage.rusage.stime).max(group.cpu).as_secs_f64(),
            peak_rss_bytes: usage.rusage.maxrss.max(group.resident_bytes),
        })
    })
}

/// How a child ended.
struct Watched {
    usage: ResUse,
    killed: Option<Killed>,
    /// The most that the group was seen to use, where that is limited.
    group: Usage,
}

/// Waits for the child, killing its group at a limit or on an interrupt.
fn watch(child: Child, job: &Job, interrupted: &AtomicBool) -> std::io::Result<Watched> {
    let group = Pid::from_raw(child.id().cast_signed());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(child.wait4()));
        let mut watch = Watch { job, group, started: Instant::now(), looked: Instant::now(), seen: Usage::default() };
        let mut killed = None;
        let ended: std::io::Result<ResUse> = loop {
            match receiver.recv_timeout(TICK) {
                Ok(ended) => break ended,
                Err(RecvTimeoutError::Disconnected) => break Err(std::io::Error::other("the waiting thread ended")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if killed.is_none() {
                killed = if interrupted.load(Ordering::Relaxed) { Some(Killed::Interrupt) } else { watch.exceeded() };
                if killed.is_some() {
                    // Fails only when the group is gone, which is what is wanted.
                    let _ = killpg(group, Signal::SIGKILL);
                }
            }
        };
        // Whatever the worker started and left behind would hold its pipes open.
        let _ = killpg(group, Signal::SIGKILL);
        ended.map(|usage| Watched { usage, killed, group: watch.seen })
    })
}

/// A group under limits.
struct Watch<'a> {
    job: &'a Job,
    group: Pid,
    started: Instant,
    /// When its usage was last looked at.
    looked: Instant,
    /// The most seen.
    seen: Usage,
}

impl Watch<'_> {
    /// The limit that is exceeded, if one is.
    fn exceeded(&mut self) -> Option<Killed> {
        let job = self.job;
        let deadline = job.allowance.limits.time.map(|limit| deadline(limit, job.budgets.len()));
        if deadline.is_some_and(|deadline| self.started.elapsed() >= deadline) {
            return Some(Killed::Deadline);
        }
        let limited = job.allowance.cpu_limit.is_some() || job.allowance.memory_limit_bytes.is_some();
        if !limited || self.looked.elapsed() < USAGE_PAUSE {
            return None;
        }
        self.looked = Instant::now();
        let now = group::usage(self.group);
        self.seen.cpu = self.seen.cpu.max(now.cpu);
        self.seen.resident_bytes = self.seen.resident_bytes.max(now.resident_bytes);
        if job.allowance.cpu_limit.is_some_and(|limit| now.cpu >= times(limit, job.budgets.len())) {
            return Some(Killed::Cpu);
        }
        job.allowance.memory_limit_bytes.filter(|&limit| now.resident_bytes > limit).map(|_| Killed::Memory)
    }
}

/// What the worker writes to a pipe: until it has ended and the pipe is empty. What it started in a group of its own may
/// hold the pipe open for ever, and write on.
struct Output<'a, P> {
    pipe: P,
    /// Has an end of its own once the worker has ended.
    ended: &'a PipeReader,
    /// Bytes that may be read then.
    left: usize,
}

impl<P: Read + AsFd> Read for Output<'_, P> {
    fn read(&mut self, block: &mut [u8]) -> std::io::Result<usize> {
        let mut looked = [self.pipe.as_fd(), self.ended.as_fd()].map(|end| PollFd::new(end, PollFlags::POLLIN));
        while let Err(error) = poll(&mut looked, PollTimeout::NONE) {
            if error != Errno::EINTR {
                return Err(error.into());
            }
        }
        let [readable, ended] = looked.map(|end| end.any() == Some(true));
        if !ended {
            return self.pipe.read(block);
        }
        let most = if readable { block.len().min(self.left) } else { 0 };
        let count = self.pipe.read(&mut block[..most])?;
        self.left -= count;
        Ok(count)
    }
}

fn read_messages(stdout: impl Read, started: Instant, hear: &dyn Fn(&Message)) -> Heard {
    let mut reader = BufReader::new(stdout);
    let mut heard = Heard::default();
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return heard,
            Ok(_) => match serde_json::from_slice(&line) {
                Ok(message) => {
                    hear(&message);
                    heard.note(message, started.elapsed().as_secs_f64());
                }
                Err(error) => drop(heard.nonsense.get_or_insert_with(|| (heard.messages.len(), error.to_string()))),
            },
        }
    }
}

/// The first and the last bytes of standard error, as text: what went wrong is said first, and a long
/// trace of calls may follow.
fn read_ends(mut stderr: impl Read) -> String {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut block = [0; STDERR_BYTES];
    while let Ok(count @ 1..) = stderr.read(&mut block) {
        let (first, rest) = block[..count].split_at(count.min(STDERR_BYTES - head.len()));
        head.extend_from_slice(first);
        tail.extend_from_slice(rest);
        let excess = tail.len().saturating_sub(STDERR_BYTES);
        tail.drain(..excess);
    }
    head.extend_from_slice(&tail);
    String::from_utf8_lossy(&head).trim().to_owned()
}

/// Why a process ended otherwise than with success.
fn cause(status: ExitStatus, killed: Option<Killed>, words: &str, job: &Job) -> Option<(Termination, String)> {
    let limit = |limit: Option<Duration>| {
        let seconds = limit.map_or(0.0, |limit| limit.as_secs_f64());
        let each =
            if job.budgets.len() > 1 { format!(" for each of {} budgets", job.budgets.len()) } else { String::new() };
        format!("the limit of {seconds} s{each}")
    };
    let out_of_cpu =
        || Some((Termination::CpuLimit, format!("killed: used more CPU time than {}", limit(job.allowance.cpu_limit))));
    match killed {
        Some(Killed::Interrupt) => return Some((Termination::Interrupted, "interrupted".into())),
        Some(Killed::Deadline) => {
            return Some((
                Termination::TimeLimit,
                format!("killed: still running after {}", limit(job.allowance.limits.time)),
            ));
        }
        Some(Killed::Cpu) => return out_of_cpu(),
        Some(Killed::Memory) => {
            let limit = job.allowance.memory_limit_bytes.unwrap_or_default();
            let words = format!("killed: its processes together used more memory than the limit of {limit} bytes");
            return Some((Termination::MemoryLimit, words));
        }
        None if status.success() => return None,
        None => {}
    }
    // The worker's own limit, should nobody have looked in time.
    if status.signal() == Some(Signal::SIGXCPU as i32) && job.allowance.cpu_limit.is_some() {
        return out_of_cpu();
    }
    let said = if words.is_empty() { String::new() } else { format!(": {words}") };
    if starved(words) {
        return Some((Termination::MemoryLimit, format!("out of memory{said}")));
    }
    let text = match (status.signal(), status.code()) {
        (Some(9), _) => "killed by signal 9 from outside, as the system's out-of-memory killer does".to_owned(),
        (Some(signal), _) => {
            let name = Signal::try_from(signal).map_or_else(|_| "unknown".to_owned(), |signal| signal.to_string());
            format!("killed by signal {signal} ({name})")
        }
        (None, code) => format!("ended with exit code {}", code.unwrap_or_default()),
    };
    Some((Termination::Error, format!("{text}{said}")))
}

/// Whether words are those of a lack of memory: Rust's, the system's, zstd's, those of solvers in C++, and Python's.
pub fn starved(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    [
        "memory allocation of",
        "failed to spawn thread",
        "cannot allocate memory",
        "could not allocate",
        "not enough memory",
        "std::bad_alloc",
        "memoryerror",
        "unable to allocate",
    ]
    .iter()
    .any(|starved| words.contains(starved))
}

/// What is wrong with the messages of a worker that ended well.
fn incomplete(heard: &Heard, who: &str) -> Option<(Termination, String)> {
    if let Some((_, error)) = &heard.nonsense {
        return Some((Termination::Error, format!("{who} wrote something that is no message: {error}")));
    }
    let words = match heard.messages.last() {
        Some(Message::Done) => return None,
        Some(_) => format!("{who} ended without a last message of the kind \"done\""),
        None => format!("{who} ended early without a word"),
    };
    Some((Termination::Error, words))
}
