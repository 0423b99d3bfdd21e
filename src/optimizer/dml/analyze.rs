//! The analyzer rule: a DELETE or an UPDATE becomes a [`DmlNode`].

use std::sync::Arc;

use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{DmlStatement, Expr, Extension, LogicalPlan, LogicalPlanBuilder, Projection, WriteOp};
use datafusion::optimizer::AnalyzerRule;

use super::node::{DmlNode, EvaluatedColumns};
use crate::optimizer::input_filters::filtered;
use crate::optimizer::subquery::{has_subquery, subquery_of};

/// Reads the conditions and new values of DELETE and UPDATE. To be appended to DataFusion's own analyzer rules, after
/// type coercion.
#[derive(Debug, Default)]
pub struct DmlRule;

impl AnalyzerRule for DmlRule {
    fn name(&self) -> &str {
        "dml"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up(|plan| match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Delete | WriteOp::Update) => match node(&dml)? {
                Some(node) => Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) }))),
                None => Ok(Transformed::no(LogicalPlan::Dml(dml))),
            },
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// The node, `None` for a table that DataFusion itself does not change.
fn node(dml: &DmlStatement) -> Result<Option<DmlNode>> {
    let Some(source) = dml.target.downcast_ref::<DefaultTableSource>() else { return Ok(None) };
    let Some(statement) = Statement::read(dml)? else { return Ok(None) };
    let split = statement.split()?;
    let (input, evaluated) = statement.input(&split)?;
    Ok(Some(DmlNode {
        table: dml.table_name.clone(),
        provider: Arc::clone(&source.table_provider),
        filters: split.filters,
        assignments: split.assignments,
        evaluated,
        input,
        schema: Arc::clone(&dml.output_schema),
    }))
}

/// A statement as it was parsed.
struct Statement<'a> {
    /// The schema of the table, as the statement calls it.
    table: &'a DFSchema,
    /// The table, or a join that begins with it.
    rows: &'a LogicalPlan,
    conditions: Vec<&'a Expr>,
    /// New values by column; `None` deletes.
    assignments: Option<Vec<(&'a str, &'a Expr)>>,
}

/// What the table can do by itself, and what has to be evaluated first.
struct Split {
    filters: Vec<Expr>,
    assignments: Option<Vec<(String, Expr)>>,
    conditions: Vec<Expr>,
    values: Vec<(String, Expr)>,
}

impl<'a> Statement<'a> {
    fn read(dml: &'a DmlStatement) -> Result<Option<Self>> {
        let (new_values, rest) = match (&dml.op, dml.input.as_ref()) {
            (WriteOp::Delete, LogicalPlan::Limit(_)) => return limited(dml),
            (WriteOp::Delete, rest) => (None, rest),
            (_, LogicalPlan::Projection(projection)) => (Some(projection), projection.input.as_ref()),
            _ => return Ok(None),
        };
        let (conditions, rows) = match rest {
            LogicalPlan::Filter(filter) => (split_conjunction(&filter.predicate), filter.input.as_ref()),
            rows => (vec![], rows),
        };
        let table = first_table(rows).schema();
        let assignments = new_values.map(|projection| assignments(projection, table));
        Ok(Some(Self { table, rows, conditions, assignments }))
    }

    /// Whether the table itself can evaluate `expr`.
    fn is_plain(&self, expr: &Expr) -> bool {
        !has_subquery(expr) && expr.column_refs().into_iter().all(|column| self.table.has_column(column))
    }

    fn split(&self) -> Result<Split> {
        let (filters, conditions): (Vec<_>, Vec<_>) =
            self.conditions.iter().map(|&condition| condition.clone()).partition(|expr| self.is_plain(expr));
        let (plain, values): (Vec<_>, Vec<_>) = self
            .assignments
            .iter()
            .flatten()
            .map(|&(column, value)| (column.to_owned(), value.clone()))
            .partition(|(_, value)| self.is_plain(value));
        for expr in conditions.iter().chain(values.iter().map(|(_, value)| value)) {
            if expr.is_volatile() {
                return plan_err!(
                    "DELETE and UPDATE cannot tell rows apart by {}, which holds a sub-query and a volatile function; \
                     CREATE TABLE .. AS SELECT the rows first, and name those",
                    expr.human_display()
                );
            }
        }
        let assignments = self.assignments.as_ref().map(|_| plain);
        Ok(Split { filters, assignments, conditions, values })
    }

