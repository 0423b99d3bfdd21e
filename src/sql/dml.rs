//! Forms of DELETE and UPDATE that the stock planner refuses, in forms that it takes.
//!
//! | written | planned |
//! |---|---|
//! | `UPDATE t SET .. FROM u WHERE ..` | `UPDATE t CROSS JOIN u SET .. WHERE ..` |
//! | `DELETE FROM t AS a WHERE ..` | `UPDATE t AS a SET .. WHERE ..` without a new value, and then made a DELETE |
//! | `DELETE FROM t USING u WHERE ..` | the same of `t CROSS JOIN u` |
//!
//! [`DmlRule`](crate::optimizer::DmlRule) changes the rows of the first table that such a join yields. As in
//! PostgreSQL, a row with several partners is updated once, by any of them.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, Delete, FromTable, Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind,
};

/// Whether a statement deletes or updates, or explains that.
pub fn is_dml(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => {
            matches!(statement.as_ref(), ast::Statement::Delete(_) | ast::Statement::Update(_))
        }
        Statement::Explain(explain) => is_dml(&explain.statement),
        _ => false,
    }
}

/// Puts a statement into a form that the stock planner takes, and returns whether its plan has to become a DELETE.
pub(super) fn normalise(statement: &mut Statement) -> bool {
    match statement {
        Statement::Explain(explain) => normalise(&mut explain.statement),
        Statement::Statement(statement) => match statement.as_mut() {
            ast::Statement::Update(update) => {
                if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) =
                    update.from.take()
                {
                    add_tables(&mut update.table, from);
                }
                false
            }
            ast::Statement::Delete(delete) => match as_update(delete) {
                Some(update) => {
                    **statement = ast::Statement::Update(update);
                    true
                }
                None => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// An UPDATE of the rows that a DELETE with an alias or USING means, `None` for any other DELETE.
fn as_update(delete: &mut Delete) -> Option<Update> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut delete.from;
    let [table] = from.as_mut_slice() else { return None };
    let has_alias = matches!(&table.relation, TableFactor::Table { alias: Some(_), .. });
    let others = !delete.tables.is_empty() || delete.returning.is_some() || delete.output.is_some();
    if !(has_alias || delete.using.is_some()) || others || !delete.order_by.is_empty() || delete.limit.is_some() {
        return None;
    }
    let mut table = table.clone();
    add_tables(&mut table, delete.using.take().unwrap_or_default());
    Some(Update {
        update_token: AttachedToken::empty(),
        optimizer_hints: vec![],
        table,
        assignments: vec![],
        from: None,
        selection: delete.selection.take(),
        returning: None,
        output: None,
        or: None,
        order_by: vec![],
        limit: None,
    })
}

/// Joins `table` with the tables of a list.
fn add_tables(table: &mut TableWithJoins, list: Vec<TableWithJoins>) {
    table.joins.extend(list.into_iter().map(|from| {
        let relation = match from.joins.is_empty() {
            true => from.relation,
            false => TableFactor::NestedJoin { table_with_joins: Box::new(from), alias: None },
        };
        Join { relation, global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) }
    }));
}

/// The plan of a DELETE that was planned as an UPDATE.
pub(super) fn as_delete(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match plan {
        LogicalPlan::Dml(DmlStatement { table_name, target, op: WriteOp::Update, input, .. }) => {
            let rows = match input.as_ref() {
                LogicalPlan::Projection(projection) => projection.input.clone(),
                _ => input,
            };
            let delete = DmlStatement::new(table_name, target, WriteOp::Delete, rows);
            Ok(Transformed::yes(LogicalPlan::Dml(delete)))
        }
        plan => Ok(Transformed::no(plan)),
    })
    .data()
}
