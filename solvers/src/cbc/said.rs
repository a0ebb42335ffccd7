//! What the program says when it ends: the first line of its solution, which all versions write alike, and a few lines
//! of its log.

use crate::cbc::program::{Ended, Exit};
use crate::outcome::Stop;

/// What it said.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Why it stopped, as it says.
    pub stop: Stop,
    /// Its own words.
    pub words: String,
    /// Proved lower bound on the objective, less what its digits leave open.
    pub bound: Option<f64>,
    /// Nodes.
    pub nodes: Option<u64>,
}

impl Said {
    /// Reads it.
    pub fn of(ended: &Ended) -> Self {
        let (stop, words) = stop(ended);
        let nodes = after(&ended.log, "Enumerated nodes:");
        let nodes = nodes.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Self { stop, words, bound: bound(&ended.log), nodes }
    }
}

fn stop(ended: &Ended) -> (Stop, String) {
    match ended.exit {
        Exit::Killed if ended.interrupted => {
            return (Stop::Interrupted, "killed, for it was told to stop and went on".into());
        }
        Exit::Killed => return (Stop::TimeLimit, "killed, for it went on after its time limit".into()),
        Exit::Itself(status) if !status.success() || ended.headline.is_empty() => {
            let last = ended.log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
            let log = ended.log.to_ascii_lowercase();
            let starved = ["bad_alloc", "allocate memory", "memory allocation", "out of memory"];
            let starved = starved.iter().any(|words| log.contains(words));
            return (if starved { Stop::MemoryLimit } else { Stop::Error }, format!("{status}: {last}"));
        }
        Exit::Itself(_) => {}
    }
    let head = ended.headline.split(" - objective").next().unwrap_or_default();
    // The search's own words, where there was one; the head of the solution calls a node limit one on iterations.
    let words = after(&ended.log, "Result - ").unwrap_or(head);
    let lower = words.to_ascii_lowercase();
    let open = ["infeasible or unbounded", "integer infeasible or"].iter().any(|words| ended.log.contains(words));
    let stops = [
        ("optimal", Stop::Optimal),
        ("problem proven infeasible", Stop::Infeasible),
        ("linear relaxation infeasible", Stop::Infeasible),
        ("linear relaxation unbounded", Stop::Unbounded),
        ("stopped on time", Stop::TimeLimit),
        // Within its first linear program; no limit is ever set on iterations.
        ("stopped on iterations", Stop::TimeLimit),
        ("stopped on node", Stop::NodeLimit),
        ("stopped on gap", Stop::GapReached),
        ("user ctrl-c", Stop::Interrupted),
        ("infeasible", Stop::Infeasible),
        ("integer infeasible", if open { Stop::InfeasibleOrUnbounded } else { Stop::Infeasible }),
        ("unbounded", Stop::Unbounded),
        // What bounds alone refute is not solved, and then the head says that nothing is known.
        ("status unknown", if ended.log.contains("infeasibility proved") { Stop::Infeasible } else { Stop::Error }),
    ];
    let stop = stops.iter().find(|(begin, _)| lower.starts_with(begin)).map_or(Stop::Error, |(_, stop)| *stop);
    match stop {
        // Told to stop because its time was over.
        Stop::Interrupted if !ended.interrupted => (Stop::TimeLimit, format!("{words}, after its time limit")),
        stop => (stop, words.to_owned()),
    }
}

/// What follows a heading at the beginning of a line.
fn after<'a>(log: &'a str, heading: &str) -> Option<&'a str> {
    log.lines().rev().find_map(|line| line.strip_prefix(heading)).map(str::trim)
}

/// The bound that stands in the log, lowered by half of its last digit: with three decimals in 2.10, with six digits since.
fn bound(log: &str) -> Option<f64> {
    let text = after(log, "Lower bound:")?;
    let bound: f64 = text.parse().ok().filter(|bound: &f64| bound.abs() < 1e49)?;
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let digits = 0.5e-5 * bound.abs();
    Some(bound - if decimals == 3 { digits.max(0.5e-3) } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(log: &str, headline: &str) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let exit = Exit::Itself(std::process::ExitStatus::from_raw(0));
        Ended { exit, interrupted: false, log: log.into(), headline: headline.into(), values: None }
    }

    fn said(log: &str, headline: &str) -> (Stop, Option<f64>, Option<u64>) {
        let said = Said::of(&ended(log, headline));
        (said.stop, said.bound, said.nodes)
    }

    #[test]
    fn both_generations_of_the_program_are_understood() {
        let old = "Result - Stopped on time limit\n\nObjective value:                8.00000000\n\
                   Lower bound:                    7.125\nGap:                            inf\n\
                   Enumerated nodes:               82493\n";
        assert_eq!(said(old, "Stopped on time - objective value 8"), (Stop::TimeLimit, Some(7.1245), Some(82493)));
        let new = "Result - Stopped on node limit\nLower bound:                    1.25e+06\n\
                   Enumerated nodes:               36265     (from fathoming 34673)\n";
        let expected = (Stop::NodeLimit, Some(1.25e6 - 6.25), Some(36265));
        assert_eq!(said(new, "Stopped on iterations - objective value 9"), expected);
        assert_eq!(said("", "Optimal - objective value 3.5").0, Stop::Optimal);
        assert_eq!(said("", "Stopped on iterations - objective value 0").0, Stop::TimeLimit);
        assert_eq!(said("", "Integer infeasible - objective value 0").0, Stop::Infeasible);
        let both = "Pre-processing says infeasible or unbounded\n";
        assert_eq!(said(both, "Integer infeasible - objective value 3.5").0, Stop::InfeasibleOrUnbounded);
        let bounds = "Bound tightening: infeasibility proved — skipping solve.\n";
        assert_eq!(said(bounds, "Status unknown - objective value 0").0, Stop::Infeasible);
        assert_eq!(said("", "Status unknown - objective value 0").0, Stop::Error);
        assert_eq!(said("Result - User ctrl-cuser ctrl-c\n", "Stopped on iterations").0, Stop::TimeLimit);
    }

    #[test]
    fn a_program_that_crashed_says_nothing_of_the_model() {
        use std::os::unix::process::ExitStatusExt;
        let crashed = |log: &str| {
            let exit = Exit::Itself(std::process::ExitStatus::from_raw(6));
            Said::of(&Ended { exit, ..ended(log, "Optimal - objective value 3") }).stop
        };
        assert_eq!(crashed("terminate called after throwing an instance of 'std::bad_alloc'"), Stop::MemoryLimit);
        assert_eq!(crashed("Segmentation fault"), Stop::Error);
        let killed = Ended { exit: Exit::Killed, ..ended("Lower bound: 1.5\n", "") };
        assert_eq!(Said::of(&killed).stop, Stop::TimeLimit);
        assert_eq!(Said::of(&Ended { interrupted: true, ..killed }).stop, Stop::Interrupted);
    }
}
