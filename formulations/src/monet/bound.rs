//! The relaxation over single stages for `monet-lp`: bounds from the multipliers of an interior-point solution, which
//! hold in exact arithmetic.

use remat_solvers::{Request, Stop, safe_bound};

use crate::method::MethodError;
use crate::search::clock::{Clock, Pace};
use crate::search::driver::Ended;
use crate::search::incumbent::Incumbent;
use crate::search::problem::Staged;
use crate::search::refinement::bound_by_blocks;
use crate::search::separation::{Pass, Relaxation, Solving, times};

/// The solution of a model so large stays as approximate as interior point leaves it.
const LARGE: usize = 50_000;

/// Solves the relaxation until no memory row is violated; over blocks of stages where there is no time for single ones.
///
/// # Errors
/// The solver refuses.
pub fn relax<P: Staged>(incumbent: &Incumbent<'_, P>, solving: Solving, clock: Clock) -> Result<Ended, MethodError> {
    let task = incumbent.judge;
    if !Pace::OF_MODELS.allows(task.stages() * task.columns(), &clock) {
        let (_, outcome) = bound_by_blocks(incumbent, solving, clock)?;
        let note = format!("{}: {}; relaxation over blocks; {}", outcome.solver, outcome.raw_status, outcome.size);
        return Ok(Ended { stop: Some(outcome.stop), note });
    }
    let mut linear = task.exact();
    let mut rounds = 0;
    loop {
        rounds += 1;
        let interior_point = linear.model().nonzeros() > LARGE;
        let request = Request { relaxation: true, interior_point, ..solving.request(&clock) };
        let outcome = solving.solver.solve(linear.model(), &request)?;
        let note =
            format!("{}: {}; relaxation in {rounds} rounds; {}", outcome.solver, outcome.raw_status, outcome.size);
        let (Some(point), false) = (outcome.linear, outcome.stop == Stop::Infeasible) else {
            return Ok(Ended { stop: Some(outcome.stop), note });
        };
        incumbent.raise(exact_bound(&linear, safe_bound(linear.model(), &point.multipliers)));
        if matches!(outcome.stop, Stop::TimeLimit | Stop::Interrupted) {
            return Ok(Ended { stop: Some(outcome.stop), note });
        }
        if linear.separate(&point.values, Pass::Relaxed, times(rounds)).is_empty() {
            return Ok(Ended { stop: None, note });
        }
    }
}

/// The bound on the time that a bound on the objective amounts to which holds in exact arithmetic.
fn exact_bound(relaxation: &impl Relaxation, objective: f64) -> u64 {
    let time = relaxation.fixed_time() as f64 + objective * relaxation.scale().time;
    // What is left is the rounding of this sum and of the scaled costs.
    let certain = (time - 1e-9 * time.abs() - 1e-6 * relaxation.scale().time).ceil().max(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^63")]
    let certain = if certain.is_finite() { certain as u64 } else { 0 };
    certain
}
