//! Which steps some sequence within a budget takes: what does not lie on any way from the empty set to V is
//! left out before the least budget is sought. Each pass over the pairs of sets looks only at those that could
//! still change something.

use std::time::Instant;

use super::family::Stop;
use super::scan::Keys;
use super::steps::{MOST, Step, Steps};

/// Steps that are kept in memory (32 bytes each) rather than found anew.
const KEPT_STEPS: usize = 1 << 24;

/// Sets to look at between two looks at the clock.
pub(super) fn check(deadline: Option<Instant>) -> Result<(), Stop> {
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) { Err(Stop::Time) } else { Ok(()) }
}

/// The least that a sequence within a budget has cached when it reaches a set, beyond the set's boundary, which
/// every sequence has cached there. A step caches no less than its boundaries differ by, so it
/// never lessens what is beyond them: only sets with more of that than `from` has need be looked at.
pub struct Reach(Keys);

/// No sequence gets there.
const NEVER: i64 = i64::MAX;

/// No way goes on.
const NONE: i64 = i64::MIN;

impl Reach {
    /// From the empty set on.
    ///
    /// # Errors
    /// The moment has come.
    pub fn new(steps: &Steps<'_>, budget: u64, deadline: Option<Instant>) -> Result<Self, Stop> {
        let count = steps.sets.len();
        let mut reach = Self(Keys::new(count, NEVER));
        reach.0.set(0, 0);
        let mut found = Vec::new();
        for from in 0..count {
            let Some(at) = reach.get(steps, from) else { continue };
            check(deadline)?;
            found.clear();
            steps.find(from, at.unsigned_abs(), budget, (&reach.0, reach.0.get(from)), &mut found);
            for to in found.iter().map(|&to| to as usize) {
                let beyond = at + steps.price(from, to).0.cast_signed() - boundary(steps, to);
                if beyond < reach.0.get(to) && at.unsigned_abs() + steps.need(from, to) <= budget {
                    reach.0.set(to, beyond);
                }
            }
        }
        Ok(reach)
    }

    /// The least that is cached.
    fn get(&self, steps: &Steps<'_>, set: usize) -> Option<i64> {
        Some(self.0.get(set)).filter(|&beyond| beyond != NEVER).map(|beyond| beyond + boundary(steps, set))
    }

    /// Whether some sequence within the budget reaches V.
    pub fn ends(&self, steps: &Steps<'_>) -> bool {
        self.0.get(steps.sets.len() - 1) != NEVER
    }
}

fn boundary(steps: &Steps<'_>, set: usize) -> i64 {
    steps.boundary_bytes(set).cast_signed()
}

/// The steps of all sequences within a budget.
pub struct Viable<'s, 'g> {
    steps: &'s Steps<'g>,
    budget: u64,
    reach: Reach,
    /// By set: the most that may be cached there beyond its boundary so that some way to go on meets the budget.
    room: Keys,
    /// The steps themselves, by set, where they are few enough to be kept.
    kept: Option<Vec<Vec<Step>>>,
}

impl<'s, 'g> Viable<'s, 'g> {
    /// None where no sequence meets the budget.
    ///
    /// # Errors
    /// The moment has come.
    pub fn new(steps: &'s Steps<'g>, budget: u64, deadline: Option<Instant>) -> Result<Option<Self>, Stop> {
        let budget = budget.min(MOST);
        let reach = Reach::new(steps, budget, deadline)?;
        if !reach.ends(steps) {
            return Ok(None);
        }
        let last = steps.sets.len() - 1;
        let mut room = Keys::new(steps.sets.len(), NONE);
        room.set(last, MOST.cast_signed());
        let mut found = Vec::new();
        for from in (0..last).rev() {
            let Some(least) = reach.get(steps, from) else { continue };
            check(deadline)?;
            // Ways that leave no more room than the best so far change nothing.
            let mut best = least - 1;
            found.clear();
            let above = best - boundary(steps, from);
            steps.find(from, least.unsigned_abs(), budget, (&room, above), &mut found);
            for to in found.iter().rev().map(|&to| to as usize) {
                let left = budget.cast_signed() - steps.need(from, to).cast_signed();
                if left > best && room.get(to) > best - boundary(steps, from) {
                    let after = room.get(to) + boundary(steps, to) - steps.price(from, to).0.cast_signed();
                    best = best.max(left.min(after));
                }
            }
            if best >= least {
                room.set(from, best - boundary(steps, from));
            }
        }
        Ok(Some(Self { steps, budget, reach, room, kept: None }))
    }

    /// Keeps the steps in memory if they are few enough.
    ///
    /// # Errors
    /// The moment has come.
    pub fn keep(&mut self, deadline: Option<Instant>) -> Result<(), Stop> {
        let (mut kept, mut count) = (Vec::with_capacity(self.steps.sets.len()), 0);
        for from in 0..self.steps.sets.len() {
            check(deadline)?;
            let mut some = Vec::new();
            self.find(from, &mut some);
            some.shrink_to_fit();
            count += some.len();
            if count > KEPT_STEPS {
                return Ok(());
            }
            kept.push(some);
        }
        self.kept = Some(kept);
        Ok(())
    }

    /// Whether some of the sequences meets a smaller budget as well.
    ///
    /// # Errors
    /// The moment has come.
    pub fn ends_within(&self, budget: u64, deadline: Option<Instant>) -> Result<bool, Stop> {
        let Some(kept) = &self.kept else { return Ok(Reach::new(self.steps, budget, deadline)?.ends(self.steps)) };
        check(deadline)?;
        let mut least = vec![u64::MAX; kept.len()];
        least[0] = 0;
        for (from, steps) in kept.iter().enumerate() {
            let cached = least[from];
            let Some(left) = budget.checked_sub(cached) else { continue };
            for step in steps.iter().filter(|step| step.need <= left) {
                let after = &mut least[step.to as usize];
                *after = (*after).min(cached + step.cached);
            }
        }
        Ok(least[kept.len() - 1] != u64::MAX)
    }

    /// Whether the steps are in memory.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    fn find(&self, from: usize, viable: &mut Vec<Step>) {
        let Some(least) = self.reach.get(self.steps, from) else { return };
        if self.room.get(from) == NONE {
            return;
        }
        let mut found = Vec::new();
        let above = least - boundary(self.steps, from) - 1;
        self.steps.find(from, least.unsigned_abs(), self.budget, (&self.room, above), &mut found);
        let step = |&to: &u32| {
            let step = self.steps.step(from, to as usize);
            let fits = least.unsigned_abs() + step.need <= self.budget;
            let goes_on =
                least + step.cached.cast_signed() <= self.room.get(to as usize) + boundary(self.steps, to as usize);
            (fits && goes_on).then_some(step)
        };
        viable.extend(found.iter().filter_map(step));
    }
}
