//! A service that finds a tenant's duplicate customers: one runtime, one memory budget, a session a request, its own
//! tables, and a deadline after which the work stops.
//!
//! ```text
//! cargo run --example service
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::cast::{as_float64_array, as_int64_array};
use datafusion::common::{JoinType, Result, exec_datafusion_err};
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext, col, lit};
use datafusion_similarity::functions::expr_fn::{jaccard, word_tokens};
use datafusion_similarity::{SimilarityDataFrame, SimilarityStateBuilder};

/// Two customers that look alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Duplicate {
    /// One customer's id.
    pub id: i64,
    /// The other's, the greater of both.
    pub other: i64,
    /// How alike their names are, at most 1.
    pub score: f64,
}

/// Customers by tenant, and the resources that all requests share.
pub struct Service {
    runtime: Arc<RuntimeEnv>,
    customers: HashMap<String, Arc<MemTable>>,
}

impl Service {
    /// A service whose queries share `memory` bytes.
    pub fn try_new(memory: usize) -> Result<Self> {
        let pool = Arc::new(FairSpillPool::new(memory));
        Ok(Self { runtime: RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?, customers: HashMap::new() })
    }

    /// Replaces a tenant's customers, numbered from 0.
    pub fn load<S: AsRef<str>>(&mut self, tenant: &str, names: impl IntoIterator<Item = S>) -> Result<()> {
        let names = StringArray::from_iter_values(names);
        let ids = Int64Array::from_iter_values(0..names.len() as i64);
        let batch =
            RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("name", Arc::new(names) as ArrayRef)])?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        self.customers.insert(tenant.to_owned(), Arc::new(table));
        Ok(())
    }

    /// The duplicates among a tenant's customers, the most alike first.
    ///
    /// A request that takes longer than `deadline` fails; its work stops when the future is dropped.
    pub async fn duplicates(&self, tenant: &str, threshold: f64, deadline: Duration) -> Result<Vec<Duplicate>> {
        let customers = self.customers.get(tenant).ok_or_else(|| exec_datafusion_err!("no such tenant"))?;
        let work = find_duplicates(self.session(), Arc::clone(customers), threshold);
        tokio::time::timeout(deadline, work).await.map_err(|_| exec_datafusion_err!("the deadline has passed"))?
    }

    /// Sessions are cheap; the runtime behind them holds what is shared.
    fn session(&self) -> SessionContext {
        let state = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(2))
            .with_runtime_env(Arc::clone(&self.runtime))
            .with_default_features()
            .with_similarity()
            .build();
        SessionContext::new_with_state(state)
    }
}

async fn find_duplicates(session: SessionContext, customers: Arc<MemTable>, threshold: f64) -> Result<Vec<Duplicate>> {
    session.register_table("customers", customers)?;
    let score = jaccard(word_tokens(col("a.name")), word_tokens(col("b.name")));
    let pairs = alias(&session, "a")
        .await?
        .similarity_join(
            alias(&session, "b").await?,
            JoinType::Inner,
            score.clone().gt_eq(lit(threshold)).and(col("a.id").lt(col("b.id"))),
        )?
        .select([col("a.id"), col("b.id").alias("other"), score.alias("score")])?
        .sort(vec![col("score").sort(false, false), col("id").sort(true, false), col("other").sort(true, false)])?;
    let mut found = Vec::new();
    for batch in pairs.collect().await? {
        let (id, other) = (as_int64_array(batch.column(0))?, as_int64_array(batch.column(1))?);
        let score = as_float64_array(batch.column(2))?;
        found.extend((0..batch.num_rows()).map(|i| Duplicate {
            id: id.value(i),
            other: other.value(i),
            score: score.value(i),
        }));
    }
    Ok(found)
}

async fn alias(session: &SessionContext, name: &str) -> Result<DataFrame> {
    session.table("customers").await?.alias(name)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut service = Service::try_new(1 << 30)?;
    service.load("acme", ["Miller & Sons Ltd", "Jones Bakery", "Miller and Sons Ltd", "Bakery Jones"])?;
    service.load("globex", (0..200_000).map(|i| format!("customer {} of region {}", i / 3, i % 97)))?;

    let second = Duration::from_secs(1);
    let (small, large) = tokio::join!(
        service.duplicates("acme", 0.6, second),
        service.duplicates("globex", 0.1, Duration::from_millis(50)),
    );
    println!("acme: {:?}", small?);
    println!("globex: {}", large.map_or_else(|e| e.to_string(), |found| format!("{} duplicates", found.len())));
    Ok(())
}
