//! Sixteen numbers side by side, in the widest registers that the machine has.
//!
//! A closure does not get the instructions of the function around it, so that long loops over these are written out.
use crate::stored::Stored;
use crate::vectors::precision::Precision;

/// Points of a leaf.
pub(super) const LANES: usize = 16;

/// A floating-point number of the filter.
pub(super) trait Real: Precision + Stored {
    const ZERO: Self;
    /// Whether it is of double precision.
    const IS_DOUBLE: bool = size_of::<Self>() == size_of::<f64>();

    /// A number with a place, as one integer that is in the order of both.
    type Placed: Copy + Ord + Send;

    /// Registers of 64 bytes.
    #[cfg(target_arch = "x86_64")]
    type Wide: Lanes<Self>;
    /// Registers of 32 bytes.
    #[cfg(target_arch = "x86_64")]
    type Half: Lanes<Self>;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn magnitude(self) -> Self;
    /// The square root.
    fn root(self) -> Self;

    /// The number, at a place.
    fn at(self, place: u32) -> Self::Placed;
    /// The place of a number.
    fn place(placed: Self::Placed) -> u32;

    /// Whether it is larger; NaN is not.
    #[inline(always)]
    fn exceeds(self, limit: Self) -> bool {
        self > limit
    }
}

macro_rules! real {
    ($real:ty, $bits:ty, $placed:ty, $wide:ty, $half:ty) => {
        impl Real for $real {
            const ZERO: Self = 0.0;

            type Placed = $placed;

            #[cfg(target_arch = "x86_64")]
            type Wide = $wide;
            #[cfg(target_arch = "x86_64")]
            type Half = $half;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn at(self, place: u32) -> $placed {
                let bits = self.to_bits();
                // the order of the bits is that of the numbers where the sign is seen to
                let sign = 1 << (<$bits>::BITS - 1);
                let ordered = if bits & sign == 0 { bits | sign } else { !bits };
                <$placed>::from(ordered) << 32 | <$placed>::from(place)
            }
            #[inline(always)]
            fn place(placed: $placed) -> u32 {
                placed as u32
            }
        }
    };
}

real!(f32, u32, u64, WideSingle, HalfSingle);
real!(f64, u64, u128, WideDouble, HalfDouble);

/// One number, or several side by side.
pub(super) trait Numbers<R>: Copy {
    /// Numbers that are all the same.
    fn splat(x: R) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// `self * other + sum`, which may be rounded once.
    fn times_plus(self, other: Self, sum: Self) -> Self;
    /// The larger of each pair; `other` where one is NaN.
    fn most(self, other: Self) -> Self;
}

/// Sixteen numbers.
pub(super) trait Lanes<R>: Numbers<R> {
    /// How many registers they take.
    const REGISTERS: usize;

    /// The first sixteen of `from`, which has as many.
    fn load(from: &[R]) -> Self;
    /// `sum - self * other`, which may be rounded once.
    fn times_minus(self, other: Self, sum: Self) -> Self;
    fn magnitude(self) -> Self;
    /// The square root.
    fn root(self) -> Self;
    /// The smaller of each pair; `other` where one is NaN.
    fn least(self, other: Self) -> Self;
    /// A bit for each number that does not exceed its limit; NaN does not.
    fn within(self, limits: Self) -> u16;
    fn sum(self) -> R;
    fn largest(self) -> R;
    fn numbers(self) -> [R; LANES];

    /// Writes `first` and the place of each bit, ascending, to the front of `to`, whose first sixteen numbers may all
    /// change, and returns how many bits there are.
    fn places(bits: u16, first: u32, to: &mut [u32]) -> usize;
}

/// Writes the numbers of one point beside those of others.
pub(super) fn put_lane<R: Real>(lanes: &mut [R], lane: usize, numbers: &[R]) {
    lanes.chunks_exact_mut(LANES).zip(numbers).for_each(|(lanes, &x)| lanes[lane] = x);
}

/// The places of the bits that are set.
#[inline(always)]
pub(super) fn bits(mask: u16) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(bit)
    })
}

/// [`Lanes::places`] one after the other.
#[inline(always)]
fn listed(bits: u16, first: u32, to: &mut [u32]) -> usize {
    let (to, mut count) = (&mut to[..LANES], 0);
    for place in 0..LANES {
        to[count] = first + place as u32;
        count += usize::from(bits >> place & 1);
    }
    count
}

/// Work that is compiled once for each kind of registers.
pub(super) trait Task<R: Real> {
    type Result;

