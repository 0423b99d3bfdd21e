//! In how many lists a position stands (ScanCount; Li, Lu and Lu, "Efficient merging and filtering algorithms for
//! approximate string searches", ICDE 2008).
//!
//! Long lists are counted block by block of positions: the counters of a block stay in the fastest memory, and those
//! that are too low are passed over many at a time. Short lists are counted in one go, and what they touch is kept.

use std::ops::AddAssign;

/// Positions of a block.
pub(super) const BLOCK: usize = if cfg!(test) { 128 } else { 1 << 15 };

/// Counters that are looked at together.
const TOGETHER: usize = 64;

/// A number that counts lists.
pub(super) trait Count: Copy + Ord + Default + AddAssign + From<u8> {
    /// The count, or the greatest number where it does not fit.
    fn of(count: u32) -> Self;

    /// The count.
    fn get(self) -> u32;
}

impl Count for u8 {
    #[inline]
    fn of(count: u32) -> Self {
        count.min(u8::MAX.into()) as u8
    }

    #[inline]
    fn get(self) -> u32 {
        self.into()
    }
}

impl Count for u32 {
    #[inline]
    fn of(count: u32) -> Self {
        count
    }

    #[inline]
    fn get(self) -> u32 {
        self
    }
}

/// Counters of positions, all of them 0 between two searches. No count may exceed what `C` holds.
#[derive(Debug)]
pub(super) struct Counters<C> {
    /// Counters of one block.
    block: Box<[C; BLOCK]>,
    /// Counters of all positions; empty until short lists are counted.
    all: Vec<C>,
    /// Positions whose counter in `all` is not 0.
    touched: Vec<u32>,
}

impl<C: Count> Default for Counters<C> {
    fn default() -> Self {
        Self { block: Box::new([C::default(); BLOCK]), all: Vec::new(), touched: Vec::new() }
    }
}

impl<C: Count> Counters<C> {
    /// Bytes that counters of so many positions take.
    pub(super) fn memory(positions: usize) -> usize {
        (positions + BLOCK) * size_of::<C>()
    }

    /// Counts a list of different positions of the block that begins at `base`.
    #[inline]
    pub(super) fn add_to_block(&mut self, list: &[u32], base: u32) {
        for &position in list {
            self.block[(position - base) as usize % BLOCK] += C::from(1);
        }
    }

    /// Resets the block after a call of `each` with every position of a count of at least `least`, and that count.
    /// What it returns is the least count from there on. `least` is not 0.
    #[inline]
    pub(super) fn drain_block(&mut self, base: u32, least: u32, mut each: impl FnMut(u32, u32) -> u32) {
        let mut least = C::of(least);
        for (start, counters) in (base..).step_by(TOGETHER).zip(self.block.chunks_exact_mut(TOGETHER)) {
            let greatest = counters.iter().fold(C::default(), |greatest, &counter| greatest.max(counter));
            if greatest == C::default() {
                continue;
            }
            if greatest >= least {
                for (position, &counter) in (start..).zip(counters.iter()) {
                    if counter >= least {
                        least = C::of(each(position, counter.get()));
                    }
                }
            }
            counters.fill(C::default());
        }
    }

    /// Counts a short list of different positions, all of them below `positions`.
    pub(super) fn add(&mut self, list: &[u32], positions: usize) {
        if self.all.len() < positions {
            self.all.resize(positions, C::default());
        }
        for &position in list {
            let counter = &mut self.all[position as usize];
            if *counter == C::default() {
                self.touched.push(position);
            }
            *counter += C::from(1);
        }
    }

    /// Resets what [`add`](Self::add) has counted after a call of `each` with every position of a count of at least
    /// `least`, and that count. What it returns is the least count from there on.
    pub(super) fn drain(&mut self, least: u32, mut each: impl FnMut(u32, u32) -> u32) {
        let mut least = least;
        for position in self.touched.drain(..) {
            let count = std::mem::take(&mut self.all[position as usize]).get();
            if count >= least {
                least = each(position, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn counts<C: Count>(lists: &[Vec<u32>], counters: &mut Counters<C>) {
        let mut expected: BTreeMap<u32, u32> = BTreeMap::new();
        lists.iter().flatten().for_each(|&position| *expected.entry(position).or_default() += 1);
        let base = 7;
        for least in 1..4 {
            let mut found = [BTreeMap::new(), BTreeMap::new()];
            lists.iter().for_each(|list| counters.add(list, 2 * BLOCK));
            counters.drain(least, |position, count| {
                found[0].insert(position, count);
                least
            });
            for list in lists {
                let within: Vec<u32> = list.iter().copied().filter(|p| (7..7 + BLOCK as u32).contains(p)).collect();
                counters.add_to_block(&within, base);
            }
            counters.drain_block(base, least, |position, count| {
                found[1].insert(position, count);
                least
            });
            let reaching = expected.iter().filter(|(_, count)| **count >= least).map(|(p, c)| (*p, *c));
            assert_eq!(found[0], reaching.clone().collect());
            assert_eq!(found[1], reaching.filter(|(p, _)| (7..7 + BLOCK as u32).contains(p)).collect());
        }
    }

    #[test]
    fn both_ways_count_alike() {
        let mut rng = StdRng::seed_from_u64(3);
        let (mut bytes, mut words) = (Counters::<u8>::default(), Counters::<u32>::default());
        for case in 0..60 {
            let lists: Vec<Vec<u32>> = (0..case % 7)
                .map(|_| (0..2 * BLOCK as u32).filter(|_| rng.random_bool([0.001, 0.3][case % 2])).collect())
                .collect();
            counts(&lists, &mut bytes);
            counts(&lists, &mut words);
        }
    }

    #[test]
    fn the_least_count_may_rise_on_the_way() {
        let mut counters = Counters::<u8>::default();
        for list in [&[3, 5, 90][..], &[5, 90]] {
            counters.add_to_block(list, 0);
        }
        let mut found = Vec::new();
        counters.drain_block(0, 1, |position, count| {
            found.push((position, count));
            count + 1
        });
        assert_eq!(found, [(3, 1), (5, 2)]);
    }
}
