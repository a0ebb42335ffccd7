//! Generated instances: the papers' counterexamples for any n, and random chains from a documented
//! generator. Builds on [`crate::chain_file`]; every instance says by which generator it was made.
//! [`mod@layered`]: random layered graphs; [`mod@random`]: small networks with everything that the format knows.

pub mod layered;

use std::collections::BTreeMap;

use crate::chain::Chain;
use crate::chain_file::{ChainFile, Scale, instance_of, units_of};
use crate::format::{InstanceDocument, Origin};

pub mod random;
pub mod unit;

/// Numbers as they are: abstract units.
const PLAIN: Scale = Scale { time: None, memory: None };

/// Figure 4 of rotor-toms-2024: at a memory of 15 no memory-persistent sequence is optimal.
///
/// L = n + 2 stages; `u_f^1` = k, `u_f^2` = 2, every other time 0; `w_a^0` = 0, `w_a^1` = 1, `w_a^L` = 4 and 3
/// in between; `w_abar` = `w_delta` = `w_a`; no overheads; the loss is free. For k = n - 2 the best
/// memory-persistent makespan is 3n - 2, the best of all 2n + 2.
pub fn figure4(name: &str, n: u64, k: u64) -> InstanceDocument {
    let length = length(n);
    let mut file = idle_chain(length, 3);
    (file.fweight[0], file.fweight[1]) = (k as f64, 2.0);
    (file.cweight[0], file.cweight[1], file.cweight[length]) = (0.0, 1.0, 4.0);
    file.cbweight.clone_from(&file.cweight);
    instance(name, &chain(&file), "rotor-toms-2024-figure4", [("n", n), ("k", k)], None)
}

/// Figure 2 of rotor-rr9302-2019, as its section 4.1 describes it; the memory there is 8.
///
/// L = n + 2 stages; `u_f^1` = k, `u_f^2` = 2, every other time 0; `w_delta` = 0; `w_a^2` = `w_a^L` = 2, all
/// other `w_a^l` = 1. The text does not give `w_a^0`, `w_abar` and the overheads: with `w_a^0` = 4,
/// `w_abar` = `w_a` and no overheads, `F^L` needs 7 and `F^{L-1}` needs 6, as it says. The sequences that it
/// describes then fit into 8 and take T1 = k + 2(n + 1), T2 = 3k + 4 and T0 = 2k + 6 (its 2k + 4 forgets
/// one run of `F^2`). Yet T1 is not the best that is memory-persistent: beside `a^1` there is room for
/// any `a^l` of size 1 wherever there is room for `a^2`, whatever the values that the text leaves out.
pub fn rr9302_figure2(name: &str, n: u64, k: u64) -> InstanceDocument {
    let length = length(n);
    let mut file = idle_chain(length, 1);
    (file.fweight[0], file.fweight[1]) = (k as f64, 2.0);
    (file.cweight[0], file.cweight[2], file.cweight[length]) = (4.0, 2.0, 2.0);
    file.cbweight.clone_from(&file.cweight);
    let mut chain = chain(&file);
    chain.input_gradient_bytes = 0;
    for stage in &mut chain.stages {
        stage.gradient_bytes = 0;
    }
    instance(name, &chain, "rotor-rr9302-2019-figure2", [("n", n), ("k", k)], None)
}

/// Sizes and overheads of a random chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomKind {
    /// Outputs of 1,000 to 16,000, as much as 48,000 more to save, overheads up to 8,000 and 16,000.
    Big,
    /// The same without forward overheads.
    Big0,
    /// Outputs of 1 to 8, as much as 12 more to save, overheads up to 4 and 8.
    Small,
    /// The same without overheads.
    Small0,
}

impl RandomKind {
    /// Ranges of `w_a`, of `w_abar` - `w_a`, of `o_f` and of `o_b`.
    fn ranges(self) -> [(u64, u64); 4] {
        match self {
            Self::Big | Self::Big0 => [(1_000, 16_000), (0, 48_000), (0, 8_000), (0, 16_000)],
            Self::Small | Self::Small0 => [(1, 8), (0, 12), (0, 4), (0, 8)],
        }
    }
    fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Big0 => "big0",
            Self::Small => "small",
            Self::Small0 => "small0",
        }
    }
}

/// The arrays of a random chain: forward times of 1 to 100, backward times of 1 to 200.
fn random_chain_file(stages: u64, seed: u64, kind: RandomKind) -> ChainFile {
    let [activation, extra, forward_overhead, backward_overhead] = kind.ranges();
    let mut random = Lcg::new(seed);
    let mut file = idle_chain(0, 0);
    file.cweight[0] = random.next(activation);
    for _ in 0..stages {
        file.fweight.push(random.next((1, 100)));
        let backward = random.next((1, 200));
        file.bweight.insert(file.bweight.len() - 1, backward);
        let output = random.next(activation);
        file.cweight.push(output);
        file.cbweight.push(output + random.next(extra));
        let (forward, backward) = (random.next(forward_overhead), random.next(backward_overhead));
        let (keeps_forward, keeps_backward) = match kind {
            RandomKind::Big | RandomKind::Small => (true, true),
            RandomKind::Big0 => (false, true),
            RandomKind::Small0 => (false, false),
        };
        file.ftmp.push(if keeps_forward { forward } else { 0.0 });
        file.btmp.insert(file.btmp.len() - 1, if keeps_backward { backward } else { 0.0 });
    }
    file.cbweight[0] = file.cweight[0];
    file
}

