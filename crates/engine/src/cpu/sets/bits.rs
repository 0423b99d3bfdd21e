//! Which bit of a signature a token sets, and what two signatures say about two sets.
//!
//! Tokens are dealt out to the bits from the most frequent one down, back and forth, so that every bit gets its
//! share of frequent and of rare ones. Let `a` and `b` be the signatures of sets of `r` and `s` tokens, with
//! `|a|` and `|b|` bits set. A bit that is set in both stands for at most `1 + min(x, y)` common tokens, where
//! `x` and `y` are the tokens beyond the first that share it on either side. Summed over the bits,
//!
//! ```text
//! overlap <= popcount(a & b) + min(r - |a|, s - |b|),    popcount(a & b) = (|a| + |b| - popcount(a ^ b)) / 2
//! ```
//!
//! so that an overlap of `o` needs `popcount(a ^ b) <= |a| + |b| + 2 min(r - |a|, s - |b|) - 2 o`.
//!
//! A signature that is folded, its parts or-ed, is one too: every bit then stands for more tokens. The tiles test
//! folded signatures, all of them; what is left is tested by the whole ones.

use crate::stored::fixed;

/// Deals the tokens of a dictionary out to the bits of a signature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    /// How many tokens have a rank.
    pub(super) tokens: u32,
    /// Words of 64 bits, a power of two.
    pub(super) words: usize,
}

fixed!(Bits { tokens: u32, words: usize });

/// The longest signature; its bits can be counted in 16 bits.
const MOST_WORDS: usize = 512;

/// The most words of a folded signature.
const MOST_FOLDED: usize = 4;

impl Bits {
    /// Bits for sets of `mean` tokens: as many words as they need to be told apart, at least four bits a token.
    pub(super) fn for_sets(tokens: usize, mean: f64) -> Self {
        let words = match mean {
            m if m <= 12.0 => 2,
            m if m <= 100.0 => 4,
            m => (m / 16.0).ceil().min(MOST_WORDS as f64) as usize,
        };
        Self { tokens: tokens as u32, words: words.next_power_of_two() }
    }

    /// Sets the bit of the token with this rank.
    #[inline]
    pub(super) fn set(&self, rank: u32, signature: &mut [u64]) {
        let bits = self.words as u32 * 64;
        let from_top = self.tokens - 1 - rank;
        let place = from_top % bits;
        let bit = if (from_top / bits).is_multiple_of(2) { place } else { bits - 1 - place };
        signature[bit as usize / 64] |= 1 << (bit % 64);
    }
}

/// How many words a signature of `words` words has once it is folded.
#[inline]
pub(super) fn folded_words(words: usize) -> usize {
    (words / 2).min(MOST_FOLDED)
}

/// The words of a signature when folded.
#[inline]
pub(super) fn fold(signature: &[u64]) -> impl Iterator<Item = u64> {
    let words = folded_words(signature.len());
    (0..words).map(move |w| signature[w..].iter().step_by(words).fold(0, |all, part| all | part))
}

/// The bits that are set.
#[inline]
pub(super) fn count(signature: &[u64]) -> u32 {
    signature.iter().map(|w| w.count_ones()).sum()
}

/// The bits in which two signatures differ.
#[inline]
pub(super) fn differing(left: &[u64], right: &[u64]) -> i64 {
    left.iter().zip(right).map(|(l, r)| i64::from((l ^ r).count_ones())).sum()
}

/// The most bits in which two signatures may differ if their sets share `overlap` tokens.
#[inline]
pub(super) fn limit(left: (u32, u32), right: (u32, u32), overlap: u32) -> i64 {
    let [(r, a), (s, b)] = [left, right].map(|(tokens, bits)| (i64::from(tokens), i64::from(bits)));
    a + b + 2 * (r - a).min(s - b) - 2 * i64::from(overlap)
}

/// The most tokens that two sets may share, given the signature of each, its tokens and the bits that they set.
#[inline(always)]
pub(super) fn most_overlap(left: (&[u64], (u32, u32)), right: (&[u64], (u32, u32))) -> u32 {
    let mut differing = 0;
    // no closure: the bits are counted by what instructions the caller has
    for (l, r) in left.0.iter().zip(right.0) {
        differing += i64::from((l ^ r).count_ones());
    }
    ((limit(left.1, right.1, 0) - differing) / 2).max(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_grow_with_the_sets() {
        let words = |mean| Bits::for_sets(1, mean).words;
        assert_eq!([1.0, 12.5, 100.5, 1000.0, 1e9].map(words), [2, 4, 8, 64, 512]);
        assert_eq!([2, 4, 8, 64, 512].map(folded_words), [1, 2, 4, 4, 4]);
        assert_eq!(fold(&[1, 2, 4, 8, 16, 0, 0, 0]).collect::<Vec<_>>(), [17, 2, 4, 8]);
    }

    #[test]
    fn the_limit_holds_for_random_sets() {
        let mut state = 7u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for words in [2, 4, 8, 32] {
            let bits = Bits { tokens: 300, words };
            for _ in 0..2000 {
                let (low, high) = (next(200) as u32, 1 + next(100) as u32);
                let mut sets = [0, 1].map(|_| (0..high).map(|_| low + next(100) as u32).collect::<Vec<_>>());
                sets.iter_mut().for_each(|s| {
                    s.sort_unstable();
                    s.dedup();
                });
                let [a, b] = [0, 1].map(|i| {
                    let mut signature = vec![0; words];
                    sets[i].iter().for_each(|&t| bits.set(t, &mut signature));
                    signature
                });
                let overlap = sets[0].iter().filter(|t| sets[1].contains(t)).count() as u32;
                let folded = [&a, &b].map(|s| fold(s).collect::<Vec<_>>());
                for [a, b] in [[&a, &b], [&folded[0], &folded[1]]] {
                    let [left, right] = [(0, a), (1, b)].map(|(i, s)| (sets[i].len() as u32, count(s)));
                    assert!(differing(a, b) <= limit(left, right, overlap));
                }
            }
        }
    }
}
