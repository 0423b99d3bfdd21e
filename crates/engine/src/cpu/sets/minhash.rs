//! Independent MinHash values of sets of tokens, one band of them to a key.
//!
//! Every hash has a function of its own, unlike in signatures of one permutation: the bands of small sets have to be as
//! independent as those of large ones, or pairs would be found less often than [`Bands`](crate::cpu::lsh::Bands) say.

use similarity_measures::random::Random;

use crate::cpu::lsh::{Bands, key};
use crate::cpu::registers::{self, Loop};
use crate::error::Result;
use crate::stored::{Sink, Source, Store, Stored};

/// Hash functions that are computed at once.
const LANES: usize = 16;

/// The hash functions of some bands.
#[derive(Debug)]
pub(super) struct MinHashes {
    bands: Bands,
    /// Functions, as many as full groups hold.
    functions: Vec<Functions>,
}

/// `x -> (x ^ flips) * factors`, a permutation of all numbers each.
#[derive(Debug, Clone, Copy)]
struct Functions {
    flips: [u32; LANES],
    factors: [u32; LANES],
}

/// Memory for the keys of one row.
#[derive(Debug, Default)]
pub(super) struct MinHashScratch {
    tokens: Vec<u32>,
    least: Vec<[u32; LANES]>,
}

impl MinHashes {
    pub(super) fn new(bands: Bands) -> Self {
        let mut random = Random::new(0, 0);
        let functions = (0..bands.all_hashes().div_ceil(LANES)).map(|_| Functions {
            flips: std::array::from_fn(|_| random.bits() as u32),
            factors: std::array::from_fn(|_| random.bits() as u32 | 1),
        });
        Self { bands, functions: functions.collect() }
    }

    /// Writes a key for each band of a set, which is not empty, of a group.
    pub(super) fn keys(&self, tokens: &[u32], group: u32, scratch: &mut MinHashScratch, keys: &mut [u32]) {
        scratch.tokens.clear();
        scratch.tokens.extend(tokens.iter().map(|&token| spread(token)));
        scratch.least.clear();
        scratch.least.resize(self.functions.len(), [u32::MAX; LANES]);
        registers::run(Least { functions: &self.functions, scratch });
        let least = scratch.least.as_flattened();
        for (own, band) in keys.iter_mut().zip(least.chunks_exact(self.bands.hashes)) {
            *own = key(group, band.iter().copied());
        }
    }
}

/// The bands are written; the functions are always the same.
impl Store for MinHashes {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.bands.store(sink)
    }
}

impl Stored for MinHashes {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        Ok(Self::new(Stored::load(source)?))
    }
}

/// The least value of each function over some tokens.
struct Least<'a> {
    functions: &'a [Functions],
    scratch: &'a mut MinHashScratch,
}

impl Loop for Least<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for (Functions { flips, factors }, least) in self.functions.iter().zip(&mut self.scratch.least) {
            for &token in &self.scratch.tokens {
                for lane in 0..LANES {
                    least[lane] = least[lane].min((token ^ flips[lane]).wrapping_mul(factors[lane]));
                }
            }
        }
    }
}

/// A number that looks random, another one for each token.
#[inline]
fn spread(token: u32) -> u32 {
    let token = (token ^ token >> 16).wrapping_mul(0x7feb_352d);
    let token = (token ^ token >> 15).wrapping_mul(0x846c_a68b);
    token ^ token >> 16
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Bands agree as often as the similarity of the sets says, whether sets are small or large, and tokens neighbours
    /// or not.
    #[test]
    fn bands_agree_as_often_as_the_similarity_says() {
        let mut rng = StdRng::seed_from_u64(3);
        let bands = Bands { bands: 256, hashes: 4 };
        let hashes = MinHashes::new(bands);
        let mut scratch = MinHashScratch::default();
        for (shared, own, neighbours) in
            [(1, 1, true), (2, 1, false), (4, 1, true), (9, 1, false), (40, 5, true), (300, 40, false), (100, 50, true)]
        {
            let similarity = f64::from(shared) / f64::from(shared + 2 * own);
            let expected = similarity.powi(bands.hashes as i32);
            let (mut agree, mut all) = (0, 0);
            for _ in 0..400 {
                let first: u32 = rng.random_range(0..1 << 24);
                let mut token = |n: u32| if neighbours { first + n } else { rng.random() };
                let tokens: Vec<u32> = (0..shared + 2 * own).map(&mut token).collect();
                let (one, other) = (&tokens[..(shared + own) as usize], &tokens[own as usize..]);
                let keys = [one, other].map(|tokens| {
                    let mut keys = vec![0; bands.bands];
                    hashes.keys(tokens, 7, &mut scratch, &mut keys);
                    keys
                });
                agree += keys[0].iter().zip(&keys[1]).filter(|(one, other)| one == other).count();
                all += bands.bands;
            }
            let share = agree as f64 / all as f64;
            // bands of the same functions are not independent between trials of neighbouring tokens
            let deviation = (expected * (1.0 - expected) / all as f64).sqrt();
            assert!((share - expected).abs() < 6.0 * deviation + 0.004, "{share} for {expected}");
        }
    }

    #[test]
    fn groups_have_keys_of_their_own() {
        let hashes = MinHashes::new(Bands { bands: 9, hashes: 3 });
        let (mut scratch, mut keys) = (MinHashScratch::default(), [[0; 9]; 3]);
        let [one, same, other] = &mut keys;
        hashes.keys(&[1, 5, 9], 1, &mut scratch, one);
        hashes.keys(&[1, 5, 9], 1, &mut scratch, same);
        hashes.keys(&[1, 5, 9], 2, &mut scratch, other);
        assert!(one == same && one.iter().zip(other).all(|(one, other)| one != other));
    }
}
