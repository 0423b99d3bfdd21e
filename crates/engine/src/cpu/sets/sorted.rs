//! Sets in columns: sorted by group and size, tokens by rank, in one array.

use std::ops::Range;

use crate::error::Result;

use super::bits::{self, Bits};
use crate::Cancel;
use crate::parallel::in_parallel;
use crate::sets::memory::Reserve;
use crate::sets::ranks::Ranks;
use crate::sets::tokenise::RowSets;
use crate::stored::stored;

/// The sets of one side, one a position. Positions are ordered by group, then size, then what their signatures
/// look like, so that the rows that one row can match by group and size are one range of positions.
///
/// A row that can match nothing has no position.
#[derive(Debug, Default)]
pub(super) struct SortedSets {
    /// The row number.
    pub(super) rows: Vec<u32>,
    /// The group, 0 where there are no equality keys.
    pub(super) groups: Vec<u32>,
    /// Distinct elements, those included that match nothing.
    pub(super) sizes: Vec<u32>,
    /// Bits that are set in the signature.
    counts: Vec<u16>,
    /// Bits that are set in the folded signature.
    folded_counts: Vec<u16>,
    /// `words` words a position.
    pub(super) signatures: Vec<u64>,
    /// How many words a signature has.
    pub(super) words: usize,
    /// Where the tokens of each position start; one entry more than positions.
    starts: Vec<usize>,
    /// Ranks of the tokens, ascending within a position.
    tokens: Vec<u32>,
    /// Rows that are NULL or blank or have no group.
    pub(super) unmatchable: usize,
}

stored!(SortedSets { rows, groups, sizes, counts, folded_counts, signatures, words, starts, tokens, unmatchable });

/// What positions are ordered by; no two are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: u32,
    size: u32,
    known: u32,
    folded_count: u16,
    row: u32,
}

/// One range of rows, ready to be put into order.
struct Part {
    places: Vec<Place>,
    signatures: Vec<u64>,
    unmatchable: usize,
}

impl SortedSets {
    /// Puts the sets of all ranges into order. If it is cancelled, what comes back is of no use.
    pub(super) fn arrange(
        ranges: Vec<RowSets>,
        ranks: &[Ranks],
        bits: Bits,
        groups: Option<&[u32]>,
        cancel: &Cancel,
        reserve: Reserve<'_>,
    ) -> Result<Self> {
        let rows: usize = ranges.iter().map(|r| r.rows.len()).sum();
        reserve(rows * (2 * size_of::<Place>() + 2 * bits.words * size_of::<u64>()))?;
        let parts =
            in_parallel(ranges.iter().zip(ranks), |(range, ranks)| Ok(part(range, ranks, bits, groups, cancel)))?;
        let mut places: Vec<Place> = parts.iter().flat_map(|p| p.places.iter().copied()).collect();
        places.sort_unstable();
        let mut sets = Self::with_places(&places, bits.words, &parts);
        reserve(sets.starts.last().copied().unwrap_or(0) * size_of::<u32>())?;
        sets.fill(&ranges, ranks, &parts, cancel)?;
        sets.counts = sets.signatures.chunks_exact(bits.words).map(|s| bits::count(s) as u16).collect();
        Ok(sets)
    }

    fn with_places(places: &[Place], words: usize, parts: &[Part]) -> Self {
        let mut starts = Vec::with_capacity(places.len() + 1);
        starts.push(0);
        let mut end = 0;
        starts.extend(places.iter().map(|p| {
            end += p.known as usize;
            end
        }));
        Self {
            rows: places.iter().map(|p| p.row).collect(),
            groups: places.iter().map(|p| p.group).collect(),
            sizes: places.iter().map(|p| p.size).collect(),
            folded_counts: places.iter().map(|p| p.folded_count).collect(),
            counts: Vec::new(),
            signatures: vec![0; places.len() * words],
            words,
            tokens: vec![0; end],
            starts,
            unmatchable: parts.iter().map(|p| p.unmatchable).sum(),
        }
    }

