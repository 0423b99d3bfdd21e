//! Decides a set condition for any pair of rows.

use std::sync::OnceLock;

use crate::error::Result;

use super::overlap::overlap_reaching;
use crate::atoms::AtomRows;
use crate::cache::fetch;
use crate::cpu::compact::{keep, retain_from};
use crate::cpu::prefilter::{self, Lanes, MaxDifferences, Prefilter, Sketch as _};
use crate::parallel::each_in_parallel;
use crate::sets::dictionary::Dictionary;
use crate::sets::predicate::{SetPredicate, Sizes};
use crate::sets::ranks::{Ranks, rank};
use crate::sets::tokenise::{RowSets, tokenise_build, tokenise_probe};
use crate::stored::{fixed, stored};
use crate::{BuildContext, Cancel, ColumnPair, KeyColumn, Pairs, PrepareContext, RowPair};
use similarity_measures::Tokenizer;

/// The sets of one side, by row.
#[derive(Debug)]
pub struct SetColumn {
    /// What most pairs are decided by, on one cache line.
    sketches: Vec<Sketch>,
    /// Ranks of the tokens that the build side knows, ascending within a row.
    ranks: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Sketch {
    /// A bit for each known token, several tokens a bit.
    signature: u64,
    /// Where the ranks of the row start.
    start: usize,
    /// How many there are.
    known: u32,
    /// Distinct elements, those included that match nothing; 0 for a row that matches nothing (NULL, blank).
    size: u32,
}

stored!(SetColumn { sketches, ranks });
fixed!(Sketch { signature: u64, start: usize, known: u32, size: u32 });

impl SetColumn {
    /// The sets of a build side, and the dictionary for its probe sides.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, a refused reservation, a cancelled build.
    pub fn build(tokenizer: Tokenizer, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<(Self, Dictionary)> {
        let mut ranges = tokenise_build(tokenizer, keys, context.threads, context.cancel, context.reserve)?;
        context.cancel.check()?;
        let ids: usize = ranges.iter().map(|r| r.ids.len()).sum();
        (context.reserve)(ids * size_of::<u32>() + keys.values.len() * size_of::<Sketch>())?;
        let (dictionary, ranks, _) = rank(&mut ranges, false)?;
        Ok((Self::of(&ranges, &ranks, context.cancel)?, dictionary))
    }

    /// The sets of a probe batch, by up to `threads` threads.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, a cancelled batch.
    pub fn probe(
        tokenizer: Tokenizer,
        keys: &KeyColumn,
        known: &Dictionary,
        context: &PrepareContext<'_>,
    ) -> Result<Self> {
        let ranges = tokenise_probe(tokenizer, keys, known, context)?;
        let ranks: Vec<_> = ranges.iter().map(|_| Ranks::Below(known.len() as u32)).collect();
        Self::of(&ranges, &ranks, context.cancel)
    }

    /// The sets of all ranges, a thread a range.
    fn of(ranges: &[RowSets], ranks: &[Ranks], cancel: &Cancel) -> Result<Self> {
        let of_range = |(range, ranks)| Self::of_range(range, ranks, cancel);
        let mut parts = each_in_parallel(ranges.iter().zip(ranks), of_range);
        if parts.len() == 1 {
            cancel.check()?;
            return Ok(parts.remove(0));
        }
        let rows = parts.iter().map(|part| part.sketches.len()).sum();
        let ids = parts.iter().map(|part| part.ranks.len()).sum();
        let mut column = Self { sketches: Vec::with_capacity(rows), ranks: Vec::with_capacity(ids) };
        for Self { sketches, ranks } in parts {
            cancel.check()?;
            let before = column.ranks.len();
            column
                .sketches
                .extend(sketches.into_iter().map(|sketch| Sketch { start: before + sketch.start, ..sketch }));
            column.ranks.extend(ranks);
        }
        Ok(column)
    }

    /// A part; of no use once it is cancelled.
    fn of_range(range: &RowSets, ranks: &Ranks, cancel: &Cancel) -> Self {
        let mut column =
            Self { sketches: Vec::with_capacity(range.rows.len()), ranks: Vec::with_capacity(range.ids.len()) };
        for at in 0..range.rows.len() {
            if cancel.is_cancelled() {
                break;
            }
            let (ids, start) = (range.ids(at), column.ranks.len());
            column.ranks.extend(ids.iter().filter_map(|&id| ranks.get(id)));
            column.ranks[start..].sort_unstable();
            let signature = column.ranks[start..].iter().fold(0, |bits, rank| bits | 1 << bit(*rank));
            let known = (column.ranks.len() - start) as u32;
            column.sketches.push(Sketch { signature, start, known, size: ids.len() as u32 });
        }
        column
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.sketches.len() * size_of::<Sketch>() + self.ranks.capacity() * size_of::<u32>()
    }

    /// Whether a row is neither NULL nor blank.
    pub fn can_match(&self, row: usize) -> bool {
        self.sketches[row].size > 0
    }

    /// The signature and the class of a row.
    #[inline(always)]
    pub fn near(&self, row: u32) -> (u64, u32) {
        self.sketches[row as usize].near()
    }

    /// Puts what is first asked of `rows` side by side.
    pub fn gather(&self, rows: &[u32], lanes: &mut Lanes) {
        lanes.gather(rows, &self.sketches);
    }

    /// Rows as an engine other than the CPU takes them.
    pub fn rows(&self) -> AtomRows<'_> {
        let starts = self.sketches.iter().map(|sketch| sketch.start as u64).chain([self.ranks.len() as u64]).collect();
        let sizes = self.sketches.iter().map(|sketch| sketch.size).collect();
        AtomRows::Sets { near: prefilter::prefilter_rows(&self.sketches), starts, ranks: &self.ranks, sizes }
    }

