//! The CPU engine.

pub(super) mod columns;
pub mod edit;
pub(super) mod fingerprints;
mod keep;
pub(super) mod near;
pub(super) mod rules;
pub mod set;
pub mod signature;
mod small_groups;
pub mod vectors;

use crate::error::Result;

use super::edits::EditPredicate;
use super::nearest::NearestIndex;
use super::sets::SetPredicate;
use super::{BuildContext, Index, KeyColumn};
use crate::condition::Test;
use edit::{EditIndex, NearestTexts};
use set::{NearestSets, SetIndex};
use similarity_measures::EditMeasure;

/// Makes the keys of a build side ready for `test`.
///
/// # Errors
/// Keys that `test` is not about, a refused reservation, a cancelled build.
pub fn build(test: Test, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
    match small_groups::build(test, keys, context, |keys| index(test, keys, context))? {
        Some(groups) => Ok(Box::new(groups)),
        None => index(test, keys, context),
    }
}

/// Indexes the keys of a build side for `test`.
fn index(test: Test, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
    Ok(match test {
        Test::Set { tokenizer, measure, bounds } => {
            Box::new(SetIndex::try_new(tokenizer, SetPredicate { measure, bounds }, None, keys, context)?)
        }
        Test::Edit { measure, bounds } => {
            Box::new(EditIndex::try_new(EditPredicate { measure, bounds }, None, keys, context)?)
        }
        Test::Vector(test) => vectors::epsilon::build(test, keys, context)?,
    })
}

/// Makes the keys of a build side, each row with a rank, ready for being ranked by the score of `test`. Its bounds are
/// ignored.
///
/// # Errors
/// Keys that have no such score, a refused reservation, a cancelled build.
pub fn build_nearest(
    test: Test,
    keys: &KeyColumn,
    ranks: Vec<u32>,
    context: &BuildContext<'_>,
) -> Result<Box<dyn NearestIndex>> {
    Ok(match test {
        Test::Set { tokenizer, measure, .. } => {
            Box::new(NearestSets::try_new(tokenizer, measure, keys, ranks, context)?)
        }
        Test::Edit { measure, .. } => Box::new(NearestTexts::try_new(measure, keys, ranks, context)?),
        Test::Vector(test) => vectors::nearest::build(test.measure, keys, ranks, context)?,
    })
}

/// The access paths of [`build_nearest`].
pub fn nearest_access_paths(test: Test) -> &'static str {
    match test {
        Test::Set { .. } => "inverted index",
        Test::Edit { .. } => "signature tiles",
        Test::Vector(_) => "k-d blocks or metric blocks",
    }
}

/// The access paths that the cost of the collected keys decides between.
pub fn access_paths(test: Test) -> &'static str {
    match test {
        Test::Set { .. } => "prefix index or signature tiles (by the cost over the collected keys)",
        Test::Edit { measure: EditMeasure::Jaro | EditMeasure::JaroWinkler, .. } => "signature tiles",
        Test::Edit { .. } => "segment index or signature tiles (by the cost over the collected keys)",
        Test::Vector(_) => "sorted runs, k-d blocks or metric blocks (by the dimension of the collected keys)",
    }
}
