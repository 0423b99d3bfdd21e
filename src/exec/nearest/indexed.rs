//! Neighbours by an index, with the conditions that it does not know.

use std::sync::OnceLock;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::common::{Result, internal_err};

use super::counted::CountedConditions;
use super::found::FoundRows;
use super::scored::{Scored, scores};
use super::strategy::{IndexedScore, NearestStrategy};
use crate::exec::engine::EngineResult;
use crate::exec::kept::KeptPart;
use crate::exec::residual::{RowPairs, satisfying};
use similarity_engine::nearest::{Best, DynNearestIndex, Neighbour, Wanted};
use similarity_engine::reason::Reason;
use similarity_engine::repeated::NearestRepeated;
use similarity_engine::stored::{Sink, Source, Store, Stored, store_some};
use similarity_engine::{AnyBatch, BuildContext, Cancel, Counts, Erased, IndexInfo, Pairs, Probe};

/// An index, and what it is looked up with.
#[derive(Debug)]
pub(super) struct Indexed {
    pub index: Box<DynNearestIndex>,
    /// Why it is on its engine.
    pub reason: Reason,
    /// How many neighbours it has to be asked for where it may miss some.
    pub some_of: Option<usize>,
    /// The values of the right side where conditions are counted.
    counted: Option<CountedConditions>,
    /// What finds the pairs of other conditions.
    pub found: Option<KeptPart>,
    /// The group and the rank of each row.
    ids: Option<Vec<u32>>,
    pub ranks: Vec<u32>,
    /// Scores without the index, for left rows whose keys cannot be evaluated.
    scored: OnceLock<Scored>,
}

impl Indexed {
    /// An index of rows with these groups and ranks.
    pub(super) fn new(
        (index, reason): (Box<DynNearestIndex>, Reason),
        some_of: Option<usize>,
        (counted, found): (Option<CountedConditions>, Option<KeptPart>),
        ids: Option<Vec<u32>>,
        ranks: Vec<u32>,
    ) -> Self {
        Self { index, reason, some_of, counted, found, ids, ranks, scored: OnceLock::new() }
    }

    /// Reads an index of `batch`, whose rows have these groups, beside what finds other conditions. The values of
    /// conditions that are counted are looked up in the rows again.
    ///
    /// # Errors
    /// Bytes that are no such index, expressions that fail.
    pub(super) fn load(
        score: &IndexedScore,
        batch: &RecordBatch,
        (ids, found): (Option<Vec<u32>>, Option<KeptPart>),
        source: &mut Source<'_>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let counted = match score {
            IndexedScore::Similarity { .. } => None,
            IndexedScore::MatchCount { conditions, .. } => {
                Some(CountedConditions::build(conditions, batch, context)?.0)
            }
        };
        let (some_of, ranks) = Stored::load(source).or_datafusion()?;
        let index = NearestRepeated::load(&score.ranking(), source, context).or_datafusion()?;
        Ok(Self::new((Box::new(Erased(index)), Reason::default()), some_of, (counted, found), ids, ranks))
    }

    /// Whether it can be written.
    pub(super) fn is_stored(&self) -> bool {
        self.index.stored().is_some()
    }

    /// The keys by which the left side `batch` is looked up.
    pub(super) fn left_keys(&self, score: Option<&IndexedScore>, batch: &RecordBatch) -> Result<ArrayRef> {
        match (score, &self.counted) {
            (Some(IndexedScore::Similarity { left, .. }), None) => left.evaluate(batch)?.into_array(batch.num_rows()),
            (Some(IndexedScore::MatchCount { conditions, .. }), Some(known)) => known.look_up(conditions, batch),
            _ => internal_err!("a ranking has an index for another score"),
        }
    }

    /// Scoring of the same rows without the index.
    pub(super) fn scored(&self) -> &Scored {
        self.scored.get_or_init(|| Scored::new(self.ids.as_deref(), self.ranks.clone()))
    }

    /// What is known of the index with the groups and ranks beside it.
    pub(super) fn info(&self) -> IndexInfo {
        let of_index = self.index.info().clone();
        let ids = self.ids.as_ref().map_or(0, Vec::capacity);
        IndexInfo {
            path: format!("{}{}", of_index.path, self.reason),
            bytes: of_index.bytes
                + self.counted.as_ref().map_or(0, CountedConditions::memory)
                + (ids + self.ranks.capacity()) * size_of::<u32>(),
            ..of_index
        }
    }
}

