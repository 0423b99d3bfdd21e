//! The operator that a plan shows.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, apply_expression_roots,
};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{EmbeddedProjection, ProjectionExec, try_embed_projection};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties,
};

use super::build::{BuildTask, Built, SharedBuild};
use super::direction::Direction;
use super::emission::{Emission, Rows};
use super::explain;
use super::gather::GatherExec;
use super::in_order::Portions;
use super::join_metrics::{BuildMetrics, ProbeMetrics};
use super::nearest::NearestStrategy;
use super::order;
use super::output::Output;
use super::probe::Prober;
use super::probe_input::ProbeInput;
use super::rules::RuleStrategy;
use super::settled::Settles;
use super::similarity::SimilarityStrategy;
use super::spec::{JoinInputs, JoinSpec};
use super::strategy::JoinStrategy;
use super::stream::join_stream;
use crate::config::{SimilarityOptions, Verify};
use similarity_engine::Cancel;

/// Joins two inputs on a similarity condition, by an index over one of them.
///
/// **NULL.** A NULL key, and a NULL equality key under `=`, matches nothing. Rows that cannot match are counted
/// in `build_unmatchable` and `probe_unmatchable`.
pub type SimilarityJoinExec = JoinExec<SimilarityStrategy>;

/// Joins two inputs on the distance of two vectors, by leaves of near points under a tree of boxes.
///
/// **NULL.** A NULL vector or element matches nothing; nor does NaN or infinity under this crate's own measures.
/// Vectors of different lengths are an error where the plain join has one. Under DataFusion's own measures rows with
/// elements that are not finite are compared with all others, and the condition as the query states it decides.
///
/// Source: the epsilon join of LSS (ICDE 2008), section I; `engine::cpu::vectors` says how.
pub type EpsilonJoinExec = JoinExec<SimilarityStrategy>;

/// Joins two inputs on an OR of ANDs: each clause is entered by an index of its own, and what is left of all clauses
/// that share an entry is verified by one execution tree. A pair comes out once, however many clauses hold.
///
/// **NULL.** A clause holds for a pair where each of its atoms is TRUE. In a clause with a NULL key, or a NULL equality
/// key under `=`, it does not hold; another one may.
///
/// Source: HyperBlocker (PVLDB 2024), sections 2, 4 and 5.
pub type MatchingDependencyBlockExec = JoinExec<RuleStrategy>;

/// Joins each left row with the best rows of the right input, by a score.
///
/// **NULL.** A pair without a score is never joined, nor is one with a NULL equality key under `=`.
///
/// **Order.** Scores rank in the total order of floats, as in ORDER BY: NaN is greater than any number.
pub type NearestJoinExec = JoinExec<NearestStrategy>;

/// A join whose pairs are found by `M`.
///
/// ```text
///   build input ──collect──> RecordBatch ──keys──> Matcher              once
///                                                     │
///   probe input ──batch──> keys ──prepare──> probe ───┘                 per partition
///                                              │
///                        pairs ──residual──> marks ──take──> output
/// ```
///
/// **Phases.** The build side (one partition) is collected into one batch; its key and equality expressions are
/// evaluated once; the engine builds its index with all the session's threads. Each output partition then sends
/// its probe batches through the index in bounded steps on blocking threads, checks the residual on the pairs
/// and takes output rows from both sides. Outer, semi and anti joins mark matched rows; the partition that ends
/// last emits what the join type wants of the build side.
///
/// **Semi and anti joins.** A row needs one partner. Where most pairs are about rows that have one, such rows are kept
/// away from the index (`settled`).
///
/// **Self-join.** Where both inputs are provably the same and every condition is symmetric, the one input is collected
/// once and each pair is looked for once; the residual decides which way round it counts, by one look at the pair where
/// it compares a column of both sides (`direction`).
///
/// **Order.** Where the probe input has an order, pairs and the rows beside them come out in it, each partition by
/// itself, unless rows of the build side come out beside NULLs or one input is both sides; so do the rows of a left
/// semi or anti join, whichever side is collected. Right semi and anti joins declare none.
///
/// **Memory.** The collected rows and the index are reserved in the session's memory pool. Where it refuses, both sides
/// go to disk, and the build side is indexed and probed in chunks (`chunks`). A nearest join keeps the best rows of all
/// chunks. A join for pairs that keeps an order fails. Output is bounded by the session's batch size.
#[derive(Debug)]
pub struct JoinExec<M> {
    inputs: JoinInputs,
    spec: Arc<JoinSpec>,
    matching: Arc<M>,
    projection: Option<Vec<usize>>,
    /// The side in whose order rows come out.
    order: Option<JoinSide>,
    output: Output,
    properties: Arc<PlanProperties>,
    /// One that all partitions share, or one for each partition.
    builds: Vec<Arc<SharedBuild>>,
    /// Whether a ranking fails where memory is refused.
    stays_in_memory: AtomicBool,
    /// What the matcher says of itself, once it is built.
    found: Arc<OnceLock<String>>,
    metrics: ExecutionPlanMetricsSet,
}

