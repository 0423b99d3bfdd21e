//! What the access paths share: the two sides, the positions that a row can match by size, the decision on a pair.

use std::ops::Range;

use super::bits;
use super::minhash::MinHashScratch;
use super::overlap::overlap_reaching;
use super::requirements::{Reach, Requirements};
use super::sorted::{Groups, SortedSets};
use crate::cpu::signature::{Hit, Limits};
use crate::metrics::MetricValue;
use crate::sets::predicate::{SetPredicate, Sizes};
use crate::stored::{Store, tagged};
use crate::{Cancel, Counts, Cursor, Limit, Pairs};

/// The way from a probe row to the build rows that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    /// An inverted index over the rarest tokens of each set.
    Prefix,
    /// All pairs that group and size allow, tested by their signatures.
    Tiles,
    /// Sets that agree in a band of hashes, where pairs may be missed.
    Bands,
}

tagged!(AccessPath { Prefix, Tiles, Bands });

/// Both sides of a join.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) build: &'a SortedSets,
    pub(super) build_groups: &'a Groups,
    pub(super) probe: &'a SortedSets,
    /// Whether both sides are the same, so that a position pairs with those before it only.
    pub(super) self_join: bool,
    pub(super) predicate: SetPredicate,
}

impl Sides<'_> {
    /// The build positions whose group and size the probe position can match.
    pub(super) fn partners(&self, position: usize, reach: Reach) -> Range<usize> {
        let group = self.build_groups.positions(self.probe.groups[position]);
        if reach.low > reach.high {
            return group.start..group.start;
        }
        let sizes = &self.build.sizes[group.clone()];
        let start = group.start + sizes.partition_point(|&s| s < reach.low);
        let end = group.start + sizes.partition_point(|&s| s <= reach.high);
        if self.self_join { start.min(position)..end.min(position) } else { start..end }
    }

    /// The signatures of a pair, and in how many bits they may differ for an overlap of `least`.
    #[inline]
    pub(super) fn signatures(&self, probe: usize, build: usize, least: u32) -> (&[u64], &[u64], i64) {
        let limit = bits::limit(self.probe.weight(probe), self.build.weight(build), least);
        (self.probe.signature(probe), self.build.signature(build), limit)
    }

    /// Decides a pair of which the first `skip.0` and `skip.1` tokens are known to have no partner.
    #[inline]
    pub(super) fn matches(&self, probe: usize, build: usize, least: u32, skip: (usize, usize)) -> bool {
        let (a, b) = (&self.probe.tokens(probe)[skip.0..], &self.build.tokens(build)[skip.1..]);
        if self.predicate.is_open_above() {
            return overlap_reaching(a, b, least, false).is_some();
        }
        let sizes = Sizes { build: self.build.sizes[build], probe: self.probe.sizes[probe] };
        overlap_reaching(a, b, least, true).is_some_and(|overlap| self.predicate.accepts(overlap, sizes))
    }
}

/// A way from probe positions to the build positions that match.
pub(super) trait Path: Store + Send + Sync + std::fmt::Debug {
    /// The name in EXPLAIN ANALYZE.
    fn name(&self) -> String;

    /// Which one it is.
    fn kind(&self) -> AccessPath;

    /// Bytes held.
    fn memory(&self) -> usize;

    /// What it counts, for EXPLAIN ANALYZE.
    fn metrics(&self) -> Vec<MetricValue> {
        Vec::new()
    }

    /// Appends the matches of positions from `cursor` on; see [`crate::PairIndex::probe`].
    fn probe(&self, sides: &Sides<'_>, cursor: &mut Cursor, work: &mut Work<'_>);
}

/// One call's task and what has come of it.
pub(super) struct Work<'a> {
    pub(super) limit: Limit,
    pub(super) cancel: &'a Cancel,
    pub(super) out: &'a mut Pairs,
    pub(super) scratch: &'a mut Scratch,
    pub(super) counts: Counts,
    /// Pairs tested.
    pub(super) done: usize,
    /// How many pairs `out` held at the start.
    pub(super) before: usize,
}

impl Work<'_> {
    /// Whether the call should return.
    pub(super) fn is_enough(&self) -> bool {
        self.matched() >= self.limit.pairs || self.done >= self.limit.work || self.cancel.is_cancelled()
    }

    /// Pairs found by this call.
    pub(super) fn matched(&self) -> usize {
        self.out.len() - self.before
    }

    /// Verifies a pair and appends it where it matches.
    #[inline]
    pub(super) fn decide(&mut self, sides: &Sides<'_>, probe: usize, build: usize, least: u32, skip: (usize, usize)) {
        self.counts.verified += 1;
        if sides.matches(probe, build, least, skip) {
            self.out.push(sides.build.rows[build], sides.probe.rows[probe]);
        }
    }
}

/// Memory that probing needs over and over.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) requirements: Requirements,
    /// Probe step that met each build position last.
    pub(super) seen: Vec<u32>,
    pub(super) step: u32,
    pub(super) candidates: Vec<Candidate>,
    pub(super) hits: Vec<Hit>,
    pub(super) limits: Vec<Limits>,
    /// The folded signatures of a run of probe rows.
    pub(super) folded: Vec<u64>,
    /// The least overlap that each column of a tile needs.
    pub(super) least: Vec<i64>,
    pub(super) bands: BandScratch,
}

/// Memory for the keys of a probe row.
#[derive(Debug, Default)]
pub(super) struct BandScratch {
    pub(super) hashes: MinHashScratch,
    pub(super) keys: Vec<u32>,
}

/// A build position that shares a token with a probe position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) position: u32,
    /// The least overlap that the sizes require.
    pub(super) least: u32,
    /// Tokens of the probe position before the first shared one.
    pub(super) probe_from: u32,
    /// Tokens of the build position from the first shared one on.
    pub(super) build_rest: u32,
}

impl Scratch {
    pub(super) fn new(predicate: SetPredicate, largest: u32) -> Self {
        Self {
            requirements: Requirements::new(predicate, largest),
            seen: Vec::new(),
            step: 0,
            candidates: Vec::new(),
            hits: Vec::new(),
            limits: Vec::new(),
            folded: Vec::new(),
            least: Vec::new(),
            bands: BandScratch::default(),
        }
    }

    /// Forgets which positions were met.
    pub(super) fn next_step(&mut self, positions: usize) {
        if self.seen.len() < positions || self.step == u32::MAX {
            self.seen.clear();
            self.seen.resize(positions, 0);
            self.step = 0;
        }
        self.step += 1;
    }

    /// Whether this step has not met `position` yet; from now on it has.
    #[inline]
    pub(super) fn is_first_meeting(&mut self, position: usize) -> bool {
        std::mem::replace(&mut self.seen[position], self.step) != self.step
    }
}
