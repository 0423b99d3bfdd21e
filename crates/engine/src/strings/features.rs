//! Signatures of what a string is made of, and why they lose no match.
//!
//! A string has a bag of characters and a bag of bigrams. The n-th occurrence of a feature is an element of its own,
//! so that a bag becomes a set, and each element sets one bit: every bit in which two signatures differ needs an
//! element that only one string has. So the number of differing bits is at most the size of the symmetric difference
//! of the bags, whichever element sets which bit. What an edit can change of a bag is in
//! [`Slack`](super::predicate::Slack).
//!
//! Which element sets which bit is learnt from the build side: the elements that some strings have and others
//! lack get a bit of their own, rare ones share, and those that nearly all strings have share a single bit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::stored::{fixed, stored, tagged};

/// Words of a signature.
pub const WORDS: usize = 4;

/// Bits of the features of one string.
pub type Signature = [u64; WORDS];

/// The bits of a signature but one, which is left to elements that tell nothing.
const BITS: usize = 64 * WORDS - 1;

/// Elements that are told apart: slots of features times occurrences.
const ELEMENTS_LOG2: u32 = 14;
const ELEMENTS: usize = 1 << ELEMENTS_LOG2;

/// Strings that the bits are learnt from.
const SAMPLE: usize = 1024;

/// What a bag holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Characters.
    Characters,
    /// Pairs of neighbouring characters.
    Bigrams,
}

tagged!(Feature { Characters, Bigrams });

impl Feature {
    /// Features are hashed into this many slots; those that share one count as the same feature.
    const fn slots_log2(self) -> u32 {
        match self {
            Self::Characters => 7,
            Self::Bigrams => 10,
        }
    }

    /// Calls `feature` for each one in the bag of `text`.
    #[inline]
    fn each(self, text: &str, mut feature: impl FnMut(u64)) {
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        match self {
            Self::Characters if text.is_ascii() => text.bytes().for_each(|b| feature(b.into())),
            Self::Characters => text.chars().for_each(|c| feature(u32::from(c).into())),
            Self::Bigrams if text.is_ascii() => {
                text.as_bytes().windows(2).for_each(|w| feature(pair(w[0].into(), w[1].into())));
            }
            Self::Bigrams => {
                let pairs = text.chars().zip(text.chars().skip(1));
                pairs.for_each(|(a, b)| feature(pair(a.into(), b.into())));
            }
        }
    }

    /// Calls `element` for each element of the set of `text`.
    #[inline]
    fn visit(self, text: &str, slots: &mut Slots, mut element: impl FnMut(usize)) {
        let log2 = self.slots_log2();
        let occurrences = 1 << (ELEMENTS_LOG2 - log2);
        slots.0[..1 << log2].fill(0);
        self.each(text, |feature| {
            let slot = slot(feature, log2);
            let seen = usize::from(slots.0[slot]);
            slots.0[slot] = slots.0[slot].saturating_add(1);
            // the last element of a slot stands for all further occurrences
            element(slot * occurrences + seen.min(occurrences - 1));
        });
    }
}

/// The slot of a feature among two to the power of `log2`; the top bits of a product are the well mixed ones.
#[inline]
fn slot(feature: u64, log2: u32) -> usize {
    (feature.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - log2)) as usize
}

/// How often each slot has been met in one string; memory to be used again for the next.
pub struct Slots([u8; 1 << Feature::Bigrams.slots_log2()]);

impl Slots {
    /// Signer that has seen no strings.
    pub(crate) fn new() -> Self {
        Self([0; 1 << Feature::Bigrams.slots_log2()])
    }
}

/// Which bit each element sets.
#[derive(Debug)]
pub struct Signer {
    feature: Feature,
    bits: Vec<u8>,
}

stored!(Signer { feature, bits });

impl Signer {
    /// Learns from at most `len` strings, of which `text` gives the n-th.
    pub fn learn<'a>(feature: Feature, len: usize, text: impl Fn(usize) -> &'a str) -> Self {
        let mut slots = Slots::new();
        let (mut holders, mut sampled) = (vec![0u32; ELEMENTS], 0);
        for n in (0..len).step_by(1 + len / SAMPLE) {
            feature.visit(text(n), &mut slots, |element| holders[element] += 1);
            sampled += 1;
        }
        Self { feature, bits: assign(&holders, sampled) }
    }

    /// The signature of `text`.
    #[inline]
    pub fn sign(&self, text: &str, slots: &mut Slots) -> Signature {
        let mut signature = [0; WORDS];
        self.feature.visit(text, slots, |element| {
            let bit = self.bits[element];
            signature[usize::from(bit / 64)] |= 1 << (bit % 64);
        });
        signature
    }

    /// The bit of each element: those of a slot one after the other.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.bits.capacity()
    }
}

