//! Functions that have no value for a pair of rows: aggregates, window functions, `unnest`.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::{contract, nearest};
use crate::predicate::mentions_measure;

/// Refuses aggregates, window functions and `unnest` in conditions and rankings of pairs. To be put before DataFusion's
/// own analyzer rules.
///
/// DataFusion reads them there and fails later, in words that do not name them. Joins without any measure are left to
/// it.
#[derive(Debug, Default)]
pub struct PairValueRule;

impl AnalyzerRule for PairValueRule {
    fn name(&self) -> &str {
        "pair_value"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Join(join) = node {
                check(join)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

fn check(join: &Join) -> Result<()> {
    let keys = join.on.iter().flat_map(|(left, right)| [left, right]);
    for expr in keys.chain(&join.filter) {
        let Some(function) = without_pair_value(expr)? else { continue };
        let place = if expr.exists(|expr| Ok(nearest::is_marked(expr)))? {
            "NEAREST"
        } else if expr.exists(|expr| Ok(contract::marked(expr).is_some()))? {
            "the ON condition of SIMILARITY JOIN"
        } else if mentions_measure(expr) {
            "the ON condition of a join"
        } else {
            continue;
        };
        return plan_err!(
            "{place} takes no {function}, which has no value for a pair of rows; compute it in a sub-query of FROM and \
             compare its column, or test it after the join, in HAVING or QUALIFY"
        );
    }
    Ok(())
}

/// The first function in `expr` without a value for a pair.
fn without_pair_value(expr: &Expr) -> Result<Option<String>> {
    let mut found = None;
    expr.apply(|expr| {
        found = match expr {
            Expr::AggregateFunction(call) => Some(format!("aggregate ({})", call.func.name())),
            Expr::WindowFunction(call) => Some(format!("window function ({})", call.fun.name())),
            Expr::Unnest(_) => Some("unnest".into()),
            Expr::GroupingSet(_) => Some("grouping set".into()),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}
