//! Stage three of a build: each entry of the plan has its places or its index, and its trees.

use std::sync::{Arc, OnceLock};

use crate::error::{Result, internal_err};
use arrow::array::ArrayRef;

use super::band::BandOrder;
use super::coded::BuildSide;
use super::entry::{EntryPlaces, EntryTrees, IndexedEntry, OnDevice, WalkableEntry, longest_stretch};
use super::grouping::{GroupedByKeys, Grouping};
use super::placement::{NumberingDevice, Placement};
use super::planned::PlannedRules;
use crate::atoms::{AtomColumn, AtomCondition};
use crate::choice::Engine;
use crate::cpu::rules::walk::Path;
use crate::parallel::{in_turn, threads_within};
use crate::plan::{Entry, EntryGroup, RulePlan};
use crate::{BuildContext, KeyColumn};

/// A build side with all entries of its plan; it is yet to be decided where they are walked.
#[derive(Debug)]
pub(super) struct EnteredRules {
    pub(super) side: BuildSide,
    pub(super) plan: RulePlan,
    /// Entries in the order of the plan.
    pub(super) entries: Vec<BuiltEntry>,
    /// Rows for which no clause can hold, whatever the other side has.
    pub(super) unmatchable: usize,
    pub(super) on: Placement<NumberingDevice>,
}

/// An entry, by how its candidates are found.
#[derive(Debug)]
pub(super) enum BuiltEntry {
    /// Candidates found by places, so that a device may find them, too.
    Walkable(WalkableEntry),
    /// Candidates found by an index.
    Indexed(IndexedEntry),
}

impl BuiltEntry {
    /// Whether an index finds its candidates.
    pub(super) fn is_indexed(&self) -> bool {
        matches!(self, Self::Indexed(_))
    }

    /// The trees that decide its candidates.
    pub(super) fn trees(&self) -> &EntryTrees {
        match self {
            Self::Walkable(entry) => &entry.trees,
            Self::Indexed(entry) => &entry.trees,
        }
    }
}

impl EnteredRules {
    /// Builds the entries of the plan.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build, a device that fails.
    pub(super) fn of(planned: PlannedRules, engine: &Engine, context: &BuildContext<'_>) -> Result<Self> {
        let PlannedRules { side, keys, grouped, plan, unmatchable, mut on } = planned;
        // indexes take the most time by far
        let indexes = plan.groups.iter().filter(|group| matches!(group.entry, Entry::Index { .. })).count();
        let (all_threads, threads) = (context.threads, threads_within(indexes, context.threads));
        // threads of other entries may help with a probe: one that waited for them would wait for ever
        let probe_threads = if plan.groups.len() > 1 { 1 } else { context.threads };
        let of_entry = BuildContext { threads, probe_threads, ..*context };
        let building =
            Building { side: &side, keys: &keys, grouped: &grouped, engine, context: &of_entry, all_threads };
        let build = || in_turn(plan.groups.len(), context.threads, |at| building.entry(&plan, at));
        let entries = match build() {
            // an index needs the device's memory more than what is walked
            Err(error) if error.is_device_full() && on.has_ahead() => {
                on = on.without_ahead();
                build()?
            }
            entries => entries?,
        };
        Ok(Self { side, plan, entries, unmatchable, on })
    }
}

/// What entries are built from.
struct Building<'a> {
    side: &'a BuildSide,
    /// Keys of similarities.
    keys: &'a [ArrayRef],
    /// Rows by the keys of each clause.
    grouped: &'a [GroupedByKeys],
    engine: &'a Engine,
    /// Context of the build of each entry.
    context: &'a BuildContext<'a>,
    /// Threads that will probe.
    all_threads: usize,
}

impl Building<'_> {
    /// The entry at a place of the plan.
    fn entry(&self, plan: &RulePlan, at: usize) -> Result<BuiltEntry> {
        let BuildSide { deciders, columns, .. } = self.side;
        let group = &plan.groups[at];
        (self.context.reserve)(columns.rows * 2 * size_of::<u32>())?;
        let keys = group.entry.keys();
        let Some(grouped) = self.grouped.iter().find(|grouped| grouped.keys == keys) else {
            return internal_err!("an entry without groups");
        };
        let [own, earlier] =
            [&group.tree, &group.earlier].map(|tree| Path::new(tree.clone(), deciders.conditions.len()));
        let grouping = Arc::clone(&grouped.grouping);
        let on_device = self.on_device(plan, at);
        let places = match &group.entry {
            Entry::Hash(_) => EntryPlaces::Groups { grouping, ends: OnceLock::new() },
            Entry::Band { atom, .. } => self.band(*atom, grouping)?,
            Entry::Index { atom, .. } => {
                let trees = EntryTrees { own, earlier, on_device };
                return Ok(BuiltEntry::Indexed(self.index(*atom, grouped, trees)?));
            }
        };
        let trees = EntryTrees { own: own.with_filters(deciders, columns), earlier, on_device };
        Ok(BuiltEntry::Walkable(WalkableEntry { places, trees }))
    }

    /// What a device can do for the entry at a place of the plan.
    fn on_device(&self, plan: &RulePlan, at: usize) -> OnDevice {
        let BuildSide { deciders, clauses, .. } = self.side;
        let EntryGroup { entry, tree, earlier, .. } = &plan.groups[at];
        let Some(platform) = self.engine.platform() else { return OnDevice::Nothing };
        let serves = |atom: usize| platform.serves_atom(&deciders.conditions[atom]);
        let filters = |atom: usize| platform.filters_atom(&deciders.conditions[atom]);
        let mut steps = tree.steps.iter().chain(&earlier.steps).peekable();
        // an index has decided it all
        if matches!(entry, Entry::Index { .. }) && steps.peek().is_none() {
            return OnDevice::Nothing;
        }
        match steps.all(|step| serves(step.atom)) {
            true => OnDevice::Decides,
            false => plan.prefilter(at, clauses, filters, serves).map_or(OnDevice::Nothing, OnDevice::Prefilters),
        }
    }

    /// The rows of each group in the order of a band.
    fn band(&self, atom: usize, grouping: Arc<Grouping>) -> Result<EntryPlaces> {
        let AtomColumn::Band(column) = &self.side.columns.atoms[atom] else {
            return internal_err!("an entry without its band");
        };
        // pairs of a place and a row, then either alone, the last places, how far they reach, and ends of partners
        (self.context.reserve)(self.side.columns.rows * 8 * size_of::<u32>())?;
        let threads = self.context.threads;
        let order = BandOrder::build(grouping, column, threads)?;
        let ends = if self.context.self_join { order.self_join_ends(column, threads) } else { Vec::new() };
        Ok(EntryPlaces::Band { atom, order, ends })
    }

    /// The index of a similarity, within some groups.
    fn index(&self, atom: usize, grouped: &GroupedByKeys, trees: EntryTrees) -> Result<IndexedEntry> {
        let AtomCondition::Similarity { key, condition } = self.side.deciders.conditions[atom] else {
            return internal_err!("an entry without an index");
        };
        let GroupedByKeys { keys, grouping, groups } = grouped;
        let is_within = !keys.is_empty();
        let groups = is_within.then(|| groups.all()).transpose()?;
        let values = KeyColumn { values: Arc::clone(&self.keys[key]), groups };
        let (index, reason) = self.engine.build(condition, values, self.context)?;
        let within = is_within.then(|| Arc::clone(grouping));
        let longest_stretch = longest_stretch(index.info().self_join_len, self.all_threads);
        Ok(IndexedEntry { index, reason, key, within, trees, longest_stretch })
    }
}
