//! A schedule to start from, by the search with prices in stages of the instance's order.

use std::sync::Arc;
use std::time::Duration;

use remat_core::{Instance, Schedule};

use crate::search::clock::Clock;
use crate::search::problem::Effort;
use crate::staged::joint::Joint;
use crate::staged::prices;
use crate::staged::task::Task;

/// What the search with prices finds for a budget in some time, if anything.
pub fn by_prices(instance: &Instance, budget: u64, time: Option<Duration>, seed: u64) -> Option<Schedule> {
    let joint = Arc::new(Joint::new(instance).ok()?);
    let task = Task::new(instance, joint, Some(budget));
    let mut best = None;
    let effort = Effort::alone(Clock::start(time), seed);
    prices::first(&task, effort, &mut |stages| best = Some(stages.clone()));
    if best.is_none() {
        // Another order may do where the given one cannot.
        let effort = Effort { clock: effort.clock.share(4), ..effort };
        prices::any(&task, effort, &mut |stages| best = Some(stages.clone()));
    }
    best.map(|stages| stages.schedule(instance, &task.joint))
}
