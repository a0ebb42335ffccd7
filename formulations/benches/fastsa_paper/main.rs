//! `fastsa` beside fastsa-2023: Tables 1 and 2, Figures 4 and 7 to 11, and what is reached after some seconds.
//!
//! `cargo bench -p remat-formulations --bench fastsa_paper -- PART...` with the parts `models`, `long`, `hybrid`, `tables`, `stability`,
//! `convergence`, `quality` and `times` measures and writes results/fastsa/PART.csv; without parts it draws what is
//! there: results/fastsa/*.svg and results/paper-fastsa.md. Rows that are there are not measured again: remove a
//! file to measure it anew. One thread; CPU seconds of this process.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark says what it measures and what it leaves out"
)]

#[path = "../common/mod.rs"]
mod common;
mod draw;
mod hybrid;
mod measure;
mod page;
mod rows;

use std::path::{Path, PathBuf};

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with("--")).collect();
    for part in &parts {
        println!("{part}");
        match part.as_str() {
            "models" => measure::models("models", "-unit", 5, measure::MODELS),
            "long" => measure::models("long", "-unit", 1, measure::LONG),
            "hybrid" => hybrid::measure(),
            "times" => measure::models("times", "", 1, measure::MODELS),
            "tables" => measure::tables(),
            "stability" => measure::stability(),
            "convergence" => measure::convergence(),
            "quality" => measure::quality(),
            other => eprintln!(
                "there is no part {other:?}; there are models, long, hybrid, times, tables, stability, convergence, quality"
            ),
        }
    }
    if parts.is_empty() {
        draw::all().expect("SVG needs nothing but memory");
        std::fs::write(results().join("paper-fastsa.md"), page::page()).expect("results can be written");
    }
}

/// The folder of results.
fn results() -> PathBuf {
    repository().join("results")
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
