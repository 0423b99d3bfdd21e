//! The logical node over links between ids, and its operator.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, Result, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use similarity_engine::choice::EngineSpec;

use crate::exec::{LinkTask, LinksExec};

/// What links between ids amount to. The input has two ids and, maybe, a score.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinksNode {
    task: LinkTask,
    input: LogicalPlan,
    schema: DFSchemaRef,
}

/// A plan of `task` over the first two columns of `links` as ids, and the third one, if there is one, as a score.
///
/// # Errors
/// A number of columns other than 2 or 3, ids of types that cannot be compared, or a score that is no number.
pub fn links(task: LinkTask, links: LogicalPlan) -> Result<LogicalPlan> {
    let columns = links.schema().columns();
    let (left, right, score) = match columns.as_slice() {
        [left, right] => (left, right, None),
        [left, right, score] => (left, right, Some(score)),
        other => return plan_err!("links are two ids and, maybe, a score; this query has {} columns", other.len()),
    };
    let schema = links.schema();
    let [left_type, right_type] = [left, right].map(|column| schema.data_type(column).cloned());
    let (left_type, right_type) = (value_type(left_type?), value_type(right_type?));
    let (left_type, right_type) = match task {
        LinkTask::Matching(_) => (left_type, right_type),
        // a text that is no number would fail where it is cast to one
        _ => match comparison_coercion(&left_type, &right_type).filter(|_| both_texts(&left_type, &right_type)) {
            Some(both) => (both.clone(), both),
            None => return plan_err!("ids of type {left_type} cannot be compared with ids of type {right_type}"),
        },
    };
    let cast = |column: &Column, to: &DataType| -> Result<Expr> {
        Ok(Expr::Column(column.clone()).cast_to(to, schema)?.alias(column.name.clone()))
    };
    let right_name = if left.name == right.name { format!("{}_right", right.name) } else { right.name.clone() };
    let mut projected = vec![cast(left, &left_type)?, cast(right, &right_type)?.unalias().alias(right_name)];
    if let Some(score) = score {
        let from = schema.data_type(score)?;
        if !from.is_numeric() && !from.is_null() {
            return plan_err!("the third column is a score, which is a number, not {from}");
        }
        projected.push(cast(score, &DataType::Float64)?.unalias().alias("score"));
    }
    let input = LogicalPlanBuilder::from(links.clone()).project(projected)?.build()?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(LinksNode::try_new(task, input)?) }))
}

/// Whether both types are of texts or neither is; NULLs go with both.
fn both_texts(left: &DataType, right: &DataType) -> bool {
    left.is_null() || right.is_null() || left.is_string() == right.is_string()
}

/// The type of the values of a dictionary.
fn value_type(data_type: DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => *values,
        other => other,
    }
}

impl LinksNode {
    /// Node of `task` over links: two ids and, maybe, a score as a double.
    ///
    /// # Errors
    /// An input with other columns.
    pub fn try_new(task: LinkTask, input: LogicalPlan) -> Result<Self> {
        let columns = task.columns(input.schema().as_arrow())?;
        let schema = DFSchema::from_unqualified_fields(columns.into(), Default::default())?;
        Ok(Self { task, input, schema: Arc::new(schema) })
    }

    /// What the links are read for.
    pub fn task(&self) -> &LinkTask {
        &self.task
    }

    /// The operator.
    pub(super) fn plan(&self, input: &Arc<dyn ExecutionPlan>, engine: EngineSpec) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(LinksExec::try_new(self.task.clone(), engine, Arc::clone(input))?))
    }
}

impl UserDefinedLogicalNodeCore for LinksNode {
    fn name(&self) -> &str {
        "Links"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Links: task={}", self.task)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) => Self::try_new(self.task.clone(), input),
            None => plan_err!("links have one input"),
        }
    }
}

// Required by the trait; plans have no order.
impl PartialOrd for LinksNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}
