//! Planners as methods: what is the same of all of them.

use remat_core::Instance;

use crate::method::parameters::Parameters;
use crate::method::{About, Claim, Class, Context, Method, MethodError, SkipReason};

/// What makes schedules and claims nothing of them.
pub trait Planner: Sync {
    /// The schedules that it makes.
    const CLASS: Class;
    /// What it sees of an instance.
    type View<'a>;

    /// Citation and parameters.
    fn about(&self) -> About;

    /// Looks at an instance.
    ///
    /// # Errors
    /// Why it cannot work on it; that does not depend on the parameters.
    fn view<'a>(&self, instance: &'a Instance, parameters: &Parameters) -> Result<Self::View<'a>, SkipReason>;

    /// Answers every budget.
    ///
    /// # Errors
    /// Nothing can be said of any budget.
    fn plan(&self, view: Self::View<'_>, context: &Context<'_>) -> Result<(), MethodError>;
}

/// A planner as a method.
pub struct Planned<P>(pub P);

impl<P: Planner> Method for Planned<P> {
    fn about(&self) -> About {
        self.0.about()
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(P::CLASS)
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        self.0.view(instance, &Parameters::defaults(self.0.about().parameters)).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        self.0.plan(self.0.view(context.instance, context.parameters)?, context)
    }

    fn type_name(&self) -> &'static str {
        std::any::type_name::<P>()
    }
}
