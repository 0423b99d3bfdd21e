//! Similarity joins on data frames.

use datafusion::common::{JoinType, Result};
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::Expr;

use crate::functions::contract;
use crate::functions::nearest::{self, Nearest};

/// Similarity joins on data frames.
pub trait SimilarityDataFrame {
    /// Joins with `right` on `predicate`, as SIMILARITY JOIN does: an AND of a similarity condition, equalities
    /// and any other conditions over both sides.
    ///
    /// Qualify columns that both sides have (alias the frames first).
    ///
    /// # Errors
    /// When the frame is planned: a planning error that names the condition, where no index serves `predicate`.
    fn similarity_join(self, right: DataFrame, join_type: JoinType, predicate: Expr) -> Result<DataFrame>;

    /// Joins each row with the rows of `right` that are `nearest` to it, as NEAREST does. The join type is INNER or
    /// LEFT.
    ///
    /// Qualify columns that both sides have (alias the frames first).
    ///
    /// # Errors
    /// When the frame is planned: a planning error where `nearest` ranks by nothing that has an order, or by volatile
    /// functions, and for other join types.
    fn nearest_join(self, right: DataFrame, join_type: JoinType, nearest: Nearest) -> Result<DataFrame>;
}

impl SimilarityDataFrame for DataFrame {
    fn similarity_join(self, right: DataFrame, join_type: JoinType, predicate: Expr) -> Result<DataFrame> {
        self.join_on(right, join_type, [contract::mark(predicate)])
    }

    fn nearest_join(self, right: DataFrame, join_type: JoinType, nearest: Nearest) -> Result<DataFrame> {
        self.join_on(right, join_type, [nearest::mark(nearest)])
    }
}
