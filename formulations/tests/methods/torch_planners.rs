//! `torch-mincut` and `torch-budget` against the numbers of PyTorch's own tests of its memory budget
//! (`test/functorch/test_ac.py`), and the traps of its rules. The saved sets of whole networks are held against PyTorch
//! itself in `profiler/tests/test_partition.py`.

use crate::common::{empty, operator, tensor};
use crate::networks::alone;
use remat_core::format::{InstanceDocument, Phase, TensorKind};
use remat_core::{Instance, Step, simulate};
use remat_formulations::{Answer, Termination};

/// Rows and columns.
type Size = (u64, u64);

/// A graph of operators with one result each, of which some are matrix products of a known inner size.
struct Network {
    document: InstanceDocument,
}

impl Network {
    fn new() -> Self {
        Self { document: empty("by hand") }
    }

    fn tensor(&mut self, rows: u64, columns: u64, kind: TensorKind) -> u32 {
        let id = u32::try_from(self.document.tensors.len()).expect("small");
        let mut made = tensor(id, rows * columns, kind);
        made.shape = Some(vec![rows, columns]);
        self.document.tensors.push(made);
        id
    }

    fn input(&mut self, rows: u64, columns: u64) -> u32 {
        self.tensor(rows, columns, TensorKind::Input)
    }

    fn add(&mut self, op_type: &str, phase: Phase, reads: &[u32], size: Size, kind: TensorKind) -> u32 {
        let made = self.tensor(size.0, size.1, kind);
        let id = u32::try_from(self.document.operators.len()).expect("small");
        let mut operator = operator(id, phase, reads.to_vec(), vec![made]);
        operator.op_type = op_type.into();
        if op_type == "aten.mm" {
            let inner = self.document.tensors[reads[0] as usize].shape.as_ref().expect("given")[1];
            operator.attributes.insert("mat2_shape".into(), serde_json::json!([inner, size.1]));
        }
        self.document.operators.push(operator);
        made
    }

    fn forward(&mut self, op_type: &str, reads: &[u32], size: Size) -> u32 {
        self.add(op_type, Phase::Forward, reads, size, TensorKind::Activation)
    }

    fn backward(&mut self, op_type: &str, reads: &[u32], size: Size, kind: TensorKind) -> u32 {
        self.add(op_type, Phase::Backward, reads, size, kind)
    }

    /// The loss, of some values, and where its gradient begins.
    fn loss(&mut self, op_type: &str, reads: &[u32]) -> u32 {
        let loss = self.add(op_type, Phase::Loss, reads, (1, 1), TensorKind::Output);
        let id = self.document.operators.len() - 1;
        let tangent = self.backward("tangent", &[], (1, 1), TensorKind::Gradient);
        assert!(loss < tangent);
        self.document.operators[id + 1].differentiates = u32::try_from(id).ok();
        tangent
    }

    /// `cos`, differentiated: the gradient of what it read.
    fn cosine_gradient(&mut self, read: u32, gradient: u32, size: Size) -> u32 {
        let sine = self.backward("aten.sin", &[read], size, TensorKind::Gradient);
        let negative = self.backward("aten.neg", &[sine], size, TensorKind::Gradient);
        self.backward("aten.mul.Tensor", &[gradient, negative], size, TensorKind::Gradient)
    }

    fn instance(mut self) -> Instance {
        self.document.order = self.document.operators.iter().map(|operator| operator.id).collect();
        Instance::new(&self.document).expect("valid")
    }
}

