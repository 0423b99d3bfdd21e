//! The operator that a plan shows.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, apply_expression_roots,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{EmbeddedProjection, ProjectionExec, try_embed_projection};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties,
};

use super::build::{BuildTask, SharedBuild};
use super::join_metrics::{BuildMetrics, ProbeMetrics};
use super::output::Output;
use super::probe::Prober;
use super::spec::{JoinInputs, JoinSpec};
use super::stream::{ProbeInput, join_stream};
use crate::config::SimilarityOptions;
use crate::engine::{Cancel, cpu};

/// Joins two inputs on a similarity condition, by an index over one of them.
///
/// ```text
///   build input ──collect──> RecordBatch ──keys, groups──> Index        once
///                                                            │
///   probe input ──batch──> keys, groups ──prepare──> probe ──┘          per partition
///                                                      │
///                        pairs ──residual──> marks ──take──> output
/// ```
///
/// **Phases.** The build side (one partition) is collected into one batch; its key and equality expressions are
/// evaluated once; the engine builds its index with all the session's threads. Each output partition then sends
/// its probe batches through the index in bounded steps on blocking threads, checks the residual on the pairs
/// and takes output rows from both sides. Outer, semi and anti joins mark matched rows; the partition that ends
/// last emits what the join type wants of the build side.
///
/// **Self-join.** Where both inputs are provably the same and every condition is symmetric, the one input is
/// collected once and each pair is looked for once; the residual decides which way round it counts.
///
/// **NULL.** A NULL key, and a NULL equality key under `=`, matches nothing. Rows that cannot match are counted
/// in `build_unmatchable` and `probe_unmatchable`.
///
/// **Memory.** The collected rows and the index are reserved in the session's memory pool; the operator does not
/// spill. Output is bounded by the session's batch size.
#[derive(Debug)]
pub struct SimilarityJoinExec {
    inputs: JoinInputs,
    spec: Arc<JoinSpec>,
    projection: Option<Vec<usize>>,
    output: Output,
    properties: Arc<PlanProperties>,
    build: Arc<SharedBuild>,
    access_path: Arc<OnceLock<String>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SimilarityJoinExec {
    /// Joins `inputs` as `spec` says.
    pub fn new(inputs: JoinInputs, spec: Arc<JoinSpec>) -> Self {
        Self::with(inputs, spec, None)
    }

    fn with(inputs: JoinInputs, spec: Arc<JoinSpec>, projection: Option<Vec<usize>>) -> Self {
        let (left, right) = inputs.sides();
        let output = Output::new(&left.schema(), &right.schema(), spec.join_type, projection.as_deref());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&output.schema)),
            Partitioning::UnknownPartitioning(inputs.output_partitions(spec.build)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            inputs,
            spec,
            projection,
            output,
            properties: Arc::new(properties),
            build: Arc::default(),
            access_path: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// What the operator does.
    pub fn spec(&self) -> &JoinSpec {
        &self.spec
    }

    /// The inputs.
    pub fn inputs(&self) -> &JoinInputs {
        &self.inputs
    }

    fn build_task(&self) -> BuildTask {
        BuildTask {
            spec: Arc::clone(&self.spec),
            schema: self.inputs.side(self.spec.build).schema(),
            own: matches!(self.inputs, JoinInputs::Own { .. }),
            partitions: self.properties.partitioning.partition_count(),
            metrics: BuildMetrics::new(&self.metrics),
            access_path: Arc::clone(&self.access_path),
        }
    }

    fn prober(&self, partition: usize, context: &TaskContext) -> Prober {
        let config = context.session_config();
        let options = SimilarityOptions::of(config.options());
        Prober {
            spec: Arc::clone(&self.spec),
            output: self.output.clone(),
            batch_size: config.batch_size(),
            max_candidates: options.max_candidates,
            verify: options.verify,
            metrics: ProbeMetrics::new(&self.metrics, partition),
            cancel: Cancel::default(),
        }
    }
}

impl JoinInputs {
    fn sides(&self) -> (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) {
        match self {
            Self::Two { left, right } => (left, right),
            Self::Own { input, .. } => (input, input),
        }
    }

    fn side(&self, side: JoinSide) -> &Arc<dyn ExecutionPlan> {
        let (left, right) = self.sides();
        if side == JoinSide::Right { right } else { left }
    }

