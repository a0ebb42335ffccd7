//! What was known when: incumbents and bounds of a row over planning time, from the trace that its run
//! left and from the row itself.
//!
//! Planning time counts from when the method turned to the row's budget, as its time limit does. Work that
//! serves several budgets counts for the first.

use std::path::Path;

use crate::ground::failure::Failure;
use crate::ground::rows;
use crate::harness::records::Record;
use crate::harness::records::paths::trace_path;
use crate::harness::run::job::Point;

/// Seconds of planning, and a time in the instance's unit.
pub type Step = (f64, u64);

/// What was known when about one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// Each better schedule: when, and the time that the method claimed of it. The last is the simulator's.
    pub incumbents: Vec<Step>,
    /// Each better proved lower bound.
    pub bounds: Vec<Step>,
    /// When the answer was there, or the run was stopped.
    pub end: f64,
}

impl Trajectory {
    /// The trajectory of a row whose answer was there after `answered` seconds (none: it was stopped).
    pub fn new(record: &Record, answered: Option<f64>, trace: &[Point]) -> Self {
        let last = trace.last().map_or(0.0, |point| point.seconds);
        let end = answered.unwrap_or(record.wall_seconds).max(last);
        let mut trajectory = Self { end, ..Self::default() };
        // On the way a method may report bounds of several classes; those of the row's are within its own.
        let of_row = |bound: &u64| record.lower_bound.is_some_and(|last| *bound <= last);
        for point in trace {
            trajectory.note(point.seconds, point.claimed_time, point.lower_bound.filter(of_row));
        }
        let simulated = record.simulated_time.filter(|_| record.is_solved());
        if simulated.is_none() {
            // What the judge refused, or nobody kept, is no incumbent.
            trajectory.incumbents.clear();
        }
        // What a stopped run had at the end, it had when it last said so.
        trajectory.note(if answered.is_some() { end } else { last }, simulated, record.lower_bound);
        trajectory
    }

    fn note(&mut self, seconds: f64, time: Option<u64>, bound: Option<u64>) {
        if let Some(time) = time.filter(|&time| self.incumbents.last().is_none_or(|&(_, last)| time < last)) {
            self.incumbents.push((seconds, time));
        }
        if let Some(bound) = bound.filter(|&bound| self.bounds.last().is_none_or(|&(_, last)| bound > last)) {
            self.bounds.push((seconds, bound));
        }
    }

    /// When the gap between schedule and bound, (time - bound) / time, was first at most so much.
    pub fn seconds_to_gap(&self, gap: f64) -> Option<f64> {
        let mut moments: Vec<f64> = self.incumbents.iter().chain(&self.bounds).map(|&(at, _)| at).collect();
        moments.sort_by(f64::total_cmp);
        let last =
            |steps: &[Step], at: f64| steps.iter().take_while(|(step, _)| *step <= at).last().map(|&(_, value)| value);
        moments.into_iter().find(|&at| {
            let known = last(&self.incumbents, at).zip(last(&self.bounds, at));
            known.is_some_and(|(time, bound)| time.saturating_sub(bound) as f64 <= gap * time as f64)
        })
    }

    /// The best time known after so many seconds.
    pub fn incumbent_at(&self, seconds: f64) -> Option<u64> {
        self.incumbents.iter().take_while(|(at, _)| *at <= seconds).last().map(|&(_, time)| time)
    }
}

/// The trajectory of each row, in their order; `folder` holds `traces/`.
///
/// # Errors
/// A trace is there and cannot be read.
pub fn read_all(records: &[Record], folder: &Path) -> Result<Vec<Trajectory>, Failure> {
    records.iter().map(|record| Ok(of_row(record, &read_trace(folder, record)?))).collect()
}

/// The trajectory of a row with its trace.
pub fn of_row(record: &Record, trace: &[Point]) -> Trajectory {
    Trajectory::new(record, record.planning_seconds(), trace)
}

