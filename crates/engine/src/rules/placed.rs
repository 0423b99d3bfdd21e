//! Stage four of a build: what a device can walk is there, if it has the memory, and the host can walk all else.

use std::sync::Arc;

use crate::error::Result;

use super::ahead::bring;
use super::coded::BuildSide;
use super::entered::{BuiltEntry, EnteredRules};
use super::entry::{PlacedEntry, WalkableEntry};
use super::on_device::DeviceWalk;
use super::placement::{NumberingDevice, Placement};
use crate::BuildContext;
use crate::accelerator::Accelerator;
use crate::accelerator::rules::DeviceRules;
use crate::choice::Engine;
use crate::devices::{ReplicatedRules, WalkedRules};
use crate::metrics::MetricValue;
use crate::offered::{Declined, Offered};
use crate::offload::RULES;
use crate::parallel::in_turn;
use crate::plan::{EntryGroup, RulePlan};
use crate::reason::Reason;

/// Nanoseconds of a core's work on candidates from which on several devices share them. The amount is by design. Ten
/// rules over 10 million people took a tenth longer on two H200 than on one, and fifty over 36 million a third less.
const WORK_OF_COPIES: u64 = 300_000_000_000;

/// A build side that can be probed by all entries of its plan.
#[derive(Debug)]
pub(super) struct PlacedRules {
    pub(super) side: BuildSide,
    pub(super) plan: RulePlan,
    /// Entries in the order of the plan.
    pub(super) entries: Vec<PlacedEntry>,
    /// Rows for which no clause can hold, whatever the other side has.
    pub(super) unmatchable: usize,
    /// Where some entries are walked on a device, the columns there.
    pub(super) on: Placement<Arc<ReplicatedRules>>,
    /// Why entries are walked on a device, or why not.
    pub(super) reason: Reason,
    /// What a device has counted that has numbered the keys.
    pub(super) counted: Vec<MetricValue>,
}

impl PlacedRules {
    /// Brings to a device what it can walk, where that pays.
    ///
    /// # Errors
    /// A cancelled build, a device that fails.
    pub(super) fn of(entered: EnteredRules, engine: &Engine, context: &BuildContext<'_>) -> Result<Self> {
        let EnteredRules { side, plan, entries, unmatchable, on } = entered;
        let (device, ahead, counted, reason) = match on {
            // what has numbered the keys walks the rules
            Placement::OnDevice(NumberingDevice { device, ahead }) => {
                let counted = device.metrics();
                (Some(device), ahead, counted, Reason::default())
            }
            Placement::OnHost => {
                let (devices, reason) = engine.devices(RULES, || Ok(work(&side, &plan, &entries, context)))?;
                (devices.map(|devices| devices.one().for_join()), None, Vec::new(), reason)
            }
        };
        let Brought { on, walks, declined } = match device {
            Some(device) => {
                device.read_rules_ahead(context.cancel);
                context.cancel.check()?;
                let pays = || work(&side, &plan, &entries, context) >= WORK_OF_COPIES;
                let others = match context.overrides.copies || pays() {
                    true => engine.devices_beside(device.as_ref()),
                    false => Vec::new(),
                };
                Brought::of(&side, &entries, (device.as_ref(), others), ahead, context.threads)?
            }
            None => Brought::nothing(&entries, None),
        };
        context.cancel.check()?;
        let reason = match declined {
            Some(declined) => reason.but(declined, side.columns.rows, unmatchable),
            None => reason,
        };
        let placed = |(entry, walk)| match (entry, walk) {
            (BuiltEntry::Indexed(entry), _) => PlacedEntry::Indexed(entry),
            (BuiltEntry::Walkable(entry), Some(walk)) => PlacedEntry::OnDevice { entry, walk, reason: reason.clone() },
            (BuiltEntry::Walkable(entry), None) => {
                let reason = if entry.has_kernels() { reason.clone() } else { Reason::default() };
                PlacedEntry::OnHost { entry, reason }
            }
        };
        let entries: Vec<PlacedEntry> = entries.into_iter().zip(walks).map(placed).collect();
        if entries.iter().any(PlacedEntry::needs_host) {
            side.columns.fetch_codes(context.threads)?;
        }
        // all other entries leave few pairs to the host
        if entries.iter().any(PlacedEntry::is_on_host) {
            side.columns.make_ready(context.threads);
        }
        Ok(Self { side, plan, entries, unmatchable, on, reason, counted })
    }
}

/// The entry, where a device can walk it.
fn walkable_there(entry: &BuiltEntry) -> Option<&WalkableEntry> {
    match entry {
        BuiltEntry::Walkable(entry) => entry.has_kernels().then_some(entry),
        BuiltEntry::Indexed(_) => None,
    }
}

