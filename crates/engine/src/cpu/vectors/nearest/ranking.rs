//! The order of a few neighbours, found without a branch on how they compare.

use crate::nearest::Neighbour;
use crate::stored::fixed;

/// What decides between equal scores: the rank of a row, then its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tie(u64);

fixed!(Tie { 0: u64 });

impl Tie {
    pub(super) fn new(rank: u32, row: u32) -> Self {
        Self(u64::from(rank) << 32 | u64::from(row))
    }

    /// The row as a neighbour.
    #[inline(always)]
    pub(super) fn neighbour<K>(self, score: K) -> Neighbour<K> {
        Neighbour { score, rank: (self.0 >> 32) as u32, row: self.0 as u32 }
    }
}

/// Neighbours side by side.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    scores: Vec<i64>,
    ties: Vec<u64>,
    ranked: Vec<Neighbour<i64>>,
}

/// Neighbours whose places are counted at once.
const ABREAST: usize = 16;
/// More neighbours are sorted: to compare all with all takes longer.
const MOST: usize = 2 * ABREAST;

impl Ranking {
    #[inline(always)]
    pub(super) fn push(&mut self, score: i64, tie: Tie) {
        self.scores.push(score);
        self.ties.push(tie.0);
    }

    /// What was pushed, in order; nothing is left.
    #[inline(always)]
    pub(super) fn take(&mut self) -> &[Neighbour<i64>] {
        let count = self.scores.len();
        let of = |(&score, &tie): (&i64, &u64)| Tie(tie).neighbour(score);
        self.ranked.clear();
        self.ranked.extend(self.scores.iter().zip(&self.ties).map(of));
        if count <= MOST {
            self.scores.resize(count.next_multiple_of(ABREAST), i64::MAX);
            self.ties.resize(count.next_multiple_of(ABREAST), u64::MAX);
            let (scores, ties) = (self.scores.as_chunks::<ABREAST>().0, self.ties.as_chunks::<ABREAST>().0);
            for (chunk, (some_scores, some_ties)) in scores.iter().zip(ties).enumerate() {
                let mut places = [0u64; ABREAST];
                for (&score, &tie) in self.scores.iter().zip(&self.ties).take(count) {
                    for lane in 0..ABREAST {
                        let is_behind =
                            (score < some_scores[lane]) | (score == some_scores[lane]) & (tie < some_ties[lane]);
                        places[lane] += u64::from(is_behind);
                    }
                }
                let self_join = (chunk * ABREAST..count).zip(places);
                self_join.for_each(|(at, place)| self.ranked[place as usize] = of((&self.scores[at], &self.ties[at])));
            }
        } else {
            self.ranked.sort_unstable();
        }
        self.scores.clear();
        self.ties.clear();
        &self.ranked
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn any_number_in_order() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut ranking = Ranking::default();
        for case in 0..2000 {
            let mut expected: Vec<_> = (0..case % 40)
                .map(|row| {
                    Tie::new(rng.random_range(0..3), row).neighbour([i64::MIN, -1, 7, i64::MAX][rng.random_range(0..4)])
                })
                .collect();
            expected.iter().for_each(|n| ranking.push(n.score, Tie::new(n.rank, n.row)));
            expected.sort_unstable();
            assert_eq!(ranking.take(), expected);
        }
        assert_eq!(ranking.take(), []);
    }
}
