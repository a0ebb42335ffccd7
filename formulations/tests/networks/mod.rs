//! Seeded random networks of 3 or 4 layers.

#[path = "../../../core/tests/common/mod.rs"]
mod common;

use common::{Dice, network};
use remat_core::Instance;
use remat_core::format::{Phase, TensorKind};

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

/// A random network of 3 or 4 layers; in every third one backward operators may run again, and only
/// every fourth one offers masks, with which there is little to gain from running anything again.
pub fn instance(seed: u64) -> Instance {
    let mut random = Random(seed);
    let layers = 3 + random.below(2);
    let layers = (0..layers)
        .map(|_| {
            (
                random.below(20),
                random.below(10),
                random.below(8),
                u32::try_from(random.below(1 << 32)).expect("below 2^32"),
            )
        })
        .collect();
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
