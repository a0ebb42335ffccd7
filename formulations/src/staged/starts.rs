//! Schedules to start from: those of other methods, as stages.

use remat_core::{Instance, Schedule, Step};

use crate::method::{Context, MethodError};
use crate::search::clock::Clock;
use crate::search::incumbent::Incumbent;
use crate::search::problem::{Effort, Staged, improve_best};
use crate::setting;
use crate::staged::anneal::offering;
use crate::staged::joint::Joint;
use crate::staged::prices;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

setting! {
    /// what the search starts from beside store-all; auto: prices, ap-greedy, linearized-greedy and rotor-persistent; none:
    /// nothing; prices: time weighed against bytes in every stage; else that method's schedule, annealed where it exceeds the
    /// budget in these stages
    pub enum Start("start") = Auto {
        Auto = "auto",
        None = "none",
        Prices = "prices",
        ApGreedy = "ap-greedy",
        LinearizedGreedy = "linearized-greedy",
        RotorPersistent = "rotor-persistent",
        RotorWeak = "rotor-weak",
        Kusumoto = "kusumoto-2019",
        CheckmateRounding = "checkmate-rounding",
        FastSa = "fastsa",
    }
}

impl Start {
    fn methods(&self) -> &[Self] {
        match self {
            Self::Auto => &[Self::ApGreedy, Self::LinearizedGreedy, Self::RotorPersistent],
            Self::None | Self::Prices => &[],
            method => std::slice::from_ref(method),
        }
    }
}

/// Operators from which on solvers take so long that the start matters.
pub const LARGE: usize = 1000;

/// Offers the first that prices find, what the methods of a setting find, each within a sixth of the time that is left, and
/// what a search without a solver makes of the best of it or of store-all; words about starts that are not there.
///
/// # Errors
/// A schedule is not legal.
pub fn offer_starts(
    context: &Context<'_>,
    incumbent: &Incumbent<'_, Task<'_>>,
    start: Start,
    clock: Clock,
) -> Result<String, MethodError> {
    let task = incumbent.judge;
    let mut words = String::new();
    let mut offer = |stages| incumbent.offer(stages).map(drop);
    let seed = context.limits.seed;
    let effort = |heat, parts| Effort::of(incumbent, 1, heat, seed, clock.share(parts));
    if matches!(start, Start::Auto | Start::Prices) {
        offering(&mut offer, |better| prices::first(task, effort(1.0, 2), better))?;
    }
    for &method in start.methods() {
        if incumbent.is_done() {
            return Ok(words);
        }
        let id = method.word();
        match context.starts.schedule(id, context, task.budget, clock.share(6).left()) {
            Ok(schedule) => {
                let stages = follow(task.instance, &task.joint, &schedule, task.copies.unwrap_or(u64::MAX));
                if task.meets(&stages) {
                    offer(stages)?;
                } else if start != Start::Auto {
                    task.improve(&stages, effort(1.0, 3), &mut offer)?;
                }
            }
            Err(why) if start != Start::Auto => words = format!("no start: {id}: {why}; "),
            Err(_) => {}
        }
    }
    if start == Start::Prices || start == Start::Auto && task.joint.len() >= LARGE {
        let effort = effort(1.0, 2);
        for number in (0..prices::COURSES).take_while(|_| !incumbent.is_done()) {
            offering(&mut offer, |better| prices::course(task, effort, number, better))?;
        }
    }
    if start == Start::Auto && !incumbent.is_done() {
        improve_best(incumbent, effort(0.3, 6))?;
    }
    Ok(words)
}

/// What a schedule in any order says of later runs, said in stages: each later run goes to the stage of the
/// first run that follows it. A schedule in stages comes out as it is; of another one runs may be left
/// out, and it may need more memory.
pub fn follow(instance: &Instance, joint: &Joint, schedule: &Schedule, copies: u64) -> Stages {
    let may = |position: usize| joint.again(position).is_some();
    let runs = follow_with(instance, schedule, copies, may).into_iter();
    Stages { runs: runs.map(|runs| runs.into_iter().map(|run| run.0).collect()).collect() }
}

/// The same with the implementation of each run, by stage: positions in the instance's order, of which not all may run again.
pub fn follow_with(
    instance: &Instance,
    schedule: &Schedule,
    copies: u64,
    may: impl Fn(usize) -> bool,
) -> Vec<Vec<(usize, usize)>> {
    let position_of = instance.positions();
    let mut stages = vec![Vec::new(); position_of.len()];
    let mut runs = vec![0_u64; stages.len()];
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for step in &schedule.steps {
        let Step::Compute { operator, implementation } = *step else { continue };
        let position = position_of[operator.index()];
        if runs[position] > 0 {
            waiting.push((position, implementation));
            continue;
        }
        runs[position] = 1;
        waiting.sort_unstable();
        waiting.dedup_by_key(|run| run.0);
        for later in waiting.drain(..) {
            if later.0 < position && runs[later.0] < copies && may(later.0) {
                runs[later.0] += 1;
                stages[position].push(later);
            }
        }
        stages[position].push((position, implementation));
    }
    // A forward operator of no use may have been left out.
    for position in (0..stages.len()).filter(|&position| runs[position] == 0) {
        stages[position].push((position, 0));
    }
    stages
}
