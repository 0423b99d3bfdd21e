//! The order in which the rows of a join come out, and what a plan may assume of them.
//!
//! A join that emits pairs keeps the order of its probe rows (`in_order` says how), where no row of the build side
//! comes out after all pairs, beside NULLs. A semi or anti join emits the rows of one side as they came. Each output
//! partition is in order by itself.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::equivalence::{ProjectionMapping, join_equivalence_properties};
use datafusion::physical_plan::ExecutionPlan;

use super::emission::{Emission, Rows};
use super::output::Output;
use super::spec::{JoinInputs, JoinSpec};

/// The side whose order is kept; `None` where its input has no order, too.
///
/// The pairs of a self-join on one input are found from both ends and keep none. DataFusion takes column `i` of any
/// operator's output for the one of both inputs' columns in a row, which it is not where the right side comes out
/// alone.
pub(super) fn kept(inputs: &JoinInputs, spec: &JoinSpec) -> Option<JoinSide> {
    let emission = Emission::of(spec.join_type, spec.build);
    let two = !inputs.is_self_join();
    let side = match emission {
        Emission { pairs: true, build: Rows::None, .. } if two => spec.build.negate(),
        Emission { pairs: false, build: Rows::None, .. } if two => only_left(spec.build.negate())?,
        Emission { pairs: false, probe: Rows::None, .. } => only_left(spec.build)?,
        _ => return None,
    };
    inputs.side(side).properties().output_ordering().map(|_| side)
}

fn only_left(side: JoinSide) -> Option<JoinSide> {
    (side == JoinSide::Left).then_some(side)
}

/// What is known of the rows of `output`, given the side whose order they have.
///
/// # Errors
/// Where DataFusion cannot derive it.
pub(super) fn equivalences(
    inputs: &JoinInputs,
    spec: &JoinSpec,
    kept: Option<JoinSide>,
    projection: Option<&[usize]>,
    output: &SchemaRef,
) -> Result<EquivalenceProperties> {
    let Some(kept) = kept else { return Ok(EquivalenceProperties::new(Arc::clone(output))) };
    let (left, right) = inputs.sides();
    let whole = match projection {
        Some(_) => Output::new(&left.schema(), &right.schema(), spec.join_type, None).schema,
        None => Arc::clone(output),
    };
    // what holds for all rows of the other side does not hold for the NULLs of an outer join
    let of = |side, input: &Arc<dyn ExecutionPlan>| match side == kept || spec.join_type == JoinType::Inner {
        true => input.properties().equivalence_properties().clone(),
        false => EquivalenceProperties::new(input.schema()),
    };
    let known = join_equivalence_properties(
        of(JoinSide::Left, left),
        of(JoinSide::Right, right),
        &spec.join_type,
        Arc::clone(&whole),
        &[JoinSide::Left, JoinSide::Right].map(|side| side == kept),
        // the rows of the other side come in any order
        None,
        &[],
    )?;
    let Some(projection) = projection else { return Ok(known) };
    Ok(known.project(&ProjectionMapping::from_indices(projection, &whole)?, Arc::clone(output)))
}
