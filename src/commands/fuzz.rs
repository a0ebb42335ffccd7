//! `bench fuzz`: differential fuzzing. Random instances with everything that the format knows; every method, with its
//! defaults and another setting; answers held against the simulator, the oracle and each other.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use remat_core::format::{FixedBytes, InstanceDocument, TensorKind};
use remat_core::generate::random::{random, unusual};
use remat_core::io::{read_json, write_json};
use remat_core::liveness::with_liveness;
use remat_core::{Instance, Schedule, Step, simulate};
use remat_formulations::contradiction::{Brief, Said, budgets, contradictions, settings, threads};
use remat_formulations::method::claim::{Implementations, Kept, Memory, Order, Runs};
use remat_formulations::random::Random;
use remat_formulations::{
    Answer, BudgetUse, Claim, Class, Context, Limits, METHODS, Method, MethodError, Parameters, Termination, find,
};

use crate::commands::values::seconds;
use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::text::count;

/// Arguments of `bench fuzz`.
#[derive(Debug, Args)]
#[command(
    after_help = "Instance k of a run has the seed S + k. What contradicts is written to the folder: the instance, one as small as it \
                  gets that still does, and what was found with the command that repeats it. Files of that folder that are tried again \
                  stay as they are. The exit code is then 1.\n\n\
                  Examples:\n  bench fuzz --seconds 3600 --seed 7\n  bench fuzz --seed 1234 --instances 1\n  bench fuzz fuzz-findings/random-1234.min.json"
)]
pub struct Arguments {
    /// Instance files to try instead of random ones
    files: Vec<PathBuf>,
    /// Start no further instance after so long
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    seconds: Duration,
    /// Try no more random instances than this
    #[arg(long, value_name = "N", conflicts_with = "files", value_parser = clap::value_parser!(u64).range(1..))]
    instances: Option<u64>,
    /// Seed of the first instance; of the settings of the methods, too
    #[arg(long, short, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Most forward operators of an instance
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "files", value_parser = clap::value_parser!(u32).range(1..=12))]
    layers: u32,
    /// Where to write what contradicts
    #[arg(long, value_name = "DIR", default_value = FINDINGS)]
    out: PathBuf,
}

/// Where findings go unless somebody says otherwise.
const FINDINGS: &str = "fuzz-findings";
/// Wall time of one method for one budget.
const LIMIT: Duration = Duration::from_secs(10);
/// Wall time of making a finding smaller.
const SHRINKING: Duration = Duration::from_secs(60);
/// Factor of large sizes.
const LARGE: u64 = 1_000_000_007;
/// Factor of long times.
const LONG: u64 = 1_000_000_000_000;
/// In the words of a row whose solver died. CBC's version of 2026 does, on one instance in some hundreds.
const SIGNAL: &str = "signal: ";
/// Mutated schedules per budget.
const MUTANTS: usize = 20;

/// What was tried.
#[derive(Default)]
struct Tally {
    instances: u64,
    answers: u64,
    mutants: u64,
    findings: u64,
    /// Answers that there are not, because the process of a solver died.
    deaths: u64,
}

/// Fuzzes.
///
/// # Errors
/// Something contradicts, or a file cannot be read or written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let began = Instant::now();
    let mut tally = Tally::default();
    // A panic is a finding; its words are in the file.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(AssertUnwindSafe(|| try_all(arguments, began, &mut tally)));
    std::panic::set_hook(hook);
    outcome.map_err(|panic| Failure::failed(format!("bench fuzz panics: {}", words_of(&*panic))))??;
    let Tally { instances, answers, mutants, findings, deaths } = tally;
    let last = arguments.seed.saturating_add(instances.saturating_sub(1));
    let whence =
        if arguments.files.is_empty() { format!(" (seeds {} to {last})", arguments.seed) } else { String::new() };
    let found = if findings == 0 { "nothing contradicts".to_owned() } else { format!("{findings} contradict") };
    let deaths = usize::try_from(deaths).unwrap_or(usize::MAX);
    let died = if deaths == 0 { String::new() } else { format!("{} of a solver, ", count(deaths, "death")) };
    output::result(&format!(
        "{}{whence}, {answers} answers, {mutants} mutated schedules in {:.0} s: {died}{found}\n",
        count(usize::try_from(instances).unwrap_or(usize::MAX), "instance"),
        began.elapsed().as_secs_f64()
    ))?;
    if findings > 0 {
        return Err(Failure::failed(format!("what contradicts is in {}", arguments.out.display())));
    }
    Ok(())
}

