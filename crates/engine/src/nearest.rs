//! The best rows of a build side for each row of a probe side.
//!
//! Rows are ranked by a score, then by a rank that each build row has of its own; what is less is better in both.

use std::collections::BinaryHeap;

use crate::error::Result;

use super::{AnyBatch, Cancel, Counts, Index, Probe, even_stretch};
use crate::stored::fixed;

/// How many neighbours a probe row gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Neighbours of each probe row, at least 1.
    pub rows: usize,
    /// Whether the rows whose score and rank are those of the last one come too.
    pub ties: bool,
}

fixed!(Wanted { rows: usize, ties: bool });

/// How many probe rows are searched by one call where they are searched one by one: few, so that threads soon share the
/// rest.
pub(crate) const FEW_AT_ONCE: usize = 16;

/// An index that ranks its rows for each row of a probe side.
///
/// Rows of [`Probe::SelfJoin`](Probe) are there where the index was built for a self-join.
pub trait NearestIndex: Index {
    /// How many probe rows are best searched by one call, where each wants so many rows.
    ///
    /// # Errors
    /// A device that fails.
    fn positions_at_once(&self, _probe: Probe<'_, Self::Batch>, _wanted: usize) -> Result<usize> {
        Ok(256)
    }

    /// Whether it may miss neighbours, as many as a sample of the probe rows allows.
    fn misses(&self) -> bool {
        false
    }

    /// The end of a stretch of a self-join from `start` on, each row of which wants so many: neither too much work for
    /// partitions to end together nor too little to be worth claiming.
    fn self_join_stretch(&self, start: usize, _wanted: usize) -> usize {
        even_stretch(start, self.info().self_join_len)
    }

    /// The rows of a probe batch, or in a self-join its own rows, that may have neighbours, in the order in which they
    /// are best searched.
    ///
    /// # Errors
    /// For a self-join where the index was not built for one.
    fn order<'a>(&'a self, probe: Probe<'a, Self::Batch>) -> Result<&'a [u32]>;

    /// Offers each of `best`, which are empty, the neighbours of the probe row at its place of `positions`, ascending
    /// places in the order: all that it keeps of the build rows that share the row's group. Rows that follow each other
    /// are searched together. Once `cancel` says so, some may be missing.
    ///
    /// # Errors
    /// Errors of [`order`](Self::order).
    fn nearest(
        &self,
        probe: Probe<'_, Self::Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts>;
}

/// An index that ranks its rows, of whichever kind.
pub type DynNearestIndex = dyn NearestIndex<Batch = AnyBatch>;

/// A build row as a neighbour. The order is that of the ranking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Neighbour<K> {
    /// What the score is as an integer.
    pub score: K,
    /// The rank of the row among those with its score.
    pub rank: u32,
    /// The build row.
    pub row: u32,
}

impl Wanted {
    /// How many of `ranked`, which are in order, are wanted.
    pub fn of<K: Ord + Copy>(self, ranked: &[Neighbour<K>]) -> usize {
        match ranked.get(self.rows - 1) {
            None => ranked.len(),
            Some(last) if self.ties => ranked.partition_point(|neighbour| neighbour.key() <= last.key()),
            Some(_) => self.rows,
        }
    }
}

impl<K: Ord + Copy> Neighbour<K> {
    fn key(&self) -> (K, u32) {
        (self.score, self.rank)
    }
}

/// Keeps the best of the neighbours that it is offered.
#[derive(Debug)]
pub struct Best<K> {
    wanted: Wanted,
    kept: Kept<K>,
    /// Others with the score and rank of the worst.
    ties: Vec<Neighbour<K>>,
}

/// The best so far.
#[derive(Debug)]
enum Kept<K> {
    /// Best first: nothing yet, or what came at once.
    Ordered(Vec<Neighbour<K>>),
    /// The worst on top: what came one by one.
    Heap(BinaryHeap<Neighbour<K>>),
}

impl<K: Ord + Copy> Kept<K> {
    fn len(&self) -> usize {
        match self {
            Self::Ordered(kept) => kept.len(),
            Self::Heap(kept) => kept.len(),
        }
    }

    fn worst(&self) -> Option<&Neighbour<K>> {
        match self {
            Self::Ordered(kept) => kept.last(),
            Self::Heap(kept) => kept.peek(),
        }
    }

    fn heap(&mut self) -> &mut BinaryHeap<Neighbour<K>> {
        if let Self::Ordered(kept) = self {
            *self = Self::Heap(std::mem::take(kept).into());
        }
        match self {
            Self::Heap(kept) => kept,
            Self::Ordered(_) => unreachable!("it has become a heap"),
        }
    }
}

