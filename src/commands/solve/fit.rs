//! Whether an iteration fits into a budget, in words: what it costs there, or which budget would do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use remat_core::format::MemoryUnit;
use remat_formulations::staged::joint::Joint;
use remat_formulations::{BudgetUse, Class, Termination};

use super::Arguments;
use crate::ground::format::{self, ReportFormat};
use crate::ground::library::Library;
use crate::ground::size::Budget;
use crate::harness::best;
use crate::harness::records::{Ending, Record};
use crate::harness::run::Run;
use crate::harness::run::plan::{RunBudget, Subject};

/// Larger budgets that are tried where one is too small, smallest first, and how long each and all of them may take.
const LARGER: [&str; 9] = ["0.1x", "0.2x", "0.3x", "0.4x", "0.5x", "0.6x", "0.7x", "0.8x", "0.9x"];
const TRY_TIME: Duration = Duration::from_secs(1);
const TRIES_TIME: Duration = Duration::from_secs(3);

/// Whether there is a schedule within the budget, and how much slower it is; nothing without a budget.
pub fn answer(record: &Record) -> String {
    if record.budget_size.is_none() {
        return String::new();
    }
    let store_all = format::bytes(record.store_all_peak, record.memory_unit);
    match (record.is_solved(), record.overhead) {
        (true, Some(overhead)) if overhead > 0.0 => {
            let percent = format::percent(100.0 * overhead);
            format!("yes, {percent} % slower than store-all, which needs {store_all}")
        }
        (true, _) => format!("yes, no slower than store-all, which needs {store_all}"),
        (false, _) if record.termination == Ending::Ran(Termination::Infeasible) => {
            if record.claim.class == Class::ALL {
                "no: it is proved that no schedule does".into()
            } else {
                format!("no schedule of the class \"{}\" does: proved; others may", record.claim.class)
            }
        }
        (false, _) => "not known: no schedule was found, which proves nothing".into(),
    }
}

/// What to ask for where a budget was too small for a schedule, or for one to be found in time: what store-all and one
/// operator alone need, and the least peaks that are known.
pub fn needed(arguments: &Arguments, library: &Library, run: &Run, record: &Record, stop: &AtomicBool) -> String {
    use Termination::{CpuLimit, Infeasible, NotFound, TimeLimit};
    let Subject { instance, baseline, .. } = run.subject.as_ref();
    let too_small = matches!(record.termination, Ending::Ran(Infeasible | NotFound | TimeLimit | CpuLimit));
    let Some(budget) = record.budget_size.filter(|_| too_small) else { return String::new() };
    let unit = record.memory_unit;
    let bytes = |bytes: u64| format::bytes(bytes, unit);
    let least = Joint::of_fastest(instance).ok().map(|joint| joint.least_peak());
    let alone = least.filter(|&least| least > budget).map(|least| {
        format!(", and one operator alone {} with the fastest implementations in the instance's order", bytes(least))
    });
    let is_bare = record.budget.bytes().all(|digit| digit.is_ascii_digit());
    let meant = is_bare && budget > 0 && unit == MemoryUnit::Bytes && least.is_some_and(|least| budget < least / 1000);
    let meant =
        if meant { format!("; {budget} is {}: did you mean {budget}GiB?", bytes(budget)) } else { String::new() };
    let known = known(library, run, budget).map(|(peak, by)| {
        // A budget that is typed from rounded figures may be too small.
        let exact = if unit == MemoryUnit::Bytes { format!(" ({peak} bytes)") } else { String::new() };
        format!("; the least peak in the library of best-known values is {}{exact}, by {by}", bytes(peak))
    });
    // Programs that ask wait for no tries.
    let tries = arguments.format == ReportFormat::Text;
    let larger = tries.then(|| larger(arguments, library, run, budget, stop)).flatten();
    let larger = larger.map(|(fraction, peak)| {
        format!("; {} has a schedule at --budget {fraction}, with a peak of {}", record.method, bytes(peak))
    });
    let parts = [alone, known, larger].map(Option::unwrap_or_default).concat();
    format!("; store-all needs {}{parts}{meant}", bytes(baseline.peak_bytes))
}

/// The least peak above a budget of the schedules in the library, and who found it.
fn known(library: &Library, run: &Run, budget: u64) -> Option<(u64, String)> {
    let hash = run.subject.instance.hash().to_string();
    // A library that cannot be read says nothing here.
    let entries = best::read(&library.root.join("results")).unwrap_or_default().into_iter();
    let of_it = entries.filter(|entry| entry.instance_hash == hash);
    of_it.filter_map(|entry| Some((entry.peak.filter(|&peak| peak > budget)?, entry.found_by))).min()
}

/// The smallest of some larger budgets within which the method finds a schedule in little time, and its peak.
fn larger(
    arguments: &Arguments,
    library: &Library,
    run: &Run,
    budget: u64,
    stop: &AtomicBool,
) -> Option<(&'static str, u64)> {
    if run.method.about().budgets == BudgetUse::Ignored {
        return None;
    }
    let began = Instant::now();
    let time = arguments.time_limit.map_or(TRY_TIME, |limit| limit.min(TRY_TIME));
    for fraction in LARGER {
        let text: Budget = fraction.parse().ok()?;
        let bytes = run.subject.bytes(&text).ok()?;
        if bytes <= budget {
            continue;
        }
        if began.elapsed() > TRIES_TIME || stop.load(Ordering::Relaxed) {
            return None;
        }
        let asked = RunBudget { text: text.to_string(), bytes: Some(bytes) };
        let row = super::solve(arguments, library, run, &asked, (Some(time), arguments.cpu_limit), stop).ok()?;
        if row.record.is_solved() {
            return Some((fraction, row.record.simulated_peak?));
        }
    }
    None
}
