//! Puts every plan of the session under watch, so that also CREATE TABLE AS and COPY show progress.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{Stream, StreamExt};

use crate::progress::{Progress, Watch};

/// Plans as another planner does and watches what it planned.
#[derive(Debug)]
pub struct WatchingPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    progress: Progress,
}

impl WatchingPlanner {
    pub fn new(inner: Arc<dyn QueryPlanner + Send + Sync>, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

#[async_trait]
impl QueryPlanner for WatchingPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.inner.create_physical_plan(plan, session).await?;
        // results of an unbounded plan are printed while it runs
        if input.boundedness().is_unbounded() {
            return Ok(input);
        }
        Ok(Arc::new(WatchExec { input, progress: self.progress.clone() }))
    }
}

/// Hands its input on; the watch over it ends with the last batch, before anything is printed.
#[derive(Debug)]
struct WatchExec {
    input: Arc<dyn ExecutionPlan>,
    progress: Progress,
}

impl DisplayAs for WatchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchExec")
    }
}

impl ExecutionPlan for WatchExec {
    fn name(&self) -> &str {
        "WatchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => Ok(Arc::new(Self { input, progress: self.progress.clone() })),
            _ => internal_err!("WatchExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let watch = self.progress.watch(&self.input);
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Watched { input, watch: Some(watch) }))
    }
}

struct Watched {
    input: SendableRecordBatchStream,
    watch: Option<Arc<Watch>>,
}

impl Stream for Watched {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.input.poll_next_unpin(context);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.watch = None;
        }
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
