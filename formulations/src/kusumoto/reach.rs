//! Whether some sequence meets a budget: one pass over the pairs of sets, which looks only at those that could
//! still change something.

use super::family::Stop;
use super::scan::Keys;
use super::steps::Steps;
use crate::search::clock::Clock;

/// Sets to look at between two looks at the clock.
pub(super) fn check(clock: Clock) -> Result<(), Stop> {
    if clock.is_over() { Err(Stop::Time) } else { Ok(()) }
}

/// The least that a sequence within a budget has cached when it reaches a set, beyond the set's boundary, which
/// every sequence has cached there. A step caches no less than its boundaries differ by, so it
/// never lessens what is beyond them: only sets with more of that than `from` has need be looked at.
pub struct Reach(Keys);

/// No sequence gets there.
const NEVER: i64 = i64::MAX;

impl Reach {
    /// From the empty set on.
    ///
    /// # Errors
    /// The time is over.
    pub fn new(steps: &Steps<'_>, budget: u64, clock: Clock) -> Result<Self, Stop> {
        let count = steps.sets.len();
        let mut reach = Self(Keys::new(count, NEVER));
        reach.0.set(0, 0);
        let mut found = Vec::new();
        for from in 0..count {
            let Some(at) = reach.get(steps, from) else { continue };
            check(clock)?;
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
