//! The least sums that the points of a leaf have met.

use super::super::lanes::LANES;
use super::super::lanes::Lanes;
use super::super::lanes::Real;

/// Least sums of each lane so far, ascending; infinite ones until there are as many.
#[derive(Debug)]
pub(super) struct Tops<R>(Vec<[R; LANES]>);

impl<R> Default for Tops<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R: Real> Tops<R> {
    /// More than so many are too many to be moved for each sum.
    pub(super) const MOST: usize = 32;

    /// Forgets all and takes the `count` least from now on.
    pub(super) fn restart(&mut self, count: usize) {
        self.0.clear();
        self.0.resize(count, [R::INFINITY; LANES]);
    }

    /// Takes some sums for each lane, so that those so far are read once for all; NaN is none.
    #[inline(always)]
    pub(super) fn take<L: Lanes<R>, const SUMS: usize>(&mut self, mut sums: [L; SUMS]) {
        for top in &mut self.0 {
            let mut known = L::load(top);
            for sums in &mut sums {
                // what is NaN goes on and changes nothing
                (known, *sums) = (sums.least(known), known.most(*sums));
            }
            *top = known.numbers();
        }
    }

    /// The worst of the sums wanted, for each lane.
    #[inline(always)]
    pub(super) fn last<L: Lanes<R>>(&self) -> L {
        self.0.last().map_or(L::splat(R::INFINITY), |last| L::load(last))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::lanes::Plain;
    use super::*;

    #[test]
    fn the_least_of_each_lane() {
        let mut tops = Tops::default();
        tops.restart(3);
        let sum = |n: usize, lane: usize| ((n * 7 + lane * 3) % 11) as f32;
        for n in 0..10usize {
            let numbers: [f32; LANES] = std::array::from_fn(|lane| if n == 4 { f32::NAN } else { sum(n, lane) });
            tops.take([Plain::load(&numbers)]);
            let last: Plain<f32> = tops.last();
            for (lane, &last) in last.numbers().iter().enumerate() {
                let mut all: Vec<f32> = (0..=n).filter(|&n| n != 4).map(|n| sum(n, lane)).collect();
                all.sort_unstable_by(f32::total_cmp);
                assert_eq!(last, all.get(2).copied().unwrap_or(f32::INFINITY));
            }
        }
    }
}
