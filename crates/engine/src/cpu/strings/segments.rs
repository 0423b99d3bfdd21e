//! Segments: why strings at a small distance share one, and where to look for it.
//!
//! Cut a string into `m` segments. Each edit damages at most one of them, if for measures with transpositions there
//! is a character between neighbouring segments that belongs to none: a transposition of `n + 2` neighbouring
//! characters, of cost `n + 1`, then touches at most `n + 1` segments. Of any `k + 1` segments, `k` edits leave one
//! undamaged, and it stands in the other string as well (Pass-Join; Li, Deng, Wang, Feng, PVLDB 2011).
//!
//! Where it stands: number the `k + 1` segments from 0 and charge each edit to the segments that it damages, or to the
//! place between two, if to several then at least 1 to each, which its cost allows. Let `f(j)` be what is charged left
//! of segment `j`, minus `j`. `f(0) >= 0`, and behind the last segment `f` is below 0. It falls, by one, only behind an
//! undamaged segment, so there is an undamaged one with `f(j) = 0`: the edits left of it cost `j` and those right of
//! it at most `k - j`. Insertions and deletions shift what follows by one, so that the shift `s` of the segment has
//! `|s| <= j`, and `|d - s| <= k - j` where `d` is the difference of the lengths.

use std::ops::Range;

use similarity_measures::EditOperations;

/// A string of some length, cut into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    length: usize,
    /// How many segments.
    pub(super) segments: usize,
    /// Characters between two segments.
    gap: usize,
}

impl Cut {
    /// Cuts strings of `length` characters so that `edits` edits leave a segment undamaged.
    ///
    /// `None` where some segment would be empty.
    pub(super) fn for_edits(length: usize, edits: usize, operations: EditOperations) -> Option<Self> {
        let gap = operations.gap;
        let segments = edits.checked_add(1)?;
        let needed = segments.checked_mul(1 + gap)? - gap;
        (needed <= length).then_some(Self { length, segments, gap })
    }

    /// The first character of segment `n` and how many it has; the last segments are the longer ones.
    #[inline]
    pub(super) fn segment(self, n: usize) -> (usize, usize) {
        let characters = self.length - self.gap * (self.segments - 1);
        let (short, longer) = (characters / self.segments, characters % self.segments);
        let first_longer = self.segments - longer;
        (n * (short + self.gap) + n.saturating_sub(first_longer), short + usize::from(n >= first_longer))
    }

    /// The segments of which one is undamaged after `edits` edits, numbered: the last ones, which are the longest.
    pub(super) fn chosen(self, edits: usize) -> impl Iterator<Item = (usize, usize)> {
        (self.segments.saturating_sub(edits + 1)..self.segments).enumerate()
    }

    /// Where segment `n`, the `j`-th chosen one, may start in a string of `length` characters after `edits` edits.
    #[inline]
    pub(super) fn starts(self, j: usize, n: usize, edits: usize, length: usize, shifts: bool) -> Range<usize> {
        let (start, size) = self.segment(n);
        let (left, right) = (j as isize, (edits - j) as isize);
        let apart = length as isize - self.length as isize;
        let (low, high) = if shifts { ((-left).max(apart - right), left.min(apart + right)) } else { (0, 0) };
        let first = (start as isize + low).max(0);
        let end = (start as isize + high).min(length as isize - size as isize) + 1;
        first as usize..end.max(first) as usize
    }

    /// How many substrings of a string of `length` characters are looked up.
    pub(super) fn lookups(self, edits: usize, length: usize, shifts: bool) -> usize {
        self.chosen(edits).map(|(j, n)| self.starts(j, n, edits, length, shifts).len()).sum()
    }
}

/// Bytes of a segment that are hashed at most: more would tell little and take long.
const HASHED: usize = 64;

/// A hash of the text of a segment.
#[inline]
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let bytes = &bytes[..bytes.len().min(HASHED)];
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    match bytes.len() {
        0..8 => bytes.iter().fold(1, |hash, &b| hash << 8 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        len => {
            let whole =
                (0..len - 8).step_by(8).fold(len as u64, |hash, at| fold(hash ^ word(at), 0x9e37_79b9_7f4a_7c15));
            fold(whole ^ word(len - 8), 0xd6e8_feb8_6659_fd93)
        }
    }
}

/// Mixes by a product of twice the width, whose halves depend on all bits of both factors.
#[inline]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use similarity_measures::EditMeasure;

    fn cut(length: usize, edits: usize, measure: EditMeasure) -> Option<Cut> {
        Cut::for_edits(length, edits, measure.operations()?)
    }

    #[test]
    fn segments_cover_a_string_but_for_the_gaps() {
        for length in 1..40 {
            for edits in 0..8 {
                for (measure, gap) in [(EditMeasure::LEVENSHTEIN, 0), (EditMeasure::OSA, 1)] {
                    let Some(cut) = cut(length, edits, measure) else {
                        assert!(length < edits + 1 + gap * edits);
                        continue;
                    };
                    let mut next = 0;
                    for n in 0..cut.segments {
                        let (start, size) = cut.segment(n);
                        assert!(size > 0 && start == next);
                        next = start + size + gap;
                    }
                    assert_eq!(next - gap, length);
                }
            }
        }
    }

    #[test]
    fn few_substrings_are_looked_up() {
        let lookups =
            |edits, length| cut(50, edits, EditMeasure::LEVENSHTEIN).map(|cut| cut.lookups(edits, length, true));
        assert_eq!(lookups(0, 50), Some(1));
        assert_eq!(lookups(1, 50), Some(2));
        assert_eq!(lookups(2, 50), Some(5));
        assert_eq!(lookups(2, 48), Some(3));
        assert_eq!(lookups(2, 52), Some(3));
        assert_eq!(lookups(usize::MAX, 50), None);
    }

    #[test]
    fn hashes_depend_on_every_byte() {
        let text: Vec<u8> = (0..64).collect();
        for len in 0..=64 {
            for at in 0..len {
                let mut other = text[..len].to_vec();
                other[at] ^= 0x40;
                assert_ne!(hash(&text[..len]), hash(&other), "{len} {at}");
            }
        }
        assert_ne!(hash(b"\0"), hash(b"\0\0"));
    }
}
