//! What follows from `weighted_similarity(s1, t1, w1, s2, t2, w2, ..) >= T`: an OR of ANDs that indexes serve.
//!
//! Where NULL counts as 0, the attributes that contribute have to reach `T` together, each with a similarity of at most
//! what is possible for it. The smallest such sets are the clauses:
//!
//! ```text
//! weighted_similarity(artist, 0.6, 20, title, 0.6, 30, track1, 0.5, 25, track2, 0.5, 25) >= 0.6
//!
//! artist >= 0.6 AND title >= 0.6 AND track1 >= 0.5          20 + 30 + 25 of 100
//! artist >= 0.6 AND title >= 0.6 AND track2 >= 0.5          20 + 30 + 25
//! artist >= 0.6 AND track1 >= 0.5 AND track2 >= 0.5         20 + 25 + 25
//! title >= 0.6 AND track1 >= 0.5 AND track2 >= 0.5          30 + 25 + 25
//! ```
//!
//! An attribute that contributes is at least as similar as its threshold says, and as `T` requires of it where all
//! others are as similar as possible. The others of its clause alone must not be taken for that, because those of no
//! clause may contribute too. Where NULL leaves the average, an average of at least `T` needs one attribute of at least
//! `T`.
//!
//! The condition itself is asked of what passes. Floating-point sums of products with weights that are not negative
//! rise with each similarity, up to an error of about `attributes * 1e-16` of the largest sum, which [`SLACK`] covers.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, Operator, lit};

use super::normal_form::push_down_negation;
use super::range::{constant, is_null, number, range};
use super::threshold::{Threshold, under_casts};
use super::{Conjunction, NormalForm, Sides, recognise, truth};
use crate::functions::{self, Missing, WEIGHTED_SIMILARITY, Weighting};

/// What sums and quotients may be off, in proportion to the largest sum of up to [`MOST_ATTRIBUTES`].
const SLACK: f64 = 1e-12;

/// More attributes than that are left alone.
const MOST_ATTRIBUTES: usize = 1000;

/// Weights from which on products with them keep their precision.
const LEAST_WEIGHT: f64 = 1e-200;

/// `condition` with what follows from its weighted similarities, up to `most` clauses each; `None` where nothing does.
pub fn with_clauses(condition: &Expr, sides: Sides<'_>, most: usize) -> Option<Expr> {
    // the closure never fails
    let mentioned = condition.exists(|e| Ok(is_weighted(e))).unwrap_or(false);
    if !mentioned {
        return None;
    }
    let parts = truth::conjuncts(condition, sides).into_iter().map(|part| push_down_negation(part, false));
    let mut found = false;
    let parts: Vec<Expr> = parts.map(|part| extended(part, sides, most, &mut found)).collect();
    conjunction(parts).filter(|_| found)
}

fn is_weighted(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == WEIGHTED_SIMILARITY && functions::is_known(&call.func))
}

/// `condition`, in which each comparison that something follows from stands beside it.
fn extended(condition: Expr, sides: Sides<'_>, most: usize, found: &mut bool) -> Expr {
    match condition {
        Expr::Alias(alias) => extended(*alias.expr, sides, most, found),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let [left, right] = [left, right].map(|side| Box::new(extended(*side, sides, most, found)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        other => match implied(&other, sides, most) {
            Some(clauses) => {
                *found = true;
                clauses.and(other)
            }
            None => other,
        },
    }
}

/// The clauses that follow from a comparison.
fn implied(comparison: &Expr, sides: Sides<'_>, most: usize) -> Option<Expr> {
    let (call, least) = at_least(comparison, sides)?;
    let weighting = Weighting::of(&call.args)?;
    let light = |weight: f64| weight > 0.0 && weight < LEAST_WEIGHT;
    let many = weighting.attributes.len() > MOST_ATTRIBUTES;
    if many || least.is_nan() || least <= 0.0 || weighting.attributes.iter().any(|attribute| light(attribute.weight)) {
        return None;
    }
    let attributes = attributes(call, &weighting, sides);
    match weighting.missing {
        Missing::Zero => together(attributes, least * weighting.total(), sides, most),
        Missing::Skip => any_of(attributes, least, sides, most),
    }
}

/// The call of a comparison with a constant that bounds it from below, and that bound.
fn at_least<'a>(comparison: &'a Expr, sides: Sides<'_>) -> Option<(&'a ScalarFunction, f64)> {
    let (score, op, literal) = recognise::comparison(comparison)?;
    if !matches!(op, Operator::GtEq | Operator::Gt | Operator::Eq) {
        return None;
    }
    let (inner, casts) = under_casts(score, sides)?;
    let Expr::ScalarFunction(call) = inner else { return None };
    if !is_weighted(inner) {
        return None;
    }
    let least = if casts.is_empty() {
        number(literal)?
    } else {
        let threshold = Threshold { data_type: &DataType::Float64, casts: &casts, op, constant: literal };
        threshold.bounds(range(inner, sides)?)?.lower()?.value
    };
    Some((call, least))
}

/// An attribute that may contribute to a weighted similarity.
struct Attribute<'a> {
    similarity: &'a Expr,
    threshold: f64,
    weight: f64,
    /// The most that it contributes to the sum.
    most: f64,
}

