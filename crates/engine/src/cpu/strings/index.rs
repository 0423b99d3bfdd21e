//! The index of a build side, and the probe batches that it makes ready.

use crate::error::{Result, internal_err};

use super::cost;
use super::join::{AccessPath, Paths};
use super::limits::KnownLimits;
use super::runs::Runs;
use super::segment_index::SegmentIndex;
use super::sides::Sides;
use super::sorted::{Signers, SortedStrings};
use super::tiles::Tiles;
use super::work::Work;
use crate::cpu::kind::IndexKind;
use crate::stored::{Sink, Source, Store, Stored};
use crate::strings::predicate::EditPredicate;
use crate::{
    BuildContext, Cancel, Counts, Cursor, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs, PrepareContext,
    Prepared, Probe,
};

/// A build side's strings, ready for probing with one predicate.
#[derive(Debug)]
pub struct StringIndex {
    predicate: EditPredicate,
    known: KnownLimits,
    /// Whether it probes itself.
    self_join: bool,
    signers: Signers,
    texts: SortedStrings,
    runs: Runs,
    paths: Paths,
    info: IndexInfo,
}

impl StringIndex {
    /// Copies the strings of `keys` in order, signs them and builds the access path, the cheaper one where none is
    /// given.
    ///
    /// # Errors
    /// Keys that are no strings, a refused reservation, a cancelled build.
    pub fn try_new(
        predicate: EditPredicate,
        path: Option<AccessPath>,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let BuildContext { threads, self_join, cancel, reserve, .. } = *context;
        let mut texts = SortedStrings::try_new(&predicate, keys, reserve)?;
        cancel.check()?;
        let signers = Signers::learn(&texts);
        let longest = longest(&texts);
        reserve(texts.len() * signers.size() + Runs::size(&texts) + Tiles::size(texts.len()))?;
        reserve(KnownLimits::size(longest))?;
        texts.sign(&signers, threads, cancel);
        cancel.check()?;
        let runs = Runs::of(&texts);
        let known = KnownLimits::up_to(longest);
        let sides = Sides { predicate: &predicate, known: None, build: &texts, runs: &runs, probe: &texts, self_join };
        let segments = segment_index(&sides, path, context)?;
        let tiles = Tiles::build(&texts, cost::choose_tested(&sides));
        cancel.check()?;
        let of_segments = segments.as_ref().map_or(0, SegmentIndex::memory);
        let info = IndexInfo {
            path: describe(&tiles, segments.as_ref(), &runs, texts.len()),
            bytes: known.memory() + signers.memory() + texts.memory() + runs.memory() + tiles.memory() + of_segments,
            unmatchable: texts.unmatchable,
            self_join_len: texts.len(),
            ..IndexInfo::default()
        };
        Ok(Self { predicate, known, self_join, signers, texts, runs, paths: Paths { tiles, segments }, info })
    }

    /// The row at each position of the build side.
    pub(super) fn order(&self) -> &[u32] {
        &self.texts.rows
    }

    /// Whether the string at a position matches itself.
    pub(super) fn is_like_itself(&self, position: usize) -> bool {
        let text = self.texts.text(position);
        self.predicate.measure.score(text, text).is_some_and(|score| self.predicate.bounds.contains(score))
    }

    /// The pairs of [`PairIndex::probe`], and how much work they were, as [`Limit::work`] counts it.
    ///
    /// # Errors
    /// Errors of [`PairIndex::probe`].
    pub(super) fn probe_by_work(
        &self,
        probe: Probe<'_, PreparedStrings>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<(Counts, usize)> {
        let sides = self.sides(probe)?;
        let mut work = Work::new(limit, cancel, out);
        self.paths.probe(&sides, cursor, &mut work);
        Ok((Counts { matched: work.matched(), ..work.counts }, work.done))
    }

    fn sides<'a>(&'a self, probe: Probe<'a, PreparedStrings>) -> Result<Sides<'a>> {
        let probe = match probe {
            Probe::SelfJoin if self.self_join => &self.texts,
            Probe::Batch(PreparedStrings(texts)) if !self.self_join => texts,
            _ => return internal_err!("an edit index was built for the other kind of probe"),
        };
        let Self { predicate, known, texts, runs, self_join, .. } = self;
        Ok(Sides { predicate, known: Some(known), build: texts, runs, probe, self_join: *self_join })
    }
}

