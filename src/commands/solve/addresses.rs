//! `bench solve --arena`: a schedule whose tensors have addresses within the budget. Where they do not fit, the method is asked
//! for a smaller peak.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use remat_allocation::minimalloc::MiniMalloc;
use remat_allocation::plan::PlanDocument;
use remat_formulations::{Claim, Termination};

use super::{Arguments, ending_words, limits};
use crate::ground::failure::Failure;
use crate::ground::host::cores;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::arena::{Arena, Terms};
use crate::harness::records::{Ending, Record};
use crate::harness::run::plan::RunBudget;
use crate::harness::run::{Row, Run};

/// Schedules for which addresses are looked for with `--arena`, and the seconds for each.
const PACKINGS: usize = 6;
const PACKING_TIME: Duration = Duration::from_secs(10);
/// In less there is no use in another try.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// What came of looking for a schedule with addresses.
pub struct WithAddresses {
    pub row: Row,
    pub plan: Option<PlanDocument>,
    /// What ran out, where there is no plan and a schedule was found on the way.
    pub ran_out: Option<String>,
}

/// The schedules for which no addresses were found within the budget.
#[derive(Default)]
struct Misses {
    /// No addresses fit: proved.
    proved: usize,
    /// None were found in the time of a packing.
    unpacked: usize,
    /// The least memory that any of them needs with addresses, or is proved to need.
    least: Option<u64>,
}

impl Misses {
    fn all(&self) -> usize {
        self.proved + self.unpacked
    }

    /// Counts a schedule that needs more than the budget; returns how much it needs, or is proved to need.
    fn add(&mut self, arena: &Arena, budget: u64) -> u64 {
        let proved = arena.bound() > budget;
        // Where it is proved that the schedule does not fit, the search has not gone on to the least.
        let needed = if proved { arena.bound() } else { arena.memory() };
        *(if proved { &mut self.proved } else { &mut self.unpacked }) += 1;
        self.least = Some(self.least.map_or(needed, |least| least.min(needed)));
        needed
    }

    /// `3 schedules do not fit with addresses (2 proved, 1 not packed in time)`
    fn words(&self) -> String {
        let parts = [(self.proved, "proved"), (self.unpacked, "not packed in time")];
        let parts: Vec<_> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
        let do_not = if self.all() == 1 { "does not fit" } else { "do not fit" };
        format!("{} {do_not} with addresses ({})", count(self.all(), "schedule"), parts.join(", "))
    }
}

/// Solves with ever smaller budgets until all tensors of the schedule have addresses within the one that was asked for.
///
/// # Errors
/// No try has addresses, or the budget cannot be met.
pub fn solve(
    arguments: &Arguments,
    library: &Library,
    run: &Run,
    budget: &RunBudget,
    stop: &AtomicBool,
) -> Result<WithAddresses, Failure> {
    let (began, whole) = (Instant::now(), limits(arguments, run));
    let mut cpu_used = Duration::ZERO;
    let mut asked = budget.clone();
    let (mut cut, mut misses) = (0, Misses::default());
    // Peaks below which nothing was found, and that were too large with addresses.
    let (mut floor, mut ceiling) = (0, u64::MAX);
    let mut first = None;
    let mut over = "the tries ran out";
    let mut tries = PACKINGS;
    while tries > 0 {
        tries -= 1;
        // Half of what is left, so that there is time for another try; the last one has all.
        let share = |limit: Duration, used: Duration| limit.saturating_sub(used) / if tries > 0 { 2 } else { 1 };
        let time = whole.0.map(|limit| share(limit, began.elapsed()));
        let cpu = whole.1.map(|limit| share(limit, cpu_used));
        if misses.all() > 0 && time.is_some_and(|time| time < LEAST_TIME) {
            over = "time ran out";
            break;
        }
        let mut row = super::solve(arguments, library, run, &asked, (time, cpu), stop)?;
        cpu_used += Duration::try_from_secs_f64(row.record.cpu_seconds).unwrap_or_default();
        let first = &*first.get_or_insert((row.record.lower_bound, row.record.claim));
        let Some(document) = &row.schedule else {
            let limited = [Termination::TimeLimit, Termination::CpuLimit].map(Ending::Ran);
            if tries > 0 && limited.contains(&row.record.termination) {
                // There is the other half yet.
                tries = 1;
                continue;
            }
            let nothing = [Termination::Infeasible, Termination::NotFound].map(Ending::Ran);
            if misses.all() > 0 && tries > 0 && nothing.contains(&row.record.termination) {
                floor = asked.bytes.unwrap_or_default();
                if let Some(next) = between(floor, ceiling) {
                    output::info(&format!("no schedule within {floor}; asking for {next}"));
                    asked = RunBudget { text: next.to_string(), bytes: Some(next) };
                    continue;
                }
            }
            let ran_out = (misses.all() > 0).then(|| no_smaller_peak(&row.record, budget, &misses));
            answers(&mut row, budget, first, None, whole);
            return Ok(WithAddresses { row, plan: None, ran_out });
        };
        let time = whole.0.map_or(PACKING_TIME, |limit| share(limit, began.elapsed()).min(PACKING_TIME));
        let threads = arguments.threads.unwrap_or_else(cores);
        let terms = Terms { method: &MiniMalloc, alignment: None, capacity: budget.bytes, time, threads };
        let instance = &run.subject.instance;
        let arena = Arena::new(instance, &document.resolve(instance).map_err(Failure::failed)?, &terms)?;
        let Some(bytes) = budget.bytes.filter(|&budget| arena.memory() > budget) else {
            let plan = arena.plan(instance, terms.method.id());
            answers(&mut row, budget, first, Some(arena.memory()), whole);
            return Ok(WithAddresses { row, plan: Some(plan), ran_out: None });
        };
        let (needed, peak) = (misses.add(&arena, bytes), arena.lifetimes.simulation.peak_bytes);
        cut = (needed - bytes).max(2 * cut);
        ceiling = ceiling.min(peak);
        let next = if floor == 0 { peak.checked_sub(cut).filter(|&next| next > 0) } else { between(floor, ceiling) };
        let Some(next) = next else {
            over = "there is no smaller peak to ask for";
            break;
        };
        if stop.load(Ordering::Relaxed) {
            over = "it was interrupted";
            break;
        }
        output::info(&format!("a schedule with a peak of {peak} needs {needed} with addresses; asking for {next}"));
        asked = RunBudget { text: next.to_string(), bytes: Some(next) };
    }
    Err(Failure::failed(tries_ran_out(budget, &misses, over)))
}

