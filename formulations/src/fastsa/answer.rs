//! From budgets to answers: annealings in parallel, claims that are simulated.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use remat_core::Schedule;

use super::anneal::{Best, Observer, Rank, Tally};
use super::graph::Operators;
use super::group::{Groups, group};
use super::profile::{Peak, Soft};
use super::run::{Annealed, Problem, Task};
use super::settings::{Settings, Start};
use super::start::by_prices;
use crate::method::report::Progress;
use crate::method::{Answer, Claimed, Context, MethodError, SkipReason, Termination};

/// All budgets of a call, each answered as if it were the only one.
pub struct Sweep<'a> {
    context: &'a Context<'a>,
    settings: Settings,
    operators: Operators,
    groups: OnceLock<Groups>,
    /// The instance's order, and what it costs.
    given: (Schedule, Claimed),
    build: Duration,
}

impl<'a> Sweep<'a> {
    /// Builds the graph.
    ///
    /// # Errors
    /// The instance is not supported.
    pub fn new(context: &'a Context<'a>, settings: Settings) -> Result<Self, MethodError> {
        let began = Instant::now();
        let operators = Operators::new(context.instance, settings.alternatives, settings.rates)?;
        let given = check(context, &operators, &operators.start, settings)?;
        Ok(Self { context, settings, operators, groups: OnceLock::new(), given, build: began.elapsed() })
    }

    /// Answers all budgets.
    pub fn run(&self) {
        let mut build = self.build;
        self.context.answer_each(|index, budget| {
            let began = Instant::now();
            let answer = self.answer(index, budget)?;
            Ok(Answer { build: std::mem::take(&mut build), solve: began.elapsed(), ..answer })
        });
    }

    fn answer(&self, index: usize, budget: Option<u64>) -> Result<Answer, MethodError> {
        let reply = |termination, found: Option<&(Schedule, Claimed)>, note| Answer {
            schedule: found.map(|(schedule, _)| schedule.clone()),
            claimed: found.map(|&(_, claimed)| claimed),
            note,
            ..Answer::without_schedule(budget, termination)
        };
        let Some(bytes) = budget.filter(|&budget| budget < self.given.1.peak_bytes) else {
            return Ok(reply(Termination::Feasible, Some(&self.given), String::new()));
        };
        if bytes < self.operators.least_peak {
            return Ok(reply(Termination::Infeasible, None, "an operator or the results need more".into()));
        }
        let whole = self.context.limits.time.map(|time| time.saturating_sub(self.build));
        let deadline = whole.and_then(|whole| Some((Instant::now().checked_add(whole)?, whole)));
        let start = self.start(budget, bytes, whole)?;
        let rescue = OnceLock::new();
        let annealed = self.anneal(index, bytes, deadline, start.as_deref(), &rescue);
        let mut note = words(&annealed);
        let whence = match self.settings.start {
            Start::Order => None,
            Start::Needed => rescue.get().map(|rescue| ("prices", rescue.is_some())),
            Start::Prices => Some(("prices", start.is_some())),
            Start::Method(method) => Some((method, start.is_some())),
        };
        if let Some((whence, found)) = whence {
            note = format!("{} {whence}; {note}", if found { "started from" } else { "without a schedule of" });
        }
        let interrupted = annealed.iter().any(|annealed| annealed.interrupted);
        let mut found = Vec::new();
        for Annealed { rank: (excess, time, peak), variants, .. } in &annealed {
            let checked = check(self.context, &self.operators, variants, self.settings)?;
            if (checked.1.time, checked.1.peak_bytes) != (*time, *peak) {
                let claimed = (time, peak);
                return Err(MethodError::Internal(format!("claimed {claimed:?}, simulated {:?}", checked.1)));
            }
            found.extend((*excess == 0).then_some(checked));
        }
        let best = found.iter().min_by_key(|(_, claimed)| (claimed.time, claimed.peak_bytes));
        let termination = match (interrupted, best.is_some()) {
            (true, _) => Termination::TimeLimit,
            (false, true) => Termination::Feasible,
            (false, false) => Termination::NotFound,
        };
        Ok(reply(termination, best, note))
    }

