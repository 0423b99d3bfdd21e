//! How many pairs of all rows hold, from pairs of a sample of rows drawn without replacement.
//!
//! The estimate is that of Horvitz and Thompson: a pair counts for one by the probability that the sample has both of
//! its rows. Its variance has a term for pairs of pairs that share a row, which are drawn together more often. Where
//! few pairs were found, the bounds are those of a Poisson variable (Garwood, 1936) with the same relative variance.

/// Normal quantile of the bounds, for 99 %: what a skewed sample tells about its own variance is uncertain, too.
const QUANTILE: f64 = 2.5758;

/// A number with the bounds that hold it in at least 19 of 20 samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }
}

/// The rows that pairs are made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    /// Pairs of two different rows of one table, which has so many rows.
    OneTable { all: u64, sampled: u64 },
    /// Pairs of a row of either table.
    TwoTables { all: [u64; 2], sampled: [u64; 2] },
}

impl Rows {
    /// How many pairs there are.
    pub fn pairs(self) -> f64 {
        match self {
            Self::OneTable { all, .. } => all as f64 * (all as f64 - 1.0).max(0.0) / 2.0,
            Self::TwoTables { all: [left, right], .. } => left as f64 * right as f64,
        }
    }

    /// How many pairs the sample has.
    pub fn sampled_pairs(self) -> f64 {
        match self {
            Self::OneTable { sampled, .. } => Self::OneTable { all: sampled, sampled }.pairs(),
            Self::TwoTables { sampled, .. } => Self::TwoTables { all: sampled, sampled }.pairs(),
        }
    }

    /// The probabilities that the sample has a pair, two pairs that share their left row, two that share their right
    /// row, and two that share none. In one table a shared row has no side.
    fn probabilities(self) -> [f64; 4] {
        match self {
            Self::OneTable { all, sampled } => {
                let shared = drawn(all, sampled, 3);
                [drawn(all, sampled, 2), shared, shared, drawn(all, sampled, 4)]
            }
            Self::TwoTables { all: [n, m], sampled: [s, t] } => {
                let (one, two) = ([drawn(n, s, 1), drawn(m, t, 1)], [drawn(n, s, 2), drawn(m, t, 2)]);
                [one[0] * one[1], one[0] * two[1], two[0] * one[1], two[0] * two[1]]
            }
        }
    }
}

/// The probability that a sample has `count` rows.
fn drawn(all: u64, sampled: u64, count: u64) -> f64 {
    (0..count).map(|at| if at < sampled { (sampled - at) as f64 / (all - at) as f64 } else { 0.0 }).product()
}

/// Pairs that hold in a sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// How many.
    pub pairs: u64,
    /// Sums of d (d - 1) over rows with d pairs: over left rows, then over right rows. Those of one table come first.
    pub shared: [f64; 2],
}

impl Found {
    /// The number of all pairs that hold.
    pub fn of_all(self, rows: Rows) -> Interval {
        let [one, left, right, apart] = rows.probabilities();
        let found = self.pairs as f64;
        if one >= 1.0 {
            return Interval::exact(found);
        }
        if one <= 0.0 {
            return Interval { value: 0.0, low: 0.0, high: rows.pairs() };
        }
        let value = found / one;
        let independent = found * (1.0 - one) / (one * one);
        let together = |count: f64, both: f64| match count > 0.0 && both > 0.0 {
            true => count * (both - one * one) / (both * one * one),
            false => 0.0,
        };
        let rest = found * found - found - self.shared[0] - self.shared[1];
        let variance =
            independent + together(self.shared[0], left) + together(self.shared[1], right) + together(rest, apart);
        // so many independent pairs would vary as much
        let number = if found > 0.0 { value * value / variance.max(independent) } else { 0.0 };
        let [low, high] = poisson_bounds(number);
        let (low, high) = match found > 0.0 {
            true => (value * low / number, value * high / number),
            false => (0.0, high / one),
        };
        Interval { value, low: low.max(found), high: high.min(rows.pairs()) }
    }
}

