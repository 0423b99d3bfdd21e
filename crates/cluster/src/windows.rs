//! Window functions that would come out wrong on a cluster.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

/// Refuses plans with a window function that DataFusion has turned round to save a sort: its message does not say so,
/// and an executor would compute `lag` for `lead`.
#[derive(Debug)]
pub struct RefuseReversedWindows;

impl PhysicalOptimizerRule for RefuseReversedWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.apply(|operator| {
            let functions = if let Some(window) = operator.downcast_ref::<WindowAggExec>() {
                window.window_expr()
            } else if let Some(window) = operator.downcast_ref::<BoundedWindowAggExec>() {
                window.window_expr()
            } else {
                &[]
            };
            match functions.iter().find(|function| is_reversed(function)) {
                Some(function) => plan_err!(
                    "{} cannot run on a cluster beside a window function of the opposite order; \
                     compute each of them in a query of its own, or in a session of one process",
                    function.name()
                ),
                None => Ok(TreeNodeRecursion::Continue),
            }
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "refuse_reversed_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a function reads its rows backwards, which it tells nobody but who prints it.
fn is_reversed(function: &Arc<dyn WindowExpr>) -> bool {
    format!("{function:?}").contains("is_reversed: true")
}