fn try_all(arguments: &Arguments, began: Instant, tally: &mut Tally) -> Result<(), Failure> {
    let out = arguments.out.as_path();
    for path in &arguments.files {
        if began.elapsed() >= arguments.seconds {
            break;
        }
        let document: InstanceDocument = read_json(path)?;
        // A panic is a finding.
        if let Ok(Err(error)) = catch_unwind(|| Instance::new(&document)) {
            return Err(Failure::at(path)(error));
        }
        let again = format!("--seed {} {}", arguments.seed, path.display());
        examine(&document, arguments.seed, &again, Some(out).filter(|out| !is_in(path, out)), tally)?;
    }
    let random_ones = if arguments.files.is_empty() { arguments.instances.unwrap_or(u64::MAX) } else { 0 };
    for at in 0..random_ones {
        if began.elapsed() >= arguments.seconds {
            break;
        }
        let seed = arguments.seed.saturating_add(at);
        let layers = 1 + u32::try_from(seed % u64::from(arguments.layers)).unwrap_or(0);
        let make = if seed / 8 % 2 == 0 { random } else { unusual };
        let mut document = make(&format!("random-{seed}"), layers, seed);
        stress(&mut document, seed);
        let again = format!("--seed {seed} --instances 1 --layers {}", arguments.layers);
        examine(&document, seed, &again, Some(out), tally)?;
    }
    Ok(())
}

/// What random instances do not have, for some seeds: nothing that is always there, long times that differ by little and short
/// ones beside them, tensors without bytes, and sizes that solvers are told in larger units, with small ones beside them.
fn stress(document: &mut InstanceDocument, seed: u64) {
    if seed % 3 == 1 {
        document.fixed_bytes = FixedBytes::default();
        document.tensors.iter_mut().filter(|tensor| tensor.kind == TensorKind::Input).for_each(|input| input.bytes = 0);
    }
    if seed % 5 == 3 {
        // All of one size, since in-place pairs are of one.
        let some = document.tensors[usize::try_from(seed).unwrap_or(0) % document.tensors.len()].bytes;
        document.tensors.iter_mut().filter(|tensor| tensor.bytes == some).for_each(|tensor| tensor.bytes = 0);
    }
    if seed % 7 == 4 {
        let large = |bytes: &mut u64| *bytes = if *bytes % 4 == 3 { *bytes } else { *bytes * LARGE + *bytes % 3 };
        document.tensors.iter_mut().for_each(|tensor| large(&mut tensor.bytes));
        let ways = document.operators.iter_mut().flat_map(|operator| &mut operator.implementations);
        ways.for_each(|way| large(&mut way.workspace_bytes));
    }
    if seed % 4 == 2 {
        let mut dice = Random::new(seed);
        for way in document.operators.iter_mut().flat_map(|operator| &mut operator.implementations) {
            let long = if seed % 8 == 2 && dice.below(2) == 0 { 0 } else { way.time * LONG };
            way.time = long + u64::from(dice.below(3));
        }
    }
}

/// Whether a file lies in a folder.
fn is_in(path: &Path, folder: &Path) -> bool {
    let place = |path: &Path| std::fs::canonicalize(path).ok();
    place(path).zip(place(folder)).is_some_and(|(path, folder)| path.parent() == Some(&folder))
}

/// Tries an instance; writes what contradicts to a folder, if there is one.
fn examine(
    document: &InstanceDocument,
    seed: u64,
    again: &str,
    out: Option<&Path>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    tally.instances += 1;
    let wrong = contradicting(document, seed, &|_| true, tally);
    if wrong.is_empty() {
        return Ok(());
    }
    tally.findings += 1;
    output::error(&format!("{}: {}", document.name, wrong[0]));
    let Some(out) = out else { return Ok(()) };
    output::make_folder(out)?;
    let name = crate::ground::names::file_name(&document.name);
    let [whole, small, words] = ["json", "min.json", "txt"].map(|ending| out.join(format!("{name}.{ending}")));
    let shrunk = shrink(document, seed, &wrong[0]);
    write_json(&whole, document)?;
    write_json(&small, &shrunk)?;
    let left = contradicting(&shrunk, seed, &|_| true, &mut Tally::default());
    let to = if out == Path::new(FINDINGS) { String::new() } else { format!(" --out {}", out.display()) };
    let text = format!(
        "bench fuzz {again}{to}\n\n{}\n\nbench fuzz --seed {seed} {}{to}\n\n{}\n",
        wrong.join("\n"),
        small.display(),
        left.join("\n")
    );
    std::fs::write(&words, text).map_err(Failure::cannot("write", &words))
}

