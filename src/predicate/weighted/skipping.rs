//! A weighted similarity where NULL leaves the average.
//!
//! With `T` in the place of each missing similarity, the average over all attributes is at least `T` exactly where that
//! over the others is. So an attribute of a clause either contributes or is missing:
//!
//! ```text
//! weighted_similarity(artist, 0.6, 40, title, 0.6, 60, 'skip') >= 0.8
//!
//! artist >= 0.6 AND title >= 0.66                               40 + 60 of 100
//! artist >= 0.6 AND (a.title IS NULL OR b.title IS NULL)        40 + 0.8 * 60
//! title >= 0.66 AND (a.artist IS NULL OR b.artist IS NULL)      60 + 0.8 * 40
//! ```
//!
//! A pair that lacks all of them has no average. In any other pair, some attribute that is there is at least `T`. Where
//! it cannot be told when an attribute is missing, it counts as missing in all pairs.

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::{conjunction, disjunction};

use super::super::minimal_sets::{Choice, SLACK, Sets};
use super::attribute::{Attribute, WhenMissing};
use super::needed::{Needed, short};

/// Attributes whose missing similarities leave the average.
pub(super) struct Skipping {
    /// The sum that they have to reach.
    needed: f64,
    attributes: Vec<Skipped>,
}

/// What an attribute adds to a sum in which the average stands for each missing similarity.
struct Skipped {
    /// The most that it may add.
    most: f64,
    /// What it may add where neither of its conditions is known to hold.
    otherwise: f64,
    /// Condition that it is similar, and what it adds then.
    similar: Option<(Expr, f64)>,
    /// Condition that it is missing, and what it adds then.
    missing: Option<(Expr, f64)>,
    /// What is known of it where it is at least as similar as the average.
    as_average: AsAverage,
}

/// An attribute that is at least as similar as the average.
enum AsAverage {
    /// There is no such one.
    Never,
    /// A condition that an index serves.
    Where(Expr),
    /// No index serves it.
    Unserved,
}

impl Skipping {
    /// Attributes with an average of at least `least`; `served` is what an index serves of the condition that an
    /// attribute contributes and is at least a bound.
    pub fn of(
        attributes: Vec<Attribute<'_>>,
        least: f64,
        served: impl Fn(&Attribute<'_>, f64) -> Option<Expr>,
    ) -> Self {
        let most = |attribute: &Attribute<'_>| match attribute.missing {
            WhenMissing::Never => attribute.most,
            _ => attribute.most.max(least * attribute.weight),
        };
        let sum = least * attributes.iter().map(|attribute| attribute.weight).sum::<f64>();
        let needed = Needed::of(attributes.iter().map(most), sum);
        let together = needed.together;
        let average = short(least - SLACK * least);
        let attributes = attributes.into_iter().map(|attribute| {
            let most = most(&attribute);
            let contributes = attribute.most > 0.0;
            let similar = if contributes { served(&attribute, needed.bound(most, attribute.weight)) } else { None };
            let unserved = if contributes && similar.is_none() { attribute.most } else { 0.0 };
            let as_missing = least * attribute.weight;
            let as_average = match attribute.most >= average * attribute.weight {
                true => served(&attribute, average).map_or(AsAverage::Unserved, AsAverage::Where),
                false => AsAverage::Never,
            };
            let similar = similar.map(|condition| (condition, attribute.most));
            let (missing, otherwise) = match attribute.missing {
                WhenMissing::Never => (None, unserved),
                WhenMissing::Where(condition) => (Some((condition, as_missing)), unserved),
                WhenMissing::Unknown => (None, unserved.max(as_missing)),
            };
            Skipped { most, otherwise, similar, missing, as_average }
        });
        Self { attributes: attributes.collect(), needed: together }
    }

    /// At most so many clauses. Without the least important attributes there are fewer, and weaker ones.
    pub fn clauses(&self, most: usize) -> Option<Expr> {
        (0..=self.attributes.len()).rev().find_map(|part| self.clauses_of(part, most))
    }

    /// The clauses of so many of the most important attributes, whatever the others are.
    fn clauses_of(&self, part: usize, most: usize) -> Option<Expr> {
        let (known, others) = self.attributes.split_at(part);
        let otherwise = known.iter().map(|attribute| attribute.otherwise).chain(others.iter().map(|other| other.most));
        let needed = self.needed - otherwise.sum::<f64>();
        let ways: Vec<Vec<Way<'_>>> = known.iter().map(Skipped::ways).collect();
        let gains: Vec<Vec<f64>> = ways.iter().map(|ways| ways.iter().map(|way| way.gain).collect()).collect();
        let gains: Vec<&[f64]> = gains.iter().map(Vec::as_slice).collect();
        let sets = if needed > 0.0 { Sets::reaching(&gains, needed, most)?.found } else { vec![Vec::new()] };
        let mut clauses: Vec<Expr> = Vec::new();
        for set in sets {
            let conditions = || set.iter().map(|&Choice { item, number }| ways[item][number].condition.clone());
            if set.iter().any(|&Choice { item, number }| ways[item][number].is_similar) {
                clauses.extend(conjunction(conditions()));
                continue;
            }
            // all of these are missing: another one is as similar as the average
            let is_missing = |at: usize| set.iter().any(|choice| choice.item == at);
            for (_, other) in self.attributes.iter().enumerate().filter(|(at, _)| !is_missing(*at)) {
                match &other.as_average {
                    AsAverage::Never => {}
                    AsAverage::Where(condition) => clauses.extend(conjunction(conditions().chain([condition.clone()]))),
                    AsAverage::Unserved => return None,
                }
            }
        }
        if clauses.len() <= most { disjunction(clauses) } else { None }
    }
}