impl Attribute<'_> {
    /// What an index serves of the condition that the attribute contributes and is at least `bound`.
    fn served(&self, bound: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
        let bound = bound.max(self.threshold);
        let Some((when, then)) = conditional(self.similarity) else {
            return Some(at_least_similar(self.similarity.clone(), bound)).filter(|c| is_served(c, sides, most));
        };
        let parts = [when, at_least_similar(then, bound)];
        conjunction(parts.into_iter().filter(|part| is_served(part, sides, most)))
    }
}

/// `similarity >= bound`; what contributes is more than 0.
fn at_least_similar(similarity: Expr, bound: f64) -> Expr {
    if bound > 0.0 { similarity.gt_eq(lit(bound)) } else { similarity.gt(lit(0.0)) }
}

/// `CASE WHEN c THEN s END` as `c` and `s`, where what stands for other pairs contributes nothing.
fn conditional(similarity: &Expr) -> Option<(Expr, Expr)> {
    match similarity {
        Expr::Alias(alias) => conditional(&alias.expr),
        Expr::Cast(Cast { expr, field }) => {
            let (when, then) = conditional(expr)?;
            Some((when, Expr::Cast(Cast { expr: Box::new(then), field: field.clone() })))
        }
        Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
            let [(when, then)] = when_then_expr.as_slice() else { return None };
            let nothing = |value: &Expr| is_null(value) || constant(value).is_some_and(|value| value <= 0.0);
            let contributes = else_expr.as_ref().is_none_or(|value| nothing(value));
            contributes.then(|| (when.as_ref().clone(), then.as_ref().clone()))
        }
        _ => None,
    }
}

