//! The sets of a build side on a device, and the probe batches that it makes ready.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::access::Access;
use super::build_side::{BuildSide, describe_tiles};
use super::columns::SetColumns;
use super::condition::set_test;
use super::posting_lists::PostingLists;
use super::prefixes::{Pays, Postings};
use super::sorted::{SortedSets, signature_words};
use crate::block_ranges::{BlockRanges, BlockShape};
use crate::fault::Fault;
use crate::kernels::{
    Appended, BLOCK, FrequentTokens, MOST_FREQUENT, Positions, PrefixRanges, SetCondition, SetSides, SetSigner,
    TaskList, WORDS_OF_FREQUENT,
};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate};
use crate::scheduler::Scheduler;
use crate::tiled_index::{Batch, BatchOf, Build, TiledIndex};
use crate::worker::{Capacity, Comparison, WORKERS, Workers};
use similarity_engine::sets::ranks::Ranks;
use similarity_engine::sets::tokenise::tokenise_probe;
use similarity_engine::sets::{Dictionary, SetPredicate};
use similarity_engine::{BuildContext, KeyColumn, PrepareContext, Prepared};
use similarity_measures::Tokenizer;

/// A build side's sets on a device, ready for probing with one predicate.
#[derive(Debug)]
pub(crate) struct SetIndex {
    build: Build<SortedSets, Access>,
    tokenizer: Tokenizer,
    condition: SetCondition,
    /// Ranks of tokens; empty where the index probes itself.
    dictionary: Arc<Dictionary>,
    signer: SetSigner,
    /// Where tokens are rare.
    postings: Option<Postings>,
}

