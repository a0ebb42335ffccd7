//! Suite files: which instances, methods and budgets, under which limits, and how to read the outcome.
//!
//! A suite is code, as trusted as the command line: its patterns and paths may name any file that the user may
//! read, and its options for sbatch are handed on as they stand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use remat_core::io::read_text;
use remat_formulations::{Spec, find as find_method};
use serde::{Deserialize, Serialize};

use crate::ground::duration::limit;
use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::size::{Budget, Size};
use crate::ground::text::parse_toml;

/// Settings of one method in a suite.
const MOST_SETTINGS: usize = 10_000;

/// A suite file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Kebab-case name, the same as the file's; results go to `results/<name>`.
    pub name: String,
    /// One line.
    pub title: String,
    /// What the suite shows, and how to misread it.
    pub analysis: String,
    /// Patterns relative to `instances/`, and files, relative to the suite's.
    pub instances: Vec<String>,
    /// Budgets: sizes, or fractions of store-all's peak.
    pub budgets: Vec<Budget>,
    /// What each row may use.
    #[serde(default)]
    pub limits: SuiteLimits,
    /// The device whose memory the plots mark.
    #[serde(default)]
    pub device: Option<SuiteDevice>,
    /// Methods and their parameters.
    pub methods: Vec<SuiteMethod>,
    /// What the plots show.
    #[serde(default)]
    pub curves: Curves,
    /// Whether the ratios to the optimum of the fixed order are shown too.
    #[serde(default)]
    pub ratios: bool,
    /// File of published figures to print beside ours, relative to the checkout.
    #[serde(default)]
    pub published: Option<PathBuf>,
    /// Searches for the largest batch.
    #[serde(default)]
    pub max_batch: Option<SuiteMaxBatch>,
    /// What tasks of a Slurm cluster ask for.
    #[serde(default)]
    pub slurm: Option<SuiteSlurm>,
}

/// What tasks of a Slurm cluster ask for; the command line goes before it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuiteSlurm {
    /// Partition.
    pub partition: Option<String>,
    /// Wall minutes of a task.
    pub task_minutes: Option<u64>,
    /// Memory of a task.
    pub task_memory: Option<Size>,
    /// CPUs of a task.
    pub cpus_per_task: Option<usize>,
    /// Runs that a task does one after the other.
    pub chunk: Option<usize>,
    /// Most tasks of an array that run at the same time.
    pub most_at_once: Option<usize>,
    /// Further options of sbatch.
    pub options: Vec<String>,
}

/// The axes of the plots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curves {
    /// Images per second, or time, against the simulated peak.
    #[default]
    ThroughputAgainstPeak,
    /// Overhead over store-all against the budget; methods that ignore budgets stand at their peaks.
    OverheadAgainstBudget,
    /// Bars instead of curves: overhead, and memory, of all instances at each budget.
    BarsAtBudgets,
    /// Time of an iteration against the batch, a figure per network: instances named alike but for `-bN`.
    TimeAgainstBatch,
}

impl Curves {
    /// Label of the horizontal axis.
    pub fn horizontal(self, unit: &str) -> String {
        match self {
            Self::ThroughputAgainstPeak => format!("Peak memory ({unit})"),
            Self::OverheadAgainstBudget | Self::BarsAtBudgets | Self::TimeAgainstBatch => {
                format!("Memory budget ({unit})")
            }
        }
    }
}

/// Searches for the largest batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteMaxBatch {
    /// Memory of the device.
    pub memory: Size,
    /// Forward passes that an iteration may take longer than store-all.
    pub extra_forwards: f64,
    /// Largest batch to try.
    pub most: u64,
    /// Wall seconds of each run, instead of the suite's.
    pub time_seconds: Option<f64>,
    /// Networks, each by two or more instances at different batch sizes.
    pub networks: Vec<Vec<String>>,
    /// Methods.
    pub methods: Vec<SuiteMethod>,
}

/// What each row may use.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteLimits {
    /// Wall seconds of one row: a run of n budgets may take n times as long.
    pub time_seconds: Option<f64>,
    /// CPU seconds of one row, threads and processes together.
    pub cpu_seconds: Option<f64>,
    /// Address space of a run's process.
    pub memory: Option<Size>,
    /// Threads of one run.
    pub threads: Option<usize>,
    /// Runs at the same time, but no more than there are cores.
    pub jobs: Option<usize>,
    /// Seeds: methods with random choices run once for each.
    #[serde(default = "no_seed")]
    pub seeds: Vec<u64>,
}

impl Default for SuiteLimits {
    fn default() -> Self {
        Self { time_seconds: None, cpu_seconds: None, memory: None, threads: None, jobs: None, seeds: no_seed() }
    }
}

fn no_seed() -> Vec<u64> {
    vec![0]
}

/// A device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteDevice {
    /// Name for people.
    pub name: String,
    /// Memory that an iteration may use.
    pub memory: Size,
}

