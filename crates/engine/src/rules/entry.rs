//! One entry of a plan: how its candidates are found and walked, and the trees that decide them.

use std::sync::{Arc, OnceLock};

use crate::error::{Result, internal_err};
use arrow::array::ArrayRef;

use super::band::BandOrder;
use super::coded::BuildSide;
use super::grouping::Grouping;
use super::on_device::{DeviceWalk, ProbedWalk, WalkedBatch};
use super::places::ProbePlaces;
use super::prepared::{EntryProbe, PreparedEntry};
use crate::accelerator::rules::{PartnerEnds, PlacedRows, WalkedEntry};
use crate::atoms::AtomColumn;
use crate::cpu::columns::Columns;
use crate::cpu::rules::probing::Candidates;
use crate::cpu::rules::walk::Path;
use crate::devices::RulesBatch;
use crate::index::even_stretch;
use crate::metrics::MetricValue;
use crate::plan::{ExecutionTree, Prefilter};
use crate::reason::Reason;
use crate::{ColumnPair, DynPairIndex, KeyColumn, PrepareContext, Probe};

/// Probe rows that are made ready at once for a device.
const ROWS_AT_ONCE: usize = 1 << 20;
/// Probe rows of a device that leaves some pairs to the thread that has brought them.
const ROWS_OF_PREFILTER: usize = 1 << 16;
/// Pairs of a stretch of a self-join, for an entry by hash.
pub(super) const PAIRS_A_STRETCH: usize = 1 << 20;

/// The trees that decide the candidates of an entry.
#[derive(Debug)]
pub(super) struct EntryTrees {
    /// Tree of the entry's own clauses.
    pub(super) own: Path,
    /// Tree of the clauses of all entries before.
    pub(super) earlier: Path,
    pub(super) on_device: OnDevice,
}

impl EntryTrees {
    /// The trees that a device walks, the own one first; `None` where it leaves all candidates to the host.
    pub(super) fn there(&self) -> Option<[&ExecutionTree; 2]> {
        match &self.on_device {
            OnDevice::Nothing => None,
            OnDevice::Decides => Some([self.own.tree(), self.earlier.tree()]),
            OnDevice::Prefilters(Prefilter { tree, earlier }) => Some([tree, earlier]),
        }
    }

    /// Whether a device can walk them.
    pub(super) fn have_kernels(&self) -> bool {
        self.there().is_some()
    }

    /// Whether a device leaves some candidates to the host.
    pub(super) fn are_prefilters(&self) -> bool {
        matches!(self.on_device, OnDevice::Prefilters(_))
    }

    /// The atoms that a device is asked.
    pub(super) fn atoms_there(&self) -> impl Iterator<Item = usize> {
        self.there().into_iter().flatten().flat_map(|tree| &tree.steps).map(|step| step.atom)
    }

    /// What else than the device of `walk` decides pairs, for EXPLAIN ANALYZE.
    fn decided_elsewhere(&self, walk: &DeviceWalk) -> &'static str {
        match (self.are_prefilters(), walk.has_unknown) {
            (true, _) => ", cpu for what it has no kernels for",
            (false, true) => ", cpu for rows with very long strings or extreme numbers",
            (false, false) => "",
        }
    }
}

/// Part of a device in deciding the candidates of an entry.
#[derive(Debug)]
pub(super) enum OnDevice {
    /// Leave all candidates to the host.
    Nothing,
    /// Decide all candidates.
    Decides,
    /// Leave some candidates to the host, which decides the atoms without kernels.
    Prefilters(Prefilter),
}

/// Build rows by place, and the places that each is paired with.
#[derive(Debug)]
pub(super) enum EntryPlaces {
    /// Rows by group.
    Groups {
        grouping: Arc<Grouping>,
        /// End of the group of each place, in a self-join on the CPU.
        ends: OnceLock<Vec<u32>>,
    },
    /// Rows of each group in the order of a band.
    Band {
        atom: usize,
        order: BandOrder,
        /// End of the partners of each place, in a self-join.
        ends: Vec<u32>,
    },
}

impl EntryPlaces {
    /// How many places there are.
    fn len(&self) -> usize {
        match self {
            Self::Groups { grouping, .. } => grouping.len(),
            Self::Band { order, .. } => order.rows.len(),
        }
    }

    fn grouping(&self) -> &Grouping {
        match self {
            Self::Groups { grouping, .. } => grouping,
            Self::Band { order, .. } => &order.grouping,
        }
    }

    /// Build rows by place.
    fn rows(&self) -> Result<&[u32]> {
        match self {
            Self::Groups { grouping, .. } => grouping.rows(),
            Self::Band { order, .. } => Ok(&order.rows),
        }
    }

