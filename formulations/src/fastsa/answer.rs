//! From budgets to answers: limits shared among them, annealings in parallel, claims that are simulated.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use remat_core::{Schedule, simulate};

use super::anneal::{Best, Observer, Rank, Tally};
use super::graph::Operators;
use super::group::{Groups, group};
use super::profile::{Peak, Soft};
use super::run::{Found, Limits, Problem};
use super::settings::Settings;
use crate::method::parameters::Parameters;
use crate::method::report::Progress;
use crate::method::{Answer, Claimed, Context, Limits as MethodLimits, MethodError, SkipReason, Termination};
use crate::registry::find;

/// All budgets of a call.
pub struct Sweep<'a> {
    context: &'a Context<'a>,
    settings: Settings,
    operators: Operators,
    groups: Option<Groups>,
    began: Instant,
    /// The cheapest schedules found, none better than another in both cost and peak.
    found: Vec<(Schedule, Claimed)>,
}

impl<'a> Sweep<'a> {
    /// Builds the graphs.
    ///
    /// # Errors
    /// The instance is not supported.
    pub fn new(context: &'a Context<'a>, settings: Settings) -> Result<Self, MethodError> {
        let began = Instant::now();
        let instance = context.instance;
        let operators = Operators::new(instance, settings.alternatives, settings.rates)?;
        let groups = settings.grouping.then(|| group(&operators, |variant| operators.input_bytes(instance, variant)));
        Ok(Self { context, settings, operators, groups, began, found: Vec::new() })
    }

    /// Smallest budget first: what meets it meets the larger ones too.
    ///
    /// # Errors
    /// A claim is wrong.
    pub fn run(mut self) -> Result<(), MethodError> {
        let budgets = self.context.budgets;
        let mut ascending: Vec<usize> = (0..budgets.len()).collect();
        ascending.sort_by_key(|&index| budgets[index].unwrap_or(u64::MAX));
        let start = self.check(&self.operators.start)?;
        self.found.push(start);
        let mut build = self.began.elapsed();
        for (rank, &index) in ascending.iter().enumerate() {
            let left = ascending[rank..].iter().filter(|&&index| !self.is_easy(budgets[index])).count();
            let mut answer = self.answer(index, left).unwrap_or_else(|error| Answer::failed(budgets[index], &error));
            answer.build = std::mem::take(&mut build);
            self.context.answer(index, &answer);
        }
        Ok(())
    }

    /// Whether a budget needs no annealing.
    fn is_easy(&self, budget: Option<u64>) -> bool {
        let budget = budget.unwrap_or(u64::MAX);
        budget < self.operators.least_peak || self.found[0].1.peak_bytes <= budget
    }

    /// The answer to a budget, `left` of which share the remaining time.
    fn answer(&mut self, index: usize, left: usize) -> Result<Answer, MethodError> {
        let began = Instant::now();
        let budget = self.context.budgets[index];
        let mut termination = Termination::Feasible;
        let mut note = String::new();
        if budget.is_some_and(|budget| budget < self.operators.least_peak) {
            return Ok(self.reply(
                budget,
                Termination::Infeasible,
                began,
                "an operator or the results need more".into(),
            ));
        }
        if !self.is_easy(budget) {
            let deadline = self.context.limits.time.map(|time| {
                let remaining = time.saturating_sub(self.began.elapsed());
                began + remaining / u32::try_from(left.max(1)).unwrap_or(u32::MAX)
            });
            let start = self.start(budget, deadline)?;
            let found = self.anneal(index, budget.unwrap_or(u64::MAX), deadline, start.as_deref());
            note = words(&found);
            if let Some((method, _)) = self.settings.start {
                let whence = if start.is_some() { "started from" } else { "without a schedule of" };
                note = format!("{whence} {method}; {note}");
            }
            let interrupted = found.iter().any(|found| found.interrupted);
            for found in found {
                let checked = self.check(&found.variants)?;
                if (checked.1.time, checked.1.peak_bytes) != (found.rank.1, found.rank.2) {
                    return Err(MethodError::Internal(format!("claimed {:?}, simulated {:?}", found.rank, checked.1)));
                }
                self.found.push(checked);
            }
            termination = match (interrupted, self.best(budget).is_some()) {
                (true, _) => Termination::TimeLimit,
                (false, true) => Termination::Feasible,
                (false, false) => Termination::NotFound,
            };
        }
        Ok(self.reply(budget, termination, began, note))
    }