/// A method, with every combination of the listed values of its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteMethod {
    /// Id of the method.
    pub id: String,
    /// The program that is the method, with its words; empty: a registered one has the id.
    #[serde(default)]
    pub command: Vec<String>,
    /// A value, or a list of values, per parameter.
    #[serde(default)]
    pub parameters: BTreeMap<String, Values>,
    /// Whether to run the settings that the method itself proposes for an instance.
    #[serde(default)]
    pub sweep: bool,
    /// Patterns over the suite's instances on which it runs; empty: on all.
    #[serde(default)]
    pub instances: Vec<String>,
}

/// One value or several.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Values {
    /// One.
    One(Value),
    /// Several.
    Many(Vec<Value>),
}

/// A value of a parameter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// A word.
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Values {
    fn texts(&self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value.text()],
            Self::Many(values) => values.iter().map(Value::text).collect(),
        }
    }
}

impl SuiteMethod {
    /// A method with one setting.
    pub fn of(spec: &Spec) -> Self {
        let one = |(name, value): (&String, &String)| (name.clone(), Values::One(Value::Text(value.clone())));
        Self {
            id: spec.id.clone(),
            command: vec![],
            parameters: spec.parameters.iter().map(one).collect(),
            sweep: false,
            instances: vec![],
        }
    }

    /// How many combinations of the listed values there are.
    fn combinations(&self) -> usize {
        let count = |values: &Values| match values {
            Values::One(_) => 1,
            Values::Many(values) => values.len(),
        };
        self.parameters.values().map(count).fold(1, usize::saturating_mul)
    }

    /// The listed values, and whether there is a sweep, in words: `depth=3 slots=500,100 sweep`.
    pub fn listed(&self) -> String {
        let parameters = self.parameters.iter().map(|(name, values)| format!("{name}={}", values.texts().join(",")));
        parameters.chain(self.sweep.then(|| "sweep".into())).collect::<Vec<_>>().join(" ")
    }

    /// Every combination of the listed values.
    pub fn settings(&self) -> Vec<BTreeMap<String, String>> {
        let mut settings = vec![BTreeMap::new()];
        for (name, values) in &self.parameters {
            let values = values.texts();
            let extended = settings.iter().flat_map(|setting| {
                values.iter().map(|value| {
                    let mut setting = setting.clone();
                    setting.insert(name.clone(), value.clone());
                    setting
                })
            });
            settings = extended.collect();
        }
        settings
    }
}

/// A suite and the text of its file.
#[derive(Clone, Debug)]
pub struct SuiteFile {
    /// The suite.
    pub suite: Suite,
    /// The text, kept beside the results.
    pub text: String,
}

/// The settings that a method asked for means: an id alone means those of the suite, where it has any.
pub fn asked_for(asked: &Spec, of_suite: &[SuiteMethod]) -> Vec<SuiteMethod> {
    let listed: Vec<_> = of_suite.iter().filter(|method| method.id == asked.id).cloned().collect();
    if asked.parameters.is_empty() && !listed.is_empty() { listed } else { vec![SuiteMethod::of(asked)] }
}

/// Reads the suite that an argument means: a `.toml` file, or a name under `instances/suites/`.
///
/// # Errors
/// There is none, or it is no suite.
pub fn read(library: &Library, argument: &str) -> Result<SuiteFile, Failure> {
    let path = find(library, argument)?;
    read_file(&path)
}

/// Reads a suite file.
///
/// # Errors
/// The file cannot be read, or it is no suite.
pub fn read_file(path: &Path) -> Result<SuiteFile, Failure> {
    let text = read_text(path).map_err(|error| {
        Failure::input(format!("{error}; name a suite under instances/suites/ or a .toml file that is there"))
    })?;
    let mut suite: Suite = parse_toml(&text)
        .map_err(|error| Failure::at(path)(format!("{error}; instances/suites/smoke.toml shows every field")))?;
    check(&suite).map_err(Failure::at(path))?;
    let folder = path.parent().unwrap_or(path);
    for method in &mut suite.methods {
        method.command = located(&method.command, folder);
    }
    let networks = suite.max_batch.iter_mut().flat_map(|search| &mut search.networks);
    for names in std::iter::once(&mut suite.instances).chain(networks) {
        *names = located(names, folder);
    }
    Ok(SuiteFile { suite, text })
}

/// The suite that is kept beside results, where there is a legible one.
pub fn kept_in(results: &Path) -> Option<Suite> {
    read_file(&crate::harness::records::folder_of(results).join("suite.toml")).ok().map(|file| file.suite)
}

/// Whether a name can stand in paths and lists as it is.
fn plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(plain)
}

/// The rules for programs that are methods.
fn check_programs(suite: &Suite) -> Result<(), String> {
    for (at, method) in suite.methods.iter().enumerate().filter(|(_, method)| !method.command.is_empty()) {
        let id = &method.id;
        if find_method(id).is_some() || !plain(id) || suite.methods[..at].iter().any(|other| other.id == *id) {
            return Err(format!(
                "method {id:?} has a command: expected an id of letters, digits and hyphens that no other method has"
            ));
        }
        if !method.parameters.is_empty() || method.sweep {
            return Err(format!("method {id} has a command: put its settings there, instead of parameters and sweep"));
        }
    }
    let searched = suite.max_batch.iter().flat_map(|search| &search.methods);
    match searched.into_iter().find(|method| !method.command.is_empty()) {
        Some(method) => Err(format!("max_batch: {} has a command; searches take registered methods", method.id)),
        None => Ok(()),
    }
}

