//! Conditions over one input of a join, as filters of that input.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, JoinType, LogicalPlan};

use crate::predicate::{Side, Sides};

/// The mark hides a condition from predicate push-down: what DataFusion would have moved into an input goes there
/// now.
pub(super) fn with_filtered_inputs(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    condition: &Expr,
) -> Result<(LogicalPlan, LogicalPlan, Expr)> {
    let (to_left, to_right) = filterable(join_type);
    let sides = Sides { left: left.schema(), right: right.schema() };
    let (mut on_left, mut on_right, mut kept) = (vec![], vec![], vec![]);
    for conjunct in split_conjunction(condition) {
        match sides.of(conjunct) {
            Some(Side::Left) if to_left => on_left.push(conjunct.clone()),
            Some(Side::Right) if to_right => on_right.push(conjunct.clone()),
            _ => kept.push(conjunct.clone()),
        }
    }
    let condition = conjunction(kept).unwrap_or_else(|| condition.clone());
    Ok((filtered(left, on_left)?, filtered(right, on_right)?, condition))
}

/// Which inputs may lose the rows that fail a condition over that input alone.
pub(super) fn filterable(join_type: JoinType) -> (bool, bool) {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti => (false, true),
        JoinType::Right | JoinType::RightAnti => (true, false),
        _ => (false, false),
    }
}

/// `input` without the rows that fail one of `conditions`.
pub(super) fn filtered(input: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)),
        None => Ok(input),
    }
}
