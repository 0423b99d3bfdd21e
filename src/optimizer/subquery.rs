//! Sub-queries in the ON condition of SIMILARITY JOIN.
//!
//! DataFusion turns a sub-query into a join of its own, but only where it stands in a filter. The mark of the contract
//! would hide it there. So conditions with a sub-query leave the mark before any optimizer rule looks at the join:
//!
//! | the condition reads | the join may lose rows of that input | where it goes |
//! |---|---|---|
//! | one input, or none | yes | a filter over that input |
//! | anything, INNER | | a filter over the join; what follows without the sub-query stays in ON |
//! | an uncorrelated scalar | no | stays in ON, it is a constant |
//! | anything else | no | refused, as DataFusion has no plan for the plain join either |

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator, Subquery};
use datafusion::optimizer::AnalyzerRule;

use super::input_filters::{filterable, filtered};
use crate::config::SimilarityOptions;
use crate::functions::contract;
use crate::predicate::{Side, Sides};

/// Takes conditions with a sub-query out of the ON condition of SIMILARITY JOIN. To be appended to DataFusion's own
/// analyzer rules, after type coercion.
#[derive(Debug, Default)]
pub struct SubqueryConditionRule;

impl AnalyzerRule for SubqueryConditionRule {
    fn name(&self) -> &str {
        "similarity_subquery"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let enabled = SimilarityOptions::of(config).enabled;
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if is_concerned(&join) => without_subqueries(join, enabled).map(Transformed::yes),
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

fn is_concerned(join: &Join) -> bool {
    let mut conjuncts = join.filter.iter().flat_map(split_conjunction);
    conjuncts.any(|conjunct| contract::marked(conjunct).is_some_and(has_subquery))
}

/// Where the conditions of a join go.
#[derive(Default)]
struct Places {
    left: Vec<Expr>,
    right: Vec<Expr>,
    above: Vec<Expr>,
    kept: Vec<Expr>,
}

fn without_subqueries(join: Join, enabled: bool) -> Result<LogicalPlan> {
    let mut places = Places::default();
    let mut unmarked = Vec::new();
    for conjunct in join.filter.iter().flat_map(split_conjunction) {
        match contract::marked(conjunct) {
            Some(condition) => split_conjunction(condition)
                .into_iter()
                .try_for_each(|condition| place(&join, condition, &mut places))?,
            None => unmarked.push(conjunct.clone()),
        }
    }
    let Places { left, right, above, kept } = places;
    match conjunction(kept) {
        Some(condition) => unmarked.push(contract::mark(condition)),
        None if enabled => {
            return plan_err!(
                "SIMILARITY JOIN cannot be accelerated: nothing is left to join by without the conditions that hold a \
                 sub-query; add a similarity condition without one"
            );
        }
        None => {}
    }
    let joined = LogicalPlan::Join(Join::try_new(
        filtered(Arc::unwrap_or_clone(join.left), left)?.into(),
        filtered(Arc::unwrap_or_clone(join.right), right)?.into(),
        join.on,
        conjunction(unmarked),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?);
    filtered(joined, above)
}

fn place(join: &Join, condition: &Expr, places: &mut Places) -> Result<()> {
    if !has_subquery(condition) {
        places.kept.push(condition.clone());
        return Ok(());
    }
    let (to_left, to_right) = filterable(join.join_type);
    match side_of(condition, Sides { left: join.left.schema(), right: join.right.schema() }) {
        Some(Side::Left | Side::Neither) if to_left => places.left.push(condition.clone()),
        Some(Side::Right | Side::Neither) if to_right => places.right.push(condition.clone()),
        _ if join.join_type == JoinType::Inner => {
            places.kept.extend(implied(condition));
            places.above.push(condition.clone());
        }
        Some(_) if is_constant(condition) => places.kept.push(condition.clone()),
        _ => return refused(condition, join.join_type),
    }
    Ok(())
}

fn refused(condition: &Expr, join_type: JoinType) -> Result<()> {
    let (join, allowed) = match join_type {
        JoinType::LeftSemi => ("LEFT SEMI", "it may read one table alone"),
        JoinType::RightSemi => ("RIGHT SEMI", "it may read one table alone"),
        JoinType::Left => ("LEFT", "it may read the right table alone"),
        JoinType::LeftAnti => ("LEFT ANTI", "it may read the right table alone"),
        JoinType::Right => ("RIGHT", "it may read the left table alone"),
        JoinType::RightAnti => ("RIGHT ANTI", "it may read the left table alone"),
        _ => ("FULL", "it may only be a scalar one that reads neither table"),
    };
    plan_err!(
        "a sub-query cannot stand in the ON condition {} of a {join} SIMILARITY JOIN: {allowed} there; join the table \
         of the sub-query first and compare its columns",
        condition.human_display()
    )
}

/// The input that a condition and its sub-queries read, or `None` where a column belongs to neither.
pub(super) fn side_of(condition: &Expr, sides: Sides<'_>) -> Option<Side> {
    let mut read = vec![sides.of(condition)];
    // the closure never fails
    let _ = condition.exists(|expr| {
        for outer in subquery_of(expr).into_iter().flat_map(|subquery| &subquery.outer_ref_columns) {
            read.push(match outer {
                Expr::OuterReferenceColumn(_, column) => sides.of(&Expr::Column(column.clone())),
                _ => None,
            });
        }
        Ok(false)
    });
    read.into_iter().try_fold(Side::Neither, |side, next| Some(side.and(next?)))
}

/// What holds wherever `condition` does and mentions no sub-query; `None` where that is nothing.
fn implied(condition: &Expr) -> Option<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conjunction([left, right].into_iter().filter_map(|side| implied(side)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => Some(implied(left)?.or(implied(right)?)),
        other => (!has_subquery(other)).then(|| other.clone()),
    }
}

/// Whether an expression holds a sub-query of any kind.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    any(expr, |expr| subquery_of(expr).is_some())
}

/// Whether the sub-queries of an expression have one value for the whole query.
pub(super) fn is_constant(expr: &Expr) -> bool {
    !any(expr, |expr| match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => subquery_of(other).is_some(),
    })
}

fn any(expr: &Expr, mut is: impl FnMut(&Expr) -> bool) -> bool {
    // the closure never fails
    expr.exists(|expr| Ok(is(expr))).unwrap_or(false)
}

/// The sub-query that an expression is, if it is one.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}
