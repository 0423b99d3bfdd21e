//! Strings that many rows have: an index finds the pairs of different strings, and each string gives all of its rows.
//!
//! ```text
//! rows --Repeated--> different strings --StringIndex--> pairs of strings --rows of each--> pairs of rows
//! ```
//!
//! A position is a row, and those of a string stand side by side. So a call can end between two rows of a string; the
//! next one looks for that string once more.
//!
//! Memory: an index of the different strings, and four bytes a row and a string. In a self-join four more a row, and
//! eight more a string.

use std::ops::Range;

use crate::cpu::kind::IndexKind;
use crate::error::{Result, internal_err};
use crate::repeated::{Repeated, Spread};
use crate::stored::{Sink, Source, Store, Stored};
use crate::strings::predicate::EditPredicate;
use crate::{
    BuildContext, Cancel, Counts, Cursor, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs, PrepareContext,
    Prepared, Probe,
};

use super::index::{PreparedStrings, StringIndex};
use super::join::AccessPath;

/// The most rows that one step looks for.
const STEP: usize = 64;

/// A build side of strings that many rows have.
#[derive(Debug)]
pub struct RepeatedStrings {
    index: StringIndex,
    /// The rows of each string.
    build: Repeated,
    self_join: Option<ByPosition>,
    info: IndexInfo,
}

/// Rows of a side by position, in the order of its strings in the index.
#[derive(Debug)]
struct ByPosition {
    spread: Spread,
    /// The place of each string in the order, by its number.
    places: Vec<u32>,
}

impl ByPosition {
    /// The rows of strings that stand in the index in this `order`.
    fn new(order: &[u32], repeated: &Repeated) -> Self {
        let mut places = vec![0; repeated.count()];
        (0..).zip(order).for_each(|(place, &string)| places[string as usize] = place);
        Self { spread: Spread::new(order, repeated), places }
    }

    /// The rows of a string that stand at some positions.
    fn of_string(&self, string: u32, positions: &Range<usize>) -> &[u32] {
        let all = self.spread.positions(self.places[string as usize] as usize);
        &self.spread.rows()[all.start.max(positions.start)..all.end.min(positions.end)]
    }

    fn memory_of(repeated: &Repeated) -> usize {
        Spread::memory_of(repeated) + repeated.count() * size_of::<u32>()
    }

    fn memory(&self) -> usize {
        self.spread.memory() + self.places.capacity() * size_of::<u32>()
    }
}

impl RepeatedStrings {
    /// An index over the different strings of a build side, as [`StringIndex::try_new`] makes one.
    ///
    /// # Errors
    /// Errors of [`StringIndex::try_new`], and strings that Arrow cannot take.
    pub fn try_new(
        predicate: EditPredicate,
        path: Option<AccessPath>,
        (keys, build): (&KeyColumn, Repeated),
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let index = StringIndex::try_new(predicate, path, &build.keys(keys)?, context)?;
        if context.self_join {
            (context.reserve)(ByPosition::memory_of(&build))?;
        }
        Ok(Self::new(index, build, keys.values.len(), context.self_join))
    }

    fn new(index: StringIndex, build: Repeated, rows: usize, self_join: bool) -> Self {
        let self_join = self_join.then(|| ByPosition::new(index.order(), &build));
        let (of_index, matchable) = (index.info().clone(), build.all().len());
        let info = IndexInfo {
            path: format!("{}, {} different strings in {matchable} rows", of_index.path, build.count()),
            bytes: of_index.bytes + build.memory() + self_join.as_ref().map_or(0, ByPosition::memory),
            unmatchable: rows - matchable,
            self_join_len: matchable,
            ..of_index
        };
        Self { index, build, self_join, info }
    }

