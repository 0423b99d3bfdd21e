//! The operator that reads links between ids and says what they amount to.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs, StatisticsContext,
    execute_stream_partitioned,
};
use futures::{StreamExt, TryStreamExt};
use similarity_engine::Cancel;
use similarity_engine::choice::{Asked, EngineSpec};
use similarity_engine::links::{
    Assignment, Clustering, Components, IntegerIds, LinkChunk, LinkSink, LinkTable, Matching, Method, PathSearch,
};

use super::blocking::blocking;
use super::engine::{EngineResult, metric, open, platform};
use super::nested_loops;
use crate::config::SimilarityOptions;

/// What links are read for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LinkTask {
    /// Each id with the smallest id of its cluster.
    Clusters(Method),
    /// Links that make up a one-to-one matching.
    Matching(Assignment),
    /// The links of a shortest path from one id to another.
    Path {
        /// The id at which the path begins.
        from: ScalarValue,
        /// The id at which it ends.
        to: ScalarValue,
    },
}

impl LinkTask {
    /// The columns that come out for links of this schema: two ids and, maybe, a score as a double.
    ///
    /// # Errors
    /// Other columns, or ids of two types where both sides are the same things.
    pub fn columns(&self, links: &Schema) -> Result<Vec<Field>> {
        let (left, right) = match links.fields().as_ref() {
            [left, right] => (left, right),
            [left, right, score] if *score.data_type() == DataType::Float64 => (left, right),
            _ => return plan_err!("links are two ids and, maybe, a score"),
        };
        if !matches!(self, Self::Matching(_)) && left.data_type() != right.data_type() {
            return plan_err!("links are between ids of one type, not {} and {}", left.data_type(), right.data_type());
        }
        let id = |name: &str, of: &Field| Field::new(name, of.data_type().clone(), false);
        let score = Field::new("score", DataType::Float64, false);
        Ok(match self {
            Self::Clusters(_) => vec![id("id", left), id("cluster_id", left)],
            Self::Matching(_) => {
                let right_name =
                    if left.name() == right.name() { format!("{}_right", right.name()) } else { right.name().clone() };
                vec![id(left.name(), left), id(&right_name, right), score]
            }
            Self::Path { .. } => {
                vec![Field::new("step", DataType::Int64, false), id("from_id", left), id("to_id", left), score]
            }
        })
    }

    /// Whether a device may have kernels for it.
    fn may_use_a_device(&self, links: &Schema) -> bool {
        matches!(self, Self::Clusters(Method::Components)) && IntegerIds::of(links.field(0).data_type()).is_some()
    }

    /// What takes links of this schema, of which so many are expected.
    fn sink(&self, links: &Schema, engine: EngineSpec, expected: Option<usize>) -> Result<Box<dyn LinkSink>> {
        let types = [0, 1].map(|at| links.field(at).data_type());
        Ok(match self {
            Self::Clusters(Method::Components) if self.may_use_a_device(links) => {
                Box::new(Components::new(open(engine)?, types[0], expected).or_datafusion()?)
            }
            Self::Clusters(method) => Box::new(Clustering::new(*method, types[0]).or_datafusion()?),
            Self::Matching(assignment) => Box::new(Matching::new(*assignment, types[0], types[1]).or_datafusion()?),
            Self::Path { from, to } => {
                let [from, to] = [from, to].map(|id| id.cast_to(types[0])?.to_array());
                Box::new(PathSearch::new(&from?, &to?).or_datafusion()?)
            }
        })
    }
}

impl fmt::Display for LinkTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clusters(Method::Components) => f.write_str("clusters, method=components"),
            Self::Clusters(Method::Center) => f.write_str("clusters, method=center"),
            Self::Clusters(Method::Star) => f.write_str("clusters, method=star"),
            Self::Clusters(Method::Split { largest }) => write!(f, "clusters, method=split, largest={largest}"),
            Self::Matching(Assignment::Greedy) => f.write_str("one_to_one, method=greedy"),
            Self::Matching(Assignment::Optimal) => f.write_str("one_to_one, method=optimal"),
            // the ids are values of the query's tables
            Self::Path { .. } => f.write_str("path"),
        }
    }
}

/// Links that a thread brings at a time.
const CHUNK: usize = 1 << 17;

/// Reads pairs of ids from all partitions at once, and then says what they amount to, in one partition.
///
/// What is kept of the links counts against the memory pool: for components the ids alone. A device may find components
/// of ids that are whole numbers.
#[derive(Debug)]
pub struct LinksExec {
    task: LinkTask,
    engine: EngineSpec,
    /// The engine that has run, and why.
    found: Arc<OnceLock<String>>,
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LinksExec {
    /// What the links are read for.
    pub fn task(&self) -> &LinkTask {
        &self.task
    }

    /// What finds it.
    pub fn engine(&self) -> EngineSpec {
        self.engine
    }

    /// The operator over `input`, which has the columns that [`LinkTask::columns`] asks for.
    ///
    /// # Errors
    /// Columns other than those that [`LinkTask::columns`] takes.
    pub fn try_new(task: LinkTask, engine: EngineSpec, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let schema: SchemaRef = Arc::new(Schema::new(task.columns(&input.schema())?));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Self {
            task,
            engine,
            found: Arc::default(),
            input,
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Which engine runs it, or has run it.
    fn shown_engine(&self) -> String {
        let planned = || match &self.task {
            LinkTask::Clusters(Method::Components) => {
                self.engine.explain_components(platform(), self.input.schema().field(0).data_type())
            }
            _ => "cpu".to_owned(),
        };
        self.found.get().cloned().unwrap_or_else(planned)
    }

    /// Links that are expected, where that decides something.
    fn expected(&self) -> Result<Option<usize>> {
        if self.engine.asked != Asked::Auto {
            return Ok(None);
        }
        let statistics = StatisticsContext::new().compute(self.input.as_ref(), &StatisticsArgs::new())?;
        Ok(statistics.num_rows.get_value().copied())
    }
}

impl DisplayAs for LinksExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "task={}\nengine={}", self.task, self.shown_engine()),
            _ => write!(f, "{}: task={}, engine={}", self.name(), self.task, self.shown_engine()),
        }
    }
}

