//! Signature tiles: every pair that group and length allow is tested by its signatures, many at a time.
//!
//! Probe rows of one family and length share the limits of a column, so that they are computed once a run.

use std::ops::Range;

use super::features::{WORDS, differing};
use super::predicate::{EditPredicate, Slack};
use super::slacks::{LengthSlacks, Slacks};
use super::texts::{Families, Texts};
use crate::engine::cpu::signature::{self, Block, Hit, Kernel, LANES, Limits};
use crate::engine::{Cancel, Counts, Cursor, Limit, Pairs};

/// Which signatures the tiles test; the others are tested on what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tested {
    Characters,
    Bigrams,
}

/// The signatures of a build side in blocks.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) tested: Tested,
    blocks: Vec<Block<WORDS>>,
    slacks: Slacks,
    /// The rank of each column's length in `slacks`.
    ranks: Vec<u32>,
    kernel: Kernel,
}

/// Both sides of a join.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) predicate: &'a EditPredicate,
    pub(super) build: &'a Texts,
    pub(super) families: &'a Families,
    pub(super) probe: &'a Texts,
    /// Whether both are the same, so that a position pairs with those before it only.
    pub(super) own: bool,
}

/// Blocks of a tile: with their limits they share a cache of 32 KiB with the rows.
const TILE: usize = 64;

/// Rows that share a tile's limits at most: more would gain nothing.
const RUN: usize = 64;

/// Rows of the first run of a call, which does not know yet how many pairs a row yields.
const FIRST_RUN: usize = 4;

/// Characters after which the verification of one pair is long enough to look for a cancellation.
const LONG: usize = 10_000;

/// What one call does.
pub(super) struct Work<'a> {
    pub(super) limit: Limit,
    pub(super) cancel: &'a Cancel,
    pub(super) out: &'a mut Pairs,
    pub(super) counts: Counts,
    done: usize,
    before: usize,
    hits: Vec<Hit>,
    limits: Vec<Limits>,
}

impl<'a> Work<'a> {
    pub(super) fn new(limit: Limit, cancel: &'a Cancel, out: &'a mut Pairs) -> Self {
        let before = out.len();
        Self { limit, cancel, out, counts: Counts::default(), done: 0, before, hits: vec![], limits: vec![] }
    }

    pub(super) fn matched(&self) -> usize {
        self.out.len() - self.before
    }

    fn is_enough(&self) -> bool {
        self.matched() >= self.limit.pairs || self.done >= self.limit.work || self.cancel.is_cancelled()
    }
}

impl Tiles {
    pub(super) fn build(texts: &Texts, tested: Tested) -> Self {
        let signatures = match tested {
            Tested::Characters => &texts.characters,
            Tested::Bigrams => &texts.bigrams,
        };
        let slacks = Slacks::new(&texts.lengths);
        let ranks = texts.lengths.iter().map(|&length| slacks.rank(length)).collect();
        Self { tested, blocks: signature::blocks(signatures), slacks, ranks, kernel: Kernel::detect() }
    }

    /// Bytes that the tiles of `rows` rows take.
    pub(super) fn size(rows: usize) -> usize {
        rows.div_ceil(LANES) * size_of::<Block<WORDS>>() + rows * size_of::<u32>()
    }

    pub(super) fn memory(&self) -> usize {
        Self::size(self.ranks.len()) + self.slacks.memory()
    }

    /// The name in EXPLAIN ANALYZE.
    pub(super) fn describe(&self) -> String {
        let tested = match self.tested {
            Tested::Characters => "characters",
            Tested::Bigrams => "bigrams",
        };
        format!("{}-bit signature tiles over {tested} ({})", 64 * WORDS, self.kernel.name())
    }

    /// Appends the matches of positions from `cursor` on; see [`crate::engine::Index::probe`].
    pub(super) fn probe(&self, sides: &Sides<'_>, cursor: &mut Cursor, work: &mut Work<'_>) {
        let mut most = FIRST_RUN;
        while !cursor.is_done() && !work.is_enough() {
            let run = cursor.next..alike(sides.probe, cursor.next, cursor.end.min(cursor.next + most));
            let before = work.out.len();
            self.probe_run(sides, run.clone(), work);
            let found = work.out.len() - before;
            cursor.next = run.end;
            let wanted = work.limit.pairs.saturating_sub(work.matched());
            most = (2 * most).min(RUN).min(wanted.saturating_mul(run.len()) / found.max(1)).max(1);
        }
    }

