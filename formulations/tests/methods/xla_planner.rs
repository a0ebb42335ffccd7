//! `xla-greedy` on sequences of which one can say what XLA's pass does.

use crate::common::{empty, operator, tensor};
use crate::networks::alone;
use remat_core::format::{Phase, TensorKind};
use remat_core::{Instance, Step};
use remat_formulations::{Answer, Termination};

/// A sequence of operators: name, bytes of the result, and what it reads; the last result is the output. The input has 1 byte.
fn sequence(operators: &[(&str, u64, &[&str])]) -> Instance {
    let mut document = empty("sequence");
    document.tensors.push(tensor(0, 1, TensorKind::Input));
    for (at, &(name, bytes, reads)) in operators.iter().enumerate() {
        let last = at + 1 == operators.len();
        let id = u32::try_from(at).expect("small");
        document.tensors.push(tensor(id + 1, bytes, if last { TensorKind::Output } else { TensorKind::Activation }));
        let place = |read: &&str| operators.iter().position(|other| other.0 == *read).map_or(0, |place| place + 1);
        let inputs = reads.iter().map(|read| u32::try_from(place(read)).expect("small")).collect();
        let mut operator = operator(id, Phase::Forward, inputs, vec![id + 1]);
        operator.name = name.into();
        operator.op_type = if name == "product" { "aten.mm.default" } else { "aten.relu.default" }.into();
        document.operators.push(operator);
        document.order.push(id);
    }
    Instance::new(&document).expect("valid")
}

fn answer(instance: &Instance, budget: u64, given: &[(&str, &str)]) -> Answer {
    alone("xla-greedy", instance, Some(budget), &[given, &[("tries", "1")]].concat())
}

fn runs(instance: &Instance, answer: &Answer) -> String {
    let steps = &answer.schedule.as_ref().expect("a schedule").steps;
    let names = steps.iter().filter_map(|step| match step {
        Step::Compute { operator, .. } => Some(instance.operator(*operator).name.as_str()),
        _ => None,
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_broadcast_runs_again_right_before_its_late_reader_as_in_xlas_own_test() {
    // hlo_rematerialization_test.cc, SingleComputation: 16 KiB without, 12 KiB with, the limit between them.
    let instance = sequence(&[
        ("reshape", 4, &["input"]),
        ("broadcast", 4096, &["reshape"]),
        ("negate", 4096, &["broadcast"]),
        ("concatenate", 8192, &["negate"]),
        ("slice", 4, &["concatenate"]),
        ("concatenate.1", 4100, &["broadcast", "slice"]),
        ("slice.1", 4, &["concatenate.1"]),
    ]);
    for mode in ["always", "peak"] {
        let answer = answer(&instance, 14 * 1024, &[("mode", mode)]);
        assert_eq!(
            runs(&instance, &answer),
            "reshape broadcast negate concatenate slice broadcast concatenate.1 slice.1",
            "{mode}"
        );
        assert!((12 * 1024..12 * 1024 + 20).contains(&answer.claimed.expect("a schedule").peak_bytes), "{answer:?}");
    }
    let roomy = answer(&instance, 20 * 1024, &[]);
    assert_eq!(runs(&instance, &roomy).split(' ').count(), 7);
}

#[test]
fn of_equal_candidates_the_first_in_the_sequence_runs_again() {
    let instance = sequence(&[
        ("a", 10, &["input"]),
        ("b", 10, &["input"]),
        ("u", 1, &["a", "b"]),
        ("big", 10, &["u"]),
        ("s", 1, &["big"]),
        ("end", 1, &["a", "b", "s"]),
    ]);
    assert_eq!(runs(&instance, &answer(&instance, 26, &[])), "a b u big s a end");
}

#[test]
fn what_nobody_has_read_yet_is_moved_before_anything_is_repeated() {
    // Of `wide`, repeating frees more; `late` is moved, which costs nothing.
    let instance = sequence(&[
        ("wide", 9, &["input"]),
        ("late", 5, &["input"]),
        ("u", 1, &["wide"]),
        ("big", 10, &["u"]),
        ("s", 1, &["big"]),
        ("end", 1, &["wide", "late", "s"]),
    ]);
    assert_eq!(runs(&instance, &answer(&instance, 22, &[])), "wide u big s late end");
}

#[test]
fn what_frees_most_bytes_runs_again() {
    let instance = sequence(&[
        ("small", 5, &["input"]),
        ("large", 8, &["input"]),
        ("u", 1, &["small", "large"]),
        ("big", 10, &["u"]),
        ("s", 1, &["big"]),
        ("end", 1, &["small", "large", "s"]),
    ]);
    assert_eq!(runs(&instance, &answer(&instance, 21, &[])), "small large u big s large end");
}

#[test]
fn a_block_runs_again_where_no_single_operator_frees_memory() {
    let instance = sequence(&[
        ("x1", 10, &["input"]),
        ("x2", 10, &["x1"]),
        ("u", 1, &["x2"]),
        ("big", 20, &["u"]),
        ("s", 1, &["big"]),
        ("end", 1, &["x2", "s"]),
    ]);
    for mode in ["always", "peak"] {
        let single = answer(&instance, 25, &[("mode", mode)]);
        assert_eq!((single.termination, single.schedule), (Termination::NotFound, None), "{mode}");
        let block = answer(&instance, 25, &[("mode", mode), ("block", "2")]);
        assert_eq!(runs(&instance, &block), "x1 x2 u big s x1 x2 end", "{mode}");
    }
}

#[test]
fn library_calls_are_left_alone_where_that_is_asked_for() {
    let instance = sequence(&[
        ("product", 10, &["input"]),
        ("u", 1, &["product"]),
        ("big", 10, &["u"]),
        ("s", 1, &["big"]),
        ("end", 1, &["product", "s"]),
    ]);
    assert_eq!(runs(&instance, &answer(&instance, 13, &[])), "product u big s product end");
    assert_eq!(answer(&instance, 13, &[("library-calls", "off")]).termination, Termination::NotFound);
}
