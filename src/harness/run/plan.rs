//! What a suite amounts to: one [`Run`] per instance, method and parameters, with all its budgets.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use remat_core::Instance;
use remat_core::io::read_instance;
use remat_formulations::{BudgetUse, METHODS, Method, ParameterError, Parameters, Spec, find};

use serde::{Deserialize, Serialize};

use super::program;
use crate::ground::failure::Failure;
use crate::ground::host::VERSION;
use crate::ground::library::{Entry, Globs, Library};
use crate::ground::names::nearest;
use crate::ground::size::Budget;
use crate::harness::baseline::Baseline;
use crate::harness::records::Key;
use crate::harness::suite::{Suite, SuiteMethod, asked_for};

/// An instance, read and with its baseline.
pub struct Subject {
    /// The file.
    pub path: PathBuf,
    /// The instance.
    pub instance: Instance,
    /// Store-all on it.
    pub baseline: Baseline,
}

/// One run.
#[derive(Clone)]
pub struct Run {
    /// Name of the suite; empty for `bench solve`.
    pub suite: String,
    /// The instance.
    pub subject: Arc<Subject>,
    /// The method.
    pub method: &'static dyn Method,
    /// The program that is the method; empty: it is a registered one.
    pub command: Vec<String>,
    /// Parameters given.
    pub given: BTreeMap<String, String>,
    /// Every parameter.
    pub parameters: Parameters,
    /// Budgets that the method is given together.
    pub budgets: Vec<RunBudget>,
    /// Seed of every random choice.
    pub seed: u64,
}

/// A budget of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBudget {
    /// As written; empty for methods that ignore budgets.
    pub text: String,
    /// In the instance's unit of memory; none for unlimited.
    pub bytes: Option<u64>,
}

/// What the command line changes about a suite.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Methods to run instead of all of the suite's.
    pub methods: Vec<Spec>,
    /// Patterns that choose among the suite's instances.
    pub instances: Vec<String>,
    /// Budgets instead of the suite's.
    pub budgets: Vec<Budget>,
    /// Seeds instead of the suite's.
    pub seeds: Vec<u64>,
}

impl Subject {
    /// Reads an instance and simulates store-all on it.
    ///
    /// # Errors
    /// The file is no instance, or store-all is impossible on it.
    pub fn read(path: PathBuf) -> Result<Self, Failure> {
        let instance = read_instance(&path)?;
        let baseline = Baseline::new(&instance)
            .map_err(|error| Failure::at(&path)(format!("store-all is illegal on this instance: {error}")))?;
        Ok(Self { path, instance, baseline })
    }

    /// What a budget comes to on this instance.
    ///
    /// # Errors
    /// It is more than 64 bits can say.
    pub fn bytes(&self, budget: &Budget) -> Result<u64, Failure> {
        let bytes = budget.resolve(self.baseline.peak_bytes);
        bytes.ok_or_else(|| Failure::input(format!("budget {budget} overflows 64 bits; name a smaller one")))
    }
}

impl Run {
    /// Who answers, in messages.
    pub fn who(&self) -> &'static str {
        if self.command.is_empty() { "the worker" } else { "the program" }
    }

    /// The setting as people write it, without what is given as the default says anyway.
    pub fn label(&self) -> String {
        let spec = Spec { id: self.method.id().into(), parameters: self.given.clone() };
        if self.seed == 0 { spec.to_string() } else { format!("{spec}, seed {}", self.seed) }
    }

    /// The identities of its rows.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.budgets.iter().map(|budget| self.key(budget))
    }

    /// The identity of the row of one budget.
    pub fn key(&self, budget: &RunBudget) -> Key {
        let (hash, parameters) = (self.subject.instance.hash().to_string(), self.parameters.to_string());
        budget.key(&hash, self.method.id(), &parameters, self.seed)
    }
}

impl RunBudget {
    /// The identity of the row of this budget.
    pub fn key(&self, instance_hash: &str, method: &str, parameters: &str, seed: u64) -> Key {
        Key {
            instance_hash: instance_hash.into(),
            method: method.into(),
            parameters: parameters.into(),
            budget_size: self.bytes,
            budget: self.text.clone(),
            seed,
            version: VERSION.into(),
        }
    }
}