/// About how many nanoseconds a core takes for the pairs of the entries that a device can walk.
fn work(side: &BuildSide, plan: &RulePlan, entries: &[BuiltEntry], context: &BuildContext<'_>) -> u64 {
    let rows = match context.self_join {
        true => side.columns.rows as f64 / 2.0,
        false => context.expected_probe_rows(side.columns.rows) as f64,
    };
    let of_entry = |(entry, group): (&BuiltEntry, &EntryGroup)| match walkable_there(entry) {
        Some(_) => rows * group.partners * group.cost,
        None => 0.0,
    };
    entries.iter().zip(&plan.groups).map(of_entry).sum::<f64>() as u64
}

/// What a device has of a build side and its entries.
struct Brought {
    on: Placement<Arc<ReplicatedRules>>,
    /// Each entry on the device, where it is there.
    walks: Vec<Option<DeviceWalk>>,
    /// Why not all that a device can walk.
    declined: Option<Declined>,
}

impl Brought {
    fn nothing(entries: &[BuiltEntry], declined: Option<Declined>) -> Self {
        Self { on: Placement::OnHost, walks: entries.iter().map(|_| None).collect(), declined }
    }

    /// Brings to a device what it can walk, with the columns that were brought `ahead`. Not all of it is there, where
    /// the device has no memory for that or no kernels.
    fn of(
        side: &BuildSide,
        entries: &[BuiltEntry],
        (device, others): (&dyn Accelerator, Vec<Arc<dyn Accelerator>>),
        ahead: Option<Box<dyn DeviceRules>>,
        threads: usize,
    ) -> Result<Self> {
        let mut walkable: Vec<Option<&WalkableEntry>> = entries.iter().map(walkable_there).collect();
        let asked = |walkable: &[Option<&WalkableEntry>]| {
            let mut asked = vec![false; side.deciders.conditions.len()];
            walkable.iter().flatten().flat_map(|entry| entry.atoms_there()).for_each(|atom| asked[atom] = true);
            asked
        };
        if walkable.iter().flatten().count() == 0 {
            return Ok(Self::nothing(entries, None));
        }
        let mut rules = match ahead {
            Some(mut rules) => rules.add_codes(&side.columns, &asked(&walkable))?.map(|()| rules),
            None => bring(device, side.atoms(), asked(&walkable), &[], None, threads)?,
        };
        // columns that prefilters ask must not keep whole entries away
        if matches!(rules, Offered::Declined(_)) && walkable.iter().flatten().any(|entry| entry.is_prefiltered()) {
            walkable.iter_mut().for_each(|entry| *entry = entry.filter(|entry| !entry.is_prefiltered()));
            if walkable.iter().flatten().count() > 0 {
                rules = bring(device, side.atoms(), asked(&walkable), &[], None, threads)?;
            }
        }
        let rules = match rules {
            Offered::Taken(rules) => rules,
            Offered::Declined(why) => return Ok(Self::nothing(entries, Some(why))),
        };
        let has_unknown = |entry: &WalkableEntry| entry.atoms_there().any(|atom| rules.has_unknown(atom));
        let count = walkable.iter().flatten().count();
        // a stretch that one device would take is cut for several
        let parts = rules.parts_of_entry(count);
        let brought = in_turn(entries.len(), threads, |at| match walkable[at] {
            Some(entry) => {
                let parts = entry.parts(parts, has_unknown(entry), threads);
                rules.entry(&entry.for_device(side.self_join, parts)?).map(Some)
            }
            None => Ok(None),
        })?;
        let (mut walked, mut declined) = (Vec::with_capacity(brought.len()), None);
        for brought in brought {
            walked.push(match brought {
                Some(Offered::Taken(entry)) => Some(entry),
                Some(Offered::Declined(why)) => {
                    declined = Some(why);
                    None
                }
                None => None,
            });
        }
        // whether each entry that is walked there leaves some rows to the host
        let are_walked: Vec<Option<bool>> =
            walked.iter().zip(&walkable).map(|(walked, entry)| walked.as_ref().and(entry.map(has_unknown))).collect();
        let rules = ReplicatedRules::try_new((device, WalkedRules { rules, entries: walked }), others)?;
        let rules = Arc::new(rules);
        let walk = |(entry, has_unknown): (usize, Option<bool>)| {
            has_unknown.map(|has_unknown| DeviceWalk { rules: Arc::clone(&rules), entry, has_unknown })
        };
        let walks = are_walked.into_iter().enumerate().map(walk).collect();
        Ok(Self { on: Placement::OnDevice(rules), walks, declined })
    }
}
