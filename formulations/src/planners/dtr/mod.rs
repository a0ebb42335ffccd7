//! `dtr`: dynamic tensor rematerialization, an online policy, on a program that is known.
//!
//! [`mod@program`] is what the policy sees, [`online`] the policy, `arena` the addresses of one of its rules. [`log`] reads the logs of
//! its authors, and [`import`] makes instances of them. This file makes programs of instances and schedules of what the policy did.

mod arena;
pub mod import;
pub mod log;
pub mod online;
pub mod program;

use remat_core::Instance;
use remat_core::liveness::{Compute, with_liveness};

use super::planner::Planner;
use crate::method::claim::Order;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Class, Context, MethodError, SkipReason};
use crate::search::sweep::{OUT_OF_TIME, Sweep, Tries};
use crate::staged::joint::Joint;
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
/// | `coop` | (c0 + cost of the classes of what is gone among what it is made from and what is made with it, each as often as it is read or made) / s |
///
/// `coop` (Zhang et al., 2023) knows addresses. A result goes into the smallest hole of one arena that it fits into, at its start. Where
/// there is none, of all runs of neighbouring storages and holes that are large enough, the one with the least sum of costs goes, of equal
/// ones the lowest.
///
/// # Constraints
/// What is read or made by an operator that waits is locked; results are locked once made. Of equal costs the tensor goes that
/// came last to those that may go (by `coop` the lowest). Without bytes, or wanted just now, it costs more than all others. The last
/// results still missing at the end of the program are made again.
///
/// # Size
/// Each decision asks all tensors that are there for their costs; further runs of more than nine times the base time end the run.
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
/// * `coop` follows `OneFlow`'s program with its defaults: no small pieces, one group. What an operator makes is placed one by one. There
///   addresses are multiples of 512, and what comes back loses its class's other members; here neither.
/// * The random choice of the paper's comparison is not here, nor is T-Control's rule, of which no program is public.
///
/// # Claim
/// Heuristic. Out of memory, or too many runs, is `not_found`: nothing is proved.
///
/// # Reference
/// Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021, and their simulator. Zhang et al., "Coop: Memory is not a
/// Commodity", `NeurIPS` 2023, and `OneFlow`, `oneflow/core/vm/remat/`.
pub struct Dtr;

setting! {
    /// which tensor goes: the one of the least cost by one of the authors' heuristics
    pub enum Heuristic("h") = Dtr { Dtr = "dtr", Eq = "eq", Local = "local", Msps = "msps", Lru = "lru", Size = "size", Coop = "coop" }
}

/// Time of further runs beyond which a run counts as thrashing, in multiples of the time of store-all.
const MOST_AGAIN: u64 = 9;

impl Planner for Dtr {
    const CLASS: Class = Class { order: Order::Given, ..Class::STAGES };
    type View<'a> = (Joint, Program);

    fn about(&self) -> About {
        About {
            id: "dtr",
            title: "what is in the way goes by a rule of thumb, what is missing is made again",
            reference: "Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021",
            parameters: settings![Heuristic, Tries],
            budgets: BudgetUse::Used,
        }
    }

    fn view(&self, instance: &Instance, _: &Parameters) -> Result<(Joint, Program), SkipReason> {
        let joint = Joint::new(instance)?;
        let program = program(instance, &joint);
        Ok((joint, program))
    }

    fn plan(&self, (joint, program): (Joint, Program), context: &Context<'_>) -> Result<(), MethodError> {
        let heuristic = context.parameters.get::<Heuristic>();
        let most_again = program.time().saturating_mul(MOST_AGAIN);
        Sweep::told(context, |bytes, clock| {
            let outcome = run(&program, heuristic, bytes, most_again, clock);
            match outcome.end {
                End::Done => Ok(with_liveness(context.instance, &computes(&joint, &outcome))),
                End::OutOfMemory => Err("ran out of memory"),
                End::Thrash => Err("took too long"),
                End::Stopped => Err(OUT_OF_TIME),
            }
        })
    }
}

/// An instance as a program: operators in its order, and each value let go when nobody can want it any more.
///
/// That is after its last reader; what cannot be made again stays for readers that may run again later.
pub fn program(instance: &Instance, joint: &Joint) -> Program {
    let mut program = Program { base: joint.base_bytes, ..Program::default() };
    let mut tensor_of = vec![None; instance.tensors().len()];
    let mut gone_after = vec![Vec::new(); joint.len()];
    for (at, value) in joint.values.iter().enumerate() {
        let made_again = repeatable(joint, value.producer);
        let reads = |&reader: &usize| joint.first(reader).reads(at);
        let last_first_read = value.readers.iter().copied().rfind(reads).unwrap_or(value.producer);
        let last = if made_again { last_first_read } else { value.last_use };
        if let Some(gone) = gone_after.get_mut(last).filter(|_| !value.result) {
            gone.push(value.tensor);
        }
    }
    for (call, operator) in joint.operators.iter().enumerate() {
        let (first, again) = (&operator.first[0], joint.again(call).filter(|_| repeatable(joint, call)));
        let mut reads: Vec<usize> = Vec::new();
        for way in [first].into_iter().chain(again) {
            let all = instance.operator(operator.id).implementations[way.implementation].reads.iter();
            for read in all.filter_map(|read| tensor_of[read.index()]) {
                if !reads.contains(&read) {
                    reads.push(read);
                }
            }
        }
        let bytes = operator.makes.iter().map(|&value| joint.values[value].bytes);
        let called = Call {
            reads,
            bytes: bytes.clone().sum(),
            workspace: again.map_or(0, |way| way.transient).max(first.transient),
            time: first.time,
            again: again.map(|way| way.time),
            makes: bytes.map(|bytes| program.storage(bytes, call)).collect(),
        };
        program.events.push(Event::Call(call));
        for (&value, &tensor) in operator.makes.iter().zip(&called.makes) {
            tensor_of[joint.values[value].tensor.index()] = Some(tensor);
            if joint.values[value].result {
                program.events.push(Event::Pin(tensor));
            }
        }
        let gone = gone_after[call].iter().filter_map(|tensor| tensor_of[tensor.index()]);
        program.events.extend(gone.map(Event::Release));
        program.calls.push(called);
    }
    program
}

/// Whether an operator may run again: it has a way to, and does not read what only it makes.
fn repeatable(joint: &Joint, call: usize) -> bool {
    joint.again(call).is_some_and(|way| !way.reads.iter().any(|&read| way.makes(read)))
}

/// The runs of the policy. Each value goes after its last reader, which is no later than when the policy let it go.
fn computes(joint: &Joint, outcome: &Outcome) -> Vec<Compute> {
    let compute = |action: &Action| match *action {
        Action::Run(call, first) => Some(joint.compute(call, !first)),
        Action::Drop(_) => None,
    };
    outcome.actions.iter().filter_map(compute).collect()
}