    /// Has to be inlined always.
    fn run<L: Lanes<R>>(self) -> Self::Result;
}

/// Runs `task` with the widest registers of this machine.
#[inline]
pub(super) fn run<R: Real, T: Task<R>>(task: T) -> T::Result {
    #[cfg(target_arch = "x86_64")]
    {
        let has_half = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("popcnt");
        if has_half && is_x86_feature_detected!("avx512f") {
            #[target_feature(enable = "avx512f,avx2,fma,bmi1,popcnt")]
            fn wide<R: Real, T: Task<R>>(task: T) -> T::Result {
                task.run::<R::Wide>()
            }
            // SAFETY: the features have been detected.
            return unsafe { wide::<R, T>(task) };
        }
        if has_half {
            #[target_feature(enable = "avx2,fma,bmi1,popcnt")]
            fn half<R: Real, T: Task<R>>(task: T) -> T::Result {
                task.run::<R::Half>()
            }
            // SAFETY: the features have been detected.
            return unsafe { half::<R, T>(task) };
        }
    }
    task.run::<Plain<R>>()
}

/// A single number.
#[derive(Clone, Copy)]
pub(super) struct One<R>(pub(super) R);

impl<R: Real> Numbers<R> for One<R> {
    #[inline(always)]
    fn splat(x: R) -> Self {
        Self(x)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(self.0.plus(other.0))
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(self.0.minus(other.0))
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self(self.0.times(other.0))
    }
    #[inline(always)]
    fn times_plus(self, other: Self, sum: Self) -> Self {
        self.times(other).plus(sum)
    }
    #[inline(always)]
    fn most(self, other: Self) -> Self {
        if self.0 > other.0 { self } else { other }
    }
}

/// Sixteen numbers on any machine.
#[derive(Clone, Copy)]
pub(super) struct Plain<R>([R; LANES]);

impl<R: Real> Plain<R> {
    #[inline(always)]
    fn of(number: impl Fn(usize) -> R) -> Self {
        Self(std::array::from_fn(number))
    }
}

impl<R: Real> Numbers<R> for Plain<R> {
    #[inline(always)]
    fn splat(x: R) -> Self {
        Self([x; LANES])
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self::of(|lane| self.0[lane].plus(other.0[lane]))
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self::of(|lane| self.0[lane].minus(other.0[lane]))
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self::of(|lane| self.0[lane].times(other.0[lane]))
    }
    #[inline(always)]
    fn times_plus(self, other: Self, sum: Self) -> Self {
        self.times(other).plus(sum)
    }
    #[inline(always)]
    fn most(self, other: Self) -> Self {
        Self::of(|lane| if self.0[lane] > other.0[lane] { self.0[lane] } else { other.0[lane] })
    }
}

impl<R: Real> Lanes<R> for Plain<R> {
    /// Registers of sixteen bytes, which every machine has.
    const REGISTERS: usize = LANES * size_of::<R>() / 16;

