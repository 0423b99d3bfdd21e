//! Plans the operator of a [`DmlNode`].

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use super::node::DmlNode;
use crate::exec::{Changes, DmlExec, Evaluated};

/// The operator; `input` is planned too where nothing of it is evaluated, as DataFusion plans every input.
pub(in crate::optimizer) fn plan(
    node: &DmlNode,
    input: &Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(session) = session.as_any().downcast_ref::<SessionState>() else {
        return not_impl_err!("DELETE and UPDATE need a session of DataFusion itself, not one behind an interface");
    };
    let assignment = |(column, value): &(String, Expr)| Ok((column.clone(), unqualified(value)?));
    let assignments = node.assignments.as_ref().map(|all| all.iter().map(assignment).collect::<Result<_>>());
    let changes = Changes {
        table: node.table.clone(),
        provider: Arc::clone(&node.provider),
        filters: node.filters.iter().map(unqualified).collect::<Result<_>>()?,
        assignments: assignments.transpose()?,
    };
    let evaluated = node.evaluated.as_ref().map(|columns| Evaluated {
        input: Arc::clone(input),
        keys: columns.keys.clone(),
        assigned: columns.assigned.clone(),
    });
    let schema = Arc::clone(node.schema.inner());
    Ok(Arc::new(DmlExec::new(changes, evaluated, Arc::new(session.clone()), schema)))
}

/// A table knows its columns by their names alone.
fn unqualified(expr: &Expr) -> Result<Expr> {
    let strip = |expr: Expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    expr.clone().transform_up(strip).data()
}
