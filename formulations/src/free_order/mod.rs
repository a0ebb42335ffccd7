//! `free-order-bound`: a lower bound on the time of every legal schedule, in any order, and often the best one.
//!
//! [`graph`] is the instance and the path whose first runs are ordered alike in all schedules, [`model`] the relaxation over the
//! intervals between some of them, and [`points`] which ones: more where a solution, run as it says, does not fit. This file
//! solves one relaxation after the other.

pub mod graph;
pub mod model;
pub mod points;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use remat_core::liveness::{Compute, with_liveness};
use remat_core::{Instance, Schedule};
use remat_solvers::{Outcome, Progress, Stop};

use crate::fastsa::fit::{Changes, Fitting};
use crate::free_order::graph::Graph;
use crate::free_order::model::{Chosen, Intervals};
use crate::free_order::points::{Turn, finer, first_points, leave_buffers, middles, turns};
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Claimed, Class, Context, Method, MethodError, SkipReason};
use crate::search::clock::{Clock, Pace};
use crate::search::driver::{Ended, answer};
use crate::search::incumbent::{Incumbent, Judge, TOLERANCE};
use crate::search::separation::{Follower, Pass, Relaxation, Separated, Solver, Solving, Terms, separate};
use crate::settings;
use crate::staged::joint::is_within_reach;

/// A lower bound on the time of every legal schedule, in any order, with any number of runs and any implementations; and the best
/// schedule where a solution of the bound's relaxation is one.
///
/// # Problem
/// Bounds of other methods hold for a class: the instance's order, a chain, a number of runs. This one holds for
/// whatever the simulator accepts, transfers aside.
///
/// Take operators u_1, ..., u_K such that every implementation of each reads, directly or through others, something that
/// the one before makes. In every legal schedule they run for the *first* time in this order, since an operator runs only
/// after what it reads was made. These first runs cut the schedule into intervals: interval k ends with the first run of
/// u_k, and the last one is the rest. All other runs are free to move between the points that bracket them.
///
/// # Variables
/// All 0/1. x\[a,k\]: tensor a is resident during the first run of u_k. o\[i,p\]: the first run of operator i is with
/// implementation p, where it is in the same interval in all schedules. r\[i,p,k\]: operator i runs with implementation p in
/// interval k, in another run than that, once or more often. y\[a,k\], continuous: a is resident at the end of interval k, and
/// no such run makes it in k.
///
/// # Constraints
/// Each is a necessary condition of a legal schedule, so its schedule is a solution that costs no more.
/// 1. x\[a,k\] <= y\[a,k\] + r\[.,k\] over the runs that make a; y\[a,k\] <= x\[a,k-1\], less the run of u_(k-1) that takes
///    over a's buffer, unless the first run that makes a is in interval k; and y\[a,k\] <= 1 less any run inside k that takes it
///    over. What is resident at the end of an interval was there all the time, or was made in it.
/// 2. A run in interval k with implementation p <= x\[a,k-1\] + runs in k that make a, for each a that p reads (less the same).
/// 3. u_k runs with one implementation in interval k and not before; what that run touches is resident. What needs u_k
///    does not run before, and what u_k needs and runs once only does not run later.
/// 4. Operators that must run do: backward ones, those that update state, makers of results, and whatever those need;
///    once where the instance says so. A run that does not update state again follows one that does.
/// 5. Memory at u_k: fixed bytes, inputs, the x, the workspace; what is overwritten in place counts once.
/// 6. Memory at the first run of each operator of the path between two u. Beside what it touches, that is what was made before in
///    every schedule, is not made again in the interval, and is resident at its end. What is read in it by a first run that comes
///    later in every schedule counts likewise.
/// 7. Memory of a run at any other time: what stays from before the interval until its end (y) beside what it touches.
/// 8. [Rows of paths](../reference/search.md#the-relaxation-over-blocks), with intervals for blocks.
///
/// 6 to 8 are added where a solution violates them.
///
/// Runs of an interval are counted once, and the order within it is left open: that is what is relaxed.
/// It begins with one point, where memory is greatest if everything is kept, and adds others where a solution does not fit, or in
/// the middle of all intervals where a solution is no legal schedule.
/// What runs again in it is put off until a first run needs it, and what runs in place makes a buffer of its own where the old one
/// is read later. Where all of that stays within the budget it is a schedule, which costs what the relaxation costs unless that is slower.
///
/// Where it exceeds the budget, a short annealing changes the order alone (`fastsa`'s, 4,000 mutations for each run): what is found
/// within the budget costs what the relaxation costs, too. Else one that may change anything makes a schedule of it
/// that costs more. Then runs are put back where they were, as far as memory allows.
///
/// # Size
/// About two columns per tensor and one per implementation in each interval, where they are possible and of use. Implementations
/// that take no less time or memory than another which reads and makes the same are left out.
///
/// # Departures from the paper
/// None: the construction is this project's.
///
/// # Claim
/// A lower bound on the time of every schedule that meets the budget; `infeasible` where a relaxation has no solution, which shows that
/// there is none at all. The fastest schedule that solutions led to, and `optimal` where it costs no more than the bound.
///
/// # Reference
/// This project. The blocks of stages that `checkmate-ilp` searches, with first runs no longer tied to a stage.
pub struct FreeOrderBound;

