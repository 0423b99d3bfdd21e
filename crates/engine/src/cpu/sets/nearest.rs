//! The most similar sets of a build side for each set of a probe side.
//!
//! ```text
//! probe row: rarest tokens --> some sets, whose k-th score is a floor
//!            block by block of sets, those of its own size first:
//!                lists of its tokens --counts--> sets that share enough for the floor --> score
//!            then, where fewer than k share a token, rows that score 0, by their ranks
//! ```
//!
//! An inverted index lists every token, and lists are counted ([`counters`](super::counters)). What shares at least
//! `o` tokens stands in at least `o - l` of the lists that are left without the `l < o` longest ones; so the
//! longest are not read where the floor asks for much, and what remains is merged (DivideSkip; Li, Lu and Lu, ICDE
//! 2008). No measure falls when the overlap grows, but for rounding, which bounds cover. What cannot be better than the
//! k-th neighbour so far, ties included, is passed over. NULL has no score; blank sets score 0 with every set.

use std::ops::Range;
use std::sync::Mutex;

use crate::error::Result;

use super::bits::{self, Bits};
use super::counters::{BLOCK, Count, Counters};
use super::index::Arranged;
use super::lists::{TokenLists, first_below, last_from, within};
use super::overlap::overlap_reaching;
use super::requirements::reach;
use super::sorted::{Groups, SortedSets};
use crate::condition::Bounds;
use crate::cpu::kind::IndexKind;
use crate::nearest::{Best, FEW_AT_ONCE, NearestIndex, Neighbour, float_key, float_of_key};
use crate::sets::dictionary::Dictionary;
use crate::sets::predicate::{Role, SetPredicate, Sizes};
use crate::sets::rows_by_rank::{RowsByRank, group_of, scored_rows};
use crate::sets::tokenise::tokenise_build;
use crate::stored::{Sink, Source, Store, Stored};
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
    lists: TokenLists,
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
        let ranges = tokenise_build(tokenizer, keys, context.threads, context.cancel, context.reserve)?;
        let arranged = Arranged::of(ranges, keys.groups.as_deref(), FINENESS, context)?;
        let Arranged { dictionary, bits, sets, tokens } = arranged;
        let lists = TokenLists::build(&sets, tokens, context)?;
        let of_scratch = context.threads * Counters::<u8>::memory(sets.len());
        (context.reserve)(of_scratch)?;
        (context.reserve)(RowsByRank::size(keys.values.len()))?;
        let scored = RowsByRank::of(keys, ranks);
        let (groups, largest, scratch) = (Groups::of(&sets), sets.largest(), Mutex::default());
        let of_sets = sets.memory() + groups.memory() + dictionary.memory() + lists.memory() + of_scratch;
        let info = IndexInfo {
            path: format!("inverted index of {} tokens over {} sets", dictionary.len(), sets.len()),
            bytes: of_sets + scored.memory(),
            unmatchable: scored.unmatchable(),
            ..IndexInfo::default()
        };
        Ok(Self { tokenizer, measure, dictionary, bits, sets, largest, groups, lists, scored, info, scratch })
    }

    fn take_scratch(&self) -> Scratch {
        self.scratch.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default()
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

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
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

impl Store for NearestSets {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Sets.store(sink)?;
        let Self { dictionary, bits, sets, lists, scored, info, .. } = self;
        dictionary.store(sink)?;
        bits.store(sink)?;
        sets.store(sink)?;
        lists.store(sink)?;
        scored.store(sink)?;
        info.store(sink)
    }
}

impl NearestSets {
    /// Reads the index of [`try_new`](Self::try_new) with the same arguments.
    ///
    /// # Errors
    /// Bytes that are no such index.
    pub fn load(
        tokenizer: Tokenizer,
        measure: SetMeasure,
        source: &mut Source<'_>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let dictionary = Dictionary::load(source, context.threads)?;
        let bits = Bits::load(source)?;
        let sets = SortedSets::load(source)?;
        let (lists, scored, info) = (Stored::load(source)?, Stored::load(source)?, Stored::load(source)?);
        let (groups, largest, scratch) = (Groups::of(&sets), sets.largest(), Mutex::default());
        Ok(Self { tokenizer, measure, dictionary, bits, sets, largest, groups, lists, scored, info, scratch })
    }
}

