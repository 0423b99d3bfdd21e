//! The segment index: for each segment of the strings of some runs, the positions that have it.
//!
//! A table of hashes in buckets. Ahead of it stands a bitmap, small enough for a cache, that turns away most of the
//! substrings which are no segment; beside each position stands its signature in one word, so that a segment which
//! many strings share is read in one go.

use std::ops::{Add, Range};
use std::slice;

use crate::error::Result;

use super::runs::{Run, Runs};
use super::segments::{Cut, fold, hash};
use super::sides::Sides;
use super::sorted::{Characters, SortedStrings};
use crate::Cancel;
use crate::cpu::signature::Kernel;
use crate::stored::{Sink, Source, Store, Stored, fixed, stored};
use crate::strings::features::in_one_word;
use similarity_measures::EditOperations;

/// The segments of a build side.
#[derive(Debug)]
pub(super) struct SegmentIndex {
    /// Number of segments of each run's strings; 0 where a run is not indexed.
    segments: Vec<u32>,
    operations: EditOperations,
    table: Table,
    kernel: Kernel,
}

impl Store for SegmentIndex {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.segments.store(sink)?;
        self.table.store(sink)
    }
}

impl SegmentIndex {
    /// Reads the index of a measure with these operations.
    pub(super) fn load(operations: EditOperations, source: &mut Source<'_>) -> Result<Self> {
        let (segments, table) = (Stored::load(source)?, Stored::load(source)?);
        Ok(Self { segments, operations, table, kernel: Kernel::detect() })
    }

    /// Indexes each run with the number of `segments` that is given for it; a cancelled build leaves entries out.
    pub(super) fn build(
        texts: &SortedStrings,
        runs: &Runs,
        segments: Vec<u32>,
        operations: EditOperations,
        cancel: &Cancel,
        reserve: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<Self> {
        let entries = runs.all().iter().zip(&segments).map(|(run, &n)| run.len() * n as usize).sum();
        reserve(Table::size(entries) + entries * size_of::<(u64, u32)>())?;
        let mut index = Self { segments, operations, table: Table::default(), kernel: Kernel::detect() };
        let mut keyed = Vec::with_capacity(entries);
        let mut starts = Vec::new();
        for (n, &run) in runs.all().iter().enumerate() {
            let Some(cut) = index.cut(n, run).filter(|_| !cancel.is_cancelled()) else { continue };
            for position in run.positions() {
                let text = Characters::of(texts.text(position), run.length as usize, &mut starts);
                for segment in 0..cut.segments {
                    let (start, len) = cut.segment(segment);
                    keyed.push((key(text.slice(start, len), n, segment), position as u32));
                }
            }
        }
        index.table = Table::build(&keyed, |position| in_one_word(&texts.bigrams[position as usize]), cancel);
        Ok(index)
    }

    /// How the strings of a run are cut, if they are indexed.
    #[inline]
    fn cut(&self, n: usize, run: Run) -> Option<Cut> {
        let edits = self.segments[n].checked_sub(1)?;
        Cut::for_edits(run.length as usize, edits as usize, self.operations)
    }

    #[inline]
    pub(super) fn has(&self, run: usize) -> bool {
        self.segments[run] > 0
    }

    /// Leaves a run to the tiles.
    pub(super) fn forget(&mut self, run: usize) {
        self.segments[run] = 0;
    }

    /// Finds the positions of the indexed run `n` that share a segment with a string where strings within `edits` of
    /// each other do, and whose bigrams may differ in no more than `bigrams`.
    pub(super) fn look_up(
        &self,
        n: usize,
        run: Run,
        text: &Sought<'_>,
        edits: usize,
        bigrams: i64,
        found: &mut Found,
    ) -> Met {
        let mut met = Met::default();
        let Some(cut) = self.cut(n, run) else { return met };
        found.entries.clear();
        for (nth, segment) in cut.chosen(edits) {
            let (_, len) = cut.segment(segment);
            for start in cut.starts(nth, segment, edits, text.length, self.operations.shifts) {
                self.table.collect(key(text.characters.slice(start, len), n, segment), &mut found.entries);
                met.lookups += 1;
            }
        }
        met.entries = found.entries.len();
        let bigrams_of = |entry: u32| slice::from_ref(&self.table.entries[entry as usize].bigrams);
        self.kernel.retain(&mut found.entries, |entry| (bigrams_of(entry), slice::from_ref(&text.bigrams), bigrams));
        found.entries.iter_mut().for_each(|entry| *entry = self.table.entries[*entry as usize].position);
        found.entries.sort_unstable();
        found.entries.dedup();
        found.positions.extend_from_slice(&found.entries);
        met
    }

    /// Finds the candidates of a probe row among the runs `range`, all of them indexed.
    pub(super) fn candidates(&self, sides: &Sides<'_>, row: usize, range: Range<usize>, found: &mut Found) -> Met {
        let mut starts = std::mem::take(&mut found.starts);
        let text = Sought::of(sides.probe, row, &mut starts);
        let mut met = Met::default();
        found.positions.clear();
        for n in range {
            let run = sides.runs.all()[n];
            let lengths = (text.length, run.length as usize);
            let slack = sides.predicate.slack(lengths.0, lengths.1, usize::MAX);
            if let (Some(edits), Some(slack)) = (sides.predicate.edits(lengths.0, lengths.1), slack) {
                met = met + self.look_up(n, run, &text, edits, slack.bigrams, found);
            }
        }
        if sides.self_join {
            let before = found.positions.partition_point(|&position| (position as usize) < row);
            found.positions.truncate(before);
        }
        found.starts = starts;
        met
    }

    /// How many positions are indexed.
    pub(super) fn indexed(&self, runs: &Runs) -> usize {
        runs.all().iter().zip(&self.segments).filter(|(_, n)| **n > 0).map(|(run, _)| run.len()).sum()
    }

    /// The fewest and the most segments of a string.
    pub(super) fn cuts(&self) -> Option<(u32, u32)> {
        let some = || self.segments.iter().copied().filter(|&n| n > 0);
        Some((some().min()?, some().max()?))
    }

    pub(super) fn memory(&self) -> usize {
        self.segments.capacity() * size_of::<u32>() + self.table.memory()
    }
}

/// Memory for what is found, used again for each row.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Build positions, in order.
    pub(super) positions: Vec<u32>,
    /// Entries of the table, then the positions under them.
    entries: Vec<u32>,
    /// Where the characters of a string start.
    pub(super) starts: Vec<u32>,
}

