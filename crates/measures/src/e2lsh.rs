//! Signatures for the Euclidean distance: near vectors fall into the same slot of a random line.
//!
//! Source: Datar, Immorlica, Indyk and Mirrokni, *Locality-sensitive hashing scheme based on p-stable distributions*,
//! 2004.

use crate::random::Random;

/// Random lines that are cut into slots of one width.
#[derive(Debug, Clone)]
pub struct Lines {
    dimensions: usize,
    width: f64,
    directions: Vec<f64>,
    starts: Vec<f64>,
}

impl Lines {
    /// So many lines for vectors of so many dimensions, with slots of this width.
    pub fn new(lines: usize, dimensions: usize, width: f64, seed: u64) -> Self {
        let (mut directions, mut starts) = (Vec::with_capacity(lines * dimensions), Vec::with_capacity(lines));
        for line in 0..lines {
            let mut random = Random::new(seed, line as u64);
            starts.push(random.uniform() * width);
            directions.extend((0..dimensions).map(|_| random.normal()));
        }
        Self { dimensions, width, directions, starts }
    }

    /// Writes the slot of a vector on each line. Slots beyond 32 bits are cut off at the ends.
    pub fn sign(&self, vector: &[f64], slots: &mut [i32]) {
        for (line, (slot, start)) in slots.iter_mut().zip(&self.starts).enumerate() {
            let direction = &self.directions[line * self.dimensions..(line + 1) * self.dimensions];
            let place: f64 = direction.iter().zip(vector).map(|(direction, element)| direction * element).sum();
            *slot = ((place + start) / self.width).floor() as i32;
        }
    }
}

/// The probability that two vectors, so many widths apart, fall into one slot of a line.
pub fn agreement(widths: f64) -> f64 {
    if widths <= 0.0 {
        return 1.0;
    }
    let ratio = 1.0 / widths;
    let outside = libm::erfc(ratio / std::f64::consts::SQRT_2);
    let near = (1.0 - libm::exp(-ratio * ratio / 2.0)) * 2.0 / (libm::sqrt(std::f64::consts::TAU) * ratio);
    (1.0 - outside - near).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minhash::agreement;

    /// The probability of one slot for a distance of `c` widths, by the integral of the paper.
    fn probability(c: f64) -> f64 {
        let steps = 100_000;
        let density = |t: f64| (-t * t / (2.0 * c * c)).exp() / (c * (2.0 * std::f64::consts::PI).sqrt());
        let sum: f64 =
            (0..steps).map(|at| (at as f64 + 0.5) / steps as f64).map(|t| 2.0 * density(t) * (1.0 - t)).sum();
        sum / steps as f64
    }

    #[test]
    fn slots_agree_as_the_paper_says() {
        for distance in [0.5, 1.0, 3.0] {
            let (mut left, mut right) = ([0; 500], [0; 500]);
            let mut sum = 0.0;
            for seed in 0..100 {
                let lines = Lines::new(500, 3, 2.0, seed);
                lines.sign(&[1.0, -2.0, 5.0], &mut left);
                lines.sign(&[1.0, -2.0 + distance, 5.0], &mut right);
                sum += agreement(&left, &right).unwrap();
            }
            let (share, expected) = (sum / 100.0, probability(distance / 2.0));
            assert!((super::agreement(distance / 2.0) - expected).abs() < 1e-6, "{distance}");
            let deviation = (expected * (1.0 - expected) / 50_000.0).sqrt();
            assert!((share - expected).abs() < 4.0 * deviation, "{distance}: {share} {expected}");
        }
    }
}
