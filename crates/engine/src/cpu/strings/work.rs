//! What one call of an index does, and how long that takes.

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
}

/// What else takes as long as so many pairs of a tile: a step,
pub(super) const ROW: usize = 256;
/// a substring that is looked up,
pub(super) const LOOKUP: usize = 64;
/// a candidate,
const CANDIDATE: usize = 64;
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
