//! One budget of an instance, for methods in stages of a fixed order: what a schedule has to meet, and what can be said
//! before anything is searched.

use std::sync::Arc;
use std::time::Duration;

use remat_core::{Instance, Schedule};

use crate::method::{Answer, Claimed, MethodError, SkipReason, Termination};
use crate::search::incumbent::Judge;
use crate::staged::joint::Joint;
use crate::staged::model::Linear;
use crate::staged::stages::Stages;

/// What a method asks of its schedules beside the budget.
pub trait Condition: Sync {
    /// Adds rows that every schedule meeting it satisfies, made of [`Linear::runs_in`] and [`Linear::kept_into`] by
    /// [`Linear::add_row`]. The model is over blocks, of a neighbourhood, or exact, and then the rows say all.
    fn constrain(&self, linear: &mut Linear<'_>);

    /// Why a schedule does not meet it.
    ///
    /// # Errors
    /// It does not.
    fn admit(&self, stages: &Stages) -> Result<(), String>;
}

/// One budget.
#[derive(Clone)]
pub struct Task<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// Its joint graph, in the order to keep, with workspaces or without.
    pub joint: Arc<Joint>,
    /// The budget in bytes; none means unlimited.
    pub budget: Option<u64>,
    /// Most runs of one operator (C); none means any number.
    pub copies: Option<u64>,
    /// What else a schedule has to meet.
    pub condition: Option<&'a dyn Condition>,
}

impl<'a> Task<'a> {
    /// A budget alone.
    pub fn new(instance: &'a Instance, joint: Arc<Joint>, budget: Option<u64>) -> Self {
        Self { instance, joint, budget, copies: None, condition: None }
    }
}

impl Task<'_> {
    /// The budget, or more than anything needs.
    pub fn budget_bytes(&self) -> u64 {
        self.budget.unwrap_or(u64::MAX)
    }

    /// Time and peak of a schedule, as the models count them.
    pub fn claim(&self, stages: &Stages) -> Claimed {
        stages.claim(&self.joint)
    }

    /// Whether a schedule is within the budget and the number of runs, and meets the condition.
    pub fn meets(&self, stages: &Stages) -> bool {
        self.claim(stages).peak_bytes <= self.budget_bytes()
            && self.copies.is_none_or(|copies| stages.most_runs() <= copies)
            && self.condition.is_none_or(|condition| condition.admit(stages).is_ok())
    }

    /// Whether any model has a solution, for all that is seen at once.
    ///
    /// # Errors
    /// The budget is below what one operator needs.
    pub fn supports_models(&self) -> Result<(), SkipReason> {
        let least = self.joint.least_peak();
        let Some(budget) = self.budget.filter(|&budget| budget < least) else { return Ok(()) };
        let why = format!("one operator alone needs {least}, more than the budget {budget}: infeasible, no model");
        Err(SkipReason(why))
    }

    /// The answer that needs no solver: a budget below what one operator needs has no schedule, and one that store-all
    /// meets, with whatever else is asked, needs none better.
    pub fn at_once(&self) -> Option<Answer> {
        let least = self.joint.least_peak();
        if self.budget_bytes() < least {
            let note = format!("one operator alone needs {least}; no solver asked");
            return Some(Answer { note, ..Answer::without_schedule(self.budget, Termination::Infeasible) });
        }
        let store_all = Stages::store_all(&self.joint);
        let claimed = self.claim(&store_all);
        self.meets(&store_all).then(|| Answer {
            schedule: Some(store_all.schedule(self.instance, &self.joint)),
            claimed: Some(claimed),
            lower_bound: Some(self.joint.least_time()),
            solve: Duration::ZERO,
            note: "store-all fits; no solver asked".into(),
            ..Answer::without_schedule(self.budget, Termination::Optimal)
        })
    }
}

impl Judge for Task<'_> {
    type Solution = Stages;

    fn least_time(&self) -> u64 {
        self.joint.least_time()
    }

    fn time(&self, stages: &Stages) -> u64 {
        stages.time(&self.joint)
    }

    fn admit(&self, stages: &Stages) -> Result<Result<(Schedule, Claimed), String>, MethodError> {
        let claimed = self.claim(stages);
        if claimed.peak_bytes > self.budget_bytes() {
            return Ok(Err(format!("it needs {}", claimed.peak_bytes)));
        }
        let runs = stages.most_runs();
        if self.copies.is_some_and(|copies| runs > copies) {
            return Ok(Err(format!("an operator runs {runs} times")));
        }
        let admitted = self.condition.map_or(Ok(()), |condition| condition.admit(stages));
        Ok(admitted.map(|()| (stages.schedule(self.instance, &self.joint), claimed)))
    }
}