impl SetIndex {
    /// Tokenises `keys` and brings them to the device.
    ///
    /// The lower bound must exclude the score 0.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, more rows or tokens than 32 bits can number, a refused reservation, a
    /// cancelled build, a device that fails.
    pub(crate) fn try_new(
        budget: &Budget,
        tokenizer: Tokenizer,
        predicate: SetPredicate,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Self, Fault> {
        Self::with_postings(budget, (tokenizer, predicate), keys, context, Pays::of(&context.overrides))
    }

    /// Index with postings, where they pay.
    fn with_postings(
        budget: &Budget,
        (tokenizer, predicate): (Tokenizer, SetPredicate),
        keys: &KeyColumn,
        context: &BuildContext<'_>,
        pays: Pays,
    ) -> Result<Self, Fault> {
        let side = BuildSide::try_new(budget, tokenizer, keys, context.self_join, context)?;
        let BuildSide { dictionary, columns, frequencies } = side;
        let signer = SetSigner {
            ranks: frequencies.len() as u32,
            words: signature_words(columns.mean_size()),
            are_frequent: are_frequent(&frequencies, columns.rows)
                && columns.largest_size() <= LARGEST_OF_FREQUENT
                && has_room(budget, columns.rows),
        };
        let is_rare = PostingLists::have_room(budget, columns.tokens)
            && pays.by_sample(predicate, context.self_join, &columns, &frequencies);
        drop(frequencies);
        let stream = budget.device.stream()?;
        let sets = SortedSets::try_new(budget, &stream, &columns, &signer)?;
        let workers = Workers::try_new(budget, Capacity::of(budget, rows_of_task(signer.words), WORKERS))?;
        let build = Build {
            budget: budget.clone(),
            unmatchable: sets.unmatchable,
            side: sets,
            self_join: None,
            steps: Scheduler::new(workers),
            rows_at_once: budget.rows_at_once(columns.rows),
        };
        let condition = set_test(predicate);
        let dictionary = Arc::new(dictionary);
        let mut index = Self { build, tokenizer, condition, dictionary, signer, postings: None };
        if is_rare {
            let sides = index.sides(&stream, None);
            index.postings = Postings::try_new(budget, &stream, &sides, signer.ranks, pays)?;
        }
        if context.self_join {
            index.build.self_join = Some(index.access(&stream, None)?);
        }
        Ok(index)
    }

    /// Which build blocks each block of `probe`, or of the build side itself, is compared with.
    fn windows(&self, stream: &Arc<CudaStream>, probe: Option<&SortedSets>) -> Result<BlockRanges, Fault> {
        let (sides, Build { budget, side, .. }) = (self.sides(stream, probe), &self.build);
        let blocks = probe.unwrap_or(side).blocks();
        let words = self.signer.words;
        let shape = BlockShape { blocks, rows_of_task: rows_of_task(words), words };
        BlockRanges::fetch(budget, stream, shape, |out| {
            budget.device.kernels().sets()?.windows(stream, &sides, blocks, out)
        })
    }

    /// How the partners of `probe`, or of the build side itself, are found.
    fn access(&self, stream: &Arc<CudaStream>, probe: Option<&SortedSets>) -> Result<Access, Fault> {
        let windows = self.windows(stream, probe)?;
        let Some(postings) = &self.postings else { return Ok(Access::Tiles(windows)) };
        let side = probe.unwrap_or(&self.build.side);
        let sides = self.sides(stream, probe);
        let asked = postings.asked(&self.build.budget, stream, &sides, side.blocks(), &windows)?;
        Ok(asked.map_or(Access::Tiles(windows), |asked| Access::Prefixes(Box::new(asked))))
    }

    fn sides(&self, stream: &CudaStream, probe: Option<&SortedSets>) -> SetSides {
        let (build, of_probe) = (&self.build.side, probe.unwrap_or(&self.build.side));
        let frequent = of_probe.frequent(stream).zip(build.frequent(stream));
        SetSides {
            probe: of_probe.on_device(stream),
            build: build.on_device(stream),
            condition: self.condition,
            self_join: probe.is_none(),
            frequent: frequent.map(|(of_probe, of_build)| FrequentTokens {
                of_probe,
                of_build,
                ranks: self.signer.ranks,
            }),
        }
    }
}

/// Whether sets have no more than one token on average that is none of the most frequent ones, by how many sets have
/// the token of each rank: a bit for each token then tells nearly all that two sets share.
fn are_frequent(frequencies: &[u32], rows: usize) -> bool {
    let others = frequencies.len().saturating_sub(MOST_FREQUENT);
    frequencies[..others].iter().map(|&sets| sets as usize).sum::<usize>() <= rows
}

/// Whether bits of the most frequent tokens take a small part of what joins may hold.
fn has_room(budget: &Budget, rows: usize) -> bool {
    rows * WORDS_OF_FREQUENT * size_of::<u32>() <= budget.available() / PART_OF_FREQUENT
}

/// Size up to which one thread reads what sets have beside frequent tokens.
const LARGEST_OF_FREQUENT: u32 = 1 << 10;

/// Part of the memory that is left which bits of the most frequent tokens may take.
const PART_OF_FREQUENT: usize = 8;

/// Two sides and the probe positions that count.
pub(crate) struct SetComparison<'a> {
    budget: &'a Budget,
    sides: SetSides,
    /// Where partners are found by them.
    prefixes: Option<PrefixRanges>,
    words: u32,
    range: Positions,
}

impl Comparison for SetComparison<'_> {
    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        tasks: TaskList<'_>,
        candidates: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let device = &self.budget.device;
        match &self.prefixes {
            Some(prefixes) => {
                let postings = tasks.on_host.iter().map(|task| (task.end - task.first) as usize).sum();
                self.budget.metrics.see_postings(postings);
                device.kernels().prefixes()?.filter(stream, prefixes, self.words, tasks, self.range, candidates)
            }
            None => device.kernels().sets()?.filter(stream, &self.sides, self.words, tasks, self.range, candidates),
        }
    }

    fn verify(
        &self,
        stream: &Arc<CudaStream>,
        candidates: &Appended<'_>,
        pairs: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        self.budget.device.kernels().sets()?.verify(stream, &self.sides, candidates, pairs)
    }
}

/// Probe rows that one block of threads compares, by the words of a signature: the longer they are, the fewer a warp
/// holds.
fn rows_of_task(words: u32) -> u32 {
    match words {
        8 | 16 => 4 * BLOCK,
        32 => 2 * BLOCK,
        _ => BLOCK,
    }
}

impl TiledIndex for SetIndex {
    type Side = SortedSets;
    type WorkSplit = Access;
    type OnHost = ();
    type Comparison<'a> = SetComparison<'a>;

