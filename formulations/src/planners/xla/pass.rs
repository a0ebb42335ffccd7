//! The pass: a sequence of placed operators, what is alive in it, and what to repeat.

use remat_core::Instance;
use remat_core::liveness::Compute;

use super::Mode;
use crate::planners::torch::operators::Kind;
use crate::search::clock::Clock;
use crate::search::sweep::OUT_OF_TIME;
use crate::staged::graph::Way;
use crate::staged::joint::Joint;

/// The least limit by which `mode=peak` computes costs.
const LEAST_LIMIT_OF_COSTS: u64 = 1 << 30;
/// How much longer the sequence may become.
const LONGEST: usize = 20;

/// A run of an operator.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
struct Item {
    /// Position in the joint graph.
    operator: usize,
    /// Whether it is the operator's first run.
    first: bool,
    reads: Vec<usize>,
    makes: Vec<usize>,
    placed: bool,
    /// Whether it took the place of a run that nobody reads any more.
    moved: bool,
    /// Whether it is repeated no more.
    denied: bool,
    /// Whether others took its place.
    gone: bool,
}

/// One making of a value.
struct Copy {
    item: usize,
    bytes: u64,
    /// Whether it has to be there at the end.
    result: bool,
    /// Items that read it.
    users: Vec<usize>,
    /// How many of them are not done.
    unfinished: usize,
}

/// XLA's pass over an instance's operators.
pub struct Pass<'a> {
    joint: &'a Joint,
    /// By operator: whether it may be repeated, and whether it may be repeated or moved.
    repeatable: Vec<(bool, bool)>,
    items: Vec<Item>,
    copies: Vec<Copy>,
    /// Items, in sequence.
    order: Vec<usize>,
    /// Place in the sequence of the item in progress.
    current: usize,
    /// Bytes of all copies that are there.
    memory: u64,
}

impl<'a> Pass<'a> {
    /// Every operator once, in order.
    pub fn new(instance: &Instance, joint: &'a Joint, library_calls: bool) -> Self {
        let mut pass = Self {
            joint,
            repeatable: Vec::with_capacity(joint.len()),
            items: Vec::with_capacity(2 * joint.len()),
            copies: Vec::with_capacity(2 * joint.values.len()),
            order: (0..joint.len()).collect(),
            current: 0,
            memory: 0,
        };
        let mut copy_of = vec![0; joint.values.len()];
        for (at, operator) in joint.operators.iter().enumerate() {
            let known = |way: &Way| way.reads.iter().all(|&read| operator.first[0].reads(read));
            let intensive = Kind::of(&instance.operator(operator.id).op_type).compute_intensive;
            let movable = library_calls || !intensive;
            pass.repeatable.push((movable && operator.again.first().is_some_and(known), movable));
            let makes = operator.makes.iter().map(|&value| {
                copy_of[value] = pass.copies.len();
                let value = &joint.values[value];
                pass.copies.push(Copy {
                    item: at,
                    bytes: value.bytes,
                    result: value.result,
                    users: Vec::new(),
                    unfinished: 0,
                });
                pass.copies.len() - 1
            });
            let makes = makes.collect();
            let reads: Vec<usize> = operator.first[0].reads.iter().map(|&value| copy_of[value]).collect();
            for &read in &reads {
                pass.copies[read].users.push(at);
            }
            pass.items.push(Item { operator: at, first: true, reads, makes, ..Item::default() });
        }
        pass
    }