/// Bytes of what the forward pass leaves for the backward pass, and runs of products of matrices beyond the first.
fn saved_and_repeated(instance: &Instance, answer: &Answer) -> (u64, Vec<usize>) {
    let schedule = answer.schedule.as_ref().expect("a schedule");
    let mut ran = vec![0_usize; instance.operators().len()];
    let mut made_late = vec![false; instance.tensors().len()];
    let mut saved = vec![false; instance.tensors().len()];
    let mut late = false;
    for step in &schedule.steps {
        let &Step::Compute { operator, implementation } = step else { continue };
        let id = operator.index();
        let operator = instance.operator(operator);
        late |= operator.op_type == "tangent";
        for read in
            operator.implementations[implementation].reads.iter().filter(|read| late && !made_late[read.index()])
        {
            saved[read.index()] |= instance.tensor(*read).producer.is_some();
        }
        operator.makes(implementation).for_each(|made| made_late[made.index()] |= late);
        ran[id] += 1;
    }
    let bytes = instance.tensor_ids().filter(|id| saved[id.index()]).map(|id| instance.tensor(id).bytes).sum();
    let repeated =
        instance.operator_ids().filter(|id| instance.operator(*id).op_type == "aten.mm" && ran[id.index()] > 1);
    (bytes, repeated.map(remat_core::OperatorId::index).collect())
}

fn with_budget(instance: &Instance, permille: u64, solver: &str) -> (u64, Vec<usize>) {
    let permille = permille.to_string();
    let answer = alone("torch-budget", instance, None, &[("b-permille", &permille), ("solver", solver)]);
    saved_and_repeated(instance, &answer)
}

/// `x.cos()`, then five times `mm(x, w).cos()`, all of size 1, and their gradients.
fn chain() -> Instance {
    const SIZE: Size = (512, 512);
    let mut network = Network::new();
    let x = network.input(512, 512);
    let weights: Vec<u32> = (0..5).map(|_| network.input(512, 512)).collect();
    let mut values = vec![network.forward("aten.cos", &[x], SIZE)];
    let mut products = Vec::new();
    for &weight in &weights {
        products.push(network.forward("aten.mm", &[values[values.len() - 1], weight], SIZE));
        values.push(network.forward("aten.cos", &[products[products.len() - 1]], SIZE));
    }
    let mut gradient = network.loss("aten.sum", &[values[5]]);
    for layer in (0..5).rev() {
        let product = network.cosine_gradient(products[layer], gradient, SIZE);
        network.backward("aten.mm", &[values[layer], product], SIZE, TensorKind::ParamGradient);
        gradient = network.backward("aten.mm", &[product, weights[layer]], SIZE, TensorKind::Gradient);
    }
    let x = network.cosine_gradient(x, gradient, SIZE);
    network.backward("aten.clone", &[x], SIZE, TensorKind::ParamGradient);
    network.instance()
}

/// `mm(x, w).cos()` side by side, x and w of the given sizes.
fn side_by_side(pairs: &[(Size, Size)]) -> Instance {
    let mut network = Network::new();
    let inputs: Vec<(u32, u32)> =
        pairs.iter().map(|&(x, w)| (network.input(x.0, x.1), network.input(w.0, w.1))).collect();
    let (mut products, mut values) = (Vec::new(), Vec::new());
    for (&(x, w), &(rows, columns)) in inputs.iter().zip(pairs) {
        let size = (rows.0, columns.1);
        products.push(network.forward("aten.mm", &[x, w], size));
        values.push(network.forward("aten.cos", &[products[products.len() - 1]], size));
    }
    let gradient = network.loss("aten.sum", &values);
    for ((&(x, w), &(rows, columns)), &product) in inputs.iter().zip(pairs).zip(&products) {
        let inner = network.cosine_gradient(product, gradient, (rows.0, columns.1));
        network.backward("aten.mm", &[x, inner], columns, TensorKind::ParamGradient);
        network.backward("aten.mm", &[inner, w], rows, TensorKind::ParamGradient);
    }
    network.instance()
}

const MEBI: u64 = 512 * 512;

#[test]
fn a_chain_of_five_products_saves_one_more_for_each_tenth_of_the_budget() {
    let chain = chain();
    // Greedy leaves out the third of 0.3: in floating point 0.1 + 0.1 + 0.1 is more.
    for solver in ["dp", "ilp"] {
        for tenths in 0..=5 {
            let (bytes, repeated) = with_budget(&chain, 100 * tenths, solver);
            assert_eq!((bytes, repeated.len() as u64), (tenths * MEBI, 5 - tenths), "{solver}, {tenths} tenths");
        }
        for tenths in 6..=9 {
            assert_eq!(with_budget(&chain, 100 * tenths, solver), (5 * MEBI, vec![]), "{solver}, {tenths} tenths");
        }
        assert_eq!(with_budget(&chain, 1000, solver), (10 * MEBI, vec![]), "{solver}");
    }
    let default = alone("torch-mincut", &chain, None, &[]);
    assert_eq!(saved_and_repeated(&chain, &default), (10 * MEBI, vec![]));
}

