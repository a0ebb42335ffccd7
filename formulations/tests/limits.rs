//! Limits and streaming of the methods: who stops in time, and what is said before the end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_core::generate::layered::{Layered, layered};
use remat_core::io::read_instance;
use remat_formulations::{
    Answer, BudgetUse, Context, Limits, METHODS, Method, Parameters, Progress, Registered, Reporter, find,
};

/// The budget's position, and the peak and time of an incumbent, or nothing for an answer.
type Said = (usize, Option<(u64, u64)>);

/// What was said, in order.
#[derive(Default)]
struct Ear(Mutex<Vec<Said>>);

impl Reporter for Ear {
    fn report(&self, index: usize, progress: Progress) {
        let said = progress.incumbent.map(|(_, claimed)| (claimed.peak_bytes, claimed.time));
        self.0.lock().expect("one thread").extend(said.map(|said| (index, Some(said))));
    }

    fn answer(&self, index: usize, _: &Answer) {
        self.0.lock().expect("one thread").push((index, None));
    }
}

fn defaults(method: &dyn Method) -> Parameters {
    Parameters::new(method.about().parameters, &BTreeMap::new()).expect("defaults are accepted")
}

fn shipped(path: &str) -> Instance {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances");
    read_instance(&root.join(path)).expect("shipped instances are valid")
}

fn peak(instance: &Instance) -> u64 {
    let method = find("store-all").expect("registered");
    let limits = Limits { time: None, threads: 1, seed: 0 };
    let answers = method.answers(&Context::new(instance, &defaults(method), &[None], limits)).expect("always");
    answers[0].claimed.expect("store-all is a schedule").peak_bytes
}

#[test]
fn segment_methods_say_every_better_schedule_before_they_answer() {
    let instance = shipped("resnet/resnet18-224-b32.json.zst");
    let budgets = [Some(peak(&instance) / 10 * 7), Some(peak(&instance) / 10 * 9), None];
    for id in ["ap-greedy", "linearized-greedy", "kusumoto-chen"] {
        let (method, ear) = (find(id).expect("registered"), Ear::default());
        let parameters = defaults(method);
        let limits = Limits { time: None, threads: 1, seed: 0 };
        let context = Context { reporter: &ear, ..Context::new(&instance, &parameters, &budgets, limits) };
        let answers = method.answers(&context).expect("supported");
        let said = ear.0.into_inner().expect("one thread");
        for (index, answer) in answers.iter().enumerate() {
            let of: Vec<_> = said.iter().filter(|(at, _)| *at == index).map(|(_, said)| *said).collect();
            assert_eq!(of.iter().filter(|said| said.is_none()).count(), 1, "{id}: one answer to each budget");
            assert_eq!(of.last(), Some(&None), "{id}: the answer comes last");
            let incumbents: Vec<(u64, u64)> = of.into_iter().flatten().collect();
            assert!(incumbents.iter().all(|&(peak, _)| answer.budget.is_none_or(|budget| peak <= budget)), "{id}");
            assert!(incumbents.windows(2).all(|pair| pair[1].1 <= pair[0].1), "{id}: each is better");
            assert_eq!(incumbents.last().map(|said| said.1), answer.claimed.map(|claimed| claimed.time), "{id}");
        }
    }
}

/// Methods whose models and tables grow with the square of the operators or faster, and whether they give a bound.
const LARGE: [(&str, bool); 8] = [
    ("checkmate-ilp", true),
    ("checkmate-lp", true),
    ("checkmate-rounding", false),
    ("moccasin", true),
    ("moccasin-reordered", false),
    ("monet", true),
    ("monet-lp", true),
    ("rotor-weak", false),
];

