//! The largest number for which something holds, by galloping from a guess and then bisection. Knows
//! nothing of batches.

/// What is known of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It is proved not to hold.
    Refuted,
    /// Neither is known: nothing was found in the time given.
    Unknown,
}

/// What a search comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The largest number found for which it holds.
    pub largest: Option<u64>,
    /// The least number found for which it is refuted.
    pub refuted: Option<u64>,
    /// Numbers that were asked for.
    pub probes: u64,
}

/// Searches 1 to `most`, as if whatever holds for a number held for all smaller ones.
///
/// # Errors
/// Those of `probe`.
pub fn largest<E>(guess: u64, most: u64, probe: impl FnMut(u64) -> Result<Verdict, E>) -> Result<Found, E> {
    let guess = guess.clamp(1, most);
    let mut bracket = Bracket { low: 0, high: most.saturating_add(1), found: Found::default(), probe };
    let mut step = (guess / 8).max(1);
    if bracket.ask(guess)? {
        while bracket.high > most && bracket.low < most {
            bracket.ask((bracket.low + step).min(most))?;
            step *= 2;
        }
    } else {
        while bracket.low == 0 && bracket.high > 1 {
            bracket.ask(bracket.high.saturating_sub(step).max(1))?;
            step *= 2;
        }
    }
    while bracket.high - bracket.low > 1 {
        bracket.ask(bracket.low + (bracket.high - bracket.low) / 2)?;
    }
    Ok(bracket.found)
}

/// It holds for `low`, or `low` is 0; it is not known to hold for `high`, or `high` was not asked for.
struct Bracket<P> {
    low: u64,
    high: u64,
    found: Found,
    probe: P,
}

impl<E, P: FnMut(u64) -> Result<Verdict, E>> Bracket<P> {
    fn ask(&mut self, number: u64) -> Result<bool, E> {
        let verdict = (self.probe)(number)?;
        let found = &mut self.found;
        found.probes += 1;
        match verdict {
            Verdict::Holds => {
                found.largest = found.largest.max(Some(number));
                self.low = number;
                return Ok(true);
            }
            Verdict::Refuted => found.refuted = Some(found.refuted.map_or(number, |least| least.min(number))),
            Verdict::Unknown => {}
        }
        self.high = number;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(guess: u64, most: u64, truth: impl Fn(u64) -> Verdict) -> Found {
        largest(guess, most, |number| Ok::<_, ()>(truth(number))).expect("no probe fails")
    }

    #[test]
    fn the_largest_is_found_from_any_guess_and_the_next_is_refuted() {
        let truth = |limit: u64| move |n: u64| if n <= limit { Verdict::Holds } else { Verdict::Refuted };
        for limit in 0..70 {
            for guess in [1, 2, 17, 64, 1000] {
                let found = search(guess, 64, truth(limit));
                assert_eq!(found.largest, (limit > 0).then_some(limit.min(64)), "limit {limit}, guess {guess}");
                assert_eq!(found.refuted, (limit < 64).then_some(limit + 1), "limit {limit}, guess {guess}");
                assert!(found.probes <= 16, "limit {limit}, guess {guess}: {}", found.probes);
            }
        }
    }

    #[test]
    fn what_is_not_known_is_neither_largest_nor_refuted() {
        let found = search(8, 1000, |n| match n {
            ..=100 => Verdict::Holds,
            101..=150 => Verdict::Unknown,
            _ => Verdict::Refuted,
        });
        assert_eq!(found.largest, Some(100));
        assert!(found.refuted.is_none_or(|refuted| refuted > 150));
    }
}