/// Branch-and-bound nodes of the first round without a time limit; each round may use twice as many as the last.
const NODES: u64 = 50;
/// Which part of the bound a relaxation may leave open as long as what it comes to does not fit, and once it does: so little
/// that a bound that is lowered by its tolerance still proves a solution optimal.
const COARSE: f64 = 1e-4;
const FINE: f64 = TOLERANCE / 1e4;
/// Of how many parts of the time that is left one annealing of what does not fit may take one, and a relaxation leaves one.
const FITTING: u32 = 20;

impl Method for FreeOrderBound {
    fn about(&self) -> About {
        About {
            id: "free-order-bound",
            title: "the best of all schedules, in any order, or a bound on it",
            reference: "this project",
            parameters: settings![Solver],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::optimum(Class::ALL)
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        is_within_reach(instance)
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solving = Solving::new(context)?;
        let graph = Graph::new(context.instance);
        let fitting = Fitting::new(context.instance).ok();
        context.answer_each(|index, budget| {
            let began = Instant::now();
            let orders = Orders { graph: &graph, budget: budget.unwrap_or(graph.most_bytes()) };
            let incumbent = Incumbent::new(&orders, context.reporter, index, 0.0);
            let search = Search {
                instance: context.instance,
                graph: &graph,
                incumbent: &incumbent,
                fitting: fitting.as_ref(),
                solving,
                clock: Clock::start(context.limits.time),
                part: COARSE,
                note: String::new(),
            };
            answer(&incumbent, budget, search.run()?, Duration::ZERO, began.elapsed())
        });
        Ok(())
    }
}

/// Legal schedules within a budget.
struct Orders<'s> {
    graph: &'s Graph,
    budget: u64,
}

impl Judge for Orders<'_> {
    type Solution = (Schedule, Claimed);

    fn least_time(&self) -> u64 {
        self.graph.least_time()
    }

    fn time(&self, (_, claimed): &Self::Solution) -> u64 {
        claimed.time
    }

    fn admit(&self, solution: &Self::Solution) -> Result<Result<Self::Solution, String>, MethodError> {
        let bytes = solution.1.peak_bytes;
        Ok(if bytes <= self.budget { Ok(solution.clone()) } else { Err(format!("it needs {bytes}")) })
    }
}

/// The search for the bound of one budget.
struct Search<'s, 'c> {
    instance: &'s Instance,
    graph: &'s Graph,
    incumbent: &'s Incumbent<'s, Orders<'s>>,
    /// None where the instance has more than `fastsa` knows.
    fitting: Option<&'s Fitting<'c>>,
    solving: Solving,
    clock: Clock,
    /// Which part of the bound a relaxation may leave open.
    part: f64,
    note: String,
}

impl<'g> Follower<Intervals<'g>> for Search<'_, '_> {
    fn gap(&self) -> f64 {
        self.part * self.incumbent.bound() as f64
    }

    fn start(&self, _: &Intervals<'g>) -> Option<Vec<f64>> {
        None
    }

    fn hear(&mut self, relaxation: &Intervals<'g>, event: &Progress<'_>) -> ControlFlow<()> {
        event.bound.into_iter().for_each(|bound| self.incumbent.raise(relaxation.bound(bound)));
        self.incumbent.hear();
        self.incumbent.flow()
    }

    fn solved(
        &mut self,
        relaxation: &Intervals<'g>,
        outcome: &Outcome,
        _: Pass,
    ) -> Result<ControlFlow<()>, MethodError> {
        outcome.dual_bound.into_iter().for_each(|bound| self.incumbent.raise(relaxation.bound(bound)));
        Ok(ControlFlow::Continue(()))
    }
}

impl Search<'_, '_> {
    /// Takes a legal schedule if it is within the budget and faster than what was found; whether it is within the budget.
    fn offer(&self, schedule: Schedule, claimed: Claimed) -> Result<bool, MethodError> {
        let fits = claimed.peak_bytes <= self.incumbent.judge.budget;
        if fits {
            self.incumbent.offer((schedule, claimed))?;
        }
        Ok(fits)
    }

