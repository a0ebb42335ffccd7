//! What the methods that work on the chain view share.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_core::chain::ChainStep;
use remat_core::chain_view::ChainView;

use crate::method::{Answer, Claimed, Context, MethodError, SkipReason, Termination};
use crate::parameters::{ParameterKind, ParameterSpec};
use crate::rotor::ranges::Rule;
use crate::rotor::solve::{Fit, Outcome, Settings, solve};

/// The parameters of the methods whose memory is counted in slots.
pub const SLOTS: &[ParameterSpec] = &[
    ParameterSpec {
        name: "slots",
        default: "500",
        kind: ParameterKind::Integer { min: 1, max: 100_000 },
        help: "slots that the largest useful budget is divided into; sizes are rounded up to whole slots",
    },
    ParameterSpec {
        name: "fit",
        default: "exact",
        kind: ParameterKind::Choice(&["exact", "rounded"]),
        help: "exact: of the table's sequences, the one for the most slots whose peak in bytes meets the budget; \
               rounded: the one for as many slots as the budget has, as published",
    },
];

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
    pub fn solve(mut self, context: &Context<'_>, rule: Rule) -> Result<Vec<Answer>, MethodError> {
        let slots = context.parameters.integer("slots").unwrap_or(500);
        let unlimited = self.unlimited();
        let budgets: Vec<u64> = context.budgets.iter().map(|budget| budget.unwrap_or(unlimited)).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(context.limits.threads).build();
        let pool = pool.map_err(|error| MethodError::Internal(error.to_string()))?;
        let fit = if context.parameters.word("fit") == "exact" { Fit::Exact } else { Fit::Rounded };
        let settings = Settings { slots, rule, fit };
        let solved = pool.install(|| solve(&self.view.chain, &budgets, settings));
        let outcomes = solved.map_err(|error| MethodError::TooLarge(error.to_string()))?;
        let answers = context.budgets.iter().zip(outcomes).map(|(&budget, outcome)| match outcome {
            Outcome::Sequence(sequence) => self.answer(budget, Termination::Optimal, &sequence, String::new()),
            Outcome::Infeasible => Ok(self.nothing(budget, Termination::Infeasible, String::new())),
            Outcome::LostToRounding => {
                let note = format!("lost to rounding up to {slots} slots; more slots may find a schedule");
                Ok(self.nothing(budget, Termination::NotFound, note))
            }
        });
        answers.collect()
    }

    /// A budget that store-all meets whatever the slots: twice its peak.
    fn unlimited(&self) -> u64 {
        let chain = &self.view.chain;
        let store_all = chain.evaluate(&chain.store_all(|_| 0));
        store_all.map_or(u64::MAX / 4, |cost| cost.peak_bytes.saturating_mul(2))
    }
}
