//! The ranked side, ready to be probed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{JoinSide, Result, internal_err};
use similarity_engine::metrics::MetricValue;

use super::found::FoundRows;
use super::indexed::{Indexed, Search};
use super::scored::{Scored, Scoring};
use super::strategy::{IndexedScore, NearestStrategy};
use crate::exec::engine::{EngineResult, is_about_values};
use crate::exec::kept::{KeptIndex, KeptPart};
use crate::exec::strategy::{BuiltJoin, DynBuiltJoin, Run};
use similarity_engine::access_path::AccessPath;
use similarity_engine::equality::{Codes, Groups};
use similarity_engine::stored::{Sink, Store};
use similarity_engine::{
    AnyBatch, Counts, Cursor, IndexInfo, KeyColumn, Pairs, PrepareContext, Prepared, Probe, even_stretch,
};

/// What finds the best rows of a group.
#[derive(Debug)]
pub(super) enum Ranker {
    Indexed(Indexed),
    Scored(Scored),
}

/// The right side, whatever looks for neighbours there.
#[derive(Debug)]
pub(super) struct RankedSide {
    pub groups: Option<Groups>,
    pub ranker: Ranker,
}

impl KeptIndex for RankedSide {
    fn stored(&self) -> Option<&dyn Store> {
        match &self.ranker {
            Ranker::Indexed(indexed) if indexed.is_stored() => Some(self),
            Ranker::Indexed(_) | Ranker::Scored(_) => None,
        }
    }
}

/// The groups are made of the rows again.
impl Store for RankedSide {
    fn store(&self, sink: &mut Sink<'_>) -> similarity_engine::Result<()> {
        match &self.ranker {
            Ranker::Indexed(indexed) => indexed.store(sink),
            Ranker::Scored(_) => similarity_engine::error::internal_err!("scores of pairs are not stored"),
        }
    }
}

/// The right side of a query.
#[derive(Debug)]
pub(super) struct NearestMatcher {
    keys: NearestStrategy,
    batch: RecordBatch,
    ranked: Arc<RankedSide>,
    /// What finds the pairs of conditions that the index does not count.
    found: Option<Box<DynBuiltJoin>>,
    /// Whether a batch had too many of these pairs, so that others are not asked for theirs.
    found_too_many: AtomicBool,
    /// Rows of the build side as those that get neighbours, in a self-join.
    self_join: Option<PreparedRows>,
    info: IndexInfo,
}

impl NearestMatcher {
    pub(super) fn new(
        keys: NearestStrategy,
        batch: RecordBatch,
        ranked: Arc<RankedSide>,
        found: Option<Box<DynBuiltJoin>>,
        self_join: Option<PreparedRows>,
    ) -> Self {
        let RankedSide { groups, ranker } = ranked.as_ref();
        let of_ranker = match ranker {
            Ranker::Indexed(indexed) => indexed.info(),
            Ranker::Scored(scored) => IndexInfo {
                path: AccessPath::AllCandidates.to_string(),
                bytes: scored.memory(),
                unmatchable: scored.unmatchable(),
                ..IndexInfo::default()
            },
        };
        let of_found = found.as_ref().map(|found| found.info());
        let info = IndexInfo {
            path: match of_found {
                Some(found) => format!("{}, and {}", of_ranker.path, found.path),
                None => of_ranker.path,
            },
            bytes: of_ranker.bytes
                + groups.as_ref().map_or(0, Groups::memory)
                + of_found.map_or(0, |found| found.bytes),
            self_join_len: self_join.as_ref().map_or(0, |rows| rows.positions),
            ..of_ranker
        };
        Self { keys, batch, ranked, found, found_too_many: AtomicBool::new(false), self_join, info }
    }
}

