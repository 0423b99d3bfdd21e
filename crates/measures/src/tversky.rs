//! Tversky index: the overlap against what only one of the sets holds, each side with a weight of its own.
//!
//! Tversky, Features of Similarity, Psychological Review 84 (1977). Weights of 1 and 1 give Jaccard, of 0.5 and 0.5
//! Dice, of 1 and 0 containment.

use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};
use crate::{FunctionDoc, Parameter, Weights};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "tversky",
    doc: FunctionDoc {
        syntax: "tversky(a, b, alpha, beta [, q])",
        description: "The overlap o over o + alpha * (what only a holds) + beta * (what only b holds), of two lists or \
                      of the q-grams of two strings. 0 where they share nothing.",
        example: ("tversky(['a', 'b'], ['b', 'c', 'd'], 0.8, 0.2)", "0.45454545454545453"),
    },
    parameters: &[
        Parameter {
            name: "alpha",
            description: "The weight of each element that only a holds, a constant of at least 0.",
            largest: Weights::LARGEST,
            default: None,
        },
        Parameter {
            name: "beta",
            description: "The weight of each element that only b holds, a constant of at least 0.",
            largest: Weights::LARGEST,
            default: None,
        },
    ],
    tokenizer: None,
    is_count: false,
    is_symmetric: false,
    // weights near 0 leave less than the rounding of the denominator
    is_monotone: false,
    jaccard_floor,
    bounds,
};

/// `o / (o + alpha (|a| - o) + beta (|b| - o))`, one division in double precision; 0 where the sets share nothing.
#[inline]
pub fn score(overlap: Overlap, weights: Weights) -> f64 {
    let Overlap { common, left, right } = overlap;
    // with weights of 0 it would be 0 / 0
    if common == 0 {
        return 0.0;
    }
    let [alpha, beta] = weights.get();
    let [only_left, only_right] = [left - common, right - common].map(|count| count as f64);
    common as f64 / (common as f64 + alpha * only_left + beta * only_right)
}

/// Covers the rounding of a score: one of at least `t` is then at least this in exact arithmetic.
fn exactly(t: f64) -> f64 {
    t * (1.0 - 1e-12)
}

/// A quotient of numbers that are not negative; 0 where it says nothing.
fn share(part: f64, whole: f64) -> f64 {
    let share = part / whole;
    if share.is_finite() { share } else { 0.0 }
}

/// Solved for the overlap, `o (1 - t + t alpha + t beta) >= t (alpha |a| + beta |b|)`. The smaller set may be the
/// whole overlap: that `|b|` reaches `t` gives `|b| (1 - t + t alpha) >= t alpha |a|`, and so for `|a|`.
fn bounds(t: f64, weights: Weights) -> SetBounds {
    let t = exactly(t);
    let [alpha, beta] = weights.get().map(|weight| t * weight);
    let overlap = |weight| share(weight, 1.0 - t + alpha + beta);
    let of_other = |weight| share(weight, 1.0 - t + weight);
    SetBounds {
        overlap: LeastOverlap::Linear { left: overlap(alpha), right: overlap(beta) },
        left_of_right: of_other(beta),
        right_of_left: of_other(alpha),
    }
}

/// With the smaller weight for both sides a score is no smaller.
fn jaccard_floor(least: f64, weights: Weights) -> f64 {
    let [alpha, beta] = weights.get();
    let t = exactly(least.min(1.0));
    let both = t * alpha.min(beta);
    share(both, 1.0 - t + both)
}
