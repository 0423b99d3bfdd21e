//! The most similar sets of a build side for each set of a probe side.
//!
//! ```text
//! probe row: tokens, rarest first --lists--> positions not met before --bounds, signatures--> overlap, score
//!            until no set without an earlier token can be as similar as the k-th so far
//!            then, where fewer than k share a token, rows that score 0, by their ranks
//! ```
//!
//! It is a prefix index that lists every token: how many of a row's tokens are looked up depends on what has been found
//! (top-k joins with adaptive prefixes; Xiao, Wang, Lin, Shang, ICDE 2009). A position that is first met at the `i`-th
//! known token of the probe row and the `j`-th of its own shares at most the tokens from there on, which with the sizes
//! bounds the score: no measure falls when the overlap grows, but for rounding, which the bound covers. What cannot be
//! better than the k-th neighbour so far, ties included, is passed over. NULL has no score; blank sets score 0 with
//! every set.

use std::ops::Range;
use std::sync::Mutex;

use crate::error::Result;

use super::bits::{self, Bits};
use super::index::Arranged;
use super::join::{Path, Scratch};
use super::overlap::overlap_reaching;
use super::prefix::{Posting, PrefixIndex};
use super::requirements::reach;
use super::sorted::{Groups, SortedSets};
use crate::condition::Bounds;
use crate::nearest::{Best, NearestIndex, Neighbour, float_key, float_of_key};
use crate::sets::dictionary::Dictionary;
use crate::sets::predicate::{Role, SetPredicate, Sizes};
use crate::sets::rows_by_rank::{RowsByRank, group_of, scored_rows};
use crate::{BuildContext, Cancel, Counts, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};
use similarity_measures::{SetMeasure, Tokenizer};

/// Signatures are longer than those of threshold joins, for neighbours may have little in common.
const FINENESS: f64 = 2.0;

/// A build side's sets, ready for being ranked.
#[derive(Debug)]
pub struct NearestSets {
    tokenizer: Tokenizer,
    measure: SetMeasure,
    dictionary: Dictionary,
    bits: Bits,
    sets: SortedSets,
    /// The size of the largest set.
    largest: u32,
    groups: Groups,
    index: PrefixIndex,
    scored: RowsByRank,
    info: IndexInfo,
    /// One for each probing thread, once it has returned.
    scratch: Mutex<Vec<Scratch>>,
}

impl NearestSets {
    /// Makes the sets of `keys`, each row with a rank, ready for being ranked by `measure`.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, more rows or tokens than 32 bits can number, a refused reservation,
    /// a cancelled build.
    pub fn try_new(
        tokenizer: Tokenizer,
        measure: SetMeasure,
        keys: &KeyColumn,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let Arranged { dictionary, bits, sets, tokens } = Arranged::build(tokenizer, keys, FINENESS, context)?;
        let shares_some = SetPredicate { measure, bounds: Bounds::at_least(0.0, false) };
        let index = PrefixIndex::build(&sets, tokens, shares_some, false, context.reserve)?;
        (context.reserve)(RowsByRank::size(keys.values.len()))?;
        let scored = RowsByRank::of(keys, ranks);
        let (groups, largest, scratch) = (Groups::of(&sets), sets.largest(), Mutex::default());
        let of_sets = sets.memory() + groups.memory() + dictionary.memory() + index.memory();
        let info = IndexInfo {
            path: format!("inverted index of {} tokens over {} sets", dictionary.len(), sets.len()),
            bytes: of_sets + scored.memory(),
            unmatchable: scored.unmatchable(),
            ..IndexInfo::default()
        };
        Ok(Self { tokenizer, measure, dictionary, bits, sets, largest, groups, index, scored, info, scratch })
    }

    fn take_scratch(&self) -> Scratch {
        let pooled = self.scratch.lock().ok().and_then(|mut pool| pool.pop());
        pooled.unwrap_or_else(|| Scratch::new(self.at_least(0.0), self.largest))
    }

    fn at_least(&self, score: f64) -> SetPredicate {
        SetPredicate { measure: self.measure, bounds: Bounds::at_least(score, true) }
    }