#[test]
fn products_of_different_sizes_side_by_side_fill_the_budget() {
    let pairs = |columns: &[u64]| -> Vec<_> { columns.iter().map(|c| ((512, 512), (512, 512 * c))).collect() };
    let twenty = side_by_side(&pairs(&[11, 3, 4, 2]));
    for saved in [18, 17, 16, 15, 14, 13, 11, 7, 6, 5] {
        assert_eq!(with_budget(&twenty, saved * 50, "dp").0, saved * MEBI, "{saved} of 20");
    }
    let fifty = side_by_side(&pairs(&[3, 5, 11, 17, 14]));
    for saved in [42, 30, 19, 8, 3] {
        assert_eq!(with_budget(&fifty, saved * 20, "dp").0, saved * MEBI, "{saved} of 50");
    }
}

#[test]
fn what_costs_most_to_recompute_is_saved_first() {
    let pairs = |sizes: &[(u64, u64)]| -> Vec<_> { sizes.iter().map(|&(b, o)| ((b, b), (b, o))).collect() };
    let two = side_by_side(&pairs(&[(512, 4 * 512), (2 * 512, 2 * 512)]));
    // The first product, of cost 4, is recomputed.
    assert_eq!(with_budget(&two, 500, "dp"), (4 * MEBI, vec![0]));
    let three = side_by_side(&pairs(&[(4 * 512, 4 * 512), (6 * 512, 2 * 512), (2 * 512, 6 * 512)]));
    assert_eq!(with_budget(&three, 700, "dp"), (28 * MEBI, vec![4]));
    assert_eq!(with_budget(&three, 400, "dp"), (12 * MEBI, vec![0, 4]));
}

#[test]
fn of_equal_cuts_the_one_nearest_the_backward_pass_is_taken() {
    // Saving one byte costs 1 at any distance below 8, so that the product and the value cost the same.
    let mut network = Network::new();
    let (x, w) = (network.input(1, 1), network.input(1, 1));
    let product = network.forward("aten.mm", &[x, w], (1, 1));
    let value = network.forward("aten.relu", &[product], (1, 1));
    let gradient = network.loss("a loss that nothing fuses with", &[value]);
    network.backward("aten.threshold_backward", &[gradient, value], (1, 1), TensorKind::ParamGradient);
    let instance = network.instance();
    let answer = alone("torch-mincut", &instance, None, &[]);
    let schedule = answer.schedule.expect("a schedule");
    assert_eq!(schedule.computes(), instance.operators().len(), "the value itself is saved, and nothing runs twice");
}

#[test]
fn the_answer_is_the_fastest_schedule_of_the_grid_within_the_peak() {
    let chain = chain();
    let free = alone("torch-budget", &chain, None, &[]);
    let most = free.claimed.expect("a claim");
    assert_eq!(most.time, chain.operators().len() as u64, "nothing runs twice without a budget");
    let mut before = most.time;
    for tenths in (1..=10).rev() {
        let budget = most.peak_bytes / 10 * tenths;
        let answer = alone("torch-budget", &chain, Some(budget), &[]);
        let Some(claimed) = answer.claimed else {
            assert_eq!(answer.termination, Termination::NotFound, "never proved infeasible");
            continue;
        };
        assert!(claimed.peak_bytes <= budget && claimed.time >= before);
        before = claimed.time;
        // No single value of b does better.
        for permille in (0..=1000).step_by(50) {
            let one = alone("torch-budget", &chain, Some(budget), &[("b-permille", &permille.to_string())]);
            assert!(one.claimed.is_none_or(|one| one.time >= claimed.time), "b = {permille}/1000");
        }
    }
    assert!(simulate(&chain, free.schedule.as_ref().expect("one")).is_ok());
}
