//! A session whose queries run on a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use ballista_core::planner::BallistaQueryPlanner;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_proto::bytes::logical_plan_to_bytes_with_extension_codec;
use datafusion_proto::protobuf::LogicalPlanNode;
use datafusion_similarity::functions;
use datafusion_similarity::optimizer::{DmlNode, SimilarityQueryPlanner};

use crate::remote::RemoteQueryExec;
use crate::session::for_cluster;
use crate::{codec, failure, tables};

/// `state`, which has similarity joins, as a session whose queries run on the cluster of the scheduler at `scheduler`,
/// which is a host and a port.
///
/// Tables, functions and settings of the session stay. Tables that no file holds travel with each query that reads
/// them, up to 64 MB. Files have to be where all machines read them. Queries without a table, and changes of tables of
/// the session, run in the session.
///
/// # Errors
/// Where DataFusion refuses the session.
pub fn connect(state: SessionState, scheduler: &str) -> Result<SessionState> {
    let scheduler: Arc<str> = format!("http://{scheduler}").into();
    let config = for_cluster(state.config().clone());
    let planner = ClusterPlanner { scheduler: Arc::clone(&scheduler) };
    let config = config.with_ballista_query_planner(Arc::new(planner));
    let state = SessionStateBuilder::new_from_existing(state).with_config(config).build();
    let state = state.upgrade_for_ballista(scheduler.to_string())?;
    // Ballista leaves its own functions only
    let mut builder = SessionStateBuilder::new_from_existing(state);
    builder.scalar_functions().get_or_insert_default().extend(functions::all());
    Ok(builder.build())
}

/// Plans what runs in the session, and hands all else to a scheduler.
#[derive(Debug)]
struct ClusterPlanner {
    scheduler: Arc<str>,
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        if stays(plan)? {
            return SimilarityQueryPlanner.create_physical_plan(plan, session).await;
        }
        let plan = with_values(plan, session).await?;
        let plan = tables::with_rows(&plan, session).await?;
        if let Err(error) = logical_plan_to_bytes_with_extension_codec(&plan, codec::logical().as_ref()) {
            // what has no plan in one process says why in better words
            let planned = SimilarityQueryPlanner.create_physical_plan(&plan, session).await;
            return Err(planned.err().unwrap_or_else(|| failure::without_context(error)));
        }
        let (scheduler, options) = (self.scheduler.to_string(), session.config().ballista_config());
        let remote: Arc<dyn ExecutionPlan> = match &plan {
            LogicalPlan::Analyze(_) => {
                let ballista =
                    BallistaQueryPlanner::<LogicalPlanNode>::with_extension(scheduler, options, codec::logical());
                ballista.create_physical_plan(&plan, session).await?
            }
            _ => {
                let id = session.session_id().to_owned();
                let query = DistributedQueryExec::<LogicalPlanNode>::with_extension(
                    scheduler,
                    options,
                    plan,
                    codec::logical(),
                    id,
                );
                Arc::new(query)
            }
        };
        Ok(Arc::new(RemoteQueryExec::new(remote, Arc::clone(&self.scheduler))))
    }
}

/// Whether a plan runs in its session: it reads no table, describes one of the session, or changes one.
fn stays(plan: &LogicalPlan) -> Result<bool> {
    let (mut reads, mut is_own) = (false, false);
    plan.apply_with_subqueries(|node| {
        reads |= matches!(node, LogicalPlan::TableScan(_));
        is_own |= match node {
            LogicalPlan::DescribeTable(_) => true,
            LogicalPlan::Dml(change) => !source_as_provider(&change.target)?.is::<ListingTable>(),
            LogicalPlan::Extension(extension) => extension.node.as_any().is::<DmlNode>(),
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_own || !reads)
}

/// `plan` with the values of its sub-queries that are of no row in particular and that no join has taken.
///
/// # Errors
/// A sub-query with more than one row.
async fn with_values(plan: &LogicalPlan, session: &dyn Session) -> Result<LogicalPlan> {
    let mut subqueries = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarSubquery(subquery) = expr
                    && subquery.outer_ref_columns.is_empty()
                {
                    subqueries.push(subquery.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if subqueries.is_empty() {
        return Ok(plan.clone());
    }
    let mut values = Vec::with_capacity(subqueries.len());
    for subquery in &subqueries {
        let rows = session.create_physical_plan(&subquery.subquery).await?;
        let rows = collect(rows, session.task_ctx()).await?;
        let column = rows.iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.column(0));
        values.push(match (rows.iter().map(RecordBatch::num_rows).sum(), column) {
            (0, _) => ScalarValue::try_from(subquery.subquery.schema().field(0).data_type())?,
            (1, Some(column)) => ScalarValue::try_from_array(column, 0)?,
            _ => return exec_err!("Scalar subquery returned more than one row"),
        });
    }
    let with_values = plan.clone().transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match &expr {
                Expr::ScalarSubquery(subquery) => match subqueries.iter().position(|known| known == subquery) {
                    Some(place) => Ok(Transformed::yes(lit(values[place].clone()))),
                    None => Ok(Transformed::no(expr)),
                },
                _ => Ok(Transformed::no(expr)),
            })
        })
    })?;
    Ok(with_values.data)
}
