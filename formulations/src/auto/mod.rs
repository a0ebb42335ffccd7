//! `auto`: the best schedule that the seconds allow, by several methods that hand their schedules on.

mod board;

use std::time::Duration;

use remat_core::format::Phase;
use remat_core::{Instance, Operator};

use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Class, Context, Limits, Method, MethodError, SkipReason};
use crate::search::clock::Clock;
use crate::{setting, settings};
use board::{Board, Role};

/// The best schedule that the seconds allow, and how far it may be from the best possible.
///
/// # Problem
/// Least time within a budget, over all schedules.
///
/// # Algorithm
/// Methods that answer at once come first: store-all, segments, Rotor's memory-persistent sequences; from 2,000 operators
/// on also the same over options of blocks (`rotor-options`), within a third of the time that is left. From the best of
/// their schedules a search with a bound goes on: Checkmate's program or, where operators have several implementations,
/// MONeT's, which contains it and begins with what Checkmate's finds in a seventh of the time. Beside it, on a thread of its
/// own, an annealing (`fastsa`, which may change the order) starts from the best schedule so far. If what it finds is the best,
/// the same program looks for the best schedule in that order. A schedule that one finds is a start of all that come
/// later, and of the neighbourhoods that are searched at the time. Everything ends when the best schedule is proved optimal
/// among the schedules that the search covers.
///
/// With a single thread, and without a time limit, one follows the other. With a single thread, where operators have several
/// implementations, `rotor-options` and a first annealing come before the search. After a proof, annealing and its order
/// have half of the time that was spent each, and at least a tenth of the limit or a second, since another order may be faster
/// than the best of the given one.
///
/// Where operators have several implementations and neither the first methods nor Checkmate's program have a schedule, the
/// given order hardly meets the budget, and annealings differ widely. Then there are three, each with another seed and
/// with its order's best schedule after it. The second begins anew. With a single thread they have half of the time.
///
/// # Size
/// From 10 to 10,000 operators; what a method cannot build in the time is left out, and said.
///
/// # Claim
/// The row of an answer names the schedules that its bound holds for, and `optimal` and `infeasible` are proved for them. A
/// schedule outside of all that a bound was proved for (in another order, say) has none: a heuristic; what was proved for
/// others is in the note.
///
/// # Reference
/// The methods' own.
pub struct Auto;

setting! {
    /// mutations of an annealing; auto: as many as its time allows, a million without a time limit
    Iterations("iterations"): auto or number from 0 to 1_000_000_000_000
}

impl Method for Auto {
    fn id(&self) -> &'static str {
        "auto"
    }

    fn about(&self) -> About {
        About {
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
        context.answer_each(|index, budget| Ok(answer(context, index, budget)));
        Ok(())
    }
}

/// Methods that answer at once, and what part of the time each may take at most.
const AT_ONCE: [(&str, u32); 4] =
    [("store-all", 6), ("linearized-greedy", 12), ("ap-greedy", 12), ("rotor-persistent", 6)];

/// Operators from which on options of blocks are planned first, and of how many parts of the time that is left that may
/// take one: a search over the whole network then finds less in all of it.
const OPTIONS: (usize, u32) = (2000, 3);