/// Gives each element a bit, by how many of the `sampled` strings hold it.
///
/// An element that a share `f` of the strings holds differs between `2 f (1 - f)` of the pairs. In that order each
/// goes to the bit that is least often set, which keeps common elements by themselves.
fn assign(holders: &[u32], sampled: u32) -> Vec<u8> {
    let mut bits: Vec<u8> = (0..holders.len()).map(|element| (element % BITS) as u8).collect();
    let mut order: Vec<usize> = (0..holders.len()).filter(|&element| holders[element] > 0).collect();
    let difference = |element: usize| u64::from(holders[element]) * u64::from(sampled.saturating_sub(holders[element]));
    order.sort_unstable_by_key(|&element| (Reverse(difference(element)), element));
    let mut loads: BinaryHeap<_> = (0..BITS).map(|bit| Reverse((0u64, bit as u8))).collect();
    for (rank, &element) in order.iter().enumerate() {
        if rank >= BITS / 2 && 2 * holders[element] > sampled {
            bits[element] = BITS as u8;
        } else if let Some(mut least) = loads.peek_mut() {
            bits[element] = least.0.1;
            least.0.0 += u64::from(holders[element]);
        }
    }
    bits
}

/// The bits in which two signatures differ.
#[inline]
pub fn differing(left: &Signature, right: &Signature) -> i64 {
    left.iter().zip(right).map(|(l, r)| i64::from((l ^ r).count_ones())).sum()
}

/// Counts of the bigrams of long strings, whose signatures have most bits set: bigrams share counters, and a counter
/// stops at 255. Neither makes two strings differ by more than their bags do.
#[derive(Debug, Clone, Copy)]
pub struct Histogram {
    log2: u32,
}

fixed!(Histogram { log2: u32 });

impl Histogram {
    /// For strings of so many characters on average; `None` where signatures serve them well.
    pub fn for_length(mean: usize) -> Option<Self> {
        (mean >= 128).then(|| Self { log2: mean.next_power_of_two().clamp(256, 4096).ilog2() })
    }

    /// Bytes of one histogram.
    pub fn size(self) -> usize {
        1 << self.log2
    }

    /// Counts into `counters`, which are [`size`](Self::size) zeros.
    pub fn count(self, text: &str, counters: &mut [u8]) {
        Feature::Bigrams.each(text, |bigram| {
            let counter = &mut counters[slot(bigram, self.log2)];
            *counter = counter.saturating_add(1);
        });
    }

    /// Bigrams by which two strings differ at least.
    pub fn difference(left: &[u8], right: &[u8]) -> i64 {
        left.iter().zip(right).map(|(l, r)| u32::from(l.abs_diff(*r))).sum::<u32>().into()
    }
}

/// A signature in one word: each element sets one of its bits.
#[inline]
pub fn in_one_word(signature: &Signature) -> u64 {
    signature.iter().fold(0, |all, word| all | word)
}

/// The length of a string in characters.
#[inline]
pub fn length_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// A class for strings by their first character: strings of different classes share no prefix.
pub fn class_of(text: &str) -> u8 {
    text.chars().next().map_or(0, |c| 1 + (u32::from(c).wrapping_mul(0x9e37_79b9) >> 26) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The symmetric difference of two bags.
    fn difference(mut left: Vec<String>, right: Vec<String>) -> i64 {
        let mut only_right = 0;
        for feature in right {
            match left.iter().position(|l| *l == feature) {
                Some(at) => drop(left.swap_remove(at)),
                None => only_right += 1,
            }
        }
        left.len() as i64 + only_right
    }

    #[test]
    fn differing_bits_need_differing_features() {
        let long = "abab".repeat(400);
        let texts = ["", "a", "aa", "aaa", "banana", "bandana", "日本", "本日", "日本日本", "x日", long.as_str()];
        let mut slots = Slots::new();
        let histogram = |text: &str| {
            let histogram = Histogram::for_length(500).unwrap();
            let mut counters = vec![0; histogram.size()];
            histogram.count(text, &mut counters);
            counters
        };
        for learnt in [texts.len(), 3, 0] {
            for feature in [Feature::Characters, Feature::Bigrams] {
                let signer = Signer::learn(feature, learnt, |n| texts[n]);
                let bag = |text: &str| -> Vec<String> {
                    let chars: Vec<char> = text.chars().collect();
                    let size = if feature == Feature::Bigrams { 2 } else { 1 };
                    chars.windows(size).map(|w| w.iter().collect()).collect()
                };
                for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
                    let bits = differing(&signer.sign(a, &mut slots), &signer.sign(b, &mut slots));
                    assert!(bits <= difference(bag(a), bag(b)), "{a:?} {b:?}");
                    if feature == Feature::Bigrams {
                        let counted = Histogram::difference(&histogram(a), &histogram(b));
                        assert!(counted <= difference(bag(a), bag(b)), "{a:?} {b:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn telling_elements_have_bits_of_their_own() {
        let texts: Vec<String> = (0..64).map(|n| format!("{n:06b}").replace('0', "ab")).collect();
        let signer = Signer::learn(Feature::Characters, texts.len(), |n| &texts[n]);
        let mut slots = Slots::new();
        for (a, b) in [(0, 63), (5, 7), (1, 2)] {
            let ones = |n: usize| n.count_ones() as i64;
            let expected = 3 * (ones(a) - ones(b)).abs();
            let bits = differing(&signer.sign(&texts[a], &mut slots), &signer.sign(&texts[b], &mut slots));
            assert_eq!(bits, expected);
        }
    }
}
