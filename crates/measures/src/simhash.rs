//! SimHash: bits of two sets or vectors that differ the less, the smaller the angle between them.
//!
//! Source: Charikar, *Similarity estimation techniques from rounding algorithms*, 2002. A bit of two vectors differs
//! with probability `angle / pi`.

use crate::random::Random;

/// The bits of a set of tokens, by their hashes: a bit is set where more than half of them have it.
pub fn of_tokens(hashes: impl Iterator<Item = u64>) -> u64 {
    let mut more = [0i64; 64];
    for hash in hashes {
        for (bit, more) in more.iter_mut().enumerate() {
            *more += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    more.iter().enumerate().fold(0, |bits, (bit, more)| bits | u64::from(*more > 0) << bit)
}

/// Random hyperplanes through the origin, one for each bit.
#[derive(Debug, Clone)]
pub struct Hyperplanes {
    dimensions: usize,
    normals: Vec<f64>,
}

impl Hyperplanes {
    /// So many words of 64 hyperplanes for vectors of so many dimensions.
    pub fn new(words: usize, dimensions: usize, seed: u64) -> Self {
        let plane = |plane: usize| {
            let mut random = Random::new(seed, plane as u64);
            (0..dimensions).map(move |_| random.normal())
        };
        Self { dimensions, normals: (0..64 * words).flat_map(plane).collect() }
    }

    /// Writes the bits of a vector: on which side of each hyperplane it lies.
    pub fn sign(&self, vector: &[f64], words: &mut [u64]) {
        words.fill(0);
        for (bit, normal) in self.normals.chunks_exact(self.dimensions.max(1)).enumerate() {
            let product: f64 = normal.iter().zip(vector).map(|(normal, element)| normal * element).sum();
            words[bit / 64] |= u64::from(product > 0.0) << (bit % 64);
        }
    }
}

/// The probability that two vectors of this cosine lie on one side of a hyperplane.
pub fn agreement(cosine: f64) -> f64 {
    1.0 - libm::acos(cosine.clamp(-1.0, 1.0)) / std::f64::consts::PI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_sets_differ_in_few_bits() {
        let hash = |token: u64| crate::minhash::token_hash(&token.to_le_bytes(), 1);
        let bits = |from: u64| of_tokens((from..from + 200).map(hash));
        assert_eq!(bits(0), bits(0));
        let near = (bits(0) ^ bits(10)).count_ones();
        let far = (bits(0) ^ bits(1000)).count_ones();
        assert!(near < 20 && far > 20, "{near} {far}");
        assert_eq!(of_tokens(std::iter::empty()), 0);
    }

    #[test]
    fn bits_differ_by_the_angle() {
        let mut differ = 0;
        let (mut left, mut right) = ([0; 16], [0; 16]);
        for seed in 0..50 {
            let planes = Hyperplanes::new(16, 2, seed);
            planes.sign(&[1.0, 0.0], &mut left);
            planes.sign(&[1.0, 1.0], &mut right);
            differ += left.iter().zip(&right).map(|(l, r)| (l ^ r).count_ones()).sum::<u32>();
        }
        // an angle of 45 degrees is a quarter of a half turn
        let share = f64::from(differ) / (50.0 * 1024.0);
        assert!((share - 0.25).abs() < 4.0 * (0.25 * 0.75 / (50.0 * 1024.0f64)).sqrt(), "{share}");
    }
}
