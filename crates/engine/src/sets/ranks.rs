//! The order of tokens: rare ones first.
//!
//! Every set lists its tokens by rank. The rank is also what spreads tokens over the bits of a signature.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;

use super::dictionary::{Dictionary, SHARDS, Shard};
use super::tokenise::RowSets;
use crate::parallel::in_turn;

/// Ranks of the ids of one range of rows.
#[derive(Debug)]
pub enum Ranks {
    /// A rank for each id, `UNKNOWN` for a token that can match nothing.
    Table(Vec<u32>),
    /// Ids below this are ranks, all others can match nothing.
    Below(u32),
}

/// Stands for the rank of a token that can match nothing.
const UNKNOWN: u32 = u32::MAX;

impl Ranks {
    /// The rank of `id`, or none where its token can match nothing.
    #[inline]
    pub fn get(&self, id: u32) -> Option<u32> {
        let rank = match self {
            Self::Table(ranks) => ranks[id as usize],
            Self::Below(end) if id < *end => id,
            Self::Below(_) => UNKNOWN,
        };
        (rank != UNKNOWN).then_some(rank)
    }
}

/// One dictionary of all ranges' tokens, numbered by rank, the ranks of each range's ids, and how many rows have the
/// token of each rank.
///
/// With `own` a token that occurs in one row only matches nothing, and the dictionary, which nobody will ask
/// again, comes back without ranks.
pub fn rank(ranges: &mut [RowSets], own: bool) -> Result<(Dictionary, Vec<Ranks>, Vec<u32>)> {
    let Unified { mut dictionary, ids, frequencies } = unify(ranges)?;
    let (ranks, by_rank) = by_frequency(&frequencies, if own { 2 } else { 1 });
    let tables = in_turn(ids.len(), ids.len(), |range| {
        Ok(Ranks::Table(ids[range].iter().map(|&id| ranks[id as usize]).collect()))
    })?;
    if own {
        return Ok((Dictionary::default(), tables, by_rank));
    }
    dictionary.renumber(&ranks)?;
    Ok((dictionary, tables, by_rank))
}

/// The tokens of all ranges.
struct Unified {
    dictionary: Dictionary,
    /// The ids in it of each range's ids.
    ids: Vec<Vec<u32>>,
    /// Number of rows in which each id occurs; 0 where the id is of no token.
    frequencies: Vec<u32>,
}

/// One dictionary out of those of the ranges, by as many threads as there are ranges.
fn unify(ranges: &mut [RowSets]) -> Result<Unified> {
    let dictionaries: Vec<Dictionary> = ranges.iter_mut().map(|range| std::mem::take(&mut range.dictionary)).collect();
    if let ([range], [_]) = (&*ranges, dictionaries.as_slice()) {
        let ids = (0..range.frequencies.len() as u32).collect();
        let frequencies = range.frequencies.clone();
        let dictionary = dictionaries.into_iter().next().unwrap_or_default();
        return Ok(Unified { dictionary, ids: vec![ids], frequencies });
    }
    let ids: Vec<Vec<AtomicU32>> =
        dictionaries.iter().map(|dictionary| (0..dictionary.len()).map(|_| AtomicU32::new(0)).collect()).collect();
    let mut shards: Vec<Vec<Shard>> = (0..SHARDS).map(|_| Vec::new()).collect();
    for dictionary in dictionaries {
        shards.iter_mut().zip(dictionary.into_shards()).for_each(|(shards, shard)| shards.push(shard));
    }
    // each shard has room for the ids of all its tokens, were they all different
    let room: Vec<usize> = shards.iter().map(|shards| shards.iter().map(Shard::len).sum()).collect();
    let first = |shard: usize| room[..shard].iter().sum::<usize>() as u32;
    let shards: Vec<Mutex<Vec<Shard>>> = shards.into_iter().map(Mutex::new).collect();
    let merged = in_turn(SHARDS, ranges.len(), |at| {
        let of_ranges = std::mem::take(&mut *shards[at].lock().unwrap_or_else(PoisonError::into_inner));
        let (mut whole, mut frequencies, first) = (Shard::default(), Vec::new(), first(at));
        for ((shard, ids), range) in of_ranges.into_iter().zip(&ids).zip(&*ranges) {
            whole.absorb(shard, first, |id, new| {
                ids[id as usize].store(new, Ordering::Relaxed);
                let place = (new - first) as usize;
                if place == frequencies.len() {
                    frequencies.push(0);
                }
                frequencies[place] += range.frequencies[id as usize];
            });
        }
        frequencies.resize(room[at], 0);
        Ok((whole, frequencies))
    })?;
    let (shards, frequencies): (Vec<Shard>, Vec<Vec<u32>>) = merged.into_iter().unzip();
    let ids = ids.into_iter().map(|ids| ids.into_iter().map(AtomicU32::into_inner).collect()).collect();
    Ok(Unified { dictionary: Dictionary::of_shards(shards), ids, frequencies: frequencies.concat() })
}