    /// Reads the index of [`try_new`](Self::try_new) with the same predicate and context.
    ///
    /// # Errors
    /// Bytes that are no such index.
    pub fn load(predicate: EditPredicate, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<Self> {
        let (rows, build) = (usize::load(source)?, Repeated::load(source)?);
        match IndexKind::load(source)? {
            IndexKind::Strings => {
                Ok(Self::new(StringIndex::load(predicate, source, context)?, build, rows, context.self_join))
            }
            kind => internal_err!("a stored index of different strings is of the kind {kind:?}"),
        }
    }

    /// Appends the pairs of rows at some positions with rows of other strings, until so much work is done. Positions
    /// become those that are dealt with. Returns what the index has counted, and how much work it was.
    fn pairs_of_strings(
        &self,
        probe: Probe<'_, PreparedStrings>,
        (by_position, positions): (Option<&ByPosition>, &mut Range<usize>),
        (work, cancel): (usize, &Cancel),
        (found, out): (&mut Pairs, &mut Pairs),
    ) -> Result<(Counts, usize)> {
        let strings = by_position.map_or_else(|| positions.clone(), |rows| rows.spread.places(positions));
        let mut cursor = Cursor { next: strings.start, end: strings.end };
        found.clear();
        let limit = Limit { pairs: usize::MAX, work };
        let (counts, work) = self.index.probe_by_work(probe, &mut cursor, limit, cancel, found)?;
        if cancel.is_cancelled() {
            // nothing is known of the positions
            return Ok((counts, work));
        }
        if !cursor.is_done() {
            positions.end = by_position.map_or(cursor.next, |rows| rows.spread.positions(cursor.next).start);
        }
        let positions = &*positions;
        for (&build, probe) in found.build.iter().zip(&found.probe) {
            let rows = by_position.map_or(std::slice::from_ref(probe), |rows| rows.of_string(*probe, positions));
            rows.iter().for_each(|&row| out.push_all(self.build.rows(build).iter().copied(), row));
        }
        Ok((counts, work))
    }

    /// Appends the pairs of rows at some positions with earlier rows of the same string.
    fn pairs_within_strings(&self, own: &ByPosition, positions: &Range<usize>, out: &mut Pairs) {
        let rows = own.spread.rows();
        for place in own.spread.places(positions) {
            let all = own.spread.positions(place);
            if all.len() > 1 && self.index.is_like_itself(place) {
                for position in all.start.max(positions.start)..all.end.min(positions.end) {
                    out.push_all(rows[all.start..position].iter().copied(), rows[position]);
                }
            }
        }
    }
}

impl Store for RepeatedStrings {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::RepeatedStrings.store(sink)?;
        let Self { index, build, info, .. } = self;
        (info.self_join_len + info.unmatchable).store(sink)?;
        build.store(sink)?;
        index.store(sink)
    }
}

/// A probe batch: its different strings, or its rows where few have the same string.
#[derive(Debug)]
pub struct PreparedRepeated {
    strings: PreparedStrings,
    rows: Option<ByPosition>,
}

impl Index for RepeatedStrings {
    type Batch = PreparedRepeated;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedRepeated>> {
        let Some(repeated) = Repeated::of(keys, None, context.cancel, &|_| Ok(()))? else {
            return Ok(self.index.prepare(keys, context)?.map(|strings| PreparedRepeated { strings, rows: None }));
        };
        let prepared = self.index.prepare(&repeated.keys(keys)?, context)?;
        let rows = ByPosition::new(prepared.batch.order(), &repeated);
        let (len, unmatchable) = (rows.spread.rows().len(), keys.values.len() - rows.spread.rows().len());
        Ok(Prepared::new(PreparedRepeated { strings: prepared.batch, rows: Some(rows) }, len, unmatchable))
    }
}

impl PairIndex for RepeatedStrings {
    fn probe(
        &self,
        probe: Probe<'_, PreparedRepeated>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let (probe, by_position) = match probe {
            Probe::SelfJoin => (Probe::SelfJoin, self.self_join.as_ref()),
            Probe::Batch(batch) => (Probe::Batch(&batch.strings), batch.rows.as_ref()),
        };
        let (before, mut done) = (out.len(), 0);
        let (mut refuted, mut found) = (Counts::default(), Pairs::default());
        // a single row shows how many pairs a row yields
        let mut most = 1;
        while !cursor.is_done() && out.len() - before < limit.pairs && done < limit.work && !cancel.is_cancelled() {
            let (start, had) = (cursor.next, out.len());
            let mut positions = start..cursor.end.min(start + most);
            let left = (limit.work - done, cancel);
            let (counts, work) =
                self.pairs_of_strings(probe, (by_position, &mut positions), left, (&mut found, out))?;
            if cancel.is_cancelled() {
                out.truncate(had);
                break;
            }
            if let (Probe::SelfJoin, Some(own)) = (probe, by_position) {
                self.pairs_within_strings(own, &positions, out);
            }
            refuted.candidates += counts.candidates - counts.matched;
            refuted.verified += counts.verified - counts.matched;
            cursor.next = positions.end;
            let yielded = out.len() - had;
            done += work + yielded;
            let wanted = limit.pairs.saturating_sub(out.len() - before);
            most = (4 * most).min(STEP).min(wanted.saturating_mul(positions.len()) / yielded.max(1)).max(1);
        }
        let matched = out.len() - before;
        Ok(Counts { candidates: refuted.candidates + matched, verified: refuted.verified + matched, matched })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::NO_GROUP;
    use crate::condition::Bounds;
    use crate::test_oracle::strings::*;
    use similarity_measures::EditMeasure;