fn segment_index(
    sides: &Sides<'_>,
    path: Option<AccessPath>,
    context: &BuildContext<'_>,
) -> Result<Option<SegmentIndex>> {
    let BuildContext { cancel, reserve, .. } = *context;
    let mut chosen = cost::choose(sides, path, context);
    let Some(operations) = sides.predicate.measure.operations().filter(|_| !chosen.is_empty()) else {
        return Ok(None);
    };
    let segments = std::mem::take(&mut chosen.segments);
    let mut index = SegmentIndex::build(sides.build, sides.runs, segments, operations, cancel, reserve)?;
    cancel.check()?;
    Ok(cost::revise(sides, &chosen, &mut index).then_some(index))
}

/// The length of the longest string.
fn longest(texts: &SortedStrings) -> usize {
    texts.lengths.iter().max().map_or(0, |&length| length as usize)
}

/// The access paths of `rows` strings.
fn describe(tiles: &Tiles, segments: Option<&SegmentIndex>, runs: &Runs, rows: usize) -> String {
    let tiles = tiles.describe();
    let Some(segments) = segments else { return tiles };
    let cuts = match segments.cuts() {
        Some((fewest, most)) if fewest < most => format!("{fewest} to {most}"),
        cuts => cuts.map_or(0, |(fewest, _)| fewest).to_string(),
    };
    let indexed = segments.indexed(runs);
    match rows - indexed {
        0 => format!("segment index of {cuts} segments a string"),
        rest => format!("segment index of {cuts} segments a string over {indexed} rows, {tiles} over {rest}"),
    }
}

impl Store for StringIndex {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Strings.store(sink)?;
        let Self { signers, texts, paths: Paths { tiles, segments }, info, .. } = self;
        signers.store(sink)?;
        texts.store(sink)?;
        tiles.store(sink)?;
        segments.is_some().store(sink)?;
        segments.iter().try_for_each(|segments| segments.store(sink))?;
        info.store(sink)
    }
}

