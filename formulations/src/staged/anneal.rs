//! Simulated annealing over sets of later runs, in the instance's order: a start where greedy dropping
//! finds none, and a better one where it does.
//!
//! What exceeds the budget is charged at a price that rises while the walk stays over the budget and
//! falls while it stays within (strategic oscillation), so the walk keeps crossing the border, along which
//! good schedules lie. A walk that has strayed too far to return begins again from the best schedule. Moves aim at
//! what is idle where memory is short, and may take along what an operator reads: chains of operators run again together.
//! Deterministic for a seed unless the deadline comes first; no proof.

use crate::method::MethodError;
use crate::random::Random;
use crate::search::problem::{Effort, Offer};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;
use crate::staged::task::Task;
use crate::staged::timeline::Timeline;

/// Temperature at the end, in mean times of an operator.
const LAST: f64 = 0.01;

/// Moves between two looks at price and clock.
const ROUND: u64 = 512;

/// First price of a byte over the budget, in mean times of an operator for the mean bytes of a value.
const PRICE: f64 = 0.1;

/// By what it is multiplied for a walk that is to stay close to the budget, where it is within it.
const NEAR: f64 = 100.0;

/// A walk goes back when the price is so many times the first one, and so many rounds had nothing within the budget.
const FAR: f64 = 1000.0;
const PATIENCE: u32 = 30;

/// By what it is multiplied where the budget is to be met at all, the temperature of that at the beginning and at the end
/// in mean bytes of a value, and moves for each operator.
const WEIGHT: f64 = 100.0;
const HEAT_TO_MEET: (f64, f64) = (2.0, 0.2);
const MOVES_TO_MEET: u64 = 1000;

/// One change in so many takes along what its operator reads.
const ALONG: u32 = 3;

/// Moves that are worth a few seconds on a thousand operators; few where there are few places for later runs.
pub fn moves(joint: &Joint) -> u64 {
    let operators = joint.len() as u64;
    (operators * (40 * operators).min(2000)).min(2_000_000)
}

/// Takes what is better than all before.
pub type Better<'a> = dyn FnMut(&Stages) + 'a;

/// Offers what a search tells of.
///
/// # Errors
/// The first one of the offer.
pub fn offering(offer: Offer<'_, Stages>, search: impl FnOnce(&mut Better<'_>)) -> Result<(), MethodError> {
    let mut outcome = Ok(());
    search(&mut |better| {
        if outcome.is_ok() {
            outcome = offer(better.clone());
        }
    });
    outcome
}

/// The price of memory over the budget.
pub struct Price {
    /// Time that a byte costs.
    pub of_byte: f64,
    /// What it is at first.
    first: f64,
    /// Rounds since one had something within the budget.
    dry: u32,
}

impl Price {
    /// At first, or for a walk that stays close to the budget, within which it is.
    pub fn new(first: f64, near: bool) -> Self {
        Self { of_byte: if near { NEAR * first } else { first }, first, dry: 0 }
    }

    /// Follows a round of moves, so many of them within the budget: a tenth is where the border is. Whether the walk will
    /// hardly return to it.
    pub fn follow(&mut self, within: u64, moves: u64) -> bool {
        self.of_byte *= if within * 10 > moves { 0.97 } else { 1.03 };
        self.dry = if within > 0 { 0 } else { self.dry + 1 };
        self.dry >= PATIENCE && self.of_byte >= FAR * self.first
    }

    /// The walk goes on within the budget, close to it.
    pub fn go_back(&mut self) {
        *self = Self::new(self.first, true);
    }
}

/// Anneals in so many moves from some stages, which may exceed the budget, with a heat in mean times of an operator;
/// `better` hears of every schedule within the budget that is faster than those before.
pub fn anneal(task: &Task<'_>, effort: Effort<'_>, moves: u64, start: &Stages, better: &mut Better<'_>) {
    let Some(mut walk) = Walk::new(task, effort, start) else { return };
    let moves = moves * u64::from(effort.times);
    let mut best = (walk.timeline.excess() == 0).then(|| start.clone());
    let mut least = u64::MAX;
    let mut round = 0;
    while round * ROUND < moves && !effort.is_over() {
        let done = (round * ROUND) as f64 / moves as f64;
        let temperature = walk.unit_time * effort.heat * effort.cooling(effort.heat, LAST, done);
        let mut within = 0;
        for _ in 0..ROUND {
            walk.step(temperature);
            within += u64::from(walk.timeline.excess() == 0);
            if walk.timeline.excess() == 0 && walk.timeline.time() < least {
                least = walk.timeline.time();
                better(best.insert(walk.timeline.stages()));
            }
        }
        if walk.price.follow(within, ROUND)
            && let Some(best) = &best
        {
            walk.go_back(task, best);
        }
        round += 1;
    }
}