/// The method with an id.
///
/// # Errors
/// There is none; the message names the nearest.
pub fn method(id: &str) -> Result<&'static dyn Method, Failure> {
    find(id).ok_or_else(|| {
        let near = nearest(id, METHODS.iter().map(|method| method.id())).join(", ");
        Failure::input(format!("no method {id:?}; nearest: {near}; `bench methods` lists them all"))
    })
}

/// The method that a suite names: one of the registry, or a program.
///
/// # Errors
/// There is none.
pub fn method_of(chosen: &SuiteMethod) -> Result<&'static dyn Method, Failure> {
    if chosen.command.is_empty() { method(&chosen.id) } else { Ok(program::method(&chosen.id)) }
}

/// Checks parameters against what a method takes.
///
/// # Errors
/// The method has no such parameter, or it does not take the value.
pub fn parameters(method: &dyn Method, given: &BTreeMap<String, String>) -> Result<Parameters, Failure> {
    Parameters::new(method.about().parameters, given).map_err(|error| {
        let colon = if matches!(error, ParameterError::Value { .. }) { ":" } else { "" };
        Failure::input(format!("method {}{colon} {error}", method.id()))
    })
}

/// Budgets for one instance.
///
/// # Errors
/// A budget does not fit 64 bits.
pub fn resolve_budgets(
    method: &dyn Method,
    budgets: &[Budget],
    baseline: &Baseline,
) -> Result<Vec<RunBudget>, Failure> {
    if method.about().budgets == BudgetUse::Ignored {
        return Ok(vec![RunBudget { text: String::new(), bytes: None }]);
    }
    let mut resolved: Vec<RunBudget> = Vec::with_capacity(budgets.len());
    for budget in budgets {
        let bytes = budget.resolve(baseline.peak_bytes).ok_or_else(|| {
            Failure::input(format!("budget {budget} of {} bytes overflows 64 bits", baseline.peak_bytes))
        })?;
        let budget = RunBudget { text: budget.to_string(), bytes: Some(bytes) };
        if !resolved.contains(&budget) {
            resolved.push(budget);
        }
    }
    Ok(resolved)
}

/// Expands a suite. Runs of one instance stand together.
///
/// # Errors
/// A file, method, parameter or budget that does not fit.
pub fn expand(library: &Library, suite: &Suite, overrides: &Overrides) -> Result<Vec<Run>, Failure> {
    let methods = chosen_methods(suite, &overrides.methods)?;
    for chosen in &methods {
        let known = method_of(chosen)?;
        for setting in chosen.settings() {
            parameters(known, &setting)?;
        }
    }
    let budgets = if overrides.budgets.is_empty() { &suite.budgets } else { &overrides.budgets };
    let seeds = if overrides.seeds.is_empty() { &suite.limits.seeds } else { &overrides.seeds };
    let mut runs = Vec::new();
    let globs = methods.iter().map(|chosen| globs_of(library, suite, chosen)).collect::<Result<Vec<_>, _>>()?;
    for entry in chosen_instances(library, suite, &overrides.instances)? {
        let subject = Arc::new(Subject::read(entry.path.clone())?);
        for (chosen, _) in methods.iter().zip(&globs).filter(|(_, globs)| globs.matches_name(&entry.key)) {
            expand_method(&suite.name, &subject, chosen, (budgets, seeds), &mut runs)?;
        }
    }
    names_differ(&runs)?;
    // Asked for twice is asked for once.
    let mut seen = HashSet::new();
    runs.retain(|run| {
        let Run { subject, method, parameters, seed, .. } = run;
        seen.insert((subject.path.clone(), method.id(), parameters.to_string(), *seed))
    });
    Ok(runs)
}

/// The runs of one method on one instance.
///
/// # Errors
/// A method, parameter or budget that does not fit.
pub fn expand_method(
    suite: &str,
    subject: &Arc<Subject>,
    chosen: &SuiteMethod,
    (budgets, seeds): (&[Budget], &[u64]),
    runs: &mut Vec<Run>,
) -> Result<(), Failure> {
    let method = method_of(chosen)?;
    let budgets = resolve_budgets(method, budgets, &subject.baseline)?;
    let proposals = if chosen.sweep { method.sweep(&subject.instance) } else { vec![] };
    // A method without proposals (one that does not support the instance, say) runs once and says why.
    let proposals = if proposals.is_empty() { vec![BTreeMap::new()] } else { proposals };
    for setting in chosen.settings() {
        for proposal in &proposals {
            let mut given = setting.clone();
            given.extend(proposal.clone());
            let parameters = parameters(method, &given)?;
            let run = Run {
                suite: suite.into(),
                subject: subject.clone(),
                method,
                command: chosen.command.clone(),
                parameters,
                given,
                budgets: budgets.clone(),
                seed: 0,
            };
            // Where nothing is random, one seed says it all.
            let seeds = if method.is_random(&run.parameters) { seeds } else { &seeds[..1] };
            runs.extend(seeds.iter().map(|&seed| Run { seed, ..run.clone() }));
        }
    }
    Ok(())
}

