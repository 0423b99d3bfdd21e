//! Random binning: two vectors agree in a place with the probability that the Laplacian kernel gives them,
//! `exp(-l1_distance / width)`.
//!
//! Each place lays a grid over the space, with a pitch and a shift of its own in every dimension.
//! Source: Rahimi and Recht, *Random features for large-scale kernel machines*, 2007.

use crate::random::{Random, mixed};

/// Random grids.
#[derive(Debug, Clone)]
pub struct Grids {
    dimensions: usize,
    /// Pitch and shift of each dimension of each grid.
    cells: Vec<(f64, f64)>,
}

impl Grids {
    /// So many grids for vectors of so many dimensions and a kernel of this width.
    pub fn new(grids: usize, dimensions: usize, width: f64, seed: u64) -> Self {
        let grid = |grid: usize| {
            let mut random = Random::new(seed, grid as u64);
            (0..dimensions).map(move |_| {
                // the gamma distribution of shape 2
                let pitch = -width * (libm::log(random.uniform()) + libm::log(random.uniform()));
                (pitch, random.uniform() * pitch)
            })
        };
        Self { dimensions, cells: (0..grids).flat_map(grid).collect() }
    }

    /// Writes a number of the cell of each grid in which a vector lies. Two cells have one number by chance in one of
    /// 2^32 cases.
    pub fn sign(&self, vector: &[f64], numbers: &mut [u32]) {
        let grids = self.cells.chunks_exact(self.dimensions.max(1));
        for (number, grid) in numbers.iter_mut().zip(grids) {
            let cell = vector.iter().zip(grid).fold(0, |cell: u64, (element, (pitch, shift))| {
                mixed(cell ^ ((element - shift) / pitch).floor().to_bits())
            });
            *number = (cell >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minhash::agreement;

    #[test]
    fn cells_agree_as_the_kernel_says() {
        for (left, right) in [([0.0, 0.0], [0.3, -0.2]), ([7.0, 1.0], [5.5, 1.5])] {
            let (mut one, mut other) = ([0; 500], [0; 500]);
            let mut sum = 0.0;
            for seed in 0..100 {
                let grids = Grids::new(500, 2, 2.0, seed);
                grids.sign(&left, &mut one);
                grids.sign(&right, &mut other);
                sum += agreement(&one, &other).unwrap();
            }
            let distance: f64 = left.iter().zip(&right).map(|(l, r): (&f64, &f64)| (l - r).abs()).sum();
            let (share, expected) = (sum / 100.0, (-distance / 2.0).exp());
            let deviation = (expected * (1.0 - expected) / 50_000.0).sqrt();
            assert!((share - expected).abs() < 4.0 * deviation, "{share} {expected}");
        }
    }
}