    /// The variants of another schedule, where one is asked for and there is one.
    fn start(&self, budget: Option<u64>, bytes: u64, whole: Option<Duration>) -> Result<Option<Vec<u32>>, MethodError> {
        let id = match self.settings.start {
            Start::Order | Start::Needed => return Ok(None),
            Start::Prices => return Ok(self.by_prices(bytes, whole.map(|whole| whole / 2))),
            Start::Method(id) => id,
        };
        let named = |reason: SkipReason| SkipReason(format!("start={id}: {reason}"));
        let time = whole.map_or(LONGEST_START, |whole| (whole / 2).min(LONGEST_START));
        let Ok(schedule) = self.context.starts.schedule(id, self.context, budget, Some(time)) else { return Ok(None) };
        Ok(Some(self.operators.graph.sequence(&schedule).map_err(named)?))
    }

    /// The variants of what a search with prices finds.
    fn by_prices(&self, budget: u64, time: Option<Duration>) -> Option<Vec<u32>> {
        let schedule = by_prices(self.context.instance, budget, time, self.context.limits.seed)?;
        self.operators.graph.sequence(&schedule).ok()
    }

    /// An annealing for each thread, in the order of their seeds.
    fn anneal(
        &self,
        index: usize,
        budget: u64,
        deadline: Option<(Instant, Duration)>,
        start: Option<&[u32]>,
        rescue: &OnceLock<Option<Vec<u32>>>,
    ) -> Vec<Annealed> {
        let (operators, instance) = (&self.operators, self.context.instance);
        let groups =
            || self.groups.get_or_init(|| group(operators, |variant| operators.input_bytes(instance, variant)));
        let time = || deadline.map(|(deadline, _)| deadline.saturating_duration_since(Instant::now()) / 2);
        let rescue = || match self.settings.start {
            Start::Needed => rescue.get_or_init(|| self.by_prices(budget, time())).as_deref(),
            _ => None,
        };
        let problem = Problem { operators, groups: &groups, settings: self.settings, start, rescue: &rescue };
        let words = Words { sweep: self, index, best: Mutex::new(None) };
        let task = Task { budget, deadline, observer: Some(&words), trace: None };
        let seed = self.context.limits.seed;
        let run = |part| {
            if self.settings.soft {
                problem.run::<Soft>(&task, seed, part)
            } else {
                problem.run::<Peak>(&task, seed, part)
            }
        };
        let run = &run;
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..self.context.limits.threads as u64).map(|part| scope.spawn(move || run(part))).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, Annealed>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            std::iter::once(run(0)).chain(others.into_iter().map(join)).collect()
        })
    }
}

/// Wall time of a method that gives a start, at most.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The schedule of a sequence of operators' variants, and what the simulator says of it.
fn check(
    context: &Context<'_>,
    operators: &Operators,
    variants: &[u32],
    settings: Settings,
) -> Result<(Schedule, Claimed), MethodError> {
    let schedule = operators.graph.schedule(context.instance, variants, settings.rates);
    let claimed = Claimed::simulated(context.instance, &schedule)?;
    Ok((schedule, claimed))
}

/// Streams better schedules out while they are found.
struct Words<'a> {
    sweep: &'a Sweep<'a>,
    index: usize,
    best: Mutex<Option<u64>>,
}

impl Observer for Words<'_> {
    fn better(&self, (_, cost, _): Rank, best: &Best, iterations: u64) {
        let Ok(mut known) = self.best.lock() else { return };
        if known.is_some_and(|known| known <= cost) {
            return;
        }
        let Sweep { context, operators, settings, .. } = self.sweep;
        if let Ok((schedule, claimed)) = check(context, operators, &best.variants(), *settings) {
            *known = Some(cost);
            context.reporter.report(self.index, Progress::incumbent(schedule, claimed).after(iterations));
        }
    }

    fn wants_more(&self) -> bool {
        self.sweep.context.reporter.wants_more(self.index)
    }
}

/// What the annealings did, in words.
fn words(annealed: &[Annealed]) -> String {
    let sum = |stage: usize, of: fn(&Tally) -> u64| annealed.iter().map(|run| of(&run.tallies[stage])).sum::<u64>();
    format!(
        "{} annealing{}; {} + {} mutations, {} + {} valid, {} + {} accepted",
        annealed.len(),
        if annealed.len() == 1 { "" } else { "s" },
        sum(0, |tally| tally.iterations),
        sum(1, |tally| tally.iterations),
        sum(0, |tally| tally.valid),
        sum(1, |tally| tally.valid),
        sum(0, |tally| tally.accepted),
        sum(1, |tally| tally.accepted),
    )
}
