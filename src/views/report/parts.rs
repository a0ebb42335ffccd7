//! The parts of the page.

use std::ops::Range;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Report, schedules, svg};
use crate::ground::failure::Failure;
use crate::ground::format;
use crate::ground::grid::Grid;
use crate::ground::text::count;
use crate::harness::baseline::overhead_percent;
use crate::harness::plans::Planned;
use crate::harness::records::Record;
use crate::harness::records::manifest::Session;
use crate::harness::records::select::label;
use crate::views::aggregate::Table;
use crate::views::plot::style;

/// Problems with schedules that are named one by one.
const SHOWN_PROBLEMS: usize = 20;
/// Columns of the table of all rows.
const COLUMNS: [&str; 16] = [
    "instance",
    "claim",
    "method",
    "budget",
    "status",
    "overhead %",
    "time",
    "peak",
    "arena",
    "above peak %",
    "bound %",
    "recomputed",
    "planning s",
    "CPU s",
    "memory",
    "words",
];
/// Those of them that hold numbers, and those that are there only where addresses were planned.
const NUMBERS: Range<usize> = 5..15;
const PLANNED: Range<usize> = 8..10;

/// A page: what looks it has, and its body.
pub fn document(title: &str, style: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // An empty icon of its own, so that a browser asks nobody for one.
                link rel="icon" href="data:,";
                (style)
            }
            body { (body) }
        }
    }
}

impl Report<'_> {
    pub fn head(&self) -> Markup {
        let mut instances: Vec<&str> = self.rows.iter().map(|row| row.instance.as_str()).collect();
        instances.dedup();
        html! {
            header {
                p.kicker { "bench report" @if let Some(suite) = self.suite { " · " (suite.name) } }
                h1 { (self.title()) }
                p.facts {
                    (count(self.rows.len(), "row")) " · " (count(instances.len(), "instance")) " · "
                    (count(self.tables[0].grid.rows().len(), "method setting")) " · "
                    (count(self.schedules.len(), "schedule")) " to step through"
                    @if let Some(session) = self.sessions.last() { " · " (session.started) }
                }
                nav aria-label="Sections" {
                    @for (id, name) in [("summary", "Summary"), ("plots", "Plots"), ("tables", "Tables"),
                                        ("schedules", "Schedules"), ("rows", "Rows"), ("provenance", "Provenance")] {
                        a href={ "#" (id) } { (name) }
                    }
                }
            }
        }
    }

    pub fn summary(&self) -> Markup {
        let mut statuses: Vec<(String, usize)> = Vec::new();
        for row in &self.rows {
            let word = row.termination.to_string();
            match statuses.iter_mut().find(|(known, _)| *known == word) {
                Some((_, count)) => *count += 1,
                None => statuses.push((word, 1)),
            }
        }
        statuses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        html! {
            section #summary {
                h2 { "Summary" }
                ul.chips aria-label="Rows by status" {
                    @for (word, count) in &statuses {
                        li class={ "chip " (word) } { b { (count) } " " (word.replace('_', " ")) }
                    }
                }
                @if !self.findings.is_empty() { ul { @for finding in &self.findings { li { (finding) } } } }
                (table(0, &self.tables[0]))
                @if let Some(suite) = self.suite {
                    details open[true] { summary { "What this suite shows, and how to misread it" }
                        @for paragraph in suite.analysis.trim().split("\n\n") { p { (paragraph) } }
                    }
                }
            }
        }
    }

    /// Figures over all cases, then those of each instance behind its name.
    pub fn plots(&self) -> Result<Markup, Failure> {
        let overall = self.figures.iter().filter(|named| named.instance.is_empty());
        let overall = overall.map(svg::inline).collect::<Result<Vec<_>, _>>()?;
        let mut instances: Vec<(&str, Vec<Markup>)> = Vec::new();
        for named in self.figures.iter().filter(|named| !named.instance.is_empty()) {
            let figure = svg::inline(named)?;
            match instances.iter_mut().find(|(name, _)| *name == named.instance) {
                Some((_, figures)) => figures.push(figure),
                None => instances.push((&named.instance, vec![figure])),
            }
        }
        Ok(html! {
            section #plots {
                h2 { "Plots" }
                div.figures { @for figure in &overall { (figure) } }
                @for (at, (name, figures)) in instances.iter().enumerate() {
                    details open[at == 0] {
                        summary { (name) " " span.count { (count(figures.len(), "figure")) } }
                        div.figures { @for figure in figures { (figure) } }
                    }
                }
                @if self.hidden_figures > 0 {
                    p.note { (count(self.hidden_figures, "more plot")) " of incumbents and bounds over time left out: at most "
                        (self.embedding.progress_plots) " are embedded, of each instance the first before any second (--progress-plots). "
                        "`bench plot` writes them all." }
                }
            }
        })
    }

    pub fn tables(&self) -> Markup {
        html! {
            section #tables {
                h2 { "Tables" }
                p { "Click on a column's name to sort by it, again to turn the order round; rows are grouped by the class of the method's claim." }
                @for (at, one) in self.tables.iter().enumerate().skip(1) {
                    details open[at == 1] { summary { (one.title) } (table(at, one)) }
                }
            }
        }
    }

    pub fn viewer(&self) -> Markup {
        let left_out = match self.schedules.left_out {
            0 => String::new(),
            more => format!(
                " {} left out: all together may have {} steps here (--schedule-steps), and of those \
                 that fit, every method on every instance has one before any has two, short ones first.",
                count(more, "schedule"),
                self.embedding.schedule_steps
            ),
        };
        html! {
            section #schedules {
                h2 { "Schedules, step by step" }
                @if self.schedules.is_empty() {
                    p { @if left_out.is_empty() { "No schedule is kept beside these results." } @else { "None is shown." (left_out) } }
                } @else {
                    (viewer_controls(&html! {
                        select #schedule {
                            @for (instance, schedules) in self.schedules.menu() {
                                optgroup label=(instance) { @for (at, words) in schedules { option value=(at) { (instance) ": " (words) } } }
                            }
                        }
                    }))
                    p.note { "Memory during each step and what enters and leaves it are what the simulator recorded when this page was made. "
                        (count(self.schedules.len(), "schedule")) " here." (left_out) }
                    script #schedule-data type="application/json" { (PreEscaped(self.schedules.json())) }
                }
                @if !self.schedules.problems.is_empty() {
                    p.problem { "Schedules or plans that could not be shown: " (self.schedules.problems.values().sum::<usize>()) }
                    ul {
                        @for (problem, times) in self.schedules.problems.iter().take(SHOWN_PROBLEMS) {
                            li { (problem) @if *times > 1 { " (" (times) " times)" } }
                        }
                        @if self.schedules.problems.len() > SHOWN_PROBLEMS {
                            li { "and " (self.schedules.problems.len() - SHOWN_PROBLEMS) " other reasons" }
                        }
                    }
                }
            }
        }
    }

    pub fn rows_section(&self) -> Markup {
        let most = self.embedding.rows;
        let planned = !self.plans.is_empty();
        let columns = COLUMNS.iter().enumerate().filter(|(at, _)| planned || !PLANNED.contains(at));
        let head = columns.map(|(at, name)| (*name, NUMBERS.contains(&at)));
        let rows = html! {
            @for (at, row) in self.rows.iter().enumerate().take(most) {
                (record_row(row, self.schedules.of_row.get(&at).copied(), planned.then_some(self.plans)))
            }
        };
        html! {
            section #rows {
                h2 { "All rows" }
                @if self.rows.len() > most {
                    p.note { "The first " (most) " of " (self.rows.len()) " rows (--rows); records.csv has them all." }
                }
                (tools("rows-table"))
                (sortable("rows-table", "All rows", head, &rows))
            }
        }
    }

    pub fn provenance(&self) -> Markup {
        html! {
            section #provenance {
                h2 { "Provenance" }
                @if self.sessions.is_empty() { p { "There is no manifest beside these results." } }
                @for session in self.sessions.iter().rev() { (session_block(session)) }
            }
        }
    }
}