impl NearestIndex for NearestSets {
    fn positions_at_once(&self, _: Probe<'_, PreparedSets>, _: usize) -> Result<usize> {
        Ok(FEW_AT_ONCE)
    }

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
            let Scratch { cursors, bytes, words } = scratch;
            let mut row = RowSearch::new(self, probe, position, best);
            match row.tokens.len() <= usize::from(u8::MAX) {
                true => row.run(cursors, bytes, cancel),
                false => row.run(cursors, words, cancel),
            }
            counts.candidates += row.counts.candidates;
            counts.verified += row.counts.verified;
            self.scored.offer_disjoint(probe.groups[position], best);
        }
        counts
    }
}

/// Memory that searching needs over and over.
#[derive(Debug, Default)]
struct Scratch {
    cursors: Vec<ListCursor>,
    /// Counters for sets of up to 255 tokens.
    bytes: Counters<u8>,
    words: Counters<u32>,
}

/// How far a token's list has been read, upwards and downwards from where the sets have the size of the probe row.
#[derive(Debug, Clone, Copy)]
struct ListCursor {
    token: u32,
    /// The part of the list whose sets are in the group of the probe row.
    start: usize,
    end: usize,
    /// Everything before is below the blocks that come upwards.
    up: usize,
    /// Everything from here on is above the blocks that come downwards.
    down: usize,
}

/// Neighbours of a row, times this, and [`SEEDS`] besides, are scored for the first floor.
const SEEDS_EACH: usize = 4;
const SEEDS: usize = 64;
/// Positions for each posting from which on lists are short.
const SHORT: usize = 128;
/// Time of scoring a candidate by its tokens, in that of counting a posting.
const MERGE: f64 = 25.0;
/// Terms of the estimate of how many sets reach a count.
const TAIL: u32 = 16;
/// How many times as often tokens occur together as they would by chance.
const CLUSTERED: f64 = 8.0;

/// A probe row whose neighbours are sought.
struct RowSearch<'a> {
    index: &'a NearestSets,
    /// The signature of the row with its tokens and bits.
    signature: (&'a [u64], (u32, u32)),
    /// Tokens that some build row has, the rarest first.
    tokens: &'a [u32],
    size: u32,
    /// How many positions are in the group of the row.
    group_len: usize,
    best: &'a mut Best<i64>,
    /// The positions whose sizes allow for a score as good as the floor,
    partners: Range<usize>,
    /// the least of these sizes,
    low: u32,
    /// the overlap that this takes at least,
    least: u32,
    /// and that score, where there is one.
    floor: Option<i64>,
    counts: Counts,
}

impl<'a> RowSearch<'a> {
    fn new(index: &'a NearestSets, probe: &'a SortedSets, position: usize, best: &'a mut Best<i64>) -> Self {
        let partners = index.groups.positions(probe.groups[position]);
        Self {
            index,
            signature: (probe.signature(position), probe.weight(position)),
            tokens: probe.tokens(position),
            size: probe.sizes[position],
            group_len: partners.len(),
            best,
            partners,
            low: 1,
            least: 1,
            floor: None,
            counts: Counts::default(),
        }
    }

    #[inline(always)]
    fn run<C: Count>(&mut self, cursors: &mut Vec<ListCursor>, counters: &mut Counters<C>, cancel: &Cancel) {
        let lists = &self.index.lists;
        let own = self.partners.clone();
        cursors.clear();
        cursors.extend(self.tokens.iter().map(|&token| {
            let Range { start, end } = within(lists.list(token), &own);
            ListCursor { token, start, end, up: start, down: end }
        }));
        let postings: usize = cursors.iter().map(|cursor| cursor.end - cursor.start).sum();
        let seeds = SEEDS.saturating_add(self.best.wanted().rows.saturating_mul(SEEDS_EACH));
        if postings / 2 > seeds {
            self.seed(cursors, counters, seeds);
        }
        self.narrow();
        let counted = self.counted(cursors, self.least);
        let short: usize = cursors[..counted].iter().map(|cursor| cursor.end - cursor.start).sum();
        if short * SHORT <= own.len() {
            self.at_once(&cursors[..counted], counters);
        } else {
            self.by_blocks(cursors, own, counters, cancel);
        }
    }

