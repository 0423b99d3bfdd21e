//! Pairs that match, from the candidates of one entry.

use std::ops::Range;

use crate::error::Result;

use super::walk::{BLOCK, Block, FirstFilter, NO_WITNESS, Path, Scratch, Walk};
use crate::atoms::RuleCounters;
use crate::cpu::columns::Columns;
use crate::cpu::prefilter::Lanes;
use crate::{AnyBatch, Counts, Cursor, DynPairIndex, Limit, Pairs, Probe};

/// Where the candidates of an entry come from.
#[derive(Clone, Copy)]
pub(crate) enum Candidates<'a> {
    /// An index finds them.
    Index {
        /// The index of a similarity.
        index: &'a DynPairIndex,
        /// What it is probed with.
        probe: Probe<'a, AnyBatch>,
    },
    /// Rows of a probe batch with rows of the build side.
    Batch {
        /// Build rows by place.
        rows: &'a [u32],
        /// Probe rows, each with the places of its partners.
        partners: &'a [(u32, Range<u32>)],
    },
    /// Rows of a self-join: each is paired with those behind it.
    SelfJoin {
        /// Rows by place.
        rows: &'a [u32],
        /// Where the partners of each place end.
        ends: &'a [u32],
    },
}

/// An entry as far as its candidates are verified.
pub(crate) struct EntryPaths<'a> {
    pub(crate) number: usize,
    pub(crate) tree: &'a Path,
    pub(crate) earlier: &'a Path,
    pub(crate) clauses: &'a [usize],
}

/// The row that candidates are for.
#[derive(Clone, Copy)]
enum ProbeRow {
    /// A row of the probe side.
    Other(u32),
    /// The row right before its candidates.
    Before(u32),
}

/// What a probing thread writes to and keeps.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    scratch: Scratch,
    block: Block,
    /// Pairs of a block whose witness is of this entry.
    kept: Block,
    /// The clause that holds for each of them.
    witnesses: Vec<u32>,
    unused: RuleCounters,
    side_by_side: SideBySide,
    marks: Vec<u64>,
}

/// The rows of a group, as far as the filters of a path ask them.
#[derive(Debug, Default)]
struct SideBySide {
    entry: usize,
    places: Range<usize>,
    /// Lanes of each filter.
    lanes: Vec<Lanes>,
}

/// Fewer rows are asked one by one.
pub(crate) const FEWEST_LANES: usize = 8;
/// More are, too, so that they stay in a cache.
const MOST_LANES: usize = 1 << 18;
/// Lanes that are gathered at once at least: groups that follow each other share them.
const GATHERED: usize = 1024;
/// Lanes that are marked at once.
const MARKED: usize = BLOCK / 2;

impl SideBySide {
    /// Lanes of the rows at `places` and of some behind them, unless they are among those that are there.
    fn gather(&mut self, entry: &EntryPaths<'_>, build: &Columns, rows: &[u32], places: &Range<usize>) {
        if self.holds(entry.number, places) {
            return;
        }
        let filters = &entry.tree.filters;
        self.lanes.resize_with(filters.len().max(self.lanes.len()), Lanes::default);
        let places = places.start..places.end.max(places.start + GATHERED).min(rows.len());
        for (filter, lanes) in filters.iter().zip(&mut self.lanes) {
            build.gather(filter.atoms[0], &rows[places.clone()], lanes);
        }
        (self.entry, self.places) = (entry.number, places);
    }

    fn holds(&self, entry: usize, places: &Range<usize>) -> bool {
        self.entry == entry && self.places.start <= places.start && places.end <= self.places.end
    }
}

/// One call of a probe.
pub(crate) struct Probing<'a> {
    pub(crate) walk: Walk<'a>,
    pub(crate) memory: Memory,
    pub(crate) out: &'a mut Pairs,
    pub(crate) counters: &'a mut RuleCounters,
    pub(crate) counts: Counts,
}