    /// The input of the node, and what it yields where it is evaluated.
    fn input(&self, split: &Split) -> Result<(LogicalPlan, Option<EvaluatedColumns>)> {
        let is_table = is_scan(self.rows);
        if is_table && split.conditions.is_empty() && split.values.is_empty() {
            return Ok((self.rows.clone(), None));
        }
        let keys = if is_table { self.columns_read()? } else { self.table.columns() };
        self.check_keys(&keys)?;
        let plain = split.filters.iter().filter(|filter| !filter.is_volatile()).cloned();
        let meant = filtered(self.rows.clone(), plain.chain(split.conditions.iter().cloned()).collect())?;
        let values = split.values.iter().enumerate();
        let values = values.map(|(i, (_, value))| value.clone().alias(format!("__new_value_{i}")));
        let input = LogicalPlanBuilder::from(meant)
            .project(keys.iter().cloned().map(Expr::Column).chain(values).collect::<Vec<_>>())?
            .build()?;
        let assigned = split.values.iter().map(|(column, _)| column.clone()).collect();
        Ok((input, Some(EvaluatedColumns { keys: keys.into_iter().map(|key| key.name).collect(), assigned })))
    }

    /// The columns of the table that the statement reads, at least one: rows that agree in these are meant alike.
    fn columns_read(&self) -> Result<Vec<Column>> {
        let mut read = Vec::new();
        let values = self.assignments.iter().flatten().map(|&(_, value)| value);
        for expr in self.conditions.iter().copied().chain(values) {
            read_by(expr, &mut read)?;
        }
        let mut columns = self.table.columns();
        columns.retain(|column| {
            read.iter().any(|read| self.table.maybe_index_of_column(read) == self.table.maybe_index_of_column(column))
        });
        if columns.is_empty() {
            columns.extend(self.table.columns().into_iter().next());
        }
        Ok(columns)
    }

    fn check_keys(&self, keys: &[Column]) -> Result<()> {
        for key in keys {
            let data_type = self.table.field_from_column(key)?.data_type();
            if !RowConverter::supports_fields(&[SortField::new(data_type.clone())]) {
                return plan_err!(
                    "DELETE and UPDATE cannot tell rows apart by the column {}, which is {data_type}; CREATE TABLE .. \
                     AS SELECT makes a table of the rows that are to stay",
                    key.name
                );
            }
        }
        Ok(())
    }
}

fn limited<T>(dml: &DmlStatement) -> Result<T> {
    let table = &dml.table_name;
    plan_err!(
        "DELETE takes no LIMIT: a table has no order that says which rows go; say which, as in DELETE FROM {table} \
         WHERE id IN (SELECT id FROM {table} ORDER BY id LIMIT 10)"
    )
}

/// The columns that get another value than their own.
fn assignments<'a>(projection: &'a Projection, table: &'a DFSchema) -> Vec<(&'a str, &'a Expr)> {
    let values = table.fields().iter().zip(&projection.expr).enumerate();
    let assigned = values.filter_map(|(i, (field, expr))| {
        let value = match expr {
            Expr::Alias(alias) => alias.expr.as_ref(),
            value => value,
        };
        let own = matches!(value, Expr::Column(column) if table.maybe_index_of_column(column) == Some(i));
        (!own).then_some((field.name().as_str(), value))
    });
    assigned.collect()
}

/// The table that a statement changes: the first one.
fn first_table(rows: &LogicalPlan) -> &LogicalPlan {
    match rows {
        LogicalPlan::Join(join) => first_table(&join.left),
        table => table,
    }
}

fn is_scan(rows: &LogicalPlan) -> bool {
    match rows {
        LogicalPlan::SubqueryAlias(alias) => is_scan(&alias.input),
        rows => matches!(rows, LogicalPlan::TableScan(_)),
    }
}

/// Adds the columns that `expr` reads, those that its sub-queries read of the rows around them included.
fn read_by(expr: &Expr, read: &mut Vec<Column>) -> Result<()> {
    expr.apply(|expr| {
        match expr {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => read.push(column.clone()),
            _ => {}
        }
        if let Some(subquery) = subquery_of(expr) {
            subquery.subquery.apply_with_subqueries(|plan| {
                plan.apply_expressions(|expr| {
                    expr.apply(|expr| {
                        if let Expr::OuterReferenceColumn(_, column) = expr {
                            read.push(column.clone());
                        }
                        Ok(TreeNodeRecursion::Continue)
                    })
                })
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
