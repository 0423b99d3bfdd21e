//! How an executor runs a task: it stops when the query is cancelled, and fails in words that its user reads.
//!
//! Ballista drops the future of a cancelled task, but not the streams that this task has begun: they run to their end
//! in tasks of their own. Here each of them is below a [`StoppableExec`], which ends when the future is dropped.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::{RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::failure;

/// Ballista's engine with tasks that stop.
#[derive(Default)]
pub struct Tasks(DefaultExecutionEngine);

impl ExecutionEngine for Tasks {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let stop = CancellationToken::new();
        let written = plan.children().into_iter().map(|input| -> Arc<dyn ExecutionPlan> {
            Arc::new(StoppableExec { input: Arc::clone(input), stop: stop.clone() })
        });
        let (written, options) = (written.collect(), ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute));
        let plan = plan.replace_children(written, options)?;
        let ids = global_output_partition_ids;
        let stage = self.0.create_query_stage_exec(job_id, stage_id, task_id, ids, plan, work_dir, config)?;
        Ok(Arc::new(Task { stage, stop }))
    }
}

/// One task.
#[derive(Debug)]
struct Task {
    stage: Arc<dyn QueryStageExecutor>,
    stop: CancellationToken,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for Task {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let _stops_when_dropped = self.stop.clone().drop_guard();
        self.stage.execute_query_stage(task_id, context).await.map_err(|error| failure::marked(&error))
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.stage.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.stage.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.stage.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.stage.collect_column_stats()
    }
}

/// What a task writes, until it is to stop.
///
/// Metrics of a task are as many as the scheduler expects, so that this operator has none.
#[derive(Debug)]
struct StoppableExec {
    input: Arc<dyn ExecutionPlan>,
    stop: CancellationToken,
}

impl DisplayAs for StoppableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoppableExec")
    }
}

impl ExecutionPlan for StoppableExec {
    fn name(&self) -> &str {
        "StoppableExec"
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
            (Some(input), None) => Ok(Arc::new(Self { input, stop: self.stop.clone() })),
            _ => internal_err!("StoppableExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let stopped = self.stop.clone().cancelled_owned();
        let schema = rows.schema();
        let until_stopped = futures::stream::unfold(Some((rows, Box::pin(stopped))), |running| async move {
            let (mut rows, mut stopped) = running?;
            tokio::select! {
                biased;
                () = &mut stopped => Some((Err(exec_datafusion_err!("the task was cancelled")), None)),
                next = rows.next() => next.map(|batch| (batch, Some((rows, stopped)))),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, until_stopped)))
    }
}