    /// Finds a floor: the k-th score of some sets that share the rarest tokens.
    fn seed<C: Count>(&mut self, cursors: &[ListCursor], counters: &mut Counters<C>, seeds: usize) {
        let (index, mut left) = (self.index, seeds);
        for cursor in cursors {
            let list = &index.lists.list(cursor.token)[cursor.start..cursor.end];
            // sets of about the same size are the likeliest to be similar
            let middle = list.partition_point(|&position| index.sets.sizes[position as usize] < self.size);
            let from = middle.saturating_sub(left / 2).min(list.len().saturating_sub(left));
            let some = &list[from..list.len().min(from + left)];
            counters.add(some, index.sets.len());
            left -= some.len();
            if left == 0 {
                break;
            }
        }
        let mut best = Best::new(self.best.wanted());
        counters.drain(1, |position, _| {
            if let Some(neighbour) = self.merged(position as usize) {
                best.offer(neighbour);
            }
            1
        });
        self.floor = best.worst().map(|worst| worst.score);
        if let Some(floor) = self.floor {
            self.narrow_to(floor);
        }
    }

    /// Leaves out what can be no neighbour as far as the neighbours so far tell. Whether that is more than before.
    #[inline]
    fn narrow(&mut self) -> bool {
        match self.best.worst().map(|worst| worst.score) {
            Some(worst) if self.floor.is_none_or(|floor| worst < floor) => {
                self.floor = Some(worst);
                self.narrow_to(worst);
                true
            }
            _ => false,
        }
    }

    fn narrow_to(&mut self, floor: i64) {
        let reach = reach(&self.reaching(floor), Role::Probe, self.size, self.index.largest);
        let sizes = &self.index.sets.sizes[self.partners.clone()];
        let low = sizes.partition_point(|&size| size < reach.low);
        let high = sizes.partition_point(|&size| size <= reach.high).max(low);
        self.partners = self.partners.start + low..self.partners.start + high;
        (self.low, self.least) = (reach.low, reach.least);
    }

    /// The overlap that a score as good as the floor takes at least with sets of at least so many tokens.
    fn least_from(&self, smallest: u32) -> u32 {
        match self.floor {
            None => 1,
            Some(_) if self.partners.is_empty() => u32::MAX,
            Some(floor) => {
                let smallest = smallest.max(self.low);
                self.reaching(floor).least_overlap(Role::Probe, self.size, smallest).unwrap_or(u32::MAX)
            }
        }
    }

    fn reaching(&self, floor: i64) -> SetPredicate {
        self.index.at_least(float_of_key(!floor))
    }

    /// How many lists are counted, the shortest ones, where neighbours share at least `least` tokens: as many as take
    /// the least time together with merging what they lead to.
    fn counted(&self, cursors: &[ListCursor], least: u32) -> usize {
        let positions = self.group_len.max(1) as f64;
        let all = cursors.len();
        let (mut cheapest, mut counted) = (f64::INFINITY, all);
        let mut postings: usize = cursors.iter().map(|cursor| cursor.end - cursor.start).sum();
        for left_out in 0..least.min(all as u32) {
            let needed = least - left_out;
            let mean = postings as f64 / positions;
            // the tail of a Poisson distribution, as if tokens were dealt out at random
            let tail = (1..=needed.min(TAIL)).fold(CLUSTERED, |tail, count| tail * mean / f64::from(count));
            let merged = tail.min(mean / f64::from(needed)) * positions;
            let cost = postings as f64 + if left_out == 0 { 0.0 } else { MERGE * merged };
            if cost < cheapest {
                (cheapest, counted) = (cost, all - left_out as usize);
            }
            let longest = cursors[all - 1 - left_out as usize];
            postings -= longest.end - longest.start;
        }
        counted
    }

    /// Offers what a few short lists lead to, of all positions at once.
    fn at_once<C: Count>(&mut self, counted: &[ListCursor], counters: &mut Counters<C>) {
        let index = self.index;
        let left_out = (self.tokens.len() - counted.len()) as u32;
        if self.least > self.tokens.len() as u32 {
            return;
        }
        for cursor in counted {
            let list = &index.lists.list(cursor.token)[cursor.start..cursor.end];
            counters.add(&list[within(list, &self.partners)], index.sets.len());
        }
        counters.drain(self.least.saturating_sub(left_out).max(1), |position, count| {
            self.decide(position as usize, count, left_out);
            self.narrow();
            self.least.saturating_sub(left_out).max(1)
        });
    }

