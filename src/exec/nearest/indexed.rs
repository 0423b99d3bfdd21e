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

/// The place of a row among those searched, and its neighbours.
type Found = (usize, Vec<Neighbour<i64>>);

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
        row: u32,
        best: &mut Best<i64>,
        found: &mut Vec<Neighbour<i64>>,
        out: &mut Pairs,
    ) -> Result<()> {
        self.offer(row, best)?;
        best.take_into(found);
        found.drain(..).for_each(|neighbour| out.push(neighbour.row, row));
        Ok(())
    }

    fn offer(&mut self, row: u32, best: &mut Best<i64>) -> Result<()> {
        let counts = self.index.nearest(self.probe, row as usize, best)?;
        self.counts.candidates += counts.candidates;
        self.counts.verified += counts.verified;
        Ok(())
    }

    /// Neighbours of `rows` that satisfy the condition: more and more of them are looked for until enough do.
    pub(super) fn rows(&mut self, rows: &[u32], out: &mut Pairs) -> Result<()> {
        let wanted = self.keys.wanted();
        let mut kept: Vec<Vec<Neighbour<i64>>> = vec![Vec::new(); rows.len()];
        let mut pending: Vec<usize> = (0..rows.len()).collect();
        let mut most = wanted.rows.saturating_mul(2).max(16);
        while !pending.is_empty() && !self.cancel.is_cancelled() {
            let tried = std::mem::take(&mut pending);
            let mut block: Vec<Found> = Vec::new();
            let mut pairs = 0;
            for (at, &place) in tried.iter().enumerate() {
                let mut best = Best::new(Wanted { rows: most, ..wanted });
                let mut found = Vec::new();
                self.offer(rows[place], &mut best)?;
                best.take_into(&mut found);
                pairs += found.len();
                block.push((place, found));
                if pairs < BLOCK && at + 1 < tried.len() {
                    continue;
                }
                pairs = 0;
                let full: Vec<bool> = block.iter().map(|(_, found)| found.len() < most).collect();
                let passing = self.satisfying(rows, std::mem::take(&mut block))?;
                for ((place, mut passing), all_seen) in passing.into_iter().zip(full) {
                    if passing.len() < wanted.rows && !all_seen {
                        pending.push(place);
                        continue;
                    }
                    passing.truncate(wanted.of(&passing));
                    kept[place] = passing;
                }
            }
            most = most.saturating_mul(GROWTH);
        }
        for (&row, kept) in rows.iter().zip(kept) {
            kept.into_iter().for_each(|neighbour| out.push(neighbour.row, row));
        }
        Ok(())
    }

    /// The neighbours, of rows by their place in `rows`, that satisfy the condition.
    fn satisfying(&self, rows: &[u32], block: Vec<Found>) -> Result<Vec<Found>> {
        let left: UInt32Array =
            block.iter().flat_map(|(place, found)| std::iter::repeat_n(rows[*place], found.len())).collect();
        let right: UInt32Array = block.iter().flat_map(|(_, found)| found.iter().map(|n| n.row)).collect();
        let pairs = satisfying(&self.keys.residual, RowPairs { left, right }, self.left, self.right)?;
        let mut passing = pairs.left.values().iter().zip(pairs.right.values()).peekable();
        let mut keep = |place: usize, found: Vec<Neighbour<i64>>| {
            let passes = |n: &Neighbour<i64>| passing.next_if(|&(&l, &r)| (l, r) == (rows[place], n.row)).is_some();
            (place, found.into_iter().filter(passes).collect())
        };
        Ok(block.into_iter().map(|(place, found)| keep(place, found)).collect())
    }
}