impl BuiltJoin for NearestMatcher {
    type Batch = PreparedRows;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        match &self.ranked.ranker {
            Ranker::Indexed(indexed) => {
                let of_found = self.found.iter().flat_map(|found| found.metrics());
                indexed.index.metrics().into_iter().chain(indexed.reason.metric()).chain(of_found).collect()
            }
            Ranker::Scored(_) => Vec::new(),
        }
    }

    fn kept(&self) -> Option<KeptPart> {
        match &self.ranked.ranker {
            Ranker::Indexed(_) => Some(Arc::clone(&self.ranked) as KeptPart),
            // scores are of expressions over both sides
            Ranker::Scored(_) => None,
        }
    }

    fn self_join_stretch(&self, start: usize) -> usize {
        match &self.ranked.ranker {
            Ranker::Indexed(indexed) => indexed.index.self_join_stretch(start, self.keys.rows),
            Ranker::Scored(_) => even_stretch(start, self.info.self_join_len),
        }
    }

    fn prepare(&self, batch: &RecordBatch, context: &PrepareContext<'_>) -> Result<Prepared<PreparedRows>> {
        let groups = match &self.ranked.groups {
            Some(groups) => Some(
                groups
                    .look_up(&self.keys.equalities_of(JoinSide::Left, batch)?)
                    .and_then(Codes::into_vec)
                    .or_datafusion()?,
            ),
            None => None,
        };
        let batch = batch.clone();
        if let Ranker::Indexed(indexed) = &self.ranked.ranker {
            match indexed.left_keys(self.keys.indexed.as_ref(), &batch).and_then(|values| {
                indexed.index.prepare(&KeyColumn { values, groups: groups.clone() }, context).or_datafusion()
            }) {
                Ok(prepared) => {
                    let positions = prepared.len;
                    let found = self.found_rows(&batch, context)?;
                    let rows =
                        |probe| PreparedRows { batch, positions, groups: None, found, probe: Probed::Batch(probe) };
                    return Ok(prepared.map(rows));
                }
                Err(error) if !is_about_values(&error) || context.cancel.is_cancelled() => return Err(error),
                // all of its pairs are scored
                Err(_) => {}
            }
        }
        let positions = batch.num_rows();
        let rows = PreparedRows { positions, batch, groups, found: None, probe: Probed::Scored };
        Ok(Prepared::new(rows, positions, 0))
    }

    fn probe(
        &self,
        probe: Probe<'_, PreparedRows>,
        cursor: &mut Cursor,
        run: &Run<'_>,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let rows = match probe {
            Probe::Batch(rows) => Some(rows),
            Probe::SelfJoin => self.self_join.as_ref(),
        };
        let Some(rows) = rows else {
            return internal_err!("a nearest join was not built for a self-join");
        };
        let (indexed, probe) = match (&self.ranked.ranker, &rows.probe) {
            (Ranker::Scored(scored), _) => return self.score(scored, rows, cursor, run, out),
            (Ranker::Indexed(indexed), Probed::Scored) => {
                return self.score(indexed.scored(), rows, cursor, run, out);
            }
            (Ranker::Indexed(indexed), Probed::SelfJoin) => (indexed, Probe::SelfJoin),
            (Ranker::Indexed(indexed), Probed::Batch(probe)) => (indexed, Probe::Batch(probe)),
        };
        let score = self.keys.indexed.as_ref();
        let excess = match (score.and_then(IndexedScore::found), &rows.found) {
            (Some(by_rules), Some(_)) => Some(by_rules.excess),
            _ => score.and_then(IndexedScore::excess),
        };
        let search = Search {
            keys: &self.keys,
            index: indexed.index.as_ref(),
            first: indexed.some_of.unwrap_or_else(|| self.keys.searched_for(excess).rows),
            probe,
            order: indexed.index.order(probe).or_datafusion()?,
            left: &rows.batch,
            found: rows.found.as_ref(),
            excess,
            ranks: &indexed.ranks,
            right: &self.batch,
            cancel: run.cancel,
            counts: Counts::default(),
        };
        self.search(search, cursor, run, out)
    }
}

impl NearestMatcher {
    /// Rows of the conditions that the index does not count; `None` where it has to do without them.
    fn found_rows(&self, left: &RecordBatch, context: &PrepareContext<'_>) -> Result<Option<FoundRows>> {
        let rules = self.found.as_ref().filter(|_| !self.found_too_many.load(Ordering::Relaxed));
        let Some(rules) = rules else { return Ok(None) };
        let found = FoundRows::of(rules.as_ref(), left, context)?;
        self.found_too_many.fetch_or(found.is_none(), Ordering::Relaxed);
        Ok(found)
    }

    fn search(&self, mut search: Search<'_>, cursor: &mut Cursor, run: &Run<'_>, out: &mut Pairs) -> Result<Counts> {
        let mut best = Vec::new();
        let at_once = search.index.positions_at_once(search.probe, self.keys.rows).or_datafusion()?;
        let goes_on = |cursor: &Cursor, counts: &Counts, out: &Pairs| {
            !cursor.is_done()
                && out.len() < run.limit.pairs
                && counts.candidates < run.limit.work
                && !run.cancel.is_cancelled()
        };
        while goes_on(cursor, &search.counts, out) {
            let end = cursor.end.min(cursor.next + at_once);
            let positions: Vec<u32> = (cursor.next as u32..end as u32).collect();
            match self.keys.is_settled_by_index() {
                true => search.all(&positions, &mut best, out)?,
                false => search.satisfied(&positions, out)?,
            }
            cursor.next = end;
        }
        Ok(search.counts)
    }

    fn score(
        &self,
        scored: &Scored,
        rows: &PreparedRows,
        cursor: &mut Cursor,
        run: &Run<'_>,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let mut scoring = Scoring::new(&self.keys, &rows.batch, &self.batch, scored);
        while !cursor.is_done()
            && out.len() < run.limit.pairs
            && scoring.counts.candidates < run.limit.work
            && !run.cancel.is_cancelled()
        {
            let group = rows.groups.as_ref().map_or(0, |groups| groups[cursor.next]);
            scoring.row(cursor.next as u32, scored.candidates(group), run.cancel, out)?;
            cursor.next += 1;
        }
        scoring.finish(out)?;
        Ok(scoring.counts)
    }
}

/// A batch of the left side.
#[derive(Debug)]
pub(super) struct PreparedRows {
    batch: RecordBatch,
    /// How many rows are searched.
    positions: usize,
    /// The group of each row, where scores decide.
    groups: Option<Vec<u32>>,
    /// Right rows of the conditions that the index does not count.
    found: Option<FoundRows>,
    probe: Probed,
}

/// What the neighbours of a batch are sought with.
#[derive(Debug)]
enum Probed {
    /// The batch as the index wants it.
    Batch(AnyBatch),
    /// The index's own rows.
    SelfJoin,
    /// All pairs are scored.
    Scored,
}

impl PreparedRows {
    /// The right side as the left one, given the group of each row.
    pub(super) fn self_join(batch: &RecordBatch, ranker: &Ranker, groups: Option<Vec<u32>>) -> Result<Self> {
        let (positions, groups, probe) = match ranker {
            Ranker::Indexed(indexed) => {
                (indexed.index.order(Probe::SelfJoin).or_datafusion()?.len(), None, Probed::SelfJoin)
            }
            Ranker::Scored(_) => (batch.num_rows(), groups, Probed::Scored),
        };
        Ok(Self { batch: batch.clone(), positions, groups, found: None, probe })
    }
}