/// The method that searches for the optimum of its class. Where no operator has a choice, for its first run or for those
/// after it, MONeT's class has nothing that Checkmate's lacks.
fn search_of(context: &Context<'_>) -> &'static str {
    let chooses = context.instance.operators().iter().any(Operator::has_choice);
    let monet = || context.starts.method("monet").filter(|method| method.supports(context.instance).is_ok());
    if chooses && monet().is_some() { "monet" } else { "checkmate-ilp" }
}

/// Operators from which on an annealing takes long to meet a budget at all.
const MANY: usize = 5000;

/// Least time of an annealing after a proof, where that is less than a tenth of what is left.
const LEAST: Duration = Duration::from_secs(1);

/// Annealings, each with the best schedule in its order after it, where no schedule in the given order was at hand.
const HARD: u32 = 3;

fn answer(context: &Context<'_>, index: usize, budget: Option<u64>) -> Answer {
    let clock = Clock::start(context.limits.time);
    let board = Board::new(context, index, budget);
    let within = |clock: Clock| Limits { time: clock.left(), ..context.limits };
    for (id, parts) in AT_ONCE {
        board.run(id, &[], within(clock.share(parts)), Role::Heuristic);
    }
    if context.instance.operators().len() >= OPTIONS.0 {
        board.run("rotor-options", &[], within(clock.share(OPTIONS.1)), Role::Heuristic);
    }
    let searching = search_of(context);
    let chooses = searching == "monet";
    // With one implementation per operator first, which is fast.
    let begin = |clock: Clock| {
        if chooses && clock.is_limited() {
            board.run("checkmate-ilp", &[], within(clock.share(7)), Role::Heuristic);
        }
    };
    let at_once = board.has_schedule();
    if !at_once {
        begin(clock);
    }
    let hard = chooses && !board.has_schedule();
    let search = |clock: Clock| {
        if at_once {
            begin(clock);
        }
        board.run(searching, &[], within(clock), Role::Search);
    };
    let operators = context.instance.operators();
    let trains = operators.iter().any(|operator| operator.phase == Phase::Backward);
    let iterations = context.parameters.get::<Iterations>().map(|iterations| iterations.to_string());
    let anneal = |round: u32, clock: Clock, otherwise, role| {
        if clock.is_over() {
            return;
        }
        let iterations = iterations.as_deref().unwrap_or(otherwise);
        // Any method's name stands for the best schedule so far; where most orders are open it is a poor place to begin.
        let anew = !trains || !board.has_schedule() || (hard && round % 2 == 1);
        let start = if anew { "order" } else { "checkmate-ilp" };
        let limits = Limits { threads: 1, seed: context.limits.seed.wrapping_add(round.into()), ..within(clock) };
        board.run("fastsa", &[("start", start), ("iterations", iterations)], limits, role);
    };
    // The best schedule in the order of an annealing's.
    let keep_order = |clock: Clock, role| {
        if board.is_by("fastsa") && !clock.is_over() {
            board.run_in_best_order(searching, &[], Limits { threads: 1, ..within(clock) }, role);
        }
    };
    // Other orders may be far better than the given one.
    let orders = |clock: Clock, role| {
        let rounds = if hard { HARD } else { 1 };
        for round in 0..rounds {
            let parts = 2 * (rounds - round);
            anneal(round, clock.share(parts), "auto", role);
            keep_order(clock.share(parts - 1), role);
        }
        anneal(rounds, clock, "auto", role);
    };
    if clock.is_limited() && context.limits.threads > 1 {
        std::thread::scope(|scope| {
            let annealing = scope.spawn(|| orders(clock, Role::Heuristic));
            search(clock);
            annealing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    } else if let Some(left) = clock.left() {
        // Where there is no backward pass most orders are open, and annealing, which chooses one, finds most. Where nothing
        // is chosen, the program has annealings of its own; else it begins with a schedule as good as can be had soon.
        if chooses {
            if !hard && operators.len() < OPTIONS.0 {
                board.run("rotor-options", &[], within(clock.share(5)), Role::Heuristic);
            }
            anneal(0, clock.share(10), "auto", Role::Heuristic);
        }
        let left = clock.left().unwrap_or(left);
        let program = match trains {
            false if operators.len() < MANY => left / 4,
            false => left * 2 / 3,
            true if hard => left / 2,
            true => left * 7 / 8,
        };
        search(clock.at_most(program));
        if board.is_settled() {
            let least = clock.share(10).at_most(LEAST).left().unwrap_or(LEAST);
            let spent = clock.elapsed();
            anneal(0, clock.at_most(least.max(spent / 2)), "auto", Role::Afterwards);
            keep_order(clock.at_most(least.max(spent / 2)), Role::Afterwards);
        } else {
            orders(clock, Role::Afterwards);
        }
    } else {
        // What is found must not depend on who is first.
        search(clock);
        anneal(0, clock, "1000000", Role::Heuristic);
    }
    board.answer(clock)
}
