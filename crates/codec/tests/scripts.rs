//! Runs the scripts of `tests/slt` in sessions whose plans travel as bytes: each logical plan before it is planned, and
//! each physical plan before it runs. The records are the same.
//!
//! A plan that reads or changes its own session is refused by the codec, and then runs as it is; so does one of which
//! DataFusion itself has no message.

#[path = "../../../tests/slt/runner.rs"]
mod runner;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, TableReference, internal_err, not_impl_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_similarity::SimilarityStateBuilder;
use datafusion_similarity::optimizer::SimilarityQueryPlanner;
use similarity_codec::{SimilarityLogicalCodec, SimilarityPhysicalCodec};

/// Plans that have travelled, and operators of similarity joins among them.
static PLANS: AtomicUsize = AtomicUsize::new(0);
static OPERATORS: AtomicUsize = AtomicUsize::new(0);
/// Why plans have not travelled.
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What may keep a plan from travelling.
const REASONS: [&str; 6] = [
    // it is about its own session
    "runs nowhere else",
    // DataFusion has no message of these
    "is not yet supported",
    "Plan: LazyMemTableExec",
    "surrounding ScalarSubqueryExec",
    LOSES,
    STAYS,
];

/// Plans of which DataFusion's own messages lose something: the columns of an empty relation, and that a window runs
/// backwards.
const LOSES: &str = "DataFusion's message loses a part";

/// Plans that use an index of their session, whose files they find stale.
const STAYS: &str = "a similarity index stays with its session";

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let failed = runner::run_all(&folder, session, None).await?;
    let (plans, operators) = (PLANS.load(Ordering::Relaxed), OPERATORS.load(Ordering::Relaxed));
    let kept = KEPT.lock().unwrap();
    println!("{plans} plans have travelled, with {operators} operators of similarity joins; {} have not", kept.len());
    let unknown: Vec<_> = kept.iter().filter(|why| !REASONS.iter().any(|reason| why.contains(reason))).collect();
    unknown.iter().for_each(|why| println!("not travelled: {why}"));
    let all = std::env::args().len() > 1 || (plans > 900 && operators > 300);
    Ok(if failed == 0 && unknown.is_empty() && all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn session() -> Result<SessionContext> {
    let config = SessionConfig::new().with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features().with_similarity();
    Ok(SessionContext::new_with_state(builder.with_query_planner(Arc::new(TravellingPlanner)).build()))
}

/// Plans what comes out of bytes, and writes its plan to bytes.
#[derive(Debug)]
struct TravellingPlanner;

#[async_trait]
impl QueryPlanner for TravellingPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = SimilarityQueryPlanner;
        let is_query = !matches!(
            plan,
            LogicalPlan::Explain(_)
                | LogicalPlan::Analyze(_)
                | LogicalPlan::Ddl(_)
                | LogicalPlan::Dml(_)
                | LogicalPlan::Copy(_)
                | LogicalPlan::Statement(_)
                | LogicalPlan::DescribeTable(_)
        );
        if !is_query {
            return planner.create_physical_plan(plan, session).await;
        }
        let task = session.task_ctx();
        let arrived = match logical(plan, &task) {
            Ok(arrived) => arrived,
            Err(why) => {
                kept(&why);
                return planner.create_physical_plan(plan, session).await;
            }
        };
        // an error of the planner is the error of the record
        let planned = planner.create_physical_plan(&arrived, session).await?;
        match physical(&planned, &task) {
            Ok(arrived) => {
                PLANS.fetch_add(1, Ordering::Relaxed);
                OPERATORS.fetch_add(ours(&arrived)?.len(), Ordering::Relaxed);
                Ok(arrived)
            }
            Err(why) => {
                kept(&why);
                Ok(planned)
            }
        }
    }
}

fn kept(why: &DataFusionError) {
    KEPT.lock().unwrap().push(why.strip_backtrace());
}

fn logical(plan: &LogicalPlan, task: &TaskContext) -> Result<LogicalPlan> {
    let is_lost = |node: &LogicalPlan| Ok(matches!(node, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row));
    if plan.exists(is_lost)? {
        return plan_err!("{LOSES}");
    }
    let codec = SimilarityLogicalCodec::new(Arc::new(Tables::default()));
    let bytes = logical_plan_to_bytes_with_extension_codec(plan, &codec)?;
    logical_plan_from_bytes_with_extension_codec(&bytes, task, &codec)
}

fn physical(plan: &Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.exists(|operator| Ok(operator.name() == "WindowAggExec"))? {
        return plan_err!("{LOSES}");
    }
    if ours(plan)?.iter().any(|operator| operator.contains("index=")) {
        return plan_err!("{STAYS}");
    }
    let codec = SimilarityPhysicalCodec::default();
    let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &codec)?;
    let arrived = physical_plan_from_bytes_with_extension_codec(&bytes, task, &codec)?;
    let shown = ours(plan)?;
    if ours(&arrived)? != shown {
        return internal_err!("another plan has arrived:\n{shown:?}\n{:?}", ours(&arrived)?);
    }
    Ok(arrived)
}

/// The operators of similarity joins as EXPLAIN shows them.
fn ours(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    let mut shown = Vec::new();
    plan.apply(|operator| {
        let names = ["Similarity", "Epsilon", "Matching", "Nearest", "Links", "RowNumbers", "IndexedTopK"];
        if names.iter().any(|name| operator.name().starts_with(name)) {
            let line = displayable(operator.as_ref()).one_line().to_string();
            shown.push(line);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(shown)
}

/// The tables of a plan, which stay where they are: their places travel.
#[derive(Debug, Default)]
struct Tables(Mutex<Vec<Arc<dyn TableProvider>>>);

impl LogicalExtensionCodec for Tables {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        not_impl_err!("another node is not supported")
    }

    fn try_encode(&self, node: &Extension, _: &mut Vec<u8>) -> Result<()> {
        internal_err!("no codec takes {}", node.node.name())
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let place = buf.try_into().map(usize::from_le_bytes);
        let tables = self.0.lock().unwrap();
        match place.ok().and_then(|place| tables.get(place)) {
            Some(found) => Ok(Arc::clone(found)),
            None => internal_err!("{table} has not travelled"),
        }
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        provider: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        let mut tables = self.0.lock().unwrap();
        buf.extend_from_slice(&tables.len().to_le_bytes());
        tables.push(provider);
        Ok(())
    }
}
