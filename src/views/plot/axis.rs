//! An axis: its label with the unit, its range, and whether equal steps are equal differences or equal ratios.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use remat_core::format::MemoryUnit;

use crate::ground::format::tick;

/// What equal distances along an axis stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences.
    Linear,
    /// Equal ratios; the range must begin above zero.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, and in which unit.
    pub label: String,
    /// From where to where.
    pub range: Range<f64>,
    /// What equal distances stand for.
    pub scale: Scale,
    /// What stands at 0, -1, ... along an axis of names, the first farthest up; empty for one of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// From zero to a little beyond the values, above and below: for what is compared by ratio.
    pub fn from_zero(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = extremes(values);
        let (low, high) = (low.min(0.0), high.max(0.0));
        let high = if low < high { high } else { 1.0 };
        let margin = (high - low) * 0.06;
        let floor = if low < 0.0 { low - margin } else { 0.0 };
        Self { label: label.into(), range: floor..high + margin, scale: Scale::Linear, names: vec![] }
    }

    /// Around the values, not down to zero: for what is compared by difference.
    pub fn around(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = extremes(values);
        let margin = ((high - low) * 0.08).max(high.abs() * 0.01);
        let margin = if margin > 0.0 { margin } else { 1.0 };
        // A point at zero is not to be cut in half by the axis.
        let floor = if low > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        Self {
            label: label.into(),
            range: (low - margin).max(floor)..high + margin,
            scale: Scale::Linear,
            names: vec![],
        }
    }

    /// A range as it is.
    pub fn fixed(label: impl Into<String>, range: Range<f64>, scale: Scale) -> Self {
        Self { label: label.into(), range, scale, names: vec![] }
    }

    /// Names below each other.
    pub fn of_names(names: Vec<String>) -> Self {
        let range = 0.5 - names.len() as f64..0.5;
        Self { label: String::new(), range, scale: Scale::Linear, names }
    }

    /// What stands at a tick.
    pub fn text_at(&self, value: f64) -> String {
        let name = self.names.iter().zip(0_u32..).find(|&(_, at)| (value + f64::from(at)).abs() < 0.25);
        match self.scale {
            _ if !self.names.is_empty() => name.map_or(String::new(), |(name, _)| name.clone()),
            Scale::Linear => tick(value / 10f64.powi(self.power())),
            Scale::Logarithmic if value >= LARGE => power_text(value),
            Scale::Logarithmic => tick(value),
        }
    }

    /// The label, with the power of ten that ticks leave out in front of the unit.
    pub fn described(&self) -> String {
        let power = self.power();
        match self.label.rsplit_once('(') {
            _ if power == 0 => self.label.clone(),
            Some((what, unit)) => format!("{what}(10^{power} {unit}"),
            None => format!("{} (10^{power})", self.label),
        }
    }

    /// The power of ten, a multiple of three, that ticks of large numbers leave out.
    fn power(&self) -> i32 {
        let largest = self.range.start.abs().max(self.range.end.abs());
        if self.scale == Scale::Linear && largest >= LARGE { exponent(largest).div_euclid(3) * 3 } else { 0 }
    }

    /// How the drawing library places values on the axis.
    pub fn coordinate(&self) -> Coordinate {
        Coordinate { range: self.range.clone(), scale: self.scale, named: !self.names.is_empty() }
    }
}

/// What memory is counted in where the largest is so much: units of the instance for one, and their name.
pub fn memory_unit(unit: MemoryUnit, largest: u64) -> (f64, &'static str) {
    let scales = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    match scales.into_iter().find(|&(scale, _)| largest >= scale) {
        _ if unit == MemoryUnit::Abstract => (1.0, "units of the instance"),
        Some((scale, name)) => (scale as f64, name),
        None => (1.0, "B"),
    }
}

