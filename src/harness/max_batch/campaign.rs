//! The searches of a suite: every network and method of its `[max_batch]`, each row kept as it comes.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use remat_formulations::Spec;
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::host::VERSION;
use crate::ground::library::{Globs, Library};
use crate::ground::output;
use crate::harness::records::Existing;
use crate::harness::records::batches::{self, BatchRow};
use crate::harness::run::Conditions;
use crate::harness::suite::{Suite, SuiteMaxBatch, SuiteMethod, asked_for};

use super::{Network, Question, guess, label_of, largest};

/// Searches on one network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Search {
    /// Name of the network.
    pub name: String,
    /// What is searched, of this network alone.
    pub searches: SuiteMaxBatch,
}

impl Search {
    /// The methods as their rows call them.
    pub fn labels(&self) -> impl Iterator<Item = String> {
        self.searches.methods.iter().map(label_of)
    }

    /// Leaves out methods by what their rows call them; nothing where that leaves none.
    pub fn without(mut self, left_out: impl Fn(&str, &str) -> bool) -> Option<Self> {
        self.searches.methods.retain(|method| !left_out(&self.name, &label_of(method)));
        Some(self).filter(|search| !search.searches.methods.is_empty())
    }
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
        let globs = Globs::of(patterns)?;
        let wanted = |names: &&Vec<String>| names.iter().any(|name| globs.matches_name(name));
        let networks: Vec<_> = settings.networks.iter().filter(wanted).collect();
        let searched = |spec: &&Spec| settings.methods.iter().any(|method| method.id == spec.id);
        let methods = match asked {
            [] => settings.methods.clone(),
            _ => asked.iter().filter(searched).flat_map(|spec| asked_for(spec, &settings.methods)).collect(),
        };
        Ok(Some(Self { settings, networks, methods }).filter(|campaign| campaign.len() > 0))
    }

    /// The searches of one network.
    pub fn only(search: &'a Search) -> Self {
        let settings = &search.searches;
        Self { settings, networks: settings.networks.iter().collect(), methods: settings.methods.clone() }
    }

    /// The searches that have no row yet that counts, by network.
    ///
    /// # Errors
    /// The instances are no family, or rows are none of ours.
    pub fn missing(&self, results: &Path, root: &Path, existing: Existing, seed: u64) -> Result<Vec<Search>, Failure> {
        let rows = batches::read(results)?;
        let library = Library { root: root.to_owned() };
        let mut missing = Vec::new();
        for names in &self.networks {
            let network = Network::read(&library, names, &results.join("max-batch"))?;
            let open = |method: &&SuiteMethod| self.is_open(&rows, &network, method, existing, seed);
            let methods: Vec<_> = self.methods.iter().filter(open).cloned().collect();
            if !methods.is_empty() {
                let searches = SuiteMaxBatch { networks: vec![(*names).clone()], methods, ..self.settings.clone() };
                missing.push(Search { name: network.name.clone(), searches });
            }
        }
        Ok(missing)
    }

    /// Whether a row answers one of the searches.
    pub fn has(&self, row: &BatchRow) -> bool {
        let asked = |names: &&Vec<String>| batches::joined(names) == row.instances;
        let of = |method: &SuiteMethod| self.asks(row, (&row.network, &row.instance_hashes), method, row.seed);
        self.networks.iter().any(asked) && self.methods.iter().any(of)
    }

    /// Whether a row is that of a method on a network of this name and these hashes.
    fn asks(&self, row: &BatchRow, (network, hashes): (&str, &str), method: &SuiteMethod, seed: u64) -> bool {
        let Question { memory, extra_forwards, most } = self.question();
        let (label, settings) = (label_of(method), method.listed());
        let about = (network, label.as_str(), memory.0, extra_forwards.to_bits(), seed, VERSION);
        row.question() == (about, hashes, settings.as_str(), most)
    }

    /// Whether no row that counts is that of a method on a network.
    fn is_open(
        &self,
        rows: &[BatchRow],
        network: &Network,
        method: &SuiteMethod,
        existing: Existing,
        seed: u64,
    ) -> bool {
        let asks = |row: &BatchRow| self.asks(row, (&network.name, &network.hashes), method, seed);
        !rows.iter().any(|row| existing.counts(row.is_error()) && asks(row))
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
            .map(|(names, method)| format!("{}  {}  largest batch\n", names.join(" "), label_of(method)))
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
        let (question, seed) = (self.question(), conditions.allowance.limits.seed);
        for names in &self.networks {
            let mut network = Network::read(library, names, &folder.join("max-batch"))?;
            for method in &self.methods {
                if self.is_open(&rows, &network, method, existing, seed) {
                    output::info(&format!("{}: largest batch of {}", network.name, method.id));
                    let guess = guess(&rows, &network.name);
                    let (row, schedule) = largest(&mut network, method, &question, guess, conditions, stop)?;
                    if let Some(schedule) = schedule {
                        batches::write_schedule(results, &row, &schedule)?;
                    }
                    rows.retain(|other| other.about() != row.about());
                    rows.push(row);
                    batches::write(folder, &rows)?;
                }
            }
        }
        Ok(())
    }
}
