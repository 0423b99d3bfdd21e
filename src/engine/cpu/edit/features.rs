//! Signatures of what a string is made of, and why they lose no match.
//!
//! A string has a bag of characters and a bag of bigrams. The n-th occurrence of a feature sets a bit of its own, so
//! that a bag becomes a set, and every bit in which two signatures differ needs an occurrence that only one string
//! has: the number of differing bits is at most the size of the symmetric difference of the bags. What an edit can
//! change of a bag is in [`Slack`](super::predicate::Slack).

/// Words of a signature: enough that the bigrams of a sentence seldom share a bit.
pub(super) const WORDS: usize = 4;

/// Bits of the features of one string.
pub(super) type Signature = [u64; WORDS];

/// Counts occurrences of features, for one string after another.
pub(super) struct Features {
    hashes: Vec<u64>,
}

impl Features {
    pub(super) fn new() -> Self {
        Self { hashes: Vec::new() }
    }

    /// The signature of the characters of `text`.
    pub(super) fn characters(&mut self, text: &str) -> Signature {
        self.hashes.clear();
        self.hashes.extend(text.chars().map(|c| mix(u64::from(u32::from(c)))));
        self.sign()
    }

    /// The signature of the pairs of neighbours in `text`.
    pub(super) fn bigrams(&mut self, text: &str) -> Signature {
        self.hashes.clear();
        let pairs = text.chars().zip(text.chars().skip(1));
        self.hashes.extend(pairs.map(|(a, b)| mix(u64::from(u32::from(a)) << 32 | u64::from(u32::from(b)))));
        self.sign()
    }

    /// Equal features must have equal hashes; different ones may.
    fn sign(&mut self) -> Signature {
        self.hashes.sort_unstable();
        let mut signature = [0; WORDS];
        for alike in self.hashes.chunk_by(|a, b| a == b) {
            for occurrence in 0..alike.len() as u64 {
                let bit = mix(alike[0].wrapping_add(occurrence)) % (64 * WORDS as u64);
                signature[bit as usize / 64] |= 1 << (bit % 64);
            }
        }
        signature
    }
}

/// The bits in which two signatures differ.
#[inline]
pub(super) fn differing(left: &Signature, right: &Signature) -> i64 {
    left.iter().zip(right).map(|(l, r)| i64::from((l ^ r).count_ones())).sum()
}

/// A class for strings by their first character: strings of different classes share no prefix.
pub(super) fn class_of(text: &str) -> u32 {
    text.chars().next().map_or(0, |c| 1 + (mix(u64::from(u32::from(c))) % 63) as u32)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
#[inline]
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
