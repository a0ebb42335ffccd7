//! A knob and what comes of its values: the fastest schedule within each budget.

use std::ops::Range;
use std::time::Duration;

use remat_core::{Schedule, simulate};

use crate::method::report::Progress;
use crate::method::{Answer, Claimed, Context, MethodError, Termination};
use crate::search::clock::Clock;

/// The best schedule for each budget among those that were offered.
pub struct Sweep<'a> {
    context: &'a Context<'a>,
    clock: Clock,
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
        let best = answers.clone().map(|_| None).collect();
        Self { context, clock: Clock::start(context.limits.time), answers, best, tried: 0, out_of_time: false }
    }

    /// The time that it has.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether the time is over. Then the answers say so.
    pub fn is_over(&mut self) -> bool {
        self.out_of_time |= self.clock.is_over();
        self.out_of_time
    }

    /// Simulates a schedule, and keeps it for every budget that it meets in less time than all before; `words` say how
    /// it came about. Returns its time and peak.
    ///
    /// # Errors
    /// The schedule is illegal.
    pub fn offer(&mut self, schedule: &Schedule, words: &str) -> Result<Claimed, MethodError> {
        let simulation =
            simulate(self.context.instance, schedule).map_err(|error| MethodError::Internal(error.to_string()))?;
        let cost = Claimed { time: simulation.time, peak_bytes: simulation.peak_bytes };
        self.tried += 1;
        let key = |cost: Claimed| (cost.time, cost.peak_bytes);
        for (index, best) in self.answers.clone().zip(&mut self.best) {
            let fits = self.context.budgets[index].is_none_or(|budget| cost.peak_bytes <= budget);
            if fits && best.as_ref().is_none_or(|best| key(cost) < key(best.cost)) {
                self.context.reporter.report(index, Progress::incumbent(schedule.clone(), cost));
                *best = Some(Best { schedule: schedule.clone(), cost, words: words.to_owned() });
            }
        }
        Ok(cost)
    }

    /// Answers every budget: with its best schedule, or that none was found. `words` are said of all.
    pub fn answer(self, words: &str) {
        let mut solve = self.clock.elapsed();
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
                solve: std::mem::replace(&mut solve, Duration::ZERO),
                note,
                ..Answer::without_schedule(self.context.budgets[index], termination)
            };
            self.context.answer(index, &answer);
        }
    }

    /// How many schedules were offered.
    pub fn tried(&self) -> usize {
        self.tried
    }
}
