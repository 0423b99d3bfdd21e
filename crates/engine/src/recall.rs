//! The share of pairs that a join has to find, where a query lets it miss some.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A share above 0 and up to 1 of the pairs that satisfy a condition.
///
/// A pair that comes out satisfies the condition in any case. What a join misses depends on its hashes alone, and never
/// on how often a pair is looked for: a pair is found with at least [`of_a_pair`](Self::of_a_pair).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Recall(f64);

impl Recall {
    /// The share, if it is one.
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share <= 1.0).then_some(Self(share))
    }

    /// The share.
    pub fn share(self) -> f64 {
        self.0
    }

    /// The probability with which each pair is to be found.
    ///
    /// Half of what may be missed is left to chance. Of 300 pairs that stand at the threshold, all found independently
    /// of each other, more than 5 % are missed in one of 250 joins where 5 % may be.
    pub fn of_a_pair(self) -> f64 {
        1.0 - (1.0 - self.0) / 2.0
    }
}

// a share is no NaN, and not zero
impl Eq for Recall {}

impl Hash for Recall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_zero_and_up_to_one() {
        assert!([0.0, -0.1, 1.1, f64::NAN].iter().all(|&share| Recall::new(share).is_none()));
        let recall = Recall::new(0.9).unwrap();
        assert!((recall.of_a_pair() - 0.95).abs() < 1e-12);
        assert_eq!(Recall::new(1.0).unwrap().of_a_pair(), 1.0);
    }
}
