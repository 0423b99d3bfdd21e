//! Decides a set condition for any pair of rows.

use datafusion::common::{Result, exec_err};

use super::dictionary::Dictionary;
use super::overlap::overlap_reaching;
use super::predicate::SetPredicate;
use super::ranks::{Ranks, rank};
use super::tokenise::{RowSets, tokenise_build, tokenise_probe};
use crate::engine::{BuildContext, KeyColumn};
use crate::measure::Tokenizer;

/// The sets of one side, by row.
#[derive(Debug)]
pub struct SetColumn {
    /// What most pairs are decided by, on one cache line.
    briefs: Vec<Brief>,
    /// Ranks of the tokens that the build side knows, ascending within a row.
    ranks: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Brief {
    /// A bit for each known token, several tokens a bit.
    signature: u64,
    /// Where the ranks of the row start.
    start: usize,
    /// How many there are.
    known: u32,
    /// Distinct elements, those included that match nothing; 0 for a row that matches nothing (NULL, blank).
    size: u32,
}

impl SetColumn {
    /// The sets of a build side, and the dictionary for its probe sides.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, a refused reservation, a cancelled build.
    pub fn build(tokenizer: Tokenizer, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<(Self, Dictionary)> {
        let mut ranges = tokenise_build(tokenizer, keys, context.threads, context.cancel, context.reserve)?;
        if context.cancel.is_cancelled() {
            return exec_err!("the build of a matching dependency join was cancelled");
        }
        let ids: usize = ranges.iter().map(|r| r.ids.len()).sum();
        (context.reserve)(ids * size_of::<u32>() + keys.values.len() * size_of::<Brief>())?;
        let (dictionary, ranks, _) = rank(&mut ranges, false);
        Ok((Self::of(&ranges, &ranks), dictionary))
    }

    /// The sets of a probe batch.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read.
    pub fn probe(tokenizer: Tokenizer, keys: &KeyColumn, known: &Dictionary) -> Result<Self> {
        let range = tokenise_probe(tokenizer, keys, known)?;
        Ok(Self::of(&[range], &[Ranks::Below(known.len() as u32)]))
    }

    fn of(ranges: &[RowSets], ranks: &[Ranks]) -> Self {
        let rows = ranges.iter().map(|range| range.rows.len()).sum();
        let ids = ranges.iter().map(|range| range.ids.len()).sum();
        let mut column = Self { briefs: Vec::with_capacity(rows), ranks: Vec::with_capacity(ids) };
        for (range, ranks) in ranges.iter().zip(ranks) {
            for at in 0..range.rows.len() {
                let (ids, start) = (range.ids(at), column.ranks.len());
                column.ranks.extend(ids.iter().filter_map(|&id| ranks.get(id)));
                column.ranks[start..].sort_unstable();
                let signature = column.ranks[start..].iter().fold(0, |bits, rank| bits | 1 << bit(*rank));
                let known = (column.ranks.len() - start) as u32;
                column.briefs.push(Brief { signature, start, known, size: ids.len() as u32 });
            }
        }
        column
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.briefs.len() * size_of::<Brief>() + self.ranks.capacity() * size_of::<u32>()
    }

    /// Whether a row is neither NULL nor blank.
    pub fn can_match(&self, row: usize) -> bool {
        self.briefs[row].size > 0
    }

    /// The mean number of known tokens a row.
    pub fn mean_size(&self) -> f64 {
        self.ranks.len() as f64 / self.briefs.len().max(1) as f64
    }

    #[inline]
    fn ranks(&self, brief: Brief) -> &[u32] {
        &self.ranks[brief.start..brief.start + brief.known as usize]
    }
}

/// The bit of a token.
fn bit(rank: u32) -> u32 {
    rank.wrapping_mul(0x9E37_79B1) >> 26
}

/// A predicate, and what it requires of small sizes.
#[derive(Debug)]
pub struct SetPairTest {
    predicate: SetPredicate,
    /// For two sizes below [`SMALL`], the least overlap; [`NEVER`] where none suffices.
    least: Vec<u32>,
}

const SMALL: usize = 64;
const NEVER: u32 = u32::MAX;

impl SetPairTest {
    /// For pairs that satisfy `predicate`, whose lower bound excludes the score 0.
    pub fn new(predicate: SetPredicate) -> Self {
        let sizes = |at: usize| ((at / SMALL) as u32, (at % SMALL) as u32);
        let least = |(left, right)| predicate.min_overlap(left, right).unwrap_or(NEVER);
        Self { predicate, least: (0..SMALL * SMALL).map(sizes).map(least).collect() }
    }

