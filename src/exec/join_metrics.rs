//! What EXPLAIN ANALYZE tells about a similarity join.

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, ScopedTimerGuard, Time,
};

use similarity_engine::Counts;

/// Metrics of the build side, once per operator.
#[derive(Debug, Clone)]
pub(super) struct BuildMetrics {
    /// Time to evaluate keys and build the index.
    pub build_time: Time,
    /// Rows of the build side.
    pub build_rows: Count,
    /// Bytes of build rows and index.
    pub build_mem_used: Gauge,
    /// Rows that can never match: NULL, or blank where the bound excludes it.
    pub build_unmatchable: Count,
}

impl BuildMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        Self {
            build_time: MetricBuilder::new(metrics).subset_time("build_time", 0),
            build_rows: MetricBuilder::new(metrics).counter("build_rows", 0),
            build_mem_used: MetricBuilder::new(metrics).gauge("build_mem_used", 0),
            build_unmatchable: MetricBuilder::new(metrics).counter("build_unmatchable", 0),
        }
    }
}

/// Metrics of one output partition.
#[derive(Debug, Clone)]
pub(super) struct ProbeMetrics {
    pub baseline: BaselineMetrics,
    /// Time in the index, the residual and the assembly of output.
    pub probe_time: Time,
    /// Rows probed.
    pub probe_rows: Count,
    /// Probe rows that can never match.
    pub probe_unmatchable: Count,
    candidates: Count,
    verified: Count,
    /// Pairs that satisfy the whole condition.
    pub matched: Count,
    /// What the matcher counts besides.
    pub counters: Vec<Count>,
}

impl ProbeMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, counters: Vec<String>) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            probe_time: MetricBuilder::new(metrics).subset_time("probe_time", partition),
            probe_rows: counter("probe_rows"),
            probe_unmatchable: counter("probe_unmatchable"),
            candidates: counter("candidates"),
            verified: counter("verified"),
            matched: counter("matched"),
            counters: counters.into_iter().map(|name| MetricBuilder::new(metrics).counter(name, partition)).collect(),
        }
    }

    /// Run until they are dropped.
    pub(super) fn timers(&self) -> [ScopedTimerGuard<'_>; 2] {
        [self.probe_time.timer(), self.baseline.elapsed_compute().timer()]
    }

    /// The candidates so far.
    pub(super) fn candidates(&self) -> usize {
        self.candidates.value()
    }

    pub(super) fn count(&self, counts: Counts) {
        self.candidates.add(counts.candidates);
        self.verified.add(counts.verified);
    }
}
