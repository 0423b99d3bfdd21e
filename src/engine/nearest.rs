//! The best rows of a build side for each row of a probe side.
//!
//! Rows are ranked by a score, then by a rank that each build row has of its own; what is less is better in both.

use datafusion::common::Result;

use super::{Cancel, Counts, KeyColumn, PreparedProbe};

/// How many neighbours a probe row gets.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// At least 1.
    pub rows: usize,
    /// Whether the rows whose score and rank are those of the last one come too.
    pub ties: bool,
}

/// A build side made ready for ranking its rows; shared by all probe partitions.
pub trait NearestIndex: Send + Sync + std::fmt::Debug {
    /// The access path that was chosen, and why, for EXPLAIN ANALYZE.
    fn describe(&self) -> String;

    /// Bytes held.
    fn memory(&self) -> usize;

    /// Rows of the build side that have no score with any row.
    fn unmatchable(&self) -> usize;

    /// How many rows of the probe side are best made ready at once, where it has as many.
    fn rows_at_once(&self) -> usize {
        1
    }

    /// Makes a batch of the probe side ready, by up to so many threads.
    ///
    /// # Errors
    /// For keys that cannot be scored against the build side.
    fn prepare(&self, keys: &KeyColumn, threads: usize) -> Result<Box<dyn PreparedProbe>>;

    /// The rows of a probe batch, or in a self-join its own rows, that may have neighbours, in the order in which they are
    /// best searched.
    ///
    /// # Errors
    /// For a probe batch that another index has prepared, and for none where it was not built for a self-join.
    fn order<'a>(&'a self, probe: Option<&'a dyn PreparedProbe>) -> Result<&'a [u32]>;

    /// Offers each of `best` the neighbours of the probe row at its place of `positions`, ascending places in the order: all
    /// that it keeps of the build rows that share the row's group. Rows that follow each other are searched together. Once
    /// `cancel` says so, some may be missing.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    fn nearest(
        &self,
        probe: Option<&dyn PreparedProbe>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts>;
}

/// A build row as a neighbour. The order is that of the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Whether a neighbour is wanted where `last` is the last one that has to be.
    fn is_among<K: Ord + Copy>(self, neighbour: &Neighbour<K>, last: &Neighbour<K>) -> bool {
        if self.ties { neighbour.key() <= last.key() } else { neighbour <= last }
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
    /// What was offered, but for those known to be too bad.
    kept: Vec<Neighbour<K>>,
    /// How many are kept before it is looked which of them are.
    full: usize,
    /// The last one wanted when that was looked at last.
    last: Option<Neighbour<K>>,
}

/// The least number of neighbours that are kept.
const FEWEST: usize = 32;

impl<K: Ord + Copy> Best<K> {
    /// Keeps what is `wanted`.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, kept: Vec::new(), full: full(wanted.rows), last: None }
    }

    /// What is wanted.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Keeps a neighbour if it may be one of the best so far; the order of offers makes no difference.
    #[inline]
    pub fn offer(&mut self, neighbour: Neighbour<K>) {
        if self.last.is_some_and(|last| !self.wanted.is_among(&neighbour, &last)) {
            return;
        }
        self.kept.push(neighbour);
        if self.kept.len() >= self.full {
            self.forget();
        }
    }

    /// Forgets what is not wanted, as seen from what is kept.
    fn forget(&mut self) {
        let (_, &mut last, _) = self.kept.select_nth_unstable(self.wanted.rows - 1);
        let wanted = self.wanted;
        self.kept.retain(|neighbour| wanted.is_among(neighbour, &last));
        self.last = Some(last);
        self.full = full(self.kept.len());
    }

    /// Moves what was kept to the end of `out`, best first.
    pub fn take_into(&mut self, out: &mut Vec<Neighbour<K>>) {
        self.kept.sort_unstable();
        self.kept.truncate(self.wanted.of(&self.kept));
        out.append(&mut self.kept);
        (self.last, self.full) = (None, full(self.wanted.rows));
    }
}

fn full(kept: usize) -> usize {
    kept.saturating_mul(2).max(FEWEST)
}

/// An integer in the order of floats, NaN being the greatest.
#[inline]
pub fn float_key(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
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
            let mut all: Vec<_> = (0..rng.random_range(0..200))
                .map(|row| Neighbour { score: rng.random_range(0..9), rank: rng.random_range(0..3), row })
                .collect();
            let mut best = Best::new(wanted);
            all.iter().for_each(|&neighbour| best.offer(neighbour));
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
        }
    }

    #[test]
    fn keys_order_floats() {
        let sorted = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert!(sorted.windows(2).all(|pair| float_key(pair[0]) < float_key(pair[1])));
    }
}