/// Whether an index serves `condition` alone.
fn is_served(condition: &Expr, sides: Sides<'_>, most: usize) -> bool {
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

/// Attributes of a call that can contribute, the most important first.
fn attributes<'a>(call: &'a ScalarFunction, weighting: &Weighting, sides: Sides<'_>) -> Vec<Attribute<'a>> {
    let all = call.args.iter().step_by(3).zip(&weighting.attributes).filter(|(_, constants)| constants.weight > 0.0);
    let attributes = all.map(|(similarity, constants)| {
        let highest = range(similarity, sides).map_or(f64::INFINITY, |values| values.high.max(0.0));
        let (threshold, weight) = (constants.threshold, constants.weight);
        Attribute { similarity, threshold, weight, most: weight * highest }
    });
    let mut attributes: Vec<_> = attributes.filter(|attribute| attribute.most > 0.0).collect();
    attributes.sort_by(|one, other| other.most.total_cmp(&one.most));
    attributes
}

/// A bound of at most this one with few digits, as it stands in EXPLAIN.
fn short(bound: f64) -> f64 {
    if bound.abs() < 1e6 { (bound * 1e6).floor() / 1e6 } else { bound }
}

/// The clauses of attributes that reach the sum `least` together.
fn together(attributes: Vec<Attribute<'_>>, least: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
    let needed = Needed::new(&attributes, least);
    let conditions = attributes.iter().map(|attribute| attribute.served(needed.of(attribute), sides, most));
    let conditions = attributes.iter().map(|attribute| attribute.most).zip(conditions);
    let (known, unknown): (Vec<_>, Vec<_>) = conditions.partition(|(_, condition)| condition.is_some());
    let of_unknown: f64 = unknown.iter().map(|(contribution, _)| contribution).sum();
    let (contributions, conditions): (Vec<f64>, Vec<Expr>) =
        known.into_iter().filter_map(|(contribution, condition)| Some((contribution, condition?))).unzip();
    // attributes that take part only make clauses narrower: without the least important ones there are fewer
    let clauses = (1..=contributions.len()).rev().find_map(|part| {
        let rest = of_unknown + contributions[part..].iter().sum::<f64>();
        Some(Sets::reaching(&contributions[..part], needed.together - rest, most)?.found)
    });
    let clauses = clauses.or_else(|| one_each(&contributions, of_unknown, needed.together, most))?;
    disjunction(
        clauses.into_iter().filter_map(|clause| conjunction(clause.into_iter().map(|at| conditions[at].clone()))),
    )
}

/// What attributes have to contribute to a sum.
struct Needed {
    /// All of them together, a little less than the sum.
    together: f64,
    /// All that is possible.
    largest: f64,
}

impl Needed {
    fn new(attributes: &[Attribute<'_>], least: f64) -> Self {
        let contributions = attributes.iter().map(|attribute| attribute.most);
        // a set with an unlimited attribute reaches any sum
        let limited: f64 = contributions.clone().filter(|most| most.is_finite()).sum();
        Self { together: least - SLACK * (limited + least), largest: contributions.sum() }
    }

    /// The least similarity of one attribute, where all others contribute what they can.
    fn of(&self, attribute: &Attribute<'_>) -> f64 {
        let others = self.largest - attribute.most;
        if others.is_finite() { short((self.together - others) / attribute.weight) } else { f64::NEG_INFINITY }
    }
}

/// So many of the most important attributes that the others do not reach the sum; one of them contributes.
fn one_each(contributions: &[f64], of_unknown: f64, needed: f64, most: usize) -> Option<Vec<Vec<usize>>> {
    let rest = |part: usize| of_unknown + contributions[part..].iter().sum::<f64>();
    let part = (1..=contributions.len()).find(|&part| rest(part) < needed)?;
    (part <= most).then(|| (0..part).map(|at| vec![at]).collect())
}

/// The smallest sets of numbers that reach a sum, the numbers in descending order.
struct Sets<'a> {
    numbers: &'a [f64],
    needed: f64,
    most: usize,
    found: Vec<Vec<usize>>,
}

impl<'a> Sets<'a> {
    /// All of them; `None` where even the empty one reaches the sum or there are more than `most`. Where all numbers
    /// together do not reach it, no pair has it, and one set of all is as good as any.
    fn reaching(numbers: &'a [f64], needed: f64, most: usize) -> Option<Self> {
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

/// A clause for each attribute that may be as similar as the average.
fn any_of(attributes: Vec<Attribute<'_>>, least: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
    let bound = short(least - SLACK * least);
    let similar: Vec<_> = attributes.iter().filter(|attribute| attribute.most >= bound * attribute.weight).collect();
    if similar.len() > most {
        return None;
    }
    let clauses: Option<Vec<Expr>> = similar.iter().map(|attribute| attribute.served(bound, sides, most)).collect();
    disjunction(clauses?)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

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

    /// Whatever the average of a pair is, some clause for that average holds for it.
    #[test]
    fn no_pair_is_lost() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..50_000 {
            let constants: Vec<[f64; 3]> = (0..rng.random_range(1..7))
                .map(|_| {
                    let threshold = *[0.0, 0.3, 0.5, 0.9, 1.0].choose(&mut rng).unwrap();
                    let weight = *[1.0, 20.0, 25.0, 0.1, 1e-9, rng.random()].choose(&mut rng).unwrap();
                    let similarity = *[1.0, threshold, 0.0, rng.random()].choose(&mut rng).unwrap();
                    [similarity, threshold, weight]
                })
                .collect();
            let weighting =
                Weighting::of(&constants.as_flattened().iter().map(|&number| lit(number)).collect::<Vec<_>>());
            let Some(weighting) = weighting else { continue };
            let average = weighting.average(constants.iter().map(|[similarity, ..]| Some(*similarity))).unwrap();
            if average <= 0.0 {
                continue;
            }
            let some = lit(true);
            let attributes = constants.iter().map(|&[_, threshold, weight]| Attribute {
                similarity: &some,
                threshold,
                weight,
                most: weight,
            });
            let attributes: Vec<_> = attributes.collect();
            let mut order: Vec<usize> = (0..constants.len()).collect();
            order.sort_by(|&one, &other| attributes[other].most.total_cmp(&attributes[one].most));
            let needed = Needed::new(&attributes, average * weighting.total());
            let numbers: Vec<f64> = order.iter().map(|&at| attributes[at].most).collect();
            let Some(clauses) = sets(&numbers, needed.together, 100) else { continue };
            let holds = |at: usize| {
                let (similarity, attribute) = (constants[at][0], &attributes[at]);
                similarity > 0.0 && similarity >= attribute.threshold.max(needed.of(attribute))
            };
            assert!(clauses.iter().any(|clause| clause.iter().all(|&at| holds(order[at]))), "{constants:?} {average}");
        }
    }
}