/// The first stages within the budget on a walk from some that exceed it by little, whatever they take: bytes over the
/// budget weigh much more than time, and the temperature is in such bytes.
pub fn meet(task: &Task<'_>, effort: Effort<'_>, start: &Stages) -> Option<Stages> {
    let mut walk = Walk::new(task, effort, start)?;
    walk.price.of_byte *= WEIGHT;
    let rounds = MOVES_TO_MEET * task.joint.len() as u64 / ROUND;
    for round in 0..rounds {
        if effort.is_over() {
            break;
        }
        let (initial, last) = HEAT_TO_MEET;
        let cooling = effort.cooling(initial, last, round as f64 / rounds as f64);
        let temperature = WEIGHT * PRICE * walk.unit_time * initial * cooling;
        for _ in 0..ROUND {
            walk.step(temperature);
            if walk.timeline.excess() == 0 {
                return Some(walk.timeline.stages());
            }
        }
    }
    None
}

/// The walk.
struct Walk<'a> {
    joint: &'a Joint,
    /// Most runs of one operator.
    copies: u64,
    /// Operators that may run again to some use.
    movable: Vec<usize>,
    random: Random,
    timeline: Timeline<'a>,
    /// Mean time of an operator.
    unit_time: f64,
    /// Of a byte over the budget, at one run.
    price: Price,
    /// The change in hand: what is toggled.
    moves: Vec<(usize, usize)>,
    scratch: Vec<usize>,
}