/// A random chain as an instance.
pub fn random_chain(name: &str, stages: u64, seed: u64, kind: RandomKind) -> InstanceDocument {
    let chain = chain(&random_chain_file(stages, seed, kind));
    instance(name, &chain, &format!("random-chain-{}", kind.name()), [("stages", stages)], Some(seed))
}

/// A 64-bit linear congruential generator (Knuth's MMIX constants), the upper 31 bits of each state.
struct Lcg(u64);

impl Lcg {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }
    /// A whole number in an inclusive range.
    fn next(&mut self, (low, high): (u64, u64)) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (low + (self.0 >> 33) % (high - low + 1)) as f64
    }
}

fn length(n: u64) -> usize {
    usize::try_from(n + 2).expect("callers bound n")
}

/// A chain whose every time and overhead is 0 and whose every size is `size`.
fn idle_chain(length: usize, size: u32) -> ChainFile {
    let sizes = vec![f64::from(size); length + 1];
    ChainFile {
        fweight: vec![0.0; length],
        bweight: vec![0.0; length + 1],
        cbweight: sizes.clone(),
        cweight: sizes,
        ftmp: vec![0.0; length],
        btmp: vec![0.0; length + 1],
    }
}

fn chain(file: &ChainFile) -> Chain {
    file.chain(PLAIN).expect("generated arrays fit each other and hold whole numbers")
}

fn instance<const N: usize>(
    name: &str,
    chain: &Chain,
    generator: &str,
    parameters: [(&str, u64); N],
    seed: Option<u64>,
) -> InstanceDocument {
    let parameters: BTreeMap<_, _> =
        parameters.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect();
    let origin = Origin::Generated { generator: generator.into(), parameters, seed };
    instance_of(name, chain, units_of(PLAIN), &origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{ChainCost, ChainStep};
    use crate::instance::Instance;

    #[test]
    fn generated_instances_are_valid() {
        for document in [
            figure4("f4", 10, 8),
            rr9302_figure2("f2", 10, 9),
            random_chain("big", 7, 1, RandomKind::Big),
            random_chain("small0", 7, 1, RandomKind::Small0),
        ] {
            assert!(Instance::new(&document).is_ok(), "{}", document.name);
        }
    }

    #[test]
    fn the_chain_of_seed_11_is_the_reference_one() {
        let file = random_chain_file(2, 11, RandomKind::Small);
        let expected = ChainFile {
            fweight: vec![58.0, 67.0],
            bweight: vec![162.0, 199.0, 0.0],
            cweight: vec![6.0, 8.0, 6.0],
            cbweight: vec![6.0, 16.0, 10.0],
            ftmp: vec![3.0, 0.0],
            btmp: vec![7.0, 1.0, 0.0],
        };
        assert_eq!(file, expected);
    }

    /// Checkpoints the inputs of the stages in `keep`, passes through the others, and saves at `to`.
    fn pass(stages: std::ops::Range<usize>, keep: &[usize], steps: &mut Vec<ChainStep>) {
        let to = stages.end;
        steps.extend(stages.map(|stage| {
            if keep.contains(&stage) { ChainStep::Checkpoint { stage } } else { ChainStep::Pass { stage } }
        }));
        steps.push(ChainStep::Save { stage: to, saving: 0 });
    }

    /// The loss, and the backward of the last stage.
    fn turn(last: usize, steps: &mut Vec<ChainStep>) {
        let backward = |stage| ChainStep::Backward { stage };
        steps.extend([ChainStep::Save { stage: last, saving: 0 }, backward(last), backward(last - 1)]);
    }

    fn one_by_one(from: usize, last: usize, steps: &mut Vec<ChainStep>) {
        for stage in (from + 1..last - 1).rev() {
            pass(from..stage, &[from], steps);
            steps.push(ChainStep::Backward { stage });
        }
    }

    fn save_and_back(stage: usize, steps: &mut Vec<ChainStep>) {
        steps.extend([ChainStep::Save { stage, saving: 0 }, ChainStep::Backward { stage }]);
    }

    /// The sequences of RR-9302, section 4.1; stages count from 0.
    #[test]
    fn the_sequences_of_rr9302_fit_into_8_and_take_what_is_said_above() {
        for n in [4, 10, 17] {
            let k = n - 1;
            let instance = Instance::new(&rr9302_figure2("f2", n, k)).expect("valid");
            let chain = crate::chain_view::ChainView::new(&instance).expect("a chain").chain;
            let last = chain.len() - 1;
            let cost = |steps: &[ChainStep]| chain.evaluate(steps).expect("valid");
            let fits = |time| ChainCost { time, peak_bytes: 8 };

            // T1: a^1 stays (saved with F^1), everything else starts from there.
            let mut persistent = vec![ChainStep::Save { stage: 0, saving: 0 }];
            pass(1..last - 1, &[1], &mut persistent);
            turn(last, &mut persistent);
            one_by_one(1, last, &mut persistent);
            save_and_back(1, &mut persistent);
            persistent.push(ChainStep::Backward { stage: 0 });
            assert_eq!(cost(&persistent), fits(k + 2 * (n + 1)));

            // T0: a^1 stays until F^2 has run a second time, then a^2.
            let mut floating = Vec::new();
            pass(0..last - 1, &[0, 1], &mut floating);
            turn(last, &mut floating);
            pass(1..last - 2, &[2], &mut floating);
            floating.push(ChainStep::Backward { stage: last - 2 });
            one_by_one(2, last - 1, &mut floating);
            save_and_back(2, &mut floating);
            floating.push(ChainStep::Save { stage: 0, saving: 0 });
            save_and_back(1, &mut floating);
            floating.push(ChainStep::Backward { stage: 0 });
            assert_eq!(cost(&floating), fits(2 * k + 6));
        }
    }
}
