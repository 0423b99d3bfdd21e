//! A door for tests on devices and for benches: what they look into, and change, of an index. It is no interface.

use std::sync::Mutex;

use super::coded::BuildSide;
use super::entry::{EntryTrees, IndexedEntry, PlacedEntry, WalkableEntry};
use super::index::RuleIndex;
use super::prepared::PreparedRules;
use crate::atoms::RuleCounters;
use crate::cpu::rules::walk::Path;
use crate::equality::Groups;
use crate::plan::ExecutionTree;

pub use super::ahead::{SharedStrings, bring_ahead};
pub use super::grouping::{FoundGroups, Grouping, GroupsByRow, codes};
pub use super::statistics::{SAMPLED, Sample};

/// Verifies the candidates of an entry by another tree of the same clauses: what the chosen one is measured against.
/// The CPU walks all entries then, as a device has the chosen tree.
pub fn replace_tree(index: &mut RuleIndex, entry: usize, tree: &ExecutionTree) {
    let BuildSide { deciders, columns, .. } = &index.rules.side;
    let path = || Path::new(tree.clone(), deciders.conditions.len());
    let entries = std::mem::take(&mut index.rules.entries);
    let replaced = |(at, placed)| match on_host(placed) {
        PlacedEntry::OnHost { entry: walkable, reason } if at == entry => {
            let trees = EntryTrees { own: path().with_filters(deciders, columns), ..walkable.trees };
            PlacedEntry::OnHost { entry: WalkableEntry { trees, ..walkable }, reason }
        }
        PlacedEntry::Indexed { entry: indexed, decides } if at == entry => {
            let trees = EntryTrees { own: path(), ..indexed.trees };
            PlacedEntry::Indexed { entry: IndexedEntry { trees, ..indexed }, decides }
        }
        placed => placed,
    };
    index.rules.entries = entries.into_iter().enumerate().map(replaced).collect();
    // what threads keep is of the other tree
    index.pool = Mutex::default();
}

/// Has the CPU walk what a device has of an index.
pub fn walk_on_host(index: &mut RuleIndex) {
    let entries = std::mem::take(&mut index.rules.entries);
    index.rules.entries = entries.into_iter().map(on_host).collect();
}

fn on_host(entry: PlacedEntry) -> PlacedEntry {
    match entry {
        PlacedEntry::OnDevice { entry, reason, .. } => PlacedEntry::OnHost { entry, reason },
        PlacedEntry::Indexed { entry, .. } => PlacedEntry::Indexed { entry, decides: None },
        placed => placed,
    }
}

/// For how many entries a device walks the trees.
pub fn entries_on_device(index: &RuleIndex) -> usize {
    index.rules.entries.iter().filter(|entry| entry.deciding().is_some()).count()
}

/// What a probe side is looked up in, for each equality.
pub fn groups_of_equalities(index: &RuleIndex) -> impl Iterator<Item = &Groups> {
    index.rules.side.groups.iter().flatten()
}

/// Counters of zeros for the atoms and clauses of an index.
pub fn counters_of(index: &RuleIndex) -> RuleCounters {
    let side = &index.rules.side;
    RuleCounters::new(side.deciders.conditions.len(), side.clauses.len())
}

/// For how many entries by places a probe batch is on a device.
pub fn entries_probed_on_device(probe: &PreparedRules) -> usize {
    (0..probe.entries.len())
        .filter(|&entry| probe.entry(entry).on_device().is_some_and(|probe| probe.items.is_some()))
        .count()
}
