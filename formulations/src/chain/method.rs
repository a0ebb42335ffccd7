//! What the methods that work on the chain view share.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_core::chain::ChainStep;
use remat_core::chain_view::ChainView;

use super::refine::{Goal, Refined, refine};
use super::rule::Rule;
use super::solve::{Fit, Outcome, Settings, solve};
use crate::method::parameters::{ParameterKind, ParameterSpec};
use crate::method::{About, Answer, BudgetUse, Claim, Claimed, Context, Method, MethodError, SkipReason, Termination};

/// The parameters of the methods whose memory is counted in slots.
const SLOTS: &[ParameterSpec] = &[
    ParameterSpec {
        name: "slots",
        default: "auto",
        kind: ParameterKind::IntegerOrAuto { min: 1, max: 100_000 },
        help: "auto: finer and finer slots until the loss is proved to be small; a number: slots that the largest \
               useful budget is divided into, sizes rounded up to whole slots, as published",
    },
    ParameterSpec {
        name: "loss",
        default: "1000",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000 },
        help: "with slots=auto: proved loss, in millionths of the makespan, with which a budget is done",
    },
    ParameterSpec {
        name: "table-mib",
        default: "4096",
        kind: ParameterKind::Integer { min: 1, max: 1 << 20 },
        help: "with slots=auto: memory that a table may take",
    },
    ParameterSpec {
        name: "fit",
        default: "exact",
        kind: ParameterKind::Choice(&["exact", "rounded"]),
        help: "with a number of slots. exact: of the table's sequences, the one for the most slots whose peak in bytes meets the budget; \
               rounded: the one for as many slots as the budget has, as published",
    },
];

/// What tells the dynamic programs over the chain view apart. Whoever has this is a [`Method`].
pub trait ChainRule: Sync {
    /// [`Method::id`].
    const ID: &'static str;
    /// Which sequences are allowed.
    const RULE: Rule;
    /// [`About::claim`].
    const CLAIM: Claim;
    /// [`About::title`].
    const TITLE: &'static str;
    /// [`About::claim_text`].
    const CLAIM_TEXT: &'static str;
    /// [`About::reference`].
    const REFERENCE: &'static str;
}

impl<T: ChainRule> Method for T {
    fn id(&self) -> &'static str {
        T::ID
    }

    fn about(&self) -> About {
        About {
            title: T::TITLE,
            claim: T::CLAIM,
            claim_text: T::CLAIM_TEXT,
            reference: T::REFERENCE,
            parameters: SLOTS,
            budgets: BudgetUse::Used,
        }
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
        Ok(Self { view, instance: context.instance, built: started.elapsed(), started: Instant::now() })
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
        Answer {
            budget,
            termination,
            schedule: None,
            claimed: None,
            lower_bound: None,
            build: std::mem::take(&mut self.built),
            solve,
            note,
        }
    }

    /// Runs the dynamic program of a rule for all budgets.
    ///
    /// # Errors
    /// A sequence is not valid: a slip of the program.
    pub fn solve(mut self, context: &Context<'_>, rule: Rule) -> Result<(), MethodError> {
        let unlimited = self.unlimited();
        let budgets: Vec<u64> = context.budgets.iter().map(|budget| budget.unwrap_or(unlimited)).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(context.limits.threads).build();
        let pool = pool.map_err(|error| MethodError::Internal(error.to_string()))?;
        match context.parameters.integer("slots") {
            None => {
                let goal = goal(context, self.started);
                let refined = pool.install(|| refine(&self.view.chain, &budgets, rule, goal));
                let refined = refined.map_err(|error| MethodError::TooLarge(error.to_string()))?;
                let mut refined = refined.into_iter();
                context.answer_each(|_, budget| {
                    let refined =
                        refined.next().ok_or_else(|| MethodError::Internal("a budget without outcome".into()))?;
                    self.refined(budget, refined, goal)
                });
            }
            Some(slots) => {
                let fit = if context.parameters.word("fit") == "exact" { Fit::Exact } else { Fit::Rounded };
                let settings = Settings { slots, rule, fit };
                let solved = pool.install(|| solve(&self.view.chain, &budgets, settings));
                let outcomes = solved.map_err(|error| MethodError::TooLarge(error.to_string()))?;
                let lost = format!("lost to rounding up to {slots} slots; more slots may find a schedule");
                let mut outcomes = outcomes.into_iter();
                context.answer_each(|_, budget| {
                    let outcome =
                        outcomes.next().ok_or_else(|| MethodError::Internal("a budget without outcome".into()))?;
                    self.outcome(budget, outcome, Termination::Optimal, &lost)
                });
            }
        }
        Ok(())
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
            _ => Termination::Feasible,
        };
        let slots = refined.slots;
        let note = if loss.is_finite() {
            format!("at most {:.3} % above the optimum of its class; {slots} slots", 100.0 * loss)
        } else {
            format!("{slots} slots and no proof; more memory for the table may help")
        };
        self.outcome(budget, refined.outcome, termination, &note)
    }

    /// A budget that store-all meets whatever the slots: twice its peak.
    fn unlimited(&self) -> u64 {
        let chain = &self.view.chain;
        let store_all = chain.evaluate(&chain.store_all(|_| 0));
        store_all.map_or(u64::MAX / 4, |cost| cost.peak_bytes.saturating_mul(2))
    }
}

/// When the refinement stops.
fn goal(context: &Context<'_>, started: Instant) -> Goal {
    let number = |name| context.parameters.integer(name).unwrap_or(0);
    Goal {
        loss: number("loss") as f64 / 1e6,
        bytes: usize::try_from(number("table-mib") << 20).unwrap_or(usize::MAX),
        deadline: context.limits.time.map(|time| started + time),
    }
}