    /// Offers what the lists lead to, block by block of the row's `own` positions, those of its size first.
    #[inline(always)]
    fn by_blocks<C: Count>(
        &mut self,
        cursors: &mut [ListCursor],
        own: Range<usize>,
        counters: &mut Counters<C>,
        cancel: &Cancel,
    ) {
        let sizes = &self.index.sets.sizes[own.clone()];
        let middle = own.start + sizes.partition_point(|&size| size < self.size);
        for cursor in cursors.iter_mut() {
            let list = &self.index.lists.list(cursor.token)[cursor.start..cursor.end];
            cursor.up = cursor.start + list.partition_point(|&position| (position as usize) < middle);
            cursor.down = cursor.up;
        }
        let (mut above, mut below) = (middle, middle);
        while !cancel.is_cancelled() {
            self.narrow();
            let start = above.max(self.partners.start);
            let is_above = start < self.partners.end;
            if is_above {
                above = self.partners.end.min(start + BLOCK);
                self.block(cursors, start..above, true, counters);
            }
            let end = below.min(self.partners.end);
            let is_below = self.partners.start < end;
            if is_below {
                below = self.partners.start.max(end.saturating_sub(BLOCK));
                self.block(cursors, below..end, false, counters);
            }
            if !(is_above || is_below) || self.least as usize > cursors.len() {
                return;
            }
        }
    }

    /// Offers what the lists lead to within a block, above those that have been read before or below them.
    #[inline(always)]
    fn block<C: Count>(
        &mut self,
        cursors: &mut [ListCursor],
        block: Range<usize>,
        is_above: bool,
        counters: &mut Counters<C>,
    ) {
        let index = self.index;
        let smallest = index.sets.sizes[block.start];
        let mut least = self.least_from(smallest);
        if least as usize > cursors.len() {
            return;
        }
        let counted = self.counted(cursors, least);
        let left_out = (cursors.len() - counted) as u32;
        for cursor in &mut cursors[..counted] {
            let list = index.lists.list(cursor.token);
            let within = if is_above {
                let start = cursor.up + first_below(&list[cursor.up..cursor.end], block.start);
                cursor.up = start + first_below(&list[start..cursor.end], block.end);
                start..cursor.up
            } else {
                let end = cursor.down - last_from(&list[cursor.start..cursor.down], block.end);
                cursor.down = end - last_from(&list[cursor.start..end], block.start);
                cursor.down..end
            };
            counters.add_to_block(&list[within], block.start as u32);
        }
        let needed = |least: u32| least.saturating_sub(left_out).max(1);
        counters.drain_block(block.start as u32, needed(least), |position, count| {
            self.decide(position as usize, count, left_out);
            if self.narrow() {
                least = self.least_from(smallest);
            }
            needed(least)
        });
    }

    /// Offers a set that stands in `count` of the lists that were counted; `left_out` were not.
    #[inline(always)]
    fn decide(&mut self, position: usize, count: u32, left_out: u32) {
        self.counts.candidates += 1;
        let (sizes, row) = (self.sizes(position), self.index.sets.rows[position]);
        if left_out == 0 {
            let neighbour = self.index.neighbour(count, sizes, row);
            if self.best.takes(&neighbour) {
                self.best.offer(neighbour);
            }
            return;
        }
        let most = (count + left_out).min(self.index.sets.known(position));
        if !self.is_wanted(most, sizes, row) {
            return;
        }
        let build = &self.index.sets;
        let shared = bits::most_overlap(self.signature, (build.signature(position), build.weight(position)));
        if shared < most && !self.is_wanted(shared, sizes, row) {
            return;
        }
        if let Some(neighbour) = self.merged(position) {
            self.best.offer(neighbour);
        }
    }

    /// A set by the tokens that it shares; none where it shares none.
    fn merged(&mut self, position: usize) -> Option<Neighbour<i64>> {
        self.counts.verified += 1;
        let overlap = overlap_reaching(self.tokens, self.index.sets.tokens(position), 1, true)?;
        Some(self.index.neighbour(overlap, self.sizes(position), self.index.sets.rows[position]))
    }

    #[inline]
    fn sizes(&self, position: usize) -> Sizes {
        Sizes { build: self.index.sets.sizes[position], probe: self.size }
    }

