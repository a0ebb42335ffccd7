//! The searches of a suite: every network and method of its `[max_batch]`, each row kept as it comes.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::failure::Failure;
use crate::library::{Library, glob};
use crate::output;
use crate::records::Existing;
use crate::run::Conditions;
use crate::suite::{Suite, SuiteMaxBatch, SuiteMethod};

use super::rows::{self, BatchRow};
use super::{Network, Question, guess, largest};

/// What of a suite's searches is to be done.
pub struct Campaign<'a> {
    settings: &'a SuiteMaxBatch,
    /// Instances of each network.
    networks: Vec<&'a Vec<String>>,
    methods: Vec<&'a SuiteMethod>,
}

impl<'a> Campaign<'a> {
    /// A suite's searches, those only that some ids of methods and patterns over instances leave;
    /// none where the suite has none.
    ///
    /// # Errors
    /// A pattern is malformed.
    pub fn of(suite: &'a Suite, ids: &[&str], patterns: &[String]) -> Result<Option<Self>, Failure> {
        let Some(settings) = &suite.max_batch else { return Ok(None) };
        let globs = patterns.iter().map(|pattern| glob(pattern)).collect::<Result<Vec<_>, _>>()?;
        let wanted = |name: &String| globs.is_empty() || globs.iter().any(|glob| glob.matches_name(name));
        let networks: Vec<_> = settings.networks.iter().filter(|names| names.iter().any(wanted)).collect();
        let chosen = |method: &&SuiteMethod| ids.is_empty() || ids.contains(&method.id.as_str());
        let methods: Vec<_> = settings.methods.iter().filter(chosen).collect();
        Ok(Some(Self { settings, networks, methods }).filter(|campaign| campaign.len() > 0))
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
        let lines: Vec<_> =
            pairs.map(|(names, method)| format!("{}  {}  largest batch\n", names.join(" "), method.id)).collect();
        lines.concat()
    }

    /// Does what has no row yet.
    ///
    /// # Errors
    /// As [`largest`]; what was written stays.
    pub fn run(
        &self,
        library: &Library,
        folder: &Path,
        existing: Existing,
        conditions: &Conditions,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut rows = if existing == Existing::Overwrite { Vec::new() } else { rows::read(folder)? };
        let settings = self.settings;
        let question =
            Question { memory: settings.memory, extra_forwards: settings.extra_forwards, most: settings.most };
        for names in &self.networks {
            let mut network = Network::read(library, names, &folder.join("max-batch"))?;
            for method in &self.methods {
                if !there(&rows, &network, method, &question, conditions.limits.seed) {
                    output::info(&format!("{}: largest batch of {}", network.name, method.id));
                    let guess = guess(&rows, &network.name);
                    rows.push(largest(&mut network, method, &question, guess, conditions, stop)?);
                    rows::write(folder, &rows)?;
                }
            }
            network.clean();
        }
        // Holds nothing any more; if it does, that is in nobody's way.
        let _ = std::fs::remove_dir(folder.join("max-batch"));
        Ok(())
    }
}

fn there(rows: &[BatchRow], network: &Network, method: &SuiteMethod, question: &Question, seed: u64) -> bool {
    let label = super::label_of(method);
    let same = |row: &&BatchRow| {
        (row.network.as_str(), row.label.as_str()) == (network.name.as_str(), label.as_str())
            && row.memory_bytes == question.memory.0
            && row.extra_forwards.to_bits() == question.extra_forwards.to_bits()
            && (row.seed, row.version.as_str()) == (seed, crate::host::VERSION)
    };
    rows.iter().any(|row| same(&row))
}
