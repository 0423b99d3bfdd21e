//! What a set predicate requires of two sizes: the overlap, the sizes that can match, the length of a prefix.
//!
//! Every requirement is found by evaluating the measure's own score, never by solving its formula in floating
//! point. [`SetPredicate::min_overlap`] is exact for a measure that is monotone to the last bit. All other searches are
//! made with a score that is a hair too good (`SLACK`): rounding, as of the cosine's root, may lower a score where it
//! should rise. They may admit a size or an overlap too many, never one too few.

use std::ops::RangeInclusive;

use crate::condition::Bounds;
use similarity_measures::{Overlap, SetMeasure};

/// A bound on a set measure, of which the left set is that of the build row.
///
/// The lower bound excludes the score 0, so that only sets with a common element match.
#[derive(Debug, Clone, Copy)]
pub struct SetPredicate {
    /// The measure over the set of the build row (left) and that of the probe row (right).
    pub measure: SetMeasure,
    /// The accepted scores.
    pub bounds: Bounds,
}

/// Sizes of the sets of a pair of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Size of the set on the build side.
    pub build: u32,
    /// Size of the set on the probe side.
    pub probe: u32,
}

/// Side of a set whose partners are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The set is that of a build row.
    Build,
    /// The set is that of a probe row.
    Probe,
}

impl Role {
    /// Sizes of a set of this side and of its partner.
    #[inline]
    pub fn sizes(self, size: u32, partner: u32) -> Sizes {
        match self {
            Self::Build => Sizes { build: size, probe: partner },
            Self::Probe => Sizes { build: partner, probe: size },
        }
    }
}

/// Covers twice the relative error of any score, a few correctly rounded operations, with a wide margin.
const SLACK: f64 = 1.0 + 1e-12;

impl SetPredicate {
    /// Whether two sets of these sizes that share `overlap` elements match.
    #[inline]
    pub fn accepts(&self, overlap: u32, sizes: Sizes) -> bool {
        self.bounds.contains(self.score(overlap, sizes))
    }

    /// Whether every overlap from [`min_overlap`](Self::min_overlap) on matches.
    pub fn is_open_above(&self) -> bool {
        self.bounds.upper().is_none() && self.measure.is_monotone()
    }

    /// The least overlap whose score reaches the lower bound, or none where not even the smaller set's size does.
    ///
    /// Where rounding may lower the score of a larger overlap, it may be less than that, and there may be one although
    /// no overlap reaches the bound.
    pub fn min_overlap(&self, sizes: Sizes) -> Option<u32> {
        if !self.measure.is_monotone() {
            return self.least_overlap(Role::Probe, sizes.probe, sizes.build);
        }
        let most = sizes.build.min(sizes.probe);
        let reaches = |overlap| self.bounds.above_lower(self.score(overlap, sizes));
        (most > 0 && reaches(most)).then(|| first_true(1, most, reaches))
    }

    /// The sizes up to `largest` of the partners that a set of `size` elements can match.
    ///
    /// The best score that any partner of one size can have rises up to the set's own size, and falls beyond.
    pub fn sizes(&self, role: Role, size: u32, largest: u32) -> Option<RangeInclusive<u32>> {
        let reaches = |partner: u32| self.nearly_reaches(size.min(partner), role.sizes(size, partner));
        if size == 0 || largest == 0 || !reaches(size) {
            return None;
        }
        let low = first_true(1, size, reaches);
        let beyond = |partner| !reaches(partner);
        let high = match largest {
            l if l <= size || !beyond(l) => l,
            l => first_true(size, l, beyond) - 1,
        };
        (low <= high).then_some(low..=high)
    }

    /// The least overlap with which a set of `size` elements can match any partner of at least `smallest`.
    ///
    /// For a fixed overlap no measure rises with the partner's size, so the smallest partner asks for least.
    pub fn least_overlap(&self, role: Role, size: u32, smallest: u32) -> Option<u32> {
        let most = size.min(smallest);
        let reaches = |overlap| self.nearly_reaches(overlap, role.sizes(size, smallest));
        (most > 0 && reaches(most)).then(|| first_true(1, most, reaches))
    }

