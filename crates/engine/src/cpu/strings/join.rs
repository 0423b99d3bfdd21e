//! The way of a call through both access paths.

use std::ops::Range;

use super::segment_index::SegmentIndex;
use super::sides::Sides;
use super::tiles::{MOST_ROWS, Tiles};
use super::work::{LOOKUP, ROW, Work};
use crate::Cursor;

/// The way from a probe row to the build rows that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    /// An index over segments, of which strings at a small distance share one; rows that are too short for it,
    /// and measures that are no distance, are left to the tiles.
    Segments,
    /// All pairs that group and length allow, tested by their signatures.
    Tiles,
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
        work.decide_all(sides, row, &mut found.positions);
        work.scratch.found = found;
    }
}
