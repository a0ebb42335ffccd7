//! Which steps some sequence within a budget takes: what does not lie on any way from the empty set to V is
//! left out before Algorithm 1 starts. Each pass over the pairs of sets looks only at those that could still
//! change something.

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

/// The least that a sequence within a budget has cached when it reaches a set; above [`MOST`] where none does.
pub struct Reach(Keys);

/// No sequence gets there.
const NEVER: i64 = i64::MAX;

impl Reach {
    /// From the empty set on.
    ///
    /// # Errors
    /// The moment has come.
    pub fn new(steps: &Steps<'_>, budget: u64, deadline: Option<Instant>) -> Result<Self, Stop> {
        let count = steps.sets.len();
        let mut least = Keys::new(count, NEVER);
        // The same for sets that can still improve: less than the boundary is never cached.
        let mut open = Keys::new(count, NEVER);
        least.set(0, 0);
        let mut found = Vec::new();
        for from in 0..count {
            let at = least.get(from);
            if at == NEVER {
                continue;
            }
            check(deadline)?;
            found.clear();
            steps.find(from, at.unsigned_abs(), budget, (&open, at), &mut found);
            for to in found.iter().map(|&to| to as usize) {
                let cached = at + steps.cached(from, to).cast_signed();
                let fits = |need: u64| at.unsigned_abs() + need <= budget;
                if cached < least.get(to) && fits(steps.need(from, to)) {
                    least.set(to, cached);
                    let best = cached <= steps.boundary_bytes(to).cast_signed();
                    open.set(to, if best { i64::MIN } else { cached });
                }
            }
        }
        Ok(Self(least))
    }

    fn get(&self, set: usize) -> Option<i64> {
        Some(self.0.get(set)).filter(|&least| least != NEVER)
    }

    /// Whether some sequence within the budget reaches V.
    pub fn ends(&self, steps: &Steps<'_>) -> bool {
        self.get(steps.sets.len() - 1).is_some()
    }
}

/// The steps of all sequences within a budget.
pub struct Viable<'s, 'g> {
    steps: &'s Steps<'g>,
    budget: u64,
    reach: Reach,
    /// By set: the most that may be cached there so that some way to go on meets the budget; -1 where there is none.
    most: Keys,
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
        let mut most = Keys::new(steps.sets.len(), -1);
        most.set(last, MOST.cast_signed());
        let mut found = Vec::new();
        for from in (0..last).rev() {
            let Some(least) = reach.get(from) else { continue };
            check(deadline)?;
            // Ways that leave no more room than the best so far change nothing.
            let mut best = least - 1;
            found.clear();
            steps.find(from, least.unsigned_abs(), budget, (&most, best), &mut found);
            for to in found.iter().rev().map(|&to| to as usize) {
                let after = most.get(to);
                if after > best
                    && let Some(left) = budget.checked_sub(steps.need(from, to))
                    && left.cast_signed() > best
                {
                    best = best.max(left.cast_signed().min(after - steps.cached(from, to).cast_signed()));
                }
            }
            most.set(from, if best >= least { best } else { -1 });
        }
        let mut viable = Self { steps, budget, reach, most, kept: None };
        viable.keep(deadline)?;
        Ok(Some(viable))
    }

    fn keep(&mut self, deadline: Option<Instant>) -> Result<(), Stop> {
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

    /// The budget.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Number of steps.
    pub fn count(&self) -> usize {
        let mut buffer = Vec::new();
        (0..self.steps.sets.len()).map(|set| self.from(set, &mut buffer).len()).sum()
    }

    /// The most that may be cached at a set so that some way to go on meets the budget.
    pub fn most(&self, set: usize) -> Option<u64> {
        u64::try_from(self.most.get(set)).ok()
    }

    /// The steps from a set, ascending; `buffer` is where they are put when they are not kept.
    pub fn from<'v>(&'v self, set: usize, buffer: &'v mut Vec<Step>) -> &'v [Step] {
        if let Some(kept) = &self.kept {
            return &kept[set];
        }
        buffer.clear();
        self.find(set, buffer);
        buffer
    }

    fn find(&self, from: usize, viable: &mut Vec<Step>) {
        let Some(least) = self.reach.get(from) else { return };
        if self.most.get(from) < least {
            return;
        }
        let mut found = Vec::new();
        self.steps.find(from, least.unsigned_abs(), self.budget, (&self.most, least - 1), &mut found);
        let step = |&to: &u32| {
            let step = self.steps.step(from, to as usize);
            let fits = least.unsigned_abs() + step.need <= self.budget;
            let goes_on = least + step.cached.cast_signed() <= self.most.get(to as usize);
            (fits && goes_on).then_some(step)
        };
        viable.extend(found.iter().filter_map(step));
    }
}