impl Store for Indexed {
    fn store(&self, sink: &mut Sink<'_>) -> similarity_engine::Result<()> {
        self.some_of.store(sink)?;
        self.ranks.store(sink)?;
        store_some(self.index.stored(), sink)
    }
}

/// The keys of the right side `batch`, and the values that conditions are looked up in where they are counted.
pub(super) fn right_keys(
    score: &IndexedScore,
    batch: &RecordBatch,
    context: &BuildContext<'_>,
) -> Result<(Option<CountedConditions>, ArrayRef)> {
    match score {
        IndexedScore::Similarity { right, .. } => Ok((None, right.evaluate(batch)?.into_array(batch.num_rows())?)),
        IndexedScore::MatchCount { conditions, .. } => {
            let (known, values) = CountedConditions::build(conditions, batch, context)?;
            Ok((Some(known), values))
        }
    }
}

/// Pairs that a condition is checked on at once, about, and for each row that is searched at once.
const BLOCK: usize = 8192;
const ROWS: usize = 4;
/// How many times as many neighbours are looked for where too few satisfy the condition.
const GROWTH: usize = 4;

/// The place of a row among those searched, and its neighbours.
type Found = (usize, Vec<Neighbour<i64>>);

/// A search for the neighbours of the rows of one batch.
pub(super) struct Search<'a> {
    pub keys: &'a NearestStrategy,
    pub index: &'a DynNearestIndex,
    /// Neighbours that are looked for first where a condition is checked on them.
    pub first: usize,
    /// Rows that get neighbours.
    pub probe: Probe<'a, AnyBatch>,
    /// The row at each position.
    pub order: &'a [u32],
    pub left: &'a RecordBatch,
    /// Rows that other conditions than those of the index hold for.
    pub found: Option<&'a FoundRows>,
    /// Greatest excess of the score of any other row over what the index says.
    pub excess: Option<f64>,
    /// The rank of each right row.
    pub ranks: &'a [u32],
    pub right: &'a RecordBatch,
    pub cancel: &'a Cancel,
    pub counts: Counts,
}