impl Probing<'_> {
    /// Appends the matches among the candidates from `cursor` on, until it is done, `limit` is reached, or an index has
    /// returned before its end.
    pub(crate) fn entry(
        &mut self,
        entry: &EntryPaths<'_>,
        candidates: Candidates<'_>,
        cursor: &mut Cursor,
        limit: Limit,
    ) -> Result<()> {
        if let Candidates::Index { index, probe } = candidates {
            let found = self.find(entry, (index, probe), cursor, limit)?;
            return self.verify(entry, &found);
        }
        let (matched, before) = (self.counts.matched, self.counts.candidates);
        while !cursor.is_done() {
            match candidates {
                Candidates::Batch { rows, partners } => {
                    let (row, places) = &partners[cursor.next];
                    self.pair(entry, rows, places.start as usize..places.end as usize, ProbeRow::Other(*row))?;
                }
                Candidates::SelfJoin { rows, ends } => {
                    let places = cursor.next + 1..ends[cursor.next] as usize;
                    self.pair(entry, rows, places, ProbeRow::Before(rows[cursor.next]))?;
                }
                Candidates::Index { .. } => break,
            }
            cursor.next += 1;
            if self.counts.matched - matched >= limit.pairs
                || self.counts.candidates - before >= limit.work
                || self.walk.cancel.is_cancelled()
            {
                break;
            }
        }
        self.finish_block(entry)
    }

    /// Appends the matches that `walk` finds on a device, which decides everything. The number of its candidates, where
    /// it could.
    pub(crate) fn decided(
        &mut self,
        walk: impl FnOnce(&mut Pairs, &mut RuleCounters) -> Result<Option<Counts>>,
    ) -> Result<Option<usize>> {
        let Some(counts) = walk(self.out, self.counters)? else { return Ok(None) };
        self.counts.verified += counts.verified;
        self.counts.matched += counts.matched;
        Ok(Some(counts.candidates))
    }

    /// Appends the matches among the pairs that `walk` leaves on a device, which decides some atoms. The number of its
    /// candidates, where it could.
    pub(crate) fn prefiltered(
        &mut self,
        entry: &EntryPaths<'_>,
        walk: impl FnOnce(&mut Pairs, &mut RuleCounters) -> Result<Option<Counts>>,
    ) -> Result<Option<usize>> {
        let (mut left, mut asked) = (Pairs::default(), RuleCounters::default());
        asked.resize(self.counters);
        let Some(counts) = walk(&mut left, &mut asked)? else { return Ok(None) };
        for (sum, on_device) in
            [(&mut self.counters.evaluated, &asked.evaluated), (&mut self.counters.passed, &asked.passed)]
        {
            sum.iter_mut().zip(on_device).for_each(|(sum, on_device)| *sum += on_device);
        }
        self.verify(entry, &left)?;
        Ok(Some(counts.candidates))
    }

    /// Counts candidates of an entry that no index has found.
    pub(crate) fn add_candidates(&mut self, entry: &EntryPaths<'_>, candidates: usize) {
        self.count(entry, candidates);
        self.counts.candidates += candidates;
    }

    /// Some of the pairs that an index finds from `cursor` on.
    pub(crate) fn find(
        &mut self,
        entry: &EntryPaths<'_>,
        (index, probe): (&DynPairIndex, Probe<'_, AnyBatch>),
        cursor: &mut Cursor,
        limit: Limit,
    ) -> Result<Pairs> {
        let mut found = Pairs::default();
        let limit = Limit { pairs: limit.pairs.max(BLOCK), work: limit.work };
        let counts = index.probe(probe, cursor, limit, self.walk.cancel, &mut found)?;
        // what the index did counts as work of this entry
        self.counts.candidates += counts.candidates;
        self.count(entry, found.len());
        Ok(found)
    }

    /// Appends those of some pairs that match.
    pub(crate) fn verify(&mut self, entry: &EntryPaths<'_>, found: &Pairs) -> Result<()> {
        for start in (0..found.len()).step_by(BLOCK) {
            if self.walk.cancel.is_cancelled() {
                break;
            }
            let range = start..found.len().min(start + BLOCK);
            let Block { pairs, .. } = &mut self.memory.block;
            pairs.build.extend_from_slice(&found.build[range.clone()]);
            pairs.probe.extend_from_slice(&found.probe[range]);
            self.finish_block(entry)?;
        }
        Ok(())
    }

    fn count(&mut self, entry: &EntryPaths<'_>, candidates: usize) {
        entry.clauses.iter().for_each(|&clause| self.counters.candidates[clause] += candidates);
    }

    /// Adds the candidates of one probe row, those at `places` among `rows`.
    fn pair(&mut self, entry: &EntryPaths<'_>, rows: &[u32], places: Range<usize>, row: ProbeRow) -> Result<()> {
        self.counts.candidates += places.len();
        self.count(entry, places.len());
        let marked = !entry.tree.filters.is_empty();
        let few = places.len() < FEWEST_LANES && !self.memory.side_by_side.holds(entry.number, &places);
        if marked && !few && places.len() <= MOST_LANES {
            return self.pair_marked(entry, rows, places, row);
        }
        let (ProbeRow::Other(row) | ProbeRow::Before(row)) = row;
        let mut rest = &rows[places];
        while !rest.is_empty() {
            let Block { pairs, marks } = &mut self.memory.block;
            let (now, later) = rest.split_at(rest.len().min(BLOCK - pairs.len()));
            pairs.build.extend_from_slice(now);
            pairs.probe.resize(pairs.build.len(), row);
            if marked {
                marks.resize(pairs.build.len(), u64::MAX);
            }
            rest = later;
            if pairs.len() == BLOCK {
                self.finish_block(entry)?;
                if self.walk.cancel.is_cancelled() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Adds those of the candidates that some first step may hold for.
    fn pair_marked(
        &mut self,
        entry: &EntryPaths<'_>,
        rows: &[u32],
        places: Range<usize>,
        probe_row: ProbeRow,
    ) -> Result<()> {
        let Walk { build, probe, cancel, .. } = self.walk;
        let (row, first) = match probe_row {
            ProbeRow::Other(row) => (row, places.start),
            ProbeRow::Before(row) => (row, places.start - 1),
        };
        self.memory.side_by_side.gather(entry, build, rows, &(first..places.end));
        let mut next = places.start;
        while next < places.end {
            if self.memory.block.pairs.len() > BLOCK - MARKED {
                self.finish_block(entry)?;
                if cancel.is_cancelled() {
                    return Ok(());
                }
            }
            let some = next..places.end.min(next + MARKED);
            next = some.end;
            let Memory { side_by_side, marks, block, .. } = &mut self.memory;
            marks.clear();
            marks.resize(some.len(), 0);
            let lane = |place: usize| place - side_by_side.places.start;
            for (FirstFilter { atoms, bits, allowance }, lanes) in entry.tree.filters.iter().zip(&side_by_side.lanes) {
                let near = match probe_row {
                    ProbeRow::Before(_) => Some(lanes.at(lane(first))),
                    ProbeRow::Other(row) => probe.near(atoms[0], row),
                };
                let Some(near) = near else { continue };
                let may = lanes.mark(allowance, near, lane(some.start)..lane(some.end), *bits, marks);
                // the others are counted where they are verified
                atoms.iter().for_each(|&atom| self.counters.evaluated[atom] += some.len() - may);
            }
            block.extend_marked(&rows[some], row, marks);
        }
        Ok(())
    }

    /// Finds the witnesses of the block and forgets it.
    fn finish_block(&mut self, entry: &EntryPaths<'_>) -> Result<()> {
        let Memory { scratch, block, kept, witnesses, unused, .. } = &mut self.memory;
        if block.pairs.is_empty() {
            return Ok(());
        }
        self.counts.verified += block.pairs.len();
        self.walk.block(entry.tree, block, scratch, self.counters)?;
        kept.clear();
        witnesses.clear();
        for (at, &witness) in scratch.witness.iter().enumerate().filter(|(_, witness)| **witness != NO_WITNESS) {
            kept.pairs.push(block.pairs.build[at], block.pairs.probe[at]);
            witnesses.push(witness);
        }
        block.clear();
        if kept.pairs.is_empty() {
            return Ok(());
        }
        if entry.number > 0 {
            unused.resize(self.counters);
            self.walk.block(entry.earlier, kept, scratch, unused)?;
        } else {
            scratch.witness.clear();
            scratch.witness.resize(kept.pairs.len(), NO_WITNESS);
        }
        for (at, _) in scratch.witness.iter().enumerate().filter(|(_, earlier)| **earlier == NO_WITNESS) {
            self.out.push(kept.pairs.build[at], kept.pairs.probe[at]);
            self.counters.witnesses[witnesses[at] as usize] += 1;
            self.counts.matched += 1;
        }
        Ok(())
    }
}
