//! The index of a build side, and the probe batches that it makes ready.

use std::sync::Mutex;

use crate::error::{Result, internal_err, keys_err};

use super::bands::{self, MinHashBands};
use super::bits::{self, Bits};
use super::cost::{Estimate, estimate};
use super::join::{AccessPath, Path, Scratch, Sides, Work};
use super::prefix::PrefixIndex;
use super::sorted::{Groups, SortedSets};
use super::tiles::Tiles;
use crate::cpu::kind::IndexKind;
use crate::metrics::MetricValue;
use crate::sets::dictionary::Dictionary;
use crate::sets::predicate::SetPredicate;
use crate::sets::ranks::{Ranks, rank};
use crate::sets::tokenise::{RowSets, tokenise_build, tokenise_probe};
use crate::stored::{Sink, Source, Store, Stored};
use crate::{
    BuildContext, Cancel, Counts, Cursor, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs, PrepareContext,
    Prepared, Probe,
};
use similarity_measures::Tokenizer;

/// A build side's sets, ready for probing with one predicate.
#[derive(Debug)]
pub struct SetIndex {
    tokenizer: Tokenizer,
    predicate: SetPredicate,
    /// Whether it probes itself.
    self_join: bool,
    /// Ranks of tokens; empty where the index probes itself.
    dictionary: Dictionary,
    bits: Bits,
    sets: SortedSets,
    groups: Groups,
    path: Box<dyn Path>,
    info: IndexInfo,
    /// One for each probing thread, once it has returned.
    scratch: Mutex<Vec<Scratch>>,
}

impl SetIndex {
    /// Tokenises `keys`, which are dropped then, and builds the access path, the cheaper one where none is given.
    ///
    /// The lower bound of `predicate` must exclude the score 0. For [`Tokenizer::Elements`] keys are lists, for
    /// all others strings.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, more rows or tokens than 32 bits can number, a refused reservation,
    /// a cancelled build.
    pub fn try_new(
        tokenizer: Tokenizer,
        predicate: SetPredicate,
        path: Option<AccessPath>,
        keys: KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let ranges = tokenise_build(tokenizer, &keys, context.threads, context.cancel, context.reserve)?;
        let KeyColumn { values, groups } = keys;
        // long texts take more memory than all that is made of them
        drop(values);
        let Arranged { dictionary, bits, sets, tokens } = Arranged::of(ranges, groups.as_deref(), 1.0, context)?;
        let groups = Groups::of(&sets);
        let sides =
            Sides { build: &sets, build_groups: &groups, probe: &sets, self_join: context.self_join, predicate };
        let probe_rows = context.expected_probe_rows(sets.len());
        let bands = context.recall.and_then(|recall| bands::plan(&sides, recall, probe_rows));
        let estimate = path.is_none().then(|| {
            let estimate = estimate(&sides, tokens, probe_rows);
            bands.map_or(estimate, |plan| estimate.with_bands(plan.nanoseconds))
        });
        let path = path.unwrap_or_else(|| estimate.map_or(AccessPath::Prefix, Estimate::cheapest));
        let path = match bands.filter(|_| path == AccessPath::Bands) {
            Some(plan) => Box::new(MinHashBands::build(plan, &sides, probe_rows, context)?),
            None => build_path(path, &sides, tokens, context)?,
        };
        let info = IndexInfo {
            path: match estimate {
                Some(estimate) => format!("{} ({estimate})", path.name()),
                None => path.name(),
            },
            bytes: sets.memory() + groups.memory() + dictionary.memory() + path.memory(),
            unmatchable: sets.unmatchable,
            self_join_len: sets.len(),
            ..IndexInfo::default()
        };
        let scratch = Mutex::default();
        Ok(Self {
            tokenizer,
            predicate,
            self_join: context.self_join,
            dictionary,
            bits,
            sets,
            groups,
            path,
            info,
            scratch,
        })
    }

    fn sides<'a>(&'a self, probe: Probe<'a, PreparedSets>) -> Result<Sides<'a>> {
        let probe = match probe {
            Probe::SelfJoin if self.self_join => &self.sets,
            Probe::Batch(PreparedSets(sets)) if !self.self_join => sets,
            _ => return internal_err!("a set index was built for the other kind of probe"),
        };
        let Self { sets, groups, self_join, predicate, .. } = self;
        Ok(Sides { build: sets, build_groups: groups, probe, self_join: *self_join, predicate: *predicate })
    }