    fn neighbour(&self, overlap: u32, sizes: Sizes, row: u32) -> Neighbour<i64> {
        self.scored(self.at_least(0.0).score(overlap, sizes), row)
    }

    /// A neighbour that shares up to `overlap` tokens, with a score that it does not exceed.
    fn at_best(&self, overlap: u32, sizes: Sizes, row: u32) -> Neighbour<i64> {
        self.scored(self.at_least(0.0).most_score(overlap, sizes), row)
    }

    fn scored(&self, score: f64, row: u32) -> Neighbour<i64> {
        Neighbour { score: !float_key(score), rank: self.scored.rank(row), row }
    }
}

impl Index for NearestSets {
    type Batch = PreparedSets;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedSets>> {
        let sets = Arranged::probe(self.tokenizer, self.bits, keys, &self.dictionary, context)?;
        let mut order = sets.rows.clone();
        let mut has_tokens = vec![false; keys.values.len()];
        order.iter().for_each(|&row| has_tokens[row as usize] = true);
        order.extend(scored_rows(keys).into_iter().filter(|&row| !has_tokens[row as usize]));
        let others = order[sets.len()..].iter().map(|&row| group_of(keys, row)).collect();
        let (len, unmatchable) = (order.len(), keys.values.len() - order.len());
        Ok(Prepared::new(PreparedSets { sets, order, others }, len, unmatchable))
    }
}

impl NearestIndex for NearestSets {
    fn order<'a>(&'a self, probe: Probe<'a, PreparedSets>) -> Result<&'a [u32]> {
        Ok(&probe.batch()?.order)
    }

    fn nearest(
        &self,
        probe: Probe<'_, PreparedSets>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let probe = probe.batch()?;
        let mut scratch = self.take_scratch();
        let counts = self.search(probe, positions, best, &mut scratch, cancel);
        if let Ok(mut pool) = self.scratch.lock() {
            pool.push(scratch);
        }
        Ok(counts)
    }
}

impl NearestSets {
    /// [`search_rows`](Self::search_rows), with the instruction that counts bits where the machine has it.
    fn search(
        &self,
        probe: &PreparedSets,
        positions: &[u32],
        best: &mut [Best<i64>],
        scratch: &mut Scratch,
        cancel: &Cancel,
    ) -> Counts {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            #[target_feature(enable = "popcnt")]
            fn counting(
                index: &NearestSets,
                probe: &PreparedSets,
                positions: &[u32],
                best: &mut [Best<i64>],
                scratch: &mut Scratch,
                cancel: &Cancel,
            ) -> Counts {
                index.search_rows(probe, positions, best, scratch, cancel)
            }
            // SAFETY: the feature has been detected.
            return unsafe { counting(self, probe, positions, best, scratch, cancel) };
        }
        self.search_rows(probe, positions, best, scratch, cancel)
    }

    #[inline(always)]
    fn search_rows(
        &self,
        PreparedSets { sets: probe, others, .. }: &PreparedSets,
        positions: &[u32],
        best: &mut [Best<i64>],
        scratch: &mut Scratch,
        cancel: &Cancel,
    ) -> Counts {
        let mut counts = Counts::default();
        for (&position, best) in positions.iter().zip(best) {
            if cancel.is_cancelled() {
                break;
            }
            let position = position as usize;
            if position >= probe.len() {
                self.scored.offer_disjoint(others[position - probe.len()], best);
                continue;
            }
            let mut walk = Walk::new(self, probe, position, best, scratch);
            walk.run(cancel);
            counts.candidates += walk.counts.candidates;
            counts.verified += walk.counts.verified;
            self.scored.offer_disjoint(probe.groups[position], best);
        }
        counts
    }
}

/// A probe row on its way through the lists of its tokens.
struct Walk<'a> {
    index: &'a NearestSets,
    probe: &'a SortedSets,
    position: usize,
    size: u32,
    best: &'a mut Best<i64>,
    scratch: &'a mut Scratch,
    /// The positions whose sizes allow for a score as good as the worst kept one,
    partners: Range<usize>,
    /// the overlap that this takes at least,
    least: u32,
    /// and that score.
    floor: Option<i64>,
    counts: Counts,
}

