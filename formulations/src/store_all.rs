//! `store-all`: every operator once, nothing dropped before its last use.

use std::time::Instant;

use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::{Instance, Schedule, simulate};

use crate::method::claim::{Implementations, Runs};
use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use crate::{setting, settings};

/// The iteration as a framework runs it without rematerialization.
///
/// # Problem
/// None: the instance's order, each operator once, each tensor freed right after its last read.
///
/// # Claim
/// Baseline. With `implementations=fastest` each operator has the fastest implementation that fits those after it, none in
/// place; every overhead in the tables is relative to this one. A schedule can be faster that runs in place, saves less, or
/// leaves out what nobody reads. With `implementations=default` it is what the framework itself runs.
///
/// # Size
/// O(reads).
///
/// # Reference
/// The "PyTorch" strategy of rotor-toms-2024, section 5.4; "checkpoint-all" of Checkmate.
pub struct StoreAll;

setting! {
    /// which implementation each operator uses: the fastest, or the framework's default
    pub enum Uses("implementations") = Fastest { Fastest = "fastest", Default = "default" }
}

impl Method for StoreAll {
    fn about(&self) -> About {
        About {
            id: "store-all",
            title: "every operator once, nothing recomputed",
            reference: "rotor-toms-2024, section 5.4 (\"PyTorch\")",
            parameters: settings![Uses],
            budgets: BudgetUse::Ignored,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        let implementations = match parameters.get::<Uses>() {
            Uses::Default => Implementations::Chosen,
            Uses::Fastest => Implementations::One,
        };
        Claim::baseline(Class { implementations, runs: Runs::AtMost(1), ..Class::STAGES })
    }

    fn supports(&self, _: &Instance) -> Result<(), SkipReason> {
        Ok(())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let started = Instant::now();
        let instance = context.instance;
        let plan = match context.parameters.get::<Uses>() {
            Uses::Default => Plan::default_choice(instance),
            Uses::Fastest => Plan::fastest(instance),
        };
        context.answer(0, &Answer::of(instance, store_all(instance, &plan)?, started)?);
        Ok(())
    }
}

/// Every operator once, with one implementation each.
///
/// # Errors
/// That is illegal: some operator runs only in the place of what others read later, say.
pub fn store_all(instance: &Instance, plan: &Plan) -> Result<Schedule, SkipReason> {
    let schedule = with_liveness(instance, &plan.store_all(instance));
    let illegal = |error| SkipReason(format!("store-all with one implementation per operator is illegal: {error}"));
    simulate(instance, &schedule).map(|_| schedule).map_err(illegal)
}

/// Whether every value has a buffer of its own under a plan.
///
/// # Errors
/// Some operator can run in place only.
pub fn out_of_place(instance: &Instance, plan: &Plan) -> Result<(), SkipReason> {
    let reason = |name| SkipReason(format!("operator {name} has no implementation that is out of place"));
    plan.in_place_only(instance).map_or(Ok(()), |operator| Err(reason(&operator.name)))
}
