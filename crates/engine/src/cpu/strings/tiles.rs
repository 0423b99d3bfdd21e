//! Signature tiles: every pair that group and length allow is tested by its signatures, many at a time.
//!
//! Probe rows of one group, length and class share the limits of a column, so that they are computed once for all.

use std::ops::Range;

use super::limits::LengthLimits;
use super::runs::Run;
use super::sides::Sides;
use super::sorted::SortedStrings;
use super::work::Work;
use crate::cpu::signature::{self, Block, Hit, Kernel, LANES, Limits};
use crate::error::Result;
use crate::stored::{Sink, Source, Store, Stored};
use crate::strings::features::{Feature, Signature, WORDS};
use crate::strings::predicate::{EditPredicate, Slack};

/// The signatures of a build side in blocks.
#[derive(Debug)]
pub(super) struct Tiles {
    /// What the signatures that are tested first are of.
    tested: Feature,
    blocks: Vec<Block<WORDS>>,
    kernel: Kernel,
}

/// Blocks of a tile: with their limits they share a cache of 32 KiB with the rows.
pub(super) const TILE: usize = 64;

/// What is tested is written; the blocks are made of the signatures again.
impl Store for Tiles {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.tested.store(sink)
    }
}

impl Tiles {
    pub(super) fn load(texts: &SortedStrings, source: &mut Source<'_>) -> Result<Self> {
        Ok(Self::build(texts, Feature::load(source)?))
    }

    pub(super) fn build(texts: &SortedStrings, tested: Feature) -> Self {
        Self { tested, blocks: signature::blocks(signatures(texts, tested)), kernel: Kernel::detect() }
    }

    /// Bytes that the tiles of `rows` rows take.
    pub(super) fn size(rows: usize) -> usize {
        rows.div_ceil(LANES) * size_of::<Block<WORDS>>()
    }

    pub(super) fn memory(&self) -> usize {
        self.blocks.capacity() * size_of::<Block<WORDS>>()
    }

    /// The name in EXPLAIN ANALYZE.
    pub(super) fn describe(&self) -> String {
        let tested = match self.tested {
            Feature::Characters => "characters",
            Feature::Bigrams => "bigrams",
        };
        format!("{}-bit signature tiles over {tested} ({})", 64 * WORDS, self.kernel.name())
    }

    /// Decides all pairs of `rows`, which are of one group, length and class, and the build rows of `runs`.
    pub(super) fn probe(&self, sides: &Sides<'_>, rows: Range<usize>, runs: Range<usize>, work: &mut Work<'_>) {
        let all = sides.runs.all();
        let (start, mut end) = (all[runs.start].start as usize, all[runs.end - 1].end as usize);
        if sides.self_join {
            end = end.min(rows.end);
        }
        work.done += rows.len() * (end - start);
        let (mut block, last) = (start / LANES, end.div_ceil(LANES));
        let mut runs = runs;
        while block < last && !work.cancel.is_cancelled() {
            let blocks = block..last.min(block + TILE);
            self.scan(sides, &rows, blocks.clone(), &mut runs, work);
            block = blocks.end;
        }
    }

    fn scan(
        &self,
        sides: &Sides<'_>,
        rows: &Range<usize>,
        blocks: Range<usize>,
        runs: &mut Range<usize>,
        work: &mut Work<'_>,
    ) {
        let origin = blocks.start * LANES;
        let mut hits = std::mem::take(&mut work.scratch.hits);
        self.find(sides, rows, blocks, runs, &mut work.scratch.limits, &mut hits);
        for hit in &hits {
            let (row, column) = (rows.start + hit.row as usize, origin + hit.column as usize);
            if !(sides.self_join && column >= row) {
                work.decide(sides, row, column);
            }
        }
        work.scratch.hits = hits;
    }