/// What the viewer fills, with the menu of schedules, a `select` with the id `schedule`.
pub fn viewer_controls(menu: &Markup) -> Markup {
    html! {
        div.controls {
            label for="schedule" { "Schedule" }
            (menu)
            button #to-peak type="button" { "Go to the peak" }
        }
        p #facts {}
        div #timeline role="img" aria-label="Memory over the steps of the schedule" {}
        div.controls {
            label for="step" { "Step" }
            input #step type="range" min="0" value="0" aria-describedby="action";
            output #step-number for="step" {}
        }
        p.key aria-label="Colours of the strip" {
            span { i.f {} "forward" } span { i.r {} "forward again" } span { i.b {} "backward" } span { i.x {} "free" } span { i.t {} "transfer" }
        }
        p #action aria-live="polite" {}
        div #addresses hidden {
            h3 { "Addresses" }
            p #plan-facts {}
            div #address-map role="img" aria-label="Addresses of every buffer over the steps of the schedule" {}
            p.key #address-key aria-label="Colours of the buffers" {}
        }
        div.scroll tabindex="0" role="region" aria-label="In memory at this step" {
            table #alive data-kinds=(schedules::kinds().join(" ")) {
                thead { tr { th scope="col" { "in memory during this step" } th scope="col" { "kind" } th.number scope="col" { "size" } th.number scope="col" { "share" } th.number #address-head scope="col" hidden { "address" } } }
                tbody {}
            }
        }
    }
}

/// The filter above a table.
pub fn tools(table: &str) -> Markup {
    html! {
        div.controls {
            label for={ (table) "-filter" } { "Filter" }
            input id={ (table) "-filter" } type="search" data-table=(table) placeholder="words, all of which a row must contain";
            output for={ (table) "-filter" } {}
        }
    }
}

fn table(at: usize, table: &Table) -> Markup {
    let id = format!("table-{at}");
    html! {
        @if table.grid.rows().len() > 8 { (tools(&id)) }
        (grid(&id, table.title, &table.grid))
        p.caption { (table.caption) }
    }
}