/// Everything that contradicts on an instance, asking the methods of which `asked` says so; a panic is a contradiction.
fn contradicting(
    document: &InstanceDocument,
    seed: u64,
    asked: &dyn Fn(&str) -> bool,
    tally: &mut Tally,
) -> Vec<String> {
    let found = catch_unwind(AssertUnwindSafe(|| compare(document, seed, asked, tally)));
    found.unwrap_or_else(|panic| vec![format!("comparing panics: {}", words_of(&*panic))])
}

/// What a panic says.
fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default().to_owned()
}

fn compare(document: &InstanceDocument, seed: u64, asked: &dyn Fn(&str) -> bool, tally: &mut Tally) -> Vec<String> {
    let instance = match catch_unwind(|| Instance::new(document)) {
        Ok(Ok(instance)) => instance,
        Ok(Err(error)) => return vec![format!("the instance is refused: {error}")],
        Err(_) => return vec!["reading the instance panics".into()],
    };
    let mut budgets = budgets(&instance);
    budgets.extend(edge(&instance));
    // And none at all.
    budgets.push(u64::MAX);
    let mut said: Vec<Vec<Said>> = vec![vec![]; budgets.len()];
    let mut wrong = Vec::new();
    for (method, parameters) in chosen(&instance, seed) {
        let who = format!("{}[{parameters}]", method.id());
        if !asked(&who) {
            continue;
        }
        let claim = method.claim(&parameters);
        match answers(&instance, method, &parameters, &budgets, threads(seed)) {
            Err(words) => wrong.push(format!("{who}: {words}")),
            Ok(answers) => {
                tally.answers += answers.len() as u64;
                for (said, answer) in said.iter_mut().zip(answers) {
                    if answer.termination == Termination::Error && answer.note.contains(SIGNAL) {
                        tally.deaths += 1;
                        continue;
                    }
                    let claim = answer.claim.unwrap_or(claim);
                    said.push(Said { who: who.clone(), claim, answer });
                }
            }
        }
    }
    let mut dice = Random::new(seed);
    for (&budget, said) in budgets.iter().zip(&mut said) {
        let mutants = mutants(&instance, said, &mut dice, &mut wrong);
        tally.mutants += mutants.len() as u64;
        said.extend(mutants);
        let words = contradictions(&instance, budget, said);
        wrong.extend(words.into_iter().map(|words| format!("budget {budget}: {words}")));
    }
    wrong
}

/// What the fastest schedules that are lowest need, and a byte less: the oracle's at the least of the usual budgets that has one.
fn edge(instance: &Instance) -> Vec<u64> {
    let Some(oracle) = find("oracle").filter(|oracle| oracle.supports(instance).is_ok()) else { return vec![] };
    let parameters = Parameters::defaults(oracle.about().parameters);
    let answers = answers(instance, oracle, &parameters, &budgets(instance), 1).unwrap_or_default();
    let peak =
        answers.iter().filter_map(|answer| Some(answer.claimed.filter(|_| answer.schedule.is_some())?.peak_bytes));
    peak.min().map_or(vec![], |peak| vec![peak, peak.saturating_sub(1)])
}

/// Every method that supports the instance with its defaults and another setting, and the oracle of their classes.
fn chosen(instance: &Instance, seed: u64) -> Vec<(&'static dyn Method, Parameters)> {
    let mut chosen = Vec::new();
    let budgeted = |method: &&&dyn Method| method.about().budgets == BudgetUse::Used;
    for (at, method) in METHODS.iter().enumerate().filter(|(_, method)| budgeted(method)) {
        if !catch_unwind(AssertUnwindSafe(|| method.supports(instance).is_ok())).unwrap_or(true) {
            continue;
        }
        let draw = usize::try_from(seed).unwrap_or(usize::MAX).wrapping_add(at);
        chosen.extend(settings(*method, draw).into_iter().map(|parameters| (*method, parameters)));
    }
    let classes: BTreeSet<Class> = chosen.iter().map(|(method, parameters)| method.claim(parameters).class).collect();
    for parameters in classes.iter().filter_map(oracle_of) {
        let known = chosen.iter().any(|(method, other)| method.id() == "oracle" && *other == parameters);
        chosen.extend(
            find("oracle")
                .filter(|oracle| !known && oracle.supports(instance).is_ok())
                .map(|oracle| (oracle, parameters)),
        );
    }
    chosen
}