    fn output_partitions(&self, build: JoinSide) -> usize {
        match self {
            Self::Two { .. } => self.side(build.negate()).properties().partitioning.partition_count(),
            Self::Own { partitions, .. } => *partitions,
        }
    }
}

impl DisplayAs for SimilarityJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.explain();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let items: Vec<_> = lines.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "SimilarityJoinExec: {}", items.join(", "))
            }
            DisplayFormatType::TreeRender => lines.iter().try_for_each(|(name, value)| writeln!(f, "{name}={value}")),
        }
    }
}

impl SimilarityJoinExec {
    /// What EXPLAIN says, item by item.
    fn explain(&self) -> Vec<(&'static str, String)> {
        let spec = &self.spec;
        let mut items = vec![
            ("join_type", spec.join_type.to_string()),
            ("on", format!("[{} of ({}, {})]", spec.test, spec.left_key, spec.right_key)),
        ];
        if !spec.equalities.is_empty() {
            let keys: Vec<_> = spec.equalities.iter().map(ToString::to_string).collect();
            items.push(("keys", format!("[{}]", keys.join(", "))));
        }
        if !spec.residual.is_empty() {
            let residual: Vec<_> = spec.residual.iter().map(|r| r.expression().to_string()).collect();
            items.push(("filter", residual.join(" AND ")));
        }
        items.push(match self.inputs {
            JoinInputs::Two { .. } => ("build", format!("{} ({})", spec.build, spec.why_build)),
            JoinInputs::Own { .. } => {
                ("build", "self-join (both sides are the same input, each pair is tried once)".into())
            }
        });
        items.push(("engine", "cpu".into()));
        let path = self.access_path.get().cloned();
        items.push(("access_path", path.unwrap_or_else(|| cpu::access_paths(spec.test).into())));
        if let Some(projection) = &self.projection {
            items.push(("projection", format!("[{}]", self.column_names(projection.len()))));
        }
        items
    }

    fn column_names(&self, columns: usize) -> String {
        let names = self.output.schema.fields().iter().take(columns).map(|field| field.name().as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

impl ExecutionPlan for SimilarityJoinExec {
    fn name(&self) -> &str {
        "SimilarityJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match &self.inputs {
            JoinInputs::Two { left, right } => vec![left, right],
            JoinInputs::Own { input, .. } => vec![input],
        }
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        use Distribution::{SinglePartition, UnspecifiedDistribution};
        InputDistributionRequirements::new(match (&self.inputs, self.spec.build) {
            (JoinInputs::Own { .. }, _) => vec![SinglePartition],
            (_, JoinSide::Right) => vec![UnspecifiedDistribution, SinglePartition],
            _ => vec![SinglePartition, UnspecifiedDistribution],
        })
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.spec.expressions(), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs = match (&self.inputs, children.as_slice()) {
            (JoinInputs::Two { .. }, [left, right]) => {
                JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) }
            }
            (JoinInputs::Own { partitions, .. }, [input]) => {
                JoinInputs::Own { input: Arc::clone(input), partitions: *partitions }
            }
            _ => return internal_err!("SimilarityJoinExec got {} children", children.len()),
        };
        Ok(Arc::new(Self::with(inputs, Arc::clone(&self.spec), self.projection.clone())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let build_input = self.inputs.side(self.spec.build);
        if build_input.properties().partitioning.partition_count() != 1 {
            return internal_err!("SimilarityJoinExec needs its build side in a single partition");
        }
        let input = match &self.inputs {
            JoinInputs::Two { .. } => {
                let probe = self.inputs.side(self.spec.build.negate());
                ProbeInput::Batches(probe.execute(partition, Arc::clone(&context))?)
            }
            JoinInputs::Own { .. } => ProbeInput::Own,
        };
        let build = self.build.join(self.build_task(), build_input, &context)?;
        Ok(join_stream(self.prober(partition, &context), build, input))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.projection.is_some() {
            return Ok(None);
        }
        try_embed_projection(projection, self)
    }
}

impl EmbeddedProjection for SimilarityJoinExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        Ok(Self::with(self.inputs.clone(), Arc::clone(&self.spec), projection))
    }
}
