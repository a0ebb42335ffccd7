//! Published figures, to be printed beside ours: `results/published/*.csv`, one row per figure with
//! its source. Knows nothing of what the figures mean.

use std::path::Path;

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use crate::failure::Failure;

/// A row of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The paper.
    paper: String,
    /// Table or section.
    #[serde(rename = "where")]
    location: String,
    /// Pattern over the names of the instances that it is about.
    instance: String,
    /// Id of the method.
    method: String,
    /// What kind of figure: `ratio`, `batch`.
    quantity: String,
    /// The figure, as printed there.
    printed: String,
}

/// Figures of any number of publications.
#[derive(Debug, Default)]
pub struct Published {
    rows: Vec<(Row, GlobMatcher)>,
}

impl Published {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a row is of another shape.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let failed = |words: String| Failure::input(format!("{name}: {words}"));
        let mut reader = csv::Reader::from_path(path).map_err(|error| failed(format!("cannot read: {error}")))?;
        let mut rows = Vec::new();
        for row in reader.deserialize() {
            let row: Row = row.map_err(|error| {
                failed(format!("{error}; expected the columns paper, where, instance, method, quantity, printed"))
            })?;
            let glob = Glob::new(&row.instance).map_err(|error| failed(error.to_string()))?.compile_matcher();
            rows.push((row, glob));
        }
        Ok(Self { rows })
    }

    /// The figure of a quantity for a method on an instance, as printed; empty where there is none.
    pub fn value(&self, quantity: &str, instance: &str, method: &str) -> &str {
        let asked = |(row, glob): &&(Row, GlobMatcher)| {
            row.quantity == quantity && row.method == method && glob.is_match(instance)
        };
        self.rows.iter().find(asked).map_or("", |(row, _)| &row.printed)
    }

    /// Where the figures of a quantity come from.
    pub fn sources(&self, quantity: &str) -> Vec<String> {
        let rows = self.rows.iter().filter(|(row, _)| row.quantity == quantity);
        let mut sources: Vec<_> = rows.map(|(row, _)| format!("{}, {}", row.paper, row.location)).collect();
        sources.dedup();
        sources
    }
}
