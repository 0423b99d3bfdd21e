//! Conditions of which enough have to hold together: the smallest sets of them are the clauses of an OR of ANDs.

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::{conjunction, disjunction};

use super::{Conjunction, NormalForm, Sides};

/// What sums and quotients may be off, in proportion to the largest sum of up to a thousand numbers.
pub(super) const SLACK: f64 = 1e-12;

/// Whether an index serves `condition` alone.
pub(super) fn is_served(condition: &Expr, sides: Sides<'_>, most: usize) -> bool {
    let served = |clause: Expr| {
        let parts = Conjunction::of(&clause, sides);
        !parts.keys.is_empty() || !parts.atoms.is_empty() || !parts.bands.is_empty()
    };
    let Ok(form) = NormalForm::of(condition, sides, most) else { return false };
    match form.clauses.len() {
        0 => conjunction(form.common).is_some_and(served),
        clauses => (0..clauses).all(|clause| form.clause(clause).is_some_and(served)),
    }
}

/// The clauses of conditions whose contributions, the largest first, reach the sum `needed` together, at most so many.
/// `None` stands for a condition without an index, which is taken to hold for every pair.
pub(super) fn clauses_reaching(conditions: Vec<(f64, Option<Expr>)>, needed: f64, most: usize) -> Option<Expr> {
    let (known, unknown): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|(_, condition)| condition.is_some());
    let of_unknown: f64 = unknown.iter().map(|(contribution, _)| contribution).sum();
    let (contributions, conditions): (Vec<f64>, Vec<Expr>) =
        known.into_iter().filter_map(|(contribution, condition)| Some((contribution, condition?))).unzip();
    // conditions that take part only make clauses narrower: without the least important ones there are fewer
    let clauses = (1..=contributions.len()).rev().find_map(|part| {
        let rest = of_unknown + contributions[part..].iter().sum::<f64>();
        Some(Sets::reaching(&contributions[..part], needed - rest, most)?.found)
    });
    let clauses = clauses.or_else(|| one_each(&contributions, of_unknown, needed, most))?;
    disjunction(
        clauses.into_iter().filter_map(|clause| conjunction(clause.into_iter().map(|at| conditions[at].clone()))),
    )
}

/// So many of the most important attributes that the others do not reach the sum; one of them contributes.
fn one_each(contributions: &[f64], of_unknown: f64, needed: f64, most: usize) -> Option<Vec<Vec<usize>>> {
    let rest = |part: usize| of_unknown + contributions[part..].iter().sum::<f64>();
    let part = (1..=contributions.len()).find(|&part| rest(part) < needed)?;
    (part <= most).then(|| (0..part).map(|at| vec![at]).collect())
}

/// The smallest sets of numbers that reach a sum, the numbers in descending order.
pub(super) struct Sets<'a> {
    numbers: &'a [f64],
    needed: f64,
    most: usize,
    pub found: Vec<Vec<usize>>,
}

impl<'a> Sets<'a> {
    /// All of them; `None` where even the empty one reaches the sum or there are more than `most`. Where all numbers
    /// together do not reach it, no pair has it, and one set of all is as good as any.
    pub fn reaching(numbers: &'a [f64], needed: f64, most: usize) -> Option<Self> {
        if needed <= 0.0 || needed.is_nan() {
            return None;
        }
        let mut sets = Self { numbers, needed, most, found: Vec::new() };
        if numbers.iter().sum::<f64>() < needed {
            sets.found.push((0..numbers.len()).collect());
            return Some(sets);
        }
        sets.extend(&mut Vec::new(), 0, 0.0).then_some(sets)
    }

    /// Adds the sets that begin with `chosen`, whose numbers have this sum, and go on with numbers from `from` on.
    /// A set is complete once its last number, the least one, makes it reach the sum.
    fn extend(&mut self, chosen: &mut Vec<usize>, from: usize, sum: f64) -> bool {
        let mut left: f64 = self.numbers[from..].iter().sum();
        for at in from..self.numbers.len() {
            if sum + left < self.needed {
                break;
            }
            let number = self.numbers[at];
            chosen.push(at);
            let fits = if sum + number >= self.needed {
                self.found.push(chosen.clone());
                self.found.len() <= self.most
            } else {
                self.extend(chosen, at + 1, sum + number)
            };
            chosen.pop();
            if !fits {
                return false;
            }
            left = self.numbers[at + 1..].iter().sum();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(numbers: &[f64], needed: f64, most: usize) -> Option<Vec<Vec<usize>>> {
        Sets::reaching(numbers, needed, most).map(|sets| sets.found)
    }

    #[test]
    fn the_smallest_sets() {
        let weights = [30.0, 25.0, 25.0, 20.0];
        let three = vec![vec![0, 1, 2], vec![0, 1, 3], vec![0, 2, 3], vec![1, 2, 3]];
        assert_eq!(sets(&weights, 60.0, 4), Some(three));
        assert_eq!(sets(&weights, 60.0, 3), None);
        assert_eq!(sets(&weights, 100.0, 4), Some(vec![vec![0, 1, 2, 3]]));
        assert_eq!(sets(&weights, 101.0, 4), Some(vec![vec![0, 1, 2, 3]]), "it is never reached");
        assert_eq!(sets(&weights, 20.0, 4), Some(vec![vec![0], vec![1], vec![2], vec![3]]));
        assert_eq!(sets(&weights, 0.0, 4), None, "nothing is needed");
        assert_eq!(sets(&[f64::INFINITY, 5.0], 7.0, 4), Some(vec![vec![0]]));
        assert_eq!(one_each(&weights, 0.0, 60.0, 4), Some(vec![vec![0], vec![1]]), "both others have 45");
        assert_eq!(one_each(&weights, 60.0, 60.0, 4), None);
    }
}
