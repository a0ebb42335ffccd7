//! Seeded random networks, and what tests of methods on them have in common.

pub mod passes;

use std::collections::BTreeMap;
use std::iter::StepBy;
use std::ops::{Div, Range};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use crate::common::{self, Dice, network};
use remat_core::format::{ImplementationDocument, InPlaceDocument, InstanceDocument, Phase, TensorKind};
use remat_core::io::read_instance;
use remat_core::{Instance, Schedule, simulate};
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::{
    Answer, Context, Limits, Method, NoStarts, Parameters, Progress, Registered, Reporter, Starts, find,
};

/// `SplitMix64`.
pub struct Random(pub u64);

impl Random {
    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % bound
    }
}

/// Whether tests look at all the networks that they can draw, as CI does: BENCH_ALL_NETWORKS is set.
fn is_thorough() -> bool {
    std::env::var_os("BENCH_ALL_NETWORKS").is_some()
}

/// Of the networks of a test (or its budgets), by their numbers, all in CI and every fifth elsewhere.
pub fn some_of(numbers: Range<u64>) -> StepBy<Range<u64>> {
    numbers.step_by(if is_thorough() { 1 } else { 5 })
}

/// As many as there are of so many in the networks that are drawn.
pub fn part<N: From<u8> + Div<Output = N>>(of: N) -> N {
    if is_thorough() { of } else { of / N::from(5) }
}

/// A random network of 3 or 4 layers.
pub fn instance(seed: u64) -> Instance {
    let mut random = Random(seed);
    let layers = 3 + random.below(2);
    drawn(seed, layers, random)
}

/// A random network of so many layers.
pub fn instance_of(seed: u64, layers: u64) -> Instance {
    drawn(seed, layers, Random(seed))
}

/// In every third network backward operators may run again, and only every fourth one offers masks,
/// with which there is little to gain from running anything again.
fn drawn(seed: u64, layers: u64, mut random: Random) -> Instance {
    let mut draw = |bound| random.below(bound);
    let layers =
        (0..layers).map(|_| (draw(20), draw(10), draw(8), u32::try_from(draw(1 << 32)).expect("below 2^32"))).collect();
    let mut document = network(&Dice { layers });
    if !seed.is_multiple_of(4) {
        document.tensors.retain(|tensor| tensor.kind != TensorKind::Saved);
        for operator in &mut document.operators {
            operator.implementations.retain(|way| !way.name.contains("mask"));
        }
    }
    if seed.is_multiple_of(3) {
        for operator in document.operators.iter_mut().filter(|operator| operator.phase == Phase::Backward) {
            operator.recomputable = Some(true);
        }
    }
    Instance::new(&document).expect("the generator makes valid instances")
}

/// One thread, and no limit of time.
pub const ONE: Limits = Limits { time: None, threads: 1, seed: 0 };

/// The answers of a method with some parameters, which may start from others.
pub fn solve(method: &str, instance: &Instance, budgets: &[Option<u64>], given: &[(&str, &str)]) -> Vec<Answer> {
    answers(method, instance, budgets, given, &Registered, Limits { seed: 3, ..ONE })
}

/// The answer of a method to one budget, with some parameters and from nothing else.
pub fn alone(method: &str, instance: &Instance, budget: Option<u64>, given: &[(&str, &str)]) -> Answer {
    answers(method, instance, &[budget], given, &NoStarts, ONE).remove(0)
}

/// The answers of a method with some parameters, which may start from others, within limits.
pub fn answers(
    method: &str,
    instance: &Instance,
    budgets: &[Option<u64>],
    given: &[(&str, &str)],
    starts: &dyn Starts,
    limits: Limits,
) -> Vec<Answer> {
    let method = find(method).expect("registered");
    let given: BTreeMap<_, _> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let parameters = Parameters::new(method.about().parameters, &given).expect("parameters of the method");
    let context = Context { starts, ..Context::new(instance, &parameters, budgets, limits) };
    method.answers(&context).expect("solves")
}

/// A shipped instance, by its file.
pub fn shipped(file: &str) -> Instance {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances");
    read_instance(&folder.join(file)).expect("shipped instances are valid")
}

/// The peak of store-all.
pub fn store_all_peak(instance: &Instance) -> u64 {
    alone("store-all", instance, None, &[]).claimed.expect("store-all is legal").peak_bytes
}

