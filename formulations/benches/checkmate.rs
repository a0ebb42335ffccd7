//! Build time and size of Checkmate's models of the committed instances (or of those named as
//! arguments), at 70% of what store-all needs, and what presolve leaves of them.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for people")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use remat_core::io::read_instance;
use remat_formulations::checkmate::compact::{Compact, Rows};
use remat_formulations::checkmate::joint::Joint;
use remat_formulations::checkmate::plain::Plain;
use remat_formulations::checkmate::stages::Stages;
use remat_solvers::Model;

fn report(name: &str, what: &str, build: impl Fn() -> Model) {
    let began = Instant::now();
    let model = build();
    let seconds = began.elapsed().as_secs_f64();
    let (columns, rows, terms) = (model.columns(), model.rows.len(), model.nonzeros());
    println!("{name:24} {what:10} {seconds:8.3} s  {columns:9} columns {rows:9} rows {terms:10} nonzeros");
}

fn main() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../instances/resnet");
    let given: Vec<PathBuf> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).map(PathBuf::from).collect();
    let shipped = ["resnet18-224-b32", "resnet50-224-b32"].map(|name| folder.join(format!("{name}.json.zst")));
    for path in if given.is_empty() { shipped.to_vec() } else { given } {
        let instance = read_instance(&path).unwrap();
        let joint = Arc::new(Joint::new(&instance).unwrap());
        let peak = Stages::store_all(&joint).claim(&joint, true).peak_bytes;
        let budget = Some(joint.base_bytes + (peak - joint.base_bytes) * 7 / 10);
        println!("{}: {} operators, {} values", instance.name(), joint.len(), joint.values.len());
        report(instance.name(), "published", || Plain::new(&joint, budget, true).model);
        report(instance.name(), "reduced", || Compact::new(&joint, budget, true, Rows::All).model);
        report(instance.name(), "lazy", || Compact::new(&joint, budget, true, Rows::Lazy).model);
    }
}
