//! Row numbers below a join: sorted neighbourhoods rank their rows by several keys.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::exec::{RowNumber, RowNumbersExec};

/// `input` with its row numbers over whole tables made by [`RowNumbersExec`]. Where memory is limited, stock's
/// operators stay, which sort in files.
pub(super) fn side_by_side(input: &Arc<dyn ExecutionPlan>, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    if !matches!(session.runtime_env().memory_pool.memory_limit(), MemoryLimit::Infinite) {
        return Ok(Arc::clone(input));
    }
    below_rows(input)
}

/// The plan with its windows replaced, as far as nothing but row-by-row work stands above them: a limit, say, would see
/// in which order the rows come.
fn below_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(numbers) = replaced(plan) {
        return Ok(numbers);
    }
    if !(plan.is::<ProjectionExec>() || plan.is::<FilterExec>()) {
        return Ok(Arc::clone(plan));
    }
    let inputs = plan.children().into_iter().map(below_rows).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), inputs)
}

/// What stands for windows that number all rows, as many of them as lie one above the other.
fn replaced(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let (mut levels, mut below) = (Vec::new(), plan);
    while let Some((numbers, input)) = row_numbers(below) {
        levels.push(numbers);
        below = input;
    }
    // the order of a window above may be that of a number below it
    let columns = below.schema().fields().len();
    let reads = |number: &RowNumber| {
        let columns_of = number.order.iter().flat_map(|sort| collect_columns(&sort.expr));
        columns_of.into_iter().all(|column| column.index() < columns)
    };
    let numbers: Vec<RowNumber> = levels.into_iter().rev().flatten().collect();
    let can = !numbers.is_empty()
        && !below.boundedness().is_unbounded()
        && numbers.iter().all(|number| reads(number) && RowNumbersExec::supports(&number.order, &below.schema()));
    can.then(|| Arc::new(RowNumbersExec::new(numbers, Arc::clone(below))) as _)
}

/// The row numbers of a window that has nothing else, and its input.
fn row_numbers(plan: &Arc<dyn ExecutionPlan>) -> Option<(Vec<RowNumber>, &Arc<dyn ExecutionPlan>)> {
    let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
    let numbers = window.window_expr().iter().map(row_number).collect::<Option<Vec<_>>>()?;
    Some((numbers, window.input()))
}

fn row_number(expr: &Arc<dyn WindowExpr>) -> Option<RowNumber> {
    let standard = expr.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
    let order = standard.order_by();
    let numbers = function.fun() == &row_number_udwf() && standard.partition_by().is_empty() && !order.is_empty();
    let field = standard.field().ok()?;
    numbers.then(|| RowNumber { field, order: order.to_vec() })
}
