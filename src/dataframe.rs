//! Similarity joins on data frames.

use datafusion::common::{JoinType, Result};
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::Expr;

use crate::exec::LinkTask;
use crate::functions::contract;
use crate::functions::nearest::{self, Nearest};
use crate::optimizer;

/// Similarity joins on data frames.
pub trait SimilarityDataFrame {
    /// Joins with `right` on `predicate`, as SIMILARITY JOIN does: an AND of a similarity condition, equalities
    /// and any other conditions over both sides.
    ///
    /// Qualify columns that both sides have (alias the frames first).
    ///
    /// # Errors
    /// When the frame is planned: a planning error that names the condition, where no index serves `predicate`.
    ///
    /// ```
    /// # use datafusion::common::JoinType;
    /// # use datafusion::execution::session_state::SessionStateBuilder;
    /// # use datafusion::prelude::{SessionContext, col, lit};
    /// # use datafusion_similarity::functions::expr_fn::levenshtein;
    /// # use datafusion_similarity::{SimilarityDataFrame, SimilarityStateBuilder};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// # let state = SessionStateBuilder::new().with_default_features().with_similarity().build();
    /// # let session = SessionContext::new_with_state(state);
    /// # session.sql("CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna'), (2, 'Ana'), (3, 'Hans')").await?;
    /// let (a, b) = (session.table("p").await?.alias("a")?, session.table("p").await?.alias("b")?);
    /// let similar = levenshtein(col("a.name"), col("b.name")).lt_eq(lit(1));
    /// let pairs = a.similarity_join(b, JoinType::Inner, similar.and(col("a.id").lt(col("b.id"))))?;
    /// assert_eq!(pairs.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
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

    /// What the links of this frame amount to: clusters, a one-to-one matching or a path. The frame has two ids and,
    /// maybe, a score.
    ///
    /// # Errors
    /// A planning error for other columns.
    ///
    /// ```
    /// # use datafusion::prelude::SessionContext;
    /// # use datafusion_similarity::exec::LinkTask;
    /// # use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
    /// # use datafusion_similarity::exec::Method;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// # let session = SessionContext::new();
    /// # session.enable_similarity()?;
    /// let pairs = session.sql("VALUES (1, 2), (2, 3), (7, 8)").await?;
    /// assert_eq!(pairs.links(LinkTask::Clusters(Method::Components))?.count().await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    fn links(self, task: LinkTask) -> Result<DataFrame>;
}

impl SimilarityDataFrame for DataFrame {
    fn similarity_join(self, right: DataFrame, join_type: JoinType, predicate: Expr) -> Result<DataFrame> {
        self.join_on(right, join_type, [contract::mark(predicate)])
    }

    fn nearest_join(self, right: DataFrame, join_type: JoinType, nearest: Nearest) -> Result<DataFrame> {
        self.join_on(right, join_type, [nearest::mark(nearest)])
    }

    fn links(self, task: LinkTask) -> Result<DataFrame> {
        let (state, plan) = self.into_parts();
        Ok(DataFrame::new(state, optimizer::links(task, plan)?))
    }
}
