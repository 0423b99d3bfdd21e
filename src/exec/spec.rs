//! What every join of this crate has, whatever finds its pairs.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use similarity_engine::recall::Recall;

use super::kept::IndexedTable;
use crate::predicate::Condition;

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
    /// Two inputs in as many partitions each, of which a row pairs with rows of the partition of its number only. So no
    /// output partition needs rows of another one.
    Partitioned {
        /// The left input.
        left: Arc<dyn ExecutionPlan>,
        /// The right input.
        right: Arc<dyn ExecutionPlan>,
    },
    /// One input, in a single partition, that is both sides: a self-join whose keys and measures are symmetric. Unless
    /// it is directed, its condition holds for no row with itself, so that each pair is looked for once.
    SelfJoin {
        /// The input.
        input: Arc<dyn ExecutionPlan>,
        /// How many output partitions share the work.
        partitions: usize,
    },
    /// One input that is both sides, of which each partition is joined with itself.
    PartitionedSelfJoin {
        /// The input.
        input: Arc<dyn ExecutionPlan>,
    },
}

/// An equality key as expressions over each side; both have the same type.
#[derive(Debug, Clone)]
pub struct EqualityExprs {
    /// Expression over the left input.
    pub left: PhysicalExprRef,
    /// Expression over the right input.
    pub right: PhysicalExprRef,
    /// Whether two NULLs are equal.
    pub null_equals_null: bool,
}

impl EqualityExprs {
    /// The key of `side`.
    pub(super) fn of(&self, side: JoinSide) -> &PhysicalExprRef {
        if side == JoinSide::Left { &self.left } else { &self.right }
    }
}

/// A join apart from what finds its pairs.
#[derive(Debug, Clone)]
pub struct JoinSpec {
    /// The join type.
    pub join_type: JoinType,
    /// The side that is collected and indexed; for [`JoinInputs::SelfJoin`] the left one, or the ranked one.
    pub build: JoinSide,
    /// Why that side, for EXPLAIN.
    pub why_build: String,
    /// Rows of the other side, where statistics know.
    pub probe_rows: Option<usize>,
    /// The share of pairs that has to be found, where some may be missed.
    pub recall: Option<Recall>,
    /// The index that keeps the build side for other queries.
    pub index: Option<IndexedTable>,
    /// What else a pair has to satisfy, in order; of a self-join what says which way round pairs count comes first,
    /// which cannot fail.
    pub residual: Vec<JoinFilter>,
    /// The whole condition, for `similarity.verify`.
    pub condition: JoinFilter,
}

impl fmt::Display for EqualityExprs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = if self.null_equals_null { "IS NOT DISTINCT FROM" } else { "=" };
        write!(f, "{} {op} {}", self.left, self.right)
    }
}

/// A condition on the left and the right key as an engine takes it: of the key of the build side and that of the other.
pub(super) fn of_build(condition: Condition, build: JoinSide) -> Condition {
    if build == JoinSide::Right { condition.reversed() } else { condition }
}
