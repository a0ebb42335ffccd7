//! `bench reproduce`: the tables and figures of the papers, each beside ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;

use crate::commands::values::seconds;
use crate::ground::duration::limit;
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::rows;
use crate::ground::text::count;
use crate::harness::records::{self, Existing, Record};
use crate::harness::run::interrupts;
use crate::harness::run::plan::Overrides;
use crate::harness::suite::{self, SuiteFile};
use crate::harness::sweep::{Grants, Sweep, rows_of};
use crate::views::plot;
use crate::views::reproduce::catalogue::{Catalogue, Cells, Entry, Part};
use crate::views::reproduce::cells::{self, Extent, Pass};
use crate::views::reproduce::outcome::Row;
use crate::views::reproduce::verdict::Verdict;
use crate::views::reproduce::{compare, list, outcome};

const AFTER_HELP: &str = "\
The catalogue is in instances/reproduce/, the printed figures with their sources are in results/published/. \
Comparisons are kept as results/reproduce/ID.csv (ID-quick.csv of a quick pass), curves beside them as SVG and PNG; the rows of a \
full pass lie where `bench run --suite` puts them, those of a quick one in results/reproduce-quick/, with --most in \
results/reproduce-PASS-SECONDSs/. \
Interrupted, the same command goes on.

Exit codes: 0 whatever the verdicts; 1 where a row ended in an error, or --check finds a difference.

Examples:
  bench reproduce --list
  bench reproduce rotor-table-2 rotor-figure-4
  bench reproduce monet-table-1 --full
  bench reproduce --all --full --most 60
  bench reproduce --all --quick
  bench reproduce kusumoto-table-1 --no-run --format md   (after a run)
  bench reproduce --splice README.md";

/// Arguments of `bench reproduce`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Tables and figures: ids as --list shows them
    #[arg(value_name = "ID", required_unless_present_any = ["list", "all", "splice"])]
    ids: Vec<String>,
    /// Name every table and figure, how it is reproduced, why so, and the verdict of the last pass
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    list: bool,
    /// All that are reproduced
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Run what takes minutes: the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run everything, as long as it takes
    #[arg(long)]
    full: bool,
    /// Give each row so many wall seconds where it would have more; rows go to a folder of their own
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    most: Option<Duration>,
    /// Run nothing; compare what is there
    #[arg(long)]
    no_run: bool,
    /// Fill the sections of these files that are made of the verdicts
    #[arg(long, value_name = "FILE.md", num_args = 1.., conflicts_with_all = ["ids", "all", "list"])]
    splice: Vec<PathBuf>,
    /// With --splice: write nothing, fail where a file would change
    #[arg(long, requires = "splice")]
    check: bool,
    /// Format of the tables
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reproduces.
///
/// # Errors
/// An id is none, the catalogue breaks a rule, a run is refused, fails or is interrupted, or nothing can be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let catalogue = Catalogue::read(&library)?;
    if arguments.list {
        return output::result(&list::render(&library, &catalogue, arguments.format)?);
    }
    if !arguments.splice.is_empty() {
        return arguments.splice.iter().try_for_each(|path| splice(&library, &catalogue, path, arguments.check));
    }
    let pass = if arguments.full { Pass::Full } else { Pass::Quick };
    let extent = Extent { pass, most_seconds: arguments.most.map(|most| most.as_secs_f64()) };
    let entries = chosen(&catalogue, arguments)?;
    let stop = interrupts()?;
    let (mut failed, mut all) = (Vec::new(), Vec::new());
    for entry in entries {
        if !arguments.no_run && perform(&library, entry, extent, &stop)? {
            failed.push(entry.id.as_str());
        }
        let rows = report(&library, entry, extent)?;
        match arguments.format {
            Format::Csv | Format::Json => all.extend(rows),
            format if !rows.is_empty() => output::result(&outcome::render(&rows, &entry.agreement, format))?,
            _ => {}
        }
    }
    // What programs read is one document.
    if matches!(arguments.format, Format::Csv | Format::Json) {
        output::result(&outcome::grid(&all, true).render(arguments.format))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "rows of {} ended in an error; `bench table` of their runs shows it",
        failed.join(", ")
    )))
}

/// Runs what an entry needs and has no row yet; returns whether a row ended in an error.
fn perform(library: &Library, entry: &Entry, extent: Extent, stop: &Arc<AtomicBool>) -> Result<bool, Failure> {
    let mut failed = false;
    for cells in &entry.runs {
        let Some(part) = cells.part(extent.pass) else { continue };
        let file = suite::read(library, &cells.suite)?;
        let sweep = sweep(library, &file, cells, &part, extent)?;
        output::info(&format!("{}: suite {}", entry.id, cells.suite));
        let runs = sweep.runs()?;
        sweep.same_limits(&runs, "remove the folder, or name another one with --most SECONDS")?;
        sweep.perform(&runs, stop).map_err(|failure| match failure {
            Failure::Interrupted(_) => Failure::Interrupted("interrupted; the same command goes on".into()),
            other => other,
        })?;
        failed |= records::errors(&rows_of(&runs, &records::read(&sweep.folder)?)) > 0;
    }
    Ok(failed)
}

/// The part of a suite that cells are made of.
fn sweep<'a>(
    library: &'a Library,
    file: &'a SuiteFile,
    cells: &Cells,
    part: &Part,
    extent: Extent,
) -> Result<Sweep<'a>, Failure> {
    let given = part.time_seconds.or(file.suite.limits.time_seconds);
    let most = extent.most_seconds.map(|most| given.map_or(most, |seconds| seconds.min(most)));
    Ok(Sweep {
        library,
        file,
        overrides: overrides(part)?,
        grants: Grants { time: most.or(part.time_seconds).and_then(limit), ..Grants::default() },
        batches: cells.batches,
        fresh: false,
        folder: cells::folder(library, &cells.suite, extent),
        existing: Existing::Resume,
    })
}