impl<'a> Walk<'a> {
    /// A walk from some stages; none where no operator may run again.
    fn new(task: &'a Task<'_>, effort: Effort<'_>, start: &Stages) -> Option<Self> {
        let (joint, copies) = (&*task.joint, task.copies.unwrap_or(u64::MAX));
        let may_again = |&position: &usize| joint.again(position).is_some() && joint.last_run(position) > position;
        let movable: Vec<usize> = (0..joint.len()).filter(may_again).collect();
        if movable.is_empty() || copies < 2 {
            return None;
        }
        let timeline = Timeline::new(joint, start, task.budget_bytes());
        let mean = |sum: u64| (sum as f64 / joint.len() as f64).max(1e-9);
        let unit_time = mean(joint.least_time());
        let unit_bytes = mean(joint.values.iter().map(|value| value.bytes).sum());
        Some(Self {
            joint,
            copies,
            movable,
            random: Random::part(effort.seed, 0x4d6f_6363),
            unit_time,
            price: Price::new(PRICE * unit_time / unit_bytes, effort.near && timeline.excess() == 0),
            timeline,
            moves: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Goes on from stages within the budget.
    fn go_back(&mut self, task: &Task<'_>, stages: &Stages) {
        self.timeline = Timeline::new(self.joint, stages, task.budget_bytes());
        self.price.go_back();
    }

    /// Proposes a change, and takes it or not.
    fn step(&mut self, temperature: f64) {
        self.moves.clear();
        match self.random.below(8) {
            0..=2 if self.timeline.excess() > 0 => self.relieve(),
            0..=3 => self.add(),
            4 | 5 => self.remove(),
            6 => self.shift(),
            _ => {
                self.remove();
                if self.timeline.excess() > 0 { self.relieve() } else { self.add() }
            }
        }
        if self.random.below(ALONG) == 0 {
            self.take_along();
        }
        if self.moves.is_empty() {
            return;
        }
        // What a change may cost is drawn first: many add more time than that and the price of all the excess, and are not made.
        let most = -temperature * self.random.unit().ln();
        let time = self.timeline.time_of(&self.moves) as f64;
        let most_excess = self.timeline.excess() as f64 + (most - time) / self.price.of_byte;
        if most_excess < 0.0 {
            return;
        }
        self.timeline.change(self.moves.iter().copied());
        if self.timeline.excess() as f64 > most_excess {
            self.timeline.take_back();
        }
    }

    fn has_room(&self, position: usize) -> bool {
        (self.timeline.later(position).len() as u64) + 1 < self.copies && !self.is_moved(position)
    }

    /// Drops something idle where memory is short, to be made again when it is read next.
    fn relieve(&mut self) {
        let Some(place) = self.timeline.some_over(&mut self.random) else { return };
        for _ in 0..16 {
            let position = self.random.pick(&self.movable);
            if !self.has_room(position) || self.joint.operators[position].makes.is_empty() {
                continue;
            }
            let value = self.random.pick(&self.joint.operators[position].makes);
            if let Some(stage) = self.timeline.idle_until(value, place) {
                self.toggled(position, stage);
                return;
            }
        }
    }

    /// Runs something again somewhere.
    fn add(&mut self) {
        let position = self.random.pick(&self.movable);
        if !self.has_room(position) {
            return;
        }
        if let Some(stage) = self.stage_for(position) {
            self.toggled(position, stage);
        }
    }

    /// Takes a later run away.
    fn remove(&mut self) {
        if let Some((position, stage)) = self.some_later_run() {
            self.moves.push((position, stage));
        }
    }

    /// Moves a later run to another stage.
    fn shift(&mut self) {
        let Some((position, from)) = self.some_later_run() else { return };
        let to = if self.random.below(2) == 0 {
            let by = 1 + self.random.below(3) as usize;
            if self.random.below(2) == 0 { from.checked_sub(by) } else { Some(from + by) }
        } else {
            self.stage_for(position)
        };
        if let Some(to) = to.filter(|&to| to != from) {
            self.moves.push((position, from));
            if !self.toggled(position, to) {
                self.moves.clear();
            }
        }
    }

    /// Carries the change on to what makes something that its last operator reads, if that runs in the same of the
    /// change's stages as the operator does, and so on from there.
    fn take_along(&mut self) {
        let Some(&(mut position, to)) = self.moves.last() else { return };
        let from = match self.moves[..] {
            [(moved, from), _] if moved == position => from,
            _ => to,
        };
        while let Some(again) = self.joint.again(position)
            && !again.reads.is_empty()
        {
            let maker = self.joint.values[self.random.pick(&again.reads)].producer;
            let [runs, reader_runs] =
                [maker, position].map(|at| [from, to].map(|stage| self.timeline.runs_again(at, stage)));
            let is_new = self.joint.again(maker).is_some() && self.has_room(maker);
            if runs != reader_runs || self.is_moved(maker) || runs == [false; 2] && !is_new {
                return;
            }
            if from != to {
                self.moves.push((maker, from));
            }
            self.moves.push((maker, to));
            if self.random.below(2) == 0 {
                return;
            }
            position = maker;
        }
    }

    fn is_moved(&self, position: usize) -> bool {
        self.moves.iter().any(|&(moved, _)| moved == position)
    }

    fn some_later_run(&mut self) -> Option<(usize, usize)> {
        for _ in 0..24 {
            let position = self.random.pick(&self.movable);
            let later = self.timeline.later(position);
            if !later.is_empty() {
                return Some((position, self.random.pick(later)));
            }
        }
        None
    }

    /// A stage in which what an operator makes is read, mostly; or one in which it has just been there.
    fn stage_for(&mut self, position: usize) -> Option<usize> {
        let operator = &self.joint.operators[position];
        let reads = operator.again.first().map_or(&[][..], |way| &way.reads);
        let from_reads = !reads.is_empty() && self.random.below(4) == 0;
        let from = if from_reads { reads } else { &operator.makes };
        if from.is_empty() {
            return None;
        }
        let value = self.random.pick(from);
        let mut stages = std::mem::take(&mut self.scratch);
        stages.clear();
        self.timeline.read_stages(value, &mut stages);
        let found = (!stages.is_empty()).then(|| self.random.pick(&stages));
        self.scratch = stages;
        found
    }

    /// Adds a later run to the change, if it can be one.
    fn toggled(&mut self, position: usize, stage: usize) -> bool {
        let possible = stage > position && stage < self.joint.len() && !self.timeline.runs_again(position, stage);
        if possible {
            self.moves.push((position, stage));
        }
        possible
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::search::clock::Clock;
    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};

    fn instance(nodes: u32, seed: u64) -> Instance {
        Instance::new(&layered("layered", &Layered::moccasin(nodes, 0.4), seed)).expect("valid")
    }

    #[test]
    fn a_change_takes_along_what_runs_in_its_stages_as_its_operator_does() {
        let instance = instance(60, 5);
        let joint = Arc::new(Joint::new(&instance).expect("supported"));
        let store_all = Stages::store_all(&joint);
        let budget = Some(store_all.claim(&joint).peak_bytes * 3 / 4);
        let task = Task::new(&instance, Arc::clone(&joint), budget);
        let mut walk = Walk::new(&task, Effort::alone(Clock::start(None), 1), &store_all).expect("has places");
        let reads = |position: usize, value: usize| joint.again(position).is_some_and(|again| again.reads(value));
        let (mut added, mut removed, mut shifted) = (0, 0, 0);
        for kind in 0..6000 {
            walk.moves.clear();
            match kind % 3 {
                0 => walk.add(),
                1 => walk.remove(),
                _ => walk.shift(),
            }
            let first = walk.moves.clone();
            walk.take_along();
            for links in walk.moves.chunks(first.len().max(1)).collect::<Vec<_>>().windows(2) {
                let [(reader, _), (maker, _)] = [links[0][0], links[1][0]];
                assert!(
                    joint.operators[maker].makes.iter().any(|&value| reads(reader, value)),
                    "{reader} from {maker}"
                );
                for (before, after) in links[0].iter().zip(links[1]) {
                    assert_eq!(before.1, after.1);
                    assert_eq!(
                        walk.timeline.runs_again(before.0, before.1),
                        walk.timeline.runs_again(after.0, after.1)
                    );
                }
            }
            if walk.moves.len() > first.len() {
                *[&mut added, &mut removed, &mut shifted][kind % 3] += 1;
            }
            walk.timeline.change(walk.moves.iter().copied());
        }
        assert!(added > 0 && removed > 0 && shifted > 0, "{added}, {removed}, {shifted}");
    }

    #[test]
    fn a_walk_goes_back_once_it_is_over_the_budget_for_long_at_a_high_price() {
        let rounds_until_back = |near, within: [u64; 2]| {
            let mut price = Price::new(2.0, near);
            (1..1000).find(|&round| price.follow(within[usize::from(round == 100)], 512))
        };
        let (far, near) = (rounds_until_back(false, [0, 0]), rounds_until_back(true, [0, 0]));
        assert!(far > near && near > Some(30), "{far:?} {near:?}");
        // What is within the budget once is waited for again; a tenth of the moves keeps the price low.
        assert_eq!(rounds_until_back(false, [0, 1]), far);
        assert_eq!(rounds_until_back(false, [52, 52]), None);
        let mut price = Price::new(2.0, false);
        price.go_back();
        assert!(price.of_byte > 2.0);
    }

    #[test]
    fn a_walk_comes_from_stages_over_the_budget_to_stages_within_it() {
        let instance = instance(60, 5);
        let joint = Arc::new(Joint::new(&instance).expect("supported"));
        let store_all = Stages::store_all(&joint);
        let budget = store_all.claim(&joint).peak_bytes * 3 / 4;
        let task = |copies| Task { copies, ..Task::new(&instance, Arc::clone(&joint), Some(budget)) };
        for copies in [None, Some(3)] {
            let task = task(copies);
            let found = meet(&task, Effort::alone(Clock::start(None), 1), &store_all).expect("found");
            assert!(task.meets(&found));
        }
        assert_eq!(meet(&task(Some(1)), Effort::alone(Clock::start(None), 1), &store_all), None);
    }

    #[test]
    fn every_schedule_that_is_found_meets_the_budget_and_the_number_of_copies() {
        for copies in [2, 3] {
            let instance = instance(60, 5);
            let joint = Arc::new(Joint::new(&instance).expect("supported"));
            let store_all = Stages::store_all(&joint).claim(&joint);
            let budget = store_all.peak_bytes * 8 / 10;
            let copies = Some(copies);
            let task = Task { copies, ..Task::new(&instance, Arc::clone(&joint), Some(budget)) };
            let mut times = Vec::new();
            let effort = Effort::alone(Clock::start(None), 1);
            anneal(&task, effort, 60_000, &Stages::store_all(&joint), &mut |stages| {
                let claim = stages.claim(&joint);
                assert!(claim.peak_bytes <= budget && Some(stages.most_runs()) <= copies);
                times.push(claim.time);
            });
            assert!(times.is_sorted_by(|earlier, later| earlier > later), "{times:?}");
            assert!(times.last().is_some_and(|&time| time < store_all.time * 11 / 10), "{times:?}");
        }
    }
}
