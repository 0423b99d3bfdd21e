//! The logical node of a join with NEAREST.

use std::cmp::Ordering;
use std::fmt;

use datafusion::common::{DFSchema, DFSchemaRef, JoinType, Result, plan_err};
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, UserDefinedLogicalNodeCore};

use crate::functions::nearest::Nearest;
use crate::optimizer::node::sorted;
use crate::optimizer::same_input::same_rows;
use crate::predicate::Sides;

/// Each left row with its best right rows.
///
/// The right input is what is ranked: no condition of the query above may be moved into it, and whatever decides
/// between equal scores is among the expressions, so that it is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NearestJoinNode {
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    nearest: Nearest,
    schema: DFSchemaRef,
}

impl NearestJoinNode {
    /// `left`, each row with the rows of `right` that `nearest` asks for. Its `then_by` is the whole order of ties.
    ///
    /// # Errors
    /// For a join type other than INNER and LEFT.
    pub fn try_new(left: LogicalPlan, right: LogicalPlan, join_type: JoinType, nearest: Nearest) -> Result<Self> {
        if !matches!(join_type, JoinType::Inner | JoinType::Left) {
            return plan_err!("NEAREST takes INNER JOIN or LEFT JOIN, not {join_type}");
        }
        let schema = build_join_schema(left.schema(), right.schema(), &join_type)?.into();
        Ok(Self { left, right, join_type, nearest, schema })
    }

    /// The left input.
    pub fn left(&self) -> &LogicalPlan {
        &self.left
    }

    /// The right input, whose rows are ranked.
    pub fn right(&self) -> &LogicalPlan {
        &self.right
    }

    /// INNER, or LEFT where left rows without a neighbour come out too.
    pub fn join_type(&self) -> JoinType {
        self.join_type
    }

    /// The ranking.
    pub fn nearest(&self) -> &Nearest {
        &self.nearest
    }

    pub(in crate::optimizer) fn sides(&self) -> Sides<'_> {
        Sides { left: self.left.schema(), right: self.right.schema() }
    }

    /// Node with the same ranking over another left input.
    pub(super) fn with_left(&self, left: LogicalPlan) -> Result<Self> {
        Self::try_new(left, self.right.clone(), self.join_type, self.nearest.clone())
    }
}

impl UserDefinedLogicalNodeCore for NearestJoinNode {
    fn name(&self) -> &str {
        "NearestJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let Nearest { score, then_by, condition, .. } = &self.nearest;
        let ties = then_by.iter().map(|tie| &tie.expr);
        std::iter::once(score).chain(ties).chain(condition).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nearest { rows, direction, score, then_by, condition, ties, recall } = &self.nearest;
        write!(f, "{} NearestJoin: k={rows}, by={score} {}", self.join_type, direction.to_string().to_uppercase())?;
        if !then_by.is_empty() {
            let then_by: Vec<_> = then_by.iter().map(ToString::to_string).collect();
            write!(f, ", then_by=[{}]", then_by.join(", "))?;
        }
        if let Some(condition) = condition {
            write!(f, ", on={condition}")?;
        }
        if *ties {
            write!(f, ", ties=true")?;
        }
        recall.map_or(Ok(()), |recall| write!(f, ", recall={recall}"))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        // simplification keeps the name of what it rewrites in an alias
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let (Some(score), Ok([left, right])) = (exprs.next(), <[_; 2]>::try_from(inputs)) else {
            return plan_err!("a join with NEAREST has a score and two inputs");
        };
        let known = &self.nearest;
        let ties = known.then_by.iter().zip(exprs.by_ref());
        let then_by = ties.map(|(tie, expr)| SortExpr { expr, ..tie.clone() }).collect();
        let nearest = Nearest { score, then_by, condition: exprs.next(), ..known.clone() };
        Self::try_new(left, right, self.join_type, nearest)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let expressions = self.expressions();
        let of = |schema: &DFSchema| -> Vec<usize> {
            let columns = expressions.iter().flat_map(Expr::column_refs);
            columns.filter_map(|column| schema.maybe_index_of_column(column)).collect()
        };
        let [mut left, mut right] = [of(self.left.schema()), of(self.right.schema())];
        let left_columns = self.left.schema().fields().len();
        for &column in output_columns {
            match column.checked_sub(left_columns) {
                Some(column) => right.push(column),
                None => left.push(column),
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

// Required by the trait; plans have no order.
impl PartialOrd for NearestJoinNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}
