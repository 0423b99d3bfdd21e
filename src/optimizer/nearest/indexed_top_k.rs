//! ORDER BY a measure against a constant, with LIMIT, over a table with a similarity index.
//!
//! ```text
//! Sort: fetch=k              IndexedTopK
//!   projections, filters       Sort: fetch=k
//!     TableScan         ->       projections, filters
//!                                  NearestJoin
//!                                    the constant, as a row
//!                                    TableScan
//!                              the plan as it was
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType, Result, ScalarValue, TableReference, plan_err};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, Extension, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
    TableScan, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;

use super::node::NearestJoinNode;
use super::planner::ranked;
use crate::exec::IndexedTopKExec;
use crate::functions::nearest::{Direction, Nearest};
use crate::optimizer::indexes::{IndexCatalog, index_of, over_table};
use crate::optimizer::subquery::has_subquery;
use crate::predicate::{Condition, Sides, is_measure, measured};
use similarity_measures::EditMeasure;

/// The name of the constant as a column.
const CONSTANT: &str = "similarity_constant";

/// Rows that are ranked for each one wanted, and at least, where a filter is asked of them afterwards.
const FILTERED: usize = 16;
const FEWEST_FILTERED: usize = 256;

/// The first rows of a table by a measure against a constant: by an index of the table, or as stock DataFusion finds
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexedTopKNode {
    nearest: LogicalPlan,
    stock: LogicalPlan,
    rows: usize,
    nulls_first: bool,
}

/// `plan` with the first rows found by an index wherever one is about the measure; `None` where none is.
pub(in crate::optimizer) fn with_indexed_top_k(
    plan: &LogicalPlan,
    session: &dyn Session,
) -> Result<Option<LogicalPlan>> {
    if session.config().get_extension::<IndexCatalog>().is_none_or(|indexes| indexes.all().is_empty()) {
        return Ok(None);
    }
    let rewritten = plan.clone().transform_up_with_subqueries(|plan| match &plan {
        LogicalPlan::Sort(sort) => Ok(match IndexedTopKNode::of(sort, session)? {
            Some(node) => Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })),
            None => Transformed::no(plan),
        }),
        _ => Ok(Transformed::no(plan)),
    })?;
    Ok(rewritten.transformed.then_some(rewritten.data))
}

impl IndexedTopKNode {
    fn of(sort: &Sort, session: &dyn Session) -> Result<Option<Self>> {
        let Some(rows) = sort.fetch.filter(|rows| *rows > 0) else { return Ok(None) };
        let keys = sort.expr.iter().map(|key| key.expr.clone()).collect();
        let Some((scan, keys)) = over_table(&sort.input, keys).filter(|_| is_repeatable(sort)) else { return Ok(None) };
        let Some((score, ties)) = keys.split_first() else { return Ok(None) };
        let Some((constant, score)) = with_column(score) else { return Ok(None) };
        // filters of the scan are asked above the index, which is about the whole table
        let filters = conjunction(scan.filters.clone());
        let table = LogicalPlan::TableScan(TableScan { filters: Vec::new(), ..scan.clone() });
        let columns = table.schema().columns();
        let is_read = |column: &&Column| columns.contains(column);
        if scan.fetch.is_some() || filters.iter().flat_map(Expr::column_refs).any(|column| !is_read(&column)) {
            return Ok(None);
        }
        let relation = Some(TableReference::bare(CONSTANT));
        let by = constant.clone();
        let constant =
            LogicalPlanBuilder::empty(true).project([constant.alias_qualified(relation, CONSTANT)])?.build()?;
        let direction = if sort.expr[0].asc { Direction::Distance } else { Direction::Similarity };
        let sides = Sides { left: constant.schema(), right: table.schema() };
        let nulls_first = sort.expr[0].nulls_first;
        let Some((_, key, measure)) = measured(&score, sides) else { return Ok(None) };
        if ranked(&measure) != Some(direction)
            || nulls_first && !every_key_has_a_score(&measure, &key, &table, &by)
            || index_of(session, &table, &key).is_none()
        {
            return Ok(None);
        }
        let is_filtered = filters.is_some() || sort.input.exists(|plan| Ok(matches!(plan, LogicalPlan::Filter(_))))?;
        let ranked = if is_filtered { rows.saturating_mul(FILTERED).max(FEWEST_FILTERED) } else { rows };
        let then_by =
            ties.iter().zip(&sort.expr[1..]).map(|(expr, key)| SortExpr { expr: expr.clone(), ..key.clone() });
        let nearest = Nearest { then_by: then_by.collect(), ..Nearest::new(ranked, direction, score) };
        let join = NearestJoinNode::try_new(constant, table, JoinType::Inner, nearest)?;
        let join = LogicalPlan::Extension(Extension { node: Arc::new(join) });
        let columns = columns.into_iter().map(Expr::Column).collect();
        let mut found = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(join))?);
        if let Some(filters) = filters {
            found = LogicalPlan::Filter(Filter::try_new(filters, Arc::new(found))?);
        }
        let input = in_place_of_table(sort.input.as_ref().clone(), &found)?;
        let nearest = LogicalPlan::Sort(Sort { input: Arc::new(input), ..sort.clone() });
        Ok(Some(Self { nearest, stock: LogicalPlan::Sort(sort.clone()), rows, nulls_first }))
    }

    /// The operator over the two plans.
    pub(in crate::optimizer) fn plan(&self, inputs: [&Arc<dyn ExecutionPlan>; 2]) -> Arc<dyn ExecutionPlan> {
        Arc::new(IndexedTopKExec::new(inputs.map(Arc::clone), self.rows, self.nulls_first))
    }
}

