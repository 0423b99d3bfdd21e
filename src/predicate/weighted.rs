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

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Case, Cast, Expr, lit};

use super::Sides;
use super::minimal_sets::{SLACK, clauses_reaching, is_served};
use super::range::{constant, is_null, range};
use crate::functions::{Missing, Weighting};

/// More attributes than that are left alone.
const MOST_ATTRIBUTES: usize = 1000;

/// Weights from which on products with them keep their precision.
const LEAST_WEIGHT: f64 = 1e-200;

/// The clauses that follow from a weighted similarity of at least `least`.
pub(super) fn clauses(call: &ScalarFunction, least: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
    let weighting = Weighting::of(&call.args)?;
    let light = |weight: f64| weight > 0.0 && weight < LEAST_WEIGHT;
    let many = weighting.attributes.len() > MOST_ATTRIBUTES;
    if many || weighting.attributes.iter().any(|attribute| light(attribute.weight)) {
        return None;
    }
    let attributes = attributes(call, &weighting, sides);
    match weighting.missing {
        Missing::Zero => together(attributes, least * weighting.total(), sides, most),
        Missing::Skip => any_of(attributes, least, sides, most),
    }
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
    clauses_reaching(conditions.collect(), needed.together, most)
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

    use super::super::minimal_sets::Sets;
    use super::*;

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
            let Some(clauses) = Sets::reaching(&numbers, needed.together, 100).map(|sets| sets.found) else { continue };
            let holds = |at: usize| {
                let (similarity, attribute) = (constants[at][0], &attributes[at]);
                similarity > 0.0 && similarity >= attribute.threshold.max(needed.of(attribute))
            };
            assert!(clauses.iter().any(|clause| clause.iter().all(|&at| holds(order[at]))), "{constants:?} {average}");
        }
    }
}
