//! What a device has of a build side, and the entries that it walks.

use std::sync::Arc;

use crate::error::Result;
use arrow::array::{Array, ArrayData, ArrayRef};

use super::entry::{Access, EntryIndex};
use super::index::{PreparedEntry, PreparedRules, RuleIndex};
use crate::accelerator::rules::{
    DeviceColumns, DeviceEntry, DeviceItems, DeviceRules, PartnerEnds, PlacedRows, RulesSide, WalkedEntry,
};
use crate::accelerator::{Accelerator, Platform};
use crate::atoms::{AtomCondition, RuleCounters, RuleRows};
use crate::condition::Condition;
use crate::cpu::columns::{AtomDeciders, Columns};
use crate::cpu::prefilter::MaxDifferences;
use crate::parallel::in_turn;
use crate::placement::{Declined, Placement};
use crate::{Cancel, Counts, Cursor, Pairs};

/// Brings what the build side has for the atoms that are `asked` to a device, and numbers the keys of some equalities.
fn bring(
    device: &dyn Accelerator,
    (tests, columns): (&AtomDeciders, &Columns),
    (asked, equalities): (Vec<bool>, &[Option<bool>]),
    printed: Option<usize>,
    threads: usize,
) -> Result<Placement<Box<dyn DeviceRules>>> {
    let allowance = |atom: usize| tests.allowance(atom).map_or(&[][..], MaxDifferences::by_classes);
    let (kinds, rows) = (tests.kinds.as_slice(), columns as &dyn RuleRows);
    device.bring_rules(RulesSide { kinds, allowances: &allowance, rows, asked, equalities, printed, threads })
}

/// The atoms that are not equalities, where a plan will ask all atoms on a device: an entry by places is expected, and
/// a device decides everything.
fn asked_ahead(platform: &dyn Platform, kinds: &[AtomCondition], clauses: &[Vec<usize>]) -> Option<Vec<bool>> {
    let mut asked = vec![false; kinds.len()];
    clauses.iter().flatten().for_each(|&atom| asked[atom] = true);
    let asked_kinds = || kinds.iter().zip(&asked).filter(|(_, asked)| **asked).map(|(kind, _)| kind);
    let has_places = asked_kinds().any(|kind| matches!(kind, AtomCondition::Equality | AtomCondition::Band));
    if !has_places || !asked_kinds().all(|kind| platform.serves_atom(kind)) {
        return None;
    }
    asked.iter_mut().zip(kinds).for_each(|(asked, kind)| *asked &= *kind != AtomCondition::Equality);
    Some(asked)
}

/// The keys of similarities whose strings are brought to a device that numbers the keys of equalities.
pub fn strings_ahead<'a>(
    platform: &dyn Platform,
    kinds: &'a [AtomCondition],
    clauses: &[Vec<usize>],
) -> impl Iterator<Item = usize> + use<'a> {
    let asked = asked_ahead(platform, kinds, clauses).unwrap_or_default();
    kinds.iter().zip(asked).filter(|(_, asked)| *asked).filter_map(|(kind, _)| match kind {
        AtomCondition::Similarity { key, condition: Condition::Edit { .. } } => Some(*key),
        _ => None,
    })
}

/// Equalities over strings that an edit measure reads, too, so that one copy of these is brought to a device for both.
#[derive(Debug, Default)]
pub struct SharedStrings {
    /// An equality, and the atom with which its strings are brought.
    pub pairs: Vec<(usize, usize)>,
    /// Whether two NULLs are equal, by the atom with which the strings are brought.
    null_equals_null: Vec<Option<bool>>,
}

impl SharedStrings {
    /// Shared strings of rules whose similarities are brought ahead, given the values of `equalities` and the `keys` of
    /// similarities.
    pub fn of(
        platform: &dyn Platform,
        kinds: &[AtomCondition],
        clauses: &[Vec<usize>],
        equalities: &[Option<(ArrayRef, bool)>],
        keys: &[ArrayRef],
    ) -> Self {
        let mut shared = Self { pairs: Vec::new(), null_equals_null: vec![None; kinds.len()] };
        let Some(asked) = asked_ahead(platform, kinds, clauses) else { return shared };
        let keys: Vec<ArrayData> = keys.iter().map(|key| key.to_data()).collect();
        for (atom, equality) in equalities.iter().enumerate() {
            let Some((values, null_equals_null)) = equality else { continue };
            let values = values.to_data();
            let reads = |other: &usize| match kinds[*other] {
                AtomCondition::Similarity { key, condition: Condition::Edit { .. } } => {
                    asked[*other] && keys.get(key).is_some_and(|key| key.ptr_eq(&values))
                }
                _ => false,
            };
            if let Some(other) = (0..kinds.len()).find(reads)
                && shared.null_equals_null[other].is_none()
            {
                shared.null_equals_null[other] = Some(*null_equals_null);
                shared.pairs.push((atom, other));
            }
        }
        shared
    }

    /// Whether an equality is among them.
    pub fn has(&self, equality: usize) -> bool {
        self.pairs.iter().any(|(atom, _)| *atom == equality)
    }
}

