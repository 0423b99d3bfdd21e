//! Stage two of a build: rows are grouped by the equalities of each clause, and the clauses have a plan.

use crate::error::{Error, Result};
use arrow::array::ArrayRef;

use super::coded::{BuildSide, CodedRules};
use super::grouping::GroupedByKeys;
use super::placement::{NumberingDevice, Placement};
use super::statistics::{BuildStatistics, Sample};
use crate::BuildContext;
use crate::parallel::{both, each_in_turn};
use crate::plan::{Entry, EntryGroup, RulePlan};

/// A build side whose clauses have a plan.
#[derive(Debug)]
pub(super) struct PlannedRules {
    pub(super) side: BuildSide,
    /// Keys of similarities.
    pub(super) keys: Vec<ArrayRef>,
    /// Rows by the keys of each clause.
    pub(super) grouped: Vec<GroupedByKeys>,
    pub(super) plan: RulePlan,
    /// Rows for which no clause can hold, whatever the other side has.
    pub(super) unmatchable: usize,
    pub(super) on: Placement<NumberingDevice>,
}

impl PlannedRules {
    /// Plans the clauses by statistics over the build side.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build, a device that fails.
    pub(super) fn of(coded: CodedRules, context: &BuildContext<'_>) -> Result<Self> {
        let CodedRules { side, kinds, keys, mut on } = coded;
        let threads = context.threads;
        (context.reserve)(side.clauses.len() * side.columns.rows * size_of::<u32>())?;
        let (unmatchable, planned) = both(
            || side.columns.unmatchable(&side.clauses, threads),
            || {
                let (device, ahead) = on.parts();
                let sample = || Sample::of(side.atoms(), &keys, ahead, threads);
                let statistics = BuildStatistics::new(side.atoms(), &keys, sample, &side.clauses, device, context)?;
                let plan = RulePlan::of(&kinds, &side.clauses, &statistics, |count, group| {
                    each_in_turn(count, threads, group)
                });
                context.cancel.check()?;
                Ok::<_, Error>((plan, statistics.into_groups()))
            },
        );
        let (unmatchable, (plan, grouped)) = (unmatchable?, planned?);
        let is_walked = |group: &EntryGroup| !matches!(group.entry, Entry::Index { .. });
        let on = if plan.groups.iter().any(is_walked) { on } else { on.without_ahead() };
        Ok(Self { side, keys, grouped, plan, unmatchable, on })
    }
}
