//! What the methods that work on the chain view share.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_core::chain::{Chain, ChainStep};
use remat_core::chain_view::ChainView;

use super::refine::{End, Goal, Refined, Refinement};
use super::rule::Rule;
use super::solve::{Fit, Outcome, Settings, solve};
use super::storage::{Execution, TableError};
use crate::method::claim::{Kept, Memory};
use crate::method::parameters::Parameters;
use crate::method::{
    About, Answer, BudgetUse, Claim, Claimed, Class, Context, Method, MethodError, SkipReason, Termination,
};
use crate::search::clock::Clock;
use crate::{setting, settings};

setting! {
    /// auto: finer and finer slots until the loss is proved to be small; a number: slots that the memory for saving
    /// everything is divided into, sizes rounded up to whole slots, as published
    pub Slots("slots"): auto or number from 1 to 100_000
}
setting! {
    /// with slots=auto: proved loss, in millionths of the makespan, with which a budget is done
    pub Loss("loss"): number from 0 to 1_000_000 = 1000
}
setting! {
    /// with slots=auto: memory that a table may take
    pub TableMib("table-mib"): number from 1 to 1_048_576 = 4096
}
/// What tells the dynamic programs over the chain view apart. Whoever has this is a [`Method`].
pub trait ChainRule: Sync {
    /// [`Method::id`].
    const ID: &'static str;
    /// Which sequences are allowed.
    const RULE: Rule;
    /// Which sequences are kept to.
    const KEPT: Kept;
    /// [`About::title`].
    const TITLE: &'static str;
    /// [`About::reference`].
    const REFERENCE: &'static str;
}

impl<T: ChainRule> Method for T {
    fn about(&self) -> About {
        About {
            id: T::ID,
            title: T::TITLE,
            reference: T::REFERENCE,
            parameters: settings![Slots, Loss, TableMib, Fit],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        let memory = parameters.get::<Slots>().map_or(Memory::Chain, Memory::Slots);
        Claim::optimum(Class { kept: T::KEPT, memory, ..Class::CHAIN })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        ChainProgram::new(context)?.solve(context, T::RULE)
    }
}

/// Whether an instance has a chain view.
///
/// # Errors
/// Why it has none.
pub fn supports(instance: &Instance) -> Result<(), SkipReason> {
    view(instance).map(|_| ())
}

/// The chain view of an instance.
///
/// # Errors
/// Why it has none.
pub fn view(instance: &Instance) -> Result<ChainView, SkipReason> {
    ChainView::new(instance).map_err(|reason| SkipReason(reason.to_string()))
}

/// A chain view, and when work on it began.
pub struct ChainProgram<'a> {
    /// The view.
    pub view: ChainView,
    instance: &'a Instance,
    /// What every note says.
    remark: String,
    built: Duration,
    started: Instant,
}

impl<'a> ChainProgram<'a> {
    /// Derives the chain view.
    ///
    /// # Errors
    /// The instance has none.
    pub fn new(context: &Context<'a>) -> Result<Self, MethodError> {
        let started = Instant::now();
        let view = view(context.instance)?;
        Ok(Self::over(context, view, String::new(), started.elapsed()))
    }

    /// Takes a chain view that took so long to derive; every note ends with the remark.
    pub fn over(context: &Context<'a>, view: ChainView, remark: String, built: Duration) -> Self {
        Self { view, instance: context.instance, remark, built, started: Instant::now() }
    }

    /// The answer that a sequence gives; `self.started` begins anew with each answer.
    ///
    /// # Errors
    /// The sequence is not valid: a slip of the method.
    pub fn answer(
        &mut self,
        budget: Option<u64>,
        termination: Termination,
        sequence: &[ChainStep],
        note: String,
    ) -> Result<Answer, MethodError> {
        let cost = self.view.chain.evaluate(sequence).map_err(|error| MethodError::Internal(error.to_string()))?;
        let schedule = self.view.expand(self.instance, sequence);
        let claimed = Claimed { time: cost.time, peak_bytes: cost.peak_bytes };
        Ok(Answer { schedule: Some(schedule), claimed: Some(claimed), ..self.nothing(budget, termination, note) })
    }

    /// The answer that there is no schedule.
    pub fn nothing(&mut self, budget: Option<u64>, termination: Termination, note: String) -> Answer {
        let solve = self.started.elapsed();
        self.started = Instant::now();
        let note =
            [note, self.remark.clone()].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ");
        Answer { build: std::mem::take(&mut self.built), solve, note, ..Answer::without_schedule(budget, termination) }
    }