/// The least and the largest value; the range from zero to one where there is none.
fn extremes(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let both = values.into_iter().fold(None, |both: Option<(f64, f64)>, value| {
        Some(both.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    both.unwrap_or((0.0, 1.0))
}

/// A range and a scale, as the drawing library needs them.
#[derive(Clone, Debug)]
pub struct Coordinate {
    range: Range<f64>,
    scale: Scale,
    /// Ticks at whole numbers, all of them.
    named: bool,
}

impl Ranged for Coordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self.scale {
            Scale::Linear => RangedCoordf64::from(self.range.clone()).map(value, limit),
            Scale::Logarithmic => {
                let logarithms = self.range.start.log10()..self.range.end.log10();
                RangedCoordf64::from(logarithms).map(&value.log10(), limit)
            }
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.scale {
            Scale::Linear if self.named => {
                std::iter::successors(Some(0.0), |place| Some(place - 1.0).filter(|&next| next > self.range.start))
                    .collect()
            }
            Scale::Linear => RangedCoordf64::from(self.range.clone()).key_points(hint),
            Scale::Logarithmic => {
                let ticks = logarithmic_ticks(&self.range, hint.max_num_points());
                // A range too narrow for round powers has round differences.
                if ticks.len() > 2 { ticks } else { RangedCoordf64::from(self.range.clone()).key_points(hint) }
            }
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format(value: &f64) -> String {
        tick(*value)
    }
}

/// The densest of 1-2-5, 1-3 and 1 per power of ten that keeps to the number; else powers further apart.
fn logarithmic_ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let inside = |value: &f64| (range.start * (1.0 - 1e-9)..=range.end * (1.0 + 1e-9)).contains(value);
    let (first, last) = (exponent(range.start), exponent(range.end));
    let ticks = |within: &[f64], stride: usize| -> Vec<f64> {
        let powers = (first..=last).filter(|power| power.rem_euclid(stride.try_into().unwrap_or(i32::MAX)) == 0);
        let values = powers.flat_map(|power| within.iter().map(move |digit| digit * 10f64.powi(power)));
        values.filter(inside).collect()
    };
    let candidates = [ticks(&[1.0, 2.0, 5.0], 1), ticks(&[1.0, 3.0], 1)];
    let sparse = (1..=most.max(1)).map(|stride| ticks(&[1.0], stride));
    candidates.into_iter().chain(sparse).find(|ticks| ticks.len() <= most.max(2)).unwrap_or_default()
}

/// The power of ten at or below a positive value.
#[expect(clippy::cast_possible_truncation, reason = "exponents of finite numbers lie within -324 and 308")]
fn exponent(value: f64) -> i32 {
    value.max(f64::MIN_POSITIVE).log10().floor() as i32
}

/// Ticks from here on are powers of ten, or leave one out.
const LARGE: f64 = 1e6;

/// A large tick: `10^9`, or `2·10^9`.
fn power_text(value: f64) -> String {
    let power = exponent(value * (1.0 + 1e-9));
    match tick(value / 10f64.powi(power)).as_str() {
        "1" => format!("10^{power}"),
        digits => format!("{digits}·10^{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_ticks_are_round_and_few() {
        let texts = |range: Range<f64>| logarithmic_ticks(&range, 8).into_iter().map(tick).collect::<Vec<_>>();
        assert_eq!(texts(0.001..100.0), ["0.001", "0.01", "0.1", "1", "10", "100"]);
        assert_eq!(texts(1.0..4.0), ["1", "2"]);
        assert_eq!(texts(0.5..30.0), ["0.5", "1", "2", "5", "10", "20"]);
        assert!(texts(1e-6..1e6).len() <= 8);
    }

    #[test]
    fn a_logarithmic_axis_places_ratios() {
        let axis = Axis::fixed("s", 1.0..100.0, Scale::Logarithmic).coordinate();
        assert_eq!([1.0, 10.0, 100.0].map(|value| axis.map(&value, (0, 200))), [0, 100, 200]);
        let narrow = Axis::fixed("ratio", 1.0..1.4, Scale::Logarithmic).coordinate();
        assert_eq!(narrow.key_points(6).into_iter().map(tick).collect::<Vec<_>>(), ["1", "1.1", "1.2", "1.3", "1.4"]);
    }

    #[test]
    fn an_axis_from_zero_reaches_below_it_where_values_do() {
        let range = |values: &[f64]| {
            let range = Axis::from_zero("y", values.iter().copied()).range;
            [range.start, range.end].map(tick)
        };
        assert_eq!(range(&[2.0, 1.0]), ["0", "2.12"]);
        assert_eq!(range(&[-3.0, 0.0]), ["-3.18", "0.18"]);
        assert_eq!(range(&[-1.0, 1.0]), ["-1.12", "1.12"]);
        assert_eq!(range(&[0.0]), ["0", "1.06"]);
        assert_eq!(range(&[]), ["0", "1.06"]);
    }

    #[test]
    fn large_numbers_leave_a_power_of_ten_to_the_label() {
        let axis = Axis::from_zero("Time (abstract units)", [2e13]);
        assert_eq!((axis.described(), axis.text_at(5e12)), ("Time (10^12 abstract units)".into(), "5".into()));
        let axis = Axis::from_zero("Mutations", [9e5]);
        assert_eq!((axis.described(), axis.text_at(9e5)), ("Mutations".into(), "900000".into()));
        assert_eq!(Axis::from_zero("Mutations", [1e7]).described(), "Mutations (10^6)");
        let axis = Axis::fixed("Slots", 1.0..1e9, Scale::Logarithmic);
        assert_eq!([1.0, 1e5, 1e6, 2e8].map(|value| axis.text_at(value)), ["1", "100000", "10^6", "2·10^8"]);
    }

    #[test]
    fn memory_is_counted_in_the_unit_that_fits() {
        assert_eq!(
            [3u64 << 40, 5 << 20, 40 << 10, 40, 0].map(|size| memory_unit(MemoryUnit::Bytes, size).1),
            ["GiB", "MiB", "KiB", "B", "B"]
        );
        assert_eq!(memory_unit(MemoryUnit::Abstract, 1 << 40), (1.0, "units of the instance"));
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        assert_eq!([0.0, 0.5, 1.0, 0.001, 12.25, 100.0].map(tick), ["0", "0.5", "1", "0.001", "12.25", "100"]);
        assert_eq!([-0.0, -1e-9, -0.5].map(tick), ["0", "0", "-0.5"]);
        let flat = Axis::around("y", [0.0, 0.0]).range;
        assert_eq!([flat.start, flat.end].map(tick), ["-1", "1"]);
    }
}