    /// Tests a run of rows of one family and length against all that they can match.
    fn probe_run(&self, sides: &Sides<'_>, run: Range<usize>, work: &mut Work<'_>) {
        work.done += run.len();
        let family = sides.probe.families[run.start];
        let slacks = self.slacks.of(sides.predicate, sides.probe.lengths[run.start]);
        for (other, positions) in sides.families.of_group(family.group) {
            let mut partners = sides.partners(&slacks, positions.clone());
            if sides.own {
                partners.end = partners.end.min(run.end);
            }
            if partners.is_empty() || work.cancel.is_cancelled() {
                continue;
            }
            let prefix = if other.class == family.class { usize::MAX } else { 0 };
            work.done += run.len() * partners.len();
            let (mut first, last) = (partners.start / LANES, partners.end.div_ceil(LANES));
            while first < last && !work.cancel.is_cancelled() {
                let blocks = first..last.min(first + TILE);
                self.fill_limits(&slacks, blocks.clone(), &partners, prefix, &mut work.limits);
                self.scan(sides, &slacks, &run, blocks.clone(), work);
                first = blocks.end;
            }
        }
    }

    fn scan(
        &self,
        sides: &Sides<'_>,
        slacks: &LengthSlacks,
        run: &Range<usize>,
        blocks: Range<usize>,
        work: &mut Work<'_>,
    ) {
        work.hits.clear();
        let rows = match self.tested {
            Tested::Characters => &sides.probe.characters,
            Tested::Bigrams => &sides.probe.bigrams,
        };
        self.kernel.scan(&rows[run.clone()], &self.blocks[blocks.clone()], &work.limits, &mut work.hits);
        let hits = std::mem::take(&mut work.hits);
        for hit in &hits {
            let (row, column) = (run.start + hit.row as usize, blocks.start * LANES + hit.column as usize);
            if !(sides.own && column >= row) {
                self.decide(sides, slacks, row, column, work);
            }
        }
        work.hits = hits;
    }

    /// Fills the limits of a tile; columns that are not among the partners are shut out.
    fn fill_limits(
        &self,
        slacks: &LengthSlacks,
        blocks: Range<usize>,
        partners: &Range<usize>,
        prefix: usize,
        limits: &mut Vec<Limits>,
    ) {
        limits.clear();
        limits.resize(blocks.len(), Limits::NONE);
        let lanes = blocks.start * LANES;
        let columns = partners.start.max(lanes)..partners.end.min(blocks.end * LANES);
        let mut known = (u32::MAX, -1);
        for (column, &rank) in columns.clone().zip(&self.ranks[columns]) {
            if rank != known.0 {
                known = (rank, slacks.get(rank, prefix).map_or(-1, |slack| self.limit(slack)));
            }
            limits[(column - lanes) / LANES].0[(column - lanes) % LANES] = known.1;
        }
    }

    fn limit(&self, slack: Slack) -> i64 {
        match self.tested {
            Tested::Characters => slack.characters,
            Tested::Bigrams => slack.bigrams,
        }
    }

    /// Verifies one candidate and appends it where it matches.
    fn decide(&self, sides: &Sides<'_>, slacks: &LengthSlacks, row: usize, column: usize, work: &mut Work<'_>) {
        work.counts.candidates += 1;
        let (probe, build) = (sides.probe, sides.build);
        let (left, right) = (build.text(column), probe.text(row));
        let lengths = (build.lengths[column] as usize, probe.lengths[row] as usize);
        let prefix = if sides.predicate.wants_classes() { common_prefix(left, right) } else { usize::MAX };
        let Some(slack) = slacks.get(self.ranks[column], prefix) else { return };
        let characters = differing(&build.characters[column], &probe.characters[row]);
        if characters > slack.characters {
            return;
        }
        let bigrams = match sides.predicate.is_jaro() {
            true => sides.predicate.jaro_bigrams(lengths.0, lengths.1, prefix, characters),
            false => slack.bigrams,
        };
        if differing(&build.bigrams[column], &probe.bigrams[row]) > bigrams {
            return;
        }
        let longest = lengths.0.max(lengths.1);
        if longest > LONG && work.cancel.is_cancelled() {
            return;
        }
        work.counts.verified += 1;
        if sides.predicate.matches(left, right, longest) {
            work.out.push(build.rows[column], probe.rows[row]);
        }
    }
}

impl Sides<'_> {
    /// Those of `positions`, which are of one family, whose lengths a probe row can match.
    fn partners(&self, slacks: &LengthSlacks, positions: Range<usize>) -> Range<usize> {
        let lengths = &self.build.lengths[positions.clone()];
        let low = lengths.partition_point(|&l| l < slacks.reach.start);
        let high = low + lengths[low..].partition_point(|&l| l < slacks.reach.end);
        positions.start + low..positions.start + high
    }
}

/// The end of the run of rows of the family and length of `row`.
fn alike(texts: &Texts, row: usize, end: usize) -> usize {
    let key = |p: usize| (texts.families[p], texts.lengths[p]);
    (row + 1..end).find(|&p| key(p) != key(row)).unwrap_or(end)
}

fn common_prefix(left: &str, right: &str) -> usize {
    left.chars().zip(right.chars()).take(4).take_while(|(l, r)| l == r).count()
}
