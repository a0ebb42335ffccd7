//! Readers of this crate: solutions of other solvers, which may say anything, and logs; mutations of a corpus.

#![expect(clippy::unwrap_used, reason = "tests panic where they fail")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::mutate::{corpus, fuzz};
use remat_core::format::Origin;
use remat_core::io::parse_json;
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::{Instance, simulate};
use remat_formulations::planners::dtr::import;
use remat_formulations::{Parameters, find};

fn any_solution_of(method: &str, given: &[(&str, &str)], budget: Option<u64>) {
    let files = corpus("instance");
    let (_, bytes) = files.iter().find(|(name, _)| name == "linear.json").unwrap();
    let instance = Instance::new(&parse_json(Path::new("linear.json"), bytes).unwrap()).unwrap();
    let method = find(method).unwrap();
    let given: BTreeMap<_, _> = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let parameters = Parameters::new(method.about().parameters, &given).unwrap();
    let encoding = method.formulation().unwrap()(&instance, &parameters, budget).unwrap();
    fuzz(&format!("solution-{}", method.id()), &corpus("solution"), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
        let decoded = encoding.decode(text).map_err(|error| error.to_string())?;
        // What the solution says may be illegal; that is for the simulator to say, and not to stumble over.
        let _ = simulate(&instance, &decoded.schedule);
        Ok(())
    });
}

#[test]
fn any_log_of_an_online_policy_is_imported_or_refused() {
    fuzz("dtr", &corpus("dtr"), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
        let document = import::instance_of("case", text, &Origin::Exact {}).map_err(|error| error.to_string())?;
        let instance = Instance::new(&document).map_err(|error| error.to_string())?;
        // Store-all of what is valid may be illegal where a log reads what it has let go.
        let _ = simulate(&instance, &with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance)));
        Ok(())
    });
}

#[test]
fn any_solution_of_a_linear_program_is_lifted_or_refused() {
    any_solution_of("checkmate-ilp", &[("strategy", "plain")], Some(276));
}

#[test]
fn any_solution_of_monets_program_is_lifted_or_refused() {
    any_solution_of("monet", &[], Some(276));
    any_solution_of("monet", &[("rules", "as-released")], None);
}

#[test]
fn any_response_of_a_constraint_solver_is_lifted_or_refused() {
    any_solution_of("moccasin", &[], Some(276));
}