/// Bounds for the mean of a Poisson variable that was `number` once.
fn poisson_bounds(number: f64) -> [f64; 2] {
    // quantiles of chi-square by Wilson and Hilferty
    let quantile = |freedom: f64, z: f64| {
        let part = 2.0 / (9.0 * freedom);
        freedom * (1.0 - part + z * part.sqrt()).max(0.0).powi(3)
    };
    let low = if number > 0.0 { quantile(2.0 * number, -QUANTILE) / 2.0 } else { 0.0 };
    [low, quantile(2.0 * number + 2.0, QUANTILE) / 2.0]
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::index::sample;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn a_whole_sample_is_exact() {
        let rows = Rows::OneTable { all: 5, sampled: 5 };
        let found = Found { pairs: 3, shared: [4.0, 0.0] };
        assert_eq!(found.of_all(rows), Interval::exact(3.0));
        assert_eq!(rows.pairs(), 10.0);
    }

    #[test]
    fn nothing_found_leaves_room_for_a_few() {
        let rows = Rows::TwoTables { all: [1000, 1000], sampled: [100, 100] };
        let none = Found::default().of_all(rows);
        assert_eq!((none.value, none.low), (0.0, 0.0));
        assert!((300.0..600.0).contains(&none.high), "{none:?}");
        let no_rows = Rows::TwoTables { all: [0, 1000], sampled: [0, 100] };
        assert_eq!(Found::default().of_all(no_rows).high, 0.0);
    }

    #[test]
    fn bounds_of_garwood() {
        // 99 % two-sided, from a table of the gamma distribution
        let [low, high] = poisson_bounds(10.0);
        assert!((low - 3.72).abs() < 0.2 && (high - 21.4).abs() < 0.3, "{low} {high}");
    }

    /// Blocks of very different sizes: the hardest case for a sample.
    #[test]
    fn bounds_hold_the_truth_in_19_of_20_samples() {
        let mut rng = StdRng::seed_from_u64(7);
        for (one_table, blocks) in [(true, 2000), (false, 2000), (true, 30), (false, 30)] {
            let all = 20_000usize;
            let block = |rng: &mut StdRng| (rng.random::<f64>().powi(3) * f64::from(blocks)) as usize;
            let sides: [Vec<usize>; 2] = [0, 1].map(|_| (0..all).map(|_| block(&mut rng)).collect());
            let counts = |rows: &[usize], of: &[usize]| {
                rows.iter().fold(vec![0u64; blocks as usize], |mut counts, &row| {
                    counts[of[row]] += 1;
                    counts
                })
            };
            let found = |rows: [&[usize]; 2]| {
                let left = counts(rows[0], &sides[0]);
                if one_table {
                    let pairs = left.iter().map(|n| n * n.saturating_sub(1) / 2).sum();
                    let shared = left.iter().map(|&n| n as f64 * (n as f64 - 1.0) * (n as f64 - 2.0)).sum();
                    return Found { pairs, shared: [shared, 0.0] };
                }
                let right = counts(rows[1], &sides[1]);
                let pairs = left.iter().zip(&right).map(|(l, r)| l * r).sum();
                let shared = |one: &[u64], other: &[u64]| {
                    one.iter().zip(other).map(|(&n, &d)| n as f64 * d as f64 * (d as f64 - 1.0)).sum()
                };
                Found { pairs, shared: [shared(&left, &right), shared(&right, &left)] }
            };
            let everything: Vec<usize> = (0..all).collect();
            let truth = found([&everything, &everything]).pairs as f64;
            for sampled in [300usize, 3000] {
                let mut held = 0;
                for _ in 0..400 {
                    let draws = [0, 1].map(|_| sample(&mut rng, all, sampled).into_vec());
                    let rows = match one_table {
                        true => Rows::OneTable { all: all as u64, sampled: sampled as u64 },
                        false => Rows::TwoTables { all: [all as u64; 2], sampled: [sampled as u64; 2] },
                    };
                    let bounds = found([&draws[0], &draws[1]]).of_all(rows);
                    held += usize::from(bounds.low <= truth && truth <= bounds.high);
                }
                assert!(held >= 380, "{one_table} {blocks} {sampled}: {held} of 400");
            }
        }
    }
}
