//! Jaro-Winkler similarity: Jaro with a boost for a common prefix.
//!
//! Winkler raises similarities above 0.7 alone, each character of the prefix weighing 0.1. Both numbers are parameters:
//! Forchhammer et al., Duplicate Detection on GPUs (BTW 2013), raise every positive similarity, which is a threshold
//! of 0.

use super::jaro::{self, jaro_similarity};
use crate::edit_descriptor::{EditDescriptor, EditKernel, EditScale};
use crate::{FunctionDoc, Parameter, Weights};

/// The longest prefix that counts, in characters.
pub const LONGEST_PREFIX: usize = 4;

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "jaro_winkler_similarity",
    doc: Some(FunctionDoc {
        syntax: "jaro_winkler_similarity(a, b [, prefix_weight [, boost_above]])",
        description: "Jaro's similarity s. Where it is above boost_above, a common prefix of n characters, at most 4, \
                      raises it to s + prefix_weight * n * (1 - s).",
        example: ("round(jaro_winkler_similarity('martha', 'marhta'), 3)", "0.961"),
    }),
    parameters: &[
        Parameter {
            name: "prefix_weight",
            description: "The weight of each character of the common prefix, a constant from 0 to 0.25; 0.1 if absent.",
            // four characters make no more than the whole of what lacks to 1
            largest: 1.0 / LONGEST_PREFIX as f64,
            default: Some(PrefixBoost::DEFAULT.weight),
        },
        Parameter {
            name: "boost_above",
            description: "The Jaro similarity above which a common prefix counts, a constant from 0 to 1; 0.7 if \
                          absent. With 0, every positive similarity is raised.",
            largest: 1.0,
            default: Some(PrefixBoost::DEFAULT.above),
        },
    ],
    scale: EditScale::Jaro { is_raised: true },
    cost: jaro::MEASURE.cost,
    kernel: Some(EditKernel::Jaro),
};

/// How a common prefix raises a Jaro similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixBoost {
    /// Weight of each character of the prefix, up to 0.25.
    weight: f64,
    /// Similarity above which the prefix counts.
    above: f64,
}

impl PrefixBoost {
    /// Winkler's constants.
    const DEFAULT: Self = Self { weight: 0.1, above: 0.7 };

    #[inline]
    pub(crate) fn of(weights: Weights) -> Self {
        let [weight, above] = weights.get();
        Self { weight, above }
    }

    /// Whether a prefix counts for this Jaro similarity.
    #[inline]
    pub fn applies(self, jaro: f64) -> bool {
        jaro > self.above
    }

    /// The score of a Jaro similarity for which a prefix of `prefix` characters, at most 4, counts.
    #[inline]
    pub fn raised(self, jaro: f64, prefix: usize) -> f64 {
        // This order of operations is the definition: it decides the last bit of the score.
        (jaro + self.weight * prefix as f64 * (1.0 - jaro)).min(1.0)
    }

    /// A Jaro similarity below which no prefix of up to `prefix` characters makes a score of at least `score`, up to a
    /// few roundings of numbers below 1.
    ///
    /// With `r` the weight of the whole prefix, the score of a Jaro similarity `s` above the threshold is
    /// `s + r (1 - s)`. Solved for `s`, that is `(score - r) / (1 - r)`. A score up to the threshold is not raised.
    pub fn least_jaro(self, score: f64, prefix: usize) -> f64 {
        if !self.applies(score) {
            return score;
        }
        let raise = self.weight * prefix.min(LONGEST_PREFIX) as f64;
        // the division enlarges what the score was rounded by, without bound for a raise near 1
        let least = (score - ROUNDING - raise) / (1.0 - raise);
        // at a raise of 1 it is no number
        least.max(self.above)
    }
}

/// More than the operations of a score round it by.
const ROUNDING: f64 = 1e-15;

/// The Jaro-Winkler similarity of `a` and `b`, between 0 and 1.
///
/// A Jaro similarity `s` above 0.7 becomes `s + 0.1 p (1 - s)`, `p` being the number of characters, at most 4,
/// that `a` and `b` begin with in common; a lower one stays.
///
/// # Example
///
/// ```
/// use similarity_measures::jaro_winkler::jaro_winkler_similarity;
///
/// assert!((jaro_winkler_similarity("MARTHA", "MARHTA") - 0.961).abs() < 0.001);
/// ```
pub fn jaro_winkler_similarity(a: &str, b: &str) -> f64 {
    boosted(a, b, PrefixBoost::DEFAULT)
}

