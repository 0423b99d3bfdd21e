//! The two sides of a join, and which pairs can match.

use std::ops::Range;

use super::limits::KnownLimits;
use super::runs::Runs;
use super::sorted::SortedStrings;
use crate::strings::features::{Histogram, differing};
use crate::strings::predicate::{EditPredicate, LONGEST_PREFIX};

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
            true => self.common_prefix(row, column),
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

    /// Characters that both strings of a pair begin with, as far as a score counts them.
    pub(super) fn common_prefix(&self, row: usize, column: usize) -> usize {
        let (build, probe) = (self.build.text(column).chars(), self.probe.text(row).chars());
        build.zip(probe).take(LONGEST_PREFIX).take_while(|(build, probe)| build == probe).count()
    }
}
