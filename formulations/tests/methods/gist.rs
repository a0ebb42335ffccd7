//! Gist on a small network by hand, and on seeded random networks with encodings.

use crate::common::{Dice, network, slow_simulation};
use crate::networks::{Random, alone, encoded};
use remat_core::format::InstanceDocument;
use remat_core::{Instance, Schedule, Step};
use remat_formulations::find;

fn solve(document: &InstanceDocument) -> (Instance, Schedule, (u64, u64)) {
    let instance = Instance::new(document).expect("valid");
    assert_eq!(find("gist").expect("registered").supports(&instance), Ok(()));
    let answer = alone("gist", &instance, None, &[]);
    let claimed = answer.claimed.expect("claimed");
    (instance, answer.schedule.expect("a schedule"), (claimed.time, claimed.peak_bytes))
}

/// Names of the implementations, in the order in which they run.
fn names(instance: &Instance, schedule: &Schedule) -> Vec<String> {
    let name = |step: &Step| match *step {
        Step::Compute { operator, implementation } => {
            Some(instance.operator(operator).implementations[implementation].name.clone())
        }
        _ => None,
    };
    schedule.steps.iter().filter_map(name).collect()
}

#[test]
fn a_rectifier_keeps_its_mask_and_nothing_else() {
    let (instance, schedule, claimed) = solve(&encoded());
    let expected = ["default", "gist:binarize", "default", "default", "gist:binarize", "default"];
    assert_eq!(names(&instance, &schedule), expected);
    // Input, loss, mask, and two gradients of the rectifier's size; everything kept it is 311.
    assert_eq!(claimed, (24, 215));
}

#[test]
fn a_rectifier_that_saves_nothing_runs_in_place() {
    let mut document = encoded();
    let backward = &mut document.operators[4];
    backward.implementations.truncate(1);
    // The backward pass reads the output, so that the input may go.
    let (instance, schedule, claimed) = solve(&document);
    assert_eq!(names(&instance, &schedule)[1], "gist:in-place");
    assert_eq!(claimed, (20, 311));
    // Where it reads the input, nothing may be overwritten.
    document.operators[4].inputs[0] = 1;
    let (instance, schedule, _) = solve(&document);
    assert_eq!(names(&instance, &schedule)[1], "default");
}

#[test]
fn on_random_networks_every_operator_runs_once_and_every_backward_reads_its_encoding() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut draw = |bound| random.below(bound);
        let count = 2 + draw(5);
        let layers = (0..count)
            .map(|_| (draw(20), draw(10), draw(8), u32::try_from(draw(1 << 32)).expect("below 2^32")))
            .collect();
        let mut document = network(&Dice { layers });
        for way in document.operators.iter_mut().flat_map(|operator| &mut operator.implementations) {
            if way.name.contains("mask") {
                way.name = format!("gist:{}", way.name);
            }
        }
        let (instance, schedule, claimed) = solve(&document);
        let (time, peak, _) = slow_simulation(&instance, &schedule).unwrap_or_else(|at| panic!("seed {seed}: {at}"));
        assert_eq!(claimed, (time, peak), "seed {seed}");
        let names = names(&instance, &schedule);
        assert_eq!(names.len(), instance.operators().len(), "seed {seed}");
        let encoded = names.iter().filter(|name| *name == "gist:from-mask").count();
        assert_eq!(encoded, names.len() / 2, "seed {seed}");
    }
}