    /// Whether a row would be kept if it shared `overlap` tokens.
    #[inline]
    fn is_wanted(&self, overlap: u32, sizes: Sizes, row: u32) -> bool {
        let neighbour = self.index.at_best(overlap, sizes, row);
        self.floor.is_none_or(|floor| neighbour.score <= floor) && self.best.takes(&neighbour)
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

    /// Rows of one side: their texts and groups.
    type Side<'a> = (&'a Values, &'a Option<Vec<u32>>);

    /// Whether the index gives what scoring all pairs of rows gives.
    fn check(build: Side<'_>, probe: Side<'_>, measure: SetMeasure, ranks: &[u32], wanted: Wanted) {
        let cancel = Cancel::default();
        let context = BuildContext::new(2, &cancel, &|_| Ok(()));
        let build_keys = keys(build.0, build.1);
        let index = NearestSets::try_new(Tokenizer::Words, measure, &build_keys, ranks.to_vec(), &context).unwrap();
        let prepared = index.prepare(&keys(probe.0, probe.1), &PrepareContext::by(1)).unwrap();
        let order = index.order(Probe::Batch(&prepared.batch)).unwrap();
        let mut best: Vec<_> = order.iter().map(|_| Best::new(wanted)).collect();
        let positions: Vec<u32> = (0..order.len() as u32).collect();
        index.nearest(Probe::Batch(&prepared.batch), &positions, &mut best, &cancel).unwrap();
        let sets: Vec<_> = build.0.iter().map(|text| text.as_deref().map(words)).collect();
        let mut searched = BTreeSet::new();
        for (&row, best) in order.iter().zip(&mut best) {
            assert!(searched.insert(row), "row {row} is searched twice");
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            best.take_into(&mut found);
            let own = words(probe.0[row as usize].as_ref().expect("NULL is not searched"));
            for (other, set) in sets.iter().enumerate() {
                let Some(set) = set else { continue };
                let together = match (build.1, probe.1) {
                    (Some(build), Some(probe)) => build[other] == probe[row as usize],
                    _ => true,
                };
                let overlap = Overlap { common: own.intersection(set).count(), left: set.len(), right: own.len() };
                if together {
                    let score = !float_key(measure.score(overlap));
                    expected.push(Neighbour { score, rank: ranks[other], row: other as u32 });
                }
            }
            expected.sort_unstable();
            expected.truncate(wanted.of(&expected));
            assert_eq!(found, expected, "{measure:?} {wanted:?}");
        }
        let has_score = |row: usize| probe.0[row].is_some() && probe.1.as_ref().is_none_or(|g| g[row] != NO_GROUP);
        let rows = probe.0.len();
        assert_eq!(searched.len(), (0..rows).filter(|&row| has_score(row)).count());
        assert_eq!(prepared.unmatchable, rows - searched.len());
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
            let wanted = Wanted { rows: [1, 2, 5, 1000][rng.random_range(0..4)], ties: rng.random_bool(0.5) };
            check((&build, &build_groups), (&probe, &probe_groups), measure, &ranks, wanted);
        }
    }

    /// Texts of frequent and of rare words, some of them hundreds, each with a copy that differs in a few words.
    fn copies(rows: usize, rng: &mut StdRng) -> Values {
        let mut texts: Vec<Vec<u32>> = Vec::new();
        for row in 0..rows {
            let text = match row % 2 {
                0 => {
                    let (rare, frequent) = [(3, 6), (2, 1), (40, 300)][if row % 50 == 0 { 2 } else { row / 2 % 2 }];
                    let rare: Vec<u32> = (0..rare).map(|_| rng.random_range(1000..200_000)).collect();
                    (0..frequent).map(|_| rng.random_range(0..frequent * 2)).chain(rare).collect()
                }
                _ => {
                    let mut copy = texts[row - 1].clone();
                    copy.iter_mut().step_by(5).for_each(|word| *word = rng.random_range(0..200_000));
                    copy
                }
            };
            texts.push(text);
        }
        texts.iter().map(|text| Some(text.iter().map(|word| format!("w{word} ")).collect())).collect()
    }

    #[test]
    fn finds_copies_among_frequent_tokens() {
        let mut rng = StdRng::seed_from_u64(8);
        let build = copies(2000, &mut rng);
        let probe: Values = build.iter().step_by(25).cloned().collect();
        let ranks: Vec<u32> = (0..2000).map(|_| rng.random_range(0..500)).collect();
        for measure in measures() {
            for wanted in [Wanted { rows: 1, ties: true }, Wanted { rows: 3, ties: false }] {
                check((&build, &None), (&probe, &None), measure, &ranks, wanted);
            }
        }
    }
}
