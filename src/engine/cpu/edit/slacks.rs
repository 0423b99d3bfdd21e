//! What the lengths of a build side allow, looked up instead of computed pair by pair.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::predicate::{EditPredicate, LONGEST_PREFIX, Slack};

/// The slacks between probe lengths and all lengths of a build side.
#[derive(Debug)]
pub(super) struct Slacks {
    /// The distinct lengths of the build side, ascending.
    lengths: Vec<u32>,
    by_length: Mutex<HashMap<u32, Arc<LengthSlacks>, foldhash::fast::FixedState>>,
    /// How many lengths are remembered.
    capacity: usize,
}

/// Slacks that are remembered in all: some megabytes.
const REMEMBERED: usize = 1 << 18;

/// What a string of one length can match, by the length of the common prefix.
#[derive(Debug)]
pub(super) struct LengthSlacks {
    /// The ranks of the lengths that it can match at all.
    ranks: Range<usize>,
    /// The least and the greatest of these lengths, and one past.
    pub(super) reach: Range<u32>,
    /// One entry a prefix length, the last for all longer ones; in each, one entry a rank.
    by_prefix: Vec<Vec<Option<Slack>>>,
}

impl Slacks {
    /// For a build side whose strings have `lengths`.
    pub(super) fn new(lengths: &[u32]) -> Self {
        let mut lengths = lengths.to_vec();
        lengths.sort_unstable();
        lengths.dedup();
        let capacity = (REMEMBERED / (lengths.len() * (LONGEST_PREFIX + 1)).max(1)).max(4);
        Self { lengths, by_length: Mutex::default(), capacity }
    }

    /// The rank of a build length among the distinct ones.
    pub(super) fn rank(&self, length: u32) -> u32 {
        self.lengths.partition_point(|&l| l < length) as u32
    }

    /// What a string of `length` characters can match.
    pub(super) fn of(&self, predicate: &EditPredicate, length: u32) -> Arc<LengthSlacks> {
        let mut known = self.by_length.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slacks) = known.get(&length) {
            return Arc::clone(slacks);
        }
        if known.len() >= self.capacity {
            known.clear();
        }
        let slacks = Arc::new(self.compute(predicate, length));
        known.insert(length, Arc::clone(&slacks));
        slacks
    }

    fn compute(&self, predicate: &EditPredicate, length: u32) -> LengthSlacks {
        let slack = |other: u32, prefix| predicate.slack(length as usize, other as usize, prefix);
        // the farther two lengths are apart, the less they can match
        let middle = self.lengths.partition_point(|&l| l < length);
        let low = self.lengths[..middle].partition_point(|&l| slack(l, usize::MAX).is_none());
        let high = middle + self.lengths[middle..].partition_point(|&l| slack(l, usize::MAX).is_some());
        let possible = &self.lengths[low..high];
        let prefixes = if predicate.wants_classes() { LONGEST_PREFIX + 1 } else { 1 };
        let by_prefix = |prefix| possible.iter().map(|&l| slack(l, prefix)).collect();
        let reach = possible.first().map_or(0..0, |&first| first..possible[possible.len() - 1] + 1);
        LengthSlacks { ranks: low..high, reach, by_prefix: (0..prefixes).map(by_prefix).collect() }
    }

    pub(super) fn memory(&self) -> usize {
        self.lengths.len() * size_of::<u32>() + REMEMBERED * size_of::<Option<Slack>>()
    }
}

impl LengthSlacks {
    /// The slack with the build length of this rank and a common prefix of at most `prefix` characters.
    #[inline]
    pub(super) fn get(&self, rank: u32, prefix: usize) -> Option<Slack> {
        let place = (rank as usize).checked_sub(self.ranks.start)?;
        let by_rank = &self.by_prefix[prefix.min(self.by_prefix.len() - 1)];
        by_rank.get(place).copied().flatten()
    }
}
