//! Neighbours by an index, with the conditions that it does not know.

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExprRef;

use super::NearestKeys;
use crate::engine::nearest::{Best, NearestIndex, Neighbour, Wanted};
use crate::engine::{Cancel, Counts, Pairs, PreparedProbe};
use crate::exec::residual::{RowPairs, satisfying};

/// An index, and what it is looked up with.
#[derive(Debug)]
pub(super) struct Indexed {
    pub index: Box<dyn NearestIndex>,
    /// Over the left input.
    pub key: PhysicalExprRef,
}

/// Pairs that a condition is checked on at once, about.
const BLOCK: usize = 8192;
/// How many times as many neighbours are looked for where too few satisfy the condition.
const GROWTH: usize = 4;

/// A search for the neighbours of the rows of one batch.
pub(super) struct Search<'a> {
    pub keys: &'a NearestKeys,
    pub index: &'a dyn NearestIndex,
    pub probe: &'a dyn PreparedProbe,
    pub left: &'a RecordBatch,
    pub right: &'a RecordBatch,
    pub cancel: &'a Cancel,
    pub counts: Counts,
}

impl Search<'_> {
    /// Neighbours of one row, where there is no condition but the groups.
    pub(super) fn row(
        &mut self,
        row: usize,
        best: &mut Best<i64>,
        found: &mut Vec<Neighbour<i64>>,
        out: &mut Pairs,
    ) -> Result<()> {
        self.offer(row, best)?;
        best.take_into(found);
        found.drain(..).for_each(|neighbour| out.push(neighbour.row, row as u32));
        Ok(())
    }

    fn offer(&mut self, row: usize, best: &mut Best<i64>) -> Result<()> {
        let counts = self.index.nearest(self.probe, row, best)?;
        self.counts.candidates += counts.candidates;
        self.counts.verified += counts.verified;
        Ok(())
    }

    /// Neighbours of `rows` that satisfy the condition: more and more of them are looked for until enough do.
    pub(super) fn rows(&mut self, rows: std::ops::Range<usize>, out: &mut Pairs) -> Result<()> {
        let wanted = self.keys.wanted();
        let mut kept: Vec<Vec<Neighbour<i64>>> = vec![Vec::new(); rows.len()];
        let mut pending: Vec<usize> = rows.clone().collect();
        let mut most = wanted.rows.saturating_mul(2).max(16);
        while !pending.is_empty() && !self.cancel.is_cancelled() {
            let tried = std::mem::take(&mut pending);
            let mut block: Vec<(usize, Vec<Neighbour<i64>>)> = Vec::new();
            let mut pairs = 0;
            for (at, &row) in tried.iter().enumerate() {
                let mut best = Best::new(Wanted { rows: most, ..wanted });
                let mut found = Vec::new();
                self.offer(row, &mut best)?;
                best.take_into(&mut found);
                pairs += found.len();
                block.push((row, found));
                if pairs < BLOCK && at + 1 < tried.len() {
                    continue;
                }
                pairs = 0;
                let full: Vec<bool> = block.iter().map(|(_, found)| found.len() < most).collect();
                let passing = self.satisfying(std::mem::take(&mut block))?;
                for ((row, mut passing), all_seen) in passing.into_iter().zip(full) {
                    if passing.len() < wanted.rows && !all_seen {
                        pending.push(row);
                        continue;
                    }
                    passing.truncate(wanted.of(&passing));
                    kept[row - rows.start] = passing;
                }
            }
            most = most.saturating_mul(GROWTH);
        }
        for (row, kept) in rows.zip(kept) {
            kept.into_iter().for_each(|neighbour| out.push(neighbour.row, row as u32));
        }
        Ok(())
    }

    /// The neighbours of each row that satisfy the condition.
    fn satisfying(&self, block: Vec<(usize, Vec<Neighbour<i64>>)>) -> Result<Vec<(usize, Vec<Neighbour<i64>>)>> {
        let left: UInt32Array =
            block.iter().flat_map(|(row, found)| std::iter::repeat_n(*row as u32, found.len())).collect();
        let right: UInt32Array = block.iter().flat_map(|(_, found)| found.iter().map(|n| n.row)).collect();
        let pairs = satisfying(&self.keys.residual, RowPairs { left, right }, self.left, self.right)?;
        let mut passing = pairs.left.values().iter().zip(pairs.right.values()).peekable();
        let mut keep = |row: usize, found: Vec<Neighbour<i64>>| {
            let passes = |n: &Neighbour<i64>| passing.next_if(|&(&l, &r)| (l as usize, r) == (row, n.row)).is_some();
            (row, found.into_iter().filter(passes).collect())
        };
        Ok(block.into_iter().map(|(row, found)| keep(row, found)).collect())
    }
}
