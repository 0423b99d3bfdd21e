//! MinHash signatures of sets: two of them agree in a place as likely as their sets are similar by Jaccard.
//!
//! Each token falls into one place by the upper bits of its hash, and a place keeps the least of the lower bits (one
//! permutation hashing: Li, Owen and Zhang, 2012). So a token costs one hash, however long the signature is.
//!
//! A place without a token takes the number of a place that has one. Which place that is depends on nothing but the
//! places that have tokens and the seed, so that the estimate stays unbiased (Mai and others, *On densification for
//! minwise hashing*, 2019). A signature of n places takes about n log n steps for that.

use twox_hash::XxHash64;

use crate::random::mixed;

/// The hash of a token: XXH64 of its bytes.
#[inline]
pub fn token_hash(token: &[u8], seed: u64) -> u64 {
    XxHash64::oneshot(seed, token)
}

/// The signatures of one length and seed.
#[derive(Debug, Clone)]
pub struct MinHash {
    places: u32,
    seed: u64,
    /// Where each place throws its number in the first rounds.
    targets: Vec<u32>,
    /// The places that have tokens: memory that is needed for each signature.
    full: Vec<u32>,
}

/// Rounds whose throws are known beforehand; of half as many tokens as places, nearly all signatures need no more.
const ROUNDS: u64 = 16;

/// A place that no token has fallen into. No token has this number, because numbers have 31 bits.
const EMPTY: u32 = u32::MAX;

impl MinHash {
    /// Signatures of so many places, at least one.
    pub fn new(places: u32, seed: u64) -> Self {
        let places = places.max(1);
        let target = |round| move |place| target(places, seed, place, round);
        let targets = (0..ROUNDS).flat_map(|round| (0..places).map(target(round))).collect();
        Self { places, seed, targets, full: Vec::new() }
    }

    /// The seed for [`token_hash`].
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Writes the signature of the set of tokens with these hashes. Returns whether there is one: the empty set has
    /// none.
    pub fn sign(&mut self, hashes: impl Iterator<Item = u64>, signature: &mut [u32]) -> bool {
        signature.fill(EMPTY);
        for hash in hashes {
            let place = ((hash >> 32) * u64::from(self.places)) >> 32;
            // 31 bits, so that no number is EMPTY
            let number = hash as u32 >> 1;
            let least = &mut signature[place as usize];
            *least = number.min(*least);
        }
        self.full.clear();
        self.full.extend(signature.iter().zip(0..).filter(|(number, _)| **number != EMPTY).map(|(_, place)| place));
        if self.full.is_empty() {
            return false;
        }
        if self.full.len() < signature.len() {
            self.densify(signature);
        }
        true
    }

    /// Gives empty places the numbers of others: those with tokens throw their numbers at all places, in rounds.
    fn densify(&self, signature: &mut [u32]) {
        let mut empty = signature.len() - self.full.len();
        for round in 0.. {
            let known = self.targets.chunks_exact(self.places as usize).nth(round as usize);
            for &place in &self.full {
                let number = signature[place as usize];
                let target = match known {
                    Some(targets) => targets[place as usize],
                    None => target(self.places, self.seed, place, round),
                };
                let target = &mut signature[target as usize];
                if *target == EMPTY {
                    *target = number;
                    empty -= 1;
                    if empty == 0 {
                        return;
                    }
                }
            }
        }
    }
}

/// The place that one with tokens throws its number at in a round.
fn target(places: u32, seed: u64, place: u32, round: u64) -> u32 {
    let target = mixed(seed ^ mixed(u64::from(place) << 32 | round)) >> 32;
    ((target * u64::from(places)) >> 32) as u32
}

/// The share of places in which two signatures agree; none have no share.
pub fn agreement<T: PartialEq>(one: &[T], other: &[T]) -> Option<f64> {
    let agree = one.iter().zip(other).filter(|(one, other)| one == other).count();
    (!one.is_empty()).then(|| agree as f64 / one.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(mut minhash: MinHash, tokens: impl Iterator<Item = u64>) -> Vec<u32> {
        let mut signature = vec![0; minhash.places as usize];
        let seed = minhash.seed();
        let hashes = tokens.map(|token| token_hash(&token.to_le_bytes(), seed));
        assert!(minhash.sign(hashes, &mut signature));
        signature
    }

    #[test]
    fn hashes_are_those_of_xxh64() {
        assert_eq!(token_hash(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(token_hash(b"a", 0), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(token_hash(b"abc", 0), 0x44bc_2cf5_ad77_0999);
    }

    #[test]
    fn estimates_are_unbiased() {
        // sets with many tokens a place, and with fewer tokens than places
        for (places, shared, own) in [(64, 400, 100), (128, 30, 10), (128, 3, 1), (256, 8, 8)] {
            let truth = shared as f64 / (shared + 2 * own) as f64;
            let trials = 4000;
            let mut sum = 0.0;
            for seed in 0..trials {
                let minhash = MinHash::new(places, seed);
                let left = signature(minhash.clone(), 0..shared + own);
                let right = signature(minhash, (0..shared).chain(shared + own..shared + 2 * own));
                sum += agreement(&left, &right).unwrap();
            }
            let mean = sum / trials as f64;
            // no more independent places than tokens
            let deviation = (truth * (1.0 - truth) / (places as f64).min((shared + own) as f64)).sqrt();
            assert!((mean - truth).abs() < 4.0 * deviation / (trials as f64).sqrt(), "{places} {shared} {own}: {mean}");
        }
    }

    #[test]
    fn signatures_stay_what_they_are() {
        let first = |places, tokens| signature(MinHash::new(places, 1), 0..tokens)[..4].to_vec();
        assert_eq!(first(64, 300), [592_054_148, 1_042_668_421, 625_439_756, 848_715_113]);
        // few tokens throw in many rounds
        assert_eq!(first(1000, 3), [658_498_113, 658_498_113, 1_415_170_948, 184_027_271]);
    }

    #[test]
    fn sets_alone_count() {
        let mut minhash = MinHash::new(100, 9);
        let once = signature(minhash.clone(), 0..20);
        assert_eq!(once, signature(minhash.clone(), (0..20).rev().chain(5..9)));
        assert!(once.iter().all(|number| *number < 1 << 31));
        assert!(!minhash.sign(std::iter::empty(), &mut [0; 100]));
        assert_eq!(agreement::<u32>(&[], &[]), None);
        assert_eq!(agreement(&[1, 2, 3, 4], &[1, 2, 0, 0]), Some(0.5));
    }
}
