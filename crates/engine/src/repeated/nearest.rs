//! The best rows of a side whose rows share keys: an index ranks the keys, and the best keys give their best rows.
//!
//! Each key stands for its best row. The k best rows are among those of the k best keys, ties included: a key that is
//! before another one has a row before all rows of that one.

use crate::error::Result;
use crate::metrics::MetricValue;

use super::{Repeated, Spread};
use crate::condition::{Condition, VectorCondition};
use crate::cpu;
use crate::nearest::{Best, DynNearestIndex, NearestIndex, Neighbour, Wanted};
use crate::ranking::Ranking;
use crate::stored::{Sink, Source, Store, Stored, store_some, stored};
use crate::vectors::points::Points;
use crate::{AnyBatch, BuildContext, Cancel, Counts, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};

/// An index over the keys of a build side, or over its rows where few share a key. Rows of the probe side that share
/// a key are searched for once, unless neighbours may be missed: what is missed is weighed by rows.
#[derive(Debug)]
pub struct NearestRepeated {
    index: Box<DynNearestIndex>,
    /// The rows of each key; none where the index has rows.
    build: Option<RankedRows>,
    /// The rows of a self-join; none where the index has rows.
    self_join: Option<Spread>,
    info: IndexInfo,
}

/// The rows of each key, and the rank of each row.
#[derive(Debug)]
pub struct RankedRows {
    repeated: Repeated,
    ranks: Vec<u32>,
}

stored!(RankedRows { repeated, ranks });

impl RankedRows {
    /// Rows by their keys, each with a rank.
    pub fn new(repeated: Repeated, ranks: Vec<u32>) -> Self {
        Self { repeated, ranks }
    }

    /// Replaces the best keys, which are in order, by their best rows.
    pub fn spread<K: Ord + Copy>(&self, keys: &mut Vec<Neighbour<K>>, wanted: Wanted) {
        let mut best = Best::new(wanted);
        for key in keys.drain(..) {
            for &row in self.repeated.rows(key.row) {
                let neighbour = Neighbour { score: key.score, rank: self.ranks[row as usize], row };
                if !best.takes(&neighbour) {
                    break;
                }
                best.offer(neighbour);
            }
        }
        best.take_into(keys);
    }

    /// Rows that have no key.
    pub fn without_key(&self) -> usize {
        self.ranks.len() - self.repeated.all().len()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.repeated.memory() + self.ranks.capacity() * size_of::<u32>()
    }

    /// How many rows have a score with some vector; any value but a vector has one.
    fn rankable(&self, ranking: &Ranking, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<usize> {
        let Ranking::Score(Condition::Vector(condition)) = ranking else { return Ok(self.repeated.all().len()) };
        let every = VectorCondition::every_score(condition.measure);
        let points = Points::try_new(&every, keys, None, &context.preparing())?;
        let keys = points.filterable.rows.iter().chain(&points.unfilterable.rows);
        Ok(keys.map(|&key| self.repeated.rows(key).len()).sum())
    }
}

impl Store for NearestRepeated {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        let Self { index, build, self_join: _, info } = self;
        build.store(sink)?;
        info.store(sink)?;
        store_some(index.stored(), sink)
    }
}

impl NearestRepeated {
    /// Reads an index for the same ranking.
    ///
    /// # Errors
    /// Bytes that are no such index.
    pub fn load(ranking: &Ranking, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<Self> {
        let (build, info) = (Option::<RankedRows>::load(source)?, Stored::load(source)?);
        let index = cpu::load_nearest(ranking, source, context)?;
        let self_join = match &build {
            Some(build) if context.self_join => Some(Spread::new(index.order(Probe::SelfJoin)?, &build.repeated)),
            _ => None,
        };
        Ok(Self { index, build, self_join, info })
    }

    /// An index over the rows of a build side.
    pub fn of_rows(index: Box<DynNearestIndex>) -> Self {
        Self { info: index.info().clone(), index, build: None, self_join: None }
    }

    /// An index for `ranking` over the `keys` of a build side whose rows have `ranks`.
    ///
    /// # Errors
    /// An index that was not built for a self-join as `context` says, a cancelled build.
    pub fn of_keys(
        index: Box<DynNearestIndex>,
        build: RankedRows,
        ranking: &Ranking,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let self_join = match context.self_join {
            true => Some(Spread::new(index.order(Probe::SelfJoin)?, &build.repeated)),
            false => None,
        };
        let of_self_join = self_join.as_ref().map_or(0, Spread::memory);
        (context.reserve)(of_self_join)?;
        let of_index = index.info().clone();
        let (different, rows) = (build.repeated.count(), build.ranks.len());
        let info = IndexInfo {
            path: format!("{}, {different} different keys in {rows} rows", of_index.path),
            bytes: of_index.bytes + build.memory() + of_self_join,
            unmatchable: match of_index.unmatchable {
                0 => build.without_key(),
                _ => rows - build.rankable(ranking, keys, context)?,
            },
            self_join_len: self_join.as_ref().map_or(0, |self_join| self_join.rows().len()),
            ..of_index
        };
        Ok(Self { info, index, build: Some(build), self_join })
    }

    /// A probe batch, or the build side itself, as the index wants it, and how its positions are spread.
    fn inner<'a>(&'a self, probe: Probe<'a, Batch>) -> (Probe<'a, AnyBatch>, Option<&'a Spread>) {
        match probe {
            Probe::SelfJoin => (Probe::SelfJoin, self.self_join.as_ref()),
            Probe::Batch(Batch { batch, spread }) => (Probe::Batch(batch), spread.as_ref()),
        }
    }
}