    /// The mean number of known tokens a row.
    pub fn mean_size(&self) -> f64 {
        self.ranks.len() as f64 / self.sketches.len().max(1) as f64
    }

    #[inline]
    fn ranks(&self, sketch: Sketch) -> &[u32] {
        &self.ranks[sketch.start..sketch.start + sketch.known as usize]
    }
}

impl prefilter::Sketch for Sketch {
    #[inline(always)]
    fn near(self) -> (u64, u32) {
        (self.signature, if self.size == 0 { prefilter::NOTHING } else { prefilter::class(self.size) })
    }
}

/// Sizes of a build and a probe row.
#[inline(always)]
fn sizes(build: Sketch, probe: Sketch) -> Sizes {
    Sizes { build: build.size, probe: probe.size }
}

/// The bit of a token.
fn bit(rank: u32) -> u32 {
    rank.wrapping_mul(0x9E37_79B1) >> 26
}

impl ColumnPair<'_, SetColumn> {
    /// Sizes and signatures of two rows.
    #[inline]
    fn sketches(self, pair: RowPair) -> (Sketch, Sketch) {
        (self.build.sketches[pair.build as usize], self.probe.sketches[pair.probe as usize])
    }
}

/// A predicate, and what it allows.
#[derive(Debug)]
pub struct SetDecider {
    predicate: SetPredicate,
    /// Number of tokens in which sets may differ. It is computed when it is first asked for.
    allowance: OnceLock<MaxDifferences>,
}

impl SetDecider {
    /// Decides pairs by `predicate`, whose lower bound excludes the score 0.
    pub fn new(predicate: SetPredicate) -> Self {
        Self { predicate, allowance: OnceLock::new() }
    }

    /// The places of `selected` whose pair in `block` matches, appended to `passed`.
    pub fn select(&self, columns: ColumnPair<'_, SetColumn>, block: &Pairs, selected: &[u16], passed: &mut Vec<u16>) {
        let (first, ColumnPair { build, probe }) = (passed.len(), columns);
        keep(
            selected,
            passed,
            &Prefilter { allowance: self.allowance(), build: &build.sketches, probe: &probe.sketches, block },
        );
        let ahead = |place| {
            let pair = block.at(place);
            fetch(&build.ranks, build.sketches[pair.build as usize].start);
            fetch(&probe.ranks, probe.sketches[pair.probe as usize].start);
        };
        retain_from(passed, first, ahead, |place| self.verify(columns, block.at(place)));
    }

    /// Whether the overlap is likely to be computed for a pair of a build and a probe row: they share half of what they
    /// need. Signatures would say more, but their bits depend on the order in which tokens have come in.
    pub fn is_likely_open(&self, columns: ColumnPair<'_, SetColumn>, pair: RowPair) -> bool {
        let (build, probe) = columns.sketches(pair);
        let least = self.predicate.min_overlap(sizes(build, probe));
        let (of_build, of_probe) = (columns.build.ranks(build), columns.probe.ranks(probe));
        let shares = |least: u32| overlap_reaching(of_build, of_probe, least.div_ceil(2), false);
        build.size > 0 && probe.size > 0 && least.and_then(shares).is_some()
    }

