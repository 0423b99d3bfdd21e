//! Signature tiles: every pair that group and length allow is tested by its signatures, many at a time.
//!
//! Probe rows of one family and length share the limits of a column, so that they are computed once a run.

use std::ops::Range;

use super::features::{WORDS, differing};
use super::predicate::{EditPredicate, Slack};
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
        Self { tested, blocks: signature::blocks(signatures), kernel: Kernel::detect() }
    }

    /// Bytes that the tiles of `rows` rows take.
    pub(super) fn size(rows: usize) -> usize {
        rows.div_ceil(LANES) * size_of::<Block<WORDS>>()
    }

    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * size_of::<Block<WORDS>>()
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
        for (other, positions) in sides.families.of_group(family.group) {
            let prefix = if other.class == family.class { usize::MAX } else { 0 };
            let mut partners = sides.partners(sides.probe.lengths[run.start], positions.clone(), prefix);
            if sides.own {
                partners.end = partners.end.min(run.end);
            }
            if partners.is_empty() || work.cancel.is_cancelled() {
                continue;
            }
            work.done += run.len() * partners.len();
            let (mut first, last) = (partners.start / LANES, partners.end.div_ceil(LANES));
            while first < last && !work.cancel.is_cancelled() {
                let blocks = first..last.min(first + TILE);
                self.scan(sides, &run, blocks.clone(), &partners, prefix, work);
                first = blocks.end;
            }
        }
    }

    fn scan(
        &self,
        sides: &Sides<'_>,
        run: &Range<usize>,
        blocks: Range<usize>,
        partners: &Range<usize>,
        prefix: usize,
        work: &mut Work<'_>,
    ) {
        self.fill_limits(sides, run.start, blocks.clone(), partners, prefix, &mut work.limits);
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
                self.decide(sides, row, column, work);
            }
        }
        work.hits = hits;
    }

    /// Fills the limits of a tile for a probe row; columns that are not among its partners are shut out.
    fn fill_limits(
        &self,
        sides: &Sides<'_>,
        row: usize,
        blocks: Range<usize>,
        partners: &Range<usize>,
        prefix: usize,
        limits: &mut Vec<Limits>,
    ) {
        limits.clear();
        limits.resize(blocks.len(), Limits::NONE);
        let lanes = blocks.start * LANES;
        let mut column = partners.start.max(lanes);
        let end = partners.end.min(blocks.end * LANES);
        while column < end {
            let length = sides.build.lengths[column];
            let same = sides.build.lengths[column..end].partition_point(|&l| l == length);
            let slack = sides.predicate.slack(sides.probe.lengths[row] as usize, length as usize, prefix);
            let limit = slack.map_or(-1, |slack| self.limit(slack));
            for lane in column - lanes..column - lanes + same {
                limits[lane / LANES].0[lane % LANES] = limit;
            }
            column += same;
        }
    }

    fn limit(&self, slack: Slack) -> i64 {
        match self.tested {
            Tested::Characters => slack.characters,
            Tested::Bigrams => slack.bigrams,
        }
    }

    /// Verifies one candidate and appends it where it matches.
    fn decide(&self, sides: &Sides<'_>, row: usize, column: usize, work: &mut Work<'_>) {
        work.counts.candidates += 1;
        let (probe, build) = (sides.probe, sides.build);
        let (left, right) = (build.text(column), probe.text(row));
        let lengths = (build.lengths[column] as usize, probe.lengths[row] as usize);
        let prefix = if sides.predicate.wants_classes() { common_prefix(left, right) } else { usize::MAX };
        let Some(slack) = sides.predicate.slack(lengths.0, lengths.1, prefix) else { return };
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
    /// Those of `positions`, which are of one family, whose length a string of `length` characters can match.
    fn partners(&self, length: u32, positions: Range<usize>, prefix: usize) -> Range<usize> {
        let lengths = &self.build.lengths[positions.clone()];
        let possible = |other: u32| self.predicate.slack(length as usize, other as usize, prefix).is_some();
        let middle = lengths.partition_point(|&l| l < length);
        // the farther two lengths are apart, the less they can match
        let low = lengths[..middle].partition_point(|&l| !possible(l));
        let high = middle + lengths[middle..].partition_point(|&l| possible(l));
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
