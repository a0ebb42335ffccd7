//! Sizes and budgets as people write them: `8GiB`, `500MB`, `1000000`, `0.5x`, `50%`.
//!
//! Parsed exactly (no floating point), so that `1.0x` is store-all's peak to the byte.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Size(pub u64);

/// A memory budget: bytes, or a fraction of store-all's simulated peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Budget {
    text: String,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Bytes(u64),
    Fraction(Decimal),
}

/// A decimal number: `digits / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: u64,
    places: u32,
}

/// Text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not of the form NUMBER UNIT.
    #[error(
        "{0:?} is not a size; expected a whole number of bytes, or a number with {UNIT_NAMES}, such as 8GiB: of at most 18 digits, and \
         below 16 EiB"
    )]
    Size(String),
    /// Neither a size nor a fraction.
    #[error(
        "{0:?} is not a budget; expected a size such as 8GiB, 500MB or 1000000 ({UNIT_NAMES}), or a fraction of store-all's peak such \
         as 0.5x or 50%: of at most 18 digits, and below 16 EiB"
    )]
    Budget(String),
}

/// A number or a text in a TOML file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a size is a whole number of bytes or a text such as \"8GiB\", and a part of store-all's peak is a text such as \"0.5x\""
)]
enum Written {
    Number(u64),
    Text(String),
}

impl Written {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// [`UNITS`] in messages.
const UNIT_NAMES: &str = "B, KB, MB, GB, TB, KiB, MiB, GiB or TiB";
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl Decimal {
    /// At most 18 digits, so that products with 64-bit numbers fit 128 bits.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let both = format!("{whole}{fraction}");
        let written = !whole.is_empty() && both.len() <= 18 && both.bytes().all(|byte| byte.is_ascii_digit());
        let dangling = text.ends_with('.');
        if !written || dangling {
            return None;
        }
        Some(Self { digits: both.parse().ok()?, places: u32::try_from(fraction.len()).ok()? })
    }

    /// This many times `unit`, rounded down; none where it does not fit.
    fn times(self, unit: u64) -> Option<u64> {
        u64::try_from(u128::from(self.digits) * u128::from(unit) / 10u128.pow(self.places)).ok()
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim().to_ascii_lowercase());
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        // "1.5" bytes are a slip; "1.5GiB" are not.
        let whole = !(number.contains('.') && factor == Some(1));
        let bytes = factor.filter(|_| whole).and_then(|factor| Decimal::parse(number)?.times(factor));
        bytes.map(Self).ok_or_else(|| SizeError::Size(text.into()))
    }
}

impl FromStr for Budget {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        // Rows are told apart by the text: a percentage is kept as the fraction that it is, and a fraction in one form.
        let written = match (text.strip_suffix('%'), text.strip_suffix(['x', 'X'])) {
            (Some(percentage), _) => fraction(percentage.trim_end(), 2),
            (_, Some(number)) => fraction(number, 0),
            _ => Some(text.to_owned()),
        };
        let amount = |written: &str| match written.strip_suffix('x') {
            // A whole number of 18 digits is one without the decimal that it is written with.
            Some(number) => Decimal::parse(number.strip_suffix(".0").unwrap_or(number)).map(Amount::Fraction),
            None => written.parse::<Size>().ok().map(|size| Amount::Bytes(size.0)),
        };
        let budget = written.and_then(|text| Some(Self { amount: amount(&text)?, text }));
        budget.ok_or_else(|| SizeError::Budget(text.into()))
    }
}

/// A number over a power of ten as a fraction with at least one decimal, as suites write it: 0.6x of 60 hundredths, 1.0x of 1.
fn fraction(number: &str, power: usize) -> Option<String> {
    let Decimal { digits, places } = Decimal::parse(number)?;
    let places = places as usize + power;
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, decimals) = digits.split_at(digits.len() - places);
    let decimals = decimals.trim_end_matches('0');
    Some(format!("{whole}.{}x", if decimals.is_empty() { "0" } else { decimals }))
}

