//! `checkmate-ilp`: the optimal schedule in the instance's order.

use remat_core::Instance;

use crate::checkmate::encoding::encode;
use crate::checkmate::joint::Joint;
use crate::checkmate::program::{Program, SOLVER, WORKSPACE};
use crate::checkmate::stages::Stages;
use crate::checkmate::strategies::Question;
use crate::chen;
use crate::method::formulation::{Encoding, Formulation};
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};
use crate::method::report::Silent;
use crate::method::{About, Answer, BudgetUse, Claim, Context, Limits, Method, MethodError, SkipReason};

/// Checkmate's integer linear program.
///
/// # Problem
/// The joint graph of n operators in a fixed order, unrolled into n stages: stage t ends with the first
/// run of operator t, and runs each operator at most once, in order. Least total time within a budget.
///
/// # Variables
/// R\[t,i\] in {0,1}: operator i runs in stage t. S\[t,a\] in {0,1}: value a is kept into stage t.
/// FREE\[t,a,k\] in {0,1}: a is dropped in stage t after k. U\[t,k\]: memory during k in stage t, bytes.
///
/// # Constraints
/// Dependencies (1b), retention (1c, 1d), frontier-advancing stages (8), the two inequalities of FREE
/// and the recursion of U, in `plain.rs`, one function each.
///
/// # Size
/// O(n (n + m)) columns, rows and nonzeros, m the number of edges.
///
/// # Departures from the paper
/// * S and FREE are per tensor, not per operator: an operator may make several. With one output each
///   the formulation is the published one.
/// * Inputs stay; gradients of parameters and outputs stay from the last time they are made to the end
///   (the paper counts 2 `M_param` throughout); what nobody reads is there during its operator only.
/// * The workspace of an operator counts (`workspace=on`); as published it does not (`workspace=off`),
///   and then a schedule may exceed its budget, which the judge says.
/// * Backward operators run once unless the instance says otherwise; an operator that updates state
///   runs again in its `recompute` implementation. Each operator uses the fastest implementation.
/// * No noise on the costs; a budget below what one operator needs is refused without a solver, and one
///   that store-all meets is answered by it.
/// * `strategy=reduced` solves an equivalent smaller model, see `compact.rs`; `strategy=lazy` (the
///   default) adds its memory rows when a solution violates them; `strategy=plain` is the published one.
///   All three have the same optimum, which is tested.
///
/// # Claim
/// Optimal among schedules in such stages with one implementation per operator, within the solver's
/// tolerances (10^-6 relative to the scaled rows; the gap is a parameter). Any schedule that runs each
/// stage's operators in order and at most once is such a schedule.
///
/// # Reference
/// Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", `MLSys`
/// 2020, sections 4.2 to 4.7.
pub struct CheckmateIlp;

const GAP: ParameterSpec = ParameterSpec {
    name: "gap-ppm",
    default: "0",
    kind: ParameterKind::Integer { min: 0, max: 1_000_000 },
    help: "relative gap at which to stop, in parts per million of the time beyond one run of each operator",
};

const STRATEGY: ParameterSpec = ParameterSpec {
    name: "strategy",
    default: "coarse",
    kind: ParameterKind::Choice(&["plain", "reduced", "lazy", "coarse"]),
    help: "plain: as published; reduced: equivalent and smaller; lazy: memory rows when violated; coarse: first blocks of stages",
};

const START: ParameterSpec = ParameterSpec {
    name: "start",
    default: "none",
    kind: ParameterKind::Choice(&["none", "chain", "segments"]),
    help: "chain: start from rotor-persistent's schedule where it fits the stages; \
           segments: from the better one of ap-greedy's and linearized-greedy's (not with strategy=plain)",
};

impl Formulation for CheckmateIlp {
    fn encode<'a>(
        &self,
        instance: &'a Instance,
        parameters: &Parameters,
        budget: Option<u64>,
    ) -> Result<Box<dyn Encoding + 'a>, MethodError> {
        let published = parameters.word("strategy") == "plain";
        encode(instance, parameters, budget, published, false)
    }
}

impl Method for CheckmateIlp {
    fn id(&self) -> &'static str {
        "checkmate-ilp"
    }

    fn about(&self) -> About {
        About {
            title: "optimal schedule in the instance's order, by integer programming",
            claim: Claim::FixedOrder,
            claim_text: "optimal among schedules in stages of the instance's order, one implementation per operator",
            reference: "Checkmate (Jain et al., MLSys 2020), equations 1 to 9",
            parameters: &[STRATEGY, WORKSPACE, SOLVER, GAP, START],
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
        let mut program = Program::new(context)?;
        program.gap = context.parameters.integer("gap-ppm").unwrap_or(0) as f64 * 1e-6;
        let strategy = context.parameters.word("strategy");
        let starts = match context.parameters.word("start") {
            "chain" if strategy != "plain" => chain_starts(context, &program.joint),
            "segments" if strategy != "plain" => chen::fastest_within(context.instance, context.budgets)?,
            _ => vec![None; context.budgets.len()],
        };
        context.answer_each(|index, budget| {
            let start = starts[index].as_ref().filter(|stages| {
                let peak = stages.claim(&program.joint, program.workspace).peak_bytes;
                budget.is_none_or(|budget| peak <= budget)
            });
            let question = Question { index, budget, start, time: program.time };
            let found = program.optimise(&question, strategy)?;
            Ok(program.answer(budget, found))
        });
        Ok(())
    }
}

/// The schedules of `rotor-persistent`, in stages where they fit.
pub(crate) fn chain_starts(context: &Context<'_>, joint: &Joint) -> Vec<Option<Stages>> {
    let none = || vec![None; context.budgets.len()];
    let rotor = crate::chain::persistent::RotorPersistent;
    let Ok(parameters) = Parameters::new(rotor.about().parameters, &std::collections::BTreeMap::new()) else {
        return none();
    };
    if rotor.supports(context.instance).is_err() {
        return none();
    }
    let limits = Limits { time: None, ..context.limits };
    let context = Context { parameters: &parameters, limits, reporter: &Silent, ..*context };
    let Ok(answers) = rotor.answers(&context) else { return none() };
    let lift = |answer: Answer| Stages::lift(context.instance, joint, &answer.schedule?);
    answers.into_iter().map(lift).collect()
}