impl<K: Ord + Copy> Best<K> {
    /// Keeps what is `wanted`.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, kept: Kept::Ordered(Vec::new()), ties: Vec::new() }
    }

    /// What is wanted.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// The worst of what is kept, once there are as many as are wanted.
    #[inline]
    pub fn worst(&self) -> Option<&Neighbour<K>> {
        if self.kept.len() < self.wanted.rows { None } else { self.kept.worst() }
    }

    /// Whether a neighbour would be kept. Where one would not, none that is worse would.
    #[inline]
    pub fn takes(&self, neighbour: &Neighbour<K>) -> bool {
        let ties = |worst: &Neighbour<K>| self.wanted.ties && neighbour.key() == worst.key();
        self.worst().is_none_or(|worst| neighbour < worst || ties(worst))
    }

    /// The rows that are kept, in no order; those that only tie with the worst are left out.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        let (ordered, heap) = match &self.kept {
            Kept::Ordered(kept) => (Some(kept.iter()), None),
            Kept::Heap(kept) => (None, Some(kept.iter())),
        };
        ordered.into_iter().flatten().chain(heap.into_iter().flatten()).map(|neighbour| neighbour.row)
    }

    /// Keeps a neighbour if it is one of the best so far; the order of offers makes no difference.
    #[inline]
    pub fn offer(&mut self, neighbour: Neighbour<K>) {
        let (rows, kept) = (self.wanted.rows, self.kept.heap());
        if kept.len() < rows {
            kept.push(neighbour);
            return;
        }
        let Some(mut worst) = kept.peek_mut() else { return };
        let before = *worst;
        if neighbour >= before {
            if self.wanted.ties && neighbour.key() == before.key() {
                self.ties.push(neighbour);
            }
            return;
        }
        *worst = neighbour;
        drop(worst);
        if !self.wanted.ties {
            return;
        }
        if kept.peek().is_some_and(|now| now.key() == before.key()) {
            self.ties.push(before);
        } else {
            self.ties.clear();
        }
    }

    /// Offers all of `neighbours`, which are in order.
    #[inline]
    pub fn offer_ranked(&mut self, neighbours: &[Neighbour<K>]) {
        let kept = match &mut self.kept {
            Kept::Ordered(kept) if kept.is_empty() => kept,
            _ => return neighbours.iter().for_each(|neighbour| self.offer(*neighbour)),
        };
        let (among, ties) = neighbours[..self.wanted.of(neighbours)].split_at(neighbours.len().min(self.wanted.rows));
        kept.extend_from_slice(among);
        self.ties.extend_from_slice(ties);
    }

    /// Moves what was kept to the end of `out`, best first.
    pub fn take_into(&mut self, out: &mut Vec<Neighbour<K>>) {
        let start = out.len();
        match &mut self.kept {
            Kept::Ordered(kept) => {
                out.append(kept);
                // in any order, since all of them are the same but for their rows
                self.ties.sort_unstable();
                out.append(&mut self.ties);
            }
            Kept::Heap(kept) => {
                let mut kept = std::mem::take(kept).into_vec();
                out.append(&mut kept);
                out.append(&mut self.ties);
                out[start..].sort_unstable();
                self.kept = Kept::Ordered(kept);
            }
        }
    }
}

/// An integer in the order of floats, NaN being the greatest.
#[inline]
pub fn float_key(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The float that has this key.
#[inline]
pub fn float_of_key(key: i64) -> f64 {
    f64::from_bits((key ^ ((key >> 63) as u64 >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn keeps_the_best_and_their_ties() {
        let mut rng = StdRng::seed_from_u64(1);
        for case in 0..2000 {
            let wanted = Wanted { rows: rng.random_range(1..6), ties: case % 2 == 0 };
            let mut all: Vec<_> = (0..rng.random_range(0..20))
                .map(|row| Neighbour { score: rng.random_range(0..4), rank: rng.random_range(0..3), row })
                .collect();
            let mut best = Best::new(wanted);
            let mut offered = Vec::new();
            for &neighbour in &all {
                let takes = best.takes(&neighbour);
                best.offer(neighbour);
                offered.push(neighbour);
                offered.sort_unstable();
                assert_eq!(takes, offered[..wanted.of(&offered)].contains(&neighbour));
                assert_eq!(best.worst(), offered.get(wanted.rows - 1));
            }
            all.sort_unstable();
            let last = all.get(wanted.rows - 1).copied();
            let among =
                |n: &Neighbour<i32>| last.is_none_or(|l| if wanted.ties { n.key() <= l.key() } else { *n <= l });
            assert_eq!(wanted.of(&all), all.iter().filter(|n| among(n)).count());
            all.truncate(wanted.of(&all));
            let mut kept = Vec::new();
            best.take_into(&mut kept);
            assert_eq!(kept, all);
            best.take_into(&mut kept);
            assert_eq!(kept, all, "nothing is left");
            rng.random_bool(0.5).then(|| offered.reverse());
            for some in offered.chunks_mut(case % 7 + 1) {
                some.sort_unstable();
                best.offer_ranked(some);
            }
            kept.clear();
            best.take_into(&mut kept);
            assert_eq!(kept, all, "by some at once");
        }
    }

    #[test]
    fn keys_order_floats() {
        let sorted = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert!(sorted.windows(2).all(|pair| float_key(pair[0]) < float_key(pair[1])));
        assert!(sorted.iter().all(|float| float_of_key(float_key(*float)).to_bits() == float.to_bits()));
    }
}
