//! The table of rows: what each came to, when its schedules and proofs were there, and what was published.

use crate::ground::grid::Grid;
use crate::harness::plans::Planned;
use crate::harness::records::Record;
use crate::harness::records::select::label;
use crate::views::aggregate::{Table, number, seconds};
use crate::views::published::Published;
use crate::views::trajectory::Trajectory;

const CAPTION: &str = "Overhead, peak and bound in % of store-all's (overhead and bound: what lies above). gap: between schedule and \
proved bound, in % of the schedule. first s, best s: seconds of planning until the first and the best schedule; 5 % s, 2 % s: until \
the gap was at most so much; -: never. arena: height in the unit of memory of the plan that bench allocate \
--results made, fixed bytes not counted; above peak: those and the arena, in % above the simulated peak; -: no plan. published: figures of papers on the same instance, method and budget.";

/// The table; trajectories in the order of the records.
pub fn table(records: &[Record], trajectories: &[Trajectory], plans: &[Planned], published: &Published) -> Table {
    let header = [
        "instance",
        "budget",
        "method",
        "seed",
        "ended",
        "overhead",
        "peak",
        "bound",
        "gap",
        "first s",
        "best s",
        "5 % s",
        "2 % s",
        "wall s",
        "CPU s",
        "arena",
        "above peak",
        "published",
    ];
    let mut grid = Grid::new(header).numeric(5..17);
    for (row, trajectory) in records.iter().zip(trajectories) {
        let above = |time: Option<u64>| percent(time, row.store_all_time).map(|percent| percent - 100.0);
        let gap = row.simulated_time.zip(row.lower_bound).filter(|(time, _)| *time > 0);
        let gap = gap.map(|(time, bound)| 100.0 * (time as f64 - bound as f64) / time as f64);
        let percents = |value: Option<f64>| number(value, 2);
        let at = |step: Option<&(f64, u64)>| seconds(step.map(|step| step.0));
        let proved = |share| seconds(trajectory.seconds_to_gap(share));
        let plan = plans.iter().find(|plan| plan.is_of(row));
        grid.row([
            row.instance.clone(),
            row.budget.clone(),
            label(&row.method, &row.parameters),
            row.seed.to_string(),
            row.termination.to_string(),
            percents(above(row.simulated_time)),
            percents(percent(row.simulated_peak, row.store_all_peak)),
            percents(above(row.lower_bound)),
            percents(gap),
            at(trajectory.incumbents.first()),
            at(trajectory.incumbents.last()),
            proved(0.05),
            proved(0.02),
            seconds(Some(row.wall_seconds)),
            seconds(Some(row.cpu_seconds)),
            plan.map_or("-".into(), |plan| plan.height.to_string()),
            plan.and_then(Planned::above_peak).map_or("-".into(), |part| format!("{:.4}", 100.0 * part)),
            published.beside(&row.instance, &row.method, &row.budget),
        ]);
    }
    Table { title: "Every row", caption: CAPTION.into(), grid }
}

fn percent(value: Option<u64>, whole: u64) -> Option<f64> {
    value.filter(|_| whole > 0).map(|value| 100.0 * value as f64 / whole as f64)
}
