//! The verdict on one of our figures beside a printed one.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::measure::Ours;
use super::quantity::Direction;

/// How ours compares with what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They agree.
    Match,
    /// Ours is better.
    Better,
    /// Ours is worse.
    Worse,
    /// They differ, and neither is better.
    Differs,
    /// They do not measure the same, or ours cannot be had.
    NotComparable,
    /// What ours needs was not run.
    NotRun,
}

impl Verdict {
    /// As people write it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::NotComparable => "not comparable",
            Self::NotRun => "not run",
        }
    }
}

/// A figure as printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Printed {
    /// A number.
    Value(f64),
    /// `>=11.4`, `>3600`: at least so much.
    AtLeast(f64),
    /// `<=1`, `<20`: at most so much.
    AtMost(f64),
    /// `-`: no schedule was found, or there is none.
    None,
}

impl FromStr for Printed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = |text: &str| text.replace(',', "").parse::<f64>().ok().filter(|number| number.is_finite());
        let after = |signs: [&str; 2]| signs.iter().find_map(|sign| text.strip_prefix(sign)).map(str::trim);
        let parsed = if text == "-" {
            Some(Self::None)
        } else if let Some(rest) = after([">=", ">"]) {
            number(rest).map(Self::AtLeast)
        } else if let Some(rest) = after(["<=", "<"]) {
            number(rest).map(Self::AtMost)
        } else {
            number(text).map(Self::Value)
        };
        parsed.ok_or_else(|| "expected a number, such as 1,105 or 9.7, a bound such as >=11.4 or <20, or -".into())
    }
}

/// When figures agree, and which is better when they do not.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Share of the printed figure.
    pub within: f64,
    /// Units of the printed figure.
    pub points: f64,
    /// Which is better.
    pub direction: Direction,
    /// Why the two do not measure the same.
    pub incomparable: Option<String>,
}

/// A verdict and what led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// What to say besides.
    pub why: String,
    /// Ours over the printed figure, minus 1.
    pub deviation: Option<f64>,
}

/// Compares.
pub fn judge(printed: Printed, ours: &Ours, rule: &Rule) -> Judgement {
    let plain = |verdict, why: &str| Judgement { verdict, why: why.into(), deviation: None };
    match (printed, ours) {
        (_, Ours::NotRun) => plain(Verdict::NotRun, ""),
        (_, Ours::Missing(why)) => plain(Verdict::NotComparable, why),
        _ if rule.incomparable.is_some() => {
            let deviation = deviation(printed, ours);
            let why = rule.incomparable.clone().unwrap_or_default();
            Judgement { verdict: Verdict::NotComparable, why, deviation }
        }
        (Printed::None, Ours::None(_)) => plain(Verdict::Match, "no schedule there either"),
        (Printed::None, Ours::Value { .. }) => plain(Verdict::Better, "no schedule there"),
        // To need at least so much, or to find nothing, may be the same.
        (Printed::AtLeast(_), Ours::None(why)) if rule.direction == Direction::Less => plain(Verdict::Match, why),
        (_, Ours::None(why)) => plain(Verdict::Worse, why),
        (Printed::AtLeast(bound), Ours::Value { value, .. }) => {
            one_sided(*value >= slack(bound, rule, -1.0), Direction::Less, rule)
        }
        (Printed::AtMost(bound), Ours::Value { value, .. }) => {
            one_sided(*value <= slack(bound, rule, 1.0), Direction::More, rule)
        }
        (Printed::Value(expected), Ours::Value { value, .. }) => two_sided(expected, *value, rule),
    }
}

fn slack(bound: f64, rule: &Rule, sign: f64) -> f64 {
    bound + sign * (bound.abs() * rule.within).max(rule.points)
}

/// Whether a bound holds; `beyond` is the direction in which ours lies where it does not.
fn one_sided(holds: bool, beyond: Direction, rule: &Rule) -> Judgement {
    let verdict = match (holds, rule.direction) {
        (true, _) => Verdict::Match,
        (false, Direction::Neither) => Verdict::Differs,
        (false, better) if better == beyond => Verdict::Better,
        (false, _) => Verdict::Worse,
    };
    Judgement { verdict, why: String::new(), deviation: None }
}

fn two_sided(expected: f64, value: f64, rule: &Rule) -> Judgement {
    // What is printed is rounded, and so is ours: a hair is no difference.
    let tolerance = (expected.abs() * rule.within).max(rule.points) + 1e-9 * expected.abs();
    let verdict = match rule.direction {
        _ if (value - expected).abs() <= tolerance => Verdict::Match,
        Direction::Neither => Verdict::Differs,
        Direction::Less if value < expected => Verdict::Better,
        Direction::More if value > expected => Verdict::Better,
        _ => Verdict::Worse,
    };
    Judgement { verdict, why: String::new(), deviation: ratio(value, expected) }
}