/// Four times the limit: what overran it took 6 to 60 s, and what does not overrun it 2.1 s; no machine is that slow.
#[test]
fn methods_with_large_models_stop_by_themselves_with_a_bound_on_thousands_of_operators() {
    let instance = shipped("resnet/resnet1001-224-b1.json.zst");
    let (time, budgets) = (Duration::from_secs(2), [Some(peak(&instance) / 10 * 6)]);
    let mut late = Vec::new();
    for (id, bounds) in LARGE {
        let method = find(id).expect("registered");
        let (parameters, limits) = (defaults(method), Limits { time: Some(time), threads: 2, seed: 0 });
        let context = Context { starts: &Registered, ..Context::new(&instance, &parameters, &budgets, limits) };
        let began = Instant::now();
        let answers = method.answers(&context).expect("supported");
        let took = began.elapsed();
        late.extend((took > 4 * time).then(|| format!("{id}: {:.2} s", took.as_secs_f64())));
        assert_eq!(answers[0].lower_bound.is_some(), bounds, "{id}: {}", answers[0].note);
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}

/// What an environment variable says, or what is usual.
fn asked<T: std::str::FromStr>(name: &str, usual: T) -> T {
    std::env::var(name).ok().and_then(|word| word.parse().ok()).unwrap_or(usual)
}

/// Says who overruns a limit of two seconds by more than 5 % and half a second, and who takes more than a second to say that an
/// instance is beyond it. Alone on a machine: `cargo test -p remat-formulations --test limits -- --ignored --nocapture`;
/// `LIMIT` is another limit in seconds, `THREADS` their number, `PART` another part of store-all's peak, `METHODS` are the
/// only ones asked, `INSTANCES` a part of the names of the only ones that they are asked about.
#[test]
#[ignore = "measures times: minutes, on an idle machine"]
#[allow(clippy::print_stderr, reason = "it is run for its list")]
fn who_overruns() {
    let time = Duration::from_secs_f64(asked("LIMIT", 2.0));
    let (threads, part) = (asked("THREADS", 1), asked("PART", 0.7));
    let (only, about): (String, String) = (asked("METHODS", String::new()), asked("INSTANCES", String::new()));
    let only: Vec<&str> = only.split(',').filter(|id| !id.is_empty()).collect();
    let layered = |nodes, width| {
        Instance::new(&layered("layered", &Layered::moccasin(nodes, width), 1)).expect("the generator's are valid")
    };
    let mut instances: Vec<Instance> = [
        "fastsa/llama-7b-2048-b8",
        "resnet/resnet1001-224-b1",
        "kusumoto/densenet161-224-b32",
        "fastsa/eva02-large-patch14-224-b512",
        "kusumoto/pspnet-713-b2",
        "checkmate/unet-416x608-b32",
    ]
    .iter()
    .map(|name| shipped(&format!("{name}.json.zst")))
    .collect();
    instances.extend([layered(10_000, 0.31), layered(10_000, 0.1), layered(100_000, 0.1)]);
    instances.retain(|instance| instance.name().contains(&about));
    let mut late = Vec::new();
    for instance in &instances {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
        let budget = Some((peak(instance) as f64 * part) as u64);
        for method in METHODS.iter().filter(|method| only.is_empty() || only.contains(&method.id())) {
            let began = Instant::now();
            let supported = method.supports(instance);
            let asked = began.elapsed();
            let budgets: &[Option<u64>] = if method.about().budgets == BudgetUse::Used { &[budget] } else { &[None] };
            let (parameters, limits) = (defaults(*method), Limits { time: Some(time), threads, seed: 0 });
            let context = Context { starts: &Registered, ..Context::new(instance, &parameters, budgets, limits) };
            let began = Instant::now();
            let words = match supported {
                Err(reason) => Err(reason.to_string()),
                Ok(()) => match method.answers(&context) {
                    Ok(answers) => Ok((answers[0].termination, answers[0].schedule.is_some())),
                    Err(error) => Err(error.to_string()),
                },
            };
            let took = began.elapsed();
            let over = words.is_err() && asked > Duration::from_secs(1)
                || took > time.mul_f64(1.05) + Duration::from_millis(500);
            let line = format!(
                "{} {} {}: {:.2} s + {:.2} s, {words:?}",
                if over { "LATE" } else { "ok" },
                instance.name(),
                method.id(),
                asked.as_secs_f64(),
                took.as_secs_f64()
            );
            eprintln!("{line}");
            late.extend(over.then_some(line));
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}