/// What finding took.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Met {
    pub(super) lookups: usize,
    /// Entries that had the hash of a substring.
    pub(super) entries: usize,
}

impl Add for Met {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { lookups: self.lookups + other.lookups, entries: self.entries + other.entries }
    }
}

/// A string whose candidates are sought.
pub(super) struct Sought<'a> {
    characters: Characters<'a>,
    length: usize,
    bigrams: u64,
}

impl<'a> Sought<'a> {
    pub(super) fn of(texts: &'a SortedStrings, row: usize, starts: &'a mut Vec<u32>) -> Self {
        let length = texts.lengths[row] as usize;
        let characters = Characters::of(texts.text(row), length, starts);
        Self { characters, length, bigrams: in_one_word(&texts.bigrams[row]) }
    }
}

/// A hash of a segment's text, its number and its run.
#[inline]
fn key(text: &[u8], run: usize, segment: usize) -> u64 {
    fold(hash(text) ^ (run as u64) << 24 ^ segment as u64, 0xa076_1d64_78bd_642f)
}

/// A position under one of its keys.
#[derive(Debug, Default, Clone, Copy)]
struct Entry {
    /// The low half of the key.
    tag: u32,
    position: u32,
    /// The bigrams in one word.
    bigrams: u64,
}

/// Positions by 64-bit keys.
#[derive(Debug, Default)]
struct Table {
    /// Keys are shifted right by this to give a bucket.
    shift: u32,
    /// Where each bucket starts; one entry more than buckets.
    starts: Vec<u32>,
    entries: Vec<Entry>,
    /// A bit for each value of some bits of the keys, set if there is such a key.
    present: Vec<u64>,
}

fixed!(Entry { tag: u32, position: u32, bigrams: u64 });
stored!(Table { shift, starts, entries, present });

/// Entries between two looks for a cancellation.
const WRITTEN_AT_ONCE: usize = 1 << 18;

impl Table {
    fn build(keyed: &[(u64, u32)], bigrams: impl Fn(u32) -> u64, cancel: &Cancel) -> Self {
        let log2 = keyed.len().max(1).ilog2() + 1;
        let shift = u64::BITS - log2;
        let mut starts = vec![0u32; (1 << log2) + 2];
        let mut present = vec![0; (8usize << log2).div_ceil(64)];
        for &(key, _) in keyed {
            starts[(key >> shift) as usize + 2] += 1;
            let bit = Self::bit(key, &present);
            present[bit / 64] |= 1 << (bit % 64);
        }
        (2..starts.len()).for_each(|bucket| starts[bucket] += starts[bucket - 1]);
        // One entry ahead, each start moves to its bucket's end, which is the next bucket's start.
        let mut entries = vec![Entry::default(); keyed.len()];
        let wanted = keyed.chunks(WRITTEN_AT_ONCE).take_while(|_| !cancel.is_cancelled()).flatten();
        for &(key, position) in wanted {
            let at = &mut starts[(key >> shift) as usize + 1];
            entries[*at as usize] = Entry { tag: key as u32, position, bigrams: bigrams(position) };
            *at += 1;
        }
        starts.pop();
        Self { shift, starts, entries, present }
    }

    /// Upper bound of the bytes that a table of so many entries takes.
    fn size(entries: usize) -> usize {
        let buckets = 2 * entries.max(1);
        entries * size_of::<Entry>() + (buckets + 2) * size_of::<u32>() + buckets
    }

    #[inline]
    fn bit(key: u64, present: &[u64]) -> usize {
        // the lowest bits, of which the top ones, that make the bucket, are independent
        key as usize & (64 * present.len() - 1)
    }

    /// Appends the entries under `key`.
    #[inline]
    fn collect(&self, key: u64, found: &mut Vec<u32>) {
        let bit = Self::bit(key, &self.present);
        if self.present[bit / 64] >> (bit % 64) & 1 == 0 {
            return;
        }
        let bucket = (key >> self.shift) as usize;
        for entry in self.starts[bucket]..self.starts[bucket + 1] {
            if self.entries[entry as usize].tag == key as u32 {
                found.push(entry);
            }
        }
    }

    fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.starts.capacity() * size_of::<u32>()
            + self.present.capacity() * size_of::<u64>()
    }
}
