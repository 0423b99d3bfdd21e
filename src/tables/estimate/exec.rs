//! The operator that samples its inputs, joins the samples and says what they tell about all rows.
//!
//! It stands beside its function and not among the other operators, because it plans queries while it runs.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringBuilder, UInt32Builder};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use super::cost;
use super::interval::Interval;
use super::pairs::{Condition, Counted, Samples};
use super::sample::Sample;

/// What is estimated, and by how large a sample.
#[derive(Debug, Clone)]
pub(super) struct Estimate {
    /// The columns of one table or of two that the condition reads.
    pub inputs: Vec<LogicalPlan>,
    /// The alternatives; the last one is the whole condition, unless it has one alternative.
    pub clauses: Vec<Clause>,
    pub size: usize,
    pub seed: u64,
}

/// An alternative of a condition, or the whole.
#[derive(Debug, Clone)]
pub(super) struct Clause {
    /// Number from 1; the whole has none.
    pub number: Option<u32>,
    pub condition: Condition,
    /// What holds for pairs that are compared by a measure; without one that is all pairs.
    pub candidates: Option<Condition>,
    /// What a row of either side has to fulfil.
    pub rows: [Vec<String>; 2],
}

/// The columns that come out.
pub(super) fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let count = |name: &str| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![
            Field::new("clause", DataType::UInt32, true),
            Field::new("condition", DataType::Utf8, false),
            count("candidates"),
            count("candidates_low"),
            count("candidates_high"),
            count("matches"),
            count("matches_low"),
            count("matches_high"),
            count("left_unmatchable"),
            count("right_unmatchable"),
            Field::new("seconds", DataType::Float64, true),
            count("bytes"),
        ]))
    });
    Arc::clone(&SCHEMA)
}

/// Draws a sample of each input, joins the samples by each alternative, and extrapolates.
#[derive(Debug)]
pub(super) struct EstimateExec {
    estimate: Estimate,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// Plans the joins of the samples.
    state: SessionState,
    properties: Arc<PlanProperties>,
}

impl EstimateExec {
    pub fn new(estimate: Estimate, inputs: Vec<Arc<dyn ExecutionPlan>>, state: SessionState) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { estimate, inputs, state, properties: Arc::new(properties) }
    }

    /// The operator with some of its columns.
    pub fn projected(self, columns: Option<&Vec<usize>>) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Arc<dyn ExecutionPlan> = Arc::new(self);
        let Some(columns) = columns else { return Ok(all) };
        let column = |&at: &usize| {
            let name = all.schema().field(at).name().clone();
            Ok(ProjectionExpr { expr: col(&name, &all.schema())?, alias: name })
        };
        let columns = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(columns, all)?))
    }
}

impl DisplayAs for EstimateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { clauses, size, seed, .. } = &self.estimate;
        let clauses = clauses.iter().filter(|clause| clause.number.is_some()).count();
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "clauses={clauses}\nsample={size}\nseed={seed}"),
            _ => write!(f, "{}: clauses={clauses}, sample={size}, seed={seed}", self.name()),
        }
    }
}

impl ExecutionPlan for EstimateExec {
    fn name(&self) -> &str {
        "EstimateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(self.estimate.clone(), children, self.state.clone())))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (estimate, inputs, state) = (self.estimate.clone(), self.inputs.clone(), self.state.clone());
        let rows = async move {
            // the joins of the samples are planned and run on another thread of the runtime
            let task = SpawnedTask::spawn(run(estimate, inputs, state, context));
            task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), futures::stream::once(rows))))
    }
}