/// A grid as a table that can be sorted.
pub fn grid(id: &str, title: &str, grid: &Grid) -> Markup {
    let rows = html! {
        @for row in grid.rows() {
            tr { @for (cell, (name, number)) in row.iter().zip(grid.columns()) {
                td.number[number].long[!number && is_long(cell)] { @if ["method", "best"].contains(&name) { (method(cell)) } @else { (cell) } }
            } }
        }
    };
    sortable(id, title, grid.columns(), &rows)
}

/// A table that can be sorted: of each column its name and whether it holds numbers, and the rows.
pub fn sortable<'a>(
    id: &str,
    title: &str,
    columns: impl IntoIterator<Item = (&'a str, bool)>,
    rows: &Markup,
) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table.sortable id=(id) {
                thead { tr { @for (name, number) in columns { th.number[number] scope="col" { (name) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Whether a cell of words may be broken into lines.
pub fn is_long(cell: &str) -> bool {
    cell.len() > 24
}

/// A method's label behind a spot of its colour in the plots.
pub fn method(label: &str) -> Markup {
    let id = label.split(['[', ' ']).next().unwrap_or(label);
    let known = crate::harness::records::select::rank(id) != usize::MAX;
    let colour = style::of(id).colour;
    let (light, dark) = (svg::hex(colour), svg::hex(style::on_dark(colour)));
    html! { @if known { span.spot style={ "background:light-dark(#" (light) ",#" (dark) ")" } {} } (breakable(label)) }
}

/// A label that may be broken where its parameters begin, and behind each.
fn breakable(label: &str) -> Markup {
    let parts: Vec<&str> = label.split_inclusive(',').collect();
    html! { @for (at, part) in parts.iter().enumerate() {
        @if at > 0 { wbr; }
        @match part.split_once('[') {
            Some((name, rest)) => { (name) wbr; "[" (rest) },
            None => (part),
        }
    } }
}

/// A row; where there are plans, the table has columns for them.
fn record_row(row: &Record, schedule: Option<usize>, plans: Option<&[Planned]>) -> Markup {
    let percent = |time: Option<u64>| {
        let percent = time.and_then(|time| overhead_percent(time, row.store_all_time));
        percent.map_or(String::new(), |percent| format::decimals(percent, 2))
    };
    let planning = row.planning_seconds();
    let words = if row.error.is_empty() { &row.note } else { &row.error };
    let (label, claim) = (label(&row.method, &row.parameters), row.claim.to_string());
    let time = row.simulated_time.map(|time| (time, format::time(time, row.time_unit)));
    let peak = row.simulated_peak.map(|bytes| (bytes, format::bytes(bytes, row.memory_unit)));
    html! {
        tr {
            td { (row.instance) }
            td.long[is_long(&claim)] { (claim) }
            td.long[is_long(&label)] { (method(&label)) @if row.seed > 0 { ", seed " (row.seed) }
                @if let Some(at) = schedule { " " button.view type="button" data-schedule=(at) { "steps" } } }
            td data-sort=(row.budget_size.unwrap_or(u64::MAX)) { (row.budget) }
            td { (row.termination.to_string().replace('_', " ")) }
            td.number { (percent(row.simulated_time)) }
            @for pair in [&time, &peak] { (sized(pair.as_ref())) }
            @if let Some(plans) = plans {
                @let plan = plans.iter().find(|plan| plan.is_of(row));
                (sized(plan.map(|plan| (plan.height, format::bytes(plan.height, row.memory_unit))).as_ref()))
                td.number { @if let Some(part) = plan.and_then(Planned::above_peak) { (format!("{:.4}", 100.0 * part)) } }
            }
            td.number { (percent(row.lower_bound)) }
            td.number { @if let Some(runs) = row.recomputations { (runs) } }
            td.number { @if let Some(seconds) = planning { (format!("{seconds:.3}")) } }
            td.number { (format!("{:.2}", row.cpu_seconds)) }
            td.number data-sort=(row.peak_rss_bytes) { (format::bytes(row.peak_rss_bytes, remat_core::format::MemoryUnit::Bytes)) }
            td.words { (words) }
        }
    }
}

/// A cell that is sorted by its exact value.
fn sized(value: Option<&(u64, String)>) -> Markup {
    html! { td.number data-sort=[value.map(|value| value.0)] { @if let Some((_, text)) = value { (text) } } }
}

fn session_block(session: &Session) -> Markup {
    let list = |pairs: &std::collections::BTreeMap<String, String>| {
        pairs.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
    };
    let memory = session.memory_bytes.map(|bytes| format::bytes(bytes, remat_core::format::MemoryUnit::Bytes));
    html! {
        details {
            summary { (session.started) " " code { (session.command.join(" ")) } }
            dl {
                dt { "version" } dd { (session.version) ", revision " (session.git_revision) }
                dt { "machine" } dd { (session.host) @if let Some(memory) = memory { ", " (memory) } }
                dt { "solvers" } dd { (list(&session.solvers)) }
                dt { "crates" } dd { (list(&session.crates)) }
                dt { "instances" } dd { @for instance in &session.instances { code { (instance.name) " " (instance.hash) } " " } }
            }
        }
    }
}