    /// Brings memory below a limit, as far as the rule goes.
    ///
    /// # Errors
    /// The time is over, or the sequence grows beyond measure.
    pub fn run(&mut self, mode: Mode, limit: u64, block: usize, clock: Clock) -> Result<(), &'static str> {
        match mode {
            Mode::Always => self.always(limit, block, clock),
            Mode::Peak => self.peak(limit, block, clock),
        }
    }

    /// What runs, in sequence.
    pub fn computes(&self) -> Vec<Compute> {
        let items = self.order.iter().map(|&item| &self.items[item]).filter(|item| !item.gone);
        items.map(|item| self.joint.compute(item.operator, !item.first)).collect()
    }

    fn always(&mut self, limit: u64, block: usize, clock: Clock) -> Result<(), &'static str> {
        self.restart();
        while self.current < self.order.len() {
            self.begin();
            let (mut least, mut most) = (1, 1);
            // What has been looked at: single operators, and longer runs.
            let (mut singles, mut longer, mut single) = (0_u64, 0_u64, true);
            while self.needed() > limit && self.allocates() {
                self.check(clock)?;
                let (chosen, looked_at) = self.choice(Mode::Always, limit, least, most);
                *(if single { &mut singles } else { &mut longer }) += looked_at;
                if chosen.is_empty() {
                    (least, most, single) = (most + 1, 2 * most, false);
                } else {
                    self.repeat(Mode::Always, &chosen);
                    (least, most) = (1, 1);
                }
                if most > block || longer > singles {
                    break;
                }
            }
            self.end();
        }
        Ok(())
    }

    fn peak(&mut self, limit: u64, block: usize, clock: Clock) -> Result<(), &'static str> {
        loop {
            let (peak, place) = self.highest();
            if peak <= limit {
                return Ok(());
            }
            self.restart();
            while self.current < place {
                self.begin();
                self.end();
            }
            self.begin();
            let (mut most, mut changed) = (1, false);
            while self.needed() >= peak && most <= block {
                self.check(clock)?;
                let (chosen, _) = self.choice(Mode::Peak, limit.max(LEAST_LIMIT_OF_COSTS), 1, most);
                if chosen.is_empty() {
                    most *= 2;
                } else {
                    self.repeat(Mode::Peak, &chosen);
                    (most, changed) = (1, true);
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    fn check(&self, clock: Clock) -> Result<(), &'static str> {
        if clock.is_over() {
            return Err(OUT_OF_TIME);
        }
        if self.order.len() > LONGEST * self.joint.len() {
            return Err("repeated too much");
        }
        Ok(())
    }

    /// The first place of the highest peak.
    fn highest(&mut self) -> (u64, usize) {
        self.restart();
        let mut highest = (0, 0);
        while self.current < self.order.len() {
            self.begin();
            if self.needed() > highest.0 {
                highest = (self.needed(), self.current);
            }
            self.end();
        }
        highest
    }

    fn restart(&mut self) {
        (self.current, self.memory) = (0, 0);
        self.items.iter_mut().for_each(|item| item.placed = false);
        self.copies.iter_mut().for_each(|copy| copy.unfinished = copy.users.len());
    }

    fn in_progress(&self) -> usize {
        self.order[self.current]
    }

    fn begin(&mut self) {
        let item = self.in_progress();
        self.items[item].placed = true;
        self.memory += self.items[item].makes.iter().map(|&made| self.copies[made].bytes).sum::<u64>();
    }

    fn end(&mut self) {
        let item = &self.items[self.order[self.current]];
        for &read in &item.reads {
            self.copies[read].unfinished -= 1;
        }
        for &touched in item.reads.iter().chain(&item.makes) {
            let copy = &self.copies[touched];
            if copy.unfinished == 0 && !copy.result {
                self.memory -= copy.bytes;
            }
        }
        self.current += 1;
    }

    fn way(&self, item: &Item) -> &'a Way {
        self.joint.way(item.operator, !item.first)
    }

    fn transient(&self) -> u64 {
        self.way(&self.items[self.in_progress()]).transient
    }

    /// Memory of the item in progress.
    fn needed(&self) -> u64 {
        self.memory + self.transient()
    }

    /// Whether the item in progress takes memory itself: nothing is done elsewhere.
    fn allocates(&self) -> bool {
        let makes = &self.items[self.in_progress()].makes;
        self.transient() > 0 || makes.iter().any(|&made| self.copies[made].bytes > 0)
    }

    fn is_alive(&self, copy: &Copy) -> bool {
        self.items[copy.item].placed && (copy.unfinished > 0 || copy.result)
    }

    fn users<'b>(&'b self, item: &'b Item) -> impl Iterator<Item = usize> + 'b {
        item.makes.iter().flat_map(|&made| &self.copies[made].users).copied()
    }

    /// Whether none of its readers has been placed: then it is moved, and not repeated.
    fn is_move(&self, item: &Item) -> bool {
        !self.users(item).any(|user| self.items[user].placed)
    }

    fn may_repeat(&self, mode: Mode, item: usize) -> bool {
        let item = &self.items[item];
        let (repeatable, movable) = self.repeatable[item.operator];
        let copy = !item.first || item.moved;
        let left_alone = item.denied || (copy && mode == Mode::Peak);
        !left_alone && (repeatable || (movable && self.is_move(item)))
    }

    /// The consecutive items to repeat, and how many such runs were looked at; none where nothing frees memory.
    fn choice(&self, mode: Mode, limit: u64, least: usize, most: usize) -> (Vec<usize>, u64) {
        let (mut best, mut looked_at) = ((u64::MAX, 0..0), 0);
        for start in 0..self.current {
            let dead = {
                let item = &self.items[self.order[start]];
                self.users(item).next().is_none() && !item.makes.iter().any(|&made| self.copies[made].result)
            };
            if dead {
                continue;
            }
            let mut end = start + least;
            if end > self.current {
                break;
            }
            if !self.order[start..end].iter().all(|&item| self.may_repeat(mode, item)) {
                continue;
            }
            while end - start <= most {
                looked_at += 1;
                // Only what is less than all before counts: of equal ones the first.
                if let Some(cost) = self.cost(&self.order[start..end], limit).filter(|&cost| cost < best.0) {
                    best = (cost, start..end);
                }
                if end >= self.current || !self.may_repeat(mode, self.order[end]) {
                    break;
                }
                end += 1;
            }
        }
        (self.order[best.1].to_vec(), looked_at)
    }

    /// What repeating some items costs; none where it frees nothing.
    fn cost(&self, block: &[usize], limit: u64) -> Option<u64> {
        let in_progress = &self.items[self.in_progress()];
        let (mut freed, mut kept) = (0_u64, 0_u64);
        for (at, &item) in block.iter().enumerate() {
            for &made in &self.items[item].makes {
                let copy = &self.copies[made];
                if copy.result || in_progress.reads.contains(&made) {
                    return None;
                }
                freed += if self.is_alive(copy) { copy.bytes } else { 0 };
            }
            for &read in &self.items[item].reads {
                let copy = &self.copies[read];
                let extended = !self.is_alive(copy) && !block[..at].contains(&copy.item);
                kept += if extended { copy.bytes } else { 0 };
            }
        }
        let freed = freed.checked_sub(kept).filter(|&freed| freed > 0)?;
        Some(if block.iter().all(|&item| self.is_move(&self.items[item])) { 0 } else { limit / freed })
    }

    /// Repeats items, the last first, so that those before it find who reads them.
    fn repeat(&mut self, mode: Mode, block: &[usize]) {
        for &item in block.iter().rev() {
            if self.users(&self.items[item]).any(|user| !self.items[user].placed) {
                self.repeat_one(mode, item);
            }
        }
    }

    fn repeat_one(&mut self, mode: Mode, item: usize) {
        let copy = self.items.len();
        let moves = self.is_move(&self.items[item]);
        let old = &self.items[item];
        let mut new = Item {
            operator: old.operator,
            first: old.first && moves,
            moved: moves,
            denied: moves && old.moved,
            ..Item::default()
        };
        // A further run may read less.
        let (before, after) = (self.way(old), self.way(&new));
        let still = before.reads.iter().zip(&old.reads).filter(|(value, _)| after.reads.contains(value));
        new.reads = if old.first { still.map(|(_, &read)| read).collect() } else { old.reads.clone() };
        for &read in &new.reads {
            let read = &mut self.copies[read];
            if read.unfinished == 0 && !read.result {
                self.memory += read.bytes;
            }
            read.unfinished += 1;
            read.users.push(copy);
        }
        for made in self.items[item].makes.clone() {
            new.makes.push(self.hand_over(made, copy));
        }
        self.items.push(new);
        let place = self.place(mode, copy);
        self.order.insert(place, copy);
        if moves {
            self.items[item].gone = true;
            if mode == Mode::Peak {
                self.remove(item);
            }
        }
    }

    /// A new copy of a value, for all that has not been placed; the old one goes.
    fn hand_over(&mut self, made: usize, item: usize) -> usize {
        let copy = self.copies.len();
        let old = &mut self.copies[made];
        if old.unfinished > 0 {
            self.memory -= old.bytes;
        }
        let (done, later): (Vec<usize>, Vec<usize>) = old.users.iter().partition(|&&user| self.items[user].placed);
        (old.users, old.unfinished) = (done, 0);
        let (bytes, unfinished) = (old.bytes, later.len());
        for &user in &later {
            self.items[user].reads.iter_mut().filter(|read| **read == made).for_each(|read| *read = copy);
        }
        self.copies.push(Copy { item, bytes, result: false, users: later, unfinished });
        copy
    }

    /// Where a copy runs: before all that reads its results or what it reads.
    fn place(&self, mode: Mode, item: usize) -> usize {
        let size = |item: &Item| -> u64 {
            let read = item.makes.iter().map(|&made| &self.copies[made]).filter(|copy| !copy.users.is_empty());
            read.map(|copy| copy.bytes).sum()
        };
        let new = &self.items[item];
        let mut before: Vec<usize> = self.users(new).collect();
        for &read in &new.reads {
            let read = &self.copies[read];
            let smaller = mode == Mode::Peak && size(&self.items[read.item]) < size(new);
            if !smaller {
                before.extend(read.users.iter().filter(|&&user| user != item && !self.items[user].placed));
            }
        }
        let later = self.current + 1..self.order.len();
        let end = later.end;
        later.into_iter().find(|&at| before.contains(&self.order[at])).unwrap_or(end)
    }

    /// Takes an item out of the sequence.
    fn remove(&mut self, item: usize) {
        for read in &self.items[item].reads {
            self.copies[*read].users.retain(|&user| user != item);
        }
        if let Some(at) = self.order.iter().position(|&other| other == item) {
            self.order.remove(at);
            self.current -= usize::from(at < self.current);
        }
    }
}
