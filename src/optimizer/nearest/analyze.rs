//! The analyzer rule: a join whose condition is the mark of NEAREST becomes a [`NearestJoinNode`].

use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, JoinType, Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Extension, Join, LogicalPlan, SortExpr};
use datafusion::optimizer::AnalyzerRule;

use super::node::NearestJoinNode;
use crate::functions::nearest::{Nearest, is_marked, marked};
use crate::optimizer::input_filters::filtered;
use crate::optimizer::subquery::{has_subquery, side_of};
use crate::predicate::{Side, Sides};

/// Recognises joins with NEAREST. To be appended to DataFusion's own analyzer rules, after type coercion.
///
/// In the analyzer, because every optimizer rule takes a `Join` for a join on a condition: one would move conditions
/// over the right side below the ranking, another would reorder the inputs.
#[derive(Debug, Default)]
pub struct NearestJoinRule;

impl AnalyzerRule for NearestJoinRule {
    fn name(&self) -> &str {
        "nearest_join"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if mentions_mark(&join) => {
                let node = Arc::new(nearest_join(join)?);
                Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
            }
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

fn mentions_mark(join: &Join) -> bool {
    // the closure never fails
    join.filter.as_ref().is_some_and(|filter| filter.exists(|e| Ok(is_marked(e))).unwrap_or(false))
}

fn nearest_join(join: Join) -> Result<NearestJoinNode> {
    let Some(mut nearest) = join.filter.as_ref().map(marked).transpose()?.flatten().filter(|_| join.on.is_empty())
    else {
        return plan_err!("NEAREST stands in the place of ON and takes the whole condition of its join");
    };
    let sides = Sides { left: join.left.schema(), right: join.right.schema() };
    check(&nearest, sides)?;
    let below = Below::of(&mut nearest, join.join_type, sides);
    check_subqueries(&nearest)?;
    if nearest.then_by.is_empty() && !nearest.ties {
        nearest.then_by = all_columns(sides.right);
        check_order(&nearest.then_by, sides.right)?;
    }
    let left = filtered(Arc::unwrap_or_clone(join.left), below.left)?;
    let candidates = filtered(Arc::unwrap_or_clone(join.right), below.right)?;
    NearestJoinNode::try_new(left, candidates, join.join_type, nearest)
}

/// Conditions over one input alone.
#[derive(Default)]
struct Below {
    left: Vec<Expr>,
    right: Vec<Expr>,
}

impl Below {
    /// Takes from ON what only says which rows are ranked, and sub-queries that say which left rows are.
    fn of(nearest: &mut Nearest, join_type: JoinType, sides: Sides<'_>) -> Self {
        let (mut below, mut kept) = (Self::default(), Vec::new());
        for condition in nearest.condition.iter().flat_map(split_conjunction) {
            let subquery = has_subquery(condition);
            match side_of(condition, sides) {
                Some(Side::Right) => below.right.push(condition.clone()),
                Some(Side::Neither) if subquery => below.right.push(condition.clone()),
                Some(Side::Left) if subquery && join_type == JoinType::Inner => below.left.push(condition.clone()),
                _ => kept.push(condition.clone()),
            }
        }
        nearest.condition = conjunction(kept);
        below
    }
}

/// Fails where a part of the clause is none that rows can be ranked by.
fn check(nearest: &Nearest, sides: Sides<'_>) -> Result<()> {
    let Nearest { rows, direction, score, then_by, condition, .. } = nearest;
    if *rows == 0 {
        return plan_err!("NEAREST takes a positive whole number of rows");
    }
    let both = sides.left.join(sides.right)?;
    let clause = direction.to_string().to_uppercase();
    let score_type = score.get_type(&both)?;
    if !is_score(&score_type) {
        return plan_err!("NEAREST .. BY {clause} takes a number, {} is {score_type}", score.human_display());
    }
    for SortExpr { expr, .. } in then_by {
        if !matches!(sides.of(expr), Some(Side::Right | Side::Neither)) {
            return plan_err!("THEN BY takes columns of the right table, not {}", expr.human_display());
        }
    }
    check_order(then_by, sides.right)?;
    if let Some(condition) = condition
        && !matches!(condition.get_type(&both)?, DataType::Boolean | DataType::Null)
    {
        return plan_err!("the ON condition of NEAREST has to be boolean, not {}", condition.human_display());
    }
    match parts(nearest).find(|part| part.is_volatile()) {
        Some(part) => plan_err!("NEAREST takes no volatile function, as in {}", part.human_display()),
        None => Ok(()),
    }
}

/// Fails where a sub-query is left: ranking evaluates expressions of pairs, and a sub-query is a join.
fn check_subqueries(nearest: &Nearest) -> Result<()> {
    match parts(nearest).find(|part| has_subquery(part)) {
        Some(part) => plan_err!(
            "NEAREST takes no sub-query in its score or THEN BY, and in ON one over the right table, or with INNER \
             JOIN over the left; join or filter a table by {} first",
            part.human_display()
        ),
        None => Ok(()),
    }
}

fn parts(nearest: &Nearest) -> impl Iterator<Item = &Expr> {
    let Nearest { score, then_by, condition, .. } = nearest;
    [score].into_iter().chain(then_by.iter().map(|tie| &tie.expr)).chain(condition)
}

/// Types with a total order in one number.
fn is_score(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal256(..) => false,
        DataType::Null => true,
        other if other.is_temporal() => can_cast_types(other, &DataType::Int64),
        other => other.is_numeric(),
    }
}

fn all_columns(right: &DFSchema) -> Vec<SortExpr> {
    right.columns().into_iter().map(|column| Expr::Column(column).sort(true, false)).collect()
}

fn check_order(then_by: &[SortExpr], right: &DFSchema) -> Result<()> {
    for SortExpr { expr, .. } in then_by {
        let data_type = expr.get_type(right)?;
        if !RowConverter::supports_fields(&[SortField::new(data_type.clone())]) {
            return Err(plan_datafusion_err!(
                "NEAREST cannot order ties by {}, which is {data_type}; say THEN BY another column or WITH TIES",
                expr.human_display()
            ));
        }
    }
    Ok(())
}
