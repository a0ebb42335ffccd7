//! The table of networks, and a page for each: what is known at each budget, its figure, its schedules step by step, downloads.

use std::collections::BTreeMap;

use maud::{Markup, html};
use remat_core::format::Origin;
use remat_core::io::read_schedule;
use remat_formulations::Format;
use serde::Serialize;

use super::frame::{Cell, Page, table};
use super::home::status;
use super::{Network, Output, Site};
use crate::ground::failure::Failure;
use crate::ground::format;
use crate::ground::text::shell;
use crate::harness::baseline::overhead_percent;
use crate::harness::best::Entry;
use crate::harness::model::{COMPRESSED, Model};
use crate::harness::run;
use crate::views::best::Tally;
use crate::views::plot::library;
use crate::views::report::parts::{method, viewer_controls};
use crate::views::report::schedules::{instance_data, schedule_data};
use crate::views::report::svg;

pub fn write(site: &Site<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    let rows: Vec<Vec<Cell>> = site.networks.iter().map(|network| row(site, network)).collect();
    let columns = [
        "network",
        "family",
        "cost model",
        "#operators",
        "#batch",
        "#store-all peak",
        "#cases",
        "#proved",
        "#open",
        "#widest gap %",
    ];
    let body = html! {
        p { "Click on a column's name to sort by it, again to turn the order round." }
        (table("networks", "Networks", &columns, &rows))
    };
    output.page("networks.html", &Page { title: "Networks", section: "Networks", depth: 0, viewer: false, body })?;
    site.networks.iter().try_for_each(|network| one(site, network, output))
}

fn row(site: &Site<'_>, network: &Network<'_>) -> Vec<Cell> {
    let tally = Tally::of(network.entries.iter().copied());
    let instance = &network.subject.instance;
    let batch = instance.provenance().batch_size;
    let peak = network.subject.baseline.peak_bytes;
    vec![
        Cell::Link(format!("network/{}.html", network.file), network.name().into()),
        Cell::Text(network.family(site.library)),
        Cell::Text(origin(&instance.provenance().times)),
        Cell::count(instance.operators().len()),
        Cell::Number(batch.map(|batch| batch as f64), batch.map_or(String::new(), |batch| batch.to_string())),
        Cell::Number(Some(peak as f64), format::bytes(peak, instance.units().memory)),
        Cell::count(tally.cases),
        Cell::count(tally.cases - tally.open()),
        Cell::count(tally.open()),
        Cell::percent(tally.widest),
    ]
}

/// How times were obtained, in few words.
fn origin(times: &Origin) -> String {
    match times {
        Origin::Modelled { model, .. } => format!("modelled: {model}"),
        Origin::Published { paper, .. } => format!("published: {paper}"),
        other => other.kind().into(),
    }
}

/// A schedule of a network's page: its entries have it in common.
struct Shown<'a> {
    /// Address of the viewer's file, from the page.
    script: String,
    /// Address of the download, from the page.
    download: String,
    entries: Vec<&'a Entry>,
}

impl Shown<'_> {
    /// Where it counts, and who found it.
    fn words(&self) -> String {
        let places: Vec<_> =
            self.entries.iter().map(|entry| format!("{} {}", entry.budget, entry.class_name())).collect();
        format!("{}: {}", places.join(", "), self.entries[0].found_by)
    }
}

fn one(site: &Site<'_>, network: &Network<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    let shown = schedules(site, network, output)?;
    let source = std::fs::read(&network.subject.path).map_err(Failure::unreadable(&network.subject.path))?;
    let ending =
        if network.subject.path.extension().is_some_and(|ending| ending == "zst") { "json.zst" } else { "json" };
    let download = format!("{0}/{0}.{ending}", network.file);
    output.file(&format!("network/{download}"), &source)?;
    let program = program(site, network, output)?;
    let figure = library::network(&network.entries, &network.subject.baseline).as_ref().map(svg::inline).transpose()?;
    let body = html! {
        (facts(network))
        @if let Some(figure) = &figure { div.figures { (figure) } }
        h2 { "What is known" }
        (values(network, &shown))
        section #schedules {
            h2 { "Schedules, step by step" }
            @if shown.is_empty() { p { "No schedule is known." } } @else {
                (viewer_controls(&html! {
                    select #schedule data-instance={ (network.file) "/instance.js" } {
                        @for shown in &shown { option value=(shown.script) { (shown.words()) } }
                    }
                }))
                p.note { "Memory during each step, and what enters and leaves it, are what the simulator recorded when this page was made." }
            }
        }
        section {
            h2 { "Downloads" }
            ul {
                li { a href=(download) download { "The instance" } }
                @for shown in &shown { li { a href=(shown.download) download { "Schedule, " (shown.words()) } } }
                (program)
            }
        }
    };
    let page = Page { title: network.name(), section: "Networks", depth: 1, viewer: !shown.is_empty(), body };
    output.page(&format!("network/{}.html", network.file), &page)
}

