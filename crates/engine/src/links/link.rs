//! One link.

use std::cmp::Ordering;

/// Stands for the number of an id that is NULL.
pub const NO_MEMBER: u32 = u32::MAX;

/// A link between two members, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// One member.
    pub left: u32,
    /// The other member.
    pub right: u32,
    /// How similar the two are; NaN is greater than any number, as in ORDER BY.
    pub score: f64,
}

impl Link {
    /// The order of the best link first: by descending score, then by the members.
    #[inline]
    pub fn best_first(&self, other: &Self) -> Ordering {
        by_score(other.score, self.score).then_with(|| self.ends().cmp(&other.ends()))
    }

    /// The two members.
    #[inline]
    pub fn ends(&self) -> (u32, u32) {
        (self.left, self.right)
    }
}

/// The order of two scores; -0.0 is 0.0, and NaN is above all.
#[inline]
pub fn by_score(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}
