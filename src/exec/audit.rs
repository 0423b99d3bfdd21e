//! `similarity.verify = 'complete'`: pairs that an index has lost, found by a nested loop over a sample of rows.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, BooleanArray, RecordBatch, UInt32Array};
use datafusion::common::{JoinSide, Result, exec_err};
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::residual::{RowPairs, evaluate};

/// Rows of a batch that are compared with all rows of the build side.
const ROWS_OF_BATCH: usize = 4;
/// Rows of a self-join.
const ROWS_OF_SELF_JOIN: usize = 64;
/// Pairs that a nested loop evaluates at once.
const PAIRS_AT_ONCE: usize = 8192;

/// A sample of rows, and how many pairs each of them has been found in.
#[derive(Debug)]
pub(super) struct Audit {
    /// Ascending, from everywhere in the batch.
    rows: Vec<u32>,
    found: Vec<AtomicUsize>,
}

/// The two sides of a nested loop.
#[derive(Clone, Copy)]
pub(super) struct NestedLoop<'a> {
    pub condition: &'a JoinFilter,
    /// The side of the sampled rows.
    pub side: JoinSide,
    pub sampled: &'a RecordBatch,
    pub others: &'a RecordBatch,
}

impl Audit {
    pub(super) fn of_batch(rows: usize) -> Self {
        Self::new(rows, ROWS_OF_BATCH)
    }

    pub(super) fn of_self_join(rows: usize) -> Self {
        Self::new(rows, ROWS_OF_SELF_JOIN)
    }

    fn new(rows: usize, most: usize) -> Self {
        let count = rows.min(most);
        let rows: Vec<u32> = (0..count).map(|at| (at * rows / count.max(1)) as u32).collect();
        let found = rows.iter().map(|_| AtomicUsize::new(0)).collect();
        Self { rows, found }
    }

    /// Counts pairs, given the rows that are of the side of the sample.
    pub(super) fn count(&self, rows: &UInt32Array) {
        for row in rows.values() {
            if let Ok(at) = self.rows.binary_search(row) {
                self.found[at].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Compares the pairs that were counted with those of a nested loop.
    ///
    /// # Errors
    /// A row that has more pairs or fewer.
    pub(super) fn check_pairs(&self, side: NestedLoop<'_>) -> Result<()> {
        self.check(side, |at, partners| (self.found[at].load(Ordering::Relaxed), partners.len()))
    }

    /// Compares whether the sampled rows `have_matched` with what a nested loop says.
    ///
    /// # Errors
    /// A row that has partners and has not matched, or the other way round.
    pub(super) fn check_matched(&self, side: NestedLoop<'_>, have_matched: impl Fn(u32) -> bool) -> Result<()> {
        self.check(side, |at, partners| (usize::from(have_matched(self.rows[at])), usize::from(!partners.is_empty())))
    }

    /// Looks whether all partners of the sampled rows `have_matched`.
    ///
    /// # Errors
    /// A partner that has not.
    pub(super) fn check_partners(&self, side: NestedLoop<'_>, have_matched: impl Fn(u32) -> bool) -> Result<()> {
        self.check(side, |_, partners| {
            (partners.iter().filter(|&&partner| have_matched(partner)).count(), partners.len())
        })
    }

    fn check(&self, side: NestedLoop<'_>, compare: impl Fn(usize, &[u32]) -> (usize, usize)) -> Result<()> {
        for (at, &row) in self.rows.iter().enumerate() {
            // a condition that fails for a pair is one that a plain join may never have come to
            let Ok(partners) = side.partners(row) else { continue };
            let (found, expected) = compare(at, &partners);
            if found != expected {
                return exec_err!(
                    "similarity.verify: a row was found to have {found} partners where a nested loop finds \
                     {expected}; please report this, and set similarity.enabled = false meanwhile"
                );
            }
        }
        Ok(())
    }
}

impl NestedLoop<'_> {
    /// The rows of the other side that satisfy the condition with a row.
    fn partners(&self, row: u32) -> Result<Vec<u32>> {
        let (mut partners, count) = (Vec::new(), self.others.num_rows());
        for start in (0..count).step_by(PAIRS_AT_ONCE) {
            let others = UInt32Array::from_iter_values(start as u32..count.min(start + PAIRS_AT_ONCE) as u32);
            let sampled = UInt32Array::from_value(row, others.len());
            let found = match self.side {
                JoinSide::Right => {
                    let pairs = RowPairs { left: others.clone(), right: sampled };
                    evaluate(self.condition, &pairs, self.others, self.sampled)?
                }
                _ => {
                    let pairs = RowPairs { left: sampled, right: others.clone() };
                    evaluate(self.condition, &pairs, self.sampled, self.others)?
                }
            };
            partners.extend(true_places(&found).map(|at| others.value(at)));
        }
        Ok(partners)
    }
}

fn true_places(values: &BooleanArray) -> impl Iterator<Item = usize> + '_ {
    (0..values.len()).filter(|&at| values.is_valid(at) && values.value(at))
}