/// The suite's methods, or those asked for: an id alone means the suite's settings of it, if it has any.
fn chosen_methods(suite: &Suite, asked: &[Spec]) -> Result<Vec<SuiteMethod>, Failure> {
    if asked.is_empty() {
        return Ok(suite.methods.clone());
    }
    for spec in asked {
        let listed = suite.methods.iter().find(|method| method.id == spec.id);
        parameters(listed.map_or_else(|| method(&spec.id), method_of)?, &spec.parameters)?;
    }
    Ok(asked.iter().flat_map(|spec| asked_for(spec, &suite.methods)).collect())
}

/// The patterns over instances of a method, each of which matches one of the suite's.
fn globs_of(library: &Library, suite: &Suite, chosen: &SuiteMethod) -> Result<Globs, Failure> {
    let globs = Globs::of(&chosen.instances)?;
    let entries = if globs.0.is_empty() { vec![] } else { library.matching(&suite.instances)? };
    let idle = globs.0.iter().position(|glob| !entries.iter().any(|entry| glob.matches_name(&entry.key)));
    match idle {
        Some(at) => Err(Failure::input(format!(
            "method {}: none of the suite's instances matches {:?}",
            chosen.id, chosen.instances[at]
        ))),
        None => Ok(globs),
    }
}

fn chosen_instances(library: &Library, suite: &Suite, patterns: &[String]) -> Result<Vec<Entry>, Failure> {
    let entries = library.matching(&suite.instances)?;
    if patterns.is_empty() {
        return Ok(entries);
    }
    let globs = Globs::of(patterns)?;
    let chosen: Vec<_> = entries.iter().filter(|entry| globs.matches_name(&entry.key)).cloned().collect();
    let mut searched = suite.max_batch.iter().flat_map(|search| search.networks.iter().flatten());
    let is_searched = searched.any(|name| globs.matches_name(name));
    if chosen.is_empty() && !is_searched {
        let near = nearest(&patterns[0], entries.iter().map(|entry| entry.key.as_str()));
        return Err(Failure::input(format!(
            "none of the suite's {} instances matches {}; nearest: {}",
            entries.len(),
            patterns.join(" or "),
            near.join(", ")
        )));
    }
    Ok(chosen)
}

/// Schedules and plots are kept by name, so two instances of one name would overwrite each other's.
fn names_differ(runs: &[Run]) -> Result<(), Failure> {
    let mut seen: BTreeMap<&str, &Subject> = BTreeMap::new();
    for run in runs {
        let subject = run.subject.as_ref();
        let earlier = seen.insert(subject.instance.name(), subject);
        if let Some(earlier) = earlier.filter(|earlier| earlier.path != subject.path) {
            return Err(Failure::input(format!(
                "{} and {} are both named {:?}; rename one (field \"name\")",
                earlier.path.display(),
                subject.path.display(),
                subject.instance.name()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::suite;

    /// Its instances are there and told apart by their names, its methods and parameters are known.
    #[test]
    fn every_shipped_suite_expands() {
        let library = Library::locate();
        let files = std::fs::read_dir(library.folder().join("suites")).unwrap().flatten();
        let paths: Vec<_> = files.map(|file| file.path()).collect();
        assert!(paths.len() > 4, "{paths:?}");
        for path in paths {
            let suite = suite::read_file(&path).unwrap().suite;
            assert_eq!(path.file_stem().unwrap().to_string_lossy(), suite.name);
            let runs = expand(&library, &suite, &Overrides::default());
            let runs = runs.unwrap_or_else(|failure| panic!("{}: {failure:?}", suite.name));
            assert!(runs.len() >= suite.methods.len(), "{}", suite.name);
        }
    }
}
