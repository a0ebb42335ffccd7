//! Many choices of checkpoints, simulated one by one: the best of them within a budget is its answer.

use std::time::{Duration, Instant};

use remat_core::Schedule;

use crate::method::report::Progress;
use crate::method::{Answer, Claimed, Context, MethodError, Termination};

/// Choices, and what they cost.
pub struct Sweep<C> {
    choices: Vec<(C, Claimed)>,
    /// Which of two is better: the one with less.
    key: fn(&Claimed) -> (u64, u64),
    out_of_time: bool,
}

fn fits(cost: &Claimed, budget: Option<u64>) -> bool {
    budget.is_none_or(|budget| cost.peak_bytes <= budget)
}

impl<C> Sweep<C> {
    /// Simulates choices until they or the time are over; the best so far within each budget is reported.
    ///
    /// # Errors
    /// The schedule of a choice is not legal.
    pub fn new(
        context: &Context<'_>,
        deadline: Option<Instant>,
        choices: impl IntoIterator<Item = C>,
        schedule: impl Fn(&C) -> Schedule,
        key: fn(&Claimed) -> (u64, u64),
    ) -> Result<Self, MethodError> {
        let mut sweep = Self { choices: Vec::new(), key, out_of_time: false };
        for choice in choices {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                sweep.out_of_time = true;
                break;
            }
            let schedule = schedule(&choice);
            let cost = Claimed::simulated(context.instance, &schedule)?;
            for (index, &budget) in context.budgets.iter().enumerate().filter(|(_, budget)| fits(&cost, **budget)) {
                if sweep.best(budget).is_none_or(|(_, known)| key(&cost) < key(known)) {
                    context.reporter.report(index, Progress::incumbent(schedule.clone(), cost));
                }
            }
            sweep.choices.push((choice, cost));
        }
        Ok(sweep)
    }

    /// How many were simulated.
    pub fn tried(&self) -> usize {
        self.choices.len()
    }

    /// The best within a budget.
    fn best(&self, budget: Option<u64>) -> Option<&(C, Claimed)> {
        self.choices.iter().filter(|(_, cost)| fits(cost, budget)).min_by_key(|(_, cost)| (self.key)(cost))
    }

    /// Answers each budget with the best within it; words are about that, or about none. Times begin with what it took to
    /// get here.
    pub fn answer(
        &self,
        context: &Context<'_>,
        mut build: Duration,
        schedule: impl Fn(&C) -> Schedule,
        words: impl Fn(Option<&C>) -> String,
        began: Instant,
    ) {
        let mut answered = began + build;
        context.answer_each(|_, budget| {
            let best = self.best(budget);
            let termination = match best {
                _ if self.out_of_time => Termination::TimeLimit,
                Some(_) => Termination::Feasible,
                None => Termination::NotFound,
            };
            let found = best.map(|(choice, _)| schedule(choice));
            let solve = answered.elapsed();
            answered += solve;
            Ok(Answer {
                schedule: found,
                claimed: best.map(|best| best.1),
                build: std::mem::take(&mut build),
                solve,
                note: words(best.map(|best| &best.0)),
                ..Answer::without_schedule(budget, termination)
            })
        });
    }
}
