//! Stage four of a build: what a device can walk is there, if it has the memory, and the host can walk all else.

use std::sync::Arc;

use crate::error::Result;

use super::ahead::bring;
use super::coded::BuildSide;
use super::entered::{BuiltEntry, EnteredRules};
use super::entry::{IndexedEntry, PlacedEntry};
use super::on_device::{DeviceWalk, WORTH_LAUNCHES};
use super::placement::{NumberingDevice, Placement};
use crate::BuildContext;
use crate::accelerator::Accelerator;
use crate::accelerator::rules::DeviceRules;
use crate::choice::Engine;
use crate::devices::{EntryThere, ReplicatedRules, WalkedRules};
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
        let rows = probe_rows(&side, context);
        let is_worth = |(entry, group): (&BuiltEntry, &EntryGroup)| {
            entry.trees().have_kernels() && (context.overrides.little_work || has_enough(entry, rows * group.partners))
        };
        let walkable: Vec<bool> = entries.iter().zip(&plan.groups).map(is_worth).collect();
        // about how many nanoseconds a core takes for the pairs of the entries whose trees a device walks
        let work = || {
            let groups = plan.groups.iter().zip(&walkable).filter(|(_, walkable)| **walkable);
            groups.map(|(group, _)| rows * group.partners * group.cost).sum::<f64>() as u64
        };
        let (device, ahead, counted, reason) = match on {
            // what has numbered the keys walks the rules
            Placement::OnDevice(NumberingDevice { device, ahead }) => {
                let counted = device.metrics();
                (Some(device), ahead, counted, Reason::default())
            }
            Placement::OnHost => {
                let (devices, reason) = engine.devices(RULES, || Ok(work()))?;
                (devices.map(|devices| devices.one().for_join()), None, Vec::new(), reason)
            }
        };
        let Brought { on, walks, declined } = match device {
            Some(device) => {
                device.read_rules_ahead(context.cancel);
                context.cancel.check()?;
                let others = match context.overrides.little_work || work() >= WORK_OF_COPIES {
                    true => engine.devices_beside(device.as_ref()),
                    false => Vec::new(),
                };
                Brought::of(&side, (&entries, &walkable), (device.as_ref(), others), ahead, context)?
            }
            None => Brought::nothing(&entries, None),
        };
        context.cancel.check()?;
        let reason = match declined {
            Some(declined) => reason.but(declined, side.columns.rows, unmatchable),
            None => reason,
        };
        let placed = |(entry, walk)| match (entry, walk) {
            (BuiltEntry::Indexed(entry), decides) => PlacedEntry::Indexed { entry, decides },
            (BuiltEntry::Walkable(entry), Some(walk)) => PlacedEntry::OnDevice { entry, walk, reason: reason.clone() },
            (BuiltEntry::Walkable(entry), None) => {
                let reason = if entry.trees.have_kernels() { reason.clone() } else { Reason::default() };
                PlacedEntry::OnHost { entry, reason }
            }
        };
        let entries: Vec<PlacedEntry> = entries.into_iter().zip(walks).map(placed).collect();
        // a device leaves the pairs of an index where they are few
        if entries.iter().any(|entry| entry.needs_host() || entry.is_indexed()) {
            side.columns.fetch_codes(context.threads)?;
        }
        // all other entries leave few pairs to the host
        if entries.iter().any(PlacedEntry::is_on_host) {
            side.columns.make_ready(context.threads);
        }
        Ok(Self { side, plan, entries, unmatchable, on, reason, counted })
    }
}

/// About how many rows are probed.
fn probe_rows(side: &BuildSide, context: &BuildContext<'_>) -> f64 {
    match context.self_join {
        true => side.columns.rows as f64 / 2.0,
        false => context.expected_probe_rows(side.columns.rows) as f64,
    }
}

/// Pairs of an index that are worth bringing columns to a device, to decide them there. The amount is by design.
const PAIRS_OF_COLUMNS: f64 = 1e6;

/// Whether so many pairs of an entry are worth columns on a device, which any are that the device finds itself.
fn has_enough(entry: &BuiltEntry, pairs: f64) -> bool {
    match entry {
        BuiltEntry::Walkable(_) => true,
        BuiltEntry::Indexed(_) => pairs >= PAIRS_OF_COLUMNS,
    }
}

/// What a device has of a build side and its entries.
struct Brought {
    on: Placement<Arc<ReplicatedRules>>,
    /// Each entry on the device, where it is there.
    walks: Vec<Option<DeviceWalk>>,
    /// Why not all that a device can walk.
    declined: Option<Declined>,
}