    #[inline(always)]
    fn load(from: &[R]) -> Self {
        Self::of(|lane| from[lane])
    }
    #[inline(always)]
    fn times_minus(self, other: Self, sum: Self) -> Self {
        sum.minus(self.times(other))
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        Self::of(|lane| self.0[lane].magnitude())
    }
    #[inline(always)]
    fn root(self) -> Self {
        Self::of(|lane| self.0[lane].root())
    }
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        Self::of(|lane| if self.0[lane] < other.0[lane] { self.0[lane] } else { other.0[lane] })
    }
    #[inline(always)]
    fn within(self, limits: Self) -> u16 {
        let pairs = self.0.iter().zip(limits.0).enumerate();
        pairs.fold(0, |bits, (lane, (x, limit))| bits | (u16::from(!x.exceeds(limit)) << lane))
    }
    #[inline(always)]
    fn sum(self) -> R {
        self.0.into_iter().fold(R::ZERO, R::plus)
    }
    #[inline(always)]
    fn largest(self) -> R {
        self.0.into_iter().fold(R::ZERO.minus(R::INFINITY), |most, x| if x > most { x } else { most })
    }
    #[inline(always)]
    fn numbers(self) -> [R; LANES] {
        self.0
    }
    #[inline(always)]
    fn places(bits: u16, first: u32, to: &mut [u32]) -> usize {
        listed(bits, first, to)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use registers::{HalfDouble, HalfSingle, WideDouble, WideSingle};

#[cfg(target_arch = "x86_64")]
mod registers {
    //! Registers of 64 and of 32 bytes. Their methods are only called from code that runs where the features have been
    //! detected: by [`run`](super::run).
    use std::arch::x86_64::*;

    use super::{LANES, Lanes, Numbers, Real, listed};

    macro_rules! registers {
        (
            $name:ident, $real:ty, $register:ty, $count:literal, $set:ident, $load:ident, $add:ident, $sub:ident,
            $mul:ident, $fused:ident, $negated:ident, $root:ident, $min:ident, $max:ident, |$x:ident| $abs:expr,
            |$y:ident, $limit:ident| $within:expr
        ) => {
            /// Sixteen numbers.
            #[derive(Clone, Copy)]
            pub struct $name([$register; $count]);

            impl $name {
                const EACH: usize = LANES / $count;

                #[inline(always)]
                fn pairs(self, other: Self, f: impl Fn($register, $register) -> $register) -> Self {
                    Self(std::array::from_fn(|at| f(self.0[at], other.0[at])))
                }
            }

            // SAFETY of all blocks below: the features have been detected, see the module; loads are within the slice.
            impl Numbers<$real> for $name {
                #[inline(always)]
                fn splat(x: $real) -> Self {
                    Self([unsafe { $set(x) }; $count])
                }
                #[inline(always)]
                fn plus(self, other: Self) -> Self {
                    self.pairs(other, |a, b| unsafe { $add(a, b) })
                }
                #[inline(always)]
                fn minus(self, other: Self) -> Self {
                    self.pairs(other, |a, b| unsafe { $sub(a, b) })
                }
                #[inline(always)]
                fn times(self, other: Self) -> Self {
                    self.pairs(other, |a, b| unsafe { $mul(a, b) })
                }
                #[inline(always)]
                fn times_plus(self, other: Self, sum: Self) -> Self {
                    Self(std::array::from_fn(|at| unsafe { $fused(self.0[at], other.0[at], sum.0[at]) }))
                }
                #[inline(always)]
                fn most(self, other: Self) -> Self {
                    self.pairs(other, |a, b| unsafe { $max(a, b) })
                }
            }

            impl Lanes<$real> for $name {
                const REGISTERS: usize = $count;

                #[inline(always)]
                fn load(from: &[$real]) -> Self {
                    let from = &from[..LANES];
                    Self(std::array::from_fn(|at| unsafe { $load(from[at * Self::EACH..].as_ptr()) }))
                }
                #[inline(always)]
                fn times_minus(self, other: Self, sum: Self) -> Self {
                    Self(std::array::from_fn(|at| unsafe { $negated(self.0[at], other.0[at], sum.0[at]) }))
                }
                #[inline(always)]
                fn magnitude(self) -> Self {
                    Self(self.0.map(|$x| unsafe { $abs }))
                }
                #[inline(always)]
                fn root(self) -> Self {
                    Self(self.0.map(|x| unsafe { $root(x) }))
                }
                #[inline(always)]
                fn least(self, other: Self) -> Self {
                    self.pairs(other, |a, b| unsafe { $min(a, b) })
                }
                #[inline(always)]
                fn within(self, limits: Self) -> u16 {
                    let mut bits = 0;
                    for at in 0..$count {
                        let ($y, $limit) = (self.0[at], limits.0[at]);
                        bits |= (unsafe { $within } as u16) << (at * Self::EACH);
                    }
                    bits
                }
                #[inline(always)]
                fn sum(self) -> $real {
                    self.numbers()
                        .chunks_exact(4)
                        .fold([0.0; 4], |sums: [$real; 4], numbers| std::array::from_fn(|at| sums[at] + numbers[at]))
                        .into_iter()
                        .sum()
                }
                #[inline(always)]
                fn largest(self) -> $real {
                    self.numbers()
                        .into_iter()
                        .fold(-<$real>::INFINITY, |most, x| if x.exceeds(most) { x } else { most })
                }
                #[inline(always)]
                fn numbers(self) -> [$real; LANES] {
                    // SAFETY: both are sixteen numbers without any padding.
                    unsafe { std::mem::transmute(self) }
                }
                #[inline(always)]
                fn places(bits: u16, first: u32, to: &mut [u32]) -> usize {
                    if size_of::<$register>() == 64 { compressed(bits, first, to) } else { listed(bits, first, to) }
                }
            }
        };
    }

    /// [`Lanes::places`] by one instruction.
    #[inline(always)]
    fn compressed(bits: u16, first: u32, to: &mut [u32]) -> usize {
        let to = &mut to[..LANES];
        // SAFETY: the features have been detected, see the module; there is room for sixteen numbers.
        unsafe {
            let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            let places = _mm512_add_epi32(lanes, _mm512_set1_epi32(first as i32));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_maskz_compress_epi32(bits, places));
        }
        bits.count_ones() as usize
    }

    registers!(
        WideSingle,
        f32,
        __m512,
        1,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_fnmadd_ps,
        _mm512_sqrt_ps,
        _mm512_min_ps,
        _mm512_max_ps,
        |x| _mm512_abs_ps(x),
        |x, limit| _mm512_cmp_ps_mask::<_CMP_NGT_UQ>(x, limit)
    );
    registers!(
        WideDouble,
        f64,
        __m512d,
        2,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_fmadd_pd,
        _mm512_fnmadd_pd,
        _mm512_sqrt_pd,
        _mm512_min_pd,
        _mm512_max_pd,
        |x| _mm512_abs_pd(x),
        |x, limit| _mm512_cmp_pd_mask::<_CMP_NGT_UQ>(x, limit)
    );
    registers!(
        HalfSingle,
        f32,
        __m256,
        2,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_fnmadd_ps,
        _mm256_sqrt_ps,
        _mm256_min_ps,
        _mm256_max_ps,
        |x| _mm256_andnot_ps(_mm256_set1_ps(-0.0), x),
        |x, limit| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(x, limit))
    );
    registers!(
        HalfDouble,
        f64,
        __m256d,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_fmadd_pd,
        _mm256_fnmadd_pd,
        _mm256_sqrt_pd,
        _mm256_min_pd,
        _mm256_max_pd,
        |x| _mm256_andnot_pd(_mm256_set1_pd(-0.0), x),
        |x, limit| _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NGT_UQ>(x, limit))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each operation gives, by these registers.
    struct All<R>([R; LANES], [R; LANES]);

    impl<R: Real> Task<R> for All<R> {
        type Result = (Vec<[R; LANES]>, [u16; 2], [R; 2], Vec<Vec<u32>>);

        #[inline(always)]
        fn run<L: Lanes<R>>(self) -> Self::Result {
            let (a, b) = (L::load(&self.0), L::load(&self.1));
            let all = [
                a.plus(b),
                a.minus(b),
                a.times(b),
                a.times_plus(b, L::splat(R::of(2.0))),
                a.times_minus(b, L::splat(R::of(2.0))),
                a.magnitude(),
                a.times(a).root(),
                a.least(b),
                a.most(b),
            ];
            // a number is what it is not beyond
            let read = |lanes: L| {
                std::array::from_fn(|lane| {
                    let steps = (-4000..4000).map(|n| R::of(f64::from(n) / 4.0));
                    steps.clone().find(|&x| lanes.within(L::splat(x)) >> lane & 1 == 1).unwrap_or(R::INFINITY)
                })
            };
            (
                all.map(read).to_vec(),
                [a.within(L::splat(R::of(1.0))), b.within(L::splat(R::of(f64::NAN)))],
                [a.sum(), a.largest()],
                [0, 1, 0x8421, u16::MAX].map(places::<R, L>).to_vec(),
            )
        }
    }

    fn places<R, L: Lanes<R>>(bits: u16) -> Vec<u32> {
        let mut places = vec![0; LANES + 3];
        let count = L::places(bits, 100, &mut places);
        places.truncate(count);
        places
    }

    fn agrees<R: Real>() {
        let a = std::array::from_fn(|at| R::of((at as f64 - 7.0) / 2.0));
        let b = std::array::from_fn(|at| R::of(((at * 5) % 16) as f64 - 3.0));
        let expected = All(a, b).run::<Plain<R>>();
        assert_eq!(run(All(a, b)), expected);
        assert_eq!((expected.1[1], expected.2), (u16::MAX, [R::of(4.0), R::of(4.0)]));
        assert_eq!(expected.3[2], [100, 105, 110, 115]);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            #[target_feature(enable = "avx2,fma")]
            fn half<R: Real>(a: [R; LANES], b: [R; LANES]) -> <All<R> as Task<R>>::Result {
                All(a, b).run::<R::Half>()
            }
            // SAFETY: the features have been detected.
            assert_eq!(unsafe { half(a, b) }, expected);
        }
    }

    #[test]
    fn every_kind_of_register_computes_the_same() {
        agrees::<f32>();
        agrees::<f64>();
    }
}