/// Words of a command or names of instances, those that name a file in a folder with their whole path.
fn located(words: &[String], folder: &Path) -> Vec<String> {
    let whole = |word: &String| {
        let path = std::path::absolute(folder.join(word)).ok().filter(|path| path.is_file());
        path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| word.clone())
    };
    words.iter().map(whole).collect()
}

fn check(suite: &Suite) -> Result<(), String> {
    check_programs(suite)?;
    if !plain(&suite.name) {
        return Err(format!("name {:?}: expected letters, digits and hyphens, for it names a folder", suite.name));
    }
    let empty = [
        ("instances", suite.instances.is_empty()),
        ("methods", suite.methods.is_empty()),
        ("budgets", suite.budgets.is_empty()),
        ("limits.seeds", suite.limits.seeds.is_empty()),
    ];
    if let Some((field, _)) = empty.iter().find(|(_, empty)| *empty) {
        return Err(format!("{field} is empty; list at least one"));
    }
    let searched = suite.max_batch.iter().flat_map(|search| &search.methods);
    let methods = suite.methods.iter().chain(searched);
    if let Some(method) = methods.clone().find(|method| method.combinations() == 0) {
        let empty =
            method.parameters.iter().find(|(_, values)| matches!(values, Values::Many(list) if list.is_empty()));
        let name = empty.map_or("", |(name, _)| name);
        return Err(format!("parameter {name} of {} is an empty list; give a value, or leave it out", method.id));
    }
    if let Some(method) = methods.clone().find(|method| method.combinations() > MOST_SETTINGS) {
        return Err(format!(
            "the parameters of {} combine to more than {MOST_SETTINGS} settings; list fewer values",
            method.id
        ));
    }
    if let Some(search) = &suite.max_batch {
        let seconds = search.time_seconds.unwrap_or(1.0);
        let amounts = search.extra_forwards >= 0.0 && search.extra_forwards.is_finite() && search.most > 0;
        if !(amounts && limit(seconds).is_some()) {
            return Err(
                "max_batch: expected extra_forwards from 0 on, most above 0, and time_seconds above 0 and at most 1e9"
                    .into(),
            );
        }
        if search.networks.iter().any(|names| names.len() < 2) || search.methods.is_empty() {
            return Err("max_batch: expected networks of two or more instances each, and a method".into());
        }
    }
    let zero = |number: Option<usize>| number == Some(0);
    if let Some(slurm) = &suite.slurm
        && (slurm.task_minutes == Some(0)
            || [slurm.cpus_per_task, slurm.chunk, slurm.most_at_once].map(zero).contains(&true))
    {
        return Err("slurm: expected task_minutes, cpus_per_task, chunk and most_at_once above 0".into());
    }
    match &suite.limits {
        SuiteLimits { time_seconds: Some(s), .. } if limit(*s).is_none() => {
            Err(format!("limits.time_seconds is {s}; expected a number of seconds above 0 and at most 1e9"))
        }
        SuiteLimits { cpu_seconds: Some(s), .. } if limit(*s).is_none() => {
            Err(format!("limits.cpu_seconds is {s}; expected a number of seconds above 0 and at most 1e9"))
        }
        SuiteLimits { threads: Some(0), .. } => Err("limits.threads is 0; expected at least 1".into()),
        SuiteLimits { jobs: Some(0), .. } => Err("limits.jobs is 0; expected at least 1".into()),
        _ => Ok(()),
    }
}

fn find(library: &Library, argument: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(argument);
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(path.to_owned());
    }
    let folder = library.folder().join("suites");
    let named = folder.join(format!("{argument}.toml"));
    if named.is_file() {
        return Ok(named);
    }
    let known = names(&folder);
    let known = if known.is_empty() {
        "there is none under instances/suites/; run inside a checkout, or give the path of a .toml file".into()
    } else {
        format!("expected a .toml file or one of {}", known.join(", "))
    };
    Err(Failure::input(format!("no suite {argument:?}; {known}")))
}

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        files.filter_map(|file| Some(file.file_name().to_string_lossy().strip_suffix(".toml")?.to_owned())).collect();
    names.sort();
    names
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values_expand_to_every_combination() {
        let method: SuiteMethod =
            toml::from_str("id = 'm'\nparameters = { a = [1, 2], b = ['x', 'y'], c = 3 }").unwrap();
        let settings = method.settings();
        assert_eq!((settings.len(), method.combinations()), (4, 4));
        let ten = (0..10).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let lists: Vec<_> = ('a'..='t').map(|name| format!("{name} = [{ten}]")).collect();
        let method: SuiteMethod =
            toml::from_str(&format!("id = 'm'\nparameters = {{ {} }}", lists.join(", "))).unwrap();
        assert!(method.combinations() > MOST_SETTINGS);
        assert_eq!(
            settings[1],
            BTreeMap::from([("a", "1"), ("b", "y"), ("c", "3")].map(|(k, v)| (k.into(), v.into())))
        );
    }
}
