//! Random networks with everything that the format knows, small enough to be searched: skip connections and sums of
//! gradients, several outputs, views, alternatives, masks, in-place implementations, operators that update state, draw
//! random numbers or run once only, backward operators that run again, and orders that mix both passes.
//!
//! Meant for tests and `bench fuzz`: every seed gives a valid instance, and always the same one.

use std::collections::BTreeMap;

use super::Lcg;
use crate::format::{
    FixedBytes, ImplementationDocument, InPlaceDocument, InstanceDocument, MemoryUnit, OperatorDocument, Origin, Phase,
    Provenance, TensorDocument, TensorKind, TimeUnit, Units, ViewDocument,
};

/// A random network of so many forward operators, the loss included.
pub fn random(name: &str, layers: u32, seed: u64) -> InstanceDocument {
    made(name, layers, seed, false)
}

/// The same with what networks hardly have: forward operators that only update state, backward operators that do, and ways
/// to run that read what some ways of an earlier operator save.
pub fn unusual(name: &str, layers: u32, seed: u64) -> InstanceDocument {
    made(name, layers, seed, true)
}

fn made(name: &str, layers: u32, seed: u64, unusual: bool) -> InstanceDocument {
    let document = empty(name, layers, seed);
    let mut maker = Maker { dice: Lcg::new(seed), unusual, document, forward: vec![], masks: vec![], next: 0 };
    let input = maker.tensor("x", TensorKind::Input, 1);
    for layer in 0..layers.max(1) {
        if maker.unusual(10) {
            maker.without_outputs(input);
        }
        maker.forward(input, layer + 1 == layers.max(1));
    }
    for layer in (0..maker.forward.len()).rev() {
        maker.backward(layer);
    }
    maker.order();
    maker.in_place_only();
    maker.document
}

/// What is known of a forward operator.
struct Forward {
    /// Its place in the document.
    operator: usize,
    /// Its outputs; the first is what the next layer reads.
    outputs: Vec<u32>,
    /// Storages that it reads.
    reads: Vec<u32>,
    /// The tensor that some of its implementations save.
    mask: Option<u32>,
    /// Gradients of its outputs made so far, by output.
    gradients: Vec<(u32, u32)>,
}

struct Maker {
    dice: Lcg,
    unusual: bool,
    document: InstanceDocument,
    forward: Vec<Forward>,
    /// What some implementations of earlier operators save.
    masks: Vec<u32>,
    next: u32,
}

impl Maker {
    fn draw(&mut self, below: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number below 2^31")]
        let drawn = self.dice.next((0, below.max(1) - 1)) as u64;
        drawn
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw(100) < percent
    }

    /// The same for what usual networks do not have.
    fn unusual(&mut self, percent: u64) -> bool {
        self.unusual && self.chance(percent)
    }

    /// One of a list; `fallback` where it is empty.
    fn one_of(&mut self, list: &[u32], fallback: u32) -> u32 {
        let at = self.draw(list.len() as u64);
        usize::try_from(at).ok().and_then(|at| list.get(at)).copied().unwrap_or(fallback)
    }

    fn tensor(&mut self, name: &str, kind: TensorKind, bytes: u64) -> u32 {
        let id = self.next;
        self.next += 1;
        let name = format!("{name}{id}");
        self.document.tensors.push(TensorDocument::new(id, name, bytes, kind));
        id
    }

    fn bytes(&self, tensor: u32) -> u64 {
        self.document.tensors.iter().find(|known| known.id == tensor).map_or(0, |known| known.bytes)
    }

    /// The tensor, or a new view of it.
    fn maybe_view(&mut self, tensor: u32) -> u32 {
        if !self.chance(15) {
            return tensor;
        }
        let id = self.next;
        self.next += 1;
        self.document.views.push(ViewDocument { id, name: format!("v{id}"), of: tensor });
        id
    }

    fn plain(&mut self, name: &str) -> ImplementationDocument {
        let (time, workspace) = (self.draw(10), self.draw(8));
        ImplementationDocument::plain(name, time, workspace)
    }

    fn operator(&mut self, phase: Phase, inputs: Vec<u32>, outputs: Vec<u32>) -> OperatorDocument {
        let id = u32::try_from(self.document.operators.len()).unwrap_or(u32::MAX);
        let op_type = if self.chance(30) { "aten.convolution" } else { "random" };
        let implementations = vec![self.plain("default")];
        let operator = OperatorDocument::new(id, format!("op{id}"), op_type, phase);
        OperatorDocument { inputs, outputs, implementations, ..operator }
    }