    /// Copies tokens and signatures to their positions, as many threads as there are ranges.
    fn fill(&mut self, ranges: &[RowSets], ranks: &[Ranks], parts: &[Part], cancel: &Cancel) -> Result<()> {
        let threads = ranges.len().max(1);
        let (mut tokens, mut signatures) = (self.tokens.as_mut_slice(), self.signatures.as_mut_slice());
        let mut shares = Vec::with_capacity(threads);
        let (n, words) = (self.rows.len(), self.words);
        for t in 0..threads {
            let positions = n * t / threads..n * (t + 1) / threads;
            let (own_tokens, rest) = tokens.split_at_mut(self.starts[positions.end] - self.starts[positions.start]);
            let (own_signatures, others) = signatures.split_at_mut(positions.len() * words);
            (tokens, signatures) = (rest, others);
            shares.push(Share { rows: &self.rows[positions], tokens: own_tokens, signatures: own_signatures });
        }
        let source = Source { ranges, ranks, parts, words };
        in_parallel(shares.into_iter(), |share| {
            source.fill(share, cancel);
            Ok(())
        })?;
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The size of the largest set.
    pub(super) fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The tokens at a position that may match, by rank.
    #[inline]
    pub(super) fn tokens(&self, position: usize) -> &[u32] {
        &self.tokens[self.starts[position]..self.starts[position + 1]]
    }

    /// How many tokens at a position may match.
    #[inline]
    pub(super) fn known(&self, position: usize) -> u32 {
        (self.starts[position + 1] - self.starts[position]) as u32
    }

    #[inline]
    pub(super) fn signature(&self, position: usize) -> &[u64] {
        &self.signatures[position * self.words..(position + 1) * self.words]
    }

    /// How many tokens may match, and how many bits of the signature they set.
    #[inline]
    pub(super) fn weight(&self, position: usize) -> (u32, u32) {
        (self.known(position), u32::from(self.counts[position]))
    }

    /// How many tokens may match, and how many bits of the folded signature they set.
    #[inline]
    pub(super) fn folded_weight(&self, position: usize) -> (u32, u32) {
        (self.known(position), u32::from(self.folded_counts[position]))
    }

    pub(super) fn memory(&self) -> usize {
        let two_bytes = self.counts.capacity() + self.folded_counts.capacity();
        let four_bytes = self.rows.capacity() + self.groups.capacity() + self.sizes.capacity() + self.tokens.capacity();
        let eight_bytes = self.signatures.capacity() + self.starts.capacity();
        4 * four_bytes + 8 * eight_bytes + 2 * two_bytes
    }
}

fn part(range: &RowSets, ranks: &Ranks, bits: Bits, groups: Option<&[u32]>, cancel: &Cancel) -> Part {
    let mut part = Part {
        places: Vec::with_capacity(range.rows.len()),
        signatures: vec![0; range.rows.len() * bits.words],
        unmatchable: 0,
    };
    for (at, row) in range.rows.clone().enumerate().take_while(|_| !cancel.is_cancelled()) {
        let ids = range.ids(at);
        let signature = &mut part.signatures[at * bits.words..(at + 1) * bits.words];
        let mut known = 0;
        for rank in ids.iter().filter_map(|&id| ranks.get(id)) {
            bits.set(rank, signature);
            known += 1;
        }
        part.unmatchable += usize::from(ids.is_empty());
        if known > 0 {
            let group = groups.map_or(0, |g| g[row]);
            let folded_count = bits::fold(signature).map(u64::count_ones).sum::<u32>() as u16;
            part.places.push(Place { group, size: ids.len() as u32, known, folded_count, row: row as u32 });
        }
    }
    part
}

/// Where tokens and signatures come from.
struct Source<'a> {
    ranges: &'a [RowSets],
    ranks: &'a [Ranks],
    parts: &'a [Part],
    words: usize,
}

/// A range of positions, for one thread to fill.
struct Share<'a> {
    rows: &'a [u32],
    tokens: &'a mut [u32],
    signatures: &'a mut [u64],
}

impl Source<'_> {
    fn fill(&self, share: Share<'_>, cancel: &Cancel) {
        let mut tokens = share.tokens;
        let signatures = share.signatures.chunks_exact_mut(self.words);
        for (&row, signature) in share.rows.iter().zip(signatures).take_while(|_| !cancel.is_cancelled()) {
            let range = self.ranges.partition_point(|r| r.rows.end <= row as usize);
            let at = row as usize - self.ranges[range].rows.start;
            let ids = self.ranges[range].ids(at).iter();
            let mut known = 0;
            for rank in ids.filter_map(|&id| self.ranks[range].get(id)) {
                tokens[known] = rank;
                known += 1;
            }
            let (self_join, rest) = std::mem::take(&mut tokens).split_at_mut(known);
            self_join.sort_unstable();
            tokens = rest;
            signature.copy_from_slice(&self.parts[range].signatures[at * self.words..][..self.words]);
        }
    }
}

/// The positions of a build side by group and size.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Where each group starts; one entry more than groups.
    starts: Vec<u32>,
}

impl Groups {
    pub(super) fn of(sets: &SortedSets) -> Self {
        let count = sets.groups.last().map_or(0, |&g| g as usize + 1);
        let mut starts = vec![0; count + 1];
        sets.groups.iter().for_each(|&g| starts[g as usize + 1] += 1);
        for g in 0..count {
            starts[g + 1] += starts[g];
        }
        Self { starts }
    }

    /// The positions of a group; none for a group that the build side lacks.
    pub(super) fn positions(&self, group: u32) -> Range<usize> {
        match self.starts.get(group as usize..) {
            Some([start, end, ..]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }
}
