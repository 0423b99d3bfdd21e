//! A limit for joins that compare all pairs: whoever looks for duplicates hears of them before they run for days.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::{Result, resources_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, reset_plan_states};
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, execute_stream_partitioned};
use futures::TryStreamExt;
use futures::stream::select_all;

/// Pairs that a nested loop compares in a second on one core, where the condition is one similarity of short texts.
const PAIRS_A_SECOND: f64 = 1e7;

/// Fails where a nested loop of `plan` would compare more than `limit` pairs.
///
/// Rows that nobody knows the number of are read once to be counted.
///
/// # Errors
/// The pairs, about how long they would take, and what to do instead; or whatever reading the rows ends in.
pub(super) async fn refuse_beyond(plan: Arc<dyn ExecutionPlan>, limit: usize, context: Arc<TaskContext>) -> Result<()> {
    // those within another one come first
    for [left, right] in nested_loops(&plan).into_iter().rev() {
        let at_most = most_rows(&left)?.zip(most_rows(&right)?);
        if at_most.is_some_and(|(left, right)| pairs(left, right) <= limit as u128) {
            continue;
        }
        let left = count(left, Arc::clone(&context)).await?;
        let right = count(right, Arc::clone(&context)).await?;
        let pairs = pairs(left, right);
        if pairs <= limit as u128 {
            continue;
        }
        let cores = context.session_config().target_partitions().max(1);
        return resources_err!(
            "no index serves this join, so that all {pairs} pairs of {left} and {right} rows would be compared, in \
             about {}; that is more than similarity.max_nested_loop_pairs = {limit}. EXPLAIN VERBOSE says why; add an \
             equality or a similarity with a constant bound, or raise the option",
            duration(pairs as f64 / PAIRS_A_SECOND / cores as f64)
        );
    }
    Ok(())
}

/// Both sides of each nested loop.
fn nested_loops(plan: &Arc<dyn ExecutionPlan>) -> Vec<[Arc<dyn ExecutionPlan>; 2]> {
    let (mut found, mut ahead) = (Vec::new(), vec![plan]);
    while let Some(plan) = ahead.pop() {
        let sides = plan.children();
        if let ([left, right], true) = (sides.as_slice(), plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>())
        {
            found.push([Arc::clone(left), Arc::clone(right)]);
        }
        ahead.extend(sides);
    }
    found
}

fn pairs(left: usize, right: usize) -> u128 {
    left as u128 * right as u128
}

/// A number of rows that a plan does not exceed, if it is known.
pub(crate) fn most_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<usize>> {
    if let Some(rows) = known_rows(plan)? {
        return Ok(Some(rows));
    }
    match (plan.children().as_slice(), plan.cardinality_effect()) {
        ([input], CardinalityEffect::Equal | CardinalityEffect::LowerEqual) => most_rows(input),
        _ => Ok(None),
    }
}

fn known_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<usize>> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    Ok(match statistics.num_rows {
        Precision::Exact(rows) => Some(rows),
        _ => None,
    })
}

async fn count(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<usize> {
    if let Some(rows) = known_rows(&plan)? {
        return Ok(rows);
    }
    // its own operators are still to run
    let mut batches = select_all(execute_stream_partitioned(reset_plan_states(plan)?, context)?);
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += batch.num_rows();
    }
    Ok(rows)
}

/// Seconds in the unit in which a person would say them.
fn duration(seconds: f64) -> String {
    let (amount, unit) = match seconds {
        ..120.0 => (seconds, "seconds"),
        ..7_200.0 => (seconds / 60.0, "minutes"),
        ..172_800.0 => (seconds / 3_600.0, "hours"),
        _ => (seconds / 86_400.0, "days"),
    };
    format!("{amount:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_words() {
        let words =
            [(1.0, "1 seconds"), (119.0, "119 seconds"), (600.0, "10 minutes"), (2e4, "6 hours"), (1e6, "12 days")];
        for (seconds, expected) in words {
            assert_eq!(duration(seconds), expected);
        }
    }
}
