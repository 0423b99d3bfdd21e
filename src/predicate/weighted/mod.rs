//! What follows from `weighted_similarity(s1, t1, w1, s2, t2, w2, ..) >= T`: an OR of ANDs that indexes serve.
//!
//! The condition itself is asked of what passes. Floating-point sums of products with weights that are not negative
//! rise with each similarity, up to an error of about `attributes * 1e-16` of the largest sum, which `SLACK` covers.

mod attribute;
mod needed;
mod skipping;
mod together;

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::Sides;
use crate::functions::{Missing, Weighting};
use attribute::attributes;
use skipping::Skipping;
use together::together;

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
        Missing::Skip => {
            Skipping::of(attributes, least, |attribute, bound| attribute.served(bound, sides, most)).clauses(most)
        }
    }
}
