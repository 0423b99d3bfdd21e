//! Signature tiles: every pair that group and size allow is tested by its signatures, many at a time.
//!
//! ```text
//!                 build positions that group and size allow, in tiles that stay in the cache
//!                 +----------------+----------------+-------
//!   a run of  --> | one limit a    |                |
//!   alike rows    | column serves  |                |           hits -> merged exactly
//!                 | the whole run  |                |
//!                 +----------------+----------------+-------
//! ```
//!
//! Rows of equal group, size, known tokens and bits set (neighbours, in the order of [`SortedSets`]) have the same
//! limit for a column, and their neighbours nearly the same, so that limits are computed once a run. No pair is lost,
//! by the bound of [`super::bits`]: the tiles test folded signatures, and what hits is tested by the whole ones before
//! its tokens are merged. Hits are decided tile by tile, so that they take little memory whatever the data.

use std::ops::Range;

use super::bits;
use super::join::{AccessPath, Path, Scratch, Sides, Work};
use super::sorted::SortedSets;
use crate::Cursor;
use crate::cpu::signature::{self, Block, Hit, Kernel, LANES, Limits};
use crate::error::Result;
use crate::sets::predicate::Sizes;
use crate::stored::{Sink, Store};

/// The folded signatures of a build side, `W` words each.
pub(super) struct Tiles<const W: usize> {
    blocks: Vec<Block<W>>,
    /// Numbers of each column on which a limit depends; as many as the blocks have lanes.
    columns: Vec<Column>,
    kernel: Kernel,
}

/// Two numbers in the limit of [`bits::limit`], for a set of `s` tokens that set `b` bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Column {
    /// `b`
    bits: i64,
    /// `2 s - b`
    slack: i64,
}

/// Blocks of a tile: at two words they share a cache of 32 KiB with their limits.
const TILE: usize = 96;

/// Rows that share a tile's limits at most: more would gain nothing.
const RUN: usize = 64;

/// Rows that share limits although they are not alike.
const UNLIKE_RUN: usize = 32;

/// Rows of the first run of a call, which does not know yet how many pairs a row yields.
const FIRST_RUN: usize = 4;

/// Stands for the overlap that a column needs which cannot match at all.
const IMPOSSIBLE: i64 = i64::MAX / 4;

impl<const W: usize> Tiles<W> {
    pub(super) fn build(sets: &SortedSets) -> Self {
        let mut folded = Vec::with_capacity(sets.len() * W);
        (0..sets.len()).for_each(|p| folded.extend(bits::fold(sets.signature(p))));
        let blocks = signature::blocks(folded.as_chunks::<W>().0);
        let mut columns: Vec<Column> = (0..sets.len()).map(|p| Column::at(sets, p)).collect();
        columns.resize(blocks.len() * LANES, Column::default());
        Self { blocks, columns, kernel: Kernel::detect() }
    }

    /// Bytes that the tiles of `rows` rows take.
    pub(super) fn size(rows: usize) -> usize {
        rows.div_ceil(LANES) * (size_of::<Block<W>>() + LANES * size_of::<Column>())
    }

    /// Appends the matches of a run of rows among its partners.
    fn probe_run(&self, sides: &Sides<'_>, run: &Run, partners: Range<usize>, work: &mut Work<'_>) {
        let mut folded = std::mem::take(&mut work.scratch.folded);
        folded.clear();
        run.rows.clone().for_each(|row| folded.extend(bits::fold(sides.probe.signature(row))));
        let (mut first, last) = (partners.start / LANES, partners.end.div_ceil(LANES));
        while first < last && !work.cancel.is_cancelled() {
            let blocks = first..last.min(first + TILE);
            self.fill_limits(&sides.build.sizes, run, blocks.clone(), &partners, work.scratch);
            let Scratch { hits, limits, .. } = &mut *work.scratch;
            hits.clear();
            self.kernel.scan(folded.as_chunks::<W>().0, &self.blocks[blocks.clone()], limits, hits);
            decide_hits(sides, run, first * LANES, self.kernel, work);
            first = blocks.end;
        }
        work.scratch.folded = folded;
    }

    /// Fills the limits of a tile for a run; columns that are not among its partners are shut out.
    fn fill_limits(
        &self,
        sizes: &[u32],
        run: &Run,
        blocks: Range<usize>,
        partners: &Range<usize>,
        scratch: &mut Scratch,
    ) {
        let lanes = blocks.start * LANES..blocks.end * LANES;
        let columns = partners.start.max(lanes.start)..partners.end.min(lanes.end);
        let Scratch { limits, least, requirements, .. } = scratch;
        least.clear();
        least.resize(columns.start - lanes.start, IMPOSSIBLE);
        for alike in sizes[columns].chunk_by(|a, b| a == b) {
            let overlap = requirements.min_overlap(run.sizes(alike[0])).map_or(IMPOSSIBLE, i64::from);
            least.resize(least.len() + alike.len(), overlap);
        }
        least.resize(lanes.len(), IMPOSSIBLE);
        limits.clear();
        let columns = self.columns[lanes].chunks_exact(LANES).zip(least.chunks_exact(LANES));
        limits.extend(
            columns
                .map(|(columns, least)| Limits(std::array::from_fn(|l| run.widest.limit(columns[l]) - 2 * least[l]))),
        );
    }
}

