//! `bench doctor`: what is installed, what of it is alive, and how to get what is missing.

use std::process::Command;

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::grid::Grid;
use crate::ground::host::{Host, SOURCES, VERSION};
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::wrap;
use crate::harness::cache::Cache;
use crate::harness::replay::executor::python;

/// Arguments of `bench doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing that is missing keeps bench from working; the last column says what it is good for and how to get it.\n\nExamples:\n  bench doctor\n  bench doctor --format json"
)]
pub struct Arguments {
    /// Format of the list
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const HEADER: [&str; 4] = ["what", "state", "found", "if missing"];

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    /// Its version or kind, or why it is not there.
    found: Result<String, String>,
    /// What it is good for, and how to get it.
    remedy: &'static str,
}

/// Looks at everything.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let findings = findings();
    let text = arguments.format == Format::Text;
    let columns = if text { 3 } else { HEADER.len() };
    let mut grid = Grid::new(HEADER.into_iter().take(columns));
    let mut remedies = String::new();
    for Finding { what, found, remedy } in &findings {
        let (state, words, remedy) = match found {
            Ok(words) => ("live", words, ""),
            Err(words) => ("missing", words, *remedy),
        };
        let cells = [what, state, words, remedy];
        grid.row(&cells[..columns]);
        if text && !remedy.is_empty() {
            remedies += &wrap(&format!("{what}: {remedy}"), 100);
        }
    }
    output::result(&(grid.render(arguments.format) + "\n" + &remedies))
}

fn findings() -> Vec<Finding> {
    let library = Library::locate();
    let host = Host::new(&library.root);
    let mut findings = vec![
        Finding {
            what: "bench",
            found: Ok(format!("{VERSION}, sources {SOURCES}, checkout {}", host.git_revision)),
            remedy: "",
        },
        Finding { what: "machine", found: Ok(format!("{}; {}", host.name, host.system)), remedy: "" },
        Finding {
            what: "vector unit",
            found: vectors(),
            remedy: "chain programs run in plain code, several times slower",
        },
        Finding {
            what: "instances",
            found: instances(&library),
            remedy: "run inside a checkout; files can be named by path anywhere",
        },
        Finding {
            what: "cache",
            found: cache(&library),
            remedy: "rows are computed each time; unset BENCH_CACHE to keep them",
        },
    ];
    findings.extend(solvers());
    findings.extend([
        Finding {
            what: "slurm",
            found: said("scontrol", &["ping"]),
            remedy: "--launcher slurm needs a cluster; scripts/setup.sh --tests installs Slurm for the tests",
        },
        Finding {
            what: "gpu",
            found: said("nvidia-smi", &["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]),
            remedy: "times are modelled instead of measured; a profile from another machine will do (profiler/README.md)",
        },
        Finding {
            what: "profiler",
            found: python(&library.root).map(|path| path.display().to_string()).map_err(|failure| failure.to_string()),
            remedy: "to trace networks of one's own: scripts/setup.sh --profiler (torch, 5 GB)",
        },
        Finding { what: "git", found: said("git", &["--version"]), remedy: "records then lack the revision" },
    ]);
    findings
}

/// Solvers that are built in, and those that are used where they are installed.
fn solvers() -> Vec<Finding> {
    let remedy = "for solver=cbc: scripts/setup.sh --tests (190 MB to fetch)";
    let finding = |(what, found)| Finding { what, found, remedy };
    let mut findings: Vec<_> = remat_formulations::solvers().into_iter().map(finding).collect();
    let (id, found) = remat_formulations::constraint_solver();
    findings.push(Finding {
        what: id,
        found,
        remedy: "for moccasin[solver=cp-sat]: scripts/setup.sh --ortools (30 MB)",
    });
    findings
}

/// The widest vectors that the chain programs use here.
fn vectors() -> Result<String, String> {
    #[cfg(target_arch = "x86_64")]
    {
        let units = [("AVX-512", is_x86_feature_detected!("avx512f")), ("AVX2", is_x86_feature_detected!("avx2"))];
        if let Some((name, _)) = units.iter().find(|(_, there)| *there) {
            return Ok((*name).into());
        }
    }
    Err("neither AVX-512 nor AVX2".into())
}

fn instances(library: &Library) -> Result<String, String> {
    let entries = library.entries().map_err(|failure| failure.to_string())?;
    if entries.is_empty() { Err("no instances/ here or above".into()) } else { Ok(format!("{} files", entries.len())) }
}

fn cache(library: &Library) -> Result<String, String> {
    let cache =
        Cache::locate(&library.root, false).ok_or("none: BENCH_CACHE is empty, or the folder cannot be used")?;
    let folders = std::fs::read_dir(cache.folder()).into_iter().flatten().flatten();
    let rows: usize = folders.filter_map(|folder| std::fs::read_dir(folder.path()).ok()).map(Iterator::count).sum();
    Ok(format!("{}, {rows} rows", cache.folder().display()))
}

/// The first line that a command prints, or why it prints none.
fn said(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let first = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().trim().to_owned();
    if output.status.success() { Ok(first(&output.stdout)) } else { Err(first(&output.stderr)) }
}
