//! What a printed figure measures.

use std::fmt;
use std::str::FromStr;

/// A quantity; its name in the files of figures is that of [`Quantity::from_str`].
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// `time`: simulated time of an iteration.
    Time,
    /// `peak`: simulated peak.
    Peak,
    /// `peak-percent`: the same in per cent of store-all's.
    PeakPercent,
    /// `overhead`: per cent over store-all with the fastest implementations.
    Overhead,
    /// `overhead-default`: per cent over store-all with the framework's implementations.
    OverheadDefault,
    /// `throughput`: samples per second.
    Throughput,
    /// `cpu-seconds`: of planning for all budgets together.
    CpuSeconds,
    /// `hours-to-gap-5`: of planning, until the answer is proved to be within 5 %.
    HoursToGap(u32),
    /// `ratio`: geometric mean over budgets of time over the optimum of the fixed order.
    Ratio,
    /// `batch`: the largest batch.
    Batch,
    /// `nodes`, of the graph before views are folded.
    Nodes,
    /// `values`, likewise.
    Values,
    /// `forward operators`.
    ForwardOperators,
    /// `mean-overhead`: geometric mean over instances, in per cent.
    MeanOverhead,
    /// `mean-reduction`: of the peak, geometric mean over instances, in per cent.
    MeanReduction,
    /// `least-peak-within-10`: the least peak whose overhead over the framework's default is at most 10 %.
    LeastPeakWithin(u32),
    /// `least-peak-ratio`: the least peak, as a share of store-all's with the framework's implementations.
    LeastPeakRatio,
    /// `overhead-at-least-peak`: over the framework's default, in per cent.
    OverheadAtLeastPeak,
    /// `gain-over-METHOD`: throughput beyond that method's best, at no more memory; mean over instances, per cent.
    GainOver(String),
    /// `speedup-over-METHOD`: that method's time over ours, both within the budget; mean over instances.
    SpeedupOver(String),
}

/// Which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smaller.
    Less,
    /// The larger.
    More,
    /// None: they agree or differ.
    Neither,
}

const PLAIN: &[(&str, Quantity)] = &[
    ("time", Quantity::Time),
    ("peak", Quantity::Peak),
    ("peak-percent", Quantity::PeakPercent),
    ("overhead", Quantity::Overhead),
    ("overhead-default", Quantity::OverheadDefault),
    ("throughput", Quantity::Throughput),
    ("cpu-seconds", Quantity::CpuSeconds),
    ("ratio", Quantity::Ratio),
    ("batch", Quantity::Batch),
    ("nodes", Quantity::Nodes),
    ("values", Quantity::Values),
    ("forward operators", Quantity::ForwardOperators),
    ("mean-overhead", Quantity::MeanOverhead),
    ("mean-reduction", Quantity::MeanReduction),
    ("least-peak-ratio", Quantity::LeastPeakRatio),
    ("overhead-at-least-peak", Quantity::OverheadAtLeastPeak),
];

impl Quantity {
    /// Which of two of them is better.
    pub fn direction(&self) -> Direction {
        match self {
            Self::Throughput | Self::Batch | Self::MeanReduction | Self::GainOver(_) | Self::SpeedupOver(_) => {
                Direction::More
            }
            Self::Nodes | Self::Values | Self::ForwardOperators => Direction::Neither,
            _ => Direction::Less,
        }
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let method = |prefix: &str| text.strip_prefix(prefix).filter(|method| !method.is_empty()).map(str::to_owned);
        let number = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.parse::<u32>().ok());
        if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == text) {
            Ok(plain.clone())
        } else if let Some(percent) = number("least-peak-within-") {
            Ok(Self::LeastPeakWithin(percent))
        } else if let Some(percent) = number("hours-to-gap-") {
            Ok(Self::HoursToGap(percent))
        } else if let Some(method) = method("gain-over-") {
            Ok(Self::GainOver(method))
        } else if let Some(method) = method("speedup-over-") {
            Ok(Self::SpeedupOver(method))
        } else {
            let names: Vec<_> = PLAIN.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "quantity {text:?} is not known; expected one of {}, least-peak-within-N, hours-to-gap-N, gain-over-METHOD, \
                 speedup-over-METHOD",
                names.join(", ")
            ))
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeastPeakWithin(percent) => write!(formatter, "least-peak-within-{percent}"),
            Self::HoursToGap(percent) => write!(formatter, "hours-to-gap-{percent}"),
            Self::GainOver(method) => write!(formatter, "gain-over-{method}"),
            Self::SpeedupOver(method) => write!(formatter, "speedup-over-{method}"),
            plain => {
                let name = PLAIN.iter().find(|(_, quantity)| quantity == plain).map_or("", |(name, _)| name);
                formatter.write_str(name)
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_and_quantities_are_one_to_one() {
        let others = ["least-peak-within-10", "hours-to-gap-5", "gain-over-sequential", "speedup-over-revolve"];
        for name in PLAIN.iter().map(|(name, _)| *name).chain(others) {
            assert_eq!(name.parse::<Quantity>().unwrap().to_string(), name);
        }
        assert!("gain-over-".parse::<Quantity>().is_err());
        assert!("least-peak-within-x".parse::<Quantity>().unwrap_err().contains("expected one of time, peak"));
    }
}
