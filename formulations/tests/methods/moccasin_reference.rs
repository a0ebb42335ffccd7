//! The public graphs of Checkmate's and Moccasin's authors (`instances/published/`) against optima that the original
//! programs reached. MOCCASIN_CELLS chooses others than the quick ones (`rl3-n500:90,fcn8-train:80`),
//! MOCCASIN_PARAMETERS adds parameters (`solver=cp-sat,copies=3`), MOCCASIN_SECONDS limits each cell; figures are
//! printed (`--nocapture`).
#![allow(clippy::print_stderr, reason = "times are of interest")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use remat_core::generate::layered::{Layered, layered};
use remat_core::io::read_instance;
use remat_core::{Instance, simulate};
use remat_formulations::method::report::{Progress, Reporter};
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::{Answer, Context, Limits, Parameters, Termination, find};

/// Graph, percent of the peak of the given order, percent of time added by the optimum.
const OPTIMA: [(&str, u64, f64); 6] = [
    ("fcn8-train", 90, 0.0294),
    ("fcn8-train", 80, 0.1361),
    ("rl1-n100", 90, 0.7892),
    ("rl1-n100", 80, 2.2965),
    ("unet-train", 90, 1.1289),
    ("unet-train", 50, 6.9666),
];

/// Those that the embedded solver proves within seconds.
const QUICK: &str = "fcn8-train:90,fcn8-train:80,rl1-n100:90";

fn read(name: &str) -> Instance {
    // `layered-250-1`: a generated graph of 250 operators, seed 1, with the published width.
    if let Some((nodes, seed)) = name.strip_prefix("layered-").and_then(|rest| rest.split_once('-')) {
        let width = [("100", 0.27), ("250", 0.43), ("500", 0.36), ("1000", 0.31)].into_iter().find(|w| w.0 == nodes);
        let parameters = Layered::moccasin(nodes.parse().expect("a number"), width.map_or(0.35, |width| width.1));
        return Instance::new(&layered(name, &parameters, seed.parse().expect("a seed"))).expect("valid");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances");
    let places = ["published/moccasin", "published/checkmate", "resnet", "small"];
    let files = places
        .iter()
        .flat_map(|place| ["json.zst", "json"].map(|end| folder.join(place).join(format!("{name}.{end}"))));
    let path = files.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no graph {name}"));
    read_instance(&path).expect("shipped")
}

/// When incumbents came, in seconds of wall and of this process's processor time.
struct Watch {
    began: Instant,
    moments: Mutex<Vec<(f64, f64, u64)>>,
}

impl Reporter for Watch {
    fn report(&self, _: usize, progress: Progress) {
        if let Some((_, claimed)) = progress.incumbent {
            let mut moments = self.moments.lock().expect("nobody panicked");
            moments.push((self.began.elapsed().as_secs_f64(), processor_seconds(), claimed.time));
        }
    }
    fn answer(&self, _: usize, _: &Answer) {}
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    Duration::from(time).as_secs_f64()
}

fn cell(name: &str, percent: u64, given: &BTreeMap<String, String>, time: Option<Duration>) {
    let instance = read(name);
    let joint = Joint::new(&instance).expect("supported");
    let store_all = Stages::store_all(&joint).claim(&joint);
    let method = find("moccasin").expect("registered");
    let parameters = Parameters::new(method.about().parameters, given).expect("its parameters");
    let budget = (store_all.peak_bytes * percent).div_ceil(100);
    let limits = Limits { time, threads: 1, seed: 0 };
    let watch = Watch { began: Instant::now(), moments: Mutex::default() };
    let before = processor_seconds();
    let budgets = [Some(budget)];
    let context = Context { reporter: &watch, ..Context::new(&instance, &parameters, &budgets, limits) };
    let answer = method.answers(&context).expect("solves").remove(0);
    let (wall, processor) = (watch.began.elapsed().as_secs_f64(), processor_seconds() - before);
    let added = |time: u64| 100.0 * (time as f64 / store_all.time as f64 - 1.0);
    let moments = watch.moments.into_inner().expect("nobody panicked");
    let at = |moment: Option<&(f64, f64, u64)>| {
        moment.map_or("never".into(), |(wall, cpu, time)| {
            format!("{wall:.1} s ({:.1} cpu, {:.4} %)", cpu - before, added(*time))
        })
    };
    eprintln!(
        "{name} {percent}%: {:?} in {wall:.1} s ({processor:.1} cpu); CI {:.4} bound {:.4}; peak {:.1} %; first {}, best {}; {}",
        answer.termination,
        answer.claimed.map_or(f64::NAN, |claimed| added(claimed.time)),
        answer.lower_bound.map_or(f64::NAN, added),
        answer.claimed.map_or(f64::NAN, |claimed| 100.0 * claimed.peak_bytes as f64 / store_all.peak_bytes as f64),
        at(moments.first()),
        at(moments.last()),
        answer.note
    );
    if let Some(schedule) = &answer.schedule {
        let simulation = simulate(&instance, schedule).expect("legal");
        let claimed = answer.claimed.expect("a schedule has claims");
        assert_eq!((simulation.time, simulation.peak_bytes), (claimed.time, claimed.peak_bytes));
        assert!(simulation.peak_bytes <= budget);
    }
    let known = OPTIMA.iter().find(|(graph, at, _)| *graph == name && *at == percent);
    if let (Some((_, _, expected)), None) = (known, given.get("copies")) {
        let bound = answer.lower_bound.map_or(0.0, added);
        assert!(bound < expected + 6e-5, "a bound of {bound} above the optimum {expected}");
        if time.is_none() || answer.termination == Termination::Optimal {
            let found = answer.claimed.map(|claimed| added(claimed.time));
            assert!(found.is_some_and(|found| (found - expected).abs() < 6e-5), "{found:?} instead of {expected}");
        }
    }
}

#[test]
fn the_optima_of_the_public_graphs_are_those_of_the_original_program() {
    let cells = std::env::var("MOCCASIN_CELLS").unwrap_or_else(|_| QUICK.into());
    let given: BTreeMap<String, String> = std::env::var("MOCCASIN_PARAMETERS")
        .unwrap_or_default()
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let time = std::env::var("MOCCASIN_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    for cell_name in cells.split(',') {
        let (name, percent) = cell_name.rsplit_once(':').expect("GRAPH:PERCENT");
        cell(name, percent.parse().expect("percent"), &given, time.map(Duration::from_secs));
    }
}