    /// End of the partners of each place, in a self-join.
    pub(super) fn self_join_ends(&self) -> &[u32] {
        match self {
            Self::Groups { grouping, ends } => ends.get_or_init(|| grouping.group_ends()),
            Self::Band { ends, .. } => ends,
        }
    }

    /// The rows of a probe batch that have partners; also on a device, if it has the memory.
    fn look_up(&self, build: &Columns, probe: &Columns, device: Option<WalkedBatch<'_>>) -> Result<ProbePlaces> {
        match self {
            Self::Groups { grouping, .. } => ProbePlaces::of_groups(grouping, grouping.look_up(build, probe)?, device),
            Self::Band { atom, order, .. } => {
                let AtomColumn::Band(column) = &probe.atoms[*atom] else {
                    return internal_err!("an entry without its band");
                };
                let found = order.grouping.look_up(build, probe)?;
                ProbePlaces::of_rows(order.partners(&found.into_vec()?, column), device)
            }
        }
    }

    /// Bytes held, as if the CPU had asked for the ends.
    fn memory(&self, self_join: bool) -> usize {
        match self {
            Self::Groups { grouping, .. } if self_join => grouping.memory() + grouping.len() * size_of::<u32>(),
            Self::Groups { grouping, .. } => grouping.memory(),
            Self::Band { order, ends, .. } => {
                order.grouping.memory() + order.memory() + ends.capacity() * size_of::<u32>()
            }
        }
    }
}

/// An entry whose candidates are found by places.
#[derive(Debug)]
pub(super) struct WalkableEntry {
    pub(super) places: EntryPlaces,
    pub(super) trees: EntryTrees,
}

impl WalkableEntry {
    /// Parts of its self-join where a device would have so many: one for each thread, as each decides on the host what
    /// is left of a part.
    pub(super) fn parts(&self, of_device: u64, has_unknown: bool, threads: usize) -> u64 {
        match self.trees.are_prefilters() || has_unknown {
            true => of_device.max(threads.min(1 + self.places.len() / WORTH_A_STRETCH) as u64),
            false => of_device,
        }
    }

    /// The entry as a device takes it, whose self-join is cut into so many parts.
    ///
    /// # Errors
    /// A device that fails, an entry that no device can walk.
    pub(super) fn for_device(&self, self_join: bool, parts: u64) -> Result<WalkedEntry<'_>> {
        let Some(trees) = self.trees.there() else {
            return internal_err!("an entry that no device can walk was asked for there");
        };
        let (rows, behind) = match &self.places {
            EntryPlaces::Groups { grouping, .. } => match grouping.on_device() {
                Some(grouped) => (PlacedRows::Grouped(Arc::clone(grouped)), PartnerEnds::InGroup(grouped)),
                None => (PlacedRows::OnHost(grouping.rows()?), PartnerEnds::InGroupOnHost(grouping.starts())),
            },
            EntryPlaces::Band { order, ends, .. } => (PlacedRows::OnHost(&order.rows), PartnerEnds::UpTo(ends)),
        };
        Ok(WalkedEntry { rows, behind: self_join.then_some(behind), parts, trees })
    }
}

/// An entry whose candidates the index of a similarity finds.
#[derive(Debug)]
pub(super) struct IndexedEntry {
    pub(super) index: Box<DynPairIndex>,
    /// Why the index is on its engine.
    pub(super) reason: Reason,
    /// Which key it is over.
    pub(super) key: usize,
    /// Groups within which it pairs.
    pub(super) within: Option<Arc<Grouping>>,
    pub(super) trees: EntryTrees,
    /// Longest stretch of a self-join.
    pub(super) longest_stretch: usize,
}

/// Shortest of the longest stretches.
const WORTH_A_STRETCH: usize = 4096;

/// Longest stretch of a self-join of `len` places whose pairs are decided by the thread that finds them: two for each
/// thread at least, of whole words of places.
pub(super) fn longest_stretch(len: usize, threads: usize) -> usize {
    len.div_ceil(2 * threads.max(1)).max(WORTH_A_STRETCH).next_multiple_of(u64::BITS as usize)
}

/// An entry, and where its candidates are walked.
#[derive(Debug)]
pub(super) enum PlacedEntry {
    /// Found by places, and walked on the host.
    OnHost {
        entry: WalkableEntry,
        /// Why not on a device that could.
        reason: Reason,
    },
    /// Found by places, and walked on a device; on the host where memory lacks there.
    OnDevice {
        entry: WalkableEntry,
        walk: DeviceWalk,
        /// Why on a device.
        reason: Reason,
    },
    /// Found by an index.
    Indexed {
        entry: IndexedEntry,
        /// The device that decides what is found, where one does; otherwise the host.
        decides: Option<DeviceWalk>,
    },
}