    fn forward(&mut self, input: u32, last: bool) {
        let earlier: Vec<u32> = self.forward.iter().flat_map(|known| known.outputs.clone()).collect();
        let mut reads = vec![self.forward.last().map_or(input, |known| known.outputs[0])];
        if self.chance(40) {
            let other = self.one_of(&earlier, input);
            reads.extend((!reads.contains(&other)).then_some(other));
        }
        let same = self.bytes(reads[0]);
        let bytes = if self.chance(50) { same } else { self.draw(14) };
        let mut outputs = vec![self.tensor("h", if last { TensorKind::Output } else { TensorKind::Activation }, bytes)];
        if !last && self.chance(20) {
            let bytes = self.draw(6);
            outputs.push(self.tensor("g", TensorKind::Activation, bytes));
        }
        let inputs = reads.iter().map(|&read| self.maybe_view(read)).collect();
        let phase = if last { Phase::Loss } else { Phase::Forward };
        let mut operator = self.operator(phase, inputs, outputs.clone());
        let mask = self.chance(35).then(|| {
            let bytes = self.draw(5);
            self.tensor("m", TensorKind::Saved, bytes)
        });
        self.alternatives(&mut operator, mask, reads[0] != input && same == bytes);
        operator.random = self.chance(25);
        operator.recomputable = self.chance(10).then_some(false);
        self.masks.extend(mask);
        self.forward.push(Forward { operator: self.document.operators.len(), outputs, reads, mask, gradients: vec![] });
        self.document.operators.push(operator);
    }

    /// A forward operator that only updates state and saves something, not the same whichever way it runs.
    fn without_outputs(&mut self, input: u32) {
        let read = self.forward.last().map_or(input, |known| known.outputs[0]);
        let mut operator = self.operator(Phase::Forward, vec![read], vec![]);
        operator.implementations.clear();
        let mut masks = Vec::new();
        for name in ["first", "second"] {
            let bytes = self.draw(5);
            let mask = self.tensor("m", TensorKind::Saved, bytes);
            masks.push(mask);
            operator.implementations.push(ImplementationDocument { saves: vec![mask], ..self.plain(name) });
        }
        self.update_state(&mut operator);
        self.masks.extend(masks);
        self.document.operators.push(operator);
    }

    /// Other ways to run a forward operator; `fits` says whether its first output can take its first input's place.
    fn alternatives(&mut self, operator: &mut OperatorDocument, mask: Option<u32>, fits: bool) {
        if self.chance(40) {
            let inputs = if self.unusual { self.with_an_earlier_mask(&operator.inputs) } else { None };
            operator.implementations.push(ImplementationDocument { inputs, ..self.plain("alternative") });
        }
        if let Some(mask) = mask {
            let masked = ImplementationDocument { saves: vec![mask], ..self.plain("masked") };
            // Some operators save something whichever way they run.
            if self.chance(20) {
                operator.implementations.clear();
            }
            operator.implementations.push(masked);
        }
        let storage = self.document.views.iter().find(|view| view.id == operator.inputs[0]);
        let target = storage.map_or(operator.inputs[0], |view| view.of);
        let pair = InPlaceDocument { output: operator.outputs[0], input: target };
        if fits && self.chance(50) {
            let in_place = ImplementationDocument { in_place: Some(pair), ..self.plain("in-place") };
            operator.implementations.push(in_place);
        }
        if self.chance(30) {
            self.update_state(operator);
        }
    }

    fn update_state(&mut self, operator: &mut OperatorDocument) {
        operator.updates_state = true;
        // A second run of each way, as `import-monet` writes them, or of some.
        for way in operator.implementations.clone() {
            if self.chance(70) {
                let time = self.draw(10);
                let name = format!("again-{}", way.name);
                let inputs = self.with_an_earlier_mask(&operator.inputs);
                operator.implementations.push(ImplementationDocument { name, time, inputs, recompute: true, ..way });
            }
        }
    }

