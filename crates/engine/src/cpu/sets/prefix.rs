//! The prefix index: an inverted index over the rarest tokens of each set.
//!
//! If two sets must share at least `o` tokens, then among the first `r - o + 1` and `s - o + 1` tokens of both, in
//! one order, there is a common one (AllPairs, Bayardo et al. 2007). The order is by rising frequency, so lists
//! are short. A list is ordered by position, that is by group and size, so that the partners which group and
//! size allow are one range of it. The first token that two sets share bounds what they still can share (PPJoin,
//! Xiao et al. 2008); signatures then turn away nearly all that is left before tokens are merged.
//!
//! Tokens of a probe row that the build side lacks are the rarest of all: they shorten the row's prefix.

use std::ops::Range;

use crate::error::Result;

use super::join::{AccessPath, Candidate, Path, Scratch, Sides, Work};
use super::requirements::Requirements;
use super::sorted::SortedSets;
use crate::Cursor;
use crate::cpu::signature::Kernel;
use crate::sets::memory::Reserve;
use crate::sets::predicate::{SetPredicate, Sizes};
use crate::stored::{fixed, stored};

/// Positions that have each token in their prefix.
#[derive(Debug)]
pub(super) struct PrefixIndex {
    /// Where each token's list starts; one entry more than tokens.
    starts: Vec<u32>,
    postings: Vec<Posting>,
    kernel: Kernel,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Posting {
    pub(super) position: u32,
    /// Tokens of the set from this one on.
    pub(super) rest: u32,
}

fixed!(Posting { position: u32, rest: u32 });
stored!(PrefixIndex { starts, postings } with { kernel: Kernel::detect() });

/// How many of its tokens a set must be indexed under.
///
/// In a self-join a set is only ever found by sets that are no smaller, with which it must share more.
pub(super) fn indexed(sets: &SortedSets, position: usize, self_join: bool, requirements: &mut Requirements) -> usize {
    let size = sets.sizes[position];
    let least = if self_join { requirements.least_with_larger(size) } else { requirements.reach_of_build(size).least };
    prefix(sets.known(position), least)
}

/// How many of the `known` tokens of a set come before it is too late for an overlap of `least`.
pub(super) fn prefix(known: u32, least: u32) -> usize {
    (known + 1).saturating_sub(least) as usize
}

impl PrefixIndex {
    pub(super) fn build(
        sets: &SortedSets,
        tokens: usize,
        predicate: SetPredicate,
        self_join: bool,
        reserve: Reserve<'_>,
    ) -> Result<Self> {
        let mut requirements = Requirements::new(predicate, sets.largest());
        reserve((tokens + 2) * size_of::<u32>())?;
        let mut starts = vec![0u32; tokens + 2];
        for p in 0..sets.len() {
            let n = indexed(sets, p, self_join, &mut requirements);
            sets.tokens(p)[..n].iter().for_each(|&t| starts[t as usize + 2] += 1);
        }
        (2..starts.len()).for_each(|t| starts[t] += starts[t - 1]);
        // One entry ahead, each start moves to its list's end, which is the next list's start.
        let count = starts.last().copied().unwrap_or(0) as usize;
        reserve(count * size_of::<Posting>())?;
        let mut postings = vec![Posting::default(); count];
        for p in 0..sets.len() {
            let n = indexed(sets, p, self_join, &mut requirements);
            let known = sets.known(p);
            for (place, &t) in sets.tokens(p)[..n].iter().enumerate() {
                let at = &mut starts[t as usize + 1];
                postings[*at as usize] = Posting { position: p as u32, rest: known - place as u32 };
                *at += 1;
            }
        }
        starts.pop();
        Ok(Self { starts, postings, kernel: Kernel::detect() })
    }

    /// The part of a token's list that lies within `positions`.
    pub(super) fn list(&self, token: u32, positions: &Range<usize>) -> &[Posting] {
        let list = &self.postings[self.starts[token as usize] as usize..self.starts[token as usize + 1] as usize];
        let list = &list[list.partition_point(|p| (p.position as usize) < positions.start)..];
        &list[..list.partition_point(|p| (p.position as usize) < positions.end)]
    }

    /// Collects the positions that share a prefix token with the probe row and have enough tokens left.
    fn collect(&self, sides: &Sides<'_>, row: usize, work: &mut Work<'_>) {
        work.done += 1;
        let reach = work.scratch.requirements.reach_of_probe(sides.probe.sizes[row]);
        let partners = sides.partners(row, reach);
        if partners.is_empty() {
            return;
        }
        work.scratch.next_step(sides.build.len());
        let prefix = &sides.probe.tokens(row)[..prefix(sides.probe.known(row), reach.least)];
        for (place, &token) in prefix.iter().enumerate().take_while(|_| !work.cancel.is_cancelled()) {
            let list = self.list(token, &partners);
            work.done += list.len();
            meet(sides, row, place as u32, list, work.scratch);
        }
    }
}

/// Collects from the list of the probe row's token at `place` the positions that the row had not met before.
fn meet(sides: &Sides<'_>, row: usize, place: u32, list: &[Posting], scratch: &mut Scratch) {
    let (size, rest) = (sides.probe.sizes[row], sides.probe.known(row) - place);
    for posting in list {
        let position = posting.position as usize;
        if !scratch.is_first_meeting(position) {
            continue;
        }
        let sizes = Sizes { build: sides.build.sizes[position], probe: size };
        let least = scratch.requirements.min_overlap(sizes);
        if let Some(least) = least.filter(|&o| o <= rest.min(posting.rest)) {
            let Posting { position, rest: build_rest } = *posting;
            scratch.candidates.push(Candidate { position, least, probe_from: place, build_rest });
        }
    }
}

impl Path for PrefixIndex {
    fn name(&self) -> String {
        "prefix index".into()
    }

    fn kind(&self) -> AccessPath {
        AccessPath::Prefix
    }

    fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<u32>() + self.postings.capacity() * size_of::<Posting>()
    }

    fn probe(&self, sides: &Sides<'_>, cursor: &mut Cursor, work: &mut Work<'_>) {
        while !cursor.is_done() && !work.is_enough() {
            let row = cursor.next;
            self.collect(sides, row, work);
            let mut candidates = std::mem::take(&mut work.scratch.candidates);
            work.counts.candidates += candidates.len();
            self.kernel.retain(&mut candidates, |c| sides.signatures(row, c.position as usize, c.least));
            for c in candidates.iter().take_while(|_| !work.cancel.is_cancelled()) {
                let build = c.position as usize;
                let build_from = sides.build.known(build) - c.build_rest;
                work.decide(sides, row, build, c.least, (c.probe_from as usize, build_from as usize));
            }
            work.scratch.candidates = candidates;
            work.scratch.candidates.clear();
            cursor.next += 1;
        }
    }
}