/// A probe batch as its entry reads it, made of all atoms' columns and of keys.
#[derive(Clone, Copy)]
pub(super) struct ProbeSide<'a> {
    pub(super) columns: &'a Columns,
    /// Keys of similarities.
    pub(super) keys: &'a [ArrayRef],
    /// The columns on a device, where one has them.
    pub(super) on_device: Option<&'a RulesBatch>,
}

impl PlacedEntry {
    /// The trees that decide candidates on the host.
    pub(super) fn trees(&self) -> &EntryTrees {
        match self {
            Self::OnHost { entry, .. } | Self::OnDevice { entry, .. } => &entry.trees,
            Self::Indexed { entry, .. } => &entry.trees,
        }
    }

    /// Whether a device finds candidates and walks them.
    pub(super) fn is_on_device(&self) -> bool {
        matches!(self, Self::OnDevice { .. })
    }

    /// Whether an index finds candidates.
    pub(super) fn is_indexed(&self) -> bool {
        matches!(self, Self::Indexed { .. })
    }

    /// The device that decides candidates, where one does.
    pub(super) fn deciding(&self) -> Option<&DeviceWalk> {
        match self {
            Self::OnHost { .. } => None,
            Self::OnDevice { walk, .. } => Some(walk),
            Self::Indexed { decides, .. } => decides.as_ref(),
        }
    }

    /// Whether the host walks all candidates.
    pub(super) fn is_on_host(&self) -> bool {
        matches!(self, Self::OnHost { .. })
    }

    /// Whether the host decides candidates, at least those that a device leaves.
    pub(super) fn needs_host(&self) -> bool {
        self.deciding().is_none_or(|walk| self.trees().are_prefilters() || walk.has_unknown)
    }

    /// What the index has chosen, or where candidates are walked and why, where there is something to say.
    pub(super) fn chosen(&self) -> String {
        match self {
            Self::OnHost { reason, .. } => match reason.to_string() {
                reason if reason.is_empty() => reason,
                reason => format!("walked on the cpu{reason}"),
            },
            Self::OnDevice { entry, walk, reason } => {
                let rest = entry.trees.decided_elsewhere(walk);
                format!("walked on {}{rest}{}", walk.rules.name(), reason.weighed())
            }
            Self::Indexed { entry: IndexedEntry { index, reason, trees, .. }, decides } => {
                let there =
                    |walk: &DeviceWalk| format!("; decided on {}{}", walk.rules.name(), trees.decided_elsewhere(walk));
                format!("{}{reason}{}", index.info().path, decides.as_ref().map(there).unwrap_or_default())
            }
        }
    }

    /// Bytes held.
    pub(super) fn memory(&self, self_join: bool) -> usize {
        match self {
            Self::OnHost { entry, .. } => entry.places.memory(self_join),
            Self::OnDevice { entry, walk, .. } => entry.places.memory(self_join) + walk.rules.memory(walk.entry),
            Self::Indexed { entry: IndexedEntry { index, within, .. }, .. } => {
                index.info().bytes + within.as_ref().map_or(0, |grouping| grouping.memory())
            }
        }
    }

    /// What its index has counted.
    pub(super) fn metrics(&self) -> Vec<MetricValue> {
        match self {
            Self::OnHost { .. } | Self::OnDevice { .. } => Vec::new(),
            Self::Indexed { entry: IndexedEntry { index, reason, .. }, .. } => {
                index.metrics().into_iter().chain(reason.metric()).collect()
            }
        }
    }

    /// How many rows of a probe side are best made ready at once.
    pub(super) fn rows_at_once(&self) -> usize {
        match self {
            Self::OnHost { .. } => 1,
            Self::OnDevice { .. } if self.needs_host() => ROWS_OF_PREFILTER,
            Self::OnDevice { .. } => ROWS_AT_ONCE,
            Self::Indexed { entry: IndexedEntry { index, .. }, decides } => {
                match (index.info().rows_at_once, decides) {
                    // an index of the CPU takes any number of rows
                    (1, Some(_)) => ROWS_OF_PREFILTER,
                    (rows, _) => rows,
                }
            }
        }
    }

    /// Whether several threads may share what is left of a probe.
    pub(super) fn is_shared(&self, probe: Option<EntryProbe<'_>>) -> bool {
        match self {
            Self::OnHost { .. } | Self::OnDevice { .. } => self.on_device(probe).is_none(),
            Self::Indexed { entry: IndexedEntry { index, .. }, .. } => match probe.map(|probe| probe.prepared) {
                Some(PreparedEntry::Index(prepared)) => prepared.shared,
                Some(PreparedEntry::Nothing) => false,
                Some(PreparedEntry::Places(_)) | None => index.info().shared,
            },
        }
    }