    /// Now and then what another way reads besides: a tensor that some implementations of an earlier operator save.
    fn with_an_earlier_mask(&mut self, inputs: &[u32]) -> Option<Vec<u32>> {
        let last = *self.masks.last()?;
        let masks = self.masks.clone();
        let mask = if self.unusual(50) { self.one_of(&masks, last) } else { last };
        self.chance(20).then(|| inputs.iter().copied().chain([mask]).collect())
    }

    /// The sum of the gradients of a forward tensor; none where nobody made any.
    fn gradient_of(&mut self, layer: usize, tensor: u32) -> Option<u32> {
        let parts = self.forward[layer].gradients.iter().filter(|(of, _)| *of == tensor);
        let parts: Vec<u32> = parts.map(|&(_, part)| part).collect();
        if parts.len() < 2 {
            return parts.first().copied();
        }
        let bytes = self.bytes(parts[0]);
        let sum = self.tensor("s", TensorKind::Gradient, bytes);
        let input = parts[0];
        let mut operator = self.operator(Phase::Backward, parts, vec![sum]);
        if self.chance(50) {
            let in_place = Some(InPlaceDocument { output: sum, input });
            operator.implementations.push(ImplementationDocument { in_place, ..self.plain("in-place") });
        }
        self.document.operators.push(operator);
        Some(sum)
    }

    fn backward(&mut self, layer: usize) {
        let outputs = self.forward[layer].outputs.clone();
        let incoming: Vec<u32> = outputs.iter().filter_map(|&tensor| self.gradient_of(layer, tensor)).collect();
        let reads = self.forward[layer].reads.clone();
        let mut inputs = vec![match self.draw(3) {
            0 => outputs[0],
            1 => reads[0],
            _ => self.one_of(&outputs, outputs[0]),
        }];
        if self.chance(20) && !inputs.contains(&reads[0]) {
            inputs.push(reads[0]);
        }
        let forward_reads = inputs.len();
        inputs.extend(&incoming);
        let mut made = Vec::new();
        for &read in &reads {
            let Some(maker) = self.forward.iter().position(|known| known.outputs.contains(&read)) else { continue };
            let bytes = self.bytes(read);
            let gradient = self.tensor("d", TensorKind::Gradient, bytes);
            self.forward[maker].gradients.push((read, gradient));
            made.push(gradient);
        }
        // Of the first layers, which need no gradient of what they read, some differentiate for nothing.
        if made.is_empty() && self.chance(25) {
            self.push_backward(layer, (inputs, forward_reads), made);
            return;
        }
        let split = !made.is_empty() && self.chance(20);
        if made.is_empty() || split || self.chance(60) {
            let bytes = self.draw(4);
            let parameters = self.tensor("w", TensorKind::ParamGradient, bytes);
            if split {
                self.push_backward(layer, (inputs.clone(), forward_reads), vec![parameters]);
            } else {
                made.push(parameters);
            }
        }
        self.push_backward(layer, (inputs, forward_reads), made);
    }

    /// A backward operator; of what it reads, the first so many are forward tensors.
    fn push_backward(&mut self, layer: usize, (inputs, forward): (Vec<u32>, usize), outputs: Vec<u32>) {
        let named = inputs.iter().map(|&read| self.maybe_view(read)).collect();
        let mut operator = self.operator(Phase::Backward, named, outputs);
        operator.differentiates = Some(self.document.operators[self.forward[layer].operator].id);
        if let Some(mask) = self.forward[layer].mask {
            let reads = [mask].into_iter().chain(inputs[forward..].iter().copied()).collect();
            let masked = ImplementationDocument { inputs: Some(reads), ..self.plain("from-mask") };
            operator.implementations.push(masked);
        }
        if self.chance(30) {
            operator.implementations.push(self.plain("alternative"));
        }
        let output = operator.outputs.first().copied();
        let fits = |&read: &u32, output| self.bytes(read) == self.bytes(output);
        let pair = output
            .and_then(|output| Some((output, inputs[forward..].iter().copied().find(|read| fits(read, output))?)));
        if let Some((output, input)) = pair.filter(|_| self.chance(40)) {
            let in_place = Some(InPlaceDocument { output, input });
            operator.implementations.push(ImplementationDocument { in_place, ..self.plain("in-place") });
        }
        operator.recomputable = self.chance(12).then_some(true);
        if self.unusual(10) {
            self.update_state(&mut operator);
        }
        self.document.operators.push(operator);
    }

