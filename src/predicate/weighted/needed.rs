//! What the attributes of a weighted similarity have to contribute to a sum.

use super::super::minimal_sets::SLACK;

/// What attributes have to contribute.
pub(super) struct Needed {
    /// All of them together, a little less than the sum.
    pub together: f64,
    /// All that is possible.
    largest: f64,
}

impl Needed {
    /// What the sum `least` needs of attributes that contribute so much at most.
    pub fn of(most: impl Iterator<Item = f64> + Clone, least: f64) -> Self {
        // a set with an unlimited attribute reaches any sum
        let limited: f64 = most.clone().filter(|most| most.is_finite()).sum();
        Self { together: least - SLACK * (limited + least), largest: most.sum() }
    }

    /// The least similarity of an attribute with this weight that contributes `most` at most, where all others
    /// contribute what they can.
    pub fn bound(&self, most: f64, weight: f64) -> f64 {
        let others = self.largest - most;
        if others.is_finite() { short((self.together - others) / weight) } else { f64::NEG_INFINITY }
    }
}

/// A bound of at most this one with few digits, as it stands in EXPLAIN.
pub(super) fn short(bound: f64) -> f64 {
    if bound.abs() < 1e6 { (bound * 1e6).floor() / 1e6 } else { bound }
}
