//! Requirements of sizes, remembered.

use crate::sets::predicate::{Role, SetPredicate, Sizes};

/// Remembers what a predicate requires of the sizes met last: an access path asks for the same few over and over.
#[derive(Debug)]
pub(super) struct Requirements {
    predicate: SetPredicate,
    largest: u32,
    overlaps: Box<[Least; SLOTS]>,
    of_build: Box<[Reach; SLOTS]>,
    of_probe: Box<[Reach; SLOTS]>,
}

const SLOTS: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Least {
    sizes: Sizes,
    overlap: Option<u32>,
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
        let overlaps = Box::new([Least { sizes: Sizes { build: 0, probe: 0 }, overlap: None }; SLOTS]);
        let free = [Reach { size: 0, low: 1, high: 0, least: 0 }; SLOTS];
        Self { predicate, largest, overlaps, of_build: Box::new(free), of_probe: Box::new(free) }
    }

    /// Least overlap of two sizes, remembered; see [`SetPredicate::min_overlap`].
    #[inline]
    pub(super) fn min_overlap(&mut self, sizes: Sizes) -> Option<u32> {
        let slot = &mut self.overlaps[sizes.build as usize % SLOTS];
        if slot.sizes != sizes {
            *slot = Least { sizes, overlap: self.predicate.min_overlap(sizes) };
        }
        slot.overlap
    }

    /// The least overlap of a set of `size` elements with any that is no smaller, in a self-join.
    pub(super) fn least_with_larger(&mut self, size: u32) -> u32 {
        self.predicate.least_overlap(Role::Probe, size, size).unwrap_or(u32::MAX)
    }

    /// The build sets that a probe set of `size` elements can match.
    #[inline]
    pub(super) fn reach_of_probe(&mut self, size: u32) -> Reach {
        let slot = &mut self.of_probe[size as usize % SLOTS];
        if slot.size != size {
            *slot = reach(&self.predicate, Role::Probe, size, self.largest);
        }
        *slot
    }

    /// The probe sets that a build set of `size` elements can match.
    pub(super) fn reach_of_build(&mut self, size: u32) -> Reach {
        let slot = &mut self.of_build[size as usize % SLOTS];
        if slot.size != size {
            *slot = reach(&self.predicate, Role::Build, size, u32::MAX);
        }
        *slot
    }
}

/// What a set of `size` elements can match among partners of up to `largest`.
pub(super) fn reach(predicate: &SetPredicate, role: Role, size: u32, largest: u32) -> Reach {
    let window = predicate.sizes(role, size, largest);
    let found = window.and_then(|w| Some((w.clone(), predicate.least_overlap(role, size, *w.start())?)));
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
        let p = SetPredicate { measure: SetMeasure::SET_COSINE, bounds: Bounds::at_least(0.7, true) };
        let mut requirements = Requirements::new(p, 600);
        for _ in 0..2 {
            for (probe, build) in [(3, 4), (3, 260), (4, 4), (3, 4), (4, 516), (260, 4)] {
                let sizes = Sizes { build, probe };
                assert_eq!(requirements.min_overlap(sizes), p.min_overlap(sizes));
                assert_eq!(requirements.reach_of_probe(probe), reach(&p, Role::Probe, probe, 600));
                assert_eq!(requirements.reach_of_build(probe), reach(&p, Role::Build, probe, u32::MAX));
            }
        }
        let reach = requirements.reach_of_probe(10);
        assert_eq!((reach.low, reach.high, reach.least), (5, 20, 5));
    }
}