    /// The fastest schedule found so far within a budget; of equally fast ones that with the lowest peak.
    fn best(&self, budget: Option<u64>) -> Option<&(Schedule, Claimed)> {
        let fits = |(_, claimed): &&(Schedule, Claimed)| budget.is_none_or(|budget| claimed.peak_bytes <= budget);
        self.found.iter().filter(fits).min_by_key(|(_, claimed)| (claimed.time, claimed.peak_bytes))
    }

    fn reply(&self, budget: Option<u64>, termination: Termination, began: Instant, note: String) -> Answer {
        let best = self.best(budget);
        Answer {
            budget,
            termination,
            schedule: best.map(|(schedule, _)| schedule.clone()),
            claimed: best.map(|&(_, claimed)| claimed),
            lower_bound: None,
            build: Duration::ZERO,
            solve: began.elapsed(),
            note,
        }
    }

    /// The variants of another method's schedule, where one is asked for and it finds one.
    fn start(&self, budget: Option<u64>, deadline: Option<Instant>) -> Result<Option<Vec<u32>>, MethodError> {
        let Some((id, most)) = self.settings.start else { return Ok(None) };
        let named = |reason: SkipReason| SkipReason(format!("start={id}: {reason}"));
        let method = find(id).expect("the parameter lists registered methods");
        let instance = self.context.instance;
        method.supports(instance).map_err(named)?;
        let parameters = Parameters::new(method.about().parameters, &BTreeMap::new())
            .map_err(|error| MethodError::Internal(error.to_string()))?;
        let half = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) / 2);
        let limits = MethodLimits { time: Some(half.map_or(most, |half| half.min(most))), ..self.context.limits };
        let answers = method.answers(&Context::new(instance, &parameters, &[budget], limits))?;
        let Some(schedule) = answers.into_iter().next().and_then(|answer| answer.schedule) else { return Ok(None) };
        Ok(Some(self.operators.graph.sequence(&schedule).map_err(named)?))
    }

    /// Annealings of all restarts and threads, in the order of their seeds.
    fn anneal(&self, index: usize, budget: u64, deadline: Option<Instant>, start: Option<&[u32]>) -> Vec<Found> {
        let (operators, groups) = (&self.operators, self.groups.as_ref());
        let problem = Problem { operators, groups, settings: self.settings, start };
        let words = Words { sweep: self, index, best: Mutex::new(self.best(Some(budget)).map(|found| found.1.time)) };
        let limits = Limits { budget, deadline, observer: Some(&words), trace: None };
        let seed = self.context.limits.seed;
        let run = |part| {
            if self.settings.soft {
                problem.run::<Soft>(&limits, seed, part)
            } else {
                problem.run::<Peak>(&limits, seed, part)
            }
        };
        let threads = self.context.limits.threads.max(1) as u64;
        let mut found: Vec<Found> = Vec::new();
        for restart in 0..self.settings.restarts.unwrap_or(if deadline.is_some() { u64::MAX } else { 1 }) {
            let parts = restart * threads..(restart + 1) * threads;
            if threads == 1 {
                found.push(run(restart));
            } else {
                std::thread::scope(|scope| {
                    let workers: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
                    let join = |worker: std::thread::ScopedJoinHandle<'_, Found>| {
                        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    };
                    found.extend(workers.into_iter().map(join));
                });
            }
            if found.last().is_some_and(|found| found.interrupted) {
                break;
            }
        }
        found
    }

    /// The schedule of a sequence of operators' variants, and what the simulator says of it.
    fn check(&self, variants: &[u32]) -> Result<(Schedule, Claimed), MethodError> {
        let instance = self.context.instance;
        let schedule = self.operators.graph.schedule(instance, variants, self.settings.rates);
        let simulation = simulate(instance, &schedule).map_err(|error| MethodError::Internal(error.to_string()))?;
        Ok((schedule, Claimed { time: simulation.time, peak_bytes: simulation.peak_bytes }))
    }
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
        if let Ok((schedule, claimed)) = self.sweep.check(&best.variants()) {
            *known = Some(cost);
            self.sweep.context.reporter.report(self.index, Progress::incumbent(schedule, claimed).after(iterations));
        }
    }
}

/// What the annealings did, in words.
fn words(found: &[Found]) -> String {
    let sum = |stage: usize, of: fn(&Tally) -> u64| found.iter().map(|found| of(&found.tallies[stage])).sum::<u64>();
    format!(
        "{} annealings; {} + {} mutations, {} + {} valid, {} + {} accepted",
        found.len(),
        sum(0, |tally| tally.iterations),
        sum(1, |tally| tally.iterations),
        sum(0, |tally| tally.valid),
        sum(1, |tally| tally.valid),
        sum(0, |tally| tally.accepted),
        sum(1, |tally| tally.accepted),
    )
}
