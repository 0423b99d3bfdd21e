//! Runs the scripts of `tests/slt` on a cluster of three executors: the same records as in one process.

#[path = "../../../tests/slt/runner.rs"]
mod runner;

mod local_cluster;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::SimilarityStateBuilder;
use datafusion_similarity::optimizer::SimilarityQueryPlanner;

use local_cluster::LocalCluster;

static SCHEDULER: OnceLock<String> = OnceLock::new();

fn main() -> Result<ExitCode, Box<dyn Error>> {
    similarity_cluster::runtime()?.block_on(run())
}

async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let cluster = LocalCluster::start(3, 1).await?;
    SCHEDULER.get_or_init(|| cluster.scheduler.clone());
    // files that scripts write lie where those of the root package do
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    let folder = Path::new("tests/slt");
    let failed = runner::run_all(folder, session, Some("cluster")).await?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn session() -> Result<SessionContext> {
    let config = SessionConfig::new().with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features().with_similarity();
    let scheduler = SCHEDULER.get().map_or("", String::as_str);
    let state = similarity_cluster::connect(builder.build(), scheduler)?;
    let planner = Arc::new(QueriesTravel(Arc::clone(state.query_planner())));
    let state = SessionStateBuilder::new_from_existing(state).with_query_planner(planner).build();
    Ok(SessionContext::new_with_state(state))
}

/// Sends queries to the cluster, and leaves EXPLAIN, which says something else there, to the session.
#[derive(Debug)]
struct QueriesTravel(Arc<dyn QueryPlanner + Send + Sync>);

#[async_trait]
impl QueryPlanner for QueriesTravel {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        match plan {
            LogicalPlan::Explain(_) => SimilarityQueryPlanner.create_physical_plan(plan, session).await,
            _ => self.0.create_physical_plan(plan, session).await,
        }
    }
}
