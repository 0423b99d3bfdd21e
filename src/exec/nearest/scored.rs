//! Neighbours by the scores of all candidates. Rows that the score and the conditions cannot tell apart are scored as
//! one.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StructArray, UInt32Array};
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion::common::{JoinSide, Result};

use super::strategy::NearestStrategy;
use crate::exec::engine::EngineResult;
use crate::exec::residual::{RowPairs, satisfying, values};
use crate::functions::nearest::Direction;
use similarity_engine::nearest::{Best, Neighbour, float_key};
use similarity_engine::repeated::{RankedRows, Repeated};
use similarity_engine::{BuildContext, Cancel, Counts, KeyColumn, NO_GROUP, Pairs};

/// Pairs that are scored at once.
const BLOCK: usize = 8192;

/// Candidates of a row, on average, which are scored before an index of each group would be built.
const FEW: usize = 8;

/// Whether groups are so small that no index is worth its while.
pub(super) fn leave_few_candidates(groups: &[u32]) -> bool {
    let mut sizes: Vec<usize> = Vec::new();
    for &group in groups.iter().filter(|group| **group != NO_GROUP) {
        if group as usize >= sizes.len() {
            sizes.resize(group as usize + 1, 0);
        }
        sizes[group as usize] += 1;
    }
    let rows: usize = sizes.iter().sum();
    sizes.iter().map(|size| size * size).sum::<usize>() <= FEW * rows
}

/// The rows of the right side by group, or the keys that many of them share.
#[derive(Debug)]
pub(super) struct Scored {
    /// All rows, group by group; those without a group are left out.
    rows: Vec<u32>,
    /// Where each group begins, and the end of the last one.
    starts: Vec<usize>,
    ranks: Vec<u32>,
    /// Where `rows` are keys.
    keys: Option<SharedKeys>,
}

/// Keys that many rows share: the values of all columns that are read of them.
#[derive(Debug)]
struct SharedKeys {
    rows: RankedRows,
    /// The best row of each key.
    batch: RecordBatch,
}

/// The columns of the right side that decide about the score of a row; any column where there are none.
fn read_columns(keys: &NearestStrategy, batch: &RecordBatch) -> Result<ArrayRef> {
    let read = keys.residual.iter().chain([&keys.score]).flat_map(|filter| filter.column_indices());
    let mut read: Vec<usize> =
        read.filter(|column| column.side == JoinSide::Right).map(|column| column.index).collect();
    read.sort_unstable();
    read.dedup();
    if read.is_empty() {
        return Ok(Arc::new(BooleanArray::from(vec![true; batch.num_rows()])));
    }
    Ok(Arc::new(StructArray::from(batch.project(&read)?)))
}

impl Scored {
    /// The rows with `ranks`, all of one group where there are none.
    pub(super) fn new(groups: Option<&[u32]>, ranks: Vec<u32>) -> Self {
        let mut rows: Vec<u32> = (0..ranks.len() as u32).collect();
        let Some(groups) = groups else { return Self { starts: vec![0, rows.len()], rows, ranks, keys: None } };
        let group_of = |row: u32| groups[row as usize];
        rows.retain(|&row| group_of(row) != NO_GROUP);
        rows.sort_by_key(|&row| group_of(row));
        let groups = rows.last().map_or(0, |&row| group_of(row) as usize + 1);
        let starts = (0..=groups as u32).map(|group| rows.partition_point(|&row| group_of(row) < group)).collect();
        Self { rows, starts, ranks, keys: None }
    }

    /// The rows of `batch` with these groups and ranks, or the keys that many of them share.
    ///
    /// # Errors
    /// Columns that Arrow cannot read, a cancelled build.
    pub(super) fn of_batch(
        (keys, batch): (&NearestStrategy, &RecordBatch),
        groups: Option<Vec<u32>>,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let column = KeyColumn { values: read_columns(keys, batch)?, groups };
        let repeated = Repeated::of(&column, Some(&ranks), context.cancel, context.reserve).or_datafusion()?;
        let Some(repeated) = repeated else { return Ok(Self::new(column.groups.as_deref(), ranks)) };
        let first: Vec<u32> = repeated.first_rows().collect();
        let groups: Option<Vec<u32>> =
            column.groups.map(|groups| first.iter().map(|&row| groups[row as usize]).collect());
        let of_keys = Self::new(groups.as_deref(), repeated.ranks(&ranks));
        let batch = match batch.num_columns() {
            // without columns all rows have one key
            0 => batch.slice(0, first.len()),
            _ => take_record_batch(batch, &UInt32Array::from(first))?,
        };
        Ok(Self { keys: Some(SharedKeys { rows: RankedRows::new(repeated, ranks), batch }), ..of_keys })
    }

    pub(super) fn memory(&self) -> usize {
        let of_keys = |keys: &SharedKeys| keys.rows.memory() + keys.batch.get_array_memory_size();
        self.keys.as_ref().map_or(0, of_keys)
            + (self.rows.capacity() + self.ranks.capacity()) * size_of::<u32>()
            + self.starts.capacity() * size_of::<usize>()
    }

    pub(super) fn unmatchable(&self) -> usize {
        self.keys.as_ref().map_or(self.ranks.len() - self.rows.len(), |keys| keys.rows.without_key())
    }

    /// The candidates of a probe row by its group, 0 where there are no groups.
    pub(super) fn candidates(&self, group: u32) -> &[u32] {
        match (self.starts.get(group as usize), self.starts.get(group as usize + 1)) {
            (Some(&start), Some(&end)) => &self.rows[start..end],
            _ => &[],
        }
    }
}

