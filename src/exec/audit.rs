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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int32Array};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column};
    use datafusion::physical_plan::joins::utils::ColumnIndex;

    use super::*;

    fn batch(ids: &[i32]) -> RecordBatch {
        RecordBatch::try_from_iter([("id", Arc::new(Int32Array::from(ids.to_vec())) as ArrayRef)]).unwrap()
    }

    /// Both ids are equal.
    fn condition() -> JoinFilter {
        let (left, right) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
        let columns = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 0, side });
        let fields = ["l", "r"].map(|name| Field::new(name, DataType::Int32, true));
        let equal = BinaryExpr::new(left, Operator::Eq, right);
        JoinFilter::new(Arc::new(equal), columns.to_vec(), Arc::new(Schema::new(fields.to_vec())))
    }

    #[test]
    fn a_lost_pair_and_one_too_many_are_found() {
        let (condition, left, right) = (condition(), batch(&[1, 2, 3]), batch(&[3, 2, 3]));
        for side in [JoinSide::Left, JoinSide::Right] {
            let (sampled, others) = if side == JoinSide::Left { (&left, &right) } else { (&right, &left) };
            let nested = NestedLoop { condition: &condition, side, sampled, others };
            let rows: &[u32] = if side == JoinSide::Left { &[1, 2, 2] } else { &[0, 1, 2] };
            let counted = |rows: &[u32]| {
                let audit = Audit::of_batch(3);
                audit.count(&UInt32Array::from(rows.to_vec()));
                audit.check_pairs(nested)
            };
            assert!(counted(rows).is_ok());
            assert!(counted(&rows[1..]).unwrap_err().to_string().contains("similarity.verify"));
            assert!(counted(&[rows, &[1]].concat()).is_err());
        }
    }

    #[test]
    fn a_lost_match_of_a_row_or_of_its_partner_is_found() {
        let (condition, left, right) = (condition(), batch(&[1, 2, 3]), batch(&[3, 2, 3]));
        let side = JoinSide::Left;
        let nested = NestedLoop { condition: &condition, side, sampled: &left, others: &right };
        let audit = Audit::of_batch(3);
        assert!(audit.check_matched(nested, |row| row > 0).is_ok());
        assert!(audit.check_matched(nested, |row| row > 1).is_err());
        assert!(audit.check_matched(nested, |_| true).is_err());
        assert!(audit.check_partners(nested, |_| true).is_ok());
        assert!(audit.check_partners(nested, |partner| partner != 2).is_err());
    }

    #[test]
    fn a_sample_is_from_everywhere() {
        assert_eq!(Audit::of_batch(0).rows, [0u32; 0]);
        assert_eq!(Audit::of_batch(3).rows, [0, 1, 2]);
        assert_eq!(Audit::of_batch(1000).rows, [0, 250, 500, 750]);
    }
}
