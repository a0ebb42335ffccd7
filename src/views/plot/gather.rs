//! Points gathered into the series of a figure: one for each label, in the order of the registry, each with a look by
//! which it is told from the others.

use std::collections::BTreeMap;

use super::figure::{Joined, Series};
use super::style;
use crate::harness::records::Record;
use crate::harness::records::select::{self, AtBudget, median, rank, series_label};

/// The series of a figure while points are added.
#[derive(Default)]
pub struct Gathered(Vec<Series>);

impl Gathered {
    /// The series of a label; a new one of the method where there is none yet.
    pub fn of(&mut self, method: &str, label: String, joined: Joined) -> &mut Series {
        let at = self.0.iter().position(|series| series.label == label).unwrap_or_else(|| {
            self.0.push(Series::of(method, label, joined));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// All of them as they came.
    pub fn series(&mut self) -> &mut [Series] {
        &mut self.0
    }

    /// The series that have points, as [`arranged`].
    pub fn finish(mut self) -> Vec<Series> {
        self.0.retain(|series| !series.points.is_empty());
        arranged(self.0)
    }
}

impl Series {
    /// A series of a method, without points.
    pub fn of(method: &str, label: String, joined: Joined) -> Self {
        Self { method: method.into(), ..Self::new(label, rank(method), style::of(method), joined) }
    }

    /// Its place in the legend. The shorter label is the one with fewer parameters that are not at their defaults.
    fn place(&self) -> (usize, &str, bool, usize) {
        (self.order, &self.method, self.secondary, self.label.len())
    }
}

/// Series in the order of the legend, the settings of a method together. The first setting has the full look.
pub fn arranged(mut series: Vec<Series>) -> Vec<Series> {
    series.sort_by(|a, b| a.place().cmp(&b.place()));
    let mut looks = Vec::new();
    for settings in series.chunk_by_mut(|a, b| a.method == b.method) {
        let look = style::apart(&settings[0].method, &looks);
        looks.push(look);
        for (others, series) in settings.iter_mut().enumerate() {
            series.secondary |= others > 0;
            series.style = look.of_setting(others);
        }
    }
    series
}

/// Series with the very same points and values behind them become one, for the last drawn would hide the others.
pub fn merge_equal(series: Vec<Series>) -> Vec<Series> {
    let mut merged: Vec<Series> = Vec::with_capacity(series.len());
    for one in series {
        match merged.iter_mut().find(|other| other.equals(&one)) {
            Some(equal) => equal.also.push(one.label),
            None => merged.push(one),
        }
    }
    merged
}

/// Series as bars about the places of their names, one below the other. Bars have no markers, so each has a colour of its own.
pub fn as_bars(mut series: Vec<Series>) -> Vec<Series> {
    let width = 0.84 / series.len().max(1) as f64;
    for at in 0..series.len() {
        let (before, rest) = series.split_at_mut(at);
        let one = &mut rest[0];
        let taken =
            |colour| before.iter().any(|other| (other.style.colour, other.secondary) == (colour, one.secondary));
        one.style = one.style.in_colour_apart(taken);
        one.joined = Joined::Bars { width };
        for point in &mut one.points {
            point.1 += 0.42 - width * (at as f64 + 0.5);
        }
    }
    series
}

/// The rows of an instance by series.
pub fn by_series<'a>(rows: &[&'a Record]) -> BTreeMap<String, Vec<&'a Record>> {
    let mut series: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for row in rows {
        series.entry(series_label(row)).or_default().push(row);
    }
    series
}

/// The row that stands for a series at a budget: of several seeds the median, and of a method that ignores budgets the
/// fastest within it.
pub fn row_at_budget<'a>(rows: &[&'a Record], budget: &str) -> Option<&'a Record> {
    match select::at_budget(rows, budget)? {
        AtBudget::Seeds(seeds) => median(&seeds),
        AtBudget::Points { best, .. } => best,
    }
}

/// The points of all series.
pub fn points_of(series: &[Series]) -> impl Iterator<Item = (f64, f64)> {
    series.iter().flat_map(|series| series.points.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(methods: &[(&str, &str)]) -> Vec<Series> {
        let mut all = Gathered::default();
        for (at, (method, label)) in methods.iter().enumerate() {
            all.of(method, (*label).into(), Joined::Lines).points.push((at as f64, 1.0));
        }
        all.finish()
    }

    #[test]
    fn methods_that_are_not_registered_are_methods_of_their_own_wherever_they_stand() {
        let series = gathered(&[("theirs", "theirs"), ("revolve", "revolve"), ("mine", "mine"), ("mine", "mine[a=1]")]);
        let seen: Vec<_> = series.iter().map(|series| (series.label.as_str(), series.secondary)).collect();
        assert_eq!(seen, [("revolve", false), ("mine", false), ("mine[a=1]", true), ("theirs", false)]);
        let alone = gathered(&[("mine", "mine")]);
        assert_eq!(alone[0].style, series[1].style);
        assert_ne!(series[1].style, series[3].style);
    }

    #[test]
    fn bars_of_different_methods_have_different_colours() {
        let points = [("rotor-weak", "a"), ("chen-sqrt", "b"), ("dtr", "c"), ("dtr", "d"), ("dtr", "e")];
        let bars = as_bars(gathered(&points));
        for (at, one) in bars.iter().enumerate() {
            let alike = |other: &Series| (other.style.colour, other.secondary) == (one.style.colour, one.secondary);
            assert!(!bars[at + 1..].iter().any(alike), "{}", one.label);
        }
        assert_eq!(bars[0].joined, Joined::Bars { width: 0.84 / 5.0 });
        assert!(bars[0].points[0].1 > bars[1].points[0].1);
    }

    #[test]
    fn a_line_with_a_gap_is_not_the_one_without() {
        let series = |gaps: &[f64]| {
            let blank = Series::new("a".into(), 0, style::turn(0), Joined::Lines);
            Series { points: vec![(1.0, 2.0), (3.0, 2.0)], gaps: gaps.to_vec(), ..blank }
        };
        assert_eq!(merge_equal(vec![series(&[]), series(&[2.0]), series(&[4.0])]).len(), 2);
    }
}
