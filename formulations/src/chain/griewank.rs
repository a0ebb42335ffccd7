//! `griewank-logn`: binomial checkpointing, optimal on homogeneous chains.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_core::chain::{Chain, ChainCost, ChainStep};

use super::method::{self, ChainProgram};
use crate::method::claim::Kept;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason, Termination};

/// Revolve as if all stages were alike.
///
/// # Problem
/// Reverse a chain of n stages of unit time and unit size with c checkpoints beside the input.
///
/// # Variables
/// t(n, c), the least number of forward steps: t(1, c) = 0, t(n, 0) = n (n - 1) / 2, and in closed
/// form t(n, c) = r n - binomial(c + 1 + r, r - 1), r the least number with binomial(c + 1 + r, r) >= n.
///
/// # Departures from the paper
/// A budget in bytes has no number of checkpoints: every c from 0 to n - 1 is tried, and of the
/// sequences whose chain cost meets the budget the fastest is taken, those of more than ten million forwards left
/// out. `F_all` comes before each backward.
///
/// # Claim
/// Heuristic on real chains (optimal when all stages are alike and only activations are kept).
///
/// # Size
/// n candidates of O(n log n) to O(n^2) steps, the shortest first; what a time limit leaves out, the note says.
///
/// # Reference
/// Griewank & Walther, "Algorithm 799: revolve", ACM TOMS 2000; "Griewank & Walther log n" of Checkmate.
pub struct GriewankLogN;

impl Method for GriewankLogN {
    fn about(&self) -> About {
        About {
            id: "griewank-logn",
            title: "binomial checkpointing (revolve) as if all stages were alike",
            reference: "Griewank & Walther 2000 (Algorithm 799)",
            parameters: &[],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(Class { kept: Kept::SaveLast, ..Class::CHAIN })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        method::supports(instance)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let mut program = ChainProgram::new(context)?;
        let candidates = candidates(&program.view.chain, context.limits.time)?;
        let left_out = program.view.chain.len() - candidates.len();
        let left_out = if left_out == 0 { String::new() } else { format!("; the {left_out} longest left out") };
        context.answer_each(|_, budget| {
            // A makespan beyond 64 bits is none that a row could state.
            let fits = |(_, cost): &&(usize, ChainCost)| {
                cost.time < u64::MAX && budget.is_none_or(|budget| cost.peak_bytes <= budget)
            };
            let best = candidates.iter().filter(fits).min_by_key(|(_, cost)| (cost.time, cost.peak_bytes));
            match best {
                None => Ok(program.nothing(budget, Termination::NotFound, left_out.clone())),
                Some(&(checkpoints, _)) => {
                    let sequence = sequence(program.view.chain.len(), checkpoints);
                    let note = format!("{checkpoints} checkpoints{left_out}");
                    program.answer(budget, Termination::Feasible, &sequence, note)
                }
            }
        });
        Ok(())
    }
}

/// Sequences of more forwards are left out.
const MOST_FORWARDS: u64 = 10_000_000;

/// Cost of the binomial sequence with each number of checkpoints, as far as there is time: sequences with many
/// checkpoints are the shortest.
fn candidates(chain: &Chain, time: Option<Duration>) -> Result<Vec<(usize, ChainCost)>, MethodError> {
    let started = Instant::now();
    let may_be_costed = |&checkpoints: &usize| {
        let in_time = time.is_none_or(|time| started.elapsed() < time);
        in_time && forward_steps(chain.len(), checkpoints) <= MOST_FORWARDS
    };
    let cost = |checkpoints| {
        let cost = chain.evaluate(&sequence(chain.len(), checkpoints));
        cost.map(|cost| (checkpoints, cost)).map_err(|error| MethodError::Internal(error.to_string()))
    };
    let mut candidates = (0..chain.len()).rev().take_while(may_be_costed).map(cost).collect::<Result<Vec<_>, _>>()?;
    candidates.reverse();
    Ok(candidates)
}

/// The binomial sequence of `n` stages with some checkpoints beside the input.
pub fn sequence(n: usize, checkpoints: usize) -> Vec<ChainStep> {
    let mut sequence = Vec::new();
    // Subchains first..first + length, with the checkpoints left for them; the last is next.
    let mut pending = vec![(0, n, checkpoints)];
    while let Some((first, length, checkpoints)) = pending.pop() {
        if length == 1 {
            sequence.extend([ChainStep::Save { stage: first, saving: 0 }, ChainStep::Backward { stage: first }]);
            continue;
        }
        sequence.push(ChainStep::Checkpoint { stage: first });
        // Without a checkpoint the last stage is reversed from its input, which is on its way to it.
        let advance = if checkpoints == 0 { length - 1 } else { best_advance(length, checkpoints) };
        sequence.extend((first + 1..first + advance).map(|stage| ChainStep::Pass { stage }));
        pending.push((first, advance, checkpoints));
        pending.push((first + advance, length - advance, checkpoints.saturating_sub(1)));
    }
    sequence
}

/// Where the first checkpoint goes: the first of the advances that leave the fewest forward steps. Those steps are
/// a convex function of the advance, because t(n, c) is one of n.
fn best_advance(n: usize, checkpoints: usize) -> usize {
    let steps = |advance: usize| {
        let right = forward_steps(n - advance, checkpoints - 1);
        advance as u64 + right + forward_steps(advance, checkpoints)
    };
    let (mut low, mut high) = (1, n - 1);
    while low < high {
        let middle = low.midpoint(high);
        if steps(middle + 1) < steps(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// t(n, c).
fn forward_steps(n: usize, checkpoints: usize) -> u64 {
    let n = n as u64;
    let snapshots = checkpoints as u64 + 1; // the input is one of them
    let mut repetitions = 0; // r
    let mut reach: u64 = 1; // binomial(c + 1 + r, r)
    let mut previous = 0; // binomial(c + 1 + r, r - 1), the sum of the earlier reaches
    while reach < n {
        repetitions += 1;
        previous += reach;
        reach = reach * (snapshots + repetitions) / repetitions;
    }
    repetitions * n - previous
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recurrence itself.
    fn by_recurrence(n: usize, c: usize) -> u64 {
        match (n, c) {
            (1, _) => 0,
            (_, 0) => (n * (n - 1) / 2) as u64,
            _ => (1..n).map(|j| j as u64 + by_recurrence(n - j, c - 1) + by_recurrence(j, c)).min().unwrap_or(0),
        }
    }

    #[test]
    fn the_first_checkpoint_is_where_a_search_over_all_places_puts_it() {
        for n in 2..200 {
            for c in (1..20).chain([50, n - 1]) {
                let steps = |a: usize| a as u64 + forward_steps(n - a, c - 1) + forward_steps(a, c);
                assert_eq!(Some(best_advance(n, c)), (1..n).min_by_key(|&a| steps(a)), "n = {n}, c = {c}");
            }
        }
    }

    #[test]
    fn the_closed_form_equals_the_recurrence() {
        for n in 1..10 {
            for c in 0..6 {
                assert_eq!(forward_steps(n, c), by_recurrence(n, c), "n = {n}, c = {c}");
            }
        }
    }
}