impl Column {
    /// The numbers of the set at a position.
    fn at(sets: &SortedSets, position: usize) -> Self {
        let (tokens, bits) = sets.folded_weight(position);
        Self { bits: bits.into(), slack: 2 * i64::from(tokens) - i64::from(bits) }
    }

    /// [`bits::limit`] for an overlap of 0.
    #[inline]
    fn limit(self, other: Self) -> i64 {
        (self.slack + other.bits).min(other.slack + self.bits)
    }
}

impl<const W: usize> std::fmt::Debug for Tiles<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tiles").field("blocks", &self.blocks.len()).field("kernel", &self.kernel).finish()
    }
}

/// Nothing is written: they are made of the signatures again.
impl<const W: usize> Store for Tiles<W> {
    fn store(&self, _: &mut Sink<'_>) -> Result<()> {
        Ok(())
    }
}

impl<const W: usize> Path for Tiles<W> {
    fn name(&self) -> String {
        format!("{}-bit signature tiles ({})", 64 * W, self.kernel.name())
    }

    fn kind(&self) -> AccessPath {
        AccessPath::Tiles
    }

    fn memory(&self) -> usize {
        Self::size(self.columns.len())
    }

    fn probe(&self, sides: &Sides<'_>, cursor: &mut Cursor, work: &mut Work<'_>) {
        let mut most = FIRST_RUN;
        while !cursor.is_done() && !work.is_enough() {
            let run = Run::at(sides.probe, cursor.next, cursor.end.min(cursor.next + most));
            let reach = work.scratch.requirements.reach_of_probe(run.size);
            // In a self-join the run's last row has the most partners; `decide_hits` drops those of the others.
            let partners = sides.partners(run.rows.end - 1, reach);
            work.done += run.rows.len() * (1 + partners.len());
            let before = work.matched();
            self.probe_run(sides, &run, partners, work);
            cursor.next = run.rows.end;
            most = next_length(most, run.rows.len(), work.matched() - before, work);
        }
    }
}

/// Probe rows of one group and size that share limits.
struct Run {
    rows: Range<usize>,
    size: u32,
    /// A column whose limits are those of the least demanding row.
    widest: Column,
}

impl Run {
    /// The run from `row` on, at most up to `end`.
    ///
    /// Rows that are alike in all that a limit depends on join it as long as there are any; where they are few, the
    /// next ones do, at the price of limits that are a little too wide for some.
    fn at(sets: &SortedSets, row: usize, end: usize) -> Self {
        let place = |p: usize| (sets.groups[p], sets.sizes[p]);
        let first = Column::at(sets, row);
        let mut run = Self { rows: row..row + 1, size: sets.sizes[row], widest: first };
        for p in row + 1..end {
            let column = Column::at(sets, p);
            if place(p) != place(row) || (column != first && p - row >= UNLIKE_RUN) {
                break;
            }
            run.widest = Column { bits: run.widest.bits.max(column.bits), slack: run.widest.slack.max(column.slack) };
            run.rows.end = p + 1;
        }
        run
    }

    /// Sizes of a row of the run and of a build row.
    #[inline]
    fn sizes(&self, build: u32) -> Sizes {
        Sizes { build, probe: self.size }
    }
}

/// Verifies the hits of a run in the tile whose first column is `origin`.
fn decide_hits(sides: &Sides<'_>, run: &Run, origin: usize, kernel: Kernel, work: &mut Work<'_>) {
    let mut hits = std::mem::take(&mut work.scratch.hits);
    let pair = |hit: Hit| (run.rows.start + hit.row as usize, origin + hit.column as usize);
    if sides.self_join {
        hits.retain(|&hit| pair(hit).1 < pair(hit).0);
    }
    work.counts.candidates += hits.len();
    let requirements = &mut work.scratch.requirements;
    let mut least = |column: usize| requirements.min_overlap(run.sizes(sides.build.sizes[column])).unwrap_or(u32::MAX);
    kernel.retain(&mut hits, |hit| sides.signatures(pair(hit).0, pair(hit).1, least(pair(hit).1)));
    for (row, column) in hits.iter().map(|&hit| pair(hit)).take_while(|_| !work.cancel.is_cancelled()) {
        if let Some(least) = work.scratch.requirements.min_overlap(run.sizes(sides.build.sizes[column])) {
            work.decide(sides, row, column, least, (0, 0));
        }
    }
    work.scratch.hits = hits;
}

/// How many rows the next run may have, so that it yields few pairs more than are still wanted.
fn next_length(most: usize, rows: usize, found: usize, work: &Work<'_>) -> usize {
    let wanted = work.limit.pairs.saturating_sub(work.matched());
    let fitting = wanted.saturating_mul(rows) / found.max(1);
    (2 * most).min(RUN).min(fitting).max(1)
}
