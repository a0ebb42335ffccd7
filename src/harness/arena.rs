//! The addresses of a schedule's tensors: packed, and as a caching allocator would have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use remat_allocation::caching::{Reservation, replay};
use remat_allocation::plan::PlanDocument;
use remat_allocation::{Answer, Lifetimes, Limits, Method, Problem};
use remat_core::format::MemoryUnit;
use remat_core::io::read_schedule;
use remat_core::{Instance, Schedule};
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::library::glob;
use crate::ground::text;
use crate::harness::best;
use crate::harness::recorded::Instances;

/// What offsets and sizes are multiples of where nobody says otherwise: the blocks of PyTorch's allocator.
pub const ALIGNMENT: u64 = 512;

/// How buffers are packed.
#[derive(Clone, Copy)]
pub struct Terms {
    /// By which method.
    pub method: &'static dyn Method,
    /// What offsets and sizes are multiples of; without one, 512 bytes, and 1 where units are abstract.
    pub alignment: Option<u64>,
    /// Memory that is enough, fixed bytes included.
    pub capacity: Option<u64>,
    /// Wall time.
    pub time: Duration,
    /// Threads.
    pub threads: usize,
}

impl Terms {
    /// Packs a problem beside which so many bytes are occupied all the time.
    pub fn solve(&self, problem: &Problem, fixed_bytes: u64) -> Answer {
        let limits = Limits {
            deadline: Instant::now().checked_add(self.time),
            threads: self.threads,
            capacity: self.capacity.map(|capacity| capacity.saturating_sub(fixed_bytes)),
        };
        self.method.solve(problem, &limits)
    }
}

/// A schedule's buffers and where they are.
pub struct Arena {
    /// The buffers.
    pub lifetimes: Lifetimes,
    /// The buffers with rounded sizes.
    pub problem: Problem,
    /// Where they are.
    pub answer: Answer,
    /// What PyTorch's caching allocator would do with them; none where units are abstract.
    pub reservation: Option<Reservation>,
}

impl Arena {
    /// Packs the buffers of a schedule.
    ///
    /// # Errors
    /// The schedule is illegal, or sizes overflow.
    pub fn new(instance: &Instance, schedule: &Schedule, terms: &Terms) -> Result<Self, Failure> {
        let lifetimes = Lifetimes::new(instance, schedule)
            .map_err(|error| Failure::failed(format!("illegal schedule: {error}")))?;
        let real = instance.units().memory == MemoryUnit::Bytes;
        let problem = lifetimes.problem(terms.alignment.unwrap_or(if real { ALIGNMENT } else { 1 }));
        let problem = problem.map_err(Failure::input)?;
        let answer = terms.solve(&problem, lifetimes.fixed_bytes);
        let room = terms.capacity.map(|capacity| capacity.saturating_sub(lifetimes.fixed_bytes));
        let reservation = real.then(|| replay(&lifetimes.buffers, room));
        Ok(Self { lifetimes, problem, answer, reservation })
    }

    /// Memory with these addresses: fixed bytes and arena.
    pub fn memory(&self) -> u64 {
        self.lifetimes.fixed_bytes + self.answer.height
    }

    /// No addresses need less: fixed bytes and the bound on the arena.
    pub fn bound(&self) -> u64 {
        self.lifetimes.fixed_bytes + self.answer.bound
    }

    /// Whether the schedule fits; none where that is not known.
    pub fn fits(&self, capacity: u64) -> Option<bool> {
        if self.memory() <= capacity { Some(true) } else { (self.bound() > capacity).then_some(false) }
    }

    /// The plan.
    pub fn plan(&self, instance: &Instance, method: &str) -> PlanDocument {
        PlanDocument::new(instance, &self.lifetimes, &self.problem, &self.answer, method)
    }
}

/// A best-known schedule and its addresses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the instance.
    #[serde(with = "text::csv")]
    pub instance: String,
    /// The schedule, relative to the folder.
    pub schedule: String,
    /// Unit of sizes.
    pub memory_unit: MemoryUnit,
    /// Number of buffers.
    pub buffers: usize,
    /// The budget that the schedule was made for.
    pub budget: u64,
    /// The simulator's peak.
    pub peak: u64,
    /// Fixed bytes and the least arena that is possible.
    pub bound: u64,
    /// Fixed bytes and the arena.
    pub memory: u64,
    /// Fixed bytes and what PyTorch's caching allocator would reserve.
    pub reserved: Option<u64>,
    /// Whether that allocator serves every request within the budget, giving free segments back where it must.
    pub caching_fits: Option<bool>,
}

/// Packs the best-known schedules of a folder, those of the instances that match a pattern. Rows that are `known` already are
/// taken over, a schedule's name says what is in it, and so are those of instances that do not match.
///
/// # Errors
/// Files are none of ours, the pattern is malformed, or there is no schedule of an instance that matches.
pub fn of_best_known(folder: &Path, pattern: &str, terms: &Terms, known: Vec<Row>) -> Result<Vec<Row>, Failure> {
    let mut entries = best::read_some(folder, Some(pattern))?;
    // A schedule may be the best of several classes and budgets.
    let mut seen = BTreeSet::new();
    entries.retain(|entry| entry.time.is_some() && seen.insert(entry.schedule.clone()));
    if entries.is_empty() {
        let path = best::path_in(folder);
        return Err(Failure::input(format!("{}: no schedule of {pattern:?}, only bounds", path.display())));
    }
    let glob = glob(pattern)?;
    let (known, mut rows): (Vec<_>, Vec<_>) = known.into_iter().partition(|row| glob.matches_name(&row.instance));
    let mut known: BTreeMap<_, _> = known.into_iter().map(|row| ((row.schedule.clone(), row.budget), row)).collect();
    let mut instances = Instances::new(folder);
    for entry in entries {
        if let Some(row) = known.remove(&(entry.schedule.clone(), entry.budget_size)) {
            rows.push(row);
            continue;
        }
        let instance = instances.named(&entry.instance, &entry.instance_hash).map_err(Failure::input)?;
        let (_, schedule) = read_schedule(&folder.join(&entry.schedule), instance)?;
        let arena = Arena::new(instance, &schedule, terms)?;
        let room = entry.budget_size.saturating_sub(arena.lifetimes.fixed_bytes);
        rows.push(Row {
            instance: entry.instance,
            schedule: entry.schedule,
            memory_unit: entry.memory_unit,
            buffers: arena.problem.buffers().len(),
            budget: entry.budget_size,
            peak: arena.lifetimes.simulation.peak_bytes,
            bound: arena.bound(),
            memory: arena.memory(),
            reserved: arena.reservation.map(|reservation| arena.lifetimes.fixed_bytes + reservation.reserved),
            caching_fits: arena
                .reservation
                .map(|_| replay(&arena.lifetimes.buffers, Some(room)).out_of_memory.is_none()),
        });
    }
    rows.sort_by(|a, b| a.instance.cmp(&b.instance));
    Ok(rows)
}