/// Brings all that are not equalities to a device, before there is a plan, where it will ask all atoms there; with the
/// codes of those equalities that share their strings.
pub fn bring_ahead(
    device: &dyn Accelerator,
    (tests, columns): (&AtomDeciders, &Columns),
    clauses: &[Vec<usize>],
    shared: &SharedStrings,
    threads: usize,
) -> Result<Option<Box<dyn DeviceRules>>> {
    match asked_ahead(device.platform(), &tests.kinds, clauses) {
        Some(asked) => {
            // fingerprints are those of the CPU engine where strings are all that it reads
            let is_read = |(kind, asked): (&AtomCondition, &bool)| match kind {
                AtomCondition::Equality => true,
                AtomCondition::Similarity { condition: Condition::Edit { .. }, .. } => *asked,
                _ => false,
            };
            let printed = tests.kinds.iter().zip(&asked).all(is_read).then_some(columns.rows);
            Ok(bring(device, (tests, columns), (asked, &shared.null_equals_null), printed, threads)?.device())
        }
        None => Ok(None),
    }
}

/// Rules on a device, and why not all of their entries are there.
#[derive(Default)]
pub(super) struct BroughtRules {
    pub(super) rules: Option<Box<dyn DeviceRules>>,
    pub(super) declined: Option<Declined>,
}

impl RuleIndex {
    /// Whether a device can walk an entry.
    pub fn is_for_a_device(&self, entry: &EntryIndex) -> bool {
        let has_places = matches!(entry.access, Access::Hash { .. } | Access::Band { .. });
        let Some(platform) = self.platform else { return false };
        has_places && entry.atoms().all(|atom| platform.serves_atom(&self.tests.kinds[atom]))
    }

    /// Brings to a device what it can walk, and says why not all of it, where it has no memory for that or no kernels.
    pub(super) fn bring_to_device(
        &mut self,
        device: &dyn Accelerator,
        ahead: Option<Box<dyn DeviceRules>>,
        threads: usize,
    ) -> Result<BroughtRules> {
        let served: Vec<bool> = self.entries.iter().map(|entry| self.is_for_a_device(entry)).collect();
        let mut asked = vec![false; self.tests.kinds.len()];
        for (entry, _) in self.entries.iter().zip(&served).filter(|(_, served)| **served) {
            entry.atoms().for_each(|atom| asked[atom] = true);
        }
        if !served.contains(&true) {
            return Ok(BroughtRules::default());
        }
        let columns = (&self.tests, &self.columns);
        let rules = match ahead {
            Some(mut rules) => rules.add_codes(&self.columns, &asked)?.map(|()| rules),
            None => bring(device, columns, (asked, &[]), None, threads)?,
        };
        let rules = match rules {
            Placement::Device(rules) => rules,
            Placement::Declined(why) => return Ok(BroughtRules { rules: None, declined: Some(why) }),
        };
        let parts = rules.parts_of_entry(served.iter().filter(|served| **served).count());
        let entry = |at: usize| {
            let entry = &self.entries[at];
            let (rows, behind) = match &entry.access {
                Access::Hash { grouping, .. } if served[at] => match grouping.on_device() {
                    Some(grouped) => (PlacedRows::Grouped(Arc::clone(grouped)), PartnerEnds::InGroup(grouped)),
                    None => (PlacedRows::OnHost(grouping.rows()?), PartnerEnds::InGroupOnHost(grouping.starts())),
                },
                Access::Band { order, ends, .. } if served[at] => {
                    (PlacedRows::OnHost(&order.rows), PartnerEnds::UpTo(ends))
                }
                _ => return Ok(None),
            };
            let behind = self.self_join.then_some(behind);
            let (tree, earlier) = (entry.tree.tree(), entry.earlier.tree());
            rules.entry(&WalkedEntry { rows, behind, parts, tree, earlier }).map(Some)
        };
        let brought = in_turn(self.entries.len(), threads, entry)?;
        let mut declined = None;
        for (entry, brought) in self.entries.iter_mut().zip(brought) {
            match brought {
                Some(Placement::Device(on_device)) => entry.device = Some(on_device),
                Some(Placement::Declined(why)) => declined = Some(why),
                None => {}
            }
        }
        Ok(BroughtRules { rules: Some(rules), declined })
    }

    /// The entry on the device, where its candidates with `probe` are walked there.
    pub fn on_device<'a>(&'a self, entry: usize, probe: Option<&'a PreparedRules>) -> Option<WalkedOnDevice<'a>> {
        let (rules, on_device) = (self.device.as_deref()?, self.entries[entry].device.as_deref()?);
        let probe = match probe {
            None => None,
            Some(PreparedRules { on_device: Some(columns), entries, .. }) => match &entries[entry] {
                PreparedEntry::Places(places) => Some((columns.as_ref(), places.items()?)),
                PreparedEntry::Index(_) => return None,
            },
            Some(_) => return None,
        };
        Some(WalkedOnDevice { rules, entry: on_device, probe })
    }
}

/// An entry on a device, and what it is probed with.
pub struct WalkedOnDevice<'a> {
    rules: &'a dyn DeviceRules,
    entry: &'a dyn DeviceEntry,
    probe: Option<(&'a dyn DeviceColumns, &'a dyn DeviceItems)>,
}

impl WalkedOnDevice<'_> {
    pub fn walk(
        &self,
        cursor: &mut Cursor,
        cancel: &Cancel,
        to: (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>> {
        self.entry.walk(self.rules, self.probe, cursor, cancel, to)
    }
}