/// The middle between two numbers, if there is a number between them.
fn between(low: u64, high: u64) -> Option<u64> {
    let next = low.midpoint(high);
    (low < next && next < high).then_some(next)
}

/// Makes a row of a smaller budget one of the budget that was asked for. Its schedule is one there too, but what it proves holds
/// for the smaller one alone: bound and claim are those of the first try.
fn answers(
    row: &mut Row,
    budget: &RunBudget,
    first: &(Option<u64>, Claim),
    memory: Option<u64>,
    whole: (Option<Duration>, Option<Duration>),
) {
    let record = &mut row.record;
    let memory = memory.map(|memory| format!("with addresses it needs {memory}"));
    let mut smaller = None;
    if record.budget_size != budget.bytes {
        smaller = Some(format!("found with a budget of {}", record.budget));
        (record.budget, record.budget_size) = (budget.text.clone(), budget.bytes);
        (record.lower_bound, record.claim) = *first;
        record.termination = match record.termination {
            Ending::Ran(Termination::Optimal | Termination::GapReached) => Ending::Ran(Termination::Feasible),
            Ending::Ran(Termination::Infeasible) => Ending::Ran(Termination::NotFound),
            other => other,
        };
        row.trace.iter_mut().for_each(|point| point.lower_bound = None);
    }
    let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64());
    (record.time_limit_seconds, record.cpu_limit_seconds) = (seconds(whole.0), seconds(whole.1));
    let own = Some(std::mem::take(&mut record.note)).filter(|note| !note.is_empty());
    record.note = [memory, smaller, own].into_iter().flatten().collect::<Vec<_>>().join("; ");
}

/// What to say after the last try.
fn tries_ran_out(budget: &RunBudget, misses: &Misses, over: &str) -> String {
    let bytes = budget.bytes.unwrap_or_default();
    let least = misses.least.map_or(String::new(), |least| format!(", the best of them needs {least}"));
    let words = misses.words();
    format!("no arena within {bytes}: {over}, for {words}{least}; allow more memory or time, or try another --method")
}

/// Why there is no arena where a schedule fits the budget, but no addresses of it, and the method gave none with a smaller peak.
fn no_smaller_peak(record: &Record, budget: &RunBudget, misses: &Misses) -> String {
    let (bytes, asked) = (budget.bytes.unwrap_or_default(), record.budget_size.unwrap_or_default());
    let why = match record.termination {
        Ending::Ran(Termination::Infeasible) => {
            format!("it is proved that no schedule of this class has a peak within {asked}")
        }
        Ending::Ran(Termination::TimeLimit | Termination::CpuLimit) => {
            format!("time ran out before a schedule with a peak within {asked} was found; allow more")
        }
        Ending::Ran(Termination::NotFound) => {
            format!(
                "the method found no schedule with a peak within {asked}, which proves nothing; try another --method"
            )
        }
        _ => format!("the search for a peak within {asked} ended: {}", ending_words(record)),
    };
    format!("no arena within {bytes}: {}, and {why}", misses.words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    #[test]
    fn one_sentence_says_whether_tries_time_or_schedules_ran_out() {
        let budget = RunBudget { text: "0.5x".into(), bytes: Some(1000) };
        let misses = Misses { proved: 2, unpacked: 1, least: Some(1010) };
        assert_eq!(
            tries_ran_out(&budget, &misses, "the tries ran out"),
            "no arena within 1000: the tries ran out, for 3 schedules do not fit with addresses (2 proved, 1 not packed in time), \
             the best of them needs 1010; allow more memory or time, or try another --method"
        );
        let one = Misses { proved: 0, unpacked: 1, least: Some(1010) };
        let ended = |termination| {
            let record = Record { termination: Ending::Ran(termination), ..example("m", Some(("990", 990))) };
            no_smaller_peak(&record, &budget, &one)
        };
        let begins = "no arena within 1000: 1 schedule does not fit with addresses (1 not packed in time), and ";
        for (termination, words) in [
            (Termination::Infeasible, "it is proved that no schedule of this class has a peak within 990"),
            (Termination::TimeLimit, "time ran out before a schedule with a peak within 990 was found; allow more"),
            (Termination::MemoryLimit, "the search for a peak within 990 ended: memory limit"),
        ] {
            assert_eq!(ended(termination), format!("{begins}{words}"));
        }
        assert!(ended(Termination::NotFound).contains("which proves nothing"));
    }
}
