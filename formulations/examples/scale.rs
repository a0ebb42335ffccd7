use remat_core::Instance;
use remat_core::io::{read_instance, read_json};
use remat_formulations::checkmate::joint::Joint;
use remat_formulations::checkmate::stages::Stages;
use remat_formulations::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
fn load(path: &str) -> Instance {
    if path.contains("-train") {
        let file = serde_json::from_value(read_json(path.as_ref()).unwrap()).unwrap();
        let document = remat_core::node_link::instance_of("x", &file, &remat_core::format::Origin::Exact).unwrap();
        return Instance::new(&document).unwrap();
    }
    read_instance(path.as_ref()).unwrap()
}
struct Print(Instant, u64);
impl Reporter for Print {
    fn report(&self, _: usize, p: Progress) {
        let pct = |t: u64| 100.0 * (t as f64 / self.1 as f64 - 1.0);
        println!(
            "  {:7.2}s incumbent {:?} bound {:?}",
            self.0.elapsed().as_secs_f64(),
            p.incumbent.map(|(_, c)| pct(c.time)),
            p.lower_bound.map(pct)
        );
    }
    fn answer(&self, _: usize, _: &Answer) {}
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let instance = load(&args[1]);
    let joint = Arc::new(Joint::new(&instance).unwrap());
    let all = Stages::store_all(&joint).claim(&joint, true);
    let method = find("checkmate-ilp").unwrap();
    let given: BTreeMap<_, _> = [("strategy".to_owned(), args[3].clone())].into();
    let parameters = Parameters::new(method.about().parameters, &given).unwrap();
    for f in args[2].split(',') {
        let fraction: u64 = f.parse().unwrap();
        let budgets = [Some(all.peak_bytes * fraction / 1000)];
        let time = args[4].parse::<f64>().ok().map(Duration::from_secs_f64);
        let limits = Limits { time, threads: 1, seed: 0 };
        let print = Print(Instant::now(), all.time);
        let context =
            Context { instance: &instance, parameters: &parameters, budgets: &budgets, limits, reporter: &print };
        let began = Instant::now();
        let answers = method.solve(&context).unwrap();
        let a = &answers[0];
        let pct = |t: u64| 100.0 * (t as f64 / all.time as f64 - 1.0);
        println!(
            "{} {fraction} {}: {:?} time {:?} bound {:?} {:.2}s; {}",
            args[1].rsplit('/').next().unwrap(),
            args[3],
            a.termination,
            a.claimed.map(|c| pct(c.time)),
            a.lower_bound.map(pct),
            began.elapsed().as_secs_f64(),
            a.note
        );
    }
}