/// The parameters with which the oracle searches a class, if it can.
fn oracle_of(class: &Class) -> Option<Parameters> {
    let order = match class.order {
        Order::Free => "free",
        Order::Given => "fixed",
        Order::Stages => "stages",
        Order::Passes | Order::Chain => return None,
    };
    let copies = match class.runs {
        Runs::Any => "auto".to_owned(),
        Runs::AtMost(copies) => copies.to_string(),
    };
    let implementations = match class.implementations {
        Implementations::One => "one",
        Implementations::Chosen => "chosen",
        Implementations::Modes { .. } => return None,
    };
    if class.kept != Kept::Any || class.memory != Memory::Simulated {
        return None;
    }
    let given = [("order", order), ("copies", &copies), ("implementations", implementations)];
    let given: BTreeMap<String, String> = given.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    Parameters::new(find("oracle")?.about().parameters, &given).ok()
}

/// A method's answers; none where it cannot work with these settings.
fn answers(
    instance: &Instance,
    method: &dyn Method,
    parameters: &Parameters,
    budgets: &[u64],
    threads: usize,
) -> Result<Vec<Answer>, String> {
    let budgets: Vec<_> = budgets.iter().map(|&budget| Some(budget).filter(|_| budget < u64::MAX)).collect();
    let limits = Limits { time: Some(LIMIT), threads, seed: 0 };
    let context = Context { starts: &Brief, ..Context::new(instance, parameters, &budgets, limits) };
    let solved = catch_unwind(AssertUnwindSafe(|| method.answers(&context)));
    match solved {
        Ok(Ok(answers)) => Ok(answers),
        // A solver that is not built in, say.
        Ok(Err(MethodError::Unsupported(_) | MethodError::Parameter { .. } | MethodError::TooLarge(_))) => Ok(vec![]),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("panics: {}", words_of(&*panic))),
    }
}

/// Schedules that are a little different from those found, as far as they are legal: they refute proofs as well as any.
fn mutants(instance: &Instance, said: &[Said], dice: &mut Random, wrong: &mut Vec<String>) -> Vec<Said> {
    let schedules: Vec<&Schedule> = said.iter().filter_map(|said| said.answer.schedule.as_ref()).collect();
    let mut mutants = Vec::new();
    for _ in 0..if schedules.is_empty() { 0 } else { MUTANTS } {
        let mut schedule = schedules[below(dice, schedules.len())].clone();
        for _ in 0..=below(dice, 3) {
            mutate(instance, &mut schedule, dice);
        }
        let simulated = catch_unwind(AssertUnwindSafe(|| simulate(instance, &schedule)));
        let Ok(simulated) = simulated else {
            wrong.push("the simulator panics at a mutated schedule".into());
            continue;
        };
        let Ok(simulation) = simulated else { continue };
        let computes: Vec<_> = schedule.runs().collect();
        let transfers = schedule.steps.iter().any(|step| matches!(step, Step::Offload(_) | Step::Fetch(_)));
        let time: u64 =
            computes.iter().map(|&(operator, way)| instance.operator(operator).implementations[way].time).sum();
        if !transfers && time != simulation.time {
            wrong.push(format!("the simulator says {} of steps that take {time}", simulation.time));
        }
        if !transfers {
            // Freed as early as can be it needs no more.
            match simulate(instance, &with_liveness(instance, &computes)) {
                Ok(live) if live.peak_bytes <= simulation.peak_bytes && live.time == simulation.time => {}
                live => wrong.push(format!(
                    "with liveness a schedule of {} and {} becomes {:?}",
                    simulation.time,
                    simulation.peak_bytes,
                    live.map(|live| (live.time, live.peak_bytes)).map_err(|error| error.to_string())
                )),
            }
        }
        // Nobody says that it is within the budget.
        let class = Class { transfers, memory: Memory::WithoutWorkspace, ..Class::ALL };
        let mut answer = Answer::without_schedule(None, Termination::NotFound);
        answer.schedule = Some(schedule);
        mutants.push(Said { who: "a mutated schedule".into(), claim: Claim::heuristic(class), answer });
    }
    mutants
}