    /// Whether a build and a probe row match.
    #[inline]
    pub fn matches(&self, build: (&SetColumn, u32), probe: (&SetColumn, u32)) -> bool {
        let Some((left, right, least)) = self.open(build, probe) else { return false };
        let (a, b) = (build.0.ranks(left), probe.0.ranks(right));
        let unbounded = self.predicate.is_open_above();
        overlap_reaching(a, b, least, !unbounded)
            .is_some_and(|overlap| unbounded || self.predicate.accepts(overlap, left.size, right.size))
    }

    /// Whether the overlap has to be computed for a pair of a build and a probe row.
    pub fn is_open(&self, build: (&SetColumn, u32), probe: (&SetColumn, u32)) -> bool {
        self.open(build, probe).is_some()
    }

    /// The two sets and the least overlap that matches, unless sizes and signatures say no.
    #[inline]
    fn open(&self, build: (&SetColumn, u32), probe: (&SetColumn, u32)) -> Option<(Brief, Brief, u32)> {
        let (left, right) = (build.0.briefs[build.1 as usize], probe.0.briefs[probe.1 as usize]);
        let least = if (left.size as usize) < SMALL && (right.size as usize) < SMALL {
            self.least[left.size as usize * SMALL + right.size as usize]
        } else {
            self.predicate.min_overlap(left.size, right.size).unwrap_or(NEVER)
        };
        // every bit that differs stands for a token that one set has and the other lacks
        let differing = (left.signature ^ right.signature).count_ones();
        let possible = least != NEVER && left.known + right.known >= 2 * least + differing;
        possible.then_some((left, right, least))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, StringArray};

    use super::*;
    use crate::engine::Cancel;
    use crate::measure::SetMeasure;
    use crate::predicate::Bounds;

    #[test]
    fn agrees_with_counting() {
        let texts: Vec<Option<String>> = (0..60u32)
            .map(|n| (n % 11 != 0).then(|| (0..n % 9).map(|w| format!("w{} ", (n * 7 + w * w) % 13)).collect()))
            .chain([Some((0..90).map(|w| format!("w{w} ")).collect())])
            .collect();
        let keys = KeyColumn { values: Arc::new(StringArray::from(texts.clone())) as ArrayRef, groups: None };
        let cancel = Cancel::default();
        let context = BuildContext { threads: 2, own: false, probe_rows: None, cancel: &cancel, reserve: &|_| Ok(()) };
        let (build, dictionary) = SetColumn::build(Tokenizer::Words, &keys, &context).unwrap();
        let probe = SetColumn::probe(Tokenizer::Words, &keys, &dictionary).unwrap();
        let words = |text: &Option<String>| -> std::collections::BTreeSet<String> {
            text.iter().flat_map(|t| t.split_whitespace().map(str::to_owned)).collect()
        };
        for measure in [SetMeasure::Jaccard, SetMeasure::Cosine, SetMeasure::OverlapCount] {
            for bounds in [Bounds::at_least(0.5, true), Bounds::at_least(0.2, false).and(Bounds::at_most(0.6, true))] {
                let test = SetPairTest::new(SetPredicate { measure, bounds });
                for (i, left) in texts.iter().enumerate() {
                    for (j, right) in texts.iter().enumerate() {
                        let (a, b) = (words(left), words(right));
                        let score = measure.score(a.intersection(&b).count(), a.len(), b.len());
                        let expected = !a.is_empty() && !b.is_empty() && bounds.contains(score);
                        let matches = test.matches((&build, i as u32), (&probe, j as u32));
                        assert_eq!(matches, expected, "{measure:?} {left:?} {right:?}");
                    }
                }
            }
        }
    }
}
