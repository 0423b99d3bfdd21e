//! What the access paths share: the two sides, the way of a call through both paths, the decision on a pair.

use std::ops::Range;

use super::limits::KnownLimits;
use super::runs::Runs;
use super::segment_index::{Found, SegmentIndex};
use super::sorted::SortedStrings;
use super::tiles::Tiles;
use crate::cpu::signature::{Hit, Limits};
use crate::strings::features::{Histogram, differing};
use crate::strings::predicate::EditPredicate;
use crate::{Cancel, Counts, Cursor, Limit, Pairs};

/// The way from a probe row to the build rows that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    /// An index over segments, of which strings at a small distance share one; rows that are too short for it,
    /// and measures that are no distance, are left to the tiles.
    Segments,
    /// All pairs that group and length allow, tested by their signatures.
    Tiles,
}

/// Both sides of a join.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) predicate: &'a EditPredicate,
    /// What the predicate allows, where it is asked often enough to be remembered.
    pub(super) known: Option<&'a KnownLimits>,
    pub(super) build: &'a SortedStrings,
    pub(super) runs: &'a Runs,
    pub(super) probe: &'a SortedStrings,
    /// Whether both are the same, so that a position pairs with those before it only.
    pub(super) self_join: bool,
}

impl Sides<'_> {
    /// The runs that strings of a group and length can match.
    pub(super) fn partners(&self, group: u32, length: u32) -> Range<usize> {
        let possible = |other: u32| self.predicate.is_possible(length as usize, other as usize, usize::MAX);
        self.runs.within(group, length, possible)
    }

    /// Whether a pair can match by its signatures.
    pub(super) fn is_candidate(&self, row: usize, column: usize) -> bool {
        let (probe, build) = (self.probe, self.build);
        let (left, right) = (build.lengths[column] as usize, probe.lengths[row] as usize);
        let prefix = match self.predicate.wants_classes() {
            true => common_prefix(build.text(column), probe.text(row)),
            false => usize::MAX,
        };
        let characters = differing(&build.characters[column], &probe.characters[row]);
        if self.predicate.is_jaro() {
            return self.predicate.is_jaro_possible(left, right, prefix, characters as usize)
                && self.differ_within(row, column, self.predicate.jaro_bigrams(left, right, prefix, characters));
        }
        let slack = self.predicate.slack(left, right, prefix);
        slack.is_some_and(|slack| characters <= slack.characters && self.differ_within(row, column, slack.bigrams))
    }

    /// Whether the strings of a pair may differ in no more than so many bigrams.
    fn differ_within(&self, row: usize, column: usize, bigrams: i64) -> bool {
        let (probe, build) = (self.probe, self.build);
        differing(&build.bigrams[column], &probe.bigrams[row]) <= bigrams
            && Histogram::difference(build.histogram(column), probe.histogram(row)) <= bigrams
    }
}

/// What one call does.
pub(super) struct Work<'a> {
    pub(super) limit: Limit,
    pub(super) cancel: &'a Cancel,
    pub(super) out: &'a mut Pairs,
    pub(super) counts: Counts,
    /// Pairs tested, and what else took as long.
    pub(super) done: usize,
    /// How many pairs `out` held at the start.
    pub(super) before: usize,
    pub(super) scratch: Scratch,
}

/// Memory that probing needs over and over.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) hits: Vec<Hit>,
    pub(super) limits: Vec<Limits>,
    pub(super) found: Found,
}

/// What else takes as long as so many pairs of a tile: a step,
const ROW: usize = 256;
/// a substring that is looked up,
const LOOKUP: usize = 64;
/// a candidate,
const CANDIDATE: usize = 64;
/// the score of two strings,
const VERIFICATION: usize = 512;
/// and what each of their characters adds.
const CHARACTER: usize = 8;

/// Rows of one step at most: more would gain nothing by sharing limits.
const MOST_ROWS: usize = 64;

impl<'a> Work<'a> {
    pub(super) fn new(limit: Limit, cancel: &'a Cancel, out: &'a mut Pairs) -> Self {
        let before = out.len();
        Self { limit, cancel, out, counts: Counts::default(), done: 0, before, scratch: Scratch::default() }
    }

    pub(super) fn matched(&self) -> usize {
        self.out.len() - self.before
    }