impl TryFrom<Written> for Size {
    type Error = SizeError;
    fn try_from(written: Written) -> Result<Self, SizeError> {
        written.text().parse()
    }
}

impl TryFrom<Written> for Budget {
    type Error = SizeError;
    fn try_from(written: Written) -> Result<Self, SizeError> {
        written.text().parse()
    }
}

impl From<Budget> for String {
    fn from(budget: Budget) -> Self {
        budget.text
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Budget {
    /// The budget in the instance's unit of memory, given store-all's simulated peak; fractions are
    /// rounded down. None where it does not fit 64 bits.
    pub fn resolve(&self, store_all_peak: u64) -> Option<u64> {
        match self.amount {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Fraction(fraction) => fraction.times(store_all_peak),
        }
    }

    /// The part of store-all's peak that it is; none for a size.
    pub fn fraction(&self) -> Option<f64> {
        match self.amount {
            Amount::Bytes(_) => None,
            Amount::Fraction(Decimal { digits, places }) => Some(digits as f64 / 10f64.powi(places.cast_signed())),
        }
    }

    /// Sorts fractions before sizes, each ascending: the order of a table's columns.
    pub fn sort_key(&self) -> (bool, u128) {
        match self.amount {
            Amount::Fraction(f) => (false, u128::from(f.digits) * 10u128.pow(18 - f.places)),
            Amount::Bytes(bytes) => (true, bytes.into()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_every_unit_are_exact() {
        let sizes = ["7", "7B", "7KB", "7MB", "7GB", "7KiB", "7 MiB", "7gib", "1.5GiB", "0.001KB"];
        let bytes: Vec<_> = sizes.iter().map(|text| text.parse::<Size>().unwrap().0).collect();
        let expected = [7, 7, 7_000, 7_000_000, 7_000_000_000, 7 << 10, 7 << 20, 7 << 30, 3 << 29, 1];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn nonsense_is_no_size() {
        for text in [
            "",
            "GiB",
            "-1",
            "1.5",
            "1.GiB",
            "1..5GiB",
            "8 apples",
            "99999999999999999999",
            "20000000TiB",
            "NaN",
            "1e9",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text:?}");
            assert!(text.parse::<Budget>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_fraction_of_one_is_the_peak_to_the_byte() {
        let peak = u64::MAX - 1;
        assert_eq!("1.0x".parse::<Budget>().unwrap().resolve(peak), Some(peak));
        assert_eq!("0.5x".parse::<Budget>().unwrap().resolve(peak), Some(peak / 2));
        assert_eq!("2x".parse::<Budget>().unwrap().resolve(peak), None);
    }

    #[test]
    fn fractions_and_percentages_are_kept_in_one_form() {
        let kept = |text: &str| text.parse::<Budget>().map(|budget| budget.to_string());
        for (written, expected) in [
            ("60%", "0.6x"),
            ("100%", "1.0x"),
            ("62.5 %", "0.625x"),
            ("6%", "0.06x"),
            ("150.0%", "1.5x"),
            ("0%", "0.0x"),
            ("1x", "1.0x"),
            ("1.00x", "1.0x"),
            ("02.50X", "2.5x"),
        ] {
            assert_eq!(kept(written).unwrap(), expected);
            assert_eq!(written.parse::<Budget>(), expected.parse());
        }
        for wrong in ["%", "60%%", "60x%", "60%x", "-1%", "6GiB%", "1e1%", "0.12345678901234567%"] {
            assert!(kept(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fractions_sort_before_sizes_and_by_value() {
        let mut budgets: Vec<Budget> =
            ["1GiB", "1.0x", "0.25x", "500MB", "0.9x"].iter().map(|t| t.parse().unwrap()).collect();
        budgets.sort_by_key(Budget::sort_key);
        let texts: Vec<_> = budgets.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["0.25x", "0.9x", "1.0x", "500MB", "1GiB"]);
    }
}
