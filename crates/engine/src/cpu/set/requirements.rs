//! Requirements of sizes, remembered.

use crate::sets::predicate::SetPredicate;

/// Remembers what a predicate requires of the sizes met last: an access path asks for the same few over and over.
#[derive(Debug)]
pub(super) struct Requirements {
    predicate: SetPredicate,
    largest: u32,
    overlaps: Box<[Overlap; SLOTS]>,
    reaches: Box<[Reach; SLOTS]>,
}

const SLOTS: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Overlap {
    sizes: (u32, u32),
    least: Option<u32>,
}

/// What a set of one size can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    size: u32,
    /// The least size of a partner.
    pub(super) low: u32,
    /// The greatest size of a partner, below `low` where there is none.
    pub(super) high: u32,
    /// The least overlap with any partner.
    pub(super) least: u32,
}

impl Requirements {
    /// Requirements for a build side whose largest set has `largest` elements.
    pub(super) fn new(predicate: SetPredicate, largest: u32) -> Self {
        // No set that asks is empty, so 0 marks a free slot.
        let overlap = Overlap { sizes: (0, 0), least: None };
        let reach = Reach { size: 0, low: 1, high: 0, least: 0 };
        Self { predicate, largest, overlaps: Box::new([overlap; SLOTS]), reaches: Box::new([reach; SLOTS]) }
    }

    /// Least overlap of two sizes, remembered; see [`SetPredicate::min_overlap`].
    #[inline]
    pub(super) fn min_overlap(&mut self, left: u32, right: u32) -> Option<u32> {
        let slot = &mut self.overlaps[right as usize % SLOTS];
        if slot.sizes != (left, right) {
            *slot = Overlap { sizes: (left, right), least: self.predicate.min_overlap(left, right) };
        }
        slot.least
    }

    /// The least overlap of a set of `size` elements with any that is no smaller.
    pub(super) fn least_with_larger(&mut self, size: u32) -> u32 {
        self.predicate.least_overlap(size, size).unwrap_or(u32::MAX)
    }

    /// What a set of `size` elements can match.
    #[inline]
    pub(super) fn reach(&mut self, size: u32) -> Reach {
        let slot = &mut self.reaches[size as usize % SLOTS];
        if slot.size != size {
            *slot = reach(&self.predicate, size, self.largest);
        }
        *slot
    }
}

/// What a set of `size` elements can match among sets of up to `largest`.
pub(super) fn reach(predicate: &SetPredicate, size: u32, largest: u32) -> Reach {
    let window = predicate.sizes(size, largest);
    let found = window.and_then(|w| Some((w.clone(), predicate.least_overlap(size, *w.start())?)));
    match found {
        Some((window, least)) => Reach { size, low: *window.start(), high: *window.end(), least },
        None => Reach { size, low: 1, high: 0, least: u32::MAX },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Bounds;
    use similarity_measures::SetMeasure;

    #[test]
    fn what_is_remembered_is_what_the_predicate_says() {
        let p = SetPredicate { measure: SetMeasure::Cosine, bounds: Bounds::at_least(0.7, true) };
        let mut requirements = Requirements::new(p, 600);
        for _ in 0..2 {
            for (l, r) in [(3, 4), (3, 260), (4, 4), (3, 4), (4, 516), (260, 4)] {
                assert_eq!(requirements.min_overlap(l, r), p.min_overlap(l, r));
                assert_eq!(requirements.reach(l), reach(&p, l, 600));
            }
        }
        let reach = requirements.reach(10);
        assert_eq!((reach.low, reach.high, reach.least), (5, 20, 5));
    }
}
