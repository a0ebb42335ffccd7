//! `tw-remat`: schedules from a tree decomposition, and what memory is left for.
//!
//! `decomposition` balances a tree decomposition of the graph, `recursion` runs the graph along it in little memory, and
//! `passes` fills the memory that there is. Knows no program that online policies see, and no solver.

mod decomposition;
mod passes;
mod recursion;

use remat_core::Instance;
use remat_core::liveness::{Compute, with_liveness};

use super::planner::Planner;
use crate::method::claim::Order;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Class, Context, MethodError, SkipReason};
use crate::search::sweep::{OUT_OF_TIME, Sweep, Tries};
use crate::settings;
use crate::staged::graph::ascending;
use crate::staged::joint::{self, Joint};

/// Rematerialization along a balanced tree decomposition, then passes that keep what there is room for.
///
/// # Problem
/// Forward and backward pass are one graph. A bag of its tree decomposition separates the rest into parts. To make some
/// operators' results, those of the bag are made in topological order and kept; what each of them reads from the parts is made by the same
/// rule within the part, and dropped as soon as it has run. So only bags on one path of the tree are kept at any time.
///
/// # Variables
/// * A tree decomposition: vertices are eliminated by (missing edges among the neighbours, neighbours, position), the least first, until
///   the rest is a clique. Its root is the bag that leaves the smallest largest part, and so on in each part.
/// * A sequence of runs, from the recursion.
/// * Per pass what is there, and a list of what may go, by time / bytes.
///
/// # Constraints
/// Six times: the sequence is gone through within the budget. A result that is let go stays on the list; when there is no room
/// for the next, the one of the least time per byte goes, first of all what nobody wants any more. A run whose result is still
/// there is left out. Then runs that nobody reads are left out, and results go after their last readers.
///
/// # Size
/// The sequence has up to n (w + 2)^(log n) runs for n operators and bags of w; beyond 4 million the method gives up. The budgets share it.
///
/// # Departures from the paper
/// * The paper's program is not public; this follows a public one in Haskell that its author wrote for TensorFlow's graphs.
/// * What may not run again, by default every backward operator, runs when it is first wanted and stays while somebody will read it. Where
///   nothing reads its result within the graph (a parameter's gradient), it runs as soon as all that it reads is there. The Haskell
///   program repeats gradients too, and this method does where the instance allows it.
/// * Where nothing may go, the Haskell program exceeds the budget; such a schedule counts for the budgets that it meets. It counts no
///   workspace; here it counts while its operator runs.
/// * `HiRemate`'s comparison gives the program bytes read and written for times. Here times are the instance's.
/// * More memory may be worse for the passes: they are told of `tries` budgets, from the given one down in steps of 1 % of
///   it, and the fastest schedule counts.
///
/// # Claim
/// Heuristic. The order is any that the graph allows.
///
/// # Reference
/// Kumar, Purohit, Svitkina, Vee, Wang, "Efficient Rematerialization for Deep Networks", `NeurIPS` 2019.
pub struct TwRemat;

impl Planner for TwRemat {
    const CLASS: Class = Class { order: Order::Free, ..Class::STAGES };
    type View<'a> = Joint;

    fn about(&self) -> About {
        About {
            id: "tw-remat",
            title: "runs along a balanced tree decomposition, then keeps what there is room for",
            reference: "Kumar et al., Efficient Rematerialization for Deep Networks, NeurIPS 2019",
            parameters: settings![Tries],
            budgets: BudgetUse::Used,
        }
    }

    fn view(&self, instance: &Instance, _: &Parameters) -> Result<Joint, SkipReason> {
        joint::is_within_reach(instance)?;
        Joint::new(instance)
    }

    fn plan(&self, joint: Joint, context: &Context<'_>) -> Result<(), MethodError> {
        let graph = Operators::new(&joint);
        let mut made = None;
        Sweep::told(context, |bytes, clock| {
            // The budgets share the sequence, unless the time did not last for it.
            let known = made.take().filter(|made| *made != Err(OUT_OF_TIME));
            let made = made.insert(known.unwrap_or_else(|| recursion::sequence(&graph, clock)));
            let sequence = made.as_ref().map_err(|&why| why)?;
            let limit = bytes.saturating_sub(joint.base_bytes);
            let kept = passes::keep(&graph, sequence, limit, clock)?;
            Ok(with_liveness(context.instance, &graph.computes(&kept)))
        })
    }
}

/// The graph of operators: a run makes all results of one.
struct Operators<'a> {
    joint: &'a Joint,
    /// By operator, those whose results it reads, ascending.
    reads: Vec<Vec<usize>>,
    /// By operator, those that read its results, ascending.
    readers: Vec<Vec<usize>>,
}

impl<'a> Operators<'a> {
    fn new(joint: &'a Joint) -> Self {
        let mut graph = Self { joint, reads: Vec::with_capacity(joint.len()), readers: vec![Vec::new(); joint.len()] };
        for (at, operator) in joint.operators.iter().enumerate() {
            let producers = operator.reads.iter().map(|&value| joint.values[value].producer);
            let reads = ascending(producers.filter(|&read| read != at));
            for &read in &reads {
                graph.readers[read].push(at);
            }
            graph.reads.push(reads);
        }
        graph
    }

    fn len(&self) -> usize {
        self.reads.len()
    }

    /// Whether it must not run again.
    fn once(&self, operator: usize) -> bool {
        self.joint.again(operator).is_none()
    }

    /// Whether it has to run for its own sake: its results are wanted at the end, nobody reads them, or it may not be left out.
    fn wanted(&self, operator: usize) -> bool {
        let result = |&value: &usize| self.joint.values[value].result;
        self.once(operator)
            || self.readers[operator].is_empty()
            || self.joint.operators[operator].makes.iter().any(result)
    }

    /// Runs with their implementations.
    fn computes(&self, sequence: &[usize]) -> Vec<Compute> {
        let mut ran = vec![false; self.len()];
        sequence.iter().map(|&at| self.joint.compute(at, std::mem::replace(&mut ran[at], true))).collect()
    }
}