impl ExecutionPlan for LinksExec {
    fn name(&self) -> &str {
        "LinksExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => Ok(Arc::new(Self::try_new(self.task.clone(), self.engine, input)?)),
            _ => internal_err!("LinksExec has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let reservation = Mutex::new(MemoryConsumer::new("LinksExec").register(context.memory_pool()));
        let links = MetricBuilder::new(&self.metrics).counter("links", partition);
        let (task, engine, expected, links_schema) =
            (self.task.clone(), self.engine, self.expected()?, self.input.schema());
        let (counted, found) = (self.metrics.clone(), Arc::clone(&self.found));
        let (rows, threads) = (context.session_config().batch_size(), context.session_config().target_partitions());
        let (schema, input) = (Arc::clone(&self.schema), Arc::clone(&self.input));
        let most_pairs = SimilarityOptions::of(context.session_config().options()).max_nested_loop_pairs;
        let table = async move {
            if let Some(limit) = most_pairs {
                nested_loops::refuse_beyond(Arc::clone(&input), limit, Arc::clone(&context)).await?;
            }
            let inputs = execute_stream_partitioned(input, context)?;
            let sink = blocking(move || task.sink(&links_schema, engine, expected)).await?;
            let reader = Arc::new(Reader { sink, reservation, links });
            let tasks = inputs.into_iter().map(|input| SpawnedTask::spawn(Arc::clone(&reader).read(input)));
            // a task that is dropped with the rest is aborted
            for task in tasks.collect::<Vec<_>>() {
                task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            }
            let Some(reader) = Arc::into_inner(reader) else { return internal_err!("a reader of links still runs") };
            let (table, reservation) = reader.finish(threads).await?;
            table.metrics().into_iter().for_each(|value| counted.register(Arc::new(Metric::new(metric(value), None))));
            table.engine().into_iter().for_each(|engine| drop(found.set(engine.to_owned())));
            let starts = (0..table.rows()).step_by(rows.max(1));
            Ok(futures::stream::iter(starts).map(move |start| {
                let _held = &reservation;
                let timer = metrics.elapsed_compute().timer();
                let end = (start + rows).min(table.rows());
                let batch = RecordBatch::try_new(Arc::clone(&schema), table.columns(start..end).or_datafusion()?)?;
                timer.done();
                metrics.output_rows().add(batch.num_rows());
                Ok(batch)
            }))
        };
        let batches = futures::stream::once(table).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// What all partitions share.
struct Reader {
    sink: Box<dyn LinkSink>,
    reservation: Mutex<MemoryReservation>,
    links: Count,
}

impl Reader {
    /// Reads the links of a partition.
    async fn read(self: Arc<Self>, mut input: SendableRecordBatchStream) -> Result<()> {
        let (mut chunk, mut rows) = (LinkChunk::default(), 0);
        while let Some(batch) = input.try_next().await? {
            rows += batch.num_rows();
            let to = [&mut chunk.left, &mut chunk.right, &mut chunk.scores];
            batch.columns().iter().zip(to).for_each(|(column, to)| to.push(Arc::clone(column)));
            if rows >= CHUNK {
                Arc::clone(&self).add(std::mem::take(&mut chunk), std::mem::take(&mut rows)).await?;
            }
        }
        self.add(chunk, rows).await
    }

    async fn add(self: Arc<Self>, chunk: LinkChunk, rows: usize) -> Result<()> {
        self.links.add(rows);
        blocking(move || {
            self.sink.add(&chunk).or_datafusion()?;
            self.reservation.lock().unwrap_or_else(PoisonError::into_inner).try_resize(self.sink.memory())
        })
        .await
    }

    /// What the links amount to, and the memory that it holds.
    async fn finish(self, threads: usize) -> Result<(Box<dyn LinkTable>, MemoryReservation)> {
        let Self { sink, reservation, .. } = self;
        let reservation = reservation.into_inner().unwrap_or_else(PoisonError::into_inner);
        reservation.try_resize(sink.memory() + sink.memory_to_finish())?;
        let cancel = Cancel::default();
        // a query that is dropped drops this future, and with it the guard
        let _guard = CancelOnDrop(cancel.clone());
        let table = blocking(move || sink.finish(threads, &cancel).or_datafusion()).await?;
        Ok((table, reservation))
    }
}

struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