    /// So many rows with one of `different` strings, or none.
    fn rows(count: usize, different: &[Option<String>], rng: &mut StdRng) -> Values {
        (0..count).map(|_| different.choose(rng).unwrap().clone()).collect()
    }

    fn built(predicate: EditPredicate, path: Option<AccessPath>, keys: &KeyColumn, self_join: bool) -> RepeatedStrings {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        let repeated = Repeated::of(keys, None, &cancel, &reserve).unwrap().unwrap();
        let index = RepeatedStrings::try_new(predicate, path, (keys, repeated), &context).unwrap();
        // what comes back from its bytes is the same index
        let mut bytes = Vec::new();
        index.store(&mut Sink::new(&mut bytes)).unwrap();
        let mut source = Source::new(&bytes, 1);
        assert_eq!(IndexKind::load(&mut source).unwrap(), IndexKind::RepeatedStrings);
        let loaded = RepeatedStrings::load(predicate, &mut source, &context).unwrap();
        assert_eq!((&loaded.info().path, source.left()), (&index.info().path, 0));
        loaded
    }

    #[test]
    fn every_predicate_finds_what_a_nested_loop_finds() {
        let mut once = 0;
        for (case, predicate) in predicates().into_iter().enumerate() {
            let mut rng = StdRng::seed_from_u64(case as u64);
            let different = strings(60, &mut rng);
            let (build, probe) = (rows(400, &different, &mut rng), rows(50, &different[..9], &mut rng));
            // a probe side of which few rows have the same string
            let apart = strings(50, &mut rng);
            let mut groups = |rows: usize| -> Groups {
                (case % 2 == 1).then(|| (0..rows).map(|_| [0, 1, NO_GROUP][rng.random_range(0..3)]).collect())
            };
            let (of_build, of_probe) = (groups(400), groups(50));
            let keys = key_column(&build, &of_build);
            let (range, limit) = match case % 3 {
                0 => (usize::MAX, UNLIMITED),
                n => (7, Limit { pairs: n, work: 1000 }),
            };
            let path = [None, Some(AccessPath::Segments), Some(AccessPath::Tiles)][case / 3 % 3];
            let own = built(predicate, path, &keys, true);
            let expected = oracle(predicate, (&build, &of_build), (&build, &of_build), true);
            let len = own.info().self_join_len;
            assert_eq!(run(&own, Probe::SelfJoin, len, range, limit), expected, "{predicate:?}");
            assert_eq!(len + own.info().unmatchable, 400);
            let both = built(predicate, path, &keys, false);
            for probe in [&probe, &apart] {
                let prepared = both.prepare(&key_column(probe, &of_probe), &PrepareContext::by(1)).unwrap();
                let expected = oracle(predicate, (&build, &of_build), (probe, &of_probe), false);
                let found = run(&both, Probe::Batch(&prepared.batch), prepared.len, range, limit);
                assert_eq!(found, expected, "{predicate:?}");
                once += usize::from(prepared.batch.rows.is_some());
                assert_eq!(prepared.len + prepared.unmatchable, 50);
            }
        }
        assert!(once > 20, "{once} batches have strings that repeat");
    }

    #[test]
    fn a_call_ends_between_two_rows_of_a_string() {
        const ROWS: usize = 100_000;
        let keys = key_column(&vec![Some("one".to_owned()); ROWS], &None);
        let predicate = EditPredicate { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(1.0, true) };
        let probed = |index: &RepeatedStrings, probe: Probe<'_, PreparedRepeated>, next: usize, limit: Limit| {
            let (mut cursor, mut pairs) = (Cursor { next, end: ROWS }, Pairs::default());
            let counts = index.probe(probe, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
            assert_eq!((counts.matched, counts.verified), (pairs.len(), pairs.len()));
            (cursor.next - next, pairs.len())
        };
        let own = built(predicate, None, &keys, true);
        assert!(own.info().path.ends_with(", 1 different strings in 100000 rows"), "{}", own.info().path);
        let few_pairs = Limit { pairs: 500, work: usize::MAX };
        assert_eq!(probed(&own, Probe::SelfJoin, 50_000, few_pairs), (1, 50_000));
        let little_work = Limit { pairs: usize::MAX, work: 500 };
        assert_eq!(probed(&own, Probe::SelfJoin, 50_000, little_work), (1, 50_000));
        let more_pairs = Limit { pairs: 150_000, work: usize::MAX };
        assert_eq!(probed(&own, Probe::SelfJoin, 50_000, more_pairs), (3, 150_003));
        let both = built(predicate, None, &keys, false);
        let prepared = both.prepare(&keys, &PrepareContext::by(1)).unwrap();
        assert_eq!(probed(&both, Probe::Batch(&prepared.batch), 0, more_pairs), (2, 200_000));
    }
}
