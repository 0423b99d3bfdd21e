//! LATERAL with LIMIT, which DataFusion does not plan and NEAREST is for.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, not_impl_err};
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SortExpr, Subquery};

/// Fails where `plan` joins each row with the first rows of a sub-query that reads it, and shows the NEAREST for that.
pub(super) fn point_to_nearest(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node
            && let Some(subquery) = lateral(&join.right)
            && let Some(rows) = first_rows(subquery)?
        {
            return not_impl_err!(
                "DataFusion has no plan for LATERAL with LIMIT; NEAREST joins each row with its best rows, as in \
                 {} {} with a condition after ON",
                if join.join_type == JoinType::Left { "a LEFT JOIN b" } else { "a JOIN b" },
                rows.clause()?
            );
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The sub-query that the right side of a join is, if it reads columns of the left side.
fn lateral(right: &LogicalPlan) -> Option<&Subquery> {
    match right {
        LogicalPlan::SubqueryAlias(alias) => lateral(&alias.input),
        LogicalPlan::Projection(projection) => lateral(&projection.input),
        LogicalPlan::Filter(filter) => lateral(&filter.input),
        LogicalPlan::Subquery(subquery) => (!subquery.outer_ref_columns.is_empty()).then_some(subquery),
        _ => None,
    }
}

/// The first rows of a sub-query: how many, and in which order.
#[derive(Default)]
struct FirstRows {
    limit: Option<usize>,
    order: Option<SortExpr>,
}

fn first_rows(subquery: &Subquery) -> Result<Option<FirstRows>> {
    let (mut rows, mut limited) = (FirstRows::default(), false);
    subquery.subquery.apply(|node| {
        match node {
            LogicalPlan::Limit(limit) => {
                limited = true;
                if let FetchType::Literal(fetch) = limit.get_fetch_type()? {
                    rows.limit = rows.limit.or(fetch);
                }
            }
            LogicalPlan::Sort(sort) => {
                limited |= sort.fetch.is_some();
                rows.limit = rows.limit.or(sort.fetch);
                rows.order = rows.order.take().or_else(|| sort.expr.first().cloned());
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(limited.then_some(rows))
}

impl FirstRows {
    fn clause(self) -> Result<String> {
        let limit = self.limit.map_or_else(|| "k".to_owned(), |limit| limit.to_string());
        let score = self.order.filter(|order| order.expr.contains_outer());
        let Some(SortExpr { expr, asc, .. }) = score else {
            return Ok(format!("NEAREST {limit} BY DISTANCE .."));
        };
        let direction = if asc { "DISTANCE" } else { "SIMILARITY" };
        let expr = expr
            .transform(|expr| match expr {
                Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
                other => Ok(Transformed::no(other)),
            })
            .data()?;
        Ok(format!("NEAREST {limit} BY {direction} {}", expr.human_display()))
    }
}
