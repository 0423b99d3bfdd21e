//! Duplicates in a table, by SQL and by data frames.
//!
//! ```text
//! cargo run --example quickstart
//! ```

use datafusion::common::{JoinType, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use datafusion_similarity::functions::expr_fn::{jaccard, word_tokens};
use datafusion_similarity::{SimilarityContext, SimilarityDataFrame, SimilarityStateBuilder};

/// A session that knows similarity joins, and a table of companies.
pub async fn session() -> Result<SessionContext> {
    let state = SessionStateBuilder::new().with_default_features().with_similarity().build();
    let session = SessionContext::new_with_state(state);
    session
        .sql(
            "CREATE TABLE companies (id INT, name VARCHAR) AS VALUES
             (1, 'Miller & Sons Ltd'), (2, 'Jones Bakery'), (3, 'Miller and Sons Ltd')",
        )
        .await?;
    Ok(session)
}

/// Duplicates by SQL.
pub async fn by_sql(session: &SessionContext) -> Result<DataFrame> {
    session
        .similarity_sql(
            "SELECT a.name, b.name AS other FROM companies a SIMILARITY JOIN companies b
             ON jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.7 AND a.id < b.id",
        )
        .await
}

/// Duplicates by data frames.
pub async fn by_data_frames(session: &SessionContext) -> Result<DataFrame> {
    let a = session.table("companies").await?.alias("a")?;
    let b = session.table("companies").await?.alias("b")?;
    let similar = jaccard(word_tokens(col("a.name")), word_tokens(col("b.name"))).gt_eq(lit(0.7));
    let pairs = a.similarity_join(b, JoinType::Inner, similar.and(col("a.id").lt(col("b.id"))))?;
    pairs.select([col("a.name"), col("b.name").alias("other")])
}

#[tokio::main]
async fn main() -> Result<()> {
    let session = session().await?;
    by_sql(&session).await?.show().await?;
    by_data_frames(&session).await?.show().await
}
