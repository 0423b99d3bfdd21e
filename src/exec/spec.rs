//! What a similarity join does, in physical expressions.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::predicate::Test;

/// The inputs of a join.
#[derive(Debug, Clone)]
pub enum JoinInputs {
    /// Two inputs, the one of [`JoinSpec::build`] in a single partition.
    Two {
        /// The left input.
        left: Arc<dyn ExecutionPlan>,
        /// The right input.
        right: Arc<dyn ExecutionPlan>,
    },
    /// One input, in a single partition, that is both sides: a self-join whose condition holds for no row with
    /// itself and whose keys and measure are symmetric, so that each pair is looked for once.
    Own {
        /// The input.
        input: Arc<dyn ExecutionPlan>,
        /// How many output partitions share the work.
        partitions: usize,
    },
}

/// An equality key as expressions over each side; both have the same type.
#[derive(Debug, Clone)]
pub struct EqualityExprs {
    /// Over the left input.
    pub left: PhysicalExprRef,
    /// Over the right input.
    pub right: PhysicalExprRef,
    /// Whether two NULLs are equal.
    pub null_equals_null: bool,
}

/// The program of one similarity join.
#[derive(Debug, Clone)]
pub struct JoinSpec {
    /// The join type.
    pub join_type: JoinType,
    /// The side that is collected and indexed; the left one for [`JoinInputs::Own`].
    pub build: JoinSide,
    /// Why that side, for EXPLAIN.
    pub why_build: String,
    /// Rows of the other side, where statistics know.
    pub probe_rows: Option<usize>,
    /// Rows pair only where these agree.
    pub equalities: Vec<EqualityExprs>,
    /// The key of the similarity condition over the left input.
    pub left_key: PhysicalExprRef,
    /// The key of the similarity condition over the right input.
    pub right_key: PhysicalExprRef,
    /// The similarity condition that the index decides.
    pub test: Test,
    /// What else a pair has to satisfy, in order.
    pub residual: Vec<JoinFilter>,
    /// The whole condition, for `similarity.verify`.
    pub condition: JoinFilter,
}

impl JoinSpec {
    /// The key of `side`.
    pub(super) fn key(&self, side: JoinSide) -> &PhysicalExprRef {
        if side == JoinSide::Left { &self.left_key } else { &self.right_key }
    }

    /// The equality keys of `side`.
    pub(super) fn equalities_of(&self, side: JoinSide) -> Vec<PhysicalExprRef> {
        let of = |e: &EqualityExprs| Arc::clone(if side == JoinSide::Left { &e.left } else { &e.right });
        self.equalities.iter().map(of).collect()
    }

    /// Every expression of the program.
    pub(super) fn expressions(&self) -> Vec<&PhysicalExprRef> {
        let mut all = vec![&self.left_key, &self.right_key, self.condition.expression()];
        all.extend(self.equalities.iter().flat_map(|e| [&e.left, &e.right]));
        all.extend(self.residual.iter().map(JoinFilter::expression));
        all
    }
}

impl fmt::Display for EqualityExprs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = if self.null_equals_null { "IS NOT DISTINCT FROM" } else { "=" };
        write!(f, "{} {op} {}", self.left, self.right)
    }
}
