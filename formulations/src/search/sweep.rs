//! A knob and what comes of its values, simulated one by one: the best schedule within each budget.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use remat_core::Schedule;

use super::clock::Clock;
use crate::method::report::Progress;
use crate::method::{Answer, Claimed, Context, MethodError, Termination};
use crate::setting;

/// What [`Sweep::told`] hears of a run that the time did not last for.
pub const OUT_OF_TIME: &str = "ran out of time";

setting! {
    /// budgets that are tried, from the given one down in steps of 1 % of it
    pub Tries("tries"): number from 1 to 100 = 20
}

/// The best schedule for each budget among those that were offered.
pub struct Sweep<'a> {
    context: &'a Context<'a>,
    clock: Clock,
    /// Time before the first schedule.
    build: Duration,
    /// Of two schedules the one with less counts.
    key: fn(Claimed) -> (u64, u64),
    /// Positions of the budgets that it answers.
    answers: Range<usize>,
    /// By position among them.
    best: Vec<Option<Best>>,
    tried: usize,
    out_of_time: bool,
}

struct Best {
    schedule: Schedule,
    cost: Claimed,
    words: String,
}

impl<'a> Sweep<'a> {
    /// One sweep that answers all budgets; the time runs from now.
    pub fn new(context: &'a Context<'a>) -> Self {
        Self::over(context, 0..context.budgets.len())
    }

    /// One that answers the budgets at some positions.
    pub fn over(context: &'a Context<'a>, answers: Range<usize>) -> Self {
        Self {
            context,
            clock: Clock::start(context.limits.time),
            build: Duration::ZERO,
            key: |cost| (cost.time, cost.peak_bytes),
            best: answers.clone().map(|_| None).collect(),
            answers,
            tried: 0,
            out_of_time: false,
        }
    }

    /// The same for another best than the fastest: the one with the least key.
    #[must_use]
    pub fn by(self, key: fn(Claimed) -> (u64, u64)) -> Self {
        Self { key, ..self }
    }

    /// Says that all until now was building.
    pub fn end_building(&mut self) {
        self.build = self.clock.elapsed();
    }

    /// Whether the time is over. Then the answers say so.
    pub fn is_over(&mut self) -> bool {
        self.out_of_time |= self.clock.is_over();
        self.out_of_time
    }

    /// Simulates a schedule, and keeps it for every budget that it meets and is the best for so far; `words` say how it
    /// came about. Returns its time and peak.
    ///
    /// # Errors
    /// The schedule is illegal.
    pub fn offer(&mut self, schedule: &Schedule, words: &str) -> Result<Claimed, MethodError> {
        let cost = Claimed::simulated(self.context.instance, schedule)?;
        self.tried += 1;
        for (index, best) in self.answers.clone().zip(&mut self.best) {
            let fits = self.context.budgets[index].is_none_or(|budget| cost.peak_bytes <= budget);
            if fits && best.as_ref().is_none_or(|best| (self.key)(cost) < (self.key)(best.cost)) {
                self.context.reporter.report(index, Progress::incumbent(schedule.clone(), cost));
                *best = Some(Best { schedule: schedule.clone(), cost, words: words.to_owned() });
            }
        }
        Ok(cost)
    }

    /// Answers every budget: with its best schedule, or that none was found. `words` are said of all.
    pub fn answer(self, words: &str) {
        let (mut build, mut solve) = (self.build, self.clock.elapsed().saturating_sub(self.build));
        for (index, best) in self.answers.zip(self.best) {
            let termination = match best {
                _ if self.out_of_time => Termination::TimeLimit,
                Some(_) => Termination::Feasible,
                None => Termination::NotFound,
            };
            let mut note: Vec<&str> = vec![words];
            note.extend(best.as_ref().map(|best| best.words.as_str()));
            note.retain(|words| !words.is_empty());
            let note = note.join("; ");
            let (schedule, claimed) = best.map(|best| (best.schedule, best.cost)).unzip();
            let answer = Answer {
                schedule,
                claimed,
                build: std::mem::take(&mut build),
                solve: std::mem::take(&mut solve),
                note,
                ..Answer::without_schedule(self.context.budgets[index], termination)
            };
            self.context.answer(index, &answer);
        }
    }

    /// Answers every budget for a planner whose knob is how much memory it is told of. More memory may be worse for it, so
    /// that it is told of [`Tries`] budgets; `plan` makes a schedule, or says what happened instead.
    ///
    /// # Errors
    /// A schedule is illegal.
    pub fn told(
        context: &'a Context<'a>,
        mut plan: impl FnMut(u64, Clock) -> Result<Schedule, &'static str>,
    ) -> Result<(), MethodError> {
        let tries = context.parameters.get::<Tries>();
        for (index, &budget) in context.budgets.iter().enumerate() {
            let mut sweep = Self::over(context, index..index + 1);
            let (mut within, mut runs, mut ends) = (0, 0, BTreeMap::new());
            for percent in 0..budget.map_or(1, |_| tries) {
                if sweep.is_over() {
                    break;
                }
                let bytes = budget.map_or(u64::MAX, |budget| budget - hundredths(budget, percent));
                runs += 1;
                match plan(bytes, sweep.clock) {
                    Ok(schedule) => {
                        let words = if percent > 0 { format!("told of {bytes} bytes") } else { String::new() };
                        let cost = sweep.offer(&schedule, &words)?;
                        within += usize::from(budget.is_none_or(|budget| cost.peak_bytes <= budget));
                    }
                    Err(end) => {
                        sweep.out_of_time |= end == OUT_OF_TIME;
                        *ends.entry(end).or_insert(0) += 1;
                    }
                }
            }
            let mut words = vec![format!("{within} of {runs} runs within the budget")];
            words.extend(ends.into_iter().map(|(end, count): (_, usize)| format!("{count} {end}")));
            sweep.answer(&words.join(", "));
        }
        Ok(())
    }

    /// How many schedules were offered.
    pub fn tried(&self) -> usize {
        self.tried
    }
}

/// So many hundredths of a size, rounded down; `percent` is at most 100.
fn hundredths(bytes: u64, percent: u64) -> u64 {
    bytes / 100 * percent + bytes % 100 * percent / 100
}

/// Every number from 0 to `most` once, from coarse to fine: a sweep that is cut short has then seen the whole range.
pub(crate) fn coarse_to_fine(most: usize) -> Vec<usize> {
    let mut seen = vec![false; most + 1];
    let mut order = Vec::with_capacity(most + 1);
    let mut step = most.next_power_of_two();
    while step > 0 {
        order.extend((0..=most).step_by(step).filter(|&value| !std::mem::replace(&mut seen[value], true)));
        step /= 2;
    }
    order
}
