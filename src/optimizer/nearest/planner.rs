//! Plans the operator of a [`NearestJoinNode`].

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, SortExpr, lit};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::ExecutionPlan;

use super::node::NearestJoinNode;
use crate::exec::{JoinInputs, JoinSpec, NearestJoinExec, NearestKeys, VectorScore};
use crate::functions::is_known;
use crate::functions::nearest::{Direction, Nearest};
use crate::measure::VectorMeasure;
use crate::optimizer::physical::Physical;
use crate::optimizer::same_input::{same_expr, same_rows};
use crate::predicate::Conjunction;

/// The operator; where the acceleration is switched off (`enabled`), one that scores all candidates.
pub(in crate::optimizer) fn plan(
    node: &NearestJoinNode,
    [left, right]: [&Arc<dyn ExecutionPlan>; 2],
    physical: &Physical<'_>,
    enabled: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Nearest { rows, direction, score, then_by, condition, ties } = node.nearest();
    let condition = condition.clone().unwrap_or_else(|| lit(true));
    let Conjunction { keys: grouped, atoms, bands, residual, .. } = Conjunction::of(&condition, node.sides());
    let (equalities, ungrouped) = physical.equalities(&grouped)?;
    // the condition of an atom that only filters is part of the residual
    let indexed = atoms
        .into_iter()
        .filter(|atom| !atom.filters)
        .map(|atom| atom.condition)
        .chain(bands.into_iter().map(|band| band.condition));
    let residual = ungrouped.into_iter().chain(indexed).chain(residual).filter(|condition| *condition != lit(true));
    let keys = NearestKeys {
        rows: *rows,
        ties: *ties,
        direction: *direction,
        score: physical.filter(score)?,
        then_by: then_by.iter().map(|tie| order(tie, physical)).collect::<Result<_>>()?,
        equalities,
        residual: residual.map(|condition| physical.filter(&condition)).collect::<Result<_>>()?,
        vectors: if enabled { vectors(score, *direction, physical)? } else { None },
    };
    // one input serves both sides where an index ranks its rows by themselves
    let symmetric = |left: &Expr, right: &Expr| same_expr(left, physical.sides.left, right, physical.sides.right);
    let own = keys.vectors.is_some()
        && node.join_type() == JoinType::Inner
        && same_rows(node.left(), node.right())
        && grouped.iter().all(|key| symmetric(&key.left, &key.right))
        && matches!(score, Expr::ScalarFunction(call) if ranked(call, physical).is_some_and(|(l, r)| symmetric(&l, &r)))
        && left.schema().fields().len() == right.schema().fields().len();
    let spec = JoinSpec {
        join_type: node.join_type(),
        build: JoinSide::Right,
        why_build: "its rows are ranked".into(),
        probe_rows: None,
        residual: Vec::new(),
        condition: physical.filter(&condition)?,
    };
    let inputs = match own {
        true => JoinInputs::Own { input: Arc::clone(right), partitions: physical.session.config().target_partitions() },
        false => JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) },
    };
    Ok(Arc::new(NearestJoinExec::new(inputs, Arc::new(spec), Arc::new(keys))?))
}

fn order(tie: &SortExpr, physical: &Physical<'_>) -> Result<PhysicalSortExpr> {
    let options = SortOptions { descending: !tie.asc, nulls_first: tie.nulls_first };
    Ok(PhysicalSortExpr::new(physical.expression(&tie.expr, physical.sides.right)?, options))
}

/// The score as one that an index ranks by: a distance of ours between a vector of either side.
fn vectors(score: &Expr, direction: Direction, physical: &Physical<'_>) -> Result<Option<VectorScore>> {
    let Expr::ScalarFunction(call) = score else { return Ok(None) };
    let measure = match (call.func.name(), direction) {
        ("l1_distance", Direction::Distance) => VectorMeasure::L1,
        ("l2_distance", Direction::Distance) => VectorMeasure::L2,
        ("linf_distance", Direction::Distance) => VectorMeasure::Linf,
        ("cosine_similarity", Direction::Similarity) => VectorMeasure::Cosine,
        _ => return Ok(None),
    };
    let Some((left, right)) = ranked(call, physical).filter(|_| is_known(&call.func)) else { return Ok(None) };
    Ok(Some(VectorScore {
        measure,
        left: physical.expression(&left, physical.sides.left)?,
        right: physical.expression(&right, physical.sides.right)?,
    }))
}

/// The vectors that a measure compares, of the left and of the right side; every one of ours is symmetric to the last bit.
fn ranked(call: &ScalarFunction, physical: &Physical<'_>) -> Option<(Expr, Expr)> {
    let [a, b] = call.args.as_slice() else { return None };
    physical.sides.order(a, b)
}