/// Scores pairs, left row by left row.
pub(super) struct Scoring<'a> {
    keys: &'a NearestStrategy,
    left: &'a RecordBatch,
    right: &'a RecordBatch,
    scored: &'a Scored,
    /// Pairs that are not scored yet.
    block: Pairs,
    /// The left row whose neighbours are being found.
    row: u32,
    best: Best<i128>,
    found: Vec<Neighbour<i128>>,
    pub counts: Counts,
}

impl<'a> Scoring<'a> {
    pub(super) fn new(
        keys: &'a NearestStrategy,
        left: &'a RecordBatch,
        right: &'a RecordBatch,
        scored: &'a Scored,
    ) -> Self {
        Self {
            keys,
            left,
            right: scored.keys.as_ref().map_or(right, |keys| &keys.batch),
            scored,
            block: Pairs::default(),
            row: 0,
            best: Best::new(keys.wanted()),
            found: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Takes the candidates of a left row, which comes after those before it.
    pub(super) fn row(&mut self, row: u32, candidates: &[u32], cancel: &Cancel, out: &mut Pairs) -> Result<()> {
        self.counts.candidates += candidates.len();
        let mut rest = candidates;
        while !rest.is_empty() && !cancel.is_cancelled() {
            let (now, later) = rest.split_at(rest.len().min(BLOCK - self.block.len()));
            self.block.build.extend_from_slice(now);
            self.block.probe.resize(self.block.build.len(), row);
            rest = later;
            if self.block.len() == BLOCK {
                self.score(out)?;
            }
        }
        Ok(())
    }

    /// The end of a run of rows.
    pub(super) fn finish(&mut self, out: &mut Pairs) -> Result<()> {
        self.score(out)?;
        self.emit(out);
        Ok(())
    }

    fn score(&mut self, out: &mut Pairs) -> Result<()> {
        let Pairs { build, probe } = std::mem::take(&mut self.block);
        let pairs = RowPairs { left: UInt32Array::from(probe), right: UInt32Array::from(build) };
        let pairs = satisfying(&self.keys.residual, pairs, self.left, self.right)?;
        if pairs.is_empty() {
            return Ok(());
        }
        self.counts.verified += pairs.len();
        let scores = scores(self.keys, &pairs, self.left, self.right)?;
        let rows = pairs.left.values().iter().zip(pairs.right.values());
        for ((&left, &right), score) in rows.zip(scores) {
            if left != self.row {
                self.emit(out);
                self.row = left;
            }
            if let Some(score) = score {
                self.best.offer(Neighbour { score, rank: self.scored.ranks[right as usize], row: right });
            }
        }
        Ok(())
    }

    fn emit(&mut self, out: &mut Pairs) {
        self.best.take_into(&mut self.found);
        self.scored.keys.iter().for_each(|keys| keys.rows.spread(&mut self.found, self.best.wanted()));
        self.found.drain(..).for_each(|neighbour| out.push(neighbour.row, self.row));
    }
}

/// The scores of pairs as integers, the less the better; `None` for NULL.
pub(super) fn scores(
    strategy: &NearestStrategy,
    pairs: &RowPairs,
    left: &RecordBatch,
    right: &RecordBatch,
) -> Result<Vec<Option<i128>>> {
    let mut scores = keys(&values(&strategy.score, pairs, left, right)?)?;
    if strategy.direction == Direction::Similarity {
        scores.iter_mut().flatten().for_each(|score| *score = !*score);
    }
    Ok(scores)
}

/// Scores as integers in their order, `None` for NULL.
fn keys(scores: &ArrayRef) -> Result<Vec<Option<i128>>> {
    Ok(match scores.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => {
            let scores = cast(scores, &DataType::Float64)?;
            scores.as_primitive::<Float64Type>().iter().map(|v| v.map(|v| i128::from(float_key(v)))).collect()
        }
        DataType::UInt64 => scores.as_primitive::<UInt64Type>().iter().map(|v| v.map(i128::from)).collect(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            let scores = cast(scores, &DataType::Decimal128(*precision, *scale))?;
            scores.as_primitive::<Decimal128Type>().iter().collect()
        }
        _ => {
            let scores = cast(scores, &DataType::Int64)?;
            scores.as_primitive::<Int64Type>().iter().map(|v| v.map(i128::from)).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_groups_leave_few_candidates() {
        assert!(leave_few_candidates(&[]));
        assert!(leave_few_candidates(&[0, 1, 1, 2, NO_GROUP]));
        assert!(!leave_few_candidates(&[3; 9]));
        let mostly_small: Vec<u32> = (0..1000).map(|row| if row % 10 == 0 { 0 } else { row }).collect();
        assert!(!leave_few_candidates(&mostly_small), "a tenth of the rows have many");
    }

    #[test]
    fn candidates_by_group() {
        let scored = Scored::new(Some(&[2, 0, NO_GROUP, 2]), vec![0; 4]);
        assert_eq!(scored.candidates(0), [1]);
        assert!(scored.candidates(1).is_empty());
        assert_eq!(scored.candidates(2), [0, 3]);
        assert!(scored.candidates(3).is_empty());
        assert!(scored.candidates(NO_GROUP).is_empty());
        assert_eq!(scored.unmatchable(), 1);
        assert_eq!(Scored::new(None, vec![0; 2]).candidates(0), [0, 1]);
    }
}