    /// The signatures that are tested.
    pub(super) fn signatures<'a>(&self, texts: &'a SortedStrings) -> &'a [Signature] {
        signatures(texts, self.tested)
    }

    /// Finds the pairs of `rows` and a tile that signatures leave, and takes from `runs` those that end with the tile.
    /// Limits and hits are memory to be used.
    pub(super) fn find(
        &self,
        sides: &Sides<'_>,
        rows: &Range<usize>,
        blocks: Range<usize>,
        runs: &mut Range<usize>,
        limits: &mut Vec<Limits>,
        hits: &mut Vec<Hit>,
    ) {
        self.fill_limits(sides, rows.start, blocks.clone(), runs, limits);
        hits.clear();
        let signatures = &self.signatures(sides.probe)[rows.clone()];
        self.kernel.scan(signatures, &self.blocks[blocks], limits, hits);
    }

    /// Finds the columns of a tile whose signatures differ from one in no more than `most` bits. Limits and hits are
    /// memory to be used.
    pub(super) fn nearest(
        &self,
        signature: &Signature,
        blocks: Range<usize>,
        most: i64,
        limits: &mut Vec<Limits>,
        hits: &mut Vec<Hit>,
    ) {
        limits.clear();
        limits.resize(blocks.len(), Limits([most; LANES]));
        hits.clear();
        self.kernel.scan(std::slice::from_ref(signature), &self.blocks[blocks], limits, hits);
    }

    /// Number of bits of the tested signatures in which strings of the same length may differ that satisfy a condition.
    pub(super) fn slack(&self, predicate: &EditPredicate, length: usize) -> i64 {
        self.tested_of(predicate.slack(length, length, usize::MAX))
    }

    /// What is allowed of the tested signatures.
    fn tested_of(&self, slack: Option<Slack>) -> i64 {
        match (slack, self.tested) {
            (None, _) => -1,
            (Some(slack), Feature::Characters) => slack.characters,
            (Some(slack), Feature::Bigrams) => slack.bigrams,
        }
    }

    /// Fills the limits of a tile for a probe row; columns outside of `runs` are shut out.
    ///
    /// Takes from `runs` those that end with the tile.
    fn fill_limits(
        &self,
        sides: &Sides<'_>,
        row: usize,
        blocks: Range<usize>,
        runs: &mut Range<usize>,
        limits: &mut Vec<Limits>,
    ) {
        limits.clear();
        limits.resize(blocks.len(), Limits::NONE);
        let columns = blocks.start * LANES..blocks.end * LANES;
        let mut fill = |positions: Range<usize>, limit: i64| {
            for column in positions.start.max(columns.start)..positions.end.min(columns.end) {
                limits[column / LANES - blocks.start].0[column % LANES] = limit;
            }
        };
        while runs.start < runs.end {
            let run = sides.runs.all()[runs.start];
            let allowed = self.limits(sides, row, run);
            fill(run.positions(), allowed.apart);
            if allowed.any != allowed.apart {
                fill(sides.build.of_class(run.positions(), sides.probe.classes[row]), allowed.any);
            }
            if run.end as usize > columns.end {
                break;
            }
            runs.start += 1;
        }
    }

    /// Number of bits of the tested signatures in which a probe row and the strings of a run may differ.
    fn limits(&self, sides: &Sides<'_>, row: usize, run: Run) -> LengthLimits {
        let (probe, build) = (sides.probe.lengths[row] as usize, run.length as usize);
        let limit = |prefix| self.tested_of(sides.predicate.slack(probe, build, prefix));
        let find = || {
            let any = limit(usize::MAX);
            let apart = if sides.predicate.wants_classes() { limit(0) } else { any };
            LengthLimits { apart, any }
        };
        match sides.known {
            Some(known) => known.of(probe, build, find),
            None => find(),
        }
    }
}

fn signatures(texts: &SortedStrings, feature: Feature) -> &[Signature] {
    match feature {
        Feature::Characters => &texts.characters,
        Feature::Bigrams => &texts.bigrams,
    }
}
