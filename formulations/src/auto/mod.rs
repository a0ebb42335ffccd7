//! `auto`: the best schedule that the seconds allow, by several methods that hand their schedules on.

mod board;
mod order;

use std::time::Duration;

use remat_core::format::Phase;
use remat_core::{Instance, Operator};

use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Class, Context, Limits, Method, MethodError, SkipReason, Starts};
use crate::search::clock::Clock;
use crate::{setting, settings};
use board::{Board, Role};
use order::large_results_last;

/// The best schedule that the seconds allow, and how far it may be from the best possible.
///
/// # Problem
/// Least time within a budget, over all schedules.
///
/// # Algorithm
/// Methods that answer at once come first: store-all, segments, Rotor's memory-persistent sequences; from 4,000 operators
/// on also the same over options of blocks (`rotor-options`), within a third of the time that is left. Networks with
/// a backward pass and one implementation of each operator give `free-order-bound` a tenth of the time, from 4,000 operators on
/// a third. Where that is enough, it has the best of all schedules, and nothing follows. From the best schedule so far a search
/// with a bound goes on: Checkmate's program or, where operators have several implementations, MONeT's, which contains it. That begins with
/// `rotor-options`, a first annealing and what Checkmate's finds in a seventh of the time. After MONeT's, where it has more than five
/// seconds, `free-order-bound` has a sixth of the time. Then an annealing (`fastsa`,
/// which may change the order) starts from the best schedule so far. Where the best schedule is in another order, the same
/// program looks for the best one in that order. One follows the other, each with all threads, and a schedule that one finds is a start
/// of all that come later. Where there is no backward pass most orders are open: the search has a sixth of the time (from 5,000
/// operators on two thirds), and there are two annealings, each with its order's best schedule after it. The first begins anew.
///
/// After a proof, or where the given order hardly meets the budget, the program also searches the order in which large
/// results come last: weight gradients that take more memory than what they are made from.
///
/// Another order may be faster than the best of the given one. So after a proof `free-order-bound` is asked once more. If it
/// does not show that there is none, this search, an annealing, and the search of the annealing's order go on. Each has half
/// of the time that was spent, and at least a tenth of the limit or a second; `free-order-bound` has up to eight times as
/// much. Where its first schedule is better than any of the given order, the search ends there, and it has half of the time that is
/// left. Without a time limit a proof ends everything.
///
/// Where operators have several implementations and neither the first methods nor Checkmate's program have a schedule, the
/// given order hardly meets the budget, and annealings differ widely. Then there are three, each with another seed and
/// with its order's best schedule after it. The second begins anew. They have half of the time. Once a short one has missed
/// the budget, the next has nine tenths of the time that is left.
///
/// # Size
/// From 10 to 20,000 operators; what a method cannot build in the time is left out, and said.
///
/// # Claim
/// The row of an answer names the schedules that its bound holds for, and `optimal` and `infeasible` are proved for them: of
/// several bounds the highest, and all schedules where that is as high as another. A schedule outside of all that a bound was
/// proved for (in another order, say) has none: a heuristic; what was proved for others is in the note.
///
/// # Reference
/// The methods' own.
pub struct Auto;

setting! {
    /// mutations of an annealing; auto: as many as its time allows, a million without a time limit
    Iterations("iterations"): auto or number from 0 to 1_000_000_000_000
}