impl<M: JoinStrategy> JoinExec<M> {
    /// Joins `inputs` as `spec` says, on the pairs that `matching` finds.
    ///
    /// # Errors
    /// Where the order of the output cannot be derived from that of the inputs.
    pub fn new(inputs: JoinInputs, spec: Arc<JoinSpec>, matching: Arc<M>) -> Result<Self> {
        Self::with_projection(inputs, spec, matching, None)
    }

    /// The join of which only some columns come out, in the order of `projection`.
    ///
    /// # Errors
    /// Where the order of the output cannot be derived from that of the inputs.
    pub fn with_projection(
        inputs: JoinInputs,
        spec: Arc<JoinSpec>,
        matching: Arc<M>,
        projection: Option<Vec<usize>>,
    ) -> Result<Self> {
        let (left, right) = inputs.sides();
        let output = Output::new(&left.schema(), &right.schema(), spec.join_type, projection.as_deref());
        let order = order::kept(&inputs, &spec);
        let properties = PlanProperties::new(
            order::equivalences(&inputs, &spec, order, projection.as_deref(), &output.schema)?,
            Partitioning::UnknownPartitioning(inputs.output_partitions(spec.build)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let builds = if inputs.is_partitioned() { properties.partitioning.partition_count() } else { 1 };
        Ok(Self {
            inputs,
            spec,
            matching,
            projection,
            order,
            output,
            properties: Arc::new(properties),
            builds: std::iter::repeat_with(Arc::default).take(builds).collect(),
            stays_in_memory: AtomicBool::new(false),
            found: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The join apart from what finds its pairs.
    pub fn spec(&self) -> &JoinSpec {
        &self.spec
    }

    /// What finds its pairs.
    pub fn matching(&self) -> &M {
        &self.matching
    }

    /// What finds its pairs, for another join that finds them alike.
    pub(crate) fn shared_matching(&self) -> &Arc<M> {
        &self.matching
    }

    /// The inputs.
    pub fn inputs(&self) -> &JoinInputs {
        &self.inputs
    }

    /// The columns that come out, where not all do.
    pub fn projection(&self) -> Option<&[usize]> {
        self.projection.as_deref()
    }

    /// Why all output partitions have to run in one process; `None` where each may run anywhere.
    ///
    /// Partitions share the build side, and count on it where they divide a self-join among each other or tell which
    /// rows of the build side have matched. Elsewhere a partition that builds its own gives the same rows.
    pub fn needs_one_process(&self) -> Option<&'static str> {
        if self.properties.partitioning.partition_count() == 1 || self.inputs.is_partitioned() {
            None
        } else if matches!(self.inputs, JoinInputs::SelfJoin { .. }) {
            Some("its partitions divide the self-join among each other")
        } else if Emission::of(self.spec.join_type, self.spec.build).build != Rows::None {
            Some("its last partition emits rows of the build side by what all partitions have matched")
        } else {
            None
        }
    }

    /// The join as one whose output partitions may each run in a process of its own, with the same rows.
    ///
    /// A self-join becomes a join of its input with itself, in which each pair is looked for from both rows. Where rows
    /// of the build side come out by what has matched, all probe rows come in one partition.
    ///
    /// # Errors
    /// Where the order of the output cannot be derived from that of the inputs.
    pub fn independent(&self) -> Result<Self> {
        let (left, right) = self.inputs.sides();
        let probe = match &self.inputs {
            JoinInputs::SelfJoin { input, partitions } => spread(input, *partitions)?,
            _ => Arc::clone(self.inputs.side(self.spec.build.negate())),
        };
        let emits_build = Emission::of(self.spec.join_type, self.spec.build).build != Rows::None;
        let probe = if emits_build { Arc::new(GatherExec::new(probe)) as Arc<dyn ExecutionPlan> } else { probe };
        let inputs = match self.spec.build {
            JoinSide::Right => JoinInputs::Two { left: probe, right: Arc::clone(right) },
            _ => JoinInputs::Two { left: Arc::clone(left), right: probe },
        };
        Self::with_projection(inputs, Arc::clone(&self.spec), Arc::clone(&self.matching), self.projection.clone())
    }

    /// Whether an index has ranked every row of the build side, once the join has run.
    pub(super) fn indexes_all_rows(&self) -> bool {
        let all =
            |build: &Arc<SharedBuild>| matches!(build.built(), Some(Built::Whole(side)) if side.indexes_all_rows());
        self.builds.iter().all(all)
    }

    /// Has a ranking fail where memory is refused, for a caller that knows a better way than the disk.
    pub(super) fn stay_in_memory(&self) {
        self.stays_in_memory.store(true, Ordering::Relaxed);
    }

    /// Columns of the build side that neither the output nor a residual reads, and that no check and no other query
    /// will read: keys are made of them, or nothing is.
    fn keys_only(&self, context: &TaskContext) -> Vec<usize> {
        let JoinSpec { build, ref residual, .. } = *self.spec;
        let is_checked = SimilarityOptions::of(context.session_config().options()).verify != Verify::Off;
        let is_settled = Settles::of(Emission::of(self.spec.join_type, build)).is_some();
        if is_checked || is_settled || self.spec.index.is_some() {
            return Vec::new();
        }
        let sides = if self.inputs.is_self_join() { &[JoinSide::Left, JoinSide::Right][..] } else { &[build] };
        let of_filters = residual.iter().flat_map(JoinFilter::column_indices);
        let of_filters = of_filters.filter(|column| sides.contains(&column.side)).map(|column| column.index);
        let of_output = sides.iter().flat_map(|&side| self.output.columns_of(side));
        let read: HashSet<usize> = of_filters.chain(of_output).collect();
        (0..self.inputs.side(build).schema().fields().len()).filter(|column| !read.contains(column)).collect()
    }

    fn build_task(&self, context: &TaskContext) -> BuildTask<M> {
        BuildTask {
            spec: Arc::clone(&self.spec),
            matching: Arc::clone(&self.matching),
            schema: self.inputs.side(self.spec.build).schema(),
            self_join: self.inputs.is_self_join(),
            keeps_order: self.order.is_some(),
            stays_in_memory: self.stays_in_memory.load(Ordering::Relaxed),
            keys_only: self.keys_only(context),
            keys_are_columns: self.matching.expressions().iter().all(|key| key.is::<Column>()),
            partitions: self.properties.partitioning.partition_count() / self.builds.len(),
            metrics: BuildMetrics::new(&self.metrics),
            join_metrics: self.metrics.clone(),
            found: Arc::clone(&self.found),
        }
    }

    fn prober(&self, partition: usize, context: &TaskContext) -> Prober {
        let config = context.session_config();
        let options = SimilarityOptions::of(config.options());
        let info = self.matching.info();
        let reservation = MemoryConsumer::new(format!("{}[probe]", info.name)).register(context.memory_pool());
        let emits_pairs = Emission::of(self.spec.join_type, self.spec.build).pairs;
        let finds_once = self.inputs.is_self_join() && !info.directed;
        Prober {
            spec: Arc::clone(&self.spec),
            output: self.output.clone(),
            batch_size: config.batch_size(),
            max_candidates: options.max_candidates,
            verify: options.verify,
            metrics: ProbeMetrics::new(&self.metrics, partition, self.matching.counters()),
            cancel: Cancel::default(),
            directed: info.directed,
            direction: if finds_once { Direction::among(&self.spec.residual) } else { None },
            in_order: (emits_pairs && self.order.is_some()).then(|| Portions::new(&reservation)),
            reservation,
        }
    }
}

/// `input`, which comes in one partition, in several.
fn spread(input: &Arc<dyn ExecutionPlan>, partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(coalesced) = input.downcast_ref::<CoalescePartitionsExec>() {
        return Ok(Arc::clone(coalesced.input()));
    }
    Ok(Arc::new(RepartitionExec::try_new(Arc::clone(input), Partitioning::RoundRobinBatch(partitions))?))
}

impl JoinInputs {
    pub(super) fn sides(&self) -> (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) {
        match self {
            Self::Two { left, right } | Self::Partitioned { left, right } => (left, right),
            Self::SelfJoin { input, .. } | Self::PartitionedSelfJoin { input } => (input, input),
        }
    }

    /// Whether one input is both sides.
    pub(crate) fn is_self_join(&self) -> bool {
        matches!(self, Self::SelfJoin { .. } | Self::PartitionedSelfJoin { .. })
    }

    /// Whether partitions of both sides with the same number are joined.
    pub(super) fn is_partitioned(&self) -> bool {
        matches!(self, Self::Partitioned { .. } | Self::PartitionedSelfJoin { .. })
    }

    /// The input of a side.
    pub(crate) fn side(&self, side: JoinSide) -> &Arc<dyn ExecutionPlan> {
        let (left, right) = self.sides();
        if side == JoinSide::Right { right } else { left }
    }

    fn output_partitions(&self, build: JoinSide) -> usize {
        match self {
            Self::SelfJoin { partitions, .. } => *partitions,
            _ => self.side(build.negate()).properties().partitioning.partition_count(),
        }
    }
}

impl<M: JoinStrategy> DisplayAs for JoinExec<M> {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let lines = self.explained().items();
                let items: Vec<_> = lines.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "{}: {}", self.name(), items.join(", "))
            }
            DisplayFormatType::TreeRender => {
                let lines = self.explained().brief_items();
                // the boxes cut text at a byte, which must not lie within a character
                let ascii = |value: &str| value.replace(|c: char| !c.is_ascii(), "?");
                lines.iter().try_for_each(|(name, value)| writeln!(f, "{name}={}", ascii(value)))
            }
        }
    }
}

