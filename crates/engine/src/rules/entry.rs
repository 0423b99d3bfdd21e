//! One entry of a plan, built: where its candidates come from, and the trees that decide them.

use std::sync::{Arc, OnceLock};

use crate::error::{Result, internal_err};
use arrow::array::ArrayRef;

use super::band::BandOrder;
use super::grouping::Grouping;
use super::statistics::BuildStatistics;
use crate::accelerator::rules::DeviceEntry;
use crate::atoms::{AtomColumn, AtomCondition};
use crate::choice::Engine;
use crate::cpu::columns::{AtomDeciders, Columns};
use crate::cpu::rules::walk::Path;
use crate::placement::Reason;
use crate::plan::{Entry, EntryGroup};
use crate::{BuildContext, DynPairIndex, KeyColumn};

/// One entry of a plan, built.
#[derive(Debug)]
pub struct EntryIndex {
    pub access: Access,
    pub tree: Path,
    pub earlier: Path,
    /// Where its candidates are walked on a device.
    pub device: Option<Box<dyn DeviceEntry>>,
}

impl EntryIndex {
    /// The atoms of its trees.
    pub fn atoms(&self) -> impl Iterator<Item = usize> {
        self.tree.tree().steps.iter().chain(&self.earlier.tree().steps).map(|step| step.atom)
    }
}

/// Where the candidates of an entry come from.
#[derive(Debug)]
pub enum Access {
    Hash {
        grouping: Arc<Grouping>,
        /// End of the group of each place, in a self-join on the CPU.
        ends: OnceLock<Vec<u32>>,
    },
    Band {
        atom: usize,
        order: BandOrder,
        /// End of the partners of each place, in a self-join.
        ends: Vec<u32>,
    },
    /// The index of a similarity, why it is on its engine, and the groups within which it pairs.
    Index { index: Box<DynPairIndex>, reason: Reason, grouping: Option<Arc<Grouping>> },
}

impl Access {
    /// End of the partners of each place, in a self-join; `None` where an index finds them.
    pub fn ends(&self) -> Option<&[u32]> {
        match self {
            Self::Hash { grouping, ends } => Some(ends.get_or_init(|| grouping.group_ends())),
            Self::Band { ends, .. } => Some(ends),
            Self::Index { .. } => None,
        }
    }
}

/// What entries are built from.
pub struct Building<'a> {
    pub tests: &'a AtomDeciders,
    pub columns: &'a Columns,
    pub keys: &'a [ArrayRef],
    pub statistics: &'a BuildStatistics<'a>,
    pub engine: &'a Engine,
}

impl Building<'_> {
    /// Builds the entry of some clauses.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build, a device that fails.
    pub fn entry(&self, group: &EntryGroup, context: &BuildContext<'_>) -> Result<EntryIndex> {
        (context.reserve)(self.columns.rows * 2 * size_of::<u32>())?;
        let equalities = group.entry.keys();
        let Some(grouped) = self.statistics.groups(equalities) else { return internal_err!("an entry without groups") };
        let grouping = Arc::clone(&grouped.grouping);
        let access = match &group.entry {
            Entry::Hash(_) => Access::Hash { grouping, ends: OnceLock::new() },
            Entry::Band { atom, .. } => {
                let AtomColumn::Band(column) = &self.columns.atoms[*atom] else {
                    return internal_err!("an entry without its band");
                };
                (context.reserve)(self.columns.rows * 5 * size_of::<u32>())?;
                let order = BandOrder::build(grouping, column)?;
                let ends = if context.self_join { order.self_join_ends(column) } else { Vec::new() };
                Access::Band { atom: *atom, order, ends }
            }
            Entry::Index { atom, .. } => {
                let AtomCondition::Similarity { key, condition } = self.tests.kinds[*atom] else {
                    return internal_err!("an entry without an index");
                };
                let within = !equalities.is_empty();
                let groups = within.then(|| grouped.groups.all()).transpose()?;
                let values = KeyColumn { values: Arc::clone(&self.keys[key]), groups };
                let (index, reason) = self.engine.build(condition, values, context)?;
                Access::Index { index, reason, grouping: within.then_some(grouping) }
            }
        };
        let [tree, earlier] = [&group.tree, &group.earlier].map(|tree| Path::new(tree.clone(), self.tests.kinds.len()));
        let tree = match access {
            Access::Index { .. } => tree,
            Access::Hash { .. } | Access::Band { .. } => tree.with_filters(self.tests, self.columns),
        };
        Ok(EntryIndex { access, tree, earlier, device: None })
    }
}