    fn is_enough(&self) -> bool {
        self.matched() >= self.limit.pairs || self.done >= self.limit.work || self.cancel.is_cancelled()
    }

    /// Decides a pair that group and length allow and appends it where it matches.
    pub(super) fn decide(&mut self, sides: &Sides<'_>, row: usize, column: usize) {
        self.counts.candidates += 1;
        self.done += CANDIDATE;
        if !sides.is_candidate(row, column) || self.cancel.is_cancelled() {
            return;
        }
        let longest = sides.build.lengths[column].max(sides.probe.lengths[row]) as usize;
        self.counts.verified += 1;
        self.done += VERIFICATION + CHARACTER * longest;
        let (left, right) = (sides.build.text(column), sides.probe.text(row));
        if sides.predicate.matches(left, right, longest, &|| self.cancel.is_cancelled()) {
            self.out.push(sides.build.rows[column], sides.probe.rows[row]);
        }
    }
}

/// The paths of one index: runs that are not in the segment index are left to the tiles.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) tiles: Tiles,
    pub(super) segments: Option<SegmentIndex>,
}

impl Paths {
    /// Appends the matches of positions from `cursor` on; see [`crate::PairIndex::probe`].
    pub(super) fn probe(&self, sides: &Sides<'_>, cursor: &mut Cursor, work: &mut Work<'_>) {
        // A single row shows how many pairs a row yields.
        let mut most = 1;
        while !cursor.is_done() && !work.is_enough() {
            let end = sides.probe.alike(cursor.next, cursor.end.min(cursor.next + most));
            let rows = cursor.next..end;
            let (matched, done) = (work.matched(), work.done);
            self.probe_rows(sides, rows.clone(), work);
            cursor.next = end;
            let fitting = |wanted: usize, had: usize| wanted.saturating_mul(rows.len()) / had.max(1);
            let by_pairs = fitting(work.limit.pairs.saturating_sub(work.matched()), work.matched() - matched);
            let by_work = fitting(work.limit.work.saturating_sub(work.done), work.done - done);
            most = (4 * most).min(MOST_ROWS).min(by_pairs).min(by_work).max(1);
        }
    }

    /// Tests rows of one group, length and class against all that they can match.
    fn probe_rows(&self, sides: &Sides<'_>, rows: Range<usize>, work: &mut Work<'_>) {
        work.done += ROW;
        let mut partners = sides.partners(sides.probe.groups[rows.start], sides.probe.lengths[rows.start]);
        if sides.self_join {
            let runs = &sides.runs.all()[partners.clone()];
            partners.end = partners.start + runs.partition_point(|run| (run.start as usize) < rows.end);
        }
        while !partners.is_empty() && !work.cancel.is_cancelled() {
            let (stretch, segments) = self.stretch(partners.clone());
            match segments {
                Some(segments) => look_up(segments, sides, rows.clone(), stretch.clone(), work),
                None => self.tiles.probe(sides, rows.clone(), stretch.clone(), work),
            }
            partners.start = stretch.end;
        }
    }

    /// The first of the runs that are all in the segment index, or all not.
    fn stretch(&self, runs: Range<usize>) -> (Range<usize>, Option<&SegmentIndex>) {
        let Some(segments) = &self.segments else { return (runs, None) };
        let indexed = segments.has(runs.start);
        let end = runs.clone().find(|&run| segments.has(run) != indexed).unwrap_or(runs.end);
        (runs.start..end, indexed.then_some(segments))
    }
}

/// Decides the candidates of `rows` among `runs`, all of them indexed.
fn look_up(segments: &SegmentIndex, sides: &Sides<'_>, rows: Range<usize>, runs: Range<usize>, work: &mut Work<'_>) {
    for row in rows.take_while(|_| !work.cancel.is_cancelled()) {
        let mut found = std::mem::take(&mut work.scratch.found);
        let met = segments.candidates(sides, row, runs.clone(), &mut found);
        work.done += LOOKUP * (met.lookups + met.entries / 8);
        found.positions.iter().for_each(|&column| work.decide(sides, row, column as usize));
        work.scratch.found = found;
    }
}

fn common_prefix(left: &str, right: &str) -> usize {
    left.chars().zip(right.chars()).take(4).take_while(|(l, r)| l == r).count()
}
