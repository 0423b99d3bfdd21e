//! Similarity joins on data frames.

use datafusion::common::{Column, JoinType, Result, TableReference, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};

use crate::exec::{LinkTask, Method};
use crate::functions::contract;
use crate::functions::nearest::{self, Nearest};
use crate::optimizer;

/// The column that says which rows are the same thing.
const CLUSTER_ID: &str = "cluster_id";

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

    /// The rows with their `cluster_id`, the smallest `id` of the rows that are the same thing. Two rows are linked
    /// where `condition` over `a` and `b` holds for them one way round or the other.
    ///
    /// `id` is a column whose values differ. A row that is like no other one has its own id, a row whose id is NULL has
    /// none. For a condition that holds both ways round, `a.id < b.id` in it halves the work.
    ///
    /// # Errors
    /// A planning error for an unknown column, a column `cluster_id` in the frame, and what a join is refused for.
    ///
    /// ```
    /// # use datafusion::prelude::{SessionContext, col, lit};
    /// # use datafusion_similarity::functions::expr_fn::levenshtein;
    /// # use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// # let session = SessionContext::new();
    /// # session.enable_similarity()?;
    /// # session.sql("CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna'), (2, 'Ana'), (3, 'Hans')").await?;
    /// let similar = levenshtein(col("a.name"), col("b.name")).lt_eq(lit(1));
    /// let people = session.table("p").await?.duplicates("id", similar)?;
    /// assert_eq!(people.filter(col("cluster_id").eq(lit(1)))?.count().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    fn duplicates(self, id: &str, condition: Expr) -> Result<DataFrame>;
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

    fn duplicates(self, id: &str, condition: Expr) -> Result<DataFrame> {
        let (state, rows) = self.into_parts();
        if rows.schema().has_column_with_unqualified_name(CLUSTER_ID) {
            return plan_err!("the frame has a column {CLUSTER_ID} already; drop or rename it");
        }
        let own = Expr::Column(Column::from(rows.schema().qualified_field_with_unqualified_name(id)?));
        let of = |row: &str| Expr::Column(Column::new(Some(TableReference::bare(row)), id));
        let right = LogicalPlanBuilder::from(rows.clone()).alias("b")?.build()?;
        let pairs = LogicalPlanBuilder::from(rows.clone())
            .alias("a")?
            .join_on(right, JoinType::Inner, [condition.and(of("a").not_eq(of("b")))])?
            .project([of("a"), of("b")])?
            .build()?;
        let clusters = optimizer::links(LinkTask::Clusters(Method::Components), pairs)?;
        let clusters = LogicalPlanBuilder::from(clusters).alias("c")?.build()?;
        let [member, cluster] =
            ["id", CLUSTER_ID].map(|name| Expr::Column(Column::new(Some(TableReference::bare("c")), name)));
        let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(coalesce(vec![cluster, own.clone()]).alias(CLUSTER_ID));
        let plan = LogicalPlanBuilder::from(rows)
            .join_on(clusters, JoinType::Left, [own.eq(member)])?
            .project(columns)?
            .build()?;
        Ok(DataFrame::new(state, plan))
    }
}