    /// The order in which the operators were made, or a random topological one.
    fn order(&mut self) {
        let operators = self.document.operators.clone();
        self.document.order = operators.iter().map(|operator| operator.id).collect();
        if !self.chance(25) {
            return;
        }
        let views: BTreeMap<u32, u32> = self.document.views.iter().map(|view| (view.id, view.of)).collect();
        let makes = |operator: &OperatorDocument| -> Vec<u32> {
            let saved = operator.implementations.iter().flat_map(|way| way.saves.clone());
            operator.outputs.iter().copied().chain(saved).collect()
        };
        let mut absent: Vec<u32> = operators.iter().flat_map(makes).collect();
        let mut left = operators;
        let mut order = Vec::new();
        while !left.is_empty() {
            let ready = |operator: &OperatorDocument| {
                let named = operator.implementations.iter().flat_map(|way| way.inputs.iter().flatten());
                let mut reads = operator.inputs.iter().chain(named);
                reads.all(|read| !absent.contains(views.get(read).unwrap_or(read)))
            };
            let positions: Vec<usize> = (0..left.len()).filter(|&at| ready(&left[at])).collect();
            let drawn = usize::try_from(self.draw(positions.len() as u64)).unwrap_or(0);
            // Something is always ready: the operators were made in a topological order.
            let next = left.remove(positions.get(drawn).copied().unwrap_or(0));
            let made = makes(&next);
            absent.retain(|tensor| !made.contains(tensor));
            order.push(next.id);
        }
        self.document.order = order;
    }

    /// Now and then an operator that runs in place or not at all.
    fn in_place_only(&mut self) {
        let in_place = |way: &ImplementationDocument| way.in_place.is_some();
        let has = |&at: &usize| {
            let ways = &self.document.operators[at].implementations;
            ways.iter().any(|way| in_place(way) && !way.recompute) && ways.iter().all(|way| way.saves.is_empty())
        };
        let having: Vec<usize> = (0..self.document.operators.len()).filter(has).collect();
        if !having.is_empty() && self.chance(15) {
            let drawn = usize::try_from(self.draw(having.len() as u64)).unwrap_or(0);
            self.document.operators[having[drawn]].implementations.retain(in_place);
        }
    }
}

fn empty(name: &str, layers: u32, seed: u64) -> InstanceDocument {
    let parameters = BTreeMap::from([("layers".to_owned(), f64::from(layers))]);
    let origin = Origin::Generated { generator: "random".into(), parameters, seed: Some(seed) };
    let units = Units { time: TimeUnit::Abstract, memory: MemoryUnit::Abstract };
    InstanceDocument {
        fixed_bytes: FixedBytes { parameters: 3, ..FixedBytes::default() },
        ..InstanceDocument::new(name, units, Provenance::new("random network", &origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instance;

    #[test]
    fn every_seed_gives_a_valid_instance_and_all_features_come_up() {
        let mut seen = [0_usize; 11];
        for seed in 0..400 {
            let layers = u32::try_from(1 + seed % 6).expect("small");
            let document = random("r", layers, seed);
            assert_eq!(random("r", layers, seed), document);
            let instance = Instance::new(&document).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let natural = document.order.windows(2).all(|pair| pair[0] < pair[1]);
            let operators = instance.operators();
            let any = |has: &dyn Fn(&crate::instance::Implementation) -> bool| {
                operators.iter().any(|operator| operator.implementations.iter().any(has))
            };
            let has = [
                !natural,
                !document.views.is_empty(),
                any(&|way| way.in_place.is_some()),
                operators.iter().any(|operator| operator.implementations.iter().all(|way| way.in_place.is_some())),
                any(&|way| way.in_place.is_some() && way.recompute),
                any(&|way| way.recompute && way.reads.iter().any(|&read| instance.is_extra(read))),
                any(&|way| !way.saves.is_empty()),
                operators.iter().any(|operator| operator.updates_state),
                operators.iter().any(|operator| operator.outputs.len() > 2),
                operators.iter().any(|operator| operator.outputs.is_empty()),
                operators.iter().any(|operator| operator.phase == Phase::Backward && operator.recomputable),
            ];
            seen.iter_mut().zip(has).for_each(|(seen, has)| *seen += usize::from(has));
        }
        assert!(seen.iter().all(|&seen| seen > 20), "{seen:?}");
    }
}
