//! Which input of a join is indexed.

use datafusion::common::stats::Precision;
use datafusion::common::{JoinSide, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::StatisticsArgs;
use datafusion::physical_plan::StatisticsContext;

/// The input that is collected and indexed, and the reason as EXPLAIN gives it.
#[derive(Debug, Clone)]
pub(super) struct BuildSide {
    pub side: JoinSide,
    pub why: String,
    /// Rows of the other input, where known.
    pub probe_rows: Option<usize>,
}

/// The side with fewer rows by the statistics; the left one where they say nothing.
pub(super) fn choose(left: &dyn ExecutionPlan, right: &dyn ExecutionPlan) -> Result<BuildSide> {
    let (l, r) = (rows(left)?, rows(right)?);
    let (side, why) = match (l.get_value(), r.get_value()) {
        (Some(l), Some(r)) if r < l => (JoinSide::Right, format!("{r} rows against {l}")),
        (Some(l), Some(r)) => (JoinSide::Left, format!("{l} rows against {r}")),
        _ => (JoinSide::Left, "no statistics".into()),
    };
    let probe = if side == JoinSide::Left { r } else { l };
    Ok(BuildSide { side, why, probe_rows: probe.get_value().copied() })
}

/// The side whose index is kept; `probe` is the other input.
pub(super) fn of_index(side: JoinSide, probe: &dyn ExecutionPlan) -> Result<BuildSide> {
    Ok(BuildSide { side, why: "it has an index".into(), probe_rows: rows(probe)?.get_value().copied() })
}

/// How many rows an input has.
pub(super) fn rows(input: &dyn ExecutionPlan) -> Result<Precision<usize>> {
    Ok(StatisticsContext::new().compute(input, &StatisticsArgs::new())?.num_rows)
}
