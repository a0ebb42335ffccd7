//! What a method says while it works: incumbents, bounds and effort, as they come.
//!
//! The harness runs methods in processes that it may have to kill; what was reported before is kept. It
//! judges a reported schedule as it judges an answer, so nothing here needs to be believed.

use std::sync::{Mutex, PoisonError};

use remat_core::Schedule;

use crate::method::{Answer, Claimed, MethodError};

/// Takes what a method reports; implemented by the harness, and by [`Silent`].
pub trait Reporter: Sync {
    /// Takes note of progress on the budget at position `index`.
    ///
    /// Cheap enough to be called a few hundred times per second; of what comes faster, only the last
    /// schedule, the highest bound and the latest count of each moment are kept.
    fn report(&self, index: usize, progress: Progress);

    /// Takes the final answer to a budget, before those to the others are there.
    fn answer(&self, index: usize, answer: &Answer);

    /// Whether anybody still waits for something better for a budget; a search that hears no ends, as at its limit.
    fn wants_more(&self, _index: usize) -> bool {
        true
    }
}

/// Progress on one budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// A schedule within the budget, better than the last one reported, with the claim about it.
    pub incumbent: Option<(Schedule, Claimed)>,
    /// Proved lower bound on the time of every schedule of the method's class within the budget.
    pub lower_bound: Option<u64>,
    /// Nodes, iterations or states so far: what the method counts as its effort.
    pub effort: Option<u64>,
    /// The method that found the schedule, where a method lets others search.
    pub finder: Option<&'static str>,
}

impl Progress {
    /// A better schedule.
    pub fn incumbent(schedule: Schedule, claimed: Claimed) -> Self {
        Self { incumbent: Some((schedule, claimed)), ..Self::default() }
    }

    /// A better bound.
    pub fn bound(lower_bound: u64) -> Self {
        Self { lower_bound: Some(lower_bound), ..Self::default() }
    }

    /// The same, found by another method.
    #[must_use]
    pub fn by(self, finder: &'static str) -> Self {
        Self { finder: Some(finder), ..self }
    }

    /// The same, with the effort so far.
    #[must_use]
    pub fn after(self, effort: u64) -> Self {
        Self { effort: Some(effort), ..self }
    }
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn report(&self, _index: usize, _progress: Progress) {}

    fn answer(&self, _index: usize, _answer: &Answer) {}
}

/// Collects answers, and passes everything on.
pub struct Collector<'a> {
    listener: &'a dyn Reporter,
    answers: Mutex<Vec<Option<Answer>>>,
}

impl<'a> Collector<'a> {
    /// For so many budgets.
    pub fn new(listener: &'a dyn Reporter, budgets: usize) -> Self {
        Self { listener, answers: Mutex::new(vec![None; budgets]) }
    }

    /// The answers, in the order of the budgets.
    ///
    /// # Errors
    /// A budget has none.
    pub fn into_answers(self) -> Result<Vec<Answer>, MethodError> {
        let answers = self.answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let count = answers.len();
        let given: Vec<Answer> = answers.into_iter().flatten().collect();
        let all = given.len() == count;
        let missing = || MethodError::Internal(format!("returns {} answers for {count} budgets", given.len()));
        if all { Ok(given) } else { Err(missing()) }
    }
}

impl Reporter for Collector<'_> {
    fn report(&self, index: usize, progress: Progress) {
        self.listener.report(index, progress);
    }

    fn wants_more(&self, index: usize) -> bool {
        self.listener.wants_more(index)
    }

    fn answer(&self, index: usize, answer: &Answer) {
        self.listener.answer(index, answer);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers[index] = Some(answer.clone());
    }
}
