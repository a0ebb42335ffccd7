//! Recorded results as one HTML page that needs nothing else: tables, plots, schedules step by step.
//!
//! What is shown comes from the modules that print and plot the same things elsewhere; this one lays it out.
//! The page's own script sorts, filters and replays; it computes nothing about schedules.

pub mod parts;
pub mod schedules;
pub mod svg;

use std::path::Path;

use maud::{Markup, PreEscaped, html};

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::text;
use crate::harness::plans::Planned;
use crate::harness::records::Record;
use crate::harness::records::manifest::{self, Session};
use crate::harness::records::select::by_instance;
use crate::harness::suite::Suite;
use crate::views::aggregate::digest::Digest;
use crate::views::aggregate::{self, findings};
use crate::views::list::Material;
use crate::views::plot::{self, Named};

/// The look of pages.
pub const STYLE: &str = include_str!("assets/report.css");
/// Sorts and filters tables.
pub const TABLES: &str = include_str!("assets/tables.js");
/// Replays schedules.
pub const VIEWER: &str = include_str!("assets/viewer.js");

/// How much is embedded.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// Steps of all schedules together.
    pub schedule_steps: usize,
    /// Rows of the table of rows.
    pub rows: usize,
    /// Plots of progress over time.
    pub progress_plots: usize,
}

impl Default for Embedding {
    fn default() -> Self {
        Self { schedule_steps: 200_000, rows: 5_000, progress_plots: 60 }
    }
}

/// Everything that the page shows.
struct Report<'a> {
    suite: Option<&'a Suite>,
    sessions: Vec<Session>,
    rows: Vec<&'a Record>,
    tables: Vec<aggregate::Table>,
    findings: Vec<String>,
    figures: Vec<Named>,
    hidden_figures: usize,
    schedules: schedules::Embedded,
    plans: &'a [Planned],
    embedding: Embedding,
}

/// The page.
///
/// # Errors
/// A trace or a file of published figures cannot be read, or a figure cannot be drawn.
pub fn page(
    library: &Library,
    records: &[Record],
    suite: Option<&Suite>,
    folder: &Path,
    embedding: Embedding,
) -> Result<String, Failure> {
    let rows: Vec<&Record> = by_instance(records).into_iter().flat_map(|(_, rows)| rows).collect();
    let material = Material::new(library, records, folder, suite);
    let arena = material.arena()?;
    let mut figures = plot::figures(records, suite, folder)?;
    let hidden_figures = cut_progress(&mut figures, embedding.progress_plots);
    let report = Report {
        suite,
        sessions: manifest::read(folder),
        tables: material.page()?,
        findings: findings::sentences(arena, &Digest::new(arena)),
        schedules: schedules::embed(&rows, folder, embedding.schedule_steps),
        rows,
        plans: material.plans()?,
        figures,
        hidden_figures,
        embedding,
    };
    Ok(text::xml(&report.markup()?.into_string()).into_owned())
}

/// Leaves so many figures of progress, the first of each instance before any second; returns how many go.
fn cut_progress(figures: &mut Vec<Named>, most: usize) -> usize {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for (at, named) in figures.iter().enumerate().filter(|(_, named)| named.file.starts_with("progress/")) {
        let place = seen.iter().position(|(name, _)| *name == named.instance).unwrap_or_else(|| {
            seen.push((&named.instance, 0));
            seen.len() - 1
        });
        turns.push((seen[place].1, at));
        seen[place].1 += 1;
    }
    turns.sort_unstable();
    let mut dropped: Vec<usize> = turns.iter().skip(most).map(|&(_, at)| at).collect();
    dropped.sort_unstable();
    dropped.iter().rev().for_each(|&at| drop(figures.remove(at)));
    dropped.len()
}

impl Report<'_> {
    fn title(&self) -> &str {
        self.suite.map_or("Results", |suite| &suite.title)
    }

    fn markup(&self) -> Result<Markup, Failure> {
        let plots = self.plots()?;
        let body = html! {
            a.skip href="#summary" { "Skip to the summary" }
            (self.head())
            main {
                (self.summary())
                (plots)
                (self.tables())
                (self.viewer())
                (self.rows_section())
                (self.provenance())
            }
            script { (PreEscaped(TABLES)) }
            script { (PreEscaped(VIEWER)) }
        };
        Ok(parts::document(self.title(), &html! { style { (PreEscaped(STYLE)) } }, &body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the page from ever asking for something outside of itself.
    #[test]
    fn scripts_and_styles_name_nothing_outside_of_the_page() {
        for asset in [STYLE, TABLES, VIEWER] {
            let outside = ["http:", "//cdn", "url(", "@import", "fetch(", "XMLHttpRequest", "import("];
            // The name of the SVG namespace is an address that nobody opens.
            let text = asset.replace("http://www.w3.org/2000/svg", "");
            assert!(outside.iter().all(|word| !text.contains(word)));
            assert!(!text.contains("</script") && !text.contains("</style"));
        }
    }
}
