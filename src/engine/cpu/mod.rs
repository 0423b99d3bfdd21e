//! The CPU engine.

pub mod edit;
mod keep;
mod near;
pub mod rules;
pub mod set;
pub mod signature;
pub mod vectors;

use datafusion::common::Result;

use super::{BuildContext, Index, KeyColumn};
use crate::measure::EditMeasure;
use crate::predicate::Test;
use edit::{EditIndex, EditPredicate};
use set::{SetIndex, SetPredicate};

/// Indexes the keys of a build side for `test`.
pub fn build(test: Test, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
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

/// The access paths that the cost of the collected keys decides between.
pub fn access_paths(test: Test) -> &'static str {
    match test {
        Test::Set { .. } => "prefix index or signature tiles (by the cost over the collected keys)",
        Test::Edit { measure: EditMeasure::Jaro | EditMeasure::JaroWinkler, .. } => "signature tiles",
        Test::Edit { .. } => "segment index or signature tiles (by the cost over the collected keys)",
        Test::Vector(_) => "sorted runs, k-d blocks or metric blocks (by the dimension of the collected keys)",
    }
}
