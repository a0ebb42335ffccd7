//! Published figures, to be printed beside ours: `results/published/*.csv`, one row per figure with
//! its source. Knows nothing of what the figures mean.

use std::path::Path;

use serde::Deserialize;

use crate::ground::failure::Failure;
use crate::ground::library::InstanceGlob;
use crate::ground::library::glob;
use crate::ground::size::Budget;

/// A figure as a paper prints it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedFigure {
    /// The paper.
    pub paper: String,
    /// Table, figure or section.
    #[serde(rename = "where")]
    pub location: String,
    /// Pattern over the names of the instances that it is about.
    pub instance: String,
    /// The method that is ours for it, with parameters where they matter; empty where none is.
    #[serde(default)]
    pub method: String,
    /// The budget, as suites write it; empty where there is none.
    #[serde(default)]
    pub budget: String,
    /// What kind of figure: `ratio`, `batch`, `peak`.
    pub quantity: String,
    /// The figure, as printed there.
    pub printed: String,
    /// Its unit; empty for a bare number.
    #[serde(default)]
    pub unit: String,
    /// What to know about it: a doubtful reading, a budget that was not met.
    #[serde(default)]
    pub remark: String,
}

/// Figures of any number of publications.
#[derive(Debug, Default)]
pub struct Published {
    rows: Vec<(PrintedFigure, InstanceGlob)>,
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
            let mut row: PrintedFigure = row.map_err(|error| {
                failed(format!(
                    "{error}; expected the columns paper, where, instance, quantity, printed, and where they are \
                     needed method, budget, unit, remark"
                ))
            })?;
            let glob = glob(&row.instance).map_err(|error| failed(error.to_string()))?;
            if !row.budget.is_empty() {
                let parsed = row.budget.parse::<Budget>();
                // In the form that rows have.
                row.budget = parsed.map_err(|error| failed(format!("budget {:?}: {error}", row.budget)))?.to_string();
            }
            rows.push((row, glob));
        }
        Ok(Self { rows })
    }

    /// The figures of a table, figure or section, in the order of the file.
    pub fn at<'a>(&'a self, location: &'a str) -> impl Iterator<Item = &'a PrintedFigure> {
        self.rows.iter().map(|(row, _)| row).filter(move |row| row.location == location)
    }

    /// The figure of a quantity for a method on an instance, as printed; empty where there is none.
    pub fn value(&self, quantity: &str, instance: &str, method: &str) -> &str {
        let asked = |(row, glob): &&(PrintedFigure, InstanceGlob)| {
            row.quantity == quantity && row.method == method && glob.matches_name(instance)
        };
        self.rows.iter().find(asked).map_or("", |(row, _)| &row.printed)
    }

    /// What is printed of a method on an instance at a budget, in one line.
    pub fn beside(&self, instance: &str, method: &str, budget: &str) -> String {
        let asked = |(row, glob): &&(PrintedFigure, InstanceGlob)| {
            row.method == method && row.budget == budget && glob.matches_name(instance)
        };
        let said = |(row, _): &(PrintedFigure, InstanceGlob)| {
            let PrintedFigure { quantity, printed, unit, .. } = row;
            format!("{quantity} {printed} {unit}").trim_end().to_owned()
        };
        self.rows.iter().filter(asked).map(said).collect::<Vec<_>>().join("; ")
    }

    /// Where the figures of a quantity come from.
    pub fn sources(&self, quantity: &str) -> Vec<String> {
        let rows = self.rows.iter().filter(|(row, _)| row.quantity == quantity);
        let mut sources: Vec<_> = rows.map(|(row, _)| format!("{}, {}", row.paper, row.location)).collect();
        sources.dedup();
        sources
    }
}
