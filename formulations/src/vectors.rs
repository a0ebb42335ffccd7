//! Vector instructions: which of them the processor has, costs in vectors, and loops compiled for the widest of them.
//! Other files write such a loop as a [`Job`] and need no unsafe code. Knows no method.

/// A makespan in the table.
///
/// Infinity is not one value: the table takes times off infinite entries without looking, by less than
/// half of [`Cost::INFINITE`] altogether. What is below that half is finite, and exact.
pub trait Cost: bytemuck::Pod + Ord + Send + Sync + 'static {
    /// No schedule; also every makespan beyond what the type holds. Twice as much does not overflow.
    const INFINITE: Self;
    /// A time, if below a quarter of [`Cost::INFINITE`].
    fn new(time: u64) -> Option<Self>;
    /// The makespan, unless infinite.
    fn get(self) -> Option<u64>;
    /// The difference, modulo the type's range.
    #[must_use]
    fn minus(self, other: Self) -> Self;
    /// The sum, modulo the type's range.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// Vectors for processors with AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Wide: Lanes<Self>;
    /// Vectors for processors with AVX2.
    #[cfg(target_arch = "x86_64")]
    type Medium: Lanes<Self>;
}

macro_rules! cost {
    ($cost:ty) => {
        impl Cost for $cost {
            #[cfg(target_arch = "x86_64")]
            type Wide = std::arch::x86_64::__m512i;
            #[cfg(target_arch = "x86_64")]
            type Medium = std::arch::x86_64::__m256i;
            const INFINITE: Self = Self::MAX / 2;
            fn new(time: u64) -> Option<Self> {
                Self::try_from(time).ok().filter(|&time| time < Self::INFINITE / 4)
            }
            fn get(self) -> Option<u64> {
                u64::try_from(self).ok().filter(|_| self < Self::INFINITE / 2)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    };
}
cost!(u32);
// Signed, because 64-bit vector comparisons are; makespans are not negative.
cost!(i64);

/// Vector instructions that a table may be computed with; a value says that the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vectors {
    /// What every processor has.
    Portable,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    #[non_exhaustive]
    Avx2,
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    #[non_exhaustive]
    Avx512,
}

impl Vectors {
    /// All that this processor has, the widest last.
    pub fn available() -> Vec<Self> {
        let mut available = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                available.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f") {
                available.push(Self::Avx512);
            }
        }
        available
    }

    /// The widest that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }

    /// Runs a job that is compiled for these instructions.
    pub fn run<C: Cost, J: Job<C>>(self, job: J) -> J::Out {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn medium<C: Cost, J: Job<C>>(job: J) -> J::Out {
            job.run::<C::Medium>()
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        fn wide<C: Cost, J: Job<C>>(job: J) -> J::Out {
            job.run::<C::Wide>()
        }

        match self {
            Self::Portable => job.run::<[C; 4]>(),
            // SAFETY: `available` has found the instructions that the functions are compiled for.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { medium(job) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { wide(job) },
        }
    }
}

/// What [`Vectors::run`] compiles once for each kind of vectors.
pub trait Job<C: Cost> {
    /// What it returns.
    type Out;
    /// Runs it, with vectors of one kind or with loops that the compiler makes vectors of. Implementations are inlined.
    fn run<V: Lanes<C>>(self) -> Self::Out;
}

/// A vector of costs.
///
/// Implementations are inlined into functions compiled for the instructions that they use; calling
/// them elsewhere is undefined where the processor lacks these.
pub trait Lanes<C>: Copy {
    /// Costs in a vector.
    const WIDTH: usize;
    /// Every lane the same.
    fn splat(value: C) -> Self;
    /// Reads the first [`Lanes::WIDTH`] entries of a slice that has at least as many.
    fn load(from: &[C]) -> Self;
    /// Writes to the first [`Lanes::WIDTH`] entries of a slice that has at least as many.
    fn store(self, to: &mut [C]);
    /// Lane by lane.
    #[must_use]
    fn add(self, other: Self) -> Self;
    /// Lane by lane.
    #[must_use]
    fn min(self, other: Self) -> Self;
}

/// Without vector instructions that this file knows.
impl<C: Cost> Lanes<C> for [C; 4] {
    const WIDTH: usize = 4;
    #[inline(always)]
    fn splat(value: C) -> Self {
        [value; 4]
    }
    #[inline(always)]
    fn load(from: &[C]) -> Self {
        [from[0], from[1], from[2], from[3]]
    }
    #[inline(always)]
    fn store(self, to: &mut [C]) {
        to[..4].copy_from_slice(&self);
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane].plus(other[lane]))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        std::array::from_fn(|lane| std::cmp::Ord::min(self[lane], other[lane]))
    }
}

/// Vectors of x86-64, by the names of the instructions' intrinsics.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::cast_possible_wrap, reason = "lanes are bit patterns")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_add_epi32, _mm256_add_epi64, _mm256_blendv_epi8, _mm256_cmpgt_epi64,
        _mm256_loadu_si256, _mm256_min_epu32, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_storeu_si256,
        _mm512_add_epi32, _mm512_add_epi64, _mm512_loadu_epi32, _mm512_loadu_epi64, _mm512_min_epi64, _mm512_min_epu32,
        _mm512_set1_epi32, _mm512_set1_epi64, _mm512_storeu_epi32, _mm512_storeu_epi64,
    };

    macro_rules! lanes {
        ($cost:ty, $vector:ty, $width:literal, $splat:ident($lane:ty), $load:ident, $store:ident, $add:ident, $min:path) => {
            impl super::Lanes<$cost> for $vector {
                const WIDTH: usize = $width;
                #[inline(always)]
                fn splat(value: $cost) -> Self {
                    // SAFETY: the caller runs on a processor with these instructions, as the trait demands.
                    unsafe { $splat(value as $lane) }
                }
                #[inline(always)]
                fn load(from: &[$cost]) -> Self {
                    let from = &from[..$width];
                    // SAFETY: as above, and the slice is as long as the vector.
                    unsafe { $load(from.as_ptr().cast()) }
                }
                #[inline(always)]
                fn store(self, to: &mut [$cost]) {
                    let to = &mut to[..$width];
                    // SAFETY: as above, and the slice is as long as the vector.
                    unsafe { $store(to.as_mut_ptr().cast(), self) }
                }
                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $add(self, other) }
                }
                #[inline(always)]
                fn min(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $min(self, other) }
                }
            }
        };
    }
    lanes!(
        u32,
        __m512i,
        16,
        _mm512_set1_epi32(i32),
        _mm512_loadu_epi32,
        _mm512_storeu_epi32,
        _mm512_add_epi32,
        _mm512_min_epu32
    );
    lanes!(
        i64,
        __m512i,
        8,
        _mm512_set1_epi64(i64),
        _mm512_loadu_epi64,
        _mm512_storeu_epi64,
        _mm512_add_epi64,
        _mm512_min_epi64
    );
    lanes!(
        u32,
        __m256i,
        8,
        _mm256_set1_epi32(i32),
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        _mm256_min_epu32
    );
    lanes!(
        i64,
        __m256i,
        4,
        _mm256_set1_epi64x(i64),
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi64,
        min_epi64
    );

    /// The minimum that AVX2 lacks.
    #[target_feature(enable = "avx2")]
    fn min_epi64(a: __m256i, b: __m256i) -> __m256i {
        _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b))
    }
}