    fn build(&self) -> &Build<SortedSets, Access> {
        &self.build
    }

    fn chosen(&self) -> String {
        let (device, bits) = (&self.build.budget.device, 32 * self.signer.words);
        let unit = if device.has_tensor_cores() { "binary tensor cores" } else { "popcounts" };
        match (&self.build.self_join, &self.postings) {
            (None, Some(_)) => format!("prefix index or signature tiles ({device}, {unit}, {bits} bits)"),
            (Some(Access::Prefixes(_)), _) => format!("prefix index ({device}, {bits} bits)"),
            _ => describe_tiles(&self.build.budget, self.signer.words),
        }
    }

    fn held(&self) -> usize {
        self.dictionary.memory() + self.build.self_join.as_ref().map_or(0, Access::memory)
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Self {
            build: self.build.replicate(to, |access| access.replicate(to))?,
            tokenizer: self.tokenizer,
            condition: self.condition,
            dictionary: Arc::clone(&self.dictionary),
            signer: self.signer,
            postings: self.postings.replicate(to)?,
        })
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<BatchOf<Self>>, Fault> {
        let budget = &self.build.budget;
        let ranges = tokenise_probe(self.tokenizer, keys, &self.dictionary, context)?;
        let tables: Vec<_> = ranges.iter().map(|_| Ranks::Below(self.signer.ranks)).collect();
        let columns = SetColumns::pack(ranges, &tables, keys.groups.as_deref())?;
        let stream = budget.device.stream()?;
        let side = SortedSets::try_new(budget, &stream, &columns, &self.signer)?;
        let cut = self.access(&stream, Some(&side))?;
        let unmatchable = side.unmatchable;
        Ok(Batch { side, cut, on_host: () }.prepared(unmatchable))
    }

