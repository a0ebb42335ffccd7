//! How far a run is, in a line on the terminal; nothing where standard error is none.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::job::{Message, Point};
use super::plan::Run;
use crate::harness::baseline::overhead_percent;

/// How often the seconds are shown anew.
const TICK: Duration = Duration::from_millis(500);

const NOTHING: &str = "no schedule yet";

/// A line with the time that has passed, and what [`show`] adds.
pub fn line() -> ProgressBar {
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(NOTHING);
    let style = ProgressStyle::with_template("{elapsed}: {wide_msg}");
    let line = line.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    line.enable_steady_tick(TICK);
    line
}

/// Shows what a message says of how far a run is.
pub fn show(line: &ProgressBar, message: &Message, run: &Run) {
    let Message::Progress(progress) = message else { return };
    // Where answers have claims of their own, nothing is known yet of what a bound holds for.
    let bounds = run.method.claim(&run.parameters).proves();
    let point = Point { lower_bound: progress.point.lower_bound.filter(|_| bounds), ..progress.point.clone() };
    line.set_message(words(&point, run.subject.baseline.time));
}

/// `7.45 % over store-all by checkmate-ilp, at least 6.80 % over store-all`
fn words(point: &Point, store_all: u64) -> String {
    let percent = |time: u64| match overhead_percent(time, store_all) {
        Some(percent) => format!("{percent:.2} % over store-all"),
        None => time.to_string(),
    };
    let best = point.claimed_time.map_or_else(|| NOTHING.into(), percent);
    let finder = point.found_by.as_ref().map_or(String::new(), |finder| format!(" by {finder}"));
    let bound = point.lower_bound.map_or(String::new(), |bound| format!(", at least {}", percent(bound)));
    format!("{best}{finder}{bound}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_the_best_schedule_who_found_it_and_the_bound() {
        let nothing = Point::default();
        assert_eq!(words(&nothing, 100), "no schedule yet");
        let bound = Point { lower_bound: Some(105), ..nothing };
        assert_eq!(words(&bound, 100), "no schedule yet, at least 5.00 % over store-all");
        let both = Point { claimed_time: Some(110), found_by: Some("fastsa".into()), ..bound };
        assert_eq!(words(&both, 100), "10.00 % over store-all by fastsa, at least 5.00 % over store-all");
        assert_eq!(words(&both, 0), "110 by fastsa, at least 105");
    }
}
