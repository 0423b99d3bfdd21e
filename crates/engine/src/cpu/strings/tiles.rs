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
use crate::stored::{Sink, Source, Store, Stored, stored};
use crate::strings::features::{Feature, Signature, WORDS, in_one_word};
use crate::strings::predicate::{EditPredicate, Slack};

/// The signatures of a build side in blocks.
#[derive(Debug)]
pub(super) struct Tiles {
    tested: Tested,
    blocks: Blocks,
    kernel: Kernel,
}

/// The signatures that are tested first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tested {
    /// Parts of a string that set their bits.
    pub(super) feature: Feature,
    /// Whether they are folded into one word. Whole signatures are compared where folded ones hit.
    pub(super) folded: bool,
}

stored!(Tested { feature, folded });

#[derive(Debug)]
enum Blocks {
    Folded(Vec<Block<1>>),
    Whole(Vec<Block<WORDS>>),
}

/// Rows of one step at most: more would gain nothing by sharing limits.
pub(super) const MOST_ROWS: usize = 64;

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
        Ok(Self::build(texts, Tested::load(source)?))
    }

    pub(super) fn build(texts: &SortedStrings, tested: Tested) -> Self {
        let signatures = signatures(texts, tested.feature);
        let blocks = match tested.folded {
            true => Blocks::Folded(signature::blocks(&signatures.iter().map(folded).collect::<Vec<_>>())),
            false => Blocks::Whole(signature::blocks(signatures)),
        };
        Self { tested, blocks, kernel: Kernel::detect() }
    }

    /// Bytes that the tiles of `rows` rows take.
    pub(super) fn size(rows: usize) -> usize {
        rows.div_ceil(LANES) * size_of::<Block<WORDS>>()
    }

    pub(super) fn memory(&self) -> usize {
        match &self.blocks {
            Blocks::Folded(blocks) => blocks.capacity() * size_of::<Block<1>>(),
            Blocks::Whole(blocks) => blocks.capacity() * size_of::<Block<WORDS>>(),
        }
    }

    /// The name in EXPLAIN ANALYZE.
    pub(super) fn describe(&self) -> String {
        let tested = match self.tested.feature {
            Feature::Characters => "characters",
            Feature::Bigrams => "bigrams",
        };
        let words = if self.tested.folded { 1 } else { WORDS };
        format!("{}-bit signature tiles over {tested} ({})", 64 * words, self.kernel.name())
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
        if sides.self_join {
            hits.retain(|hit| origin + (hit.column as usize) < rows.start + hit.row as usize);
        }
        let mut by_row = std::mem::take(&mut work.scratch.by_row);
        by_row.sort(&hits, rows.len(), origin);
        for row in rows.clone() {
            work.decide_all(sides, row, by_row.of_row(row - rows.start));
        }
        (work.scratch.hits, work.scratch.by_row) = (hits, by_row);
    }

    /// The signatures that are tested.
    pub(super) fn signatures<'a>(&self, texts: &'a SortedStrings) -> &'a [Signature] {
        signatures(texts, self.tested.feature)
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
        let (build, probe) = (self.signatures(sides.build), &self.signatures(sides.probe)[rows.clone()]);
        self.scan_blocks(probe, build, blocks, limits, hits);
    }

    /// Finds the columns of some blocks whose signatures differ from those of rows in no more bits than their limits.
    /// There are at most [`MOST_ROWS`] rows.
    fn scan_blocks(
        &self,
        rows: &[Signature],
        build: &[Signature],
        blocks: Range<usize>,
        limits: &[Limits],
        hits: &mut Vec<Hit>,
    ) {
        match &self.blocks {
            Blocks::Whole(all) => self.kernel.scan(rows, &all[blocks], limits, hits),
            Blocks::Folded(all) => {
                let origin = blocks.start * LANES;
                let mut of_rows = [[0]; MOST_ROWS];
                of_rows.iter_mut().zip(rows).for_each(|(word, row)| *word = folded(row));
                self.kernel.scan(&of_rows[..rows.len()], &all[blocks], limits, hits);
                self.kernel.retain(hits, |hit| {
                    let column = hit.column as usize;
                    let limit = limits[column / LANES].0[column % LANES];
                    (&rows[hit.row as usize], &build[origin + column], limit)
                });
            }
        }
    }

    /// Finds the columns of a tile whose signatures differ from one in no more than `most` bits. Limits and hits are
    /// memory to be used.
    pub(super) fn nearest(
        &self,
        texts: &SortedStrings,
        signature: &Signature,
        blocks: Range<usize>,
        most: i64,
        limits: &mut Vec<Limits>,
        hits: &mut Vec<Hit>,
    ) {
        limits.clear();
        limits.resize(blocks.len(), Limits([most; LANES]));
        // the last block may have lanes without a string
        let last = (blocks.end * LANES).saturating_sub(texts.len());
        limits.last_mut().into_iter().for_each(|limits| limits.0[LANES - last..].fill(-1));
        hits.clear();
        self.scan_blocks(std::slice::from_ref(signature), self.signatures(texts), blocks, limits, hits);
    }

    /// Number of bits of the tested signatures in which strings of the same length may differ that satisfy a condition.
    pub(super) fn slack(&self, predicate: &EditPredicate, length: usize) -> i64 {
        self.tested_of(predicate.slack(length, length, usize::MAX))
    }

    /// What is allowed of the tested signatures.
    fn tested_of(&self, slack: Option<Slack>) -> i64 {
        match (slack, self.tested.feature) {
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

/// The one word of a signature.
fn folded(signature: &Signature) -> [u64; 1] {
    [in_one_word(signature)]
}

fn signatures(texts: &SortedStrings, feature: Feature) -> &[Signature] {
    match feature {
        Feature::Characters => &texts.characters,
        Feature::Bigrams => &texts.bigrams,
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use similarity_measures::EditMeasure;

    use super::*;
    use crate::Cancel;
    use crate::condition::Bounds;
    use crate::cpu::strings::runs::Runs;
    use crate::cpu::strings::sorted::Signers;
    use crate::test_oracle::strings::{key_column, strings};

    #[test]
    fn folded_signatures_leave_what_whole_ones_leave() {
        let mut rng = StdRng::seed_from_u64(94);
        let (mut found, mut turned_away) = (0, 0);
        for rows in [1, 8, 63, 200, 333] {
            let keys = key_column(&strings(rows, &mut rng), &None);
            for (measure, bounds) in [
                (EditMeasure::LEVENSHTEIN, Bounds::at_most(2.0, true)),
                (EditMeasure::LEVENSHTEIN_SIMILARITY, Bounds::at_least(0.5, true)),
                (EditMeasure::JARO_WINKLER, Bounds::at_least(0.8, true)),
            ] {
                let predicate = EditPredicate { measure, bounds };
                let mut texts = SortedStrings::try_new(&predicate, &keys, &|_| Ok(())).unwrap();
                texts.sign(&Signers::learn(&texts), 1, &Cancel::default());
                let runs = Runs::of(&texts);
                let (build, probe) = (&texts, &texts);
                let sides = Sides { predicate: &predicate, known: None, build, runs: &runs, probe, self_join: false };
                for feature in [Feature::Characters, Feature::Bigrams] {
                    let tiles = [false, true].map(|folded| Tiles::build(&texts, Tested { feature, folded }));
                    assert!(tiles[1].memory() <= tiles[0].memory() && tiles[1].describe().starts_with("64-bit"));
                    let blocks = 0..texts.len().div_ceil(LANES);
                    for row in 0..texts.len() {
                        let (rows, all) =
                            (row..texts.alike(row, texts.len().min(row + MOST_ROWS)), 0..runs.all().len());
                        let [whole, folded] = tiles.each_ref().map(|tiles| {
                            let (mut limits, mut hits) = (Vec::new(), Vec::new());
                            tiles.find(&sides, &rows, blocks.clone(), &mut all.clone(), &mut limits, &mut hits);
                            hits
                        });
                        assert_eq!(whole, folded, "{predicate:?} {feature:?} {row}");
                        found += whole.len();
                        turned_away += rows.len() * texts.len() - whole.len();
                        let [whole, folded] = tiles.each_ref().map(|tiles| {
                            let (mut limits, mut hits) = (Vec::new(), Vec::new());
                            let signature = &tiles.signatures(&texts)[row];
                            tiles.nearest(&texts, signature, blocks.clone(), 9, &mut limits, &mut hits);
                            hits
                        });
                        assert_eq!(whole, folded, "{feature:?} {row}");
                        assert!(whole.iter().all(|hit| (hit.column as usize) < texts.len()));
                    }
                }
            }
        }
        assert!(found > 10_000 && turned_away > 10_000, "{found} {turned_away}");
    }
}