    /// What sizes and signatures may differ in.
    pub fn allowance(&self) -> &MaxDifferences {
        let differing = |build: u32, probe: u32| {
            let least = self.predicate.min_overlap(Sizes { build, probe })?;
            Some(i64::from(build) + i64::from(probe) - 2 * i64::from(least))
        };
        self.allowance.get_or_init(|| MaxDifferences::new(differing))
    }

    /// The least overlap with which two sets match, `None` where there are not as many known tokens.
    #[inline]
    fn least(&self, build: Sketch, probe: Sketch) -> Option<u32> {
        let differing = (build.signature ^ probe.signature).count_ones();
        let shared = (u64::from(build.known) + u64::from(probe.known)).saturating_sub(u64::from(differing)) / 2;
        self.predicate.min_overlap(sizes(build, probe)).filter(|&least| u64::from(least) <= shared)
    }

    #[inline(never)]
    fn verify(&self, columns: ColumnPair<'_, SetColumn>, pair: RowPair) -> bool {
        let (build, probe) = columns.sketches(pair);
        let Some(least) = self.least(build, probe) else { return false };
        let unbounded = self.predicate.is_open_above();
        overlap_reaching(columns.build.ranks(build), columns.probe.ranks(probe), least, !unbounded)
            .is_some_and(|overlap| unbounded || self.predicate.accepts(overlap, sizes(build, probe)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;
    use crate::condition::Bounds;
    use crate::test_oracle::sets::measures;
    use similarity_measures::Overlap;

    #[test]
    fn no_column_is_half_made() {
        let texts = (0..2000).map(|row| Some(format!("a b {row}"))).collect::<StringArray>();
        let keys = KeyColumn { values: Arc::new(texts), groups: None };
        let cancel = Cancel::default();
        for threads in [1, 3] {
            let mut ranges = tokenise_build(Tokenizer::Words, &keys, threads, &Cancel::default(), &|_| Ok(())).unwrap();
            let (_, ranks, _) = rank(&mut ranges, false).unwrap();
            assert_eq!(ranges.len(), threads);
            assert_eq!(SetColumn::of(&ranges, &ranks, &Cancel::default()).unwrap().sketches.len(), 2000);
            cancel.cancel();
            assert!(SetColumn::of(&ranges, &ranks, &cancel).is_err());
        }
    }

    #[test]
    fn agrees_with_counting() {
        let texts: Vec<Option<String>> = (0..60u32)
            .map(|n| (n % 11 != 0).then(|| (0..n % 9).map(|w| format!("w{} ", (n * 7 + w * w) % 13)).collect()))
            .chain([Some((0..90).map(|w| format!("w{w} ")).collect())])
            .collect();
        let keys = KeyColumn { values: Arc::new(StringArray::from(texts.clone())) as ArrayRef, groups: None };
        let cancel = Cancel::default();
        let context = BuildContext::new(2, &cancel, &|_| Ok(()));
        let (build, dictionary) = SetColumn::build(Tokenizer::Words, &keys, &context).unwrap();
        let probe = SetColumn::probe(Tokenizer::Words, &keys, &dictionary, &PrepareContext::by(1)).unwrap();
        let words = |text: &Option<String>| -> std::collections::BTreeSet<String> {
            text.iter().flat_map(|t| t.split_whitespace().map(str::to_owned)).collect()
        };
        for measure in measures() {
            for bounds in [Bounds::at_least(0.5, true), Bounds::at_least(0.2, false).and(Bounds::at_most(0.6, true))] {
                let condition = SetDecider::new(SetPredicate { measure, bounds });
                for (i, left) in texts.iter().enumerate() {
                    for (j, right) in texts.iter().enumerate() {
                        let (a, b) = (words(left), words(right));
                        let (common, left, right) = (a.intersection(&b).count(), a.len(), b.len());
                        let score = measure.score(Overlap { common, left, right });
                        let expected = !a.is_empty() && !b.is_empty() && bounds.contains(score);
                        let mut passed = Vec::new();
                        let block = Pairs { build: vec![0, i as u32], probe: vec![0, j as u32] };
                        let columns = ColumnPair { build: &build, probe: &probe };
                        condition.select(columns, &block, &[1], &mut passed);
                        assert_eq!(!passed.is_empty(), expected, "{measure:?} {left:?} {right:?}");
                    }
                }
            }
        }
    }
}
