//! The home page, the open problems, and how to submit with the book's page on file formats.

use maud::{Markup, html};

use super::frame::{Cell, Page, table};
use super::{Output, Site};
use crate::ground::failure::Failure;
use crate::ground::text::count;
use crate::harness::baseline::overhead_percent;
use crate::harness::best::{CLASSES, Entry, Status};
use crate::views::best::Tally;
use crate::views::plot::library;
use crate::views::report::svg;

/// Values in the list of the newest.
const NEWEST: usize = 20;

pub fn write(site: &Site<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    let formats = formats(site)?;
    let submit = submit(formats.is_some());
    let mut pages = vec![("index.html", home(site)?), ("open.html", open(site)), ("submit.html", submit)];
    pages.extend(formats.map(|part| ("formats.html", part)));
    for (name, (title, section, body)) in pages {
        output.page(name, &Page { title, section, depth: 0, viewer: false, body })?;
    }
    Ok(())
}

/// Title, section and body of a page.
type Part = (&'static str, &'static str, Markup);

fn home(site: &Site<'_>) -> Result<Part, Failure> {
    let all: Vec<&Entry> = site.entries.iter().collect();
    let figures = [library::proved(site.entries), library::gaps(&all, true)];
    let figures: Vec<Markup> = figures.iter().flatten().map(svg::inline).collect::<Result<_, _>>()?;
    let mut newest = all;
    newest.sort_by(|a, b| b.timestamp.cmp(&a.timestamp));
    let newest: Vec<Vec<Cell>> = newest.into_iter().take(NEWEST).map(|entry| line(site, entry, true)).collect();
    let body = html! {
        p { "A network that does not fit into memory can be trained by computing some values a second time." }
        p { "For " (count(site.networks.len(), "network")) " within several memory budgets, this library has the fastest known schedules of one training "
            "iteration, and bounds below which there is none." }
        p { "One simulator confirmed every schedule, and every bound says for which schedules it was proved." }
        h2 { "What is known" }
        (tallies(site.entries))
        div.figures { @for figure in &figures { (figure) } }
        h2 { "Newest values" }
        (table("newest", "Newest values", &[&COLUMNS[..], &["when"]].concat(), &newest))
    };
    Ok(("The library", "Home", body))
}

/// A row for each class.
fn tallies(entries: &[Entry]) -> Markup {
    let rows: Vec<Vec<Cell>> = CLASSES
        .iter()
        .map(|(name, class)| {
            let tally = Tally::of(entries.iter().filter(|entry| entry.class == *class));
            vec![
                Cell::Text((*name).into()),
                Cell::count(tally.cases),
                Cell::count(tally.solved),
                Cell::count(tally.infeasible),
                Cell::count(tally.open()),
                Cell::percent(tally.widest),
                Cell::percent(tally.widest_roomy),
            ]
        })
        .collect();
    let columns =
        ["schedules", "#cases", "#solved", "#infeasible", "#open", "#widest gap %", "#widest gap % at 0.4x and above"];
    html! {
        (table("tally", "What is known", &columns, &rows))
        p.caption { "A case is a network, a class of schedules and a budget. Solved: no schedule of the class is faster by more than a millionth, proved. "
            "Infeasible: no schedule of the class meets the budget, proved." }
    }
}

/// The columns of [`line()`].
const COLUMNS: [&str; 8] =
    ["network", "schedules", "#budget", "status", "#gap %", "#overhead %", "found by", "proved by"];

/// A value as a row of a list.
fn line(site: &Site<'_>, entry: &Entry, dated: bool) -> Vec<Cell> {
    let network =
        site.networks.iter().find(|network| network.subject.instance.hash().to_string() == entry.instance_hash);
    let name = match network {
        Some(network) => Cell::Link(format!("network/{}.html", network.file), entry.instance.clone()),
        None => Cell::Text(entry.instance.clone()),
    };
    let overhead =
        entry.time.zip(network).and_then(|(time, network)| overhead_percent(time, network.subject.baseline.time));
    let mut cells = vec![
        name,
        Cell::Text(entry.class_name()),
        Cell::Number(Some(entry.budget_size as f64), entry.budget.clone()),
        Cell::Markup(status(entry.status)),
        Cell::percent(entry.gap),
        Cell::percent(overhead),
        Cell::Text(entry.found_by.clone()),
        Cell::Text(entry.bound_by.clone()),
    ];
    if dated {
        cells.push(Cell::Text(minute(&entry.timestamp)));
    }
    cells
}

/// A time of day without its seconds: `2026-11-29 13:49`.
fn minute(timestamp: &str) -> String {
    timestamp.get(..16).unwrap_or(timestamp).replace('T', " ")
}

/// A status in its frame.
pub fn status(status: Status) -> Markup {
    html! { span class={ "status " (status.label()) } { (status.label()) } }
}

fn open(site: &Site<'_>) -> Part {
    let mut entries: Vec<_> = site.entries.iter().filter_map(|entry| Some((entry.open_gap()?, entry))).collect();
    entries.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let rows: Vec<Vec<Cell>> = entries.into_iter().map(|(_, entry)| line(site, entry, false)).collect();
    let body = html! {
        p { "Hardest first. Without a gap, no schedule is known, or no bound." }
        (table("open", "Open problems", &COLUMNS, &rows))
    };
    ("Open problems", "Open problems", body)
}

/// The book's page on file formats; none where there is no book.
fn formats(site: &Site<'_>) -> Result<Option<Part>, Failure> {
    let page = site.book_page("reference/formats.md")?;
    Ok(page.map(|page| ("File formats", "Submit", html! { section.doc { (page) } })))
}

/// A suite, as it works where it is copied: `bench run --suite mine.toml`, in the checkout.
const SUITE: &str = r#"name = "mine"
title = "Schedules from files"
analysis = "Modelled times."
instances = ["resnet/resnet50-224-b32"]
budgets = ["0.5x"]
[limits]
time_seconds = 60
[[methods]]
id = "mine"
command = ["python3", "instances/programs/from_files.py", "mine"]"#;

fn submit(formats: bool) -> Part {
    let body = html! {
        p { "A faster schedule, a higher bound, or a proof that there is no schedule: all three are welcome." }
        h2 { "A schedule" }
        ol {
            li { "Write it as a file: the steps in order, each operator with its implementation, each tensor where it is freed. "
                @if formats { a href="formats.html" { "File formats" } " has every field" } @else { "docs/reference/formats.md has every field" }
                ", and downloads on the networks' pages are examples." }
            li { "Hold it against the simulator, which prints its time and peak, or the first illegal step:"
                pre { code { "bench verify NETWORK schedule.json" } } }
            li { "Enter it in a suite, and run " code { "bench run --suite mine.toml" } " in the checkout. This program answers with files of yours, " code { "mine/NETWORK@BUDGET.json" }
                " (" code { "resnet50-224-b32@0.5x.json" } "). A program or a method of your own may answer as well."
                pre { code { (SUITE) } } }
        }
        h2 { "A bound" }
        p { "A bound belongs to a class of schedules. A method that proves it claims the class, and the library tries a random sample of the proofs again: "
            "so a bound comes with a method that can be run." }
        h2 { "The line" }
        p { "This takes over what is better, with its schedule, and prints how many lines got better. Nothing gets worse." }
        pre { code { "bench best --update RUN-DIRECTORY\nbench best --check" } }
        p { "Send the changed lines of " code { "results/best-known.csv" } " and the new files of " code { "results/best-known/" } " as a change of the repository." }
    };
    ("How to submit", "Submit", body)
}