impl<M: JoinStrategy> JoinExec<M> {
    /// What EXPLAIN shows.
    fn explained(&self) -> explain::Join<'_> {
        explain::Join {
            spec: &self.spec,
            inputs: &self.inputs,
            explained: self.matching.explained(),
            engine: self.matching.engine(),
            directed: self.matching.info().directed,
            found: self.found.get().map(String::as_str),
            order: self.order,
            projection: self.projection.as_ref().map(|projection| self.column_names(projection.len())),
        }
    }

    fn column_names(&self, columns: usize) -> String {
        let names = self.output.schema.fields().iter().take(columns).map(|field| field.name().as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

impl<M: JoinStrategy> ExecutionPlan for JoinExec<M> {
    fn name(&self) -> &str {
        self.matching.info().name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match &self.inputs {
            JoinInputs::Two { left, right } | JoinInputs::Partitioned { left, right } => vec![left, right],
            JoinInputs::SelfJoin { input, .. } | JoinInputs::PartitionedSelfJoin { input } => vec![input],
        }
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        use Distribution::{SinglePartition, UnspecifiedDistribution};
        InputDistributionRequirements::new(match (&self.inputs, self.spec.build) {
            (JoinInputs::SelfJoin { .. }, _) => vec![SinglePartition],
            // their partitions are made when all else is planned
            (JoinInputs::PartitionedSelfJoin { .. }, _) => vec![UnspecifiedDistribution],
            (JoinInputs::Partitioned { .. }, _) => vec![UnspecifiedDistribution, UnspecifiedDistribution],
            (_, JoinSide::Right) => vec![UnspecifiedDistribution, SinglePartition],
            _ => vec![SinglePartition, UnspecifiedDistribution],
        })
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // DataFusion passes requirements on to the inputs by the columns' places, which a projection changes
        let kept = self.order.filter(|_| self.projection.is_none());
        let is_kept = |side| kept == Some(side);
        match self.inputs.is_self_join() {
            true => vec![kept.is_some()],
            false => vec![is_kept(JoinSide::Left), is_kept(JoinSide::Right)],
        }
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        let more_than_one = |required| !matches!(required, Distribution::SinglePartition);
        let requirements = self.input_distribution_requirements();
        requirements
            .per_child_distributions()
            .map(|d| !self.inputs.is_partitioned() && more_than_one(d.clone()))
            .collect()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let spec = &self.spec;
        let mut all = self.matching.expressions();
        all.push(spec.condition.expression());
        all.extend(spec.residual.iter().map(JoinFilter::expression));
        apply_expression_roots(all, f)
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
            (JoinInputs::SelfJoin { partitions, .. }, [input]) => {
                JoinInputs::SelfJoin { input: Arc::clone(input), partitions: *partitions }
            }
            (JoinInputs::Partitioned { .. }, [left, right]) => {
                JoinInputs::Partitioned { left: Arc::clone(left), right: Arc::clone(right) }
            }
            (JoinInputs::PartitionedSelfJoin { .. }, [input]) => {
                JoinInputs::PartitionedSelfJoin { input: Arc::clone(input) }
            }
            _ => return internal_err!("{} got {} children", self.name(), children.len()),
        };
        let (spec, matching) = (Arc::clone(&self.spec), Arc::clone(&self.matching));
        Ok(Arc::new(Self::with_projection(inputs, spec, matching, self.projection.clone())?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let build_input = self.inputs.side(self.spec.build);
        let of_builds = build_input.properties().partitioning.partition_count();
        let (number, build) = match self.builds.as_slice() {
            [build] if of_builds == 1 => (0, build),
            builds if self.inputs.is_partitioned() && of_builds == builds.len() && partition < of_builds => {
                (partition, &builds[partition])
            }
            builds => {
                return internal_err!(
                    "{} needs its build side in {} partitions, not {of_builds}",
                    self.name(),
                    builds.len()
                );
            }
        };
        let input = match self.inputs.is_self_join() {
            true => ProbeInput::SelfJoin,
            false => {
                let probe = self.inputs.side(self.spec.build.negate());
                ProbeInput::Batches(probe.execute(partition, Arc::clone(&context))?)
            }
        };
        let build = build.join(self.build_task(&context), (build_input, number), &context)?;
        // a build side of its own is probed by one partition
        let share = if self.builds.len() > 1 { 0 } else { partition };
        Ok(join_stream(self.prober(partition, &context), build, input, share))
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

impl<M: JoinStrategy> EmbeddedProjection for JoinExec<M> {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let (spec, matching) = (Arc::clone(&self.spec), Arc::clone(&self.matching));
        Self::with_projection(self.inputs.clone(), spec, matching, projection)
    }
}
