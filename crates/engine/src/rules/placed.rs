//! Stage four of a build: what a device can walk is there, if it has the memory, and the host can walk all else.

use std::sync::Arc;

use crate::error::Result;

use super::ahead::bring;
use super::coded::BuildSide;
use super::entered::{BuiltEntry, EnteredRules};
use super::entry::{IndexedEntry, OnDevice, PlacedEntry};
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
                let others = match context.overrides.little_work || pays() {
                    true => engine.devices_beside(device.as_ref()),
                    false => Vec::new(),
                };
                Brought::of(&side, &entries, (device.as_ref(), others), ahead, context)?
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

/// About how many nanoseconds a core takes for the pairs of the entries whose trees a device can walk.
fn work(side: &BuildSide, plan: &RulePlan, entries: &[BuiltEntry], context: &BuildContext<'_>) -> u64 {
    let rows = match context.self_join {
        true => side.columns.rows as f64 / 2.0,
        false => context.expected_probe_rows(side.columns.rows) as f64,
    };
    let of_entry = |(entry, group): (&BuiltEntry, &EntryGroup)| match entry.trees().have_kernels() {
        true => rows * group.partners * group.cost,
        false => 0.0,
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
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let threads = context.threads;
        // columns that some entries ask must not keep all others away
        let offers: [&dyn Fn(&BuiltEntry) -> bool; 3] = [
            &|entry| entry.trees().have_kernels(),
            &|entry| entry.trees().have_kernels() && !entry.trees().are_prefilters(),
            &|entry| matches!(entry, BuiltEntry::Walkable(entry) if matches!(entry.trees.on_device, OnDevice::Decides)),
        ];
        let (mut ahead, mut tried, mut rules) = (ahead, Vec::new(), None);
        for offer in offers {
            let offered: Vec<bool> = entries.iter().map(offer).collect();
            if offered == tried || !offered.contains(&true) {
                continue;
            }
            let mut asked = vec![false; side.deciders.conditions.len()];
            let atoms = entries.iter().zip(&offered).filter(|(_, offered)| **offered);
            atoms.flat_map(|(entry, _)| entry.trees().atoms_there()).for_each(|atom| asked[atom] = true);
            let brought = match ahead.take() {
                Some(mut ahead) => ahead.add_codes(&side.columns, &asked)?.map(|()| ahead),
                None => bring(device, side.atoms(), asked, &[], None, threads)?,
            };
            let is_there = matches!(brought, Offered::Taken(_));
            (tried, rules) = (offered, Some(brought));
            if is_there {
                break;
            }
        }
        let (offered, rules) = match rules {
            Some(Offered::Taken(rules)) => (tried, rules),
            Some(Offered::Declined(why)) => return Ok(Self::nothing(entries, Some(why))),
            None => return Ok(Self::nothing(entries, None)),
        };
        let has_unknown = |entry: &BuiltEntry| entry.trees().atoms_there().any(|atom| rules.has_unknown(atom));
        let walkable = |(entry, offered): &(&BuiltEntry, &bool)| **offered && matches!(entry, BuiltEntry::Walkable(_));
        let count = entries.iter().zip(&offered).filter(walkable).count();
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
}
