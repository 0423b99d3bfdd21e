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
    /// The places that throw at each place in these rounds: the first of each, then the second of each, and so on;
    /// `places` where there are no more.
    throwers: Vec<u32>,
    /// Memory that is needed for each signature.
    scratch: Scratch,
}

#[derive(Debug, Clone)]
struct Scratch {
    /// Places that are selected, the first ones of as many as a signature has.
    selected: Vec<u32>,
    /// The numbers of places that have tokens, and one more that is empty.
    numbers: Vec<u32>,
}

/// Rounds whose throws are known beforehand; of half as many tokens as places, nearly all signatures need no more.
const ROUNDS: u64 = 16;

/// A place that no token has fallen into. No token has this number, because numbers have 31 bits.
const EMPTY: u32 = u32::MAX;

/// How many places there are for each with tokens where throwing costs as much as looking for the thrower.
const FEW: usize = 4;

impl MinHash {
    /// Signatures of so many places, at least one.
    pub fn new(places: u32, seed: u64) -> Self {
        let places = places.max(1);
        let target = |round| move |place| target(places, seed, place, round);
        let targets: Vec<u32> = (0..ROUNDS).flat_map(|round| (0..places).map(target(round))).collect();
        let mut counts = vec![0; places as usize];
        let mut throwers = Vec::new();
        for (thrower, &target) in (0..places).cycle().zip(&targets) {
            let count = &mut counts[target as usize];
            let at = *count * places as usize + target as usize;
            if at >= throwers.len() {
                throwers.resize(throwers.len() + places as usize, places);
            }
            throwers[at] = thrower;
            *count += 1;
        }
        let scratch = Scratch { selected: vec![0; places as usize], numbers: Vec::with_capacity(places as usize + 1) };
        Self { places, seed, targets, throwers, scratch }
    }

    /// The seed for [`token_hash`].
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Writes the signature of the set of tokens with these hashes. Returns whether there is one: the empty set has
    /// none.
    pub fn sign(&mut self, hashes: impl Iterator<Item = u64>, signature: &mut [u32]) -> bool {
        signature.fill(EMPTY);
        hashes.for_each(|hash| {
            let place = ((hash >> 32) * u64::from(self.places)) >> 32;
            // 31 bits, so that no number is EMPTY
            let number = hash as u32 >> 1;
            let least = &mut signature[place as usize];
            *least = number.min(*least);
        });
        let Scratch { numbers, .. } = &mut self.scratch;
        numbers.clear();
        numbers.extend_from_slice(signature);
        numbers.push(EMPTY);
        let empty = self.scratch.select(|number| number == EMPTY);
        if empty > 0 && empty < signature.len() {
            self.densify(empty, signature);
        }
        empty < signature.len()
    }

    /// Gives empty places the numbers of others. Places with tokens throw their numbers at all places, in rounds, and
    /// an empty place keeps the first number that is thrown at it.
    fn densify(&mut self, mut empty: usize, signature: &mut [u32]) {
        let mut round = 0;
        if (signature.len() - empty) * FEW >= signature.len() {
            empty = self.catch(empty, signature);
            round = ROUNDS;
        }
        if empty > 0 {
            self.throw(round, empty, signature);
        }
    }

    /// Has the selected places, which are empty, look for who throws at them in the first rounds. Returns how many are
    /// empty then.
    fn catch(&mut self, mut empty: usize, signature: &mut [u32]) -> usize {
        let Scratch { selected, numbers } = &mut self.scratch;
        for throwers in self.throwers.chunks_exact(signature.len()) {
            let mut left = 0;
            // without a branch, of which half would be mispredicted
            for at in 0..empty {
                let place = selected[at];
                let number = numbers[throwers[place as usize] as usize];
                signature[place as usize] = number;
                selected[left] = place;
                left += usize::from(number == EMPTY);
            }
            empty = left;
            if empty == 0 {
                break;
            }
        }
        empty
    }

    /// Has the places with tokens throw in rounds from one on, until no place is empty.
    fn throw(&mut self, first_round: u64, mut empty: usize, signature: &mut [u32]) {
        let full = self.scratch.select(|number| number != EMPTY);
        let Scratch { selected, numbers } = &self.scratch;
        for round in first_round.. {
            let known = self.targets.chunks_exact(self.places as usize).nth(round as usize);
            for &place in &selected[..full] {
                let target = match known {
                    Some(targets) => targets[place as usize],
                    None => target(self.places, self.seed, place, round),
                };
                let target = &mut signature[target as usize];
                if *target == EMPTY {
                    *target = numbers[place as usize];
                    empty -= 1;
                    if empty == 0 {
                        return;
                    }
                }
            }
        }
    }
}

impl Scratch {
    /// Selects the places whose numbers are wanted, and returns how many there are.
    fn select(&mut self, wanted: impl Fn(u32) -> bool) -> usize {
        let mut count = 0;
        for (place, &number) in (0..).zip(&self.numbers[..self.selected.len()]) {
            self.selected[count] = place;
            count += usize::from(wanted(number));
        }
        count
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

    /// Whether places look for their throwers, or these throw one after the other, the numbers are the same.
    #[test]
    fn places_keep_what_is_thrown_first() {
        for (places, tokens) in
            [(1, 1), (7, 2), (64, 3), (64, 11), (64, 30), (64, 400), (300, 49), (300, 90), (300, 900)]
        {
            for seed in 0..20 {
                let mut minhash = MinHash::new(places, seed);
                let own = {
                    let mut numbers = vec![EMPTY; places as usize];
                    for token in 0..tokens {
                        let hash = token_hash(&u64::to_le_bytes(token), seed);
                        let place = (((hash >> 32) * u64::from(places)) >> 32) as usize;
                        numbers[place] = numbers[place].min(hash as u32 >> 1);
                    }
                    numbers
                };
                let mut expected = own.clone();
                for round in 0.. {
                    for place in (0..places).filter(|place| own[*place as usize] != EMPTY) {
                        let target = target(places, seed, place, round) as usize;
                        if expected[target] == EMPTY {
                            expected[target] = own[place as usize];
                        }
                    }
                    if !expected.contains(&EMPTY) {
                        break;
                    }
                }
                // what a signature leaves behind is not in the next one
                for _ in 0..2 {
                    let mut found = vec![0; places as usize];
                    let hashes = (0..tokens).map(|token| token_hash(&token.to_le_bytes(), seed));
                    assert!(minhash.sign(hashes, &mut found));
                    assert_eq!(found, expected, "{places} {tokens} {seed}");
                    assert!(!minhash.sign(std::iter::empty(), &mut found));
                }
            }
        }
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
