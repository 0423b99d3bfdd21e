//! The logical node of a similarity join.

use std::cmp::Ordering;
use std::fmt;

use datafusion::common::{DFSchema, DFSchemaRef, JoinType, Result, plan_err};
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use similarity_engine::recall::Recall;

use super::same_input::same_rows;

/// A join with at least one similarity condition that an index serves.
///
/// The condition is one expression over both inputs, equality keys folded in: passes after the rule may reorder
/// it or wrap it in an alias, so that nothing derived from it is kept here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SimilarityJoinNode {
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    condition: Expr,
    /// Whether the query says SIMILARITY JOIN: then it is planned as one, or it is an error.
    contract: bool,
    /// The share of pairs that it has to find, where it may miss some.
    recall: Option<Recall>,
    schema: DFSchemaRef,
}

impl SimilarityJoinNode {
    /// A join of `left` and `right` on `condition`, with its contract and its recall.
    pub fn try_new(
        left: LogicalPlan,
        right: LogicalPlan,
        join_type: JoinType,
        condition: Expr,
        contract: bool,
        recall: Option<Recall>,
    ) -> Result<Self> {
        let schema = build_join_schema(left.schema(), right.schema(), &join_type)?.into();
        Ok(Self { left, right, join_type, condition, contract, recall, schema })
    }

    /// The left input.
    pub fn left(&self) -> &LogicalPlan {
        &self.left
    }

    /// The right input.
    pub fn right(&self) -> &LogicalPlan {
        &self.right
    }

    /// The join type.
    pub fn join_type(&self) -> JoinType {
        self.join_type
    }

    /// The whole condition.
    pub fn condition(&self) -> &Expr {
        &self.condition
    }

    /// Whether anything but a similarity join is an error.
    pub fn contract(&self) -> bool {
        self.contract
    }

    /// The share of pairs that the join has to find, where it may miss some.
    pub fn recall(&self) -> Option<Recall> {
        self.recall
    }

    /// Output column `index` as a column of the left (`Ok`) or of the right input (`Err`).
    fn input_column(&self, index: usize) -> Result<usize, usize> {
        let left_columns = self.left.schema().fields().len();
        match self.join_type {
            JoinType::RightSemi | JoinType::RightAnti => Err(index),
            _ if index < left_columns => Ok(index),
            _ => Err(index - left_columns),
        }
    }
}

impl UserDefinedLogicalNodeCore for SimilarityJoinNode {
    fn name(&self) -> &str {
        "SimilarityJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.condition.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} SimilarityJoin: {}", self.join_type, self.condition)?;
        self.recall.map_or(Ok(()), |recall| write!(f, ", recall={recall}"))
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(condition), Ok([left, right])) = (exprs.pop(), <[_; 2]>::try_from(inputs)) else {
            return plan_err!("a similarity join has one condition and two inputs");
        };
        // simplification keeps the name of what it rewrites in an alias
        Self::try_new(left, right, self.join_type, condition.unalias(), self.contract, self.recall)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut left = columns_of(&self.condition, self.left.schema());
        let mut right = columns_of(&self.condition, self.right.schema());
        for &column in output_columns {
            match self.input_column(column) {
                Ok(column) => left.push(column),
                Err(column) => right.push(column),
            }
        }
        if same_rows(&self.left, &self.right) {
            // one input serves both sides as long as both read the same columns of it
            left.extend(right.iter().copied());
            right.clone_from(&left);
        }
        Some([left, right].map(sorted).into())
    }
}

fn columns_of(condition: &Expr, schema: &DFSchema) -> Vec<usize> {
    condition.column_refs().into_iter().filter_map(|column| schema.maybe_index_of_column(column)).collect()
}

/// Ascending, each once.
pub(super) fn sorted(mut columns: Vec<usize>) -> Vec<usize> {
    columns.sort_unstable();
    columns.dedup();
    columns
}

// Required by the trait; plans have no order.
impl PartialOrd for SimilarityJoinNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}
