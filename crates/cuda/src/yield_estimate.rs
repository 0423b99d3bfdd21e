//! How much a step of a join yields, so that the next one yields no more than is wanted at once.

use std::sync::atomic::{AtomicU64, Ordering};

use super::work_split::PAIRS_OF_STEP;
use similarity_engine::Counts;

/// How many of the compared pairs were candidates or matches, the last steps above all: rows are in the order of their
/// sizes, and larger ones may yield many times as much.
#[derive(Debug, Default)]
pub(super) struct YieldEstimate {
    compared: AtomicU64,
    yielded: AtomicU64,
}

/// Matches that a step should yield at most, and how many candidates count as one.
const MOST_MATCHES: u64 = 1 << 21;
const CANDIDATES_OF_A_MATCH: usize = 4;

/// Pairs of a step before anything is known, unless all that are left are too few to be worth two launches, and at
/// least.
const FIRST_PAIRS: u64 = 1 << 26;
const FEW_PAIRS: u64 = 1 << 31;
const FEWEST_PAIRS: u64 = 1 << 20;

/// A step compares so many times as many pairs as the last ones at most: those yielded little that came first.
const GROWTH: u64 = 4;

impl YieldEstimate {
    /// Pairs that the next step compares, where `left` says how many are left, up to a number that it is given.
    pub(super) fn pairs_of_step(&self, left: impl FnOnce(u64) -> u64) -> u64 {
        let (compared, yielded) = (self.compared.load(Ordering::Relaxed), self.yielded.load(Ordering::Relaxed));
        if compared == 0 {
            return if left(FEW_PAIRS) < FEW_PAIRS { FEW_PAIRS } else { FIRST_PAIRS };
        }
        let pairs = u128::from(MOST_MATCHES) * u128::from(compared) / u128::from(yielded.max(1));
        let most = (GROWTH * compared).clamp(FEWEST_PAIRS, PAIRS_OF_STEP);
        pairs.clamp(u128::from(FEWEST_PAIRS), u128::from(most)) as u64
    }

    pub(super) fn add(&self, compared: u64, counts: &Counts) {
        let yielded = counts.matched.max(counts.candidates / CANDIDATES_OF_A_MATCH) as u64;
        let halved = |before: u64, new: u64| Some(before / 2 + new);
        // both at once or not, an estimate is all that they give
        let _ = self.compared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| halved(before, compared));
        let _ = self.yielded.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| halved(before, yielded));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_step_is_small_unless_it_is_all() {
        let density = YieldEstimate::default();
        let of_step = |left: u64| density.pairs_of_step(|most| left.min(most));
        assert_eq!((of_step(1000), of_step(FEW_PAIRS - 1), of_step(FEW_PAIRS)), (FEW_PAIRS, FEW_PAIRS, FIRST_PAIRS));
        density.add(FIRST_PAIRS, &Counts { candidates: 1 << 10, verified: 1 << 10, matched: 1 << 9 });
        assert_eq!((of_step(1000), of_step(u64::MAX)), (GROWTH * FIRST_PAIRS, GROWTH * FIRST_PAIRS));
        let all = YieldEstimate::default();
        all.add(PAIRS_OF_STEP, &Counts::default());
        assert_eq!(all.pairs_of_step(|_| u64::MAX), PAIRS_OF_STEP);
        density.add(0, &Counts { candidates: 1 << 25, verified: 1 << 25, matched: 0 });
        // 2^25 pairs have yielded what counts as 2^23 matches and some
        assert_eq!(of_step(u64::MAX) >> 22, 1);
        // which counts half in the next step
        density.add(0, &Counts { candidates: 1 << 24, verified: 1 << 24, matched: 0 });
        assert_eq!(of_step(u64::MAX) >> 21, 1);
    }
}