impl Method for Auto {
    fn about(&self) -> About {
        About {
            id: "auto",
            title: "the best schedule that the seconds allow, by several methods",
            reference: "the methods' own",
            parameters: settings![Iterations],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(Class::ALL)
    }

    fn supports(&self, _: &Instance) -> Result<(), SkipReason> {
        Ok(())
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        context.answer_each(|index, budget| Ok(Work::new(context, index, budget).answer()));
        Ok(())
    }
}

/// Methods that answer at once, with their settings, and what part of the time each may take at most. Of 500 segment sizes
/// `linearized-greedy` tries 100: on thousands of operators all of them take most of a second. `rotor-persistent` hardly has a
/// better schedule where it loses less than 2 %.
const AT_ONCE: [(&str, Settings, u32); 3] = [
    ("linearized-greedy", &[("settings", "100")], 12),
    ("ap-greedy", &[], 12),
    ("rotor-persistent", &[("loss", "20000")], 6),
];

/// Settings of a method.
type Settings = &'static [(&'static str, &'static str)];

/// The method that searches where operators have several implementations.
const MONET: &str = "monet";

/// The method that bounds all schedules.
const BOUND: &str = "free-order-bound";

/// Operators from which on options of blocks are planned first, and of how many parts of the time that is left that, and then
/// the bound on all schedules, may take one each: a search over the whole network then finds less in all of it.
const OPTIONS: (usize, u32) = (4000, 3);

/// Operators from which on an annealing takes long to meet a budget at all.
const MANY: usize = 5000;

/// Time for a search among implementations from which on all schedules have a part of it: in less they lead to nothing.
const LONG: Duration = Duration::from_secs(5);

/// Least time of an annealing after a proof, where that is less than a tenth of what is left.
const LEAST: Duration = Duration::from_secs(1);

/// Annealings, each with the best schedule in its order after it, where the given order hardly meets the budget.
const ROUNDS: u32 = 3;

/// The same where there is no backward pass.
const ROUNDS_WITHOUT_BACKWARD: u32 = 2;

/// One budget.
struct Work<'a> {
    context: &'a Context<'a>,
    board: Board<'a>,
    clock: Clock,
    /// The method that searches for the optimum of its class.
    searching: &'static str,
    /// Whether there is a backward pass.
    trains: bool,
    /// Whether the methods that answer at once have a schedule.
    at_once: bool,
    /// Whether nothing that chooses no implementation has a schedule in the given order.
    is_hard: bool,
}

impl<'a> Work<'a> {
    /// Begins with what answers at once.
    fn new(context: &'a Context<'a>, index: usize, budget: Option<u64>) -> Self {
        let operators = context.instance.operators();
        // Where no operator has a choice, for its first run or for those after it, MONeT's class has nothing that Checkmate's
        // lacks.
        let monet = || context.starts.method(MONET).filter(|method| method.supports(context.instance).is_ok());
        let chooses = operators.iter().any(Operator::has_choice) && monet().is_some();
        let mut work = Self {
            context,
            board: Board::new(context, index, budget),
            clock: Clock::start(context.limits.time),
            searching: if chooses { MONET } else { "checkmate-ilp" },
            trains: operators.iter().any(|operator| operator.phase == Phase::Backward),
            at_once: false,
            is_hard: false,
        };
        work.run("store-all", work.clock.share(6), Role::Heuristic);
        let many = operators.len() >= OPTIONS.0;
        if many {
            work.run("rotor-options", work.clock.share(OPTIONS.1), Role::Heuristic);
        }
        for (id, settings, parts) in AT_ONCE.into_iter().filter(|_| !many || !work.board.has_schedule()) {
            work.board.run(id, settings, work.limits(work.clock.share(parts)), Role::Heuristic);
        }
        work.at_once = work.board.has_schedule();
        if !work.at_once {
            work.begin();
        }
        work.is_hard = chooses && !work.board.has_schedule();
        work
    }

    /// Whether the search chooses among implementations.
    fn chooses(&self) -> bool {
        self.searching == MONET
    }

    fn limits(&self, clock: Clock) -> Limits {
        Limits { time: clock.left(), ..self.context.limits }
    }

    fn run(&self, id: &'static str, clock: Clock, role: Role) {
        self.board.run(id, &[], self.limits(clock), role);
    }

    /// With one implementation per operator first, which is fast.
    fn begin(&self) {
        if self.chooses() && self.clock.is_limited() {
            self.run("checkmate-ilp", self.clock.share(7), Role::Heuristic);
        }
    }

    fn search(&self, clock: Clock) {
        if self.at_once {
            self.begin();
        }
        self.run(self.searching, clock, Role::Search);
    }

    /// Looks for a schedule in any order, whatever is proved of the given one.
    fn anneal(&self, round: u32, clock: Clock) {
        if clock.is_over() {
            return;
        }
        let asked = self.context.parameters.get::<Iterations>();
        let otherwise = if clock.is_limited() { "auto" } else { "1000000" };
        let iterations = asked.map_or_else(|| otherwise.to_owned(), |iterations| iterations.to_string());
        // Any method's name stands for the best schedule so far. Where most orders are open it is a poor place to begin at once.
        let open = !self.trains && round == 0;
        let anew = open || !self.board.has_schedule() || (self.is_hard && round % 2 == 1);
        let start = if anew { "order" } else { "checkmate-ilp" };
        let seed = self.context.limits.seed.wrapping_add(round.into());
        let limits = Limits { seed, ..self.limits(clock) };
        self.board.run("fastsa", &[("start", start), ("iterations", &iterations)], limits, Role::Afterwards);
    }

