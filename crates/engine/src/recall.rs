//! The share of pairs that a join has to find, where a query lets it miss some, and what a sample shows of it.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::error::{Result, internal_err};
use crate::stored::{Sink, Source, Store, Stored};

/// A share above 0 and up to 1 of the pairs that satisfy a condition.
///
/// A pair that comes out satisfies the condition in any case. What a join misses depends on its hashes alone, and never
/// on how often a pair is looked for: a pair is found with at least [`of_a_pair`](Self::of_a_pair).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Recall(f64);

impl Recall {
    /// The share, if it is one.
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share <= 1.0).then_some(Self(share))
    }

    /// The share.
    pub fn share(self) -> f64 {
        self.0
    }

    /// The mean share of a row's best `wanted + dropped` neighbours with which at least this share of its best `wanted`
    /// remains, whichever `dropped` of them are dropped.
    ///
    /// A row that lacks some of the larger number lacks no more of the smaller one.
    pub fn with_dropped(self, wanted: usize, dropped: usize) -> Self {
        Self(1.0 - (1.0 - self.0) * wanted as f64 / (wanted + dropped) as f64)
    }

    /// The probability with which each pair is to be found.
    ///
    /// Half of what may be missed is left to chance. Of 300 pairs that stand at the threshold, all found independently
    /// of each other, more than 5 % are missed in one of 250 joins where 5 % may be.
    pub fn of_a_pair(self) -> f64 {
        1.0 - (1.0 - self.0) / 2.0
    }
}

impl Store for Recall {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.0.store(sink)
    }
}

impl Stored for Recall {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        match Self::new(f64::load(source)?) {
            Some(recall) => Ok(recall),
            None => internal_err!("a stored index has a recall that is no share"),
        }
    }
}

/// The probability with which a recall is what a sample shows of it.
pub const CONFIDENCE: f64 = 0.99;

/// Parts of the capital that are staked in three games: large ones win soon where all shares are large, small ones
/// survive shares that vary.
const STAKES: [f64; 3] = [0.2, 0.5, 0.95];

impl Recall {
    /// Whether a sample shows, with the probability [`CONFIDENCE`], that the mean of all shares is no less.
    ///
    /// `shares`, each between 0 and 1, are drawn independently of each other. They are bets against a mean below the
    /// recall, which nobody is expected to win: only one in a hundred games ever multiplies its capital by a hundred.
    /// So the sample may grow until it shows the recall (Waudby-Smith and Ramdas, *Estimating means of bounded random
    /// variables by betting*, 2024, section 4).
    pub fn is_shown_by(self, shares: &[f64]) -> bool {
        capital(self.0, shares) >= (1.0 - CONFIDENCE).recip()
    }

    /// The least number of shares that show it, all of them 1; at least one.
    pub fn fewest_shown(self) -> usize {
        let [.., stake] = STAKES;
        let (needed, gain) = (STAKES.len() as f64 / (1.0 - CONFIDENCE), stake * (self.0.recip() - 1.0));
        // 1 is never shown
        ((needed.ln() / gain.ln_1p()).ceil() as usize).max(1)
    }
}

/// The largest share that a sample shows, about; 0 where it shows none.
pub fn shown_by(shares: &[f64]) -> f64 {
    let (mut shown, mut beyond) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = (shown + beyond) / 2.0;
        match Recall(middle).is_shown_by(shares) {
            true => shown = middle,
            false => beyond = middle,
        }
    }
    shown
}

/// What a capital of 1, a third of it in each game, has become after bets against a mean of `recall`.
fn capital(recall: f64, shares: &[f64]) -> f64 {
    let game = |stake: f64| shares.iter().map(|share| (stake * (share / recall - 1.0)).ln_1p()).sum::<f64>().exp();
    STAKES.map(game).iter().sum::<f64>() / STAKES.len() as f64
}

// a share is no NaN, and not zero
impl Eq for Recall {}

impl Hash for Recall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn few_samples_show_what_is_not_so() {
        let mut rng = StdRng::seed_from_u64(1);
        let recall = Recall::new(0.9).unwrap();
        let (mut wrong, mut right) = (0, 0);
        for case in 0..400 {
            // one neighbour or ten, whose shares vary less
            let neighbours = if case % 2 == 0 { 1 } else { 10 };
            let mut draw = |mean: f64| {
                let found = (0..neighbours).filter(|_| rng.random_bool(mean)).count();
                found as f64 / f64::from(neighbours)
            };
            let below: Vec<f64> = (0..600).map(|_| draw(0.899)).collect();
            let above: Vec<f64> = (0..600).map(|_| draw(0.95)).collect();
            // a look at each hundred
            wrong += usize::from((100..=600).step_by(100).any(|count| recall.is_shown_by(&below[..count])));
            right += usize::from(recall.is_shown_by(&above));
        }
        assert!(wrong <= 4, "{wrong} of 400");
        assert!(right >= 360, "{right} of 400");
    }

    #[test]
    fn a_sample_shows_no_more_than_its_mean() {
        let shares: Vec<f64> = (0..400).map(|n| if n % 10 == 0 { 0.5 } else { 1.0 }).collect();
        let shown = shown_by(&shares);
        assert!((0.9..0.95).contains(&shown), "{shown}");
        assert!(Recall::new(shown).unwrap().is_shown_by(&shares));
        assert_eq!((shown_by(&[]), shown_by(&[0.0; 50])), (0.0, 0.0));
        for share in [0.5, 0.9, 0.99] {
            let recall = Recall::new(share).unwrap();
            let fewest = recall.fewest_shown();
            assert!(recall.is_shown_by(&vec![1.0; fewest]), "{share}: {fewest}");
            assert!(!recall.is_shown_by(&vec![1.0; fewest * 9 / 10]), "{share}: {fewest}");
        }
        assert_eq!(Recall::new(1.0).unwrap().fewest_shown(), usize::MAX);
        let tiny = Recall::new(1e-310).unwrap();
        assert_eq!((tiny.fewest_shown(), tiny.is_shown_by(&[1.0]), tiny.is_shown_by(&[0.0])), (1, true, false));
    }

    #[test]
    fn a_share_is_above_zero_and_up_to_one() {
        assert!([0.0, -0.1, 1.1, f64::NAN].iter().all(|&share| Recall::new(share).is_none()));
        let recall = Recall::new(0.9).unwrap();
        assert!((recall.of_a_pair() - 0.95).abs() < 1e-12);
        assert_eq!(Recall::new(1.0).unwrap().of_a_pair(), 1.0);
        // of 21 neighbours, one in ten rows lacks one: so does one in ten rows of 20
        let (of_all, of_some) = (1.0 - 0.1 / 21.0, Recall::new(1.0 - 0.1 / 20.0).unwrap());
        assert!((of_some.with_dropped(20, 1).share() - of_all).abs() < 1e-12);
        assert_eq!(of_some.with_dropped(20, 0), of_some);
    }
}