/// Checkmate's program for other solvers, at the budget that leaves most open: a file, or the command that makes it where the
/// network is large; nothing where that program does not take the network.
fn program(site: &Site<'_>, network: &Network<'_>, output: &Output<'_>) -> Result<Markup, Failure> {
    const METHOD: &str = "checkmate-ilp";
    let Some(hardest) = network.hardest() else { return Ok(html! {}) };
    if run::plan::method(METHOD)?.supports(&network.subject.instance).is_err() {
        return Ok(html! {});
    }
    let Site { library, programs, .. } = *site;
    let called = network.called(library);
    let budget = &hardest.budget;
    if network.subject.instance.operators().len() > programs {
        let command = format!("bench export {} --method {METHOD} --budget {budget} -o model.mps", shell(&called));
        return Ok(html! { li { "Checkmate's program at " (budget) " for another solver: " code { (command) } } });
    }
    let spec = METHOD.parse().map_err(Failure::failed)?;
    // Where one operator alone needs more, there is no model.
    let Ok(model) = Model::new(&network.subject.instance, &spec, Some(hardest.budget_size)) else {
        return Ok(html! {});
    };
    let download = format!("{0}/{0}-{budget}.mps.{COMPRESSED}", network.file);
    output.write(&format!("network/{download}"), |path| {
        model.save(Format::Mps, &called, budget, path).map_err(Failure::cannot("write", path))
    })?;
    Ok(html! {
        li {
            a href=(download) download { "Checkmate's program at " (budget) " for another solver" }
            " (MPS; " code { "bench lift" } " makes a schedule of its solution)"
        }
    })
}

fn facts(network: &Network<'_>) -> Markup {
    let instance = &network.subject.instance;
    let (provenance, units) = (instance.provenance(), instance.units());
    let facts = [
        ("model", provenance.model.clone()),
        ("operators, tensors", format!("{}, {}", instance.operators().len(), instance.tensors().len())),
        ("store-all, time", format::time(network.subject.baseline.time, units.time)),
        ("store-all, peak", format::bytes(network.subject.baseline.peak_bytes, units.memory)),
        ("times", origin(&provenance.times)),
        ("device", provenance.device.as_ref().map_or(String::new(), |device| device.name.clone())),
        ("hash", instance.hash().to_string()),
    ];
    html! {
        dl { @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (value) } } }
    }
}

/// A row for each entry.
fn values(network: &Network<'_>, shown: &[Shown<'_>]) -> Markup {
    let overhead =
        |time: Option<u64>| Cell::percent(time.and_then(|time| overhead_percent(time, network.subject.baseline.time)));
    let seconds = |value: Option<f64>| Cell::Number(value, value.map_or(String::new(), |value| format!("{value:.1}")));
    let row = |entry: &&Entry| {
        let of_entry = |shown: &&Shown<'_>| shown.entries.iter().any(|other| std::ptr::eq(*other, *entry));
        let button = shown.iter().find(of_entry);
        vec![
            Cell::Number(Some(entry.budget_size as f64), entry.budget.clone()),
            Cell::Text(entry.class_name()),
            Cell::Markup(status(entry.status)),
            overhead(entry.time),
            overhead(entry.bound),
            Cell::percent(entry.gap),
            Cell::Markup(html! {
                @if !entry.found_by.is_empty() { (method(&entry.found_by)) }
                @if let Some(shown) = button { " " button.view type="button" data-schedule=(shown.script) { "steps" } }
            }),
            seconds(entry.found_seconds),
            Cell::Markup(html! { @if !entry.bound_by.is_empty() { (method(&entry.bound_by)) } }),
            seconds(entry.bound_seconds),
            Cell::Text(entry.revision.clone()),
        ]
    };
    let rows: Vec<Vec<Cell>> = network.entries.iter().map(row).collect();
    let columns = [
        "#budget",
        "schedules",
        "status",
        "#overhead %",
        "#bound %",
        "#gap %",
        "found by",
        "#seconds",
        "proved by",
        "#seconds",
        "version",
    ];
    html! {
        (table("values", "What is known", &columns, &rows))
        p.caption { "Overhead and bound are over the time of store-all; budgets with an x are parts of its peak. Seconds are wall time of the run that found or proved it." }
    }
}

/// Writes the files of a network's schedules: for the viewer, and for download.
fn schedules<'a>(site: &Site<'_>, network: &Network<'a>, output: &Output<'_>) -> Result<Vec<Shown<'a>>, Failure> {
    let mut by_file: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for &entry in network.entries.iter().filter(|entry| entry.time.is_some()) {
        by_file.entry(&entry.schedule).or_default().push(entry);
    }
    let mut all = Vec::with_capacity(by_file.len());
    for (file, entries) in by_file {
        let path = site.results.join(file);
        let (_, schedule) = read_schedule(&path, &network.subject.instance)?;
        let first = entries[0];
        let budget = (first.budget.as_str(), Some(first.budget_size));
        let data = schedule_data(&network.subject.instance, &schedule, first.found_by.clone(), budget)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        let bytes = std::fs::read(&path).map_err(Failure::unreadable(&path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let download = format!("{}/{name}", network.file);
        let script = format!("{}/{}.js", network.file, name.trim_end_matches(".json.zst"));
        output.file(&format!("network/{download}"), &bytes)?;
        output.file(&format!("network/{script}"), data_script(&script, &data)?.as_bytes())?;
        all.push(Shown { script, download, entries });
    }
    if !all.is_empty() {
        let script = format!("{}/instance.js", network.file);
        let data = instance_data(&network.subject.instance);
        output.file(&format!("network/{script}"), data_script(&script, &data)?.as_bytes())?;
    }
    all.sort_by_key(|shown| (shown.entries[0].budget_size, shown.script.clone()));
    Ok(all)
}

/// A script that hands data to the viewer, under the address that the page loads it by.
fn data_script(name: &str, data: &impl Serialize) -> Result<String, Failure> {
    let name = serde_json::to_string(name).map_err(Failure::failed)?;
    let data = serde_json::to_string(data).map_err(Failure::failed)?;
    Ok(format!("benchData({name}, {data});\n"))
}