    /// The best schedule in the order of one that is in another.
    fn keep_order(&self, clock: Clock) {
        let is_reordered = self.board.is_by("fastsa") || self.board.is_by(BOUND);
        let best = self.board.known().filter(|_| is_reordered && !clock.is_over());
        if let Some(best) = best {
            let instance = self.context.instance.in_order_of(&best);
            self.board.run_in_order(&instance, "another order", self.searching, self.limits(clock));
        }
    }

    /// The order in which large results come last.
    fn results_last(&self, clock: Clock) {
        if let Some(instance) = large_results_last(self.context.instance, self.board.budget.unwrap_or(u64::MAX)) {
            self.board.run_in_order(&instance, "the order with large results last", self.searching, self.limits(clock));
        }
    }

    /// Other orders, which may be far better than the given one.
    fn orders(&self) {
        let rounds = match (self.is_hard, self.trains) {
            (true, _) => ROUNDS,
            (false, true) => 1,
            (false, false) => ROUNDS_WITHOUT_BACKWARD,
        };
        for round in 0..rounds {
            let parts = 2 * (rounds - round);
            // A budget that a short annealing misses, a long one may meet.
            let is_long = (self.chooses() || round > 0) && !self.board.has_schedule();
            self.anneal(round, if is_long { self.clock.all_but(10) } else { self.clock.share(parts) });
            self.keep_order(self.clock.share(parts - 1));
        }
        self.anneal(rounds, self.clock);
    }

    /// One method after the other, each with all threads.
    fn within_the_limit(&self) {
        let operators = self.context.instance.operators().len();
        // Where nothing is chosen, the program has annealings of its own; else it begins with a schedule as good as can be
        // had soon. Then a tenth of the time is not enough for the best of all schedules, and its turn comes later.
        if self.chooses() {
            if !self.is_hard && operators < OPTIONS.0 {
                self.run("rotor-options", self.clock.share(5), Role::Heuristic);
            }
            self.anneal(0, self.clock.share(10));
        } else if self.trains {
            // Among thousands of operators its first solution takes long, and is then often the best of all.
            let parts = if operators < OPTIONS.0 { 10 } else { OPTIONS.1 };
            self.run(BOUND, self.clock.share(parts), Role::Bound);
        }
        // Where there is no backward pass most orders are open, and annealing, which chooses one, finds most.
        let left = self.clock.left().unwrap_or_default();
        let bounds_later = self.trains && self.chooses() && !self.is_hard && left > LONG;
        self.search(self.clock.at_most(match self.trains {
            false if operators < MANY => left / 6,
            false => left * 2 / 3,
            true if self.is_hard => left / 2,
            true if bounds_later => left * 2 / 3,
            true => left * 7 / 8,
        }));
        if bounds_later && !self.board.is_settled() {
            self.run(BOUND, self.clock.share(2), Role::Bound);
        }
        if self.board.is_settled() {
            let least = self.clock.share(10).at_most(LEAST).left().unwrap_or(LEAST);
            let time = least.max(self.clock.elapsed() / 2);
            self.run(BOUND, self.clock.share(3).at_most(8 * time), Role::Bound);
            self.results_last(self.clock.at_most(time));
            self.anneal(0, self.clock.at_most(time));
            self.keep_order(self.clock.at_most(time));
        } else {
            // One in another order is better than any of the given one, and may be the only one.
            if !self.board.has_schedule() {
                self.run(BOUND, self.clock.share(4), Role::Bound);
            } else if self.board.is_by(BOUND) && self.clock.progress() < 0.5 {
                self.run(BOUND, self.clock.share(2), Role::Bound);
            }
            if self.is_hard || !self.board.has_schedule() {
                self.results_last(self.clock.share(4));
            }
            self.orders();
        }
    }

    fn answer(&self) -> Answer {
        if self.clock.is_limited() {
            self.within_the_limit();
        } else {
            // What is found must not depend on the clock.
            self.search(self.clock);
            if !self.board.is_settled() {
                self.anneal(0, self.clock);
            }
        }
        self.board.answer(self.clock)
    }
}
