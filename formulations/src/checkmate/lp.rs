//! `checkmate-lp`: the relaxation of Checkmate's integer program, a lower bound and nothing else.

use std::time::Instant;

use remat_core::Instance;
use remat_solvers::{LpAlgorithm, Model, Request, Stop};

use crate::checkmate::compact::{Compact, Rows};
use crate::checkmate::encoding::encode;
use crate::checkmate::joint::Joint;
use crate::checkmate::plain::Plain;
use crate::checkmate::program::{Found, Program, SOLVER, WORKSPACE, failed};
use crate::method::formulation::{Encoding, Formulation};
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};
use crate::method::{About, BudgetUse, Claim, Context, Method, MethodError, SkipReason, Termination};

/// The linear relaxation of `checkmate-ilp`.
///
/// # Problem
/// As `checkmate-ilp`, with every variable anywhere between 0 and 1.
///
/// # Variables
/// As `checkmate-ilp`.
///
/// # Constraints
/// As `checkmate-ilp`, without integrality.
///
/// # Size
/// As `checkmate-ilp`.
///
/// # Departures from the paper
/// As `checkmate-ilp`. `formulation=published` relaxes the published model; `formulation=reduced` (the
/// default) relaxes the reduced one, whose bound differs.
///
/// # Claim
/// A lower bound on the time of every schedule that `checkmate-ilp` searches, less the solver's
/// tolerance; none with `algorithm=pdlp`, whose answers are not exact enough to prove one.
///
/// # Reference
/// Checkmate (Jain et al., `MLSys` 2020), section 5.
pub struct CheckmateLp;

/// Parameter `formulation`.
pub const FORMULATION: ParameterSpec = ParameterSpec {
    name: "formulation",
    default: "reduced",
    kind: ParameterKind::Choice(&["published", "reduced"]),
    help: "which model is relaxed",
};

const ALGORITHM: ParameterSpec = ParameterSpec {
    name: "algorithm",
    default: "automatic",
    kind: ParameterKind::Choice(&["automatic", "dual-simplex", "interior-point", "pdlp"]),
    help: "how the linear program is solved",
};

impl Formulation for CheckmateLp {
    fn encode<'a>(
        &self,
        instance: &'a Instance,
        parameters: &Parameters,
        budget: Option<u64>,
    ) -> Result<Box<dyn Encoding + 'a>, MethodError> {
        let published = parameters.word("formulation") == "published";
        encode(instance, parameters, budget, published, true)
    }
}

impl Method for CheckmateLp {
    fn id(&self) -> &'static str {
        "checkmate-lp"
    }

    fn about(&self) -> About {
        About {
            title: "lower bound: the relaxation of checkmate-ilp",
            claim: Claim::LowerBound,
            claim_text: "a lower bound on every schedule in stages of the instance's order; no schedule",
            reference: "Checkmate (Jain et al., MLSys 2020), section 5",
            parameters: &[FORMULATION, ALGORITHM, WORKSPACE, SOLVER],
            budgets: BudgetUse::Used,
        }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Joint::new(instance).map(|_| ())
    }

    fn formulation(&self) -> Option<&dyn Formulation> {
        Some(self)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let program = Program::new(context)?;
        let algorithm = match context.parameters.word("algorithm") {
            "dual-simplex" => LpAlgorithm::DualSimplex,
            "interior-point" => LpAlgorithm::InteriorPoint,
            "pdlp" => LpAlgorithm::Pdlp,
            _ => LpAlgorithm::Automatic,
        };
        context.answer_each(|_, budget| {
            let found = bound(&program, budget, context.parameters.word("formulation"), algorithm)?;
            Ok(program.answer(budget, found))
        });
        Ok(())
    }
}

fn bound(
    program: &Program<'_>,
    budget: Option<u64>,
    formulation: &str,
    algorithm: LpAlgorithm,
) -> Result<Found, MethodError> {
    if let Some(mut found) = program.at_once(budget) {
        found.stages = None;
        if found.termination == Termination::Optimal {
            found.termination = Termination::BoundOnly;
        }
        return Ok(found);
    }
    let began = Instant::now();
    let (model, unit): (Model, f64) = if formulation == "published" {
        let plain = Plain::new(&program.joint, budget, program.workspace);
        let unit = plain.time_unit();
        (plain.model, unit)
    } else {
        let compact = Compact::new(&program.joint, budget, program.workspace, Rows::All);
        let unit = compact.time_unit();
        (compact.model, unit)
    };
    let build = began.elapsed();
    let request = program.request(program.time);
    let mut request = Request { relaxation: true, lp_algorithm: algorithm, ..request };
    let outcome = program.solver.solve(&model, &mut request).map_err(|error| failed(&error))?;
    let termination = match outcome.stop {
        Stop::Infeasible => Termination::Infeasible,
        Stop::TimeLimit => Termination::TimeLimit,
        Stop::Optimal => Termination::BoundOnly,
        _ => Termination::Error,
    };
    let bound = outcome.dual_bound.filter(|_| outcome.stop == Stop::Optimal);
    let bound = bound.map(|objective| program.bound(objective, unit));
    let note = format!("a bound, no schedule; {}: {}; {}", outcome.solver, outcome.raw_status, outcome.size);
    Ok(Found {
        termination,
        stages: None,
        lower_bound: bound,
        build,
        solve: std::time::Duration::from_secs_f64(outcome.solve_seconds),
        note,
    })
}
