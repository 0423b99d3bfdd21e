//! How many bands of how many hashes.

use std::fmt;

use crate::recall::Recall;
use crate::stored::fixed;

/// Hashes of a row at most.
const MOST_HASHES: usize = 4096;
/// Bands of a row at most, each of which takes twelve bytes.
const MOST_BANDS: usize = 128;

/// Bands of some hashes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bands {
    /// How many bands there are.
    pub bands: usize,
    /// Hashes of a band.
    pub hashes: usize,
}

fixed!(Bands { bands: usize, hashes: usize });

impl Bands {
    /// The fewest bands of so many hashes that find a pair with this probability, if its hashes agree with `agreement`.
    fn finding(agreement: f64, hashes: usize, probability: f64) -> Option<Self> {
        let of_band = agreement.powi(hashes as i32);
        if !(0.0..=1.0).contains(&of_band) {
            return None;
        }
        let bands = ((1.0 - probability).ln() / (-of_band).ln_1p()).ceil().max(1.0);
        let fits = bands <= MOST_BANDS as f64 && bands as usize * hashes <= MOST_HASHES;
        fits.then_some(Self { bands: bands as usize, hashes })
    }

    /// The probability that a pair is found whose hashes agree with `agreement`.
    pub fn probability(self, agreement: f64) -> f64 {
        -(self.bands as f64 * (-agreement.powi(self.hashes as i32)).ln_1p()).exp_m1()
    }

    /// Hashes of a row.
    pub fn all_hashes(self) -> usize {
        self.bands * self.hashes
    }
}

impl fmt::Display for Bands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bands of {} hashes", self.bands, self.hashes)
    }
}

/// Bands for a join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub bands: Bands,
    /// The probability that the least similar of the pairs that are wanted is found.
    pub found: f64,
    /// What the join takes one core.
    pub nanoseconds: f64,
}

fixed!(Plan { bands: Bands, found: f64, nanoseconds: f64 });

impl Plan {
    /// The cheapest bands by `nanoseconds` that find pairs of at least this agreement. There are none for pairs that
    /// hardly agree, nor where no pair may be missed.
    pub fn cheapest(agreement: f64, recall: Recall, nanoseconds: impl Fn(Bands) -> f64) -> Option<Self> {
        if recall.share() == 1.0 {
            return None;
        }
        let plans = (1..=MOST_HASHES).map_while(|hashes| Bands::finding(agreement, hashes, recall.of_a_pair()));
        let plans =
            plans.map(|bands| Self { bands, found: bands.probability(agreement), nanoseconds: nanoseconds(bands) });
        plans.min_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_find_what_they_are_made_for() {
        for agreement in [0.05, 0.3, 0.5, 0.8, 0.95, 0.999, 1.0] {
            for share in [0.5, 0.9, 0.99] {
                let recall = Recall::new(share).unwrap();
                for hashes in 1..20 {
                    let Some(bands) = Bands::finding(agreement, hashes, recall.of_a_pair()) else { continue };
                    assert!(bands.probability(agreement) >= recall.of_a_pair() - 1e-12, "{bands}, {agreement}");
                    let fewer = Bands { bands: bands.bands - 1, hashes };
                    assert!(
                        bands.bands == 1 || fewer.probability(agreement) < recall.of_a_pair(),
                        "{bands}, {agreement}"
                    );
                }
            }
        }
        let published = Bands { bands: 20, hashes: 13 };
        assert!((published.probability(0.8) - 0.677).abs() < 0.001);
    }

    #[test]
    fn the_cheapest_plan_weighs_hashes_against_candidates() {
        let recall = Recall::new(0.9).unwrap();
        let few = Plan::cheapest(0.8, recall, |bands| bands.all_hashes() as f64).unwrap();
        assert_eq!(few.bands.hashes, 1);
        let candidates = |bands: Bands| 1e9 * bands.probability(0.1) + bands.all_hashes() as f64;
        assert!(Plan::cheapest(0.8, recall, candidates).unwrap().bands.hashes > 4);
        assert!(Plan::cheapest(0.0, recall, candidates).is_none());
        assert!(Plan::cheapest(1.1, recall, candidates).is_none());
        for agreement in [0.8, 1.0] {
            assert!(Plan::cheapest(agreement, Recall::new(1.0).unwrap(), candidates).is_none());
        }
    }
}