impl<'a> Walk<'a> {
    fn new(
        index: &'a NearestSets,
        probe: &'a SortedSets,
        position: usize,
        best: &'a mut Best<i64>,
        scratch: &'a mut Scratch,
    ) -> Self {
        scratch.next_step(index.sets.len());
        let partners = index.groups.positions(probe.groups[position]);
        let (size, counts) = (probe.sizes[position], Counts::default());
        Self { index, probe, position, size, best, scratch, partners, least: 1, floor: None, counts }
    }

    #[inline(always)]
    fn run(&mut self, cancel: &Cancel) {
        let tokens = self.probe.tokens(self.position);
        for (place, &token) in tokens.iter().enumerate() {
            self.narrow();
            if tokens.len() - place < self.least as usize || self.partners.is_empty() || cancel.is_cancelled() {
                return;
            }
            let (index, sizes) = (&self.index.index, &self.index.sets.sizes);
            let list = index.list(token, &self.partners);
            // sets of about the same size are the likeliest to be similar
            let (smaller, others) = list.split_at(list.partition_point(|p| sizes[p.position as usize] < self.size));
            for posting in others {
                self.meet(place, posting);
            }
            for posting in smaller.iter().rev() {
                self.meet(place, posting);
            }
        }
    }

    /// Leaves out what can be no neighbour as far as the neighbours so far tell.
    fn narrow(&mut self) {
        let floor = self.best.worst().map(|worst| worst.score);
        let Some(score) = floor.filter(|_| floor != self.floor) else { return };
        self.floor = floor;
        let sets = &self.index.sets;
        let predicate = self.index.at_least(float_of_key(!score));
        let reach = reach(&predicate, Role::Probe, self.size, self.index.largest);
        let sizes = &sets.sizes[self.partners.clone()];
        let low = sizes.partition_point(|&size| size < reach.low);
        let high = sizes.partition_point(|&size| size <= reach.high).max(low);
        self.partners = self.partners.start + low..self.partners.start + high;
        self.least = reach.least;
    }

    /// Offers a set that the row's token at `place` has led to.
    #[inline(always)]
    fn meet(&mut self, place: usize, posting: &Posting) {
        let position = posting.position as usize;
        if !self.scratch.is_first_meeting(position) {
            return;
        }
        self.counts.candidates += 1;
        let (build, probe) = (&self.index.sets, self.probe);
        let sizes = Sizes { build: build.sizes[position], probe: self.size };
        let row = build.rows[position];
        let rest = probe.known(self.position) - place as u32;
        let most = rest.min(posting.rest);
        if !self.is_wanted(most, sizes, row) {
            return;
        }
        let shared = bits::most_overlap(
            (probe.signature(self.position), probe.weight(self.position)),
            (build.signature(position), build.weight(position)),
        );
        if shared < most && !self.is_wanted(shared, sizes, row) {
            return;
        }
        self.counts.verified += 1;
        let from = (build.known(position) - posting.rest) as usize;
        let (self_join, others) = (&probe.tokens(self.position)[place..], &build.tokens(position)[from..]);
        if let Some(overlap) = overlap_reaching(self_join, others, 1, true) {
            self.best.offer(self.index.neighbour(overlap, sizes, row));
        }
    }

    /// Whether a row would be kept if it shared `overlap` tokens.
    #[inline]
    fn is_wanted(&self, overlap: u32, sizes: Sizes, row: u32) -> bool {
        self.best.worst().is_none() || self.best.takes(&self.index.at_best(overlap, sizes, row))
    }
}

/// A batch of the probe side.
#[derive(Debug)]
pub struct PreparedSets {
    sets: SortedSets,
    /// The rows that share a token with some build row, then the others that have a score.
    order: Vec<u32>,
    /// The group of each of those others.
    others: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use arrow::array::StringArray;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::NO_GROUP;
    use crate::nearest::Wanted;
    use crate::test_oracle::sets::measures;
    use similarity_measures::Overlap;
    use similarity_measures::word_tokens::word_tokens;

    type Values = Vec<Option<String>>;