    /// Runs the dynamic program of a rule for all budgets.
    ///
    /// # Errors
    /// The tables are too large.
    pub fn solve(mut self, context: &Context<'_>, rule: Rule) -> Result<(), MethodError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(context.limits.threads).build();
        let pool = pool.map_err(|error| MethodError::Internal(error.to_string()))?;
        let chain = self.view.chain.clone();
        let unlimited = unlimited(&chain);
        match context.parameters.get::<Slots>() {
            None => {
                let goal = goal(context, self.built);
                let refinement = match pool.install(|| Refinement::new(&chain, rule, goal)) {
                    Err(TableError::Deadline) => {
                        self.no_time(context);
                        return Ok(());
                    }
                    other => other?,
                };
                context.answer_each(|_, budget| {
                    let refined = pool.install(|| refinement.refine(budget.unwrap_or(unlimited)));
                    self.refined(budget, refined?, goal)
                });
                Ok(())
            }
            Some(slots) => {
                let fit = context.parameters.get::<Fit>();
                let budgets: Vec<u64> = context.budgets.iter().map(|budget| budget.unwrap_or(unlimited)).collect();
                let settings = Settings { slots, rule, fit };
                let lost = format!("lost to rounding up to {slots} slots; more slots may find a schedule");
                let all = |time: Duration| time.checked_mul(u32::try_from(budgets.len()).ok()?);
                let passed = self.built + self.started.elapsed();
                let left = context.limits.time.and_then(all).map(|time| time.saturating_sub(passed));
                let execution = Execution::within(Clock::start(left));
                let mut answer = |index: usize, outcome| {
                    let budget = context.budgets[index];
                    let answer = self.outcome(budget, outcome, Termination::Optimal, &lost);
                    context.answer(index, &answer.unwrap_or_else(|error| Answer::failed(budget, &error)));
                };
                match pool.install(|| solve(&chain, &budgets, settings, execution, &mut answer)) {
                    Err(TableError::Deadline) => {
                        self.no_time(context);
                        Ok(())
                    }
                    other => Ok(other?),
                }
            }
        }
    }

    fn no_time(&mut self, context: &Context<'_>) {
        let note = || TableError::Deadline.to_string();
        context.answer_each(|_, budget| Ok(self.nothing(budget, Termination::TimeLimit, note())));
    }

    fn outcome(
        &mut self,
        budget: Option<u64>,
        outcome: Outcome,
        termination: Termination,
        note: &str,
    ) -> Result<Answer, MethodError> {
        match outcome {
            Outcome::Sequence(sequence) if termination == Termination::Optimal => {
                self.answer(budget, termination, &sequence, String::new())
            }
            Outcome::Sequence(sequence) => self.answer(budget, termination, &sequence, note.into()),
            Outcome::Infeasible => Ok(self.nothing(budget, Termination::Infeasible, String::new())),
            Outcome::LostToRounding => Ok(self.nothing(budget, Termination::NotFound, note.into())),
        }
    }

    /// The answer of the refinement, with what is proved about it. The bound is one for sequences of the chain,
    /// not for all schedules of the instance: it stays in the note.
    fn refined(&mut self, budget: Option<u64>, refined: Refined, goal: Goal) -> Result<Answer, MethodError> {
        let loss = refined.loss(&self.view.chain);
        let termination = match loss {
            0.0 => Termination::Optimal,
            _ if loss <= goal.loss => Termination::GapReached,
            _ if refined.end == End::Time => Termination::TimeLimit,
            _ => Termination::Feasible,
        };
        let slots = refined.slots;
        let note = if loss.is_finite() {
            format!("at most {:.3} % above the optimum of its class; {slots} slots", 100.0 * loss)
        } else {
            format!("{slots} slots and no proof; more time, or memory for the table, may help")
        };
        match refined.outcome {
            Outcome::LostToRounding if termination == Termination::TimeLimit => {
                Ok(self.nothing(budget, termination, note))
            }
            outcome => self.outcome(budget, outcome, termination, &note),
        }
    }
}

/// A budget that store-all meets whatever the slots: twice its peak.
fn unlimited(chain: &Chain) -> u64 {
    let store_all = chain.evaluate(&chain.store_all(|_| 0));
    store_all.map_or(u64::MAX / 4, |cost| cost.peak_bytes.saturating_mul(2))
}

impl From<TableError> for MethodError {
    fn from(error: TableError) -> Self {
        Self::TooLarge(error.to_string())
    }
}

/// When the refinement stops, where so much time went into the view.
fn goal(context: &Context<'_>, built: Duration) -> Goal {
    Goal {
        loss: context.parameters.get::<Loss>() as f64 / 1e6,
        bytes: usize::try_from(context.parameters.get::<TableMib>() << 20).unwrap_or(usize::MAX),
        time: context.limits.time.map(|time| time.saturating_sub(built)),
    }
}
