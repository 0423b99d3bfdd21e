//! The order of tokens: rare ones first.
//!
//! Every set lists its tokens by rank. The rank is also what spreads tokens over the bits of a signature.

use super::dictionary::Dictionary;
use super::tokenise::RowSets;

/// From the ids of one range of rows to ranks.
#[derive(Debug)]
pub(in crate::engine) enum Ranks {
    /// A rank for each id, [`UNKNOWN`] for a token that can match nothing.
    Table(Vec<u32>),
    /// Ids below this are ranks, all others can match nothing.
    Below(u32),
}

/// Stands for the rank of a token that can match nothing.
const UNKNOWN: u32 = u32::MAX;

impl Ranks {
    /// The rank of `id`, or none where its token can match nothing.
    #[inline]
    pub(in crate::engine) fn get(&self, id: u32) -> Option<u32> {
        let rank = match self {
            Self::Table(ranks) => ranks[id as usize],
            Self::Below(end) if id < *end => id,
            Self::Below(_) => UNKNOWN,
        };
        (rank != UNKNOWN).then_some(rank)
    }
}

/// One dictionary of all ranges' tokens, numbered by rank, and the ranks of each range's ids.
///
/// With `own` a token that occurs in one row only matches nothing, and the dictionary, which nobody will ask
/// again, comes back without ranks.
pub(in crate::engine) fn rank(ranges: &mut [RowSets], own: bool) -> (Dictionary, Vec<Ranks>, usize) {
    let (dictionary, ids) = unify(ranges);
    let mut frequencies = vec![0u32; dictionary.len()];
    for (range, ids) in ranges.iter().zip(&ids) {
        range.frequencies.iter().zip(ids).for_each(|(f, &id)| frequencies[id as usize] += f);
    }
    let (ranks, count) = by_frequency(&frequencies, if own { 2 } else { 1 });
    let tables = ids.into_iter().map(|ids| Ranks::Table(ids.iter().map(|&id| ranks[id as usize]).collect()));
    let tables = tables.collect();
    if own {
        return (Dictionary::default(), tables, count);
    }
    let mut dictionary = dictionary;
    dictionary.renumber(&ranks);
    (dictionary, tables, count)
}

/// One dictionary out of those of the ranges, and each range's ids in it.
fn unify(ranges: &mut [RowSets]) -> (Dictionary, Vec<Vec<u32>>) {
    let mut whole = Dictionary::default();
    let mut ids = Vec::with_capacity(ranges.len());
    for range in ranges {
        let part = std::mem::take(&mut range.dictionary);
        if whole.len() == 0 {
            ids.push((0..part.len() as u32).collect());
            whole = part;
        } else {
            ids.push(whole.absorb(&part));
        }
    }
    (whole, ids)
}

/// The rank of each id by ascending frequency, and how many have one: those that occur at least `least` times.
fn by_frequency(frequencies: &[u32], least: u32) -> (Vec<u32>, usize) {
    let mut order: Vec<u32> = (0..frequencies.len() as u32).filter(|&id| frequencies[id as usize] >= least).collect();
    order.sort_unstable_by_key(|&id| (frequencies[id as usize], id));
    let mut ranks = vec![UNKNOWN; frequencies.len()];
    for (rank, &id) in order.iter().enumerate() {
        ranks[id as usize] = rank as u32;
    }
    (ranks, order.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_tokens_come_first() {
        let (ranks, count) = by_frequency(&[5, 1, 3, 1], 1);
        assert_eq!((ranks, count), (vec![3, 0, 2, 1], 4));
        let (ranks, count) = by_frequency(&[5, 1, 3, 1], 2);
        assert_eq!((ranks, count), (vec![1, UNKNOWN, 0, UNKNOWN], 2));
    }
}