/// The trace of a row; empty where the method reported nothing.
fn read_trace(folder: &Path, record: &Record) -> Result<Vec<Point>, Failure> {
    let path = trace_path(&folder.join("traces"), record);
    let trace: Vec<Point> = rows::read(&path, "remove the file")?;
    match trace.iter().find(|point| !(0.0..f64::INFINITY).contains(&point.seconds)) {
        Some(Point { seconds, .. }) => Err(Failure::input(format!(
            "{}: seconds is {seconds:?}; expected a finite number from 0 on, or remove the file",
            path.display()
        ))),
        None => Ok(trace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::Ending;
    use crate::harness::records::tests::example;
    use remat_formulations::Termination;

    fn point(seconds: f64, time: Option<u64>, bound: Option<u64>) -> Point {
        Point { seconds, claimed_time: time, lower_bound: bound, ..Point::default() }
    }

    #[test]
    fn only_what_is_better_counts_and_the_last_word_is_the_simulators() {
        let record = Record { lower_bound: Some(900), simulated_time: Some(1000), ..example("m", None) };
        let trace =
            [point(0.1, Some(1500), Some(700)), point(0.2, Some(1500), Some(800)), point(0.3, Some(1100), None)];
        let trajectory = Trajectory::new(&record, Some(0.5), &trace);
        assert_eq!(trajectory.incumbents, [(0.1, 1500), (0.3, 1100), (0.5, 1000)]);
        assert_eq!(trajectory.bounds, [(0.1, 700), (0.2, 800), (0.5, 900)]);
        let at = [0.0, 0.1, 0.29, 9.0].map(|seconds| trajectory.incumbent_at(seconds));
        assert_eq!(at, [None, Some(1500), Some(1500), Some(1000)]);
    }

    #[test]
    fn a_gap_is_reached_as_soon_as_schedule_and_bound_are_so_close() {
        let record = Record { lower_bound: Some(980), simulated_time: Some(1000), ..example("m", None) };
        let trace = [point(1.0, Some(1100), None), point(2.0, None, Some(900)), point(4.0, Some(1000), Some(960))];
        let trajectory = Trajectory::new(&record, Some(9.0), &trace);
        let reached = [0.2, 0.05, 0.02, 0.01].map(|gap| trajectory.seconds_to_gap(gap));
        assert_eq!(reached, [Some(2.0), Some(4.0), Some(9.0), None]);
        let none = Trajectory { incumbents: vec![], ..trajectory };
        assert_eq!(none.seconds_to_gap(1.0), None);
    }

    #[test]
    fn incumbents_of_a_row_without_a_checked_schedule_do_not_count() {
        let failed = Ending::Ran(Termination::Error);
        let refused = Record { termination: failed, lower_bound: Some(4), ..example("m", None) };
        let trajectory = Trajectory::new(&refused, Some(0.5), &[point(0.1, Some(5), Some(4))]);
        assert_eq!((trajectory.incumbents, trajectory.bounds), (vec![], vec![(0.1, 4)]));
    }

    #[test]
    fn bounds_beyond_the_rows_own_are_of_another_class() {
        let trace = [point(0.1, None, Some(4)), point(0.2, None, Some(6))];
        for (bound, bounds) in [(Some(5), vec![(0.1, 4), (0.5, 5)]), (None, vec![])] {
            let record = Record { lower_bound: bound, ..example("m", None) };
            assert_eq!(Trajectory::new(&record, Some(0.5), &trace).bounds, bounds);
        }
    }

    #[test]
    fn a_stopped_run_ends_with_its_process() {
        let stopped = Record { wall_seconds: 7.0, simulated_time: Some(8), ..example("m", None) };
        let trajectory = Trajectory::new(&stopped, None, &[point(2.0, Some(8), None)]);
        assert_eq!((trajectory.incumbents, trajectory.end), (vec![(2.0, 8)], 7.0));
    }
}