impl StringIndex {
    /// Reads the index of [`try_new`](Self::try_new) with the same predicate and context.
    ///
    /// # Errors
    /// Bytes that are no such index.
    pub fn load(predicate: EditPredicate, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<Self> {
        let signers = Signers::load(source)?;
        let texts = SortedStrings::load(source)?;
        let runs = Runs::of(&texts);
        let tiles = Tiles::load(&texts, source)?;
        let segments = match (bool::load(source)?, predicate.measure.operations()) {
            (true, Some(operations)) => Some(SegmentIndex::load(operations, source)?),
            (true, None) => return internal_err!("a stored index has segments of a measure that counts no edits"),
            (false, _) => None,
        };
        // the name of a path tells what this machine has
        let path = describe(&tiles, segments.as_ref(), &runs, texts.len());
        let info = IndexInfo { path, ..IndexInfo::load(source)? };
        let (known, self_join) = (KnownLimits::up_to(longest(&texts)), context.self_join);
        Ok(Self { predicate, known, self_join, signers, texts, runs, paths: Paths { tiles, segments }, info })
    }
}

/// A probe batch in the order of the index.
#[derive(Debug)]
pub struct PreparedStrings(SortedStrings);

impl PreparedStrings {
    /// The row at each position.
    pub(super) fn order(&self) -> &[u32] {
        &self.0.rows
    }
}

impl Index for StringIndex {
    type Batch = PreparedStrings;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedStrings>> {
        if self.self_join {
            return internal_err!("an edit index was built for a self-join and given another input");
        }
        let mut texts = SortedStrings::try_new(&self.predicate, keys, &|_| Ok(()))?;
        texts.sign(&self.signers, 1, context.cancel);
        context.cancel.check()?;
        let (len, unmatchable) = (texts.len(), texts.unmatchable);
        Ok(Prepared::new(PreparedStrings(texts), len, unmatchable))
    }
}

impl PairIndex for StringIndex {
    fn probe(
        &self,
        probe: Probe<'_, PreparedStrings>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        Ok(self.probe_by_work(probe, cursor, limit, cancel, out)?.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::error::keys_err;
    use arrow::array::{ArrayRef, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::DataType;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::NO_GROUP;
    use crate::condition::Bounds;
    use crate::test_oracle::strings::*;
    use similarity_measures::EditMeasure;

    fn index(predicate: EditPredicate, path: Option<AccessPath>, keys: &KeyColumn, self_join: bool) -> StringIndex {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        StringIndex::try_new(predicate, path, keys, &context).unwrap()
    }

    const PATHS: [Option<AccessPath>; 3] = [None, Some(AccessPath::Segments), Some(AccessPath::Tiles)];

    fn levenshtein(k: f64) -> EditPredicate {
        EditPredicate { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(k, true) }
    }

    #[test]
    fn every_predicate_finds_what_a_nested_loop_finds() {
        for (case, predicate) in predicates().into_iter().enumerate() {
            let mut rng = StdRng::seed_from_u64(case as u64);
            let (build, probe) = (strings(80, &mut rng), strings(40, &mut rng));
            let mut groups = |rows: usize| -> Groups {
                let some = case % 2 == 1;
                some.then(|| (0..rows).map(|_| [0, 1, 2, NO_GROUP][rng.random_range(0..4)]).collect())
            };
            let (of_build, of_probe) = (groups(80), groups(40));
            let (build_keys, probe_keys) = (key_column(&build, &of_build), key_column(&probe, &of_probe));
            let (range, limit) = match case % 3 {
                0 => (usize::MAX, UNLIMITED),
                n => (7, Limit { pairs: n, work: 1000 }),
            };
            let expected_own = oracle(predicate, (&build, &of_build), (&build, &of_build), true);
            let expected = oracle(predicate, (&build, &of_build), (&probe, &of_probe), false);
            for path in PATHS {
                let self_join = index(predicate, path, &build_keys, true);
                assert_eq!(
                    run(&self_join, Probe::SelfJoin, self_join.info().self_join_len, range, limit),
                    expected_own,
                    "{predicate:?} {path:?}"
                );
                let both = index(predicate, path, &build_keys, false);
                let prepared = both.prepare(&probe_keys, &PrepareContext::by(1)).unwrap();
                let batch = Probe::Batch(&prepared.batch);
                assert_eq!(run(&both, batch, prepared.len, range, limit), expected, "{predicate:?} {path:?}");
            }
        }
    }

    #[test]
    fn the_cost_chooses_and_both_paths_agree() {
        let values = numbered(4000);
        let keys = key_column(&values, &None);
        let found = PATHS.map(|path| {
            let index = index(levenshtein(2.0), path, &keys, true);
            assert_eq!(index.info().path.contains("segment index"), path != Some(AccessPath::Tiles));
            assert!(index.info().bytes > 4000 * 28);
            run(&index, Probe::SelfJoin, index.info().self_join_len, 512, UNLIMITED)
        });
        assert!(found[0].len() >= 2000 && found[0] == found[1] && found[1] == found[2]);
        let alike: Values = (0..4000).map(|n| Some(format!("https://www.example.com/{n:04}/index.html"))).collect();
        let index = index(levenshtein(1.0), None, &key_column(&alike, &None), true);
        assert!(!index.info().path.contains("segment index"), "{}", index.info().path);
    }

    #[test]
    fn every_string_type_gives_the_same() {
        let values: Values =
            vec![Some("kitten".into()), None, Some("sitten".into()), Some("".into()), Some("né a long string".into())];
        let strings: ArrayRef = Arc::new(StringArray::from(values));
        for path in PATHS {
            for data_type in [
                DataType::Utf8,
                DataType::LargeUtf8,
                DataType::Utf8View,
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
                DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::LargeUtf8)),
            ] {
                let keys = KeyColumn { values: cast(&strings, &data_type).unwrap(), groups: None };
                let index = index(levenshtein(1.0), path, &keys, true);
                assert_eq!((index.info().self_join_len, index.info().unmatchable), (4, 1));
                let found = run(&index, Probe::SelfJoin, 4, usize::MAX, UNLIMITED);
                assert_eq!(found, Found::from([(0, 2)]), "{data_type}");
            }
        }
    }

