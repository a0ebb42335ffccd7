//! `dtr`: dynamic tensor rematerialization, an online policy, on a program that is known.
//!
//! [`mod@program`] is what the policy sees, [`online`] the policy, and [`log`] reads the logs of its authors. This file makes
//! programs of instances and schedules of what the policy did.

pub mod log;
pub mod online;
pub mod program;

use remat_core::plan::Plan;
use remat_core::{Instance, Schedule, Step};

use super::sweep::Sweep;
use crate::method::claim::Order;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use crate::{setting, settings};
use online::{Action, End, Outcome, run};
use program::{Call, Event, Program};

/// Dynamic tensor rematerialization: what is in the way goes, and what is missing is made again.
///
/// # Problem
/// Operators come in the instance's order. Before one runs, what it reads and is missing is made again, one by one and in the
/// order of its reads, by the same rule. While there is no room for it, the tensor of the least cost h goes. What nobody
/// reads any more goes at once. Nothing is known of what comes later but that.
///
/// # Variables
/// Per tensor: c0 the time of its operator, m its bytes, s the time since it was last wanted. `h` is the cost:
///
/// | h | cost |
/// |---|---|
/// | `dtr` | (c0 + time of all that is gone and reached through what is gone, above and below) / (m s) |
/// | `eq` | (c0 + cost of the classes of what is gone right beside it) / (m s); what goes joins the classes beside it, what comes back takes its time out of its class and splits nothing |
/// | `local` | c0 / (m s) |
/// | `msps` | (c0 + time of what is gone above) / m |
/// | `lru` | when it was last wanted |
/// | `size` | 1 / m |
///
/// # Constraints
/// What is read or made by an operator that waits is locked; results are locked once made. Of equal costs the tensor goes that
/// came last to those that may go. Without bytes, or wanted just now, it costs more than all others. The last
/// results still missing at the end of the program are made again.
///
/// # Size
/// Each decision asks all tensors that are there for their costs; runs beyond `overhead-limit` times the base time end the run.
///
/// # Departures from the paper
/// * The paper decides while the program runs, and its costs are measured; here both are the instance's.
/// * Workspace needs room too, and implementations are fixed. The authors' simulator has neither.
/// * What must not run again (by default every backward operator) makes what may not go while somebody will read it. The authors'
///   simulator repeats backward operators too; an imported log marks all as recomputable.
/// * The budget is the policy's only knob, and more memory may be worse for it: with the authors' log of ResNet-32, `dtr` gets
///   through at 9.8 to 10.1 % of the peak, runs out of memory from 10.2 to 10.6 %, and gets through again. So it is run
///   at `tries` budgets, from the given one down in steps of 1 % of it, and the fastest schedule counts. One
///   try is the paper's policy.
/// * The random choice of the paper's comparison is not here, nor are Coop's and T-Control's rules: the first needs
///   addresses, and of the second no program is public.
///
/// # Claim
/// Heuristic. Out of memory, or too many runs, is `not_found`: nothing is proved.
///
/// # Reference
/// Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021, and their simulator.
pub struct Dtr;

setting! {
    /// which tensor goes: the one of the least cost by one of the authors' heuristics
    pub enum Heuristic("h") = Dtr { Dtr = "dtr", Eq = "eq", Local = "local", Msps = "msps", Lru = "lru", Size = "size" }
}

setting! {
    /// total time beyond which a run counts as thrashing, in multiples of the time of store-all
    pub OverheadLimit("overhead-limit"): number from 1 to 1_000 = 10
}

setting! {
    /// budgets that are tried, from the given one down in steps of 1 % of it
    pub Tries("tries"): number from 1 to 100 = 20
}

