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
        let single: Vec<_> = contributions[..part].iter().map(std::slice::from_ref).collect();
        Some(Sets::reaching(&single, needed - rest, most)?.found)
    });
    let clauses = clauses.or_else(|| one_each(&contributions, of_unknown, needed, most))?;
    let conditions_of = |clause: Vec<Choice>| clause.into_iter().map(|choice| conditions[choice.item].clone());
    disjunction(clauses.into_iter().filter_map(|clause| conjunction(conditions_of(clause))))
}

/// So many of the most important attributes that the others do not reach the sum; one of them contributes.
fn one_each(contributions: &[f64], of_unknown: f64, needed: f64, most: usize) -> Option<Vec<Vec<Choice>>> {
    let rest = |part: usize| of_unknown + contributions[part..].iter().sum::<f64>();
    let part = (1..=contributions.len()).find(|&part| rest(part) < needed)?;
    (part <= most).then(|| (0..part).map(|item| vec![Choice { item, number: 0 }]).collect())
}

/// One number of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub item: usize,
    /// Which of the numbers of the item.
    pub number: usize,
}

/// The smallest sets of numbers that reach a sum, with at most one number of each item.
pub(super) struct Sets<'a> {
    /// Numbers of each item, the largest first; the items are in the descending order of these.
    items: &'a [&'a [f64]],
    needed: f64,
    most: usize,
    /// How many sets may still be looked at.
    left: usize,
    pub found: Vec<Vec<Choice>>,
}

/// Sets that are looked at for each that may be found.
const LOOKS: usize = 64;

impl<'a> Sets<'a> {
    /// All of them; `None` where even the empty one reaches the sum or there are more than `most`. Where the largest
    /// numbers of all items do not reach it together, no pair has it, and one set of all is as good as any.
    pub fn reaching(items: &'a [&'a [f64]], needed: f64, most: usize) -> Option<Self> {
        if needed <= 0.0 || needed.is_nan() {
            return None;
        }
        let mut sets = Self { items, needed, most, left: most.saturating_mul(LOOKS), found: Vec::new() };
        if sets.largest(0) < needed {
            let some = (0..items.len()).filter(|&item| !items[item].is_empty());
            sets.found.push(some.map(|item| Choice { item, number: 0 }).collect());
            return Some(sets);
        }
        sets.extend(&mut Vec::new(), 0, 0.0).then_some(sets)
    }

    /// The most that items from `from` on have together.
    fn largest(&self, from: usize) -> f64 {
        self.items[from..].iter().filter_map(|numbers| numbers.first()).sum()
    }

    /// Adds the sets that begin with `chosen`, whose numbers have this sum, and go on with items from `from` on.
    fn extend(&mut self, chosen: &mut Vec<Choice>, from: usize, sum: f64) -> bool {
        for item in from..self.items.len() {
            if sum + self.largest(item) < self.needed {
                break;
            }
            for (number, &value) in self.items[item].iter().enumerate() {
                chosen.push(Choice { item, number });
                let goes_on = match sum + value >= self.needed {
                    true => self.add(chosen, sum + value),
                    false => self.extend(chosen, item + 1, sum + value),
                };
                chosen.pop();
                if !goes_on {
                    return false;
                }
            }
        }
        true
    }

    /// Adds a set that reaches the sum, unless it clearly does so without one of its numbers. Says whether there may be
    /// more.
    fn add(&mut self, chosen: &[Choice], sum: f64) -> bool {
        let is_needed = |choice: &Choice| {
            let without = sum - self.items[choice.item][choice.number];
            without.is_nan() || without < self.needed + SLACK * sum
        };
        if chosen.iter().all(is_needed) {
            self.found.push(chosen.to_vec());
        }
        self.left = self.left.saturating_sub(1);
        self.found.len() <= self.most && self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(numbers: &[f64], needed: f64, most: usize) -> Option<Vec<Vec<usize>>> {
        let items: Vec<_> = numbers.iter().map(std::slice::from_ref).collect();
        Sets::reaching(&items, needed, most).map(|sets| sets.found.into_iter().map(items_of).collect())
    }

    fn items_of(set: Vec<Choice>) -> Vec<usize> {
        set.into_iter().map(|choice| choice.item).collect()
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
        let one_each = |of_unknown| one_each(&weights, of_unknown, 60.0, 4).map(|sets| sets.into_iter().map(items_of));
        assert_eq!(one_each(0.0).map(Vec::from_iter), Some(vec![vec![0], vec![1]]), "both others have 45");
        assert!(one_each(60.0).is_none());
    }

    #[test]
    fn one_number_of_each_item() {
        let sets = |items: &[&[f64]], needed| Sets::reaching(items, needed, 9).map(|sets| sets.found);
        let chosen = |numbers: &[(usize, usize)]| -> Vec<Choice> {
            numbers.iter().map(|&(item, number)| Choice { item, number }).collect()
        };
        let both: [&[f64]; 2] = [&[3.0, 2.0], &[2.0, 1.0]];
        let of_four = [chosen(&[(0, 0), (1, 0)]), chosen(&[(0, 0), (1, 1)]), chosen(&[(0, 1), (1, 0)])];
        assert_eq!(sets(&both, 4.0), Some(of_four.to_vec()));
        assert_eq!(sets(&both, 2.0), Some(vec![chosen(&[(0, 0)]), chosen(&[(0, 1)]), chosen(&[(1, 0)])]));
        // the second number of the first item adds nothing to 3
        assert_eq!(sets(&[&[4.0, 1.0], &[3.0]], 2.5), Some(vec![chosen(&[(0, 0)]), chosen(&[(1, 0)])]));
        assert_eq!(sets(&[&[4.0], &[]], 4.0), Some(vec![chosen(&[(0, 0)])]));
        assert_eq!(sets(&[&[4.0], &[]], 5.0), Some(vec![chosen(&[(0, 0)])]), "it is never reached");
    }
}
