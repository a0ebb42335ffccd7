//! One budget of `moccasin`: the start, and either strategy.

use std::time::{Duration, Instant};

use remat_solvers::Stop;
use remat_solvers::cp::{CpBackend, CpOutcome, CpRequest, Emphasis, Variable};

use crate::method::{Answer, Context, MethodError};
use crate::moccasin::Strategy;
use crate::moccasin::improve::search;
use crate::moccasin::published::{Memory, Phase, Published};
use crate::search::clock::Clock;
use crate::search::driver::{Ended, answer};
use crate::search::incumbent::Incumbent;
use crate::search::problem::{Effort, Staged};
use crate::search::separation::Solving;
use crate::staged::stages::Stages;
use crate::staged::starts::{Start, offer_starts};
use crate::staged::task::Task;

/// One budget.
pub struct Job<'a> {
    /// What the method is given.
    pub context: &'a Context<'a>,
    /// The budget, in the order to keep.
    pub task: &'a Task<'a>,
    /// The solver.
    pub solver: &'static dyn CpBackend,
    /// Position of the budget among those of the call.
    pub index: usize,
    /// How long.
    pub clock: Clock,
    /// A start that is there already, whatever the parameters say.
    pub given: Option<Stages>,
}

impl Job<'_> {
    /// The answer.
    ///
    /// # Errors
    /// The solver refuses, or a start's schedule is not legal.
    pub fn answer(&self) -> Result<Answer, MethodError> {
        let began = Instant::now();
        let Self { context, task, .. } = *self;
        if let Some(answer) = task.at_once() {
            return Ok(answer);
        }
        let incumbent = Incumbent::new(task, context.reporter, self.index, 0.0);
        let improved = context.parameters.get::<Strategy>() == Strategy::Improved;
        let words = self.start(&incumbent, improved)?;
        if !improved {
            return self.as_published(&incumbent, &words);
        }
        // The linear relaxation and neighbourhoods are HiGHS's, whatever solves the constraint program.
        let limits = context.limits;
        let solver = remat_solvers::backend("highs")?;
        let solving = Solving { solver, threads: limits.threads, seed: limits.seed };
        let ended = search(&incumbent, self.solver, solving, self.clock)?;
        let ended = Ended { note: format!("{words}{}", ended.note), ..ended };
        answer(&incumbent, task.budget, ended, Duration::ZERO, began.elapsed())
    }

    /// Offers what is there to start from; words about what is not. As published nothing is, unless asked for.
    fn start(&self, incumbent: &Incumbent<'_, Task<'_>>, improved: bool) -> Result<String, MethodError> {
        if let Some(stages) = &self.given {
            let effort = Effort::of(incumbent, 1, 1.0, self.context.limits.seed, self.clock.share(3));
            self.task.improve(stages, effort, &mut |stages| incumbent.offer(stages).map(drop))?;
            return Ok(String::new());
        }
        match self.context.parameters.get::<Start>() {
            Start::Auto if !improved => Ok(String::new()),
            start => offer_starts(self.context, incumbent, start, self.clock),
        }
    }

    fn phase(&self, published: &Published<'_>, hint: &[(Variable, i64)], parts: u32) -> Result<CpOutcome, MethodError> {
        let request = CpRequest {
            time: self.clock.share(parts).left(),
            threads: self.context.limits.threads,
            seed: self.context.limits.seed,
            emphasis: Emphasis::Default,
            hint,
            interrupt: None,
        };
        Ok(self.solver.solve(&published.model, &request)?)
    }

    /// Both phases of the paper.
    fn as_published(&self, incumbent: &Incumbent<'_, Task<'_>>, words: &str) -> Result<Answer, MethodError> {
        let (task, began) = (self.task, Instant::now());
        let joint = &task.joint;
        let memory = self.context.parameters.get::<Memory>();
        let most = task.claim(&Stages::store_all(joint)).peak_bytes;
        let room = (task.budget_bytes() - joint.base_bytes, most - joint.base_bytes);
        let mut build = Duration::ZERO;
        let mut model = |phase| {
            let began = Instant::now();
            let model = Published::new(task, room, memory, phase);
            build += began.elapsed();
            model
        };
        let first = model(Phase::Memory);
        let hint = incumbent.best().map(|stages| first.hint(&stages)).unwrap_or_default();
        let outcome = self.phase(&first, &hint, 2)?;
        let size = format!("{} variables, {} constraints", first.model.domains.len(), first.model.constraints.len());
        let words_of =
            |phase, outcome: &CpOutcome| format!("phase {phase} {} in {:.1} s", outcome.raw_status, outcome.seconds);
        let mut note = format!("{words}{}: {size}; {}", outcome.solver, words_of(1, &outcome));
        let within =
            |capacity: i64| u64::try_from(capacity).is_ok_and(|capacity| capacity * first.memory_unit() <= room.0);
        let feasible = outcome.values.as_ref().filter(|_| outcome.objective.is_some_and(within));
        let Some(feasible) = feasible.map(|values| first.stages(values)) else {
            // The least peak is above the budget.
            let refuted = outcome.stop == Stop::Optimal || outcome.bound.is_some_and(|bound| !within(bound));
            let stop = if refuted { Stop::Infeasible } else { outcome.stop };
            if stop == Stop::Infeasible {
                incumbent.refuted(&note)?;
            }
            let solve = began.elapsed().saturating_sub(build);
            return answer(incumbent, task.budget, Ended { stop: Some(stop), note }, build, solve);
        };
        let second = model(Phase::Duration);
        let hint = second.hint(&feasible);
        incumbent.offer(feasible)?;
        let outcome = self.phase(&second, &hint, 1)?;
        note = format!("{note}; {}", words_of(2, &outcome));
        let bound = outcome.bound.and_then(|bound| u64::try_from(bound).ok()).unwrap_or(0);
        incumbent.raise(joint.least_time() + bound * second.time_unit());
        if let Some(values) = &outcome.values {
            incumbent.offer(second.stages(values))?;
        }
        let solve = began.elapsed().saturating_sub(build);
        answer(incumbent, task.budget, Ended { stop: Some(outcome.stop), note }, build, solve)
    }
}
