//! The floating-point numbers that filters compute in.

use std::fmt::Debug;

/// A floating-point number of a filter.
pub trait Precision: Copy + PartialOrd + Debug + Send + Sync + 'static {
    /// Infinity.
    const INFINITY: Self;
    /// Half the distance of 1 from the next number.
    const ROUNDING: f64;
    /// The least positive number that has all its digits.
    const LEAST: f64;

    /// The nearest number.
    fn of(x: f64) -> Self;
    /// A number that is no larger.
    fn below(x: f64) -> Self;
    /// A number that is no smaller.
    fn above(x: f64) -> Self;
    /// The number in double precision.
    fn get(self) -> f64;
}

macro_rules! precision {
    ($real:ty, $rounding:expr) => {
        impl Precision for $real {
            const INFINITY: Self = <$real>::INFINITY;
            const ROUNDING: f64 = $rounding;
            const LEAST: f64 = <$real>::MIN_POSITIVE as f64;

            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $real
            }
            fn below(x: f64) -> Self {
                (x as $real).next_down()
            }
            fn above(x: f64) -> Self {
                (x as $real).next_up()
            }
            #[inline(always)]
            fn get(self) -> f64 {
                self as f64
            }
        }
    };
}

precision!(f32, 1.0 / (1u64 << 24) as f64);
precision!(f64, 1.0 / (1u64 << 53) as f64);
