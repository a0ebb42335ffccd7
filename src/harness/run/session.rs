//! What a `bench run` says of itself in the manifest before it begins.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Allowance, Conditions, Run};
use crate::ground::host::{SOURCES, VERSION, timestamp};
use crate::harness::records::SCHEMA_VERSION;
use crate::harness::records::manifest::{InstanceEntry, Session};

impl Session {
    /// The session that is about to execute `runs`.
    pub fn new(runs: &[Run], conditions: &Conditions) -> Self {
        let host = &conditions.host;
        let Allowance { limits, cpu_limit, memory_limit_bytes } = conditions.allowance;
        let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64().to_string());
        let mut instances: Vec<InstanceEntry> = Vec::new();
        for run in runs {
            let (instance, path) = (&run.subject.instance, &run.subject.path);
            if instances.last().is_none_or(|last| last.path != *path) {
                let (name, hash) = (instance.name().to_owned(), instance.hash().to_string());
                instances.push(InstanceEntry { name, path: path.clone(), hash });
            }
        }
        Self {
            schema_version: SCHEMA_VERSION,
            started: timestamp(),
            command: std::env::args().collect(),
            version: VERSION.into(),
            git_revision: host.git_revision.clone(),
            sources: SOURCES.into(),
            host: host.name.clone(),
            memory_bytes: host.memory_bytes,
            system: host.system.clone(),
            time_limit_seconds: seconds(limits.time),
            cpu_limit_seconds: seconds(cpu_limit),
            memory_limit_bytes,
            threads: limits.threads,
            solvers: solvers(),
            crates: crates(),
            instances,
            to_come: None,
        }
    }
}

fn solvers() -> BTreeMap<String, String> {
    let all = remat_formulations::solvers().into_iter().chain([remat_formulations::constraint_solver()]);
    all.filter_map(|(id, version)| Some((id.to_owned(), version.ok()?))).collect()
}

/// What the lock file says of the dependencies that the workspace's own packages name.
fn crates() -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        source: Option<String>,
        #[serde(default)]
        dependencies: Vec<String>,
    }
    let lock: Lock =
        toml::from_str(include_str!("../../../Cargo.lock")).expect("the lock file was good enough for cargo");
    let own = lock.package.iter().filter(|package| package.source.is_none());
    let named: Vec<&str> = own.flat_map(|package| &package.dependencies).map(String::as_str).collect();
    // Of a crate in two versions, the lock file names the version as well.
    let names = |package: &&Package| {
        let both = format!("{} {}", package.name, package.version);
        package.source.is_some() && (named.contains(&package.name.as_str()) || named.contains(&both.as_str()))
    };
    lock.package.iter().filter(names).map(|package| (package.name.clone(), package.version.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_are_those_that_the_workspace_names() {
        let crates = crates();
        assert!(crates.contains_key("highs-sys") && crates.contains_key("clap"), "{crates:?}");
        assert!(!crates.contains_key("clap_lex") && !crates.contains_key("bench"), "{crates:?}");
    }
}