    /// Strings of words that are the rarer the higher their numbers, blanks and NULLs among them.
    fn strings(rows: usize, words: u32, rng: &mut StdRng) -> Values {
        let mut text = || {
            let count = [0, 1, 2, 3, 8, 30][rng.random_range(0..6)];
            let word = |rng: &mut StdRng| {
                let high = rng.random_range(1..=words);
                rng.random_range(0..high)
            };
            (0..count).map(|_| format!("w{} ", word(rng))).collect::<String>()
        };
        let mut texts: Values = (0..rows).map(|_| Some(text())).collect();
        texts.iter_mut().step_by(11).for_each(|text| *text = None);
        texts
    }

    fn words(text: &str) -> BTreeSet<String> {
        let mut words = BTreeSet::new();
        word_tokens(text, &mut String::new(), |word| {
            words.insert(word.to_owned());
        });
        words
    }

    fn keys(values: &Values, groups: &Option<Vec<u32>>) -> KeyColumn {
        KeyColumn { values: Arc::new(StringArray::from(values.clone())), groups: groups.clone() }
    }

    #[test]
    fn finds_what_scoring_all_finds() {
        let mut rng = StdRng::seed_from_u64(7);
        let measures: Vec<_> = measures().collect();
        for case in 0..480 {
            let measure = measures[case / 2 % measures.len()];
            let (rows, vocabulary) = ([0, 3, 60, 300][rng.random_range(0..4)], [2, 20, 200][rng.random_range(0..3)]);
            let (build, probe) = (strings(rows, vocabulary, &mut rng), strings(30, vocabulary + 1, &mut rng));
            let grouped = case % 2 == 1;
            let mut groups = |rows: usize| -> Option<Vec<u32>> {
                grouped.then(|| (0..rows).map(|_| [0, 1, 2, NO_GROUP][rng.random_range(0..4)]).collect())
            };
            let (build_groups, probe_groups) = (groups(rows), groups(30));
            let ranks: Vec<u32> = (0..rows).map(|_| rng.random_range(0..9)).collect();
            let cancel = Cancel::default();
            let context = BuildContext::new(2, &cancel, &|_| Ok(()));
            let build_keys = keys(&build, &build_groups);
            let index = NearestSets::try_new(Tokenizer::Words, measure, &build_keys, ranks.clone(), &context).unwrap();
            let prepared = index.prepare(&keys(&probe, &probe_groups), &PrepareContext::by(1)).unwrap();
            let wanted = Wanted { rows: [1, 2, 5, 1000][rng.random_range(0..4)], ties: rng.random_bool(0.5) };
            let order = index.order(Probe::Batch(&prepared.batch)).unwrap();
            let mut best: Vec<_> = order.iter().map(|_| Best::new(wanted)).collect();
            let positions: Vec<u32> = (0..order.len() as u32).collect();
            index.nearest(Probe::Batch(&prepared.batch), &positions, &mut best, &cancel).unwrap();
            let mut searched = BTreeSet::new();
            for (&row, best) in order.iter().zip(&mut best) {
                assert!(searched.insert(row), "row {row} is searched twice");
                let mut expected = Vec::new();
                let mut found = Vec::new();
                best.take_into(&mut found);
                let self_join = words(probe[row as usize].as_ref().expect("NULL is not searched"));
                for (other, text) in build.iter().enumerate() {
                    let Some(text) = text else { continue };
                    let together = match (&build_groups, &probe_groups) {
                        (Some(build), Some(probe)) => build[other] == probe[row as usize],
                        _ => true,
                    };
                    let others = words(text);
                    let (common, left, right) =
                        (self_join.intersection(&others).count(), others.len(), self_join.len());
                    let score = measure.score(Overlap { common, left, right });
                    if together {
                        expected.push(Neighbour { score: !float_key(score), rank: ranks[other], row: other as u32 });
                    }
                }
                expected.sort_unstable();
                expected.truncate(wanted.of(&expected));
                assert_eq!(found, expected, "case {case}: {measure:?} {wanted:?}");
            }
            let has_score =
                |row: usize| probe[row].is_some() && probe_groups.as_ref().is_none_or(|groups| groups[row] != NO_GROUP);
            assert_eq!(searched.len(), (0..30).filter(|&row| has_score(row)).count());
            assert_eq!(prepared.unmatchable, 30 - searched.len());
        }
    }
}
