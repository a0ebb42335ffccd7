//! `SplitMix64`: the random numbers of the methods, the same on every machine.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of a part of a run: a restart, say.
    #[must_use]
    pub fn part(seed: u64, part: u64) -> Self {
        let mut mixer = Self(seed ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self(mixer.bits())
    }

    /// 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A whole number below a bound, which is above 0.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A number from 0 to 1, 1 excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A position in a list of a length, which is above 0 and below 2^32.
    #[inline]
    pub fn index(&mut self, length: usize) -> usize {
        self.below(u32::try_from(length).expect("lists are shorter")) as usize
    }

    /// A random element of a list that is not empty and shorter than 2^32.
    #[inline]
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }

    /// An exponentially distributed number of mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        let share = ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -share.ln()
    }
}