impl Search<'_> {
    /// Neighbours of the rows at some positions, where there is no condition but the groups.
    pub(super) fn all(&mut self, positions: &[u32], best: &mut Vec<Best<i64>>, out: &mut Pairs) -> Result<()> {
        best.resize_with(positions.len().max(best.len()), || Best::new(self.keys.wanted()));
        let best = &mut best[..positions.len()];
        self.offer(positions, best)?;
        let mut found = Vec::new();
        for (best, &position) in best.iter_mut().zip(positions) {
            best.take_into(&mut found);
            out.push_all(found.drain(..).map(|neighbour| neighbour.row), self.order[position as usize]);
        }
        Ok(())
    }

    fn offer(&mut self, positions: &[u32], best: &mut [Best<i64>]) -> Result<()> {
        let counts = self.index.nearest(self.probe, positions, best, self.cancel).or_datafusion()?;
        self.counts.candidates += counts.candidates;
        self.counts.verified += counts.verified;
        Ok(())
    }

    /// Neighbours of the rows at some positions that satisfy the condition, by their own scores. More of them are
    /// looked for until enough do, and no other row may have a better score.
    pub(super) fn satisfied(&mut self, positions: &[u32], out: &mut Pairs) -> Result<()> {
        let wanted = self.keys.wanted();
        let rows: Vec<u32> = positions.iter().map(|&position| self.order[position as usize]).collect();
        let mut kept: Vec<Vec<Neighbour<i64>>> = vec![Vec::new(); rows.len()];
        let mut pending: Vec<usize> = (0..rows.len()).collect();
        let mut most = self.first;
        while !pending.is_empty() && !self.cancel.is_cancelled() {
            let tried = std::mem::take(&mut pending);
            let at_once = self.index.positions_at_once(self.probe, most).or_datafusion()?;
            for tried in tried.chunks((BLOCK.max(ROWS * at_once) / most).clamp(1, at_once)) {
                if self.cancel.is_cancelled() {
                    break;
                }
                let places: Vec<u32> = tried.iter().map(|&place| positions[place]).collect();
                let mut best: Vec<_> = tried.iter().map(|_| Best::new(Wanted { rows: most, ..wanted })).collect();
                self.offer(&places, &mut best)?;
                let mut block: Vec<Found> = Vec::with_capacity(tried.len());
                for (&place, best) in tried.iter().zip(&mut best) {
                    let mut found = Vec::new();
                    best.take_into(&mut found);
                    block.push((place, found));
                }
                let unseen: Vec<_> = block.iter().map(|(_, found)| found.get(most - 1).copied()).collect();
                self.add_found(&rows, &mut block);
                let passing = self.satisfying(&rows, block)?;
                for ((place, mut passing), unseen) in passing.into_iter().zip(unseen) {
                    if unseen.is_some_and(|last| !self.is_settled(&passing, last)) {
                        pending.push(place);
                        continue;
                    }
                    passing.truncate(wanted.of(&passing));
                    kept[place] = passing;
                }
            }
            most = most.saturating_mul(GROWTH);
            if most > self.right.num_rows() / GROWTH {
                // all of them: another round of a part would cost as much
                most = self.right.num_rows() + 1;
            }
        }
        for (&row, kept) in rows.iter().zip(kept) {
            out.push_all(kept.into_iter().map(|neighbour| neighbour.row), row);
        }
        Ok(())
    }

    /// Adds the rows that other conditions hold for, as far as they are not there.
    fn add_found(&mut self, rows: &[u32], block: &mut [Found]) {
        let Some(of_others) = self.found else { return };
        for (place, neighbours) in block {
            let found = of_others.of_row(rows[*place]);
            self.counts.candidates += found.len();
            // their scores are computed with those of the others
            neighbours.extend(found.iter().map(|&row| Neighbour { score: 0, rank: self.ranks[row as usize], row }));
            neighbours.sort_unstable_by_key(|neighbour| neighbour.row);
            neighbours.dedup_by_key(|neighbour| neighbour.row);
        }
    }

    /// Whether no row that comes after `last` in the index is among the neighbours, given those before it and those
    /// that were found besides.
    fn is_settled(&self, passing: &[Neighbour<i64>], last: Neighbour<i64>) -> bool {
        let Some(worst) = passing.get(self.keys.rows - 1) else { return false };
        let (Some(score), Some(excess)) = (&self.keys.indexed, self.excess) else { return true };
        let next = Neighbour { score: score.best_possible(last.score, excess), ..last };
        // a row with a worse score in the index does not reach that score; all that tie with the last row are there
        match self.keys.ties {
            true => (worst.score, worst.rank) <= (next.score, next.rank),
            false => *worst <= next,
        }
    }

    /// The neighbours, of rows by their place in `rows`, that satisfy the condition, by their own scores.
    fn satisfying(&mut self, rows: &[u32], block: Vec<Found>) -> Result<Vec<Found>> {
        let left: UInt32Array =
            block.iter().flat_map(|(place, found)| std::iter::repeat_n(rows[*place], found.len())).collect();
        let right: UInt32Array = block.iter().flat_map(|(_, found)| found.iter().map(|n| n.row)).collect();
        let (mut passing, mut own_scores) = (Pairs::default(), Vec::new());
        for start in (0..left.len()).step_by(BLOCK) {
            if self.cancel.is_cancelled() {
                break;
            }
            let rows = BLOCK.min(left.len() - start);
            let pairs = RowPairs { left: left.slice(start, rows), right: right.slice(start, rows) };
            let pairs = satisfying(&self.keys.residual, pairs, self.left, self.right)?;
            if self.excess.is_some() {
                self.counts.verified += pairs.len();
                // a sum of weights has 64 bits
                let scores = scores(self.keys, &pairs, self.left, self.right)?.into_iter();
                own_scores.extend(scores.map(|score| score.and_then(|score| i64::try_from(score).ok())));
            }
            passing.build.extend_from_slice(pairs.right.values());
            passing.probe.extend_from_slice(pairs.left.values());
        }
        let mut passing = passing.probe.iter().zip(&passing.build).enumerate().peekable();
        let mut keep = |(place, found): Found| {
            let mut kept = Vec::with_capacity(found.len());
            for neighbour in found {
                let pair = (&rows[place], &neighbour.row);
                let Some((at, _)) = passing.next_if(|(_, next)| *next == pair) else { continue };
                match own_scores.get(at) {
                    None => kept.push(neighbour),
                    Some(score) => kept.extend(score.map(|score| Neighbour { score, ..neighbour })),
                }
            }
            if !own_scores.is_empty() {
                kept.sort_unstable();
            }
            (place, kept)
        };
        Ok(block.into_iter().map(&mut keep).collect())
    }
}