    fn take_scratch(&self) -> Scratch {
        let pooled = self.scratch.lock().ok().and_then(|mut pool| pool.pop());
        pooled.unwrap_or_else(|| Scratch::new(self.predicate, self.sets.largest()))
    }
}

/// The sets of a build side in order.
pub(super) struct Arranged {
    /// Ranks of tokens; empty where the side probes itself.
    pub(super) dictionary: Dictionary,
    pub(super) bits: Bits,
    pub(super) sets: SortedSets,
    /// How many tokens have a rank.
    pub(super) tokens: usize,
}

impl Arranged {
    /// Puts the sets of all rows into order, which have these groups; signatures are as long as for sets `fineness`
    /// times as large.
    pub(super) fn of(
        mut ranges: Vec<RowSets>,
        groups: Option<&[u32]>,
        fineness: f64,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let (rows, ids) = ranges.iter().fold((0, 0), |(rows, ids), r| (rows + r.rows.len(), ids + r.ids.len()));
        if u32::try_from(ids.max(rows)).is_err() {
            return keys_err!("a set similarity join cannot index more than 2^32 tokens; join smaller parts");
        }
        let (dictionary, ranks, frequencies) = rank(&mut ranges, context.self_join)?;
        let tokens = frequencies.len();
        let bits = Bits::for_sets(tokens, fineness * mean_size(&ranges));
        let sets = SortedSets::arrange(ranges, &ranks, bits, groups, context.cancel, context.reserve)?;
        context.cancel.check()?;
        Ok(Self { dictionary, bits, sets, tokens })
    }

    /// The sets of a probe batch, in the order and with the ranks of a build side.
    pub(super) fn probe(
        tokenizer: Tokenizer,
        bits: Bits,
        keys: &KeyColumn,
        known: &Dictionary,
        context: &PrepareContext<'_>,
    ) -> Result<SortedSets> {
        let ranges = tokenise_probe(tokenizer, keys, known, &PrepareContext { threads: 1, ..*context })?;
        let ranks: Vec<_> = ranges.iter().map(|_| Ranks::Below(known.len() as u32)).collect();
        let sets = SortedSets::arrange(ranges, &ranks, bits, keys.groups.as_deref(), context.cancel, &|_| Ok(()))?;
        context.cancel.check()?;
        Ok(sets)
    }
}

fn mean_size(ranges: &[RowSets]) -> f64 {
    let rows: usize = ranges.iter().map(|r| r.rows.len()).sum();
    let ids: usize = ranges.iter().map(|r| r.ids.len()).sum();
    ids as f64 / rows.max(1) as f64
}

fn build_path(path: AccessPath, sides: &Sides<'_>, tokens: usize, context: &BuildContext<'_>) -> Result<Box<dyn Path>> {
    let sets = sides.build;
    Ok(match path {
        // without bands
        AccessPath::Prefix | AccessPath::Bands => {
            Box::new(PrefixIndex::build(sets, tokens, sides.predicate, sides.self_join, context.reserve)?)
        }
        AccessPath::Tiles => {
            (context.reserve)(match bits::folded_words(sets.words) {
                1 => Tiles::<1>::size(sets.len()),
                2 => Tiles::<2>::size(sets.len()),
                _ => Tiles::<4>::size(sets.len()),
            })?;
            tiles_of(sets)
        }
    })
}

fn tiles_of(sets: &SortedSets) -> Box<dyn Path> {
    match bits::folded_words(sets.words) {
        1 => Box::new(Tiles::<1>::build(sets)),
        2 => Box::new(Tiles::<2>::build(sets)),
        _ => Box::new(Tiles::<4>::build(sets)),
    }
}

/// A probe batch as sets over the build side's dictionary.
#[derive(Debug)]
pub struct PreparedSets(SortedSets);