/// Budgets from one below what is feasible at all to one that store-all meets.
pub fn budgets(joint: &Joint, number: u64) -> Vec<Option<u64>> {
    let least = joint.least_peak();
    let most = Stages::store_all(joint).claim(joint).peak_bytes;
    let mut budgets: Vec<u64> = (0..=number).map(|at| least + (most - least) * at / number).collect();
    budgets.extend([least.saturating_sub(1), most.saturating_sub(1).max(least)]);
    budgets.sort_unstable();
    budgets.dedup();
    budgets.into_iter().map(Some).collect()
}

/// The answer's schedule simulates to what is claimed, within the budget; returns its time.
pub fn checked(instance: &Instance, answer: &Answer, context: &str) -> Option<u64> {
    let schedule = answer.schedule.as_ref()?;
    let simulation = simulate(instance, schedule).unwrap_or_else(|error| panic!("{context}: {error}"));
    let claimed = answer.claimed.expect("a schedule has claims");
    assert_eq!((simulation.time, simulation.peak_bytes), (claimed.time, claimed.peak_bytes), "{context}");
    assert!(answer.budget.is_none_or(|budget| simulation.peak_bytes <= budget), "{context}: over budget");
    Some(simulation.time)
}

/// A convolution, a rectifier and a loss with Gist's encodings: the rectifier can save a mask, which its backward
/// can read, or run in place.
pub fn encoded() -> InstanceDocument {
    let mut document = common::empty("encoded");
    let kinds = [
        (10, TensorKind::Input),
        (100, TensorKind::Activation),
        (100, TensorKind::Activation),
        (1, TensorKind::Output),
        (4, TensorKind::Saved),
        (100, TensorKind::Gradient),
        (100, TensorKind::Gradient),
        (1, TensorKind::ParamGradient),
    ];
    document.tensors = (0..).zip(kinds).map(|(id, (bytes, kind))| common::tensor(id, bytes, kind)).collect();
    let rows = [
        (Phase::Forward, vec![0], vec![1], 7),
        (Phase::Forward, vec![1], vec![2], 2),
        (Phase::Loss, vec![2], vec![3], 1),
        (Phase::Backward, vec![3], vec![5], 1),
        (Phase::Backward, vec![2, 5], vec![6], 3),
        (Phase::Backward, vec![0, 6], vec![7], 6),
    ];
    for (id, (phase, inputs, outputs, time)) in (0..).zip(rows) {
        let mut operator = common::operator(id, phase, inputs, outputs);
        operator.differentiates = (phase == Phase::Backward).then(|| 5 - id);
        operator.implementations = vec![ImplementationDocument::plain("default", time, 0)];
        document.operators.push(operator);
    }
    let in_place = Some(InPlaceDocument { output: 2, input: 1 });
    let rectifier = &mut document.operators[1].implementations;
    rectifier.push(ImplementationDocument { saves: vec![4], ..ImplementationDocument::plain("gist:binarize", 5, 0) });
    rectifier.push(ImplementationDocument { in_place, ..ImplementationDocument::plain("gist:in-place", 2, 0) });
    let inputs = Some(vec![4, 5]);
    let from_mask = ImplementationDocument { inputs, ..ImplementationDocument::plain("gist:binarize", 4, 0) };
    document.operators[4].implementations.push(from_mask);
    document.order = (0..6).collect();
    document
}

/// Times of the schedules that are reported before a bound is; then nothing more is wanted.
#[derive(Default)]
pub struct Early(Mutex<(Vec<u64>, bool)>);

impl Early {
    /// In the order in which they came.
    pub fn times(self) -> Vec<u64> {
        self.0.into_inner().expect("no panic").0
    }
}

impl Reporter for Early {
    fn report(&self, _: usize, progress: Progress) {
        let (times, bounded) = &mut *self.0.lock().expect("no panic");
        *bounded |= progress.lower_bound.is_some();
        times.extend(progress.incumbent.filter(|_| !*bounded).map(|(_, claimed)| claimed.time));
    }

    fn answer(&self, _: usize, _: &Answer) {}

    fn wants_more(&self, _: usize) -> bool {
        !self.0.lock().expect("no panic").1
    }
}

/// Starts from methods that try less than by default.
pub struct Brief;

impl Starts for Brief {
    fn schedule(
        &self,
        id: &str,
        context: &Context<'_>,
        budget: Option<u64>,
        _: Option<Duration>,
    ) -> Result<Schedule, String> {
        let brief = [("iterations", "3000"), ("second-iterations", "600")];
        let given = if id == "fastsa" { &brief[..] } else { &[] };
        let answer = solve(id, context.instance, &[budget], given).remove(0);
        answer.schedule.ok_or_else(|| "no schedule".into())
    }

    fn method(&self, id: &str) -> Option<&'static dyn Method> {
        find(id)
    }
}