#[inline]
fn boosted(a: &str, b: &str, boost: PrefixBoost) -> f64 {
    let jaro = jaro_similarity(a, b);
    if !boost.applies(jaro) {
        return jaro;
    }
    let prefix = a.chars().zip(b.chars()).take(LONGEST_PREFIX).take_while(|(x, y)| x == y).count();
    boost.raised(jaro, prefix)
}

#[inline]
pub(crate) fn score(a: &str, b: &str, weights: Weights) -> Option<f64> {
    Some(boosted(a, b, PrefixBoost::of(weights)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EditMeasure;
    use crate::test_strings::pairs;

    fn with(weight: f64, above: f64) -> EditMeasure {
        EditMeasure::JARO_WINKLER.with(&[weight, above]).unwrap()
    }

    fn common_prefix(a: &str, b: &str) -> usize {
        a.chars().zip(b.chars()).take(4).take_while(|(x, y)| x == y).count()
    }

    #[test]
    fn known_values() {
        assert!((jaro_winkler_similarity("martha", "marhta") - 0.961_111_111_111_111_1).abs() < 1e-15);
        assert!((jaro_winkler_similarity("dixon", "dicksonx") - 0.813_333_333_333_333_3).abs() < 1e-15);
    }

    #[test]
    fn only_above_the_boost() {
        assert_eq!(jaro_winkler_similarity("abcd", "abxyzw"), jaro_similarity("abcd", "abxyzw"));
        assert_eq!(jaro_winkler_similarity("", ""), 1.0);
        assert_eq!(jaro_winkler_similarity("", "a"), 0.0);
        assert_eq!(jaro_winkler_similarity("日本語日本語", "日本語日本語"), 1.0);
    }

    #[test]
    fn constants_are_winklers_unless_others_are_given() {
        let measure = EditMeasure::JARO_WINKLER;
        assert_eq!([measure.with(&[]), measure.with(&[0.1]), measure.with(&[0.1, 0.7])], [Some(measure); 3]);
        assert!(measure.has_default_weights() && !with(0.1, 0.5).has_default_weights());
        for wrong in [&[0.26][..], &[-0.1], &[f64::NAN], &[0.1, 1.1], &[0.1, 0.7, 0.7]] {
            assert_eq!(measure.with(wrong), None, "{wrong:?}");
        }
        for (a, b) in pairs() {
            let (jaro, prefix) = (jaro_similarity(&a, &b), common_prefix(&a, &b) as f64);
            let expected = if jaro > 0.7 { (jaro + 0.1 * prefix * (1.0 - jaro)).min(1.0) } else { jaro };
            assert_eq!(measure.score(&a, &b), Some(expected), "{a:?} {b:?}");
            assert_eq!(jaro_winkler_similarity(&a, &b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn constants_at_the_ends_of_their_ranges() {
        for (a, b) in pairs() {
            let (jaro, prefix) = (jaro_similarity(&a, &b), common_prefix(&a, &b));
            let score = |weight, above| with(weight, above).score(&a, &b).unwrap();
            assert_eq!([score(0.0, 0.0), score(0.25, 1.0), score(0.25, jaro)], [jaro; 3], "{a:?} {b:?}");
            let raised = score(0.25, 0.0);
            assert!(raised >= jaro && raised <= 1.0 && (raised > jaro || prefix == 0 || jaro == 0.0 || jaro == 1.0));
            assert!(prefix < 4 || raised == 1.0, "{a:?} {b:?}");
        }
    }

    #[test]
    fn no_smaller_jaro_similarity_reaches_a_score() {
        let weights = [0.0, 1e-300, 0.05, 0.1, 0.2, 0.25 - 1e-15, 0.25 - 1e-10, 0.25];
        let numbers = || (0..=997).map(|n| f64::from(n) / 997.0).chain([1e-300, 0.7, 1.0 - 1e-15]);
        for (weight, above) in weights.into_iter().flat_map(|w| [0.0, 0.3, 0.7, 1.0].map(|above| (w, above))) {
            let boost = PrefixBoost { weight, above };
            for (jaro, prefix) in numbers().flat_map(|jaro| (0..=4).map(move |prefix| (jaro, prefix))) {
                let score = if boost.applies(jaro) { boost.raised(jaro, prefix) } else { jaro };
                for most in prefix..6 {
                    assert!(boost.least_jaro(score, most) <= jaro + 1e-15, "{boost:?} {jaro} {prefix} {most}");
                }
            }
        }
    }
}
