//! Conditions that hold for vectors that point away from each other, as conditions over one of them turned round.
//!
//! ```text
//! inner_product(a, b) <= t        inner_product(-a, b) >= -t
//! cosine_similarity(a, b) <= t    cosine_similarity(-a, b) >= -t
//! cosine_distance(a, b) >= t      cosine_distance(-a, b) <= 2 - t, which only filters
//! ```
//!
//! Floating-point numbers round to both sides of zero alike, so that a sum of products and a quotient only change their
//! sign with one of the vectors. Subtracting from 1 does not round alike; there the condition itself is asked of what
//! passes.

use super::sides::data_type;
use super::{Atom, Bounds, Condition, Sides, VectorCondition};
use crate::functions::{has_opposite, opposite};
use similarity_measures::VectorMeasure;

/// The atom that accepts what `atom` accepts, of vectors of which the left one is turned round; none where that makes
/// no condition that excludes pairs.
pub(super) fn turned(atom: &Atom, sides: Sides<'_>) -> Option<Atom> {
    let Condition::Vector(similarity) = atom.similarity else { return None };
    let (bounds, filters) = match similarity.measure {
        VectorMeasure::InnerProduct | VectorMeasure::Cosine => (similarity.bounds.negated(), atom.filters),
        VectorMeasure::CosineDistance => {
            let least = similarity.bounds.lower()?.value;
            (Bounds::at_most(2.0 - least + (1.0 + least.abs()) * ROUNDING, true), true)
        }
        _ => return None,
    };
    let similarity = Condition::Vector(VectorCondition { bounds, ..similarity });
    let possible = similarity.is_selective() && has_opposite(&data_type(&atom.left, sides)?);
    possible.then(|| Atom { left: opposite(atom.left.clone()), similarity, filters, ..atom.clone() })
}

/// Far more than two subtractions may be off, in proportion.
const ROUNDING: f64 = 1e-12;
