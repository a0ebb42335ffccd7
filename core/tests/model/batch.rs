//! Families: a network at any batch size from its instances at two.

use crate::common::{dice, empty, network, operator, tensor};
use proptest::prelude::*;
use remat_core::Instance;
use remat_core::batch::{Family, FamilyError};
use remat_core::format::{InstanceDocument, Phase, TensorKind};
use serde_json::json;

/// An operator whose sizes and times are affine in the batch: 4 b input, 7 + 3 b output, 10 + 2 b time,
/// a workspace of 5 (b - 1), which is left out of the file at batch 1.
fn at(batch: u64) -> InstanceDocument {
    let mut document = empty("net");
    document.name = format!("net-b{batch}");
    document.provenance.batch_size = Some(batch);
    document.fixed_bytes.parameters = 11;
    document.tensors = vec![tensor(0, 4 * batch, TensorKind::Input), tensor(1, 7 + 3 * batch, TensorKind::Output)];
    document.tensors[1].shape = Some(vec![batch, 3]);
    let mut only = operator(0, Phase::Loss, vec![0], vec![1]);
    only.implementations[0].time = 10 + 2 * batch;
    only.implementations[0].workspace_bytes = 5 * (batch - 1);
    only.attributes.insert("groups".into(), json!([1, batch]));
    document.operators = vec![only];
    document.order = vec![0];
    document
}

fn without_origin(mut document: InstanceDocument) -> InstanceDocument {
    document.name = String::new();
    document.provenance.notes.clear();
    document
}

#[test]
fn every_batch_follows_from_two_in_either_order() {
    for family in [Family::new(&at(1), &at(4)), Family::new(&at(8), &at(2))] {
        let family = family.expect("a family");
        for batch in [1, 2, 3, 5, 100] {
            let made = family.at(batch).expect("in range");
            assert!(made.name.ends_with(&format!("@b{batch}")), "{}", made.name);
            assert_eq!(without_origin(made), without_origin(at(batch)));
            family.confirm(&at(batch)).expect("on the line");
        }
    }
}

#[test]
fn what_is_no_family_is_named() {
    let mut other = at(2);
    other.tensors[1].name = "other".into();
    let error = Family::new(&at(1), &other).expect_err("another name");
    assert!(matches!(&error, FamilyError::Differs { path, .. } if path == "tensors[1].name"), "{error}");

    let mut longer = at(2);
    longer.order.push(0);
    let error = Family::new(&at(1), &longer).expect_err("another order");
    assert_eq!(
        error.to_string(),
        "not one network at two batch sizes: order is a list of 1 at the smaller one and a list of 2 at the larger one; only sizes, times and shapes may differ"
    );

    let mut bent = at(4);
    bent.operators[0].implementations[0].time += 1;
    let error = Family::new(&at(1), &bent).expect_err("7 is no multiple of 3");
    assert!(matches!(&error, FamilyError::NotAffine { path, .. } if path == "operators[0].implementations[0].time"));

    let error = Family::new(&at(3), &at(3)).expect_err("one point is no line");
    assert!(matches!(error, FamilyError::SameBatch { batch: 3, .. }));
    assert!(matches!(Family::new(&at(1), &empty("none")), Err(FamilyError::NoBatch(name)) if name == "none"));
}

#[test]
fn a_third_instance_off_the_line_is_refuted_with_the_element() {
    let family = Family::new(&at(1), &at(2)).expect("a family");
    let mut third = at(5);
    third.tensors[0].bytes = 21;
    let error = family.confirm(&third).expect_err("20 is on the line").to_string();
    assert_eq!(error, "net-b5: tensors[0].bytes is 21 at batch 5, where the two others lead to 20");
}

#[test]
fn numbers_that_leave_the_format_are_refused() {
    let mut steep = at(3);
    steep.tensors[1].bytes = 1000;
    let family = Family::new(&at(2), &steep).expect("whole numbers per sample");
    assert!(matches!(family.at(0), Err(FamilyError::Range { value: ..0, batch: 0, .. })));
    assert!(matches!(family.at(u64::MAX), Err(FamilyError::Range { .. })));
    steep.tensors[1].bytes = u64::MAX;
    let family = Family::new(&at(2), &steep).expect("whole numbers per sample");
    assert!(matches!(family.at(u64::MAX), Err(FamilyError::Range { .. })));
}

proptest! {
    #[test]
    fn a_network_whose_sizes_scale_is_met_at_every_batch(dice in dice(2..8), batch in 1..50u64) {
        let scaled = |batch: u64| {
            let mut document = network(&dice);
            document.provenance.batch_size = Some(batch);
            for tensor in document.tensors.iter_mut().filter(|tensor| tensor.kind != TensorKind::ParamGradient) {
                tensor.bytes *= batch;
            }
            for way in document.operators.iter_mut().flat_map(|operator| &mut operator.implementations) {
                way.time = 3 + way.time * batch;
            }
            document
        };
        let family = Family::new(&scaled(1), &scaled(3)).expect("a family");
        let made = family.at(batch).expect("in range");
        prop_assert!(Instance::new(&made).is_ok());
        prop_assert_eq!(without_origin(made), without_origin(scaled(batch)));
    }
}
