//! Which of many lower sets a set leads to cheaply enough: the inner loop over pairs of sets, in the widest
//! vectors that the processor has. It passes a few sets too many, never one too few.

use fixedbitset::FixedBitSet;

use crate::vectors::{Job, Lanes, Vectors};

/// Sets that are looked at together.
const LANES: usize = 16;

/// A number per lower set, and room for the last lanes. Sets whose number is not above some threshold are skipped.
#[derive(Clone, Debug)]
pub struct Keys(Vec<i64>);

impl Keys {
    /// The same for each of `sets` sets.
    pub fn new(sets: usize, key: i64) -> Self {
        let mut keys = vec![key; sets];
        keys.resize(sets + LANES, i64::MIN);
        Self(keys)
    }

    /// The number of a set.
    pub fn get(&self, set: usize) -> i64 {
        self.0[set]
    }

    /// Changes it.
    pub fn set(&mut self, set: usize, key: i64) {
        self.0[set] = key;
    }
}

/// A family, laid out for vectors.
#[derive(Debug)]
pub struct Scan {
    /// By word of the sets' bits, then by set.
    words: Vec<Vec<usize>>,
    /// By set: what is compared with [`Wanted::limits`].
    terms: [Vec<i64>; 2],
    vectors: Vectors,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'k> {
    /// The sets have to contain this one.
    pub from: usize,
    /// Positions to look at.
    pub first: usize,
    /// One past the last of them.
    pub end: usize,
    /// No term may be above.
    pub limits: [i64; 2],
    /// And the key has to be above a threshold.
    pub keys: &'k Keys,
    /// The threshold.
    pub above: i64,
}

impl Scan {
    /// Sets in any order, each with two terms.
    pub fn new(sets: &[FixedBitSet], terms: impl Fn(usize) -> [i64; 2]) -> Self {
        let width = sets.first().map_or(0, |set| set.as_slice().len());
        let word = |at: usize| sets.iter().map(|set| set.as_slice()[at]).chain([0; LANES]).collect();
        let term = |which: usize| (0..sets.len()).map(|set| terms(set)[which]).chain([i64::MAX; LANES]).collect();
        Self { words: (0..width).map(word).collect(), terms: [term(0), term(1)], vectors: Vectors::best() }
    }

    /// Adds the positions of the sets that are wanted, ascending.
    pub fn find(&self, wanted: &Wanted<'_>, found: &mut Vec<u32>) {
        self.vectors.run(Find { scan: self, wanted, found });
    }
}

/// [`Scan::find`].
struct Find<'f> {
    scan: &'f Scan,
    wanted: &'f Wanted<'f>,
    found: &'f mut Vec<u32>,
}

impl Job<i64> for Find<'_> {
    type Out = ();

    #[expect(clippy::needless_bitwise_bool, reason = "no branches, so that lanes become vectors")]
    #[inline(always)]
    fn run<V: Lanes<i64>>(self) {
        let Self { scan, wanted, found } = self;
        let [first_limit, second_limit] = wanted.limits;
        for start in (wanted.first..wanted.end).step_by(LANES) {
            let [first, second] = [0, 1].map(|which: usize| lanes(&scan.terms[which], start));
            let keys = lanes(&wanted.keys.0, start);
            let mut bad = [0_usize; LANES];
            for lane in 0..LANES {
                let dear = (first[lane] > first_limit) | (second[lane] > second_limit);
                bad[lane] = usize::from(dear | (keys[lane] <= wanted.above));
            }
            if bad.iter().fold(1, |all, lane| all & lane) == 1 {
                continue;
            }
            for word in &scan.words {
                let low = word[wanted.from];
                let high = lanes(word, start);
                for lane in 0..LANES {
                    bad[lane] |= low & !high[lane];
                }
            }
            for (lane, &bad) in bad.iter().enumerate() {
                if bad == 0 && start + lane < wanted.end {
                    found.push(u32::try_from(start + lane).expect("families are bounded far below 2^32"));
                }
            }
        }
    }
}

#[inline(always)]
fn lanes<T>(values: &[T], start: usize) -> &[T; LANES] {
    values[start..start + LANES].try_into().expect("the slice has as many values as there are lanes")
}
