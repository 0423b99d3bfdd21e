//! What a set predicate requires of two sizes: the overlap, the sizes that can match, the length of a prefix.
//!
//! Every requirement is found by evaluating the measure's own score, never by solving its formula in floating
//! point. [`SetPredicate::min_overlap`] is exact. A score of one correctly rounded division is monotone in the sizes
//! as well, but the cosine's square root and division need not be to the last bit: the searches over sizes are made
//! with a score that is a hair too good ([`SLACK`]), so that they may admit a size too many, never one too few.

use std::ops::RangeInclusive;

use crate::condition::Bounds;
use similarity_measures::SetMeasure;

/// A bound on a set measure.
///
/// The lower bound excludes the score 0, so that only sets with a common element match.
#[derive(Debug, Clone, Copy)]
pub struct SetPredicate {
    /// The measure over the two sets.
    pub measure: SetMeasure,
    /// The accepted scores.
    pub bounds: Bounds,
}

/// Covers twice the relative error of the cosine, three correctly rounded operations, with a wide margin.
const SLACK: f64 = 1.0 + 1e-12;

impl SetPredicate {
    /// Whether two sets of `left` and `right` elements that share `overlap` match.
    #[inline]
    pub fn accepts(&self, overlap: u32, left: u32, right: u32) -> bool {
        self.bounds.contains(self.score(overlap, left, right))
    }

    /// Whether every overlap that is large enough matches.
    pub fn is_open_above(&self) -> bool {
        self.bounds.upper().is_none()
    }

    /// The least overlap whose score reaches the lower bound, or none where not even the smaller set's size does.
    pub fn min_overlap(&self, left: u32, right: u32) -> Option<u32> {
        let most = left.min(right);
        let reaches = |overlap| self.bounds.above_lower(self.score(overlap, left, right));
        (most > 0 && reaches(most)).then(|| first_true(1, most, reaches))
    }

    /// The sizes up to `largest` of the sets that a set of `size` elements can match.
    pub fn sizes(&self, size: u32, largest: u32) -> Option<RangeInclusive<u32>> {
        if size == 0 || largest == 0 || !self.nearly_reaches(size, size, size) {
            return None;
        }
        let low = first_true(1, size, |s| self.nearly_reaches(s, size, s));
        let beyond = |s| !self.nearly_reaches(size, size, s);
        let high = match largest {
            l if l <= size || !beyond(l) => l,
            l => first_true(size, l, beyond) - 1,
        };
        (low <= high).then_some(low..=high)
    }

    /// The least overlap with which a set of `size` elements can match any set of at least `smallest`.
    ///
    /// For a fixed overlap no measure rises with the other set's size, so the smallest partner asks for least.
    pub fn least_overlap(&self, size: u32, smallest: u32) -> Option<u32> {
        let most = size.min(smallest);
        let reaches = |overlap| self.nearly_reaches(overlap, size, smallest);
        (most > 0 && reaches(most)).then(|| first_true(1, most, reaches))
    }

    fn nearly_reaches(&self, overlap: u32, left: u32, right: u32) -> bool {
        self.bounds.above_lower(self.score(overlap, left, right) * SLACK)
    }

    #[inline]
    fn score(&self, overlap: u32, left: u32, right: u32) -> f64 {
        self.measure.score(overlap as usize, left as usize, right as usize)
    }
}

/// The first of `low..=high` for which a condition holds that stays true once it is; it holds for `high`.
fn first_true(low: u32, high: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURES: [SetMeasure; 6] = [
        SetMeasure::Jaccard,
        SetMeasure::Dice,
        SetMeasure::Cosine,
        SetMeasure::OverlapCoefficient,
        SetMeasure::OverlapCount,
        SetMeasure::Trigram,
    ];

    fn predicates() -> impl Iterator<Item = SetPredicate> {
        MEASURES.into_iter().flat_map(|measure| {
            let ties = (1..=12).flat_map(|d| (1..=d).map(move |n| n as f64 / d as f64));
            ties.chain([1e-9, 0.3f32 as f64, 2.0, 3.0, 1.5, f64::NAN]).flat_map(move |t| {
                [true, false].map(|inclusive| SetPredicate { measure, bounds: Bounds::at_least(t, inclusive) })
            })
        })
    }

    #[test]
    fn requirements_agree_with_the_score_for_all_small_sizes() {
        for p in predicates() {
            for left in 1..=24 {
                let window = p.sizes(left, 40);
                for right in 1..=40u32 {
                    let matching = |o: &u32| p.accepts(*o, left, right);
                    let least = (1..=left.min(right)).find(matching);
                    assert_eq!(p.min_overlap(left, right), least, "{p:?} {left} {right}");
                    let Some(least) = least else { continue };
                    let window = window.clone().expect("a size matches");
                    assert!(window.contains(&right), "{p:?} {left} {right}");
                    let prefix = p.least_overlap(left, *window.start()).expect("a size matches");
                    assert!(prefix <= least, "{p:?} {left} {right}");
                }
            }
        }
    }

    #[test]
    fn windows_are_tight() {
        let p = SetPredicate { measure: SetMeasure::Jaccard, bounds: Bounds::at_least(0.8, true) };
        assert_eq!(p.sizes(8, 100), Some(7..=10));
        assert_eq!(p.sizes(8, 9), Some(7..=9));
        assert_eq!(p.sizes(8, 6), None);
        assert_eq!(p.least_overlap(10, 8), Some(8));
        let beyond = SetPredicate { measure: SetMeasure::Dice, bounds: Bounds::at_least(1.0, false) };
        assert_eq!(beyond.min_overlap(8, 8), None);
        assert_eq!(SetPredicate { bounds: Bounds::at_least(1.1, true), ..beyond }.sizes(8, 100), None);
        let count = SetPredicate { measure: SetMeasure::OverlapCount, bounds: Bounds::at_least(3.0, true) };
        assert_eq!(count.sizes(2, 100), None);
        assert_eq!(count.sizes(5, u32::MAX), Some(3..=u32::MAX));
    }
}
