//! Similarity joins on data frames.

use std::iter;

use datafusion::common::{Column, JoinType, Result, TableReference, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};

use crate::exec::{LinkTask, Method};
use crate::functions::contract;
use crate::functions::nearest::{self, Nearest};
use crate::optimizer;
use crate::tables::{self, Truth, quoted_column};

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

    /// The rows of this frame and of `new` with their `cluster_id` and the `previous_cluster_id`, which is NULL for a
    /// new row, as [`ExtendDuplicatesFunction`](tables::ExtendDuplicatesFunction) says. This frame has the columns of
    /// `new` and `cluster_id`. `condition` is one over `a` and `b`, or the name of a matching rule.
    ///
    /// # Errors
    /// A planning error for columns that do not fit, and for a condition that is refused.
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
    /// let new = session.sql("SELECT CAST(7 AS INT) AS id, 'Ann' AS name").await?;
    /// let all = people.extend_duplicates(new, "id", "levenshtein(a.name, b.name) <= 1")?;
    /// assert_eq!(all.filter(col("cluster_id").eq(lit(1)))?.count().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    fn extend_duplicates(self, new: DataFrame, id: &str, condition: &str) -> Result<DataFrame>;

    /// One row of measures of the pairs in this frame, whose first two columns are ids, as
    /// [`EvaluatePairsFunction`](tables::EvaluatePairsFunction) says. `truth` has the true pairs, of the kind `kind`.
    /// With `rows`, the number of rows of the table or of both tables, the row also says what share of all pairs was
    /// not looked at; without them that is NULL.
    ///
    /// # Errors
    /// A planning error for other columns, and for numbers of rows that do not fit the kind.
    ///
    /// ```
    /// # use datafusion::prelude::{SessionContext, col, lit};
    /// # use datafusion_similarity::tables::Truth;
    /// # use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// # let session = SessionContext::new();
    /// # session.enable_similarity()?;
    /// let found = session.sql("VALUES (1, 2), (2, 3)").await?;
    /// let truth = session.sql("VALUES (2, 1), (7, 8)").await?;
    /// let measures = found.evaluate_pairs(truth, Truth::Duplicates, &[10])?;
    /// assert_eq!(measures.filter(col("precision").eq(lit(0.5)).and(col("fn").eq(lit(1))))?.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    fn evaluate_pairs(self, truth: DataFrame, kind: Truth, rows: &[u64]) -> Result<DataFrame>;

    /// One row of measures of the clusters in this frame, whose first two columns are an id and its cluster, against
    /// those in `truth`, as [`EvaluateClustersFunction`](tables::EvaluateClustersFunction) says.
    ///
    /// # Errors
    /// A planning error for other columns.
    fn evaluate_clusters(self, truth: DataFrame) -> Result<DataFrame>;

    /// A row of measures for each of the thresholds from 0 to 1 in so many `steps`, as
    /// [`ThresholdSweepFunction`](tables::ThresholdSweepFunction) says. This frame has two ids and a score, `truth` the
    /// true pairs, of the kind `kind`.
    ///
    /// # Errors
    /// A planning error for other columns, and for less than 1 or more than 100,000 steps.
    fn threshold_sweep(self, truth: DataFrame, kind: Truth, steps: u64) -> Result<DataFrame>;

    /// What a join on `condition` would find and cost, from a sample of up to `sample` rows, as
    /// [`EstimateJoinFunction`](tables::EstimateJoinFunction) says. The pairs are those of this frame, or of a row of
    /// it and a row of `right`. `condition` is one over `a` and `b`, or the name of a matching rule.
    ///
    /// # Errors
    /// A planning error for a condition that is refused, and for a sample of no row.
    ///
    /// ```
    /// # use datafusion::prelude::{SessionContext, col, lit};
    /// # use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// # let session = SessionContext::new();
    /// # session.enable_similarity()?;
    /// # session.sql("CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna'), (2, 'Ana'), (3, 'Hans')").await?;
    /// let people = session.table("p").await?;
    /// let estimate = people.estimate_join(None, "levenshtein(a.name, b.name) <= 1", 100_000)?;
    /// assert_eq!(estimate.filter(col("matches").eq(lit(1)))?.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    fn estimate_join(self, right: Option<DataFrame>, condition: &str, sample: u64) -> Result<DataFrame>;

    /// The `number` values that most rows share, for each alternative of `condition`, as
    /// [`LargestBlocksFunction`](tables::LargestBlocksFunction) says. The pairs are those of this frame, or of a row of
    /// it and a row of `right`. `condition` is one over `a` and `b`, or the name of a matching rule.
    ///
    /// # Errors
    /// A planning error for a condition that is refused, and for no number of values.
    fn largest_blocks(self, right: Option<DataFrame>, condition: &str, number: u64) -> Result<DataFrame>;

    /// A row for each part of `condition` over two rows, with its score and whether it holds, as
    /// [`ExplainMatchFunction`](tables::ExplainMatchFunction) says. The rows are those of this frame whose `id` is in
    /// `pair`, which are constants; or the second one is a row of another frame, by its own id. `condition` is one over
    /// `a` and `b`, or the name of a matching rule. With `values` the parts also show the values that they compare.
    ///
    /// # Errors
    /// A planning error for an unknown column, a condition that is refused, and ids that are no constants.
    ///
    /// ```
    /// # use datafusion::prelude::{SessionContext, col, lit};
    /// # use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// # let session = SessionContext::new();
    /// # session.enable_similarity()?;
    /// # session.sql("CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna'), (2, 'Ana'), (3, 'Hans')").await?;
    /// let people = session.table("p").await?;
    /// let parts = people.explain_match("id", None, "levenshtein(a.name, b.name) <= 1", [lit(1), lit(2)], false)?;
    /// assert_eq!(parts.filter(col("holds").and(col("score").eq(lit(1.0))))?.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    fn explain_match(
        self,
        id: &str,
        right: Option<(DataFrame, &str)>,
        condition: &str,
        pair: [Expr; 2],
        values: bool,
    ) -> Result<DataFrame>;
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
        // the side on the left is the one that a join holds in memory
        let plan = LogicalPlanBuilder::from(clusters)
            .join_on(rows, JoinType::Right, [own.eq(member)])?
            .project(columns)?
            .build()?;
        Ok(DataFrame::new(state, plan))
    }

    fn extend_duplicates(self, new: DataFrame, id: &str, condition: &str) -> Result<DataFrame> {
        tables::over("extend_duplicates", [self, new], [lit(quoted_column(id)), lit(condition)])
    }

    fn evaluate_pairs(self, truth: DataFrame, kind: Truth, rows: &[u64]) -> Result<DataFrame> {
        let others = iter::once(lit(kind.name())).chain(rows.iter().map(|&rows| lit(rows)));
        tables::over("evaluate_pairs", [self, truth], others)
    }

    fn evaluate_clusters(self, truth: DataFrame) -> Result<DataFrame> {
        tables::over("evaluate_clusters", [self, truth], [])
    }

    fn threshold_sweep(self, truth: DataFrame, kind: Truth, steps: u64) -> Result<DataFrame> {
        tables::over("threshold_sweep", [self, truth], [lit(kind.name()), lit(steps)])
    }

    fn estimate_join(self, right: Option<DataFrame>, condition: &str, sample: u64) -> Result<DataFrame> {
        tables::over("estimate_join", iter::once(self).chain(right), [lit(condition), lit(sample)])
    }

    fn largest_blocks(self, right: Option<DataFrame>, condition: &str, number: u64) -> Result<DataFrame> {
        tables::over("largest_blocks", iter::once(self).chain(right), [lit(condition), lit(number)])
    }

    fn explain_match(
        self,
        id: &str,
        right: Option<(DataFrame, &str)>,
        condition: &str,
        pair: [Expr; 2],
        values: bool,
    ) -> Result<DataFrame> {
        let (right, right_id) = right.unzip();
        let ids = iter::once(id).chain(right_id).map(|id| lit(quoted_column(id)));
        let others = ids.chain([lit(condition)]).chain(pair).chain(values.then(|| lit("values")));
        tables::over("explain_match", iter::once(self).chain(right), others)
    }
}
