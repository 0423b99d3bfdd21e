//! What a device has of a build side, and the entries that it walks.

use std::sync::Arc;

use datafusion::common::Result;

use super::entry::{Access, EntryIndex};
use super::index::{PreparedEntry, PreparedRules, RuleIndex};
use crate::engine::atoms::{AtomTest, RuleRows, Tally};
use crate::engine::cpu::columns::{Columns, Tests};
use crate::engine::cpu::near::Allowance;
use crate::engine::cuda::Budget;
use crate::engine::cuda::rules::{
    Behind, ColumnsOnDevice, EntryOnDevice, Items, PlacedRows, RulesOnDevice, Walked, serves,
};
use crate::engine::parallel::in_turn;
use crate::engine::{Cancel, Counts, Cursor, Pairs};

/// Brings what the build side has for the atoms that are `asked` to a device.
fn bring(
    budget: &Budget,
    (tests, columns): (&Tests, &Columns),
    asked: Vec<bool>,
    threads: usize,
) -> Result<Option<RulesOnDevice>> {
    let allowance = |atom: usize| tests.allowance(atom).map_or(&[][..], Allowance::by_classes);
    RulesOnDevice::try_new(budget, &tests.kinds, allowance, (columns as &dyn RuleRows, asked), threads)
}

/// The same of all that are not equalities, before there is a plan, where it will ask all atoms there: an entry by places is expected,
/// and a device decides everything.
pub(super) fn bring_ahead(
    budget: &Budget,
    (tests, columns): (&Tests, &Columns),
    clauses: &[Vec<usize>],
    threads: usize,
) -> Result<Option<RulesOnDevice>> {
    let mut asked = vec![false; tests.kinds.len()];
    clauses.iter().flatten().for_each(|&atom| asked[atom] = true);
    let asked_kinds = || tests.kinds.iter().zip(&asked).filter(|(_, asked)| **asked).map(|(kind, _)| kind);
    let has_places = asked_kinds().any(|kind| matches!(kind, AtomTest::Equality | AtomTest::Band));
    if !has_places || !asked_kinds().all(serves) {
        return Ok(None);
    }
    asked.iter_mut().zip(&tests.kinds).for_each(|(asked, kind)| *asked &= *kind != AtomTest::Equality);
    bring(budget, (tests, columns), asked, threads)
}

impl RuleIndex {
    /// Brings to a device what it can walk; `None` where that is nothing.
    pub(super) fn bring_to_device(
        &mut self,
        budget: &Budget,
        ahead: Option<RulesOnDevice>,
        threads: usize,
    ) -> Result<Option<RulesOnDevice>> {
        let trees = |entry: &EntryIndex| {
            let steps = entry.tree.tree().steps.iter().chain(&entry.earlier.tree().steps);
            steps.map(|step| step.atom).collect::<Vec<_>>()
        };
        let is_served = |entry: &EntryIndex| {
            let places = matches!(entry.access, Access::Hash { .. } | Access::Band { .. });
            places && trees(entry).iter().all(|&atom| serves(&self.tests.kinds[atom]))
        };
        let served: Vec<bool> = self.entries.iter().map(is_served).collect();
        let mut asked = vec![false; self.tests.kinds.len()];
        for (entry, _) in self.entries.iter().zip(&served).filter(|(_, served)| **served) {
            trees(entry).into_iter().for_each(|atom| asked[atom] = true);
        }
        if !served.contains(&true) {
            return Ok(None);
        }
        let columns = (&self.tests, &self.columns);
        let rules = match ahead {
            Some(mut rules) => rules.add_codes(&self.columns, &asked)?.then_some(rules),
            None => bring(budget, columns, asked, threads)?,
        };
        let Some(rules) = rules else { return Ok(None) };
        let entry = |at: usize| {
            let entry = &self.entries[at];
            let (rows, behind) = match &entry.access {
                Access::Hash { grouping, .. } if served[at] => {
                    let rows = match grouping.on_device() {
                        Some(grouped) => PlacedRows::Grouped(Arc::clone(grouped)),
                        None => PlacedRows::OnHost(grouping.rows()?),
                    };
                    (rows, Behind::InGroup(grouping.starts()))
                }
                Access::Band { order, ends, .. } if served[at] => (PlacedRows::OnHost(&order.rows), Behind::UpTo(ends)),
                _ => return Ok(None),
            };
            let behind = self.own.then_some(behind);
            let walked = Walked { rows, behind, tree: entry.tree.tree(), earlier: entry.earlier.tree() };
            EntryOnDevice::try_new(&rules, &walked)
        };
        let brought = in_turn(self.entries.len(), threads, entry)?;
        self.entries.iter_mut().zip(brought).for_each(|(entry, on_device)| entry.device = on_device);
        Ok(Some(rules))
    }

    /// The entry on the device, where its candidates with `probe` are walked there.
    pub(super) fn on_device<'a>(
        &'a self,
        entry: usize,
        probe: Option<&'a PreparedRules>,
    ) -> Option<WalkedOnDevice<'a>> {
        let (rules, on_device) = (self.device.as_ref()?, self.entries[entry].device.as_ref()?);
        let probe = match probe {
            None => None,
            Some(PreparedRules { on_device: Some(columns), entries, .. }) => match &entries[entry] {
                PreparedEntry::Places(_, Some(items)) => Some((columns, items.as_ref())),
                PreparedEntry::Places(_, None) | PreparedEntry::Index(_) => return None,
            },
            Some(_) => return None,
        };
        Some(WalkedOnDevice { rules, entry: on_device, probe })
    }
}

/// An entry on a device, and what it is probed with.
pub(super) struct WalkedOnDevice<'a> {
    rules: &'a RulesOnDevice,
    entry: &'a EntryOnDevice,
    probe: Option<(&'a ColumnsOnDevice, &'a Items)>,
}

impl WalkedOnDevice<'_> {
    pub(super) fn walk(
        &self,
        cursor: &mut Cursor,
        cancel: &Cancel,
        to: (&mut Pairs, &mut Tally),
    ) -> Result<Option<Counts>> {
        self.entry.walk(self.rules, self.probe, cursor, cancel, to)
    }
}