/// What a part runs instead of what its suite says.
fn overrides(part: &Part) -> Result<Overrides, Failure> {
    let budget = |text: &String| text.parse().map_err(|error| Failure::input(format!("budget {text:?}: {error}")));
    Ok(Overrides {
        methods: part.methods.iter().map(|words| cells::spec(words)).collect::<Result<_, _>>()?,
        instances: part.instances.clone(),
        budgets: part.budgets.iter().map(budget).collect::<Result<_, Failure>>()?,
        seeds: part.seeds.clone(),
    })
}

/// The entries asked for; of two that are the same, the one that is compared.
fn chosen<'a>(catalogue: &'a Catalogue, arguments: &Arguments) -> Result<Vec<&'a Entry>, Failure> {
    if arguments.all {
        return Ok(catalogue.entries().filter(|entry| entry.same_as.is_none() && has_work(entry)).collect());
    }
    let mut chosen: Vec<&Entry> = Vec::new();
    for id in &arguments.ids {
        let entry = catalogue.find(id)?;
        let compared = catalogue.compared_as(entry);
        if compared.id != entry.id {
            output::info(&format!("{id}: {} As {}.", entry.why, compared.id));
        }
        if !has_work(compared) {
            output::info(&format!("{id}: {}: {}", entry.kind.label(), entry.why));
            compared.see.iter().for_each(|path| output::info(&format!("{id}: see {path}")));
        } else if !chosen.iter().any(|other| other.id == compared.id) {
            chosen.push(compared);
        }
    }
    Ok(chosen)
}

fn has_work(entry: &Entry) -> bool {
    !entry.runs.is_empty() || !entry.figures.is_empty()
}

/// Compares and keeps; returns what is to be printed. Where nothing was run, what an earlier pass found stays.
fn report(library: &Library, entry: &Entry, extent: Extent) -> Result<Vec<Row>, Failure> {
    let evidence = cells::evidence(library, entry, extent)?;
    let mut rows = compare(library, entry, extent, &evidence)?;
    output::info(&format!("{}: {}. {}", entry.id, entry.shows, entry.why));
    if rows.iter().any(|row| row.verdict != Verdict::NotRun) {
        let path = outcome::path_of(library, &entry.id, extent.pass);
        if outcome::had_more_time(&path, extent.most_seconds)? {
            output::info(&format!(
                "{}: stays, since its rows had more seconds each; remove it for these",
                path.display()
            ));
        } else {
            rows::write(&path, &rows)?;
        }
    } else if !rows.is_empty() {
        let id = &entry.id;
        output::info(&format!("{id}: nothing was run for its figures in this pass; no comparison is written"));
        rows.clear();
    }
    entry.see.iter().for_each(|path| output::info(&format!("see also {path}")));
    match entry.plot {
        Some(curves) if !evidence.records.is_empty() => draw(library, entry, curves, extent.pass, &evidence.records)?,
        _ => {}
    }
    Ok(rows)
}

/// The curves of an entry, each figure named after the entry and the instance.
fn draw(
    library: &Library,
    entry: &Entry,
    curves: suite::Curves,
    pass: Pass,
    records: &[Record],
) -> Result<(), Failure> {
    let Some(cells) = entry.runs.first() else { return Ok(()) };
    let suite = suite::read(library, &cells.suite)?.suite;
    let folder = outcome::path_of(library, &entry.id, pass).with_extension("");
    let written = plot::write(&plot::curves(records, curves, suite.device.as_ref()), &folder)?;
    output::info(&format!("{} in {}", count(written, "plot"), folder.display()));
    Ok(())
}

fn splice(library: &Library, catalogue: &Catalogue, path: &Path, check: bool) -> Result<(), Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(Failure::unreadable(path))?;
    let spliced = list::splice(library, catalogue, path, &text)?;
    if spliced == text {
        return Ok(());
    }
    if check {
        return Err(Failure::failed(format!(
            "{name}: is not what the catalogue and results/reproduce/ say; run `bench reproduce --splice {name}`"
        )));
    }
    output::replace_file(path, spliced)?;
    output::info(&format!("{name}: made anew"));
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn entries_that_share_a_row_give_it_the_same_limits() {
        let library = Library::locate();
        let catalogue = Catalogue::read(&library).unwrap();
        for pass in [Pass::Quick, Pass::Full] {
            let parts: Vec<_> = catalogue
                .entries()
                .flat_map(|entry| entry.runs.iter().map(move |cells| (entry, cells)))
                .filter_map(|(entry, cells)| Some((entry, cells, cells.part(pass)?)))
                .collect();
            let mut limits = HashMap::new();
            for (entry, cells, part) in &parts {
                // Without a limit of their own, all of a suite have the suite's.
                if parts.iter().all(|(_, other, of)| other.suite != cells.suite || of.time_seconds == part.time_seconds)
                {
                    continue;
                }
                let file = suite::read(&library, &cells.suite).unwrap();
                let sweep = sweep(&library, &file, cells, part, Extent { pass, most_seconds: None }).unwrap();
                let mine = sweep.conditions().limits_in_words();
                for run in sweep.runs().unwrap() {
                    for budget in &run.budgets {
                        let at = (sweep.folder.clone(), run.key(budget));
                        let (before, other) = limits.entry(at).or_insert((mine.clone(), &entry.id));
                        let what = format!("{} at {:?} on {}", run.label(), budget.text, run.subject.instance.name());
                        assert_eq!(*before, mine, "{what}, {pass:?} pass: {other} and {}", entry.id);
                    }
                }
            }
        }
    }
}
