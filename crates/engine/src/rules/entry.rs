//! One entry of a plan, built: where its candidates come from, and the trees that decide them.

use std::sync::{Arc, OnceLock};

use crate::error::{Result, internal_err};
use arrow::array::ArrayRef;

use super::band::BandOrder;
use super::grouping::Grouping;
use super::statistics::BuildStatistics;
use crate::atoms::{AtomColumn, AtomTest};
use crate::choice::Engine;
use crate::cpu::columns::{Columns, Tests};
use crate::cpu::rules::walk::Path;
use crate::cuda::rules::EntryOnDevice;
use crate::plan::{Entry, EntryGroup};
use crate::reason::Reason;
use crate::{BuildContext, Index, KeyColumn};

/// One entry of a plan, built.
#[derive(Debug)]
pub(super) struct EntryIndex {
    pub(super) access: Access,
    pub(super) tree: Path,
    pub(super) earlier: Path,
    /// Where its candidates are walked on a device.
    pub(super) device: Option<EntryOnDevice>,
}

impl EntryIndex {
    /// The atoms of its trees.
    pub(super) fn atoms(&self) -> impl Iterator<Item = usize> {
        self.tree.tree().steps.iter().chain(&self.earlier.tree().steps).map(|step| step.atom)
    }
}

/// Where the candidates of an entry come from.
#[derive(Debug)]
pub(super) enum Access {
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
    Index { index: Box<dyn Index>, reason: Reason, grouping: Option<Arc<Grouping>> },
}

impl Access {
    /// End of the partners of each place, in a self-join; `None` where an index finds them.
    pub(super) fn ends(&self) -> Option<&[u32]> {
        match self {
            Self::Hash { grouping, ends } => Some(ends.get_or_init(|| grouping.group_ends())),
            Self::Band { ends, .. } => Some(ends),
            Self::Index { .. } => None,
        }
    }
}

/// What entries are built from.
pub(super) struct Building<'a> {
    pub(super) tests: &'a Tests,
    pub(super) columns: &'a Columns,
    pub(super) keys: &'a [ArrayRef],
    pub(super) statistics: &'a BuildStatistics<'a>,
    pub(super) engine: &'a Engine,
}

impl Building<'_> {
    /// Builds the entry of some clauses.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build, a device that fails.
    pub(super) fn entry(&self, group: &EntryGroup, context: &BuildContext<'_>) -> Result<EntryIndex> {
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
                let ends = if context.own { order.own_ends(column) } else { Vec::new() };
                Access::Band { atom: *atom, order, ends }
            }
            Entry::Index { atom, .. } => {
                let AtomTest::Similarity { key, test } = self.tests.kinds[*atom] else {
                    return internal_err!("an entry without an index");
                };
                let within = !equalities.is_empty();
                let groups = within.then(|| grouped.groups.all()).transpose()?;
                let values = KeyColumn { values: Arc::clone(&self.keys[key]), groups };
                let (index, reason) = self.engine.build(test, values, context)?;
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
