//! What two lengths allow, remembered: a join asks it of the same lengths in every group and for every class.

use std::sync::atomic::{AtomicU32, Ordering};

/// Lengths from here on are not remembered.
const LONG: usize = 256;

/// More bits than any signature has.
const ALL_BITS: i64 = 1 << 14;

/// Number of bits in which signatures may differ; -1 where strings cannot match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LengthLimits {
    /// Limit of strings whose first characters differ.
    pub(super) apart: i64,
    /// Limit of any strings.
    pub(super) any: i64,
}

impl LengthLimits {
    fn packed(self) -> u32 {
        let half = |limit: i64| (limit.clamp(-1, ALL_BITS) + 2) as u32;
        half(self.apart) << 16 | half(self.any)
    }

    fn unpacked(packed: u32) -> Self {
        Self { apart: i64::from(packed >> 16) - 2, any: i64::from(packed & 0xffff) - 2 }
    }
}

/// The limits of one predicate, by the length of a probe and of a build string.
#[derive(Debug)]
pub(super) struct KnownLimits {
    lengths: usize,
    /// Packed; 0 where nobody has asked yet.
    limits: Box<[AtomicU32]>,
}

impl KnownLimits {
    /// Limits of strings of up to so many characters.
    pub(super) fn up_to(longest: usize) -> Self {
        let lengths = LONG.min(longest + 1);
        Self { lengths, limits: (0..lengths * lengths).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Bytes that those for strings of up to so many characters take.
    pub(super) fn size(longest: usize) -> usize {
        LONG.min(longest + 1).pow(2) * size_of::<AtomicU32>()
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.limits)
    }

    /// What `find` says of two lengths, asked about once for each two that are short.
    pub(super) fn of(&self, probe: usize, build: usize, find: impl FnOnce() -> LengthLimits) -> LengthLimits {
        if probe.max(build) >= self.lengths {
            return find();
        }
        let known = &self.limits[probe * self.lengths + build];
        match known.load(Ordering::Relaxed) {
            0 => {
                let found = find();
                known.store(found.packed(), Ordering::Relaxed);
                found
            }
            packed => LengthLimits::unpacked(packed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_found_once() {
        let known = KnownLimits::up_to(3);
        for (probe, (apart, any)) in [(-1, -1), (-1, 0), (0, 256), (7, i64::MAX / 4)].into_iter().enumerate() {
            let found = LengthLimits { apart, any };
            assert_eq!(known.of(probe, 2, || found), found);
            let again = known.of(probe, 2, || unreachable!("they are known"));
            assert_eq!(again, LengthLimits { apart, any: any.min(ALL_BITS) });
        }
        // the lengths of no string of the build side, and of a long one
        for build in [4, LONG] {
            let asked = [1, 2].map(|any| known.of(1, build, || LengthLimits { apart: 0, any }).any);
            assert_eq!(asked, [1, 2]);
        }
    }
}