impl Method for Dtr {
    fn id(&self) -> &'static str {
        "dtr"
    }

    fn about(&self) -> About {
        About {
            title: "what is in the way goes by a rule of thumb, what is missing is made again",
            reference: "Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021",
            parameters: settings![Heuristic, Tries, OverheadLimit],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(Class { order: Order::Given, ..Class::STAGES })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        crate::staged::joint::Joint::new(instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let plan = Plan::fastest(context.instance);
        let program = program(context.instance, &plan);
        let (heuristic, tries) = (context.parameters.get::<Heuristic>(), context.parameters.get::<Tries>());
        let most_again = program.time().saturating_mul(context.parameters.get::<OverheadLimit>() - 1);
        for (index, &budget) in context.budgets.iter().enumerate() {
            let mut sweep = Sweep::over(context, index..index + 1);
            let mut ends = Vec::new();
            for percent in 0..budget.map_or(1, |_| tries) {
                if sweep.is_over() {
                    break;
                }
                let bytes = budget.map_or(u64::MAX, |budget| budget - (budget / 100).saturating_mul(percent));
                let outcome = run(&program, heuristic, bytes, most_again, sweep.clock());
                if outcome.end == End::Stopped && sweep.is_over() {
                    break;
                }
                ends.push(outcome.end);
                if outcome.end == End::Done {
                    let words = if percent > 0 { format!("told of {bytes} bytes") } else { String::new() };
                    sweep.offer(&schedule(context.instance, &plan, &outcome), &words)?;
                }
            }
            let count = |end| ends.iter().filter(|other| **other == end).count();
            let (done, full, slow) = (count(End::Done), count(End::OutOfMemory), count(End::Thrash));
            let words =
                format!("{done} of {} runs got through, {full} ran out of memory, {slow} took too long", ends.len());
            sweep.answer(&words);
        }
        Ok(())
    }
}

/// An instance as a program: operators in its order, and each tensor let go after its last reader.
pub fn program(instance: &Instance, plan: &Plan) -> Program {
    let mut program = Program { base: instance.fixed_bytes() + instance.input_bytes(), ..Program::default() };
    let mut tensor_of = vec![None; instance.tensors().len()];
    let mut last = vec![None; instance.tensors().len()];
    for &id in instance.order() {
        let operator = instance.operator(id);
        let way = plan.saving[id.index()];
        operator.makes(way).for_each(|made| last[made.index()] = Some(id));
        operator.implementations[way].reads.iter().for_each(|read| last[read.index()] = Some(id));
    }
    for &id in instance.order() {
        let operator = instance.operator(id);
        let (first, again) = (plan.saving[id.index()], plan.saving_again[id.index()]);
        let call = program.calls.len();
        let implementation = &operator.implementations[first];
        let reads = implementation.reads.iter().filter_map(|read| tensor_of[read.index()]).collect();
        let made: Vec<_> = operator.makes(first).collect();
        let mut makes = Vec::new();
        for &tensor in &made {
            let storage = program.storage(instance.tensor(tensor).bytes, call);
            tensor_of[tensor.index()] = Some(storage);
            makes.push(storage);
        }
        // What makes nothing is called for a storage of no bytes, which goes at once.
        let nothing = made.is_empty().then(|| program.storage(0, call));
        makes.extend(nothing);
        let again = again.map(|again| &operator.implementations[again]);
        program.calls.push(Call {
            reads,
            bytes: made.iter().map(|&tensor| instance.tensor(tensor).bytes).sum(),
            workspace: again.map_or(0, |again| again.workspace_bytes).max(implementation.workspace_bytes),
            time: implementation.time,
            again: again.map(|again| again.time),
            makes,
        });
        program.events.push(Event::Call(call));
        program.events.extend(nothing.map(Event::Release));
        for &tensor in made.iter().chain(&implementation.reads) {
            let Some(index) = tensor_of[tensor.index()] else { continue };
            if instance.is_result(tensor) && made.contains(&tensor) {
                program.events.push(Event::Pin(index));
            } else if last[tensor.index()] == Some(id) && !instance.is_result(tensor) {
                program.events.push(Event::Release(index));
            }
        }
    }
    program
}

/// What the policy did as a schedule; storages and tensors of the program are in the order in which operators make them.
fn schedule(instance: &Instance, plan: &Plan, outcome: &Outcome) -> Schedule {
    let mut tensors = Vec::new();
    for &id in instance.order() {
        let before = tensors.len();
        tensors.extend(instance.operator(id).makes(plan.saving[id.index()]).map(Some));
        if tensors.len() == before {
            tensors.push(None);
        }
    }
    let step = |action: &Action| match *action {
        Action::Run(call, first) => {
            let operator = instance.order()[call];
            let again = plan.saving_again[operator.index()].filter(|_| !first);
            Some(Step::Compute { operator, implementation: again.unwrap_or(plan.saving[operator.index()]) })
        }
        Action::Drop(storage) => tensors[storage].map(Step::Free),
    };
    Schedule::new(outcome.actions.iter().filter_map(step).collect())
}
