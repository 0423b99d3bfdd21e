//! A weighted similarity where NULL counts as 0.
//!
//! The attributes that contribute have to reach `T` together, each with a similarity of at most what is possible for
//! it. The smallest such sets are the clauses:
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
//! clause may contribute too.

use datafusion::logical_expr::Expr;

use super::super::Sides;
use super::super::minimal_sets::clauses_reaching;
use super::attribute::Attribute;
use super::needed::Needed;

/// The clauses of attributes that reach the sum `least` together.
pub(super) fn together(mut attributes: Vec<Attribute<'_>>, least: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
    attributes.retain(|attribute| attribute.most > 0.0);
    let needed = Needed::of(attributes.iter().map(|attribute| attribute.most), least);
    let bound = |attribute: &Attribute<'_>| needed.bound(attribute.most, attribute.weight);
    let conditions = attributes.iter().map(|attribute| attribute.served(bound(attribute), sides, most));
    let conditions = attributes.iter().map(|attribute| attribute.most).zip(conditions);
    clauses_reaching(conditions.collect(), needed.together, most)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::lit;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::super::super::minimal_sets::{Choice, Sets};
    use super::super::attribute::WhenMissing;
    use super::*;
    use crate::functions::Weighting;

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
                missing: WhenMissing::Unknown,
            });
            let attributes: Vec<_> = attributes.collect();
            let mut order: Vec<usize> = (0..constants.len()).collect();
            order.sort_by(|&one, &other| attributes[other].most.total_cmp(&attributes[one].most));
            let needed = Needed::of(attributes.iter().map(|attribute| attribute.most), average * weighting.total());
            let numbers: Vec<[f64; 1]> = order.iter().map(|&at| [attributes[at].most]).collect();
            let numbers: Vec<&[f64]> = numbers.iter().map(<[f64; 1]>::as_slice).collect();
            let Some(clauses) = Sets::reaching(&numbers, needed.together, 100).map(|sets| sets.found) else { continue };
            let holds = |at: usize| {
                let (similarity, attribute) = (constants[at][0], &attributes[at]);
                similarity > 0.0
                    && similarity >= attribute.threshold.max(needed.bound(attribute.most, attribute.weight))
            };
            let holds = |choice: &Choice| holds(order[choice.item]);
            assert!(clauses.iter().any(|clause| clause.iter().all(holds)), "{constants:?} {average}");
        }
    }
}