    /// Takes what a solution runs if that is a legal schedule within the budget, in some order; whether it is, and takes as long
    /// as the solution. If it is not, takes what fits and runs nearly the same.
    fn take(&self, turns: &[Vec<Turn>]) -> Result<bool, MethodError> {
        let (instance, budget) = (self.instance, self.incumbent.judge.budget);
        let mut runs: Vec<Chosen> = turns.iter().flatten().map(|turn| turn.run).collect();
        let as_solved = leave_buffers(self.graph, &mut runs);
        let implementation = |run: &Chosen| self.graph.nodes[run.at].ways[run.way].basic.implementation;
        let computes: Vec<Compute> = runs.iter().map(|run| (instance.order()[run.at], implementation(run))).collect();
        let schedule = with_liveness(instance, &computes);
        // In this order a run may lack what it reads.
        let Ok(claimed) = Claimed::simulated(instance, &schedule) else { return Ok(false) };
        let Some(fitting) = self.fitting.filter(|_| claimed.peak_bytes > budget) else {
            return Ok(self.offer(schedule, claimed)? && as_solved);
        };
        let seed = self.solving.seed;
        let anneal = |changes, schedule| fitting.anneal(changes, schedule, budget, self.clock.share(FITTING), seed);
        let Some((schedule, claimed)) = anneal(Changes::Order, (&schedule, claimed)) else { return Ok(false) };
        if claimed.peak_bytes <= budget {
            return Ok(self.offer(schedule, claimed)? && as_solved);
        }
        if let Some((schedule, claimed)) = anneal(Changes::Runs, (&schedule, claimed)) {
            self.offer(schedule, claimed)?;
        }
        Ok(false)
    }

    fn run(mut self) -> Result<Ended, MethodError> {
        let stop = match () {
            () if self.graph.base_bytes > self.incumbent.judge.budget => Stop::Infeasible,
            () if self.graph.path.is_empty() => {
                self.take(&[])?;
                Stop::Optimal
            }
            () => self.refine()?,
        };
        if stop == Stop::Infeasible {
            self.incumbent.refuted(&self.note)?;
        }
        // Nodes are limited round by round, which leaves the question open.
        Ok(Ended { stop: Some(stop).filter(|&stop| stop != Stop::NodeLimit), note: self.note })
    }

    /// Raises the bound with more and more points until the solution fits as it stands or the time is up.
    fn refine(&mut self) -> Result<Stop, MethodError> {
        let (graph, budget) = (self.graph, self.incumbent.judge.budget);
        let mut points = first_points(graph);
        let mut pace = Pace::OF_MODELS;
        let mut nodes = NODES;
        loop {
            let size = (points.len() + 1) * (graph.tensors.len() + graph.nodes.len());
            if !pace.allows(size, &self.clock) {
                return Ok(Stop::TimeLimit);
            }
            let built = Instant::now();
            let mut relaxation = Intervals::new(graph, budget, points.clone());
            let terms = Terms {
                clock: self.clock.all_but(FITTING),
                nodes: (!self.clock.is_limited()).then_some(nodes),
                from: Pass::Relaxed,
                until: Pass::Whole,
                interrupt: None,
            };
            let solving = self.solving;
            let Separated { outcome, solving: solved, .. } = separate(&solving, &mut relaxation, terms, self)?;
            pace.learn(size, built.elapsed().saturating_sub(solved));
            self.note = format!(
                "{}: {}; {} of {} points of the path; {}",
                outcome.solver,
                outcome.raw_status,
                points.len(),
                graph.path.len(),
                outcome.size
            );
            let limited = outcome.stop == Stop::NodeLimit;
            if !limited && !matches!(outcome.stop, Stop::Optimal | Stop::GapReached) {
                // What was cut short may have come to a schedule all the same.
                if let Some(values) = &outcome.incumbent {
                    self.take(&turns(graph, &relaxation, values))?;
                }
                return Ok(outcome.stop);
            }
            if self.clock.is_over() {
                return Ok(Stop::TimeLimit);
            }
            nodes = nodes.saturating_mul(2);
            let Some(values) = &outcome.incumbent else { continue };
            let turns = turns(graph, &relaxation, values);
            let fits = self.take(&turns)?;
            if self.incumbent.is_optimal() {
                return Ok(Stop::Optimal);
            }
            let mut more = Vec::new();
            if !fits {
                more = finer(graph, &relaxation, budget, values, &turns);
                // What is not legal, or exceeds the budget by what the needs of an interval do not count.
                if more.is_empty() && !limited {
                    more = middles(&relaxation);
                }
            }
            if !more.is_empty() {
                points.extend(more);
                points.sort_unstable();
                points.dedup();
            } else if !limited {
                if self.part <= FINE {
                    return Ok(outcome.stop);
                }
                self.part = FINE;
            }
        }
    }
}
