//! Texts in cells of CSV that a spreadsheet may open.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serializer};

/// A text as a cell: what a spreadsheet would take for a formula is preceded by an apostrophe.
pub fn cell(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text != "-" && text.parse::<f64>().is_err();
    // So that [`deserialize`] can take away what was added.
    if formula || text.starts_with('\'') { format!("'{text}").into() } else { text.into() }
}

/// Writes a field of a row: `#[serde(with = "cell")]`. What was added on writing goes on reading.
///
/// # Errors
/// The writer's.
pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&cell(text))
}

/// Reads a field.
///
/// # Errors
/// The reader's.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.strip_prefix('\'').map_or_else(|| text.clone(), str::to_owned))
}