/// Whether every expression above the table gives the same for the same row, whichever rows there are besides.
fn is_repeatable(sort: &Sort) -> bool {
    let changes = |expr: &Expr| expr.is_volatile() || has_subquery(expr);
    let mut repeatable = !sort.expr.iter().any(|key| changes(&key.expr));
    // the closures never fail
    let _ = sort.input.apply(|plan| {
        plan.apply_expressions(|expr| {
            repeatable &= !changes(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    repeatable
}

/// The constant that a measure is taken against, and the measure with a column in its place.
fn with_column(score: &Expr) -> Option<(Expr, Expr)> {
    let mut constant = None;
    let score = score.clone().transform_down(|expr| match expr {
        Expr::ScalarFunction(mut call) if is_measure(&call) => {
            if let Some([one, other]) = call.args.first_chunk_mut::<2>() {
                let of_row = |arg: &Expr| !arg.column_refs().is_empty();
                let place = if of_row(one) { other } else { one };
                if !of_row(place) {
                    let column = Expr::Column(Column::new(Some(CONSTANT), CONSTANT));
                    constant = Some(std::mem::replace(place, column));
                }
            }
            Ok(Transformed::new(Expr::ScalarFunction(call), true, TreeNodeRecursion::Stop))
        }
        cast @ (Expr::Cast(_) | Expr::TryCast(_) | Expr::Alias(_)) => Ok(Transformed::no(cast)),
        other => Ok(Transformed::new(other, false, TreeNodeRecursion::Stop)),
    });
    Some((constant?, score.ok()?.data))
}

/// Whether each row of `table` that an index has a key of has a score with the constant, so that only others are NULL.
///
/// Strings of unequal lengths have no Hamming distance. A distance or a norm of vectors may overflow, and a norm may
/// vanish; of numbers that single precision holds, no sum of squares in double precision does.
fn every_key_has_a_score(measure: &Condition, key: &Expr, table: &LogicalPlan, constant: &Expr) -> bool {
    match measure {
        Condition::Set { .. } => true,
        Condition::Edit { measure, .. } => *measure != EditMeasure::HAMMING,
        Condition::Vector(_) => is_of_single_precision(key, table) && is_of_moderate_size(constant),
    }
}

/// Whether an expression, under its casts, is a list of numbers no larger than single precision has.
fn is_of_single_precision(key: &Expr, table: &LogicalPlan) -> bool {
    let mut key = key;
    while let Expr::Cast(Cast { expr, .. }) = key {
        key = expr;
    }
    let numbers = match key.get_type(table.schema()) {
        Ok(DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) => item,
        _ => return false,
    };
    numbers.data_type().is_integer() || matches!(numbers.data_type(), DataType::Float16 | DataType::Float32)
}

/// Whether no number of a vector is as large as single precision ends, and some number is not vanishing.
fn is_of_moderate_size(vector: &Expr) -> bool {
    let numbers = match vector {
        Expr::Literal(ScalarValue::List(list), _) => list.values(),
        Expr::Literal(ScalarValue::LargeList(list), _) => list.values(),
        Expr::Literal(ScalarValue::FixedSizeList(list), _) => list.values(),
        _ => return false,
    };
    let Ok(numbers) = cast(numbers, &DataType::Float64) else { return false };
    let sizes = || numbers.as_primitive::<Float64Type>().iter().map(|x| x.unwrap_or(f64::INFINITY).abs());
    sizes().all(|size| size < f64::from(f32::MAX)) && sizes().any(|size| size > f64::from(f32::MIN_POSITIVE))
}

/// `plan`, which reads one table, with `found` in the place of that.
fn in_place_of_table(plan: LogicalPlan, found: &LogicalPlan) -> Result<LogicalPlan> {
    let replaced = plan.transform_up(|plan| match plan {
        LogicalPlan::TableScan(_) => Ok(Transformed::yes(found.clone())),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(replaced.data)
}

impl UserDefinedLogicalNodeCore for IndexedTopKNode {
    fn name(&self) -> &str {
        "IndexedTopK"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.nearest, &self.stock]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.stock.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexedTopK: k={}", self.rows)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[_; 2]>::try_from(inputs) {
            Ok([nearest, stock]) => Ok(Self { nearest, stock, ..self.clone() }),
            Err(_) => plan_err!("the first rows by an index have two plans"),
        }
    }
}

// Required by the trait; plans have no order.
impl PartialOrd for IndexedTopKNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}
