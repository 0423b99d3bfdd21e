//! Proves that both inputs of a join are the same rows, so that one execution of one of them serves both.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::MemTable;
use datafusion::datasource::TableProvider;
use datafusion::datasource::listing::ListingTable;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};

/// Whether both plans yield the same rows with the same columns in the same places, whatever their names.
///
/// `false` means not proven. Only scans of files and of tables in memory count as repeatable, below filters,
/// projections and windows without volatile functions.
pub(super) fn same_rows(left: &LogicalPlan, right: &LogicalPlan) -> bool {
    match (left, right) {
        (LogicalPlan::SubqueryAlias(l), _) => same_rows(&l.input, right),
        (_, LogicalPlan::SubqueryAlias(r)) => same_rows(left, &r.input),
        (LogicalPlan::TableScan(l), LogicalPlan::TableScan(r)) => same_scan(l, r),
        (LogicalPlan::Values(l), LogicalPlan::Values(r)) => {
            l.values == r.values && !l.values.iter().flatten().any(Expr::is_volatile)
        }
        (LogicalPlan::Filter(l), LogicalPlan::Filter(r)) => {
            same_rows(&l.input, &r.input) && same_expr(&l.predicate, l.input.schema(), &r.predicate, r.input.schema())
        }
        (LogicalPlan::Projection(l), LogicalPlan::Projection(r)) => {
            same_rows(&l.input, &r.input)
                && l.expr.len() == r.expr.len()
                && l.expr.iter().zip(&r.expr).all(|(a, b)| same_expr(a, l.input.schema(), b, r.input.schema()))
        }
        // rows that the order of a window leaves equal may change places between two executions, and there is only one
        (LogicalPlan::Window(l), LogicalPlan::Window(r)) => {
            same_rows(&l.input, &r.input)
                && l.window_expr.len() == r.window_expr.len()
                && l.window_expr
                    .iter()
                    .zip(&r.window_expr)
                    .all(|(a, b)| same_expr(a, l.input.schema(), b, r.input.schema()))
        }
        _ => false,
    }
}

/// Whether both plans read one table and nothing else. What they do with its rows may differ.
pub(super) fn same_table(left: &LogicalPlan, right: &LogicalPlan) -> bool {
    match (only_table(left), only_table(right)) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right) || same_files(left, right),
        _ => false,
    }
}

fn only_table(plan: &LogicalPlan) -> Option<&Arc<dyn TableProvider>> {
    match (plan, plan.inputs().as_slice()) {
        (LogicalPlan::TableScan(scan), _) => {
            let source: &dyn Any = scan.source.as_ref();
            Some(&source.downcast_ref::<DefaultTableSource>()?.table_provider)
        }
        (_, &[input]) => only_table(input),
        _ => None,
    }
}

/// Whether `left` over a row of the left schema is `right` over the same row, columns compared by place.
pub(super) fn same_expr(left: &Expr, left_schema: &DFSchema, right: &Expr, right_schema: &DFSchema) -> bool {
    let (Some(l), Some(r)) = (by_place(left, left_schema), by_place(right, right_schema)) else { return false };
    l == r && !l.is_volatile()
}

fn same_scan(left: &TableScan, right: &TableScan) -> bool {
    let (Some(l), Some(r)) = (repeatable(left), repeatable(right)) else { return false };
    (Arc::ptr_eq(l, r) || same_files(l, r))
        && left.projection == right.projection
        && left.fetch.is_none()
        && right.fetch.is_none()
        && left.filters.len() == right.filters.len()
        && left.filters.iter().zip(&right.filters).all(|(a, b)| unqualified(a) == unqualified(b))
}

/// Whether both tables are the same files, read in the same way: a plan that has travelled has a table for each scan.
fn same_files(left: &Arc<dyn TableProvider>, right: &Arc<dyn TableProvider>) -> bool {
    let (left, right): (&dyn Any, &dyn Any) = (left.as_ref(), right.as_ref());
    let (Some(left), Some(right)) = (left.downcast_ref::<ListingTable>(), right.downcast_ref::<ListingTable>()) else {
        return false;
    };
    left.table_paths() == right.table_paths()
        && left.schema() == right.schema()
        // options compare in no other way
        && format!("{:?}", left.options()) == format!("{:?}", right.options())
}

/// The table of a scan, where it is one of files or in memory.
pub(super) fn repeatable(scan: &TableScan) -> Option<&Arc<dyn TableProvider>> {
    let source: &dyn Any = scan.source.as_ref();
    let provider = &source.downcast_ref::<DefaultTableSource>()?.table_provider;
    let table: &dyn Any = provider.as_ref();
    (table.is::<ListingTable>() || table.is::<MemTable>()).then_some(provider)
}

/// `expr` without aliases, its columns named by their place in `schema`.
fn by_place(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let place = |e: Expr| match e {
        Expr::Column(column) => schema
            .index_of_column(&column)
            .map(|i| Transformed::yes(Expr::Column(Column::new_unqualified(format!("#{i}"))))),
        Expr::Alias(alias) => Ok(Transformed::yes(*alias.expr)),
        other => Ok(Transformed::no(other)),
    };
    expr.clone().transform_up(place).data().ok()
}

/// A filter of a scan names its columns with the table as the query calls it.
fn unqualified(filter: &Expr) -> Option<Expr> {
    let strip = |e: Expr| match e {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    filter.clone().transform_up(strip).data().ok()
}
