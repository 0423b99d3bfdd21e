//! A query that runs on a cluster, seen from the session that has asked for it.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use ballista_core::JobId;
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::StreamExt;
use tokio::runtime::Handle;

use crate::failure;

/// Ballista's query, which it leaves running when nobody waits for its rows, and whose errors name its own parts.
///
/// The query is cancelled when its stream is dropped before the end.
#[derive(Debug)]
pub struct RemoteQueryExec {
    query: Arc<dyn ExecutionPlan>,
    scheduler: Arc<str>,
}

impl RemoteQueryExec {
    /// `query`, which is Ballista's, at the scheduler of this address.
    pub fn new(query: Arc<dyn ExecutionPlan>, scheduler: Arc<str>) -> Self {
        Self { query, scheduler }
    }
}

impl DisplayAs for RemoteQueryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteQueryExec: scheduler={}", self.scheduler)
    }
}

impl ExecutionPlan for RemoteQueryExec {
    fn name(&self) -> &str {
        "RemoteQueryExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.query.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.query]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(query), None) => Ok(Arc::new(Self::new(query, Arc::clone(&self.scheduler)))),
            _ => internal_err!("RemoteQueryExec has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.query.metrics()
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.query.execute(partition, context).map_err(failure::in_plain_words)?;
        let schema = rows.schema();
        let mut job =
            RunningJob { query: Arc::clone(&self.query), scheduler: Arc::clone(&self.scheduler), is_over: false };
        let mut rows = rows.map(|batch| batch.map_err(failure::in_plain_words));
        let rows = futures::stream::poll_fn(move |context| {
            let next = rows.poll_next_unpin(context);
            // all of it is captured, not the mark alone
            let job = &mut job;
            job.is_over |= matches!(next, Poll::Ready(None | Some(Err(_))));
            next
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// A job that is cancelled when it is dropped.
struct RunningJob {
    query: Arc<dyn ExecutionPlan>,
    scheduler: Arc<str>,
    is_over: bool,
}

impl RunningJob {
    fn id(&self) -> Option<JobId> {
        let query =
            |plan: &Arc<dyn ExecutionPlan>| plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?.job_id();
        query(&self.query).or_else(|| self.query.children().into_iter().find_map(query))
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let (false, Some(id), Ok(runtime)) = (self.is_over, self.id(), Handle::try_current()) else { return };
        let scheduler = self.scheduler.to_string();
        runtime.spawn(async move {
            // nobody waits for the outcome
            let _ = cancel(scheduler, id).await;
        });
    }
}

async fn cancel(scheduler: String, id: JobId) -> Result<()> {
    let unreachable = |error: tonic::transport::Error| exec_datafusion_err!("the scheduler cannot be reached: {error}");
    let mut scheduler = SchedulerGrpcClient::connect(scheduler).await.map_err(unreachable)?;
    let job_id = id.into();
    scheduler
        .cancel_job(CancelJobParams { job_id })
        .await
        .map_err(|status| DataFusionError::External(status.into()))?;
    Ok(())
}