/// Columns of a build side on a device.
struct BroughtColumns {
    rules: Box<dyn DeviceRules>,
    /// The entries whose trees ask no others.
    offered: Vec<bool>,
}

impl Brought {
    fn nothing(entries: &[BuiltEntry], declined: Option<Declined>) -> Self {
        Self { on: Placement::OnHost, walks: entries.iter().map(|_| None).collect(), declined }
    }

    /// Brings to a device the entries that are `walkable` there, with the columns that were brought `ahead`. Not all of
    /// them are there, where the device has no memory for that or no kernels.
    fn of(
        side: &BuildSide,
        (entries, walkable): (&[BuiltEntry], &[bool]),
        (device, others): (&dyn Accelerator, Vec<Arc<dyn Accelerator>>),
        ahead: Option<Box<dyn DeviceRules>>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let threads = context.threads;
        let (columns, mut declined) = Self::columns(side, (entries, walkable), device, ahead, threads)?;
        let Some(BroughtColumns { rules, offered }) = columns else { return Ok(Self::nothing(entries, declined)) };
        let has_unknown = |entry: &BuiltEntry| entry.trees().atoms_there().any(|atom| rules.has_unknown(atom));
        let found_there = |(entry, offered): &(&BuiltEntry, &bool)| **offered && !entry.is_indexed();
        let count = entries.iter().zip(&offered).filter(found_there).count();
        // a stretch that one device would take is cut for several
        let parts = rules.parts_of_entry(count);
        let brought = in_turn(entries.len(), threads, |at| match &entries[at] {
            _ if !offered[at] => Ok(None),
            BuiltEntry::Walkable(entry) => {
                let parts = entry.parts(parts, has_unknown(&entries[at]), threads);
                let walked = entry.for_device(side.self_join, parts)?;
                rules.entry(&walked).map(|entry| Some(entry.map(EntryThere::Walked)))
            }
            BuiltEntry::Indexed(IndexedEntry { trees, .. }) => match trees.there() {
                Some(trees) => rules.trees(trees).map(|trees| Some(trees.map(EntryThere::Found))),
                None => Ok(None),
            },
        })?;
        let mut walked = Vec::with_capacity(brought.len());
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
            walked.iter().zip(entries).map(|(walked, entry)| walked.as_ref().map(|_| has_unknown(entry))).collect();
        let fewest_found = if context.overrides.little_work { 1 } else { WORTH_LAUNCHES };
        let rules = ReplicatedRules::try_new((device, WalkedRules { rules, entries: walked }), others)?;
        let rules = Arc::new(rules);
        let walk = |(entry, has_unknown): (usize, Option<bool>)| {
            let rules = Arc::clone(&rules);
            has_unknown.map(|has_unknown| DeviceWalk { rules, entry, has_unknown, fewest_found })
        };
        let walks = are_walked.into_iter().enumerate().map(walk).collect();
        Ok(Self { on: Placement::OnDevice(rules), walks, declined })
    }

    /// Brings to a device the columns that the entries which are `walkable` there ask; with the reason where there are
    /// none, or not those of all.
    fn columns(
        side: &BuildSide,
        (entries, walkable): (&[BuiltEntry], &[bool]),
        device: &dyn Accelerator,
        mut ahead: Option<Box<dyn DeviceRules>>,
        threads: usize,
    ) -> Result<(Option<BroughtColumns>, Option<Declined>)> {
        // columns that some entries ask must not keep all others away
        let offers: [&dyn Fn(&BuiltEntry) -> bool; 3] =
            [&|_| true, &|entry| !entry.is_indexed(), &|entry| !entry.is_indexed() && !entry.trees().are_prefilters()];
        let (mut tried, mut declined) = (Vec::new(), None);
        for offer in offers {
            let offered: Vec<bool> =
                entries.iter().zip(walkable).map(|(entry, walkable)| *walkable && offer(entry)).collect();
            if offered == tried || !offered.contains(&true) {
                continue;
            }
            let mut asked = vec![false; side.deciders.conditions.len()];
            let some = entries.iter().zip(&offered).filter(|(_, offered)| **offered);
            some.flat_map(|(entry, _)| entry.trees().atoms_there()).for_each(|atom| asked[atom] = true);
            let brought = match ahead.take() {
                Some(mut ahead) => ahead.add_codes(&side.columns, &asked)?.map(|()| ahead),
                None => bring(device, side.atoms(), asked, &[], None, threads)?,
            };
            match brought {
                Offered::Taken(rules) => return Ok((Some(BroughtColumns { rules, offered }), declined)),
                Offered::Declined(why) => declined = Some(why),
            }
            tried = offered;
        }
        Ok((None, declined))
    }
}
