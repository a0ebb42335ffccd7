//! The public training graphs of Checkmate's authors (`instances/published/checkmate/`) against optima that the
//! original formulation reached. CHECKMATE_STRATEGY chooses another strategy than the default, CHECKMATE_GRAPH one
//! graph; times are printed (`--nocapture`).
#![allow(clippy::print_stderr, reason = "times are of interest")]

use std::collections::BTreeMap;
use std::path::Path;

use remat_core::io::read_instance;
use remat_core::{Instance, simulate};
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::{Context, Limits, Parameters, Termination, find};

/// Percent of store-all's peak, and percent of time added by the optimum; none where nothing fits.
type Cells = &'static [(u64, Option<f64>)];

const OPTIMA: [(&str, Cells); 3] = [
    ("vgg16", &[(90, Some(1.9677)), (80, None)]),
    ("fcn8", &[(90, Some(0.0294)), (80, Some(0.1361)), (70, Some(0.8915)), (60, None), (50, None)]),
    ("unet", &[(90, Some(1.1289)), (80, Some(1.9836)), (70, Some(2.9673)), (60, Some(4.4509)), (50, Some(6.9666))]),
];

fn read(name: &str) -> Instance {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/published/checkmate");
    read_instance(&folder.join(format!("{name}-train.json.zst"))).expect("shipped")
}

#[test]
fn the_optima_of_the_public_graphs_are_those_of_the_original_program() {
    let strategy = std::env::var("CHECKMATE_STRATEGY").unwrap_or_else(|_| "coarse".into());
    let only = std::env::var("CHECKMATE_GRAPH").ok();
    for (name, cells) in OPTIMA.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name)) {
        let instance = read(name);
        let joint = Joint::new(&instance).expect("supported");
        let store_all = Stages::store_all(&joint).claim(&joint);
        let method = find("checkmate-ilp").expect("registered");
        let given: BTreeMap<_, _> = [("strategy".to_owned(), strategy.clone())].into();
        let parameters = Parameters::new(method.about().parameters, &given).expect("its parameters");
        let budgets: Vec<_> = cells.iter().map(|(percent, _)| Some(store_all.peak_bytes * percent / 100)).collect();
        let limits = Limits { time: None, threads: 1, seed: 0 };
        let context = Context::new(&instance, &parameters, &budgets, limits);
        let answers = method.answers(&context).expect("solves");
        for (answer, &(percent, expected)) in answers.iter().zip(cells) {
            let seconds = answer.solve.as_secs_f64();
            eprintln!("{name} {percent}%: {:?} in {seconds:.2} s; {}", answer.termination, answer.note);
            let Some(expected) = expected else {
                assert_eq!(answer.termination, Termination::Infeasible, "{name} {percent}%");
                continue;
            };
            let schedule = answer.schedule.as_ref().expect("there is one");
            let simulation = simulate(&instance, schedule).expect("legal");
            assert!(simulation.peak_bytes <= answer.budget.expect("given"));
            let added = 100.0 * (simulation.time as f64 / store_all.time as f64 - 1.0);
            assert!((added - expected).abs() < 6e-5, "{name} {percent}%: {added} instead of {expected}");
        }
    }
}
