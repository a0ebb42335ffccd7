//! The searches of a suite: every network and method of its `[max_batch]`, each row kept as it comes.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use remat_formulations::Spec;
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::host::VERSION;
use crate::ground::library::{Library, glob};
use crate::ground::output;
use crate::harness::records::Existing;
use crate::harness::records::batches::{self, BatchRow};
use crate::harness::run::Conditions;
use crate::harness::suite::{Suite, SuiteMaxBatch, SuiteMethod};

use super::{Network, Question, guess, largest};

/// Searches on one network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Search {
    /// Name of the network.
    pub name: String,
    /// Its position among the suite's.
    pub network: usize,
    /// The methods.
    #[serde(default)]
    pub chosen: Vec<SuiteMethod>,
    /// The methods as their rows call them.
    pub labels: Vec<String>,
}

/// What of a suite's searches is to be done.
pub struct Campaign<'a> {
    settings: &'a SuiteMaxBatch,
    /// Instances of each network.
    networks: Vec<&'a Vec<String>>,
    methods: Vec<SuiteMethod>,
}

impl<'a> Campaign<'a> {
    /// A suite's searches, those only that the methods asked for and patterns over instances leave, with the parameters
    /// asked for instead of the suite's; none where the suite has none.
    ///
    /// # Errors
    /// A pattern is malformed.
    pub fn of(suite: &'a Suite, asked: &[Spec], patterns: &[String]) -> Result<Option<Self>, Failure> {
        let Some(settings) = &suite.max_batch else { return Ok(None) };
        let globs = patterns.iter().map(|pattern| glob(pattern)).collect::<Result<Vec<_>, _>>()?;
        let wanted = |name: &String| globs.is_empty() || globs.iter().any(|glob| glob.matches_name(name));
        let networks: Vec<_> = settings.networks.iter().filter(|names| names.iter().any(wanted)).collect();
        let mut methods = if asked.is_empty() { settings.methods.clone() } else { Vec::new() };
        for spec in asked {
            let of_suite: Vec<_> = settings.methods.iter().filter(|method| method.id == spec.id).cloned().collect();
            if spec.parameters.is_empty() || of_suite.is_empty() {
                methods.extend(of_suite);
            } else {
                methods.push(SuiteMethod::of(spec));
            }
        }
        Ok(Some(Self { settings, networks, methods }).filter(|campaign| campaign.len() > 0))
    }

    /// Some searches of a suite's network, by its position; none where there are no such.
    pub fn only(suite: &'a Suite, network: usize, methods: &[SuiteMethod]) -> Option<Self> {
        let settings = suite.max_batch.as_ref()?;
        let networks = vec![settings.networks.get(network)?];
        Some(Self { settings, networks, methods: methods.to_vec() }).filter(|campaign| campaign.len() > 0)
    }

    /// The searches that have no row yet, by network.
    ///
    /// # Errors
    /// The instances are no family, or rows are none of ours.
    pub fn missing(&self, results: &Path, root: &Path, conditions: &Conditions) -> Result<Vec<Search>, Failure> {
        let rows = batches::read(results)?;
        let library = Library { root: root.to_owned() };
        let question = self.question();
        let mut missing = Vec::new();
        for names in &self.networks {
            let name = Network::read(&library, names, &results.join("max-batch"))?.name.clone();
            let open = |method: &&SuiteMethod| !there(&rows, &name, method, &question, conditions.limits.seed);
            let methods: Vec<_> = self.methods.iter().filter(open).cloned().collect();
            if methods.is_empty() {
                continue;
            }
            missing.push(Search {
                network: self
                    .settings
                    .networks
                    .iter()
                    .position(|other| std::ptr::eq(other, *names))
                    .unwrap_or_default(),
                labels: methods.iter().map(super::label_of).collect(),
                chosen: methods,
                name,
            });
        }
        Ok(missing)
    }

    /// Whether a row answers one of the searches.
    pub fn has(&self, row: &BatchRow) -> bool {
        let question = self.question();
        let asked = |names: &&Vec<String>| batches::joined(names) == row.instances;
        let of = |method: &SuiteMethod| there(std::slice::from_ref(row), &row.network, method, &question, row.seed);
        self.networks.iter().any(asked) && self.methods.iter().any(of)
    }

    fn question(&self) -> Question {
        let SuiteMaxBatch { memory, extra_forwards, most, .. } = *self.settings;
        Question { memory, extra_forwards, most }
    }

    /// Wall limit of each run, where it is not the suite's.
    pub fn time_limit(&self) -> Option<Duration> {
        self.settings.time_seconds.map(Duration::from_secs_f64)
    }

    /// Number of searches.
    pub fn len(&self) -> usize {
        self.networks.len() * self.methods.len()
    }

    /// A line for each search.
    pub fn listing(&self) -> String {
        let pairs = self.networks.iter().flat_map(|names| self.methods.iter().map(move |method| (names, method)));
        let lines: Vec<_> = pairs
            .map(|(names, method)| format!("{}  {}  largest batch\n", names.join(" "), super::label_of(method)))
            .collect();
        lines.concat()
    }

    /// Does what has no row in `folder` yet; schedules go to the run directory `results`.
    ///
    /// # Errors
    /// As [`largest`]; what was written stays.
    pub fn run(
        &self,
        library: &Library,
        folder: &Path,
        results: &Path,
        existing: Existing,
        conditions: &Conditions,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut rows = if existing == Existing::Overwrite { Vec::new() } else { batches::read(folder)? };
        let question = self.question();
        for names in &self.networks {
            let mut network = Network::read(library, names, &folder.join("max-batch"))?;
            for method in &self.methods {
                if !there(&rows, &network.name, method, &question, conditions.limits.seed) {
                    output::info(&format!("{}: largest batch of {}", network.name, method.id));
                    let guess = guess(&rows, &network.name);
                    let (row, schedule) = largest(&mut network, method, &question, guess, conditions, stop)?;
                    if let Some(schedule) = schedule {
                        batches::write_schedule(results, &row, &schedule)?;
                    }
                    rows.push(row);
                    batches::write(folder, &rows)?;
                }
            }
        }
        Ok(())
    }
}

fn there(rows: &[BatchRow], network: &str, method: &SuiteMethod, question: &Question, seed: u64) -> bool {
    let label = super::label_of(method);
    let asked = (network, label.as_str(), question.memory.0, question.extra_forwards.to_bits(), seed, VERSION);
    rows.iter().any(|row| row.question() == asked)
}