/// Everything that the samples tell.
async fn run(
    estimate: Estimate,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    state: SessionState,
    context: Arc<TaskContext>,
) -> Result<RecordBatch> {
    let start = Instant::now();
    let mut samples = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        let seed = estimate.seed.wrapping_add(at as u64);
        samples.push(Sample::draw(input, estimate.size, seed, &context).await?);
    }
    let read = start.elapsed().as_secs_f64();
    let right = if samples.len() > 1 { samples.pop() } else { None };
    let Some(left) = samples.pop() else { return Ok(RecordBatch::new_empty(schema())) };
    let samples = Samples::new(left, right);
    let unmatchable = unmatchable(&samples, &estimate.clauses, &state)?;
    let mut table = Table::default();
    for (clause, unmatchable) in estimate.clauses.iter().zip(unmatchable) {
        let candidates = match &clause.candidates {
            None => Interval::exact(samples.all_pairs()),
            Some(candidates) => {
                let Counted { found, rows, .. } = samples.count(candidates, None, &state, &context).await?;
                found.of_all(rows)
            }
        };
        let density = clause.candidates.is_some().then(|| candidates.value / samples.all_pairs().max(1.0));
        let Counted { found, rows, run } = samples.count(&clause.condition, density, &state, &context).await?;
        let half = samples.half(&clause.condition, &run, &state, &context).await?;
        let (seconds, bytes) = cost::of_all(run, half, context.session_config().target_partitions());
        let cost = (read + seconds, bytes);
        table.add(clause, candidates, found.of_all(rows), unmatchable, cost);
    }
    table.finish()
}

/// For each clause, the rows of either table that it cannot hold for. Of one table: whichever row of a pair they are.
fn unmatchable(samples: &Samples, clauses: &[Clause], state: &SessionState) -> Result<Vec<[Option<f64>; 2]>> {
    let side = |side: usize| -> Result<Vec<Vec<bool>>> {
        let conditions: Vec<Vec<String>> =
            clauses.iter().filter(|clause| clause.number.is_some()).map(|clause| clause.rows[side].clone()).collect();
        samples.matchable(&conditions, side, state)
    };
    let mut sides = [side(0)?, side(1)?];
    let either = |one: &[bool], other: &[bool]| one.iter().zip(other).map(|(one, other)| *one || *other).collect();
    if samples.right.is_none() {
        sides[0] = sides[0].iter().zip(&sides[1]).map(|(left, right)| either(left, right)).collect();
    }
    if clauses.len() > 1 {
        for side in &mut sides {
            let any = side.iter().skip(1).fold(side[0].clone(), |any, clause| either(&any, clause));
            side.push(any);
        }
    }
    let all = [samples.left.all, samples.right.as_ref().map_or(0, |right| right.all)];
    let of_all = |side: usize, at: usize| {
        let rows = &sides[side][at];
        let failing = rows.iter().filter(|may_match| !**may_match).count() as f64;
        failing * all[side] as f64 / rows.len().max(1) as f64
    };
    Ok((0..clauses.len()).map(|at| [Some(of_all(0, at)), samples.right.is_some().then(|| of_all(1, at))]).collect())
}

/// The rows that come out.
#[derive(Default)]
struct Table {
    clause: UInt32Builder,
    condition: StringBuilder,
    /// The columns of whole numbers, in the order of the schema.
    counts: [Int64Builder; 9],
    seconds: Float64Builder,
}

impl Table {
    fn add(
        &mut self,
        clause: &Clause,
        candidates: Interval,
        matches: Interval,
        [left, right]: [Option<f64>; 2],
        (seconds, bytes): (f64, f64),
    ) {
        self.clause.append_option(clause.number);
        self.condition.append_value(&clause.condition.sql);
        let counts = [
            Some(candidates.value.round()),
            Some(candidates.low.floor()),
            Some(candidates.high.ceil()),
            Some(matches.value.round()),
            Some(matches.low.floor()),
            Some(matches.high.ceil()),
            left.map(f64::round),
            right.map(f64::round),
            Some(bytes.round()),
        ];
        self.counts.iter_mut().zip(counts).for_each(|(to, count)| to.append_option(count.map(|count| count as i64)));
        self.seconds.append_value(seconds);
    }

    fn finish(mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.clause.finish()), Arc::new(self.condition.finish())];
        let mut counts = self.counts.iter_mut().map(|counts| -> ArrayRef { Arc::new(counts.finish()) });
        columns.extend(counts.by_ref().take(8));
        columns.push(Arc::new(self.seconds.finish()));
        columns.extend(counts);
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}