impl Index for SetIndex {
    type Batch = PreparedSets;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.path.metrics()
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedSets>> {
        if self.self_join {
            return internal_err!("a set index was built for a self-join and given another input");
        }
        let sets = Arranged::probe(self.tokenizer, self.bits, keys, &self.dictionary, context)?;
        let (len, unmatchable) = (sets.len(), sets.unmatchable);
        Ok(Prepared::new(PreparedSets(sets), len, unmatchable))
    }
}

impl Store for SetIndex {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Sets.store(sink)?;
        let Self { dictionary, bits, sets, path, info, .. } = self;
        dictionary.store(sink)?;
        bits.store(sink)?;
        sets.store(sink)?;
        path.kind().store(sink)?;
        path.store(sink)?;
        info.store(sink)?;
        // the name of a path tells what this machine has
        info.path[path.name().len()..].store(sink)
    }
}

impl SetIndex {
    /// Reads the index of [`try_new`](Self::try_new) with the same arguments.
    ///
    /// # Errors
    /// Bytes that are no such index.
    pub fn load(
        tokenizer: Tokenizer,
        predicate: SetPredicate,
        source: &mut Source<'_>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let dictionary = Dictionary::load(source, context.threads)?;
        let bits = Bits::load(source)?;
        let sets = SortedSets::load(source)?;
        let groups = Groups::of(&sets);
        let path: Box<dyn Path> = match AccessPath::load(source)? {
            AccessPath::Prefix => Box::new(PrefixIndex::load(source)?),
            AccessPath::Tiles => tiles_of(&sets),
            AccessPath::Bands => Box::new(MinHashBands::load(source)?),
        };
        let (info, rest) = (IndexInfo::load(source)?, String::load(source)?);
        let info = IndexInfo { path: format!("{}{rest}", path.name()), ..info };
        let scratch = Mutex::default();
        Ok(Self {
            tokenizer,
            predicate,
            self_join: context.self_join,
            dictionary,
            bits,
            sets,
            groups,
            path,
            info,
            scratch,
        })
    }
}