    fn comparison<'a>(
        &'a self,
        stream: &CudaStream,
        (probe, access): (Option<&SortedSets>, &Access),
        range: Positions,
    ) -> SetComparison<'a> {
        let sides = self.sides(stream, probe);
        let prefixes = match (access, &self.postings) {
            (Access::Prefixes(asked), Some(postings)) => Some(postings.on_device_for(stream, &sides, asked)),
            _ => None,
        };
        SetComparison { budget: &self.build.budget, sides, prefixes, words: self.signer.words, range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_device::device;
    use crate::test_oracle::sets::*;
    use crate::tiled_index::Tiled;
    use similarity_engine::condition::Bounds;
    use similarity_engine::{Cancel, Cursor, Index as _, PairIndex as _, Pairs, Probe};
    use similarity_measures::SetMeasure;

    /// What makes postings pay always.
    fn index(tokenizer: Tokenizer, predicate: SetPredicate, keys: &KeyColumn, self_join: bool) -> Tiled<SetIndex> {
        index_with(tokenizer, predicate, keys, self_join, Pays::default())
    }

    fn index_with(
        tokenizer: Tokenizer,
        predicate: SetPredicate,
        keys: &KeyColumn,
        self_join: bool,
        pays: Pays,
    ) -> Tiled<SetIndex> {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        let budget = Budget::new(&device(), 0.5);
        Tiled::new(SetIndex::with_postings(&budget, (tokenizer, predicate), keys, &context, pays).unwrap())
    }

    fn jaccard(threshold: f64) -> SetPredicate {
        SetPredicate { measure: SetMeasure::JACCARD, bounds: Bounds::at_least(threshold, true) }
    }

    #[test]
    fn every_predicate_finds_what_a_nested_loop_finds() {
        for (case, predicate) in predicates().into_iter().enumerate() {
            let case = case as u64;
            let tokenizer = [WORDS, Tokenizer::QGrams { q: 2, pad: Some('#') }, Tokenizer::QGrams { q: 3, pad: None }]
                [case as usize % 3];
            let (build, probe) = (strings(150, 12, case), strings(90, 14, case + 1000));
            let group_count = [0, 1, 3, 20][case as usize % 4];
            let (build_groups, probe_groups) = (groups(150, group_count, case), groups(90, group_count, case + 7));
            let (build_keys, probe_keys) = (key_column(&build, &build_groups), key_column(&probe, &probe_groups));
            let self_join = oracle(tokenizer, predicate, (&build, &build_groups), None);
            let two_sides = oracle(tokenizer, predicate, (&build, &build_groups), Some((&probe, &probe_groups)));
            if serves_self_joins(&predicate) {
                let self_index = index(tokenizer, predicate, &build_keys, true);
                assert_eq!(self_join_pairs(&self_index, usize::MAX, UNLIMITED), self_join, "{predicate:?}");
                assert_eq!(self_join_pairs(&self_index, 37, UNLIMITED), self_join, "{predicate:?}");
            }
            let batch_index = index(tokenizer, predicate, &build_keys, false);
            assert_eq!(batch(&batch_index, &probe_keys, 100, UNLIMITED), two_sides, "{predicate:?}");
            let by_prefixes = |keys, self_join| index_with(tokenizer, predicate, keys, self_join, Pays::ALWAYS);
            if serves_self_joins(&predicate) {
                let self_index = by_prefixes(&build_keys, true);
                assert!(
                    self_index.build.side.count == 0 || matches!(self_index.build.self_join, Some(Access::Prefixes(_)))
                );
                assert_eq!(self_join_pairs(&self_index, 37, UNLIMITED), self_join, "{predicate:?}");
            }
            let batch_index = by_prefixes(&build_keys, false);
            assert_eq!(batch(&batch_index, &probe_keys, 100, UNLIMITED), two_sides, "{predicate:?}");
        }
    }

    /// A text of words for each list of tokens.
    fn texts(sets: &[Vec<u64>]) -> Values {
        sets.iter().map(|tokens| Some(tokens.iter().map(|token| format!("w{token} ")).collect())).collect()
    }

    #[test]
    fn sets_of_all_sizes() {
        let mut random = Random(11);
        for tokens in [3, 60, 130, 200, 400] {
            let mut all: Vec<Vec<u64>> = Vec::new();
            for i in 0..150 {
                let mut set: Vec<u64> = match i % 3 {
                    0 => (0..1 + random.below(2 * tokens)).map(|_| random.below(3000)).collect(),
                    _ => all[i - 1].clone(),
                };
                (0..random.below(1 + tokens / 6)).for_each(|_| set.push(random.below(3000)));
                all.push(set);
            }
            let values = texts(&all);
            let keys = key_column(&values, &None);
            for (measure, t) in
                [(SetMeasure::JACCARD, 0.85), (SetMeasure::SET_COSINE, 0.5), (SetMeasure::OVERLAP_COUNT, 2.0)]
            {
                let predicate = SetPredicate { measure, bounds: Bounds::at_least(t, true) };
                let expected = oracle(WORDS, predicate, (&values, &None), None);
                assert!(expected.len() > 20);
                assert_eq!(self_join_pairs(&index(WORDS, predicate, &keys, true), 50, UNLIMITED), expected, "{tokens}");
                let by_prefixes = index_with(WORDS, predicate, &keys, true, Pays::ALWAYS);
                assert!(matches!(by_prefixes.build.self_join, Some(Access::Prefixes(_))));
                assert_eq!(self_join_pairs(&by_prefixes, 50, UNLIMITED), expected, "{tokens}");
            }
            for measure in measures().filter(|measure| !measure.descriptor().is_symmetric) {
                let predicate = SetPredicate { measure, bounds: Bounds::at_least(0.7, true) };
                let expected = oracle(WORDS, predicate, (&values, &None), Some((&values, &None)));
                for pays in [Pays::default(), Pays::ALWAYS] {
                    let index = index_with(WORDS, predicate, &keys, false, pays);
                    assert_eq!(batch(&index, &keys, 50, UNLIMITED), expected, "{measure:?} {tokens}");
                }
            }
        }
    }

    /// Nearly all tokens are among the most frequent ones. The others of a set are none, as many as are listed, or
    /// more.
    #[test]
    fn sets_of_frequent_tokens() {
        let mut random = Random(17);
        let mut all: Vec<Vec<u64>> = Vec::new();
        for i in 0..600 {
            let mut set: Vec<u64> = (0..40).map(|_| random.below(MOST_FREQUENT as u64)).collect();
            // a copy of the one before, but for some tokens
            if i % 3 > 0 {
                set.truncate(8 * (i % 3));
                set.extend(&all[i - 1]);
            }
            let others = [1, 3, 4, 12].into_iter().filter(|others| i % (21 * others) < 2).max().unwrap_or(0);
            set.extend((0..others).map(|other| (10_000 + 20 * (i / 2) + other) as u64));
            all.push(set);
        }
        let values = texts(&all);
        let keys = key_column(&values, &None);
        for (measure, t) in
            [(SetMeasure::JACCARD, 0.2), (SetMeasure::SET_COSINE, 0.5), (SetMeasure::OVERLAP_COUNT, 3.0)]
        {
            let predicate = SetPredicate { measure, bounds: Bounds::at_least(t, true) };
            let expected = oracle(WORDS, predicate, (&values, &None), None);
            assert!(expected.len() > 300);
            let own = index(WORDS, predicate, &keys, true);
            assert!(own.signer.are_frequent && own.signer.ranks as usize > MOST_FREQUENT);
            assert_eq!(self_join_pairs(&own, 50, UNLIMITED), expected, "{measure:?}");
            let by_prefixes = index_with(WORDS, predicate, &keys, true, Pays::ALWAYS);
            assert_eq!(self_join_pairs(&by_prefixes, 50, UNLIMITED), expected, "{measure:?}");
            // some tokens of the probe side are unknown
            let probe: Values = (0..200).map(|i| values[3 * i].clone().map(|text| format!("{text} new{i}"))).collect();
            let expected = oracle(WORDS, predicate, (&values, &None), Some((&probe, &None)));
            let both = index(WORDS, predicate, &keys, false);
            assert!(both.signer.are_frequent);
            assert_eq!(batch(&both, &key_column(&probe, &None), 50, UNLIMITED), expected, "{measure:?}");
        }
    }

    #[test]
    fn sets_of_many_rare_tokens_are_compared_by_warps() {
        let spread: Values = (0..3000).map(|i| Some(format!("a{} b{} c{}", i / 2, i / 3, i / 4))).collect();
        assert!(!index(WORDS, jaccard(0.5), &key_column(&spread, &None), true).signer.are_frequent);
    }

    #[test]
    fn larger_sides_with_many_groups() {
        let values = strings(3000, 400, 5);
        for count in [0, 7, 900] {
            let keys = key_column(&values, &groups(3000, count, 9));
            let expected = oracle(WORDS, jaccard(0.75), (&values, &keys.groups), None);
            assert_eq!(self_join_pairs(&index(WORDS, jaccard(0.75), &keys, true), usize::MAX, UNLIMITED), expected);
            let by_prefixes = index_with(WORDS, jaccard(0.75), &keys, true, Pays::ALWAYS);
            assert!(matches!(by_prefixes.build.self_join, Some(Access::Prefixes(_))));
            assert_eq!(self_join_pairs(&by_prefixes, usize::MAX, UNLIMITED), expected);
        }
    }

    #[test]
    fn postings_pay_where_tokens_are_rare() {
        let pays = Pays { fewest_rows: 100, pairs_of_posting: 20 };
        let words = |names: u64| -> Values {
            let mut random = Random(3);
            (0..400).map(|_| Some(format!("name{} the same", random.below(names)))).collect()
        };
        for (names, by_prefixes) in [(200, true), (3, false)] {
            let keys = key_column(&words(names), &None);
            let index = index_with(WORDS, jaccard(0.9), &keys, true, pays);
            assert_eq!(index.info().path.starts_with("prefix index"), by_prefixes, "{}", index.info().path);
            let few = Pays { fewest_rows: 401, ..pays };
            let index = index_with(WORDS, jaccard(0.9), &keys, true, few);
            assert!(index.info().path.starts_with("signature tiles"));
        }
    }

    #[test]
    fn a_batch_that_asks_for_frequent_tokens_is_compared_by_signatures() {
        let rare: Values = (0..300).map(|row| Some(format!("a{0} b{0} the same", row / 2))).collect();
        let frequent: Values = vec![Some("the same thing here".into()); 40];
        let build = key_column(&[rare.clone(), frequent.clone()].concat(), &None);
        let pays = Pays { fewest_rows: 0, pairs_of_posting: 20 };
        let index = index_with(WORDS, jaccard(0.7), &build, false, pays);
        assert!(index.postings.is_some());
        for (values, by_prefixes) in [(rare, true), (frequent, false)] {
            let prepared = index
                .bring(&key_column(&values, &None), &PrepareContext { threads: 1, cancel: &Cancel::default() })
                .unwrap();
            assert_eq!(matches!(prepared.batch.cut, Access::Prefixes(_)), by_prefixes);
        }
    }

    #[test]
    fn what_does_not_fit_into_the_buffers_is_done_in_pieces() {
        let values: Values = (0..600).map(|row| Some(format!("the same words {}", row % 2))).collect();
        let keys = key_column(&values, &None);
        let mut small = index(WORDS, jaccard(0.5), &keys, true);
        // what one task yields fits, what all yield does not
        let capacity = Capacity { workers: WORKERS, candidates: 256 * 600, pairs: 256 * 600, enough: usize::MAX };
        small.index.build.steps = Scheduler::new(Workers::try_new(&small.build.budget, capacity).unwrap());
        let found = self_join_pairs(&small, usize::MAX, UNLIMITED);
        assert_eq!(found.len(), 600 * 599 / 2);
        let retries = small.metrics().into_iter().find(|metric| metric.name() == "device_retries");
        assert!(retries.is_some_and(|retries| retries.as_usize() > 0));
    }

    #[test]
    fn dense_pairs_come_in_portions() {
        let keys = key_column(&vec![Some("the same".to_string()); 700], &None);
        let mut small = index(WORDS, jaccard(0.5), &keys, true);
        // the first run of probe rows fits, all together do not
        let capacity = Capacity { workers: WORKERS, candidates: 256 * 700, pairs: 256 * 700, enough: 1000 };
        small.index.build.steps = Scheduler::new(Workers::try_new(&small.build.budget, capacity).unwrap());
        let (mut cursor, mut all, mut portions) = (Cursor { next: 0, end: 700 }, Found::new(), 0);
        while !cursor.is_done() {
            let mut pairs = Pairs::default();
            small.probe(Probe::SelfJoin, &mut cursor, UNLIMITED, &Cancel::default(), &mut pairs).unwrap();
            let count = all.len() + pairs.len();
            all.extend(pairs.build.into_iter().zip(pairs.probe).map(|(b, p)| (b.min(p), b.max(p))));
            assert_eq!(all.len(), count, "a pair came twice");
            portions += 1;
        }
        assert_eq!((all.len(), portions), (700 * 699 / 2, 2));
    }

    #[test]
    fn empty_sides() {
        let none = key_column(&vec![], &None);
        let blank = key_column(&vec![None, Some("..".into())], &None);
        let some = key_column(&vec![Some("a".into())], &None);
        for keys in [&none, &blank] {
            assert!(self_join_pairs(&index(WORDS, jaccard(0.5), keys, true), 1, UNLIMITED).is_empty());
            assert!(batch(&index(WORDS, jaccard(0.5), keys, false), &some, 1, UNLIMITED).is_empty());
            assert!(batch(&index(WORDS, jaccard(0.5), &some, false), keys, 1, UNLIMITED).is_empty());
        }
    }

    #[test]
    fn too_little_memory_is_a_fault() {
        let keys = key_column(&strings(500, 40, 3), &None);
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &reserve) };
        let budget = Budget::new(&device(), 1e-9);
        let refused = SetIndex::try_new(&budget, WORDS, jaccard(0.5), &keys, &context);
        assert!(matches!(refused, Err(Fault::Memory)));
    }

    #[test]
    fn several_threads_share_the_workers() {
        let values = strings(2000, 100, 8);
        let keys = key_column(&values, &None);
        let index = index(WORDS, jaccard(0.6), &keys, true);
        let expected = self_join_pairs(&index, usize::MAX, UNLIMITED);
        std::thread::scope(|scope| {
            let found: Vec<_> = (0..6).map(|_| scope.spawn(|| self_join_pairs(&index, 300, UNLIMITED))).collect();
            found.into_iter().for_each(|found| assert_eq!(found.join().unwrap(), expected));
        });
    }
}
