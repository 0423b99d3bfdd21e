//! Descriptor of a set measure: what SQL functions, engines and kernels ask of it.

use crate::{FunctionDoc, Parameter, Tokenizer, Weights};

/// Sizes of two sets and of their intersection, by the arguments of the measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// Distinct elements that both sets hold.
    pub common: usize,
    /// Distinct elements of the first argument.
    pub left: usize,
    /// Distinct elements of the second argument.
    pub right: usize,
}

impl Overlap {
    /// Whether one of the sets has no element.
    #[inline]
    pub fn has_empty_side(self) -> bool {
        self.left == 0 || self.right == 0
    }

    #[inline]
    pub(crate) fn reversed(self) -> Self {
        Self { common: self.common, left: self.right, right: self.left }
    }
}

/// Descriptor of a set measure.
#[derive(Debug)]
pub struct SetDescriptor {
    /// Name of the SQL function.
    pub name: &'static str,
    /// Documentation of the SQL function.
    pub doc: FunctionDoc,
    /// Constants that follow the two sets, which a measure takes as its [`Weights`].
    pub parameters: &'static [Parameter],
    /// The only tokenizer that the measure knows. Without it, the measure takes two lists, or two strings and a q.
    pub tokenizer: Option<Tokenizer>,
    /// Whether the score is a number of elements, an integer. Any other score lies between 0 and 1.
    pub is_count: bool,
    /// Whether both orders of the arguments have the same score, to the last bit.
    pub is_symmetric: bool,
    /// Whether the score never falls when the overlap grows, to the last bit. Otherwise rounding may lower it by a
    /// relative error of less than 1e-12.
    pub is_monotone: bool,
    /// Jaccard similarity that sets have at least whose score is at least this one.
    pub jaccard_floor: fn(f64, Weights) -> f64,
    /// Bounds that follow from a score of at least this one. A count may be any number, a share is at most 1.
    pub bounds: fn(f64, Weights) -> SetBounds,
}

/// Bounds on an overlap and on two sizes, which hold up to a relative error of 1e-10.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetBounds {
    /// The least overlap of two sizes.
    pub overlap: LeastOverlap,
    /// The left set has at least this share of the right set's size.
    pub left_of_right: f64,
    /// The right set has at least this share of the left set's size.
    pub right_of_left: f64,
}

/// A least overlap, which rises with both sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LeastOverlap {
    /// `left |a| + right |b|`
    Linear {
        /// Factor of the left set's size.
        left: f64,
        /// Factor of the right set's size.
        right: f64,
    },
    /// A share of the geometric mean of both sizes.
    GeometricMean(f64),
    /// A share of the smaller size.
    Smaller(f64),
    /// A number.
    Constant(f64),
}

impl SetBounds {
    /// Bounds of a measure that is the same in either order.
    pub(crate) fn symmetric(overlap: LeastOverlap, smaller_of_larger: f64) -> Self {
        Self { overlap, left_of_right: smaller_of_larger, right_of_left: smaller_of_larger }
    }

    pub(crate) fn reversed(self) -> Self {
        let overlap = match self.overlap {
            LeastOverlap::Linear { left, right } => LeastOverlap::Linear { left: right, right: left },
            either_way => either_way,
        };
        Self { overlap, left_of_right: self.right_of_left, right_of_left: self.left_of_right }
    }
}