fn ratio(value: f64, expected: f64) -> Option<f64> {
    (expected != 0.0).then(|| value / expected - 1.0)
}

fn deviation(printed: Printed, ours: &Ours) -> Option<f64> {
    match (printed, ours) {
        (Printed::Value(expected), Ours::Value { value, .. }) => ratio(*value, expected),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn value(value: f64) -> Ours {
        Ours::Value { value, note: String::new() }
    }

    fn rule(direction: Direction) -> Rule {
        Rule { within: 0.05, points: 0.0, direction, incomparable: None }
    }

    fn verdict(printed: &str, ours: &Ours, rule: &Rule) -> Verdict {
        judge(printed.parse().unwrap(), ours, rule).verdict
    }

    #[test]
    fn figures_within_the_tolerance_agree_whatever_the_direction() {
        for direction in [Direction::Less, Direction::More, Direction::Neither] {
            for ours in [95.0, 100.0, 105.0] {
                assert_eq!(verdict("100", &value(ours), &rule(direction)), Verdict::Match);
            }
        }
        let exact = Rule { within: 0.0, ..rule(Direction::Less) };
        assert_eq!(verdict("37.4", &value(37.4), &exact), Verdict::Match);
        assert_eq!(verdict("37.4", &value(37.41), &exact), Verdict::Worse);
    }

    #[test]
    fn beyond_the_tolerance_the_direction_decides() {
        let cases = [
            (Direction::Less, 90.0, Verdict::Better),
            (Direction::Less, 110.0, Verdict::Worse),
            (Direction::More, 90.0, Verdict::Worse),
            (Direction::More, 110.0, Verdict::Better),
            (Direction::Neither, 110.0, Verdict::Differs),
        ];
        for (direction, ours, expected) in cases {
            assert_eq!(verdict("100", &value(ours), &rule(direction)), expected, "{direction:?} {ours}");
        }
    }

    #[test]
    fn an_overhead_of_nothing_is_compared_in_points_not_in_shares() {
        let rule = Rule { points: 0.5, ..rule(Direction::Less) };
        assert_eq!(verdict("0.0", &value(0.4), &rule), Verdict::Match);
        assert_eq!(verdict("0.0", &value(0.6), &rule), Verdict::Worse);
        assert_eq!(judge(Printed::Value(0.0), &value(0.4), &rule).deviation, None);
    }

    #[test]
    fn bounds_agree_where_they_hold() {
        let less = rule(Direction::Less);
        assert_eq!(verdict(">=11.4", &value(14.6), &less), Verdict::Match);
        assert_eq!(verdict(">=11.4", &value(9.0), &less), Verdict::Better);
        assert_eq!(verdict("<20", &value(3.0), &less), Verdict::Match);
        assert_eq!(verdict("<20", &value(30.0), &less), Verdict::Worse);
        assert_eq!(verdict(">=10", &value(3.0), &rule(Direction::More)), Verdict::Worse);
    }

    #[test]
    fn where_one_side_has_no_schedule_the_other_is_better() {
        let (less, none) = (rule(Direction::Less), Ours::None("infeasible".into()));
        assert_eq!(verdict("-", &none, &less), Verdict::Match);
        assert_eq!(verdict("-", &value(3.0), &less), Verdict::Better);
        let judgement = judge(Printed::Value(3.0), &none, &less);
        assert_eq!((judgement.verdict, judgement.why.as_str()), (Verdict::Worse, "infeasible"));
        assert_eq!(verdict(">3600", &none, &less), Verdict::Match);
    }

    #[test]
    fn what_was_not_run_or_measures_something_else_is_not_judged() {
        let less = rule(Direction::Less);
        assert_eq!(verdict("1.0", &Ours::NotRun, &less), Verdict::NotRun);
        let missing = judge(Printed::Value(1.0), &Ours::Missing("no batch size".into()), &less);
        assert_eq!((missing.verdict, missing.why.as_str()), (Verdict::NotComparable, "no batch size"));
        let other = Rule { incomparable: Some("another machine".into()), ..less };
        let judgement = judge(Printed::Value(2.0), &value(1.0), &other);
        assert_eq!((judgement.verdict, judgement.deviation), (Verdict::NotComparable, Some(-0.5)));
        assert_eq!(judgement.why, "another machine");
    }

    #[test]
    fn printed_figures_are_numbers_bounds_or_a_dash() {
        assert_eq!("719,327".parse(), Ok(Printed::Value(719_327.0)));
        assert_eq!(">= 11.4".parse(), Ok(Printed::AtLeast(11.4)));
        assert_eq!("<1".parse(), Ok(Printed::AtMost(1.0)));
        for wrong in ["", "about 3", "--", "NaN"] {
            assert!(wrong.parse::<Printed>().is_err(), "{wrong}");
        }
    }
}