    #[test]
    fn nothing_to_index_and_nothing_to_probe() {
        for values in [vec![], vec![None, None]] {
            for predicate in predicates() {
                for path in PATHS {
                    let nothing = key_column(&values, &None);
                    let self_join = index(predicate, path, &nothing, true);
                    assert_eq!((self_join.info().self_join_len, self_join.info().unmatchable), (0, values.len()));
                    let both = index(predicate, path, &nothing, false);
                    let probed = both
                        .prepare(&key_column(&vec![Some("a".into()), Some("".into())], &None), &PrepareContext::by(1))
                        .unwrap();
                    assert!(run(&both, Probe::Batch(&probed.batch), 2, 1, UNLIMITED).is_empty());
                    let some = index(predicate, path, &key_column(&vec![Some("a".into())], &None), false);
                    assert_eq!(some.prepare(&nothing, &PrepareContext::by(1)).unwrap().len, 0);
                }
            }
        }
    }

    #[test]
    fn a_refused_reservation_ends_the_build() {
        let values = numbered(2000);
        let total = AtomicUsize::new(0);
        let build = |budget: usize| {
            total.store(0, Ordering::Relaxed);
            let reserve = |bytes| match total.fetch_add(bytes, Ordering::Relaxed) + bytes > budget {
                true => keys_err!("no more"),
                false => Ok(()),
            };
            let (cancel, keys) = (Cancel::default(), key_column(&values, &None));
            let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &reserve) };
            StringIndex::try_new(levenshtein(2.0), None, &keys, &context)
        };
        let index = build(usize::MAX).unwrap();
        let asked = total.load(Ordering::Relaxed);
        assert!(asked >= index.info().bytes - 2 * 16_384, "{asked} {}", index.info().bytes);
        for budget in [0, asked / 10, asked / 2, asked - 1] {
            assert!(build(budget).is_err());
        }
    }

    #[test]
    fn cancelled_work_ends() {
        let values = numbered(2000);
        let (cancel, keys) = (Cancel::default(), key_column(&values, &None));
        cancel.cancel();
        let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
        assert!(StringIndex::try_new(levenshtein(2.0), None, &keys, &context).is_err());
        let long: Values = (0..2).map(|n| Some("ab".repeat(200_000 + n))).collect();
        let predicate =
            EditPredicate { measure: EditMeasure::DAMERAU_LEVENSHTEIN, bounds: Bounds::at_most(300_000.0, true) };
        let index = index(predicate, None, &key_column(&long, &None), true);
        let (mut cursor, mut pairs) = (Cursor { next: 0, end: 2 }, Pairs::default());
        index.probe(Probe::SelfJoin, &mut cursor, UNLIMITED, &cancel, &mut pairs).unwrap();
        assert!(pairs.is_empty());
    }

    #[test]
    fn threads_share_a_self_join() {
        let values = numbered(3000);
        let index = index(levenshtein(2.0), None, &key_column(&values, &None), true);
        let expected = run(&index, Probe::SelfJoin, 3000, usize::MAX, UNLIMITED);
        let part = |n: usize| {
            let index = &index;
            move || {
                let (mut cursor, mut pairs) = (Cursor { next: n * 750, end: (n + 1) * 750 }, Pairs::default());
                index.probe(Probe::SelfJoin, &mut cursor, UNLIMITED, &Cancel::default(), &mut pairs).unwrap();
                pairs
            }
        };
        let parts: Vec<Pairs> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(part(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(parts.iter().map(Pairs::len).sum::<usize>(), expected.len());
    }

    #[test]
    fn identical_strings_stop_at_the_limit() {
        let values: Values = vec![Some("the same string again".into()); 100_000];
        let index = index(levenshtein(2.0), None, &key_column(&values, &None), true);
        let mut cursor = Cursor { next: 60_000, end: 100_000 };
        let mut pairs = Pairs::default();
        let limit = Limit { pairs: 10, work: usize::MAX };
        index.probe(Probe::SelfJoin, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
        assert!(pairs.len() >= 10 && pairs.len() < 400_000, "{}", pairs.len());
    }
}