/// A condition of an attribute with what the sum gains where it holds.
struct Way<'a> {
    condition: &'a Expr,
    gain: f64,
    is_similar: bool,
}

impl Skipped {
    /// Conditions by which it adds to the sum, the best first.
    fn ways(&self) -> Vec<Way<'_>> {
        let ways = [(&self.similar, true), (&self.missing, false)].into_iter().filter_map(|(way, is_similar)| {
            way.as_ref().map(|(condition, adds)| Way { condition, gain: adds - self.otherwise, is_similar })
        });
        let mut ways: Vec<Way<'_>> = ways.filter(|way| way.gain > 0.0).collect();
        ways.sort_by(|one, other| other.gain.total_cmp(&one.gain));
        ways
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::utils::{split_binary, split_conjunction};
    use datafusion::logical_expr::{Operator, lit};
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::super::super::range::constant;
    use super::*;
    use crate::functions::Weighting;

    /// Whatever the average of a pair with missing similarities is, some clause for that average holds for it.
    #[test]
    fn no_pair_with_missing_similarities_is_lost() {
        let mut rng = StdRng::seed_from_u64(2);
        let (mut asked, mut narrowed) = (0, 0);
        for _ in 0..50_000 {
            let pair: Vec<(Option<f64>, [f64; 2])> = (0..rng.random_range(1..7))
                .map(|_| {
                    let threshold = *[0.0, 0.3, 0.5, 0.9, 1.0, -1.0].choose(&mut rng).unwrap();
                    let weight = *[1.0, 20.0, 25.0, 0.1, 1e-9, rng.random()].choose(&mut rng).unwrap();
                    let similarity = *[1.0, threshold, 0.0, rng.random()].choose(&mut rng).unwrap();
                    ((!rng.random_bool(0.3)).then_some(similarity), [threshold, weight])
                })
                .collect();
            let mut arguments: Vec<Expr> = pair.iter().flat_map(|(_, [t, w])| [lit(0.0), lit(*t), lit(*w)]).collect();
            arguments.push(lit("skip"));
            let Some(weighting) = Weighting::of(&arguments) else { continue };
            let Some(average) = weighting.average(pair.iter().map(|(similarity, _)| *similarity)) else { continue };
            if average <= 0.0 {
                continue;
            }
            let similarities: Vec<Expr> =
                pair.iter().map(|(similarity, _)| lit(ScalarValue::Float64(*similarity))).collect();
            let attributes = pair.iter().zip(&similarities).map(|((value, [threshold, weight]), similarity)| {
                let missing = match rng.random_range(0..4) {
                    0 => WhenMissing::Unknown,
                    1 if value.is_some() => WhenMissing::Never,
                    _ => WhenMissing::Where(lit(value.is_none())),
                };
                let most = if rng.random_bool(0.05) { f64::INFINITY } else { *weight };
                Attribute { similarity, threshold: *threshold, weight: *weight, most, missing }
            });
            let mut attributes: Vec<_> = attributes.collect();
            attributes.sort_by(|one, other| other.most.total_cmp(&one.most));
            let unserved = rng.random_range(0..20);
            let served = |attribute: &Attribute<'_>, bound: f64| {
                let bound = bound.max(attribute.threshold);
                let contributes = constant(attribute.similarity).is_some_and(|value| value > 0.0 && value >= bound);
                let is_served =
                    !similarities.get(unserved).is_some_and(|other| std::ptr::eq(other, attribute.similarity));
                is_served.then(|| lit(contributes))
            };
            let skipping = Skipping::of(attributes, average, served);
            let Some(clauses) = skipping.clauses(rng.random_range(1..100)) else { continue };
            let holds = |clause: &Expr| split_conjunction(clause).into_iter().all(|part| *part == lit(true));
            asked += 1;
            narrowed += usize::from(split_binary(&clauses, Operator::Or).into_iter().any(|clause| !holds(clause)));
            assert!(split_binary(&clauses, Operator::Or).into_iter().any(holds), "{pair:?} {average} {clauses}");
        }
        assert!(asked > 20_000 && narrowed > 10_000, "{asked} {narrowed}");
    }
}