    /// The length of the cursor over the build side itself.
    pub(super) fn self_join_len(&self) -> usize {
        match self {
            Self::OnHost { entry, .. } | Self::OnDevice { entry, .. } => entry.places.len(),
            Self::Indexed { entry: IndexedEntry { index, .. }, .. } => index.info().self_join_len,
        }
    }

    /// The end of a stretch of a self-join from `start` on: about as much work as any.
    pub(super) fn self_join_stretch(&self, start: usize) -> usize {
        match self {
            Self::OnDevice { walk, .. } => walk.rules.self_join_stretch(walk.entry, start),
            Self::Indexed { entry: IndexedEntry { index, longest_stretch, .. }, .. } => {
                index.self_join_stretch(start).min(start + longest_stretch)
            }
            Self::OnHost { entry, .. } => {
                let most = even_stretch(start, entry.places.len());
                let (ends, mut pairs) = (entry.places.self_join_ends(), 0);
                let full = (start..most).find(|&place| {
                    pairs += ends[place] as usize - place;
                    pairs >= PAIRS_A_STRETCH
                });
                full.map_or(most, |place| place + 1)
            }
        }
    }

    /// Makes a probe batch ready.
    ///
    /// # Errors
    /// Keys that cannot be compared with the build side, a device that fails.
    pub(super) fn prepare(
        &self,
        build: &BuildSide,
        probe: ProbeSide<'_>,
        context: &PrepareContext<'_>,
    ) -> Result<PreparedEntry> {
        let ProbeSide { columns, keys, on_device } = probe;
        Ok(match self {
            Self::OnHost { entry, .. } => PreparedEntry::Places(entry.places.look_up(&build.columns, columns, None)?),
            Self::OnDevice { entry, walk, .. } => PreparedEntry::Places(entry.places.look_up(
                &build.columns,
                columns,
                on_device.map(|batch| WalkedBatch { walk, batch }),
            )?),
            Self::Indexed { entry: IndexedEntry { index, key, within, .. }, .. } => {
                let found = |grouping: &Arc<Grouping>| grouping.look_up(&build.columns, columns)?.into_vec();
                let groups = within.as_ref().map(found).transpose()?;
                PreparedEntry::Index(index.prepare(&KeyColumn { values: Arc::clone(&keys[*key]), groups }, context)?)
            }
        })
    }

    /// The walk on a device, where the candidates with `probe` are decided there.
    pub(super) fn on_device<'a>(&'a self, probe: Option<EntryProbe<'a>>) -> Option<ProbedWalk<'a>> {
        let walk = self.deciding()?;
        let probe = match probe {
            None => None,
            Some(probe) => Some(probe.on_device()?),
        };
        Some(ProbedWalk { walk, probe })
    }

    /// The candidates with `probe`, or of the build side itself, for a walk on the host. The `sides` have the columns
    /// of both.
    ///
    /// # Errors
    /// A batch that was not made ready for this entry.
    pub(super) fn candidates<'a>(
        &'a self,
        probe: Option<EntryProbe<'a>>,
        sides: ColumnPair<'_, Columns>,
    ) -> Result<Candidates<'a>> {
        Ok(match (self, probe.map(|probe| probe.prepared)) {
            (Self::OnHost { entry, .. } | Self::OnDevice { entry, .. }, None) => {
                Candidates::SelfJoin { rows: entry.places.rows()?, ends: entry.places.self_join_ends() }
            }
            (
                Self::OnHost { entry: WalkableEntry { places, .. }, .. }
                | Self::OnDevice { entry: WalkableEntry { places, .. }, .. },
                Some(PreparedEntry::Places(partners)),
            ) => {
                let grouping = places.grouping();
                let again = || grouping.look_up_in_tables(sides.build, sides.probe);
                Candidates::Batch { rows: places.rows()?, partners: partners.rows(grouping, again)? }
            }
            (Self::Indexed { entry: IndexedEntry { index, .. }, .. }, None) => {
                Candidates::Index { index: index.as_ref(), probe: Probe::SelfJoin }
            }
            (Self::Indexed { entry: IndexedEntry { index, .. }, .. }, Some(PreparedEntry::Index(prepared))) => {
                Candidates::Index { index: index.as_ref(), probe: Probe::Batch(&prepared.batch) }
            }
            _ => return internal_err!("an entry was given a probe batch that it did not prepare"),
        })
    }
}