impl Index for NearestRepeated {
    type Batch = Batch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.index.metrics()
    }

    fn stored(&self) -> Option<&dyn Store> {
        self.index.stored().map(|_| self as &dyn Store)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Batch>> {
        let rows = keys.values.len();
        let repeated = match self.index.misses() {
            true => None,
            false => Repeated::of(keys, None, context.cancel, &|_| Ok(()))?,
        };
        let Some(repeated) = repeated else {
            return Ok(self.index.prepare(keys, context)?.map(|batch| Batch { batch, spread: None }));
        };
        let prepared = self.index.prepare(&repeated.keys(keys)?, context)?;
        let spread = Spread::new(self.index.order(Probe::Batch(&prepared.batch))?, &repeated);
        let len = spread.rows().len();
        let prepared = prepared.map(|batch| Batch { batch, spread: Some(spread) });
        Ok(Prepared { len, unmatchable: rows - len, ..prepared })
    }
}

impl NearestIndex for NearestRepeated {
    fn misses(&self) -> bool {
        self.index.misses()
    }

    fn positions_at_once(&self, probe: Probe<'_, Batch>, wanted: usize) -> Result<usize> {
        self.index.positions_at_once(self.inner(probe).0, wanted)
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        let Some(spread) = &self.self_join else { return self.index.self_join_stretch(start, wanted) };
        if start >= self.info.self_join_len {
            return self.info.self_join_len;
        }
        let end = self.index.self_join_stretch(spread.place(start), wanted).min(self.index.info().self_join_len);
        spread.positions(end - 1).end
    }

    fn order<'a>(&'a self, probe: Probe<'a, Batch>) -> Result<&'a [u32]> {
        match self.inner(probe) {
            (_, Some(spread)) => Ok(spread.rows()),
            (probe, None) => self.index.order(probe),
        }
    }

    fn nearest(
        &self,
        probe: Probe<'_, Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let (probe, spread) = self.inner(probe);
        let Some(wanted) = best.first().map(Best::wanted) else { return Ok(Counts::default()) };
        if spread.is_none() && self.build.is_none() {
            return self.index.nearest(probe, positions, best, cancel);
        }
        let has_key = |key: u32, position: u32| match spread {
            Some(spread) => spread.positions(key as usize).contains(&(position as usize)),
            None => key == position,
        };
        let mut keys: Vec<u32> = Vec::new();
        for &position in positions {
            if keys.last().is_none_or(|&key| !has_key(key, position)) {
                keys.push(spread.map_or(position, |spread| spread.place(position as usize) as u32));
            }
        }
        let mut of_keys: Vec<Best<i64>> = keys.iter().map(|_| Best::new(wanted)).collect();
        let counts = self.index.nearest(probe, &keys, &mut of_keys, cancel)?;
        let mut rows = positions.iter().zip(best).peekable();
        let mut ranked = Vec::new();
        for (searched, mut found) in keys.into_iter().zip(of_keys) {
            ranked.clear();
            found.take_into(&mut ranked);
            self.build.iter().for_each(|build| build.spread(&mut ranked, wanted));
            while let Some((_, best)) = rows.next_if(|&(&position, _)| has_key(searched, position)) {
                best.offer_ranked(&ranked);
            }
        }
        Ok(counts)
    }
}

/// A batch of the probe side.
#[derive(Debug)]
pub struct Batch {
    /// Keys of the batch, or its rows, as the index wants them.
    batch: AnyBatch,
    /// Rows of the batch, where the index has keys.
    spread: Option<Spread>,
}