/// Frequency from which on ids are compared; below it they are counted.
const COUNTED: u32 = 1 << 16;

/// The rank of each id by ascending frequency, and the frequency of each rank: those that occur at least `least` times
/// have one.
fn by_frequency(frequencies: &[u32], least: u32) -> (Vec<u32>, Vec<u32>) {
    let known = || (0u32..).zip(frequencies).filter(|&(_, &frequency)| frequency >= least);
    let class = |frequency: u32| frequency.min(COUNTED) as usize;
    // ids of one frequency keep their order
    let mut next = vec![0; COUNTED as usize + 2];
    known().for_each(|(_, &frequency)| next[class(frequency) + 1] += 1);
    for at in 1..next.len() {
        next[at] += next[at - 1];
    }
    let (most_frequent, count) = (next[COUNTED as usize], next[COUNTED as usize + 1]);
    let mut order = vec![0; count];
    for (id, &frequency) in known() {
        let place = &mut next[class(frequency)];
        order[*place] = id;
        *place += 1;
    }
    order[most_frequent..].sort_by_key(|&id| frequencies[id as usize]);
    let mut ranks = vec![UNKNOWN; frequencies.len()];
    for (rank, &id) in order.iter().enumerate() {
        ranks[id as usize] = rank as u32;
    }
    (ranks, order.into_iter().map(|id| frequencies[id as usize]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_tokens_come_first() {
        assert_eq!(by_frequency(&[5, 1, 3, 1], 1), (vec![3, 0, 2, 1], vec![1, 1, 3, 5]));
        assert_eq!(by_frequency(&[5, 1, 3, 1], 2), (vec![1, UNKNOWN, 0, UNKNOWN], vec![3, 5]));
        let many = COUNTED + 5;
        assert_eq!(
            by_frequency(&[many, COUNTED, 7, 0, many], 1),
            (vec![2, 1, 0, UNKNOWN, 3], vec![7, COUNTED, many, many])
        );
    }

    #[test]
    fn ranges_share_one_dictionary() {
        let text = |token: u32| format!("{} {token}", ["a longer one", "x"][token as usize % 2]);
        let range = |tokens: std::ops::Range<u32>| {
            let mut dictionary = Dictionary::default();
            let ids: Vec<u32> = tokens.clone().map(|token| dictionary.intern_text(text(token).as_bytes())).collect();
            RowSets { rows: 0..1, ends: vec![ids.len()], frequencies: vec![1; ids.len()], ids, dictionary }
        };
        let mut ranges = [range(0..200), range(100..300), range(150..151)];
        let (dictionary, tables, frequencies) = rank(&mut ranges, false).unwrap();
        assert_eq!((dictionary.len(), frequencies.len()), (300, 300));
        let rank_of = |token: u32| dictionary.find_text(text(token).as_bytes()).unwrap();
        let expected = |token: u32| 1 + u32::from((100..200).contains(&token)) + u32::from(token == 150);
        (0..300).for_each(|token| assert_eq!(frequencies[rank_of(token) as usize], expected(token)));
        assert!(frequencies.is_sorted());
        for (table, first) in tables.iter().zip([0, 100, 150]) {
            assert_eq!(table.get(0), Some(rank_of(first)));
        }
        let mut ranges = [range(0..200), range(100..300)];
        let (_, tables, frequencies) = rank(&mut ranges, true).unwrap();
        assert_eq!(frequencies, [2; 100]);
        assert_eq!((tables[0].get(99), tables[1].get(100)), (None, None));
        assert_eq!(tables[0].get(100), tables[1].get(0));
    }
}