fn mutate(instance: &Instance, schedule: &mut Schedule, dice: &mut Random) {
    let length = schedule.steps.len();
    if length < 2 {
        return;
    }
    let (at, other) = (below(dice, length), below(dice, length));
    match below(dice, 5) {
        0 => drop(schedule.steps.remove(at)),
        1 => schedule.steps.swap(at, other),
        2 => schedule.steps.insert(other, schedule.steps[at]),
        3 => {
            let step = schedule.steps.remove(at);
            schedule.steps.insert(other.min(length - 1), step);
        }
        _ => {
            if let Step::Compute { operator, implementation } = &mut schedule.steps[at] {
                *implementation = below(dice, instance.operator(*operator).implementations.len());
            }
        }
    }
}

fn below(dice: &mut Random, bound: usize) -> usize {
    dice.below(u32::try_from(bound.max(1)).unwrap_or(u32::MAX)) as usize
}

/// An instance as small as it gets on which the same is wrong, whatever the numbers.
fn shrink(document: &InstanceDocument, seed: u64, words: &str) -> InstanceDocument {
    let began = Instant::now();
    let asked = |who: &str| words.contains(who);
    let without_numbers = |words: &str| words.replace(|letter: char| letter.is_ascii_digit(), "");
    let is_same = |other: &String| without_numbers(other) == without_numbers(words);
    let fails = |candidate: &InstanceDocument| {
        let wrong = || contradicting(candidate, seed, &asked, &mut Tally::default());
        Instance::new(candidate).is_ok() && wrong().iter().any(is_same)
    };
    let mut best = document.clone();
    if !fails(&best) {
        return best;
    }
    loop {
        let mut smaller = false;
        let mut at = 0;
        while let Some(candidate) = edit(&best, at) {
            if began.elapsed() > SHRINKING {
                return best;
            }
            if candidate != best && fails(&candidate) {
                (best, smaller) = (candidate, true);
            } else {
                at += 1;
            }
        }
        if !smaller {
            return best;
        }
    }
}

/// The edit of a document at a position: without an operator and what it makes, without an implementation, with a
/// number made smaller, without a flag. None beyond the last.
fn edit(document: &InstanceDocument, at: usize) -> Option<InstanceDocument> {
    let mut edited = document.clone();
    let mut at = at;
    let mut turn = |number: usize| {
        let here = at < number;
        let position = at;
        at = at.saturating_sub(number);
        if here {
            at = usize::MAX / 2;
            Some(position)
        } else {
            None
        }
    };
    if let Some(position) = turn(edited.operators.len()) {
        let gone = edited.operators.remove(position);
        edited.order.retain(|&id| id != gone.id);
        edited.operators.iter_mut().for_each(|operator| {
            operator.differentiates = operator.differentiates.filter(|&id| id != gone.id);
            operator.inputs.retain(|read| !gone.outputs.contains(read));
        });
        let made =
            |id: u32| gone.outputs.contains(&id) || gone.implementations.iter().any(|way| way.saves.contains(&id));
        edited.tensors.retain(|tensor| !made(tensor.id));
        edited.views.retain(|view| !made(view.of));
        return Some(edited);
    }
    for operator in 0..document.operators.len() {
        let ways = document.operators[operator].implementations.len();
        if let Some(way) = turn(ways) {
            edited.operators[operator].implementations.remove(way);
            return Some(edited);
        }
        if let Some(way) = turn(2 * ways) {
            let way_of = &mut edited.operators[operator].implementations[way / 2];
            let number = if way % 2 == 0 { &mut way_of.time } else { &mut way_of.workspace_bytes };
            *number /= 2;
            return Some(edited);
        }
        if let Some(flag) = turn(4) {
            let operator = &mut edited.operators[operator];
            match flag {
                0 => operator.random = false,
                1 => operator.updates_state = false,
                2 => operator.recomputable = None,
                _ => drop(operator.inputs.pop()),
            }
            return Some(edited);
        }
    }
    let tensor = turn(document.tensors.len())?;
    edited.tensors[tensor].bytes /= 2;
    Some(edited)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_file_of_the_folder_of_findings_however_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        for path in [out.join("x.min.json"), folder.path().join("x.json")] {
            std::fs::write(path, "{}").unwrap();
        }
        assert!(is_in(&out.join("../out/x.min.json"), &out));
        assert!(!is_in(&folder.path().join("x.json"), &out) && !is_in(&out.join("gone.json"), &out));
    }
}