    fn nearly_reaches(&self, overlap: u32, sizes: Sizes) -> bool {
        self.bounds.above_lower(self.score(overlap, sizes) * SLACK)
    }

    /// A score that no two sets of these sizes exceed which share up to `overlap` elements.
    #[inline]
    pub fn most_score(&self, overlap: u32, sizes: Sizes) -> f64 {
        let score = self.score(overlap, sizes);
        if self.measure.is_monotone() { score } else { score * SLACK }
    }

    /// The score of two sets of these sizes that share `overlap` elements.
    #[inline]
    pub fn score(&self, overlap: u32, sizes: Sizes) -> f64 {
        let (left, right) = (sizes.build as usize, sizes.probe as usize);
        self.measure.score(Overlap { common: overlap as usize, left, right })
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
    use crate::test_oracle::sets::measures;

    fn predicates() -> impl Iterator<Item = SetPredicate> {
        measures().flat_map(|measure| {
            let ties = (1..=12).flat_map(|d| (1..=d).map(move |n| n as f64 / d as f64));
            ties.chain([1e-9, 0.3f32 as f64, 2.0, 3.0, 1.5, f64::NAN]).flat_map(move |t| {
                [true, false].map(|inclusive| SetPredicate { measure, bounds: Bounds::at_least(t, inclusive) })
            })
        })
    }

    #[test]
    fn requirements_agree_with_the_score_for_all_small_sizes() {
        for (p, role) in predicates().flat_map(|p| [(p, Role::Build), (p, Role::Probe)]) {
            for size in 1..=24 {
                let window = p.sizes(role, size, 40);
                for partner in 1..=40u32 {
                    let sizes = role.sizes(size, partner);
                    let matching = |o: &u32| p.accepts(*o, sizes);
                    let least = (1..=size.min(partner)).find(matching);
                    if p.measure.is_monotone() {
                        assert_eq!(p.min_overlap(sizes), least, "{p:?} {sizes:?}");
                    }
                    let Some(least) = least else { continue };
                    assert!(p.min_overlap(sizes).is_some_and(|o| o <= least), "{p:?} {sizes:?}");
                    let window = window.clone().expect("a size matches");
                    assert!(window.contains(&partner), "{p:?} {role:?} {sizes:?}");
                    let prefix = p.least_overlap(role, size, *window.start()).expect("a size matches");
                    assert!(prefix <= least, "{p:?} {role:?} {sizes:?}");
                }
            }
        }
    }

    #[test]
    fn windows_are_tight() {
        let p = SetPredicate { measure: SetMeasure::JACCARD, bounds: Bounds::at_least(0.8, true) };
        assert_eq!(p.sizes(Role::Probe, 8, 100), Some(7..=10));
        assert_eq!(p.sizes(Role::Probe, 8, 9), Some(7..=9));
        assert_eq!(p.sizes(Role::Probe, 8, 6), None);
        assert_eq!(p.least_overlap(Role::Build, 10, 8), Some(8));
        let beyond = SetPredicate { measure: SetMeasure::DICE, bounds: Bounds::at_least(1.0, false) };
        assert_eq!(beyond.min_overlap(Sizes { build: 8, probe: 8 }), None);
        assert_eq!(SetPredicate { bounds: Bounds::at_least(1.1, true), ..beyond }.sizes(Role::Probe, 8, 100), None);
        let count = SetPredicate { measure: SetMeasure::OVERLAP_COUNT, bounds: Bounds::at_least(3.0, true) };
        assert_eq!(count.sizes(Role::Probe, 2, 100), None);
        assert_eq!(count.sizes(Role::Probe, 5, u32::MAX), Some(3..=u32::MAX));
    }
}
