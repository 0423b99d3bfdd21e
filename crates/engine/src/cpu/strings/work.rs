//! What one call of an index does, and how long that takes.

use super::lanes::Pattern;
use super::segment_index::Found;
use super::sides::Sides;
use crate::cpu::signature::{Hit, Limits};
use crate::{Cancel, Counts, Limit, Pairs};

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
    pub(super) by_row: ByRow,
    /// Limit of each column of a row.
    limits_by_column: Vec<u32>,
}

/// Hits of a tile in the order of their rows.
#[derive(Debug, Default)]
pub(super) struct ByRow {
    /// Where the hits of each row begin, and the end of the last one.
    starts: Vec<usize>,
    columns: Vec<u32>,
}

impl ByRow {
    /// Puts the hits of so many rows in order, each as its column plus `origin`.
    pub(super) fn sort(&mut self, hits: &[Hit], rows: usize, origin: usize) {
        self.starts.clear();
        self.starts.resize(rows + 2, 0);
        // the start of a row is kept one further on until its hits are in their places
        hits.iter().for_each(|hit| self.starts[hit.row as usize + 2] += 1);
        (2..self.starts.len()).for_each(|row| self.starts[row] += self.starts[row - 1]);
        self.columns.resize(hits.len(), 0);
        for hit in hits {
            let place = &mut self.starts[hit.row as usize + 1];
            self.columns[*place] = origin as u32 + hit.column;
            *place += 1;
        }
    }

    /// The columns of a row's hits.
    pub(super) fn of_row(&mut self, row: usize) -> &mut [u32] {
        &mut self.columns[self.starts[row]..self.starts[row + 1]]
    }
}

/// What else takes as long as so many pairs of a tile: a step,
pub(super) const ROW: usize = 256;
/// a substring that is looked up,
pub(super) const LOOKUP: usize = 64;
/// a candidate,
const CANDIDATE: usize = 64;
/// a candidate that is compared beside others,
const COMPARED: usize = 16;
/// and what each of its characters adds,
const COMPARED_CHARACTER: usize = 5;
/// the score of two strings,
const VERIFICATION: usize = 512;
/// and what each of their characters adds.
const CHARACTER: usize = 8;

impl<'a> Work<'a> {
    pub(super) fn new(limit: Limit, cancel: &'a Cancel, out: &'a mut Pairs) -> Self {
        let before = out.len();
        Self { limit, cancel, out, counts: Counts::default(), done: 0, before, scratch: Scratch::default() }
    }

    pub(super) fn matched(&self) -> usize {
        self.out.len() - self.before
    }

    pub(super) fn is_enough(&self) -> bool {
        self.matched() >= self.limit.pairs || self.done >= self.limit.work || self.cancel.is_cancelled()
    }

    /// Decides the pairs of a row and some columns, as [`decide`](Self::decide) does. The columns are changed.
    pub(super) fn decide_all(&mut self, sides: &Sides<'_>, row: usize, columns: &mut [u32]) {
        if self.cancel.is_cancelled() {
            return;
        }
        let Some(pattern) = Pattern::that_pays(sides.probe.text(row), columns.len()) else {
            return columns.iter().for_each(|&column| self.decide(sides, row, column as usize));
        };
        // they are in order, so that the last one is about the longest
        let longest = columns.last().map_or(0, |&column| sides.build.lengths[column as usize]) as usize;
        self.counts.candidates += columns.len();
        self.done += (COMPARED + COMPARED_CHARACTER * longest) * columns.len();
        let possible = pattern.possible(sides, row, columns, &mut self.scratch.limits_by_column);
        possible.iter().for_each(|&column| self.filter(sides, row, column as usize));
    }

    /// Decides a pair that group and length allow and appends it where it matches.
    pub(super) fn decide(&mut self, sides: &Sides<'_>, row: usize, column: usize) {
        self.counts.candidates += 1;
        self.done += CANDIDATE;
        self.filter(sides, row, column);
    }

    /// Appends a candidate where it matches.
    fn filter(&mut self, sides: &Sides<'_>, row: usize, column: usize) {
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