impl PairIndex for SetIndex {
    fn probe(
        &self,
        probe: Probe<'_, PreparedSets>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let sides = self.sides(probe)?;
        let mut scratch = self.take_scratch();
        let before = out.len();
        let counts = Counts::default();
        let mut work = Work { limit, cancel, out, scratch: &mut scratch, counts, done: 0, before };
        self.path.probe(&sides, cursor, &mut work);
        let counts = Counts { matched: work.matched(), ..work.counts };
        if let Ok(mut pool) = self.scratch.lock() {
            pool.push(scratch);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{ArrayRef, ListArray, StringArray, StringViewArray};
    use arrow::datatypes::{Float64Type, Int32Type, Int64Type};

    use super::*;
    use crate::NO_GROUP;
    use crate::condition::Bounds;
    use crate::test_oracle::sets::*;
    use similarity_measures::SetMeasure;

    const PATHS: [Option<AccessPath>; 3] = [None, Some(AccessPath::Prefix), Some(AccessPath::Tiles)];
    fn index(
        tokenizer: Tokenizer,
        predicate: SetPredicate,
        path: Option<AccessPath>,
        keys: &KeyColumn,
        self_join: bool,
    ) -> SetIndex {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        SetIndex::try_new(tokenizer, predicate, path, keys.clone(), &context).unwrap()
    }

    #[test]
    fn every_predicate_and_path_finds_what_a_nested_loop_finds() {
        for (case, predicate) in predicates().into_iter().enumerate() {
            let case = case as u64;
            let tokenizer = [WORDS, Tokenizer::QGrams { q: 2, pad: Some('#') }, Tokenizer::QGrams { q: 3, pad: None }]
                [case as usize % 3];
            let (build, probe) = (strings(70, 12, case), strings(50, 14, case + 1000));
            let group_count = [0, 1, 3, 20][case as usize % 4];
            let (build_groups, probe_groups) = (groups(70, group_count, case), groups(50, group_count, case + 7));
            let (build_keys, probe_keys) = (key_column(&build, &build_groups), key_column(&probe, &probe_groups));
            let self_join = oracle(tokenizer, predicate, (&build, &build_groups), None);
            let two_sides = oracle(tokenizer, predicate, (&build, &build_groups), Some((&probe, &probe_groups)));
            for path in PATHS {
                let limit = Limit { pairs: 1 + case as usize % 5, work: 40 };
                if serves_self_joins(&predicate) {
                    let self_index = index(tokenizer, predicate, path, &build_keys, true);
                    assert_eq!(
                        self_join_pairs(&self_index, usize::MAX, UNLIMITED),
                        self_join,
                        "{predicate:?} {path:?}"
                    );
                    assert_eq!(self_join_pairs(&self_index, 7, limit), self_join, "{predicate:?} {path:?}");
                }
                let batch_index = index(tokenizer, predicate, path, &build_keys, false);
                assert_eq!(
                    batch(&batch_index, &probe_keys, usize::MAX, UNLIMITED),
                    two_sides,
                    "{predicate:?} {path:?}"
                );
                assert_eq!(batch(&batch_index, &probe_keys, 5, limit), two_sides, "{predicate:?} {path:?}");
            }
        }
    }

    #[test]
    fn larger_sides_and_several_threads() {
        let values = strings(5000, 400, 5);
        let predicate = SetPredicate { measure: SetMeasure::JACCARD, bounds: Bounds::at_least(0.75, true) };
        for count in [0, 300] {
            let groups = groups(5000, count, 9);
            let keys = key_column(&values, &groups);
            let found = PATHS.map(|path| self_join_pairs(&index(WORDS, predicate, path, &keys, true), 700, UNLIMITED));
            assert!(!found[0].is_empty() && found[0] == found[1] && found[1] == found[2]);
            let expected = oracle(WORDS, predicate, (&values[..600].to_vec(), &groups), Some((&values, &groups)));
            let expected: Found = expected.into_iter().filter(|(b, p)| b < p).collect();
            assert_eq!(found[0].iter().filter(|(b, _)| *b < 600).copied().collect::<Found>(), expected);
        }
    }

    #[test]
    fn sets_of_hundreds_of_tokens() {
        let mut random = Random(11);
        let mut all: Vec<Vec<u64>> = Vec::new();
        for i in 0..120 {
            let mut tokens: Vec<u64> = match i % 3 {
                0 => (0..100 + random.below(300)).map(|_| random.below(3000)).collect(),
                _ => all[i - 1].clone(),
            };
            (0..random.below(60)).for_each(|_| tokens.push(random.below(3000)));
            all.push(tokens);
        }
        let text = |tokens: &Vec<u64>| Some(tokens.iter().map(|t| format!("w{t} ")).collect());
        let values: Values = all.iter().map(text).collect();
        let keys = key_column(&values, &None);
        for (measure, t) in
            [(SetMeasure::JACCARD, 0.85), (SetMeasure::SET_COSINE, 0.5), (SetMeasure::OVERLAP_COUNT, 30.0)]
        {
            let predicate = SetPredicate { measure, bounds: Bounds::at_least(t, true) };
            let expected = oracle(WORDS, predicate, (&values, &None), None);
            assert!(expected.len() > 20);
            for path in PATHS {
                assert_eq!(self_join_pairs(&index(WORDS, predicate, path, &keys, true), 50, UNLIMITED), expected);
            }
        }
        for measure in measures().filter(|measure| !measure.descriptor().is_symmetric) {
            let predicate = SetPredicate { measure, bounds: Bounds::at_least(0.7, true) };
            let expected = oracle(WORDS, predicate, (&values, &None), Some((&values, &None)));
            assert!(expected.len() >= values.len());
            for path in PATHS {
                let index = index(WORDS, predicate, path, &keys, false);
                assert_eq!(batch(&index, &keys, 50, UNLIMITED), expected, "{measure:?} {path:?}");
            }
        }
    }

    #[test]
    fn every_string_type_is_the_same_key() {
        let values = strings(200, 20, 3);
        let predicate = SetPredicate { measure: SetMeasure::DICE, bounds: Bounds::at_least(0.6, true) };
        let plain = key_column(&values, &None);
        let expected = batch(&index(WORDS, predicate, None, &plain, false), &plain, usize::MAX, UNLIMITED);
        let view: ArrayRef = Arc::new(StringViewArray::from_iter(values.iter().map(Option::as_deref)));
        let large: ArrayRef = Arc::new(arrow::array::LargeStringArray::from_iter(values.iter().map(Option::as_deref)));
        let dictionary: ArrayRef =
            Arc::new(values.iter().map(Option::as_deref).collect::<arrow::array::DictionaryArray<Int32Type>>());
        for values in [view, large, dictionary] {
            let keys = KeyColumn { values, groups: None };
            let index = index(WORDS, predicate, None, &keys, false);
            assert_eq!(batch(&index, &keys, usize::MAX, UNLIMITED), expected);
            assert_eq!(batch(&index, &plain, usize::MAX, UNLIMITED), expected);
        }
    }

    fn jaccard(threshold: f64) -> SetPredicate {
        SetPredicate { measure: SetMeasure::JACCARD, bounds: Bounds::at_least(threshold, true) }
    }

    fn list_pairs(lists: ArrayRef, threshold: f64) -> Found {
        let keys = KeyColumn { values: lists, groups: None };
        let found =
            self_join_pairs(&index(Tokenizer::Elements, jaccard(threshold), None, &keys, true), usize::MAX, UNLIMITED);
        let index = index(Tokenizer::Elements, jaccard(threshold), None, &keys, false);
        let both = batch(&index, &keys, usize::MAX, UNLIMITED);
        assert_eq!(both.into_iter().filter(|(b, p)| b < p).collect::<Found>(), found);
        found
    }

    #[test]
    fn elements_are_distinct_and_not_null() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), Some(2), Some(2), None]),
            Some(vec![Some(2), Some(1)]),
            Some(vec![Some(1), Some(-1)]),
            None,
            Some(vec![]),
            Some(vec![None]),
        ]);
        assert_eq!(list_pairs(Arc::new(lists.clone()), 1.0), Found::from([(0, 1)]));
        // A slice reads its own part of the child only.
        assert_eq!(list_pairs(Arc::new(lists.slice(1, 2)), 1.0 / 3.0), Found::from([(0, 1)]));
    }

    #[test]
    fn floats_are_their_bits_but_for_zero_and_nan() {
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(0.0), Some(f64::NAN)]),
            Some(vec![Some(-0.0), Some(-f64::NAN)]),
            Some(vec![Some(0.1)]),
            Some(vec![Some(0.1 + 1e-18)]),
            Some(vec![Some(0.1 + 1e-16)]),
        ]);
        assert_eq!(list_pairs(Arc::new(lists), 1.0), Found::from([(0, 1), (2, 3)]));
    }

    #[test]
    fn elements_of_any_type() {
        use arrow::array::{Decimal128Array, FixedSizeListArray, StructArray};
        use arrow::datatypes::Field;
        let decimals: ArrayRef =
            Arc::new(Decimal128Array::from(vec![Some(1), Some(2), Some(2), Some(1), None, Some(2)]));
        let field = Arc::new(Field::new("d", decimals.data_type().clone(), true));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(field, decimals.clone())]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "b", "a", "b", "b"]));
        let flags: ArrayRef = Arc::new(arrow::array::BooleanArray::from(vec![true, false, false, true, false, false]));
        for child in [decimals, structs, texts, flags] {
            let field = Arc::new(Field::new_list_field(child.data_type().clone(), true));
            let lists = FixedSizeListArray::new(field, 2, child, None);
            assert!(list_pairs(Arc::new(lists), 1.0).contains(&(0, 1)));
        }
        let wrong = KeyColumn { values: Arc::new(StringArray::from(vec!["a"])), groups: None };
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &reserve) };
        assert!(SetIndex::try_new(Tokenizer::Elements, jaccard(0.5), None, wrong, &context).is_err());
    }

    #[test]
    fn unmatchable_rows_are_counted() {
        let values = vec![None, Some(String::new()), Some("a b".into()), Some("a b".into()), Some("c".into())];
        let keys = key_column(&values, &Some(vec![0, 0, 0, 0, NO_GROUP]));
        let index = index(WORDS, jaccard(0.5), None, &keys, false);
        assert_eq!(index.info().unmatchable, 3);
        let prepared = index.prepare(&keys, &PrepareContext::by(1)).unwrap();
        assert_eq!((prepared.unmatchable, prepared.len), (3, 2));
    }

    #[test]
    fn empty_sides() {
        for path in PATHS {
            let none = key_column(&vec![], &None);
            let blank = key_column(&vec![None, Some("..".into())], &None);
            let some = key_column(&vec![Some("a".into())], &None);
            for keys in [&none, &blank] {
                assert!(self_join_pairs(&index(WORDS, jaccard(0.5), path, keys, true), 1, UNLIMITED).is_empty());
                assert!(batch(&index(WORDS, jaccard(0.5), path, keys, false), &some, 1, UNLIMITED).is_empty());
                assert!(batch(&index(WORDS, jaccard(0.5), path, &some, false), keys, 1, UNLIMITED).is_empty());
            }
        }
    }

    #[test]
    fn identical_strings_stop_at_the_limit() {
        let keys = key_column(&vec![Some("the same old words again".to_string()); 100_000], &None);
        for path in PATHS {
            let index = index(WORDS, jaccard(0.8), path, &keys, true);
            let mut cursor = Cursor { next: 60_000, end: 100_000 };
            let mut pairs = Pairs::default();
            let limit = Limit { pairs: 10, work: usize::MAX };
            index.probe(Probe::SelfJoin, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
            assert!(pairs.len() >= 10 && pairs.len() < 400_000, "{}", pairs.len());
        }
    }

    #[test]
    fn long_tokens_and_long_lists() {
        let long = "x".repeat(100_000);
        let values = vec![Some(format!("{long} a")), Some(format!("{long} a")), Some(format!("{long}y a"))];
        let keys = key_column(&values, &None);
        assert_eq!(
            self_join_pairs(&index(WORDS, jaccard(0.9), None, &keys, true), 1, UNLIMITED),
            Found::from([(0, 1)])
        );
        let long: Vec<_> = (0..300_000).map(Some).collect();
        let lists = [Some(long.clone()), Some(long[..240_000].to_vec()), Some(vec![Some(1)]), Some(vec![Some(1)])];
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        assert_eq!(list_pairs(Arc::new(lists), 0.8), Found::from([(0, 1), (2, 3)]));
    }

    #[test]
    fn a_token_in_every_row_and_many_small_groups() {
        let values: Values = (0..8000).map(|i| Some(format!("common {} {}", i / 2, i % 701))).collect();
        let groups = Some((0..8000).map(|i| i / 4).collect());
        for groups in [None, groups] {
            let keys = key_column(&values, &groups);
            let found =
                PATHS.map(|path| self_join_pairs(&index(WORDS, jaccard(0.5), path, &keys, true), 999, UNLIMITED));
            assert!(found[0].len() >= 4000 && found[0] == found[1] && found[1] == found[2]);
        }
    }

    #[test]
    fn cancelling_ends_build_and_probe() {
        let keys = key_column(&vec![Some("a b c".to_string()); 5000], &None);
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &reserve) };
        let built = PATHS.map(|path| SetIndex::try_new(WORDS, jaccard(0.5), path, keys.clone(), &context).unwrap());
        cancel.cancel();
        assert!(SetIndex::try_new(WORDS, jaccard(0.5), None, keys.clone(), &context).is_err());
        for index in built {
            let (mut cursor, mut pairs) = (Cursor { next: 0, end: 5000 }, Pairs::default());
            index.probe(Probe::SelfJoin, &mut cursor, UNLIMITED, &cancel, &mut pairs).unwrap();
            assert!(pairs.is_empty() && !cursor.is_done());
        }
    }

    #[test]
    fn a_refused_reservation_ends_the_build() {
        let keys = key_column(&strings(3000, 50, 1), &None);
        let (cancel, asked) = (Cancel::default(), AtomicUsize::new(0));
        let build = |most: usize| {
            asked.store(0, Ordering::Relaxed);
            let reserve = |bytes| {
                let all = asked.fetch_add(bytes, Ordering::Relaxed) + bytes;
                if all > most { keys_err!("no more memory") } else { Ok(()) }
            };
            let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &reserve) };
            SetIndex::try_new(WORDS, jaccard(0.5), None, keys.clone(), &context).map(|i| i.info().bytes)
        };
        assert!(build(10_000).is_err());
        let held = build(usize::MAX).unwrap();
        assert!(asked.load(Ordering::Relaxed) >= held / 2, "{} for {held}", asked.load(Ordering::Relaxed));
    }
}
