//! Pairs in the order of their probe rows.
//!
//! An index finds the pairs of a batch in an order of its own, by several threads. Where the plan counts on the order
//! of the probe side, they are held until all are found, sorted by a count of each row's pairs, and taken from there
//! batch by batch; those of one row stay as they were found. Where there are too many of them, or the memory pool
//! grants no more, they are forgotten and fewer rows are probed at once. The pairs of a single row need not be held.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{RecordBatch, UInt32Array, UInt32Builder};
use datafusion::execution::memory_pool::MemoryReservation;

use similarity_engine::Pairs;

/// Pairs that are held at once, at most.
const MOST: usize = 1 << 22;
/// Bytes a pair: both numbers in vectors that grow by doubling, and the build row once more in its place.
const BYTES: usize = 5 * size_of::<u32>();
/// Factor by which fewer rows are probed at once where there were too many pairs.
const FEWER: usize = 8;
/// A pool may soon grant more than these, however few it has granted.
const FEW: usize = 1024;

/// How one partition keeps the order of its probe rows.
#[derive(Debug)]
pub(super) struct Portions {
    /// Rows that are probed at once, at most.
    rows: AtomicUsize,
    /// Pairs that could be held when last there were too many.
    fitted: AtomicUsize,
    reservation: MemoryReservation,
}

impl Portions {
    /// Pairs are reserved beside `reservation`, for the same consumer.
    pub(super) fn new(reservation: &MemoryReservation) -> Self {
        let (rows, fitted) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(MOST));
        Self { rows, fitted, reservation: reservation.new_empty() }
    }

    /// The first rows of `rest`, after so many `candidates` and `pairs` of the partition.
    pub(super) fn begin(&self, rest: RecordBatch, candidates: usize, pairs: usize) -> Portion {
        let rows = rest.num_rows().min(self.rows.load(Ordering::Relaxed));
        let stage = match rows {
            0 | 1 => Stage::AsFound,
            _ => Stage::Held(Pairs::default(), self.reservation.new_empty()),
        };
        Portion { rest, rows, candidates, pairs, stage }
    }

    /// Has fewer rows probed at once from now on.
    pub(super) fn shrink(&self, overfull: &Portion) {
        if let Stage::TooMany { fitted } = overfull.stage {
            self.rows.store((overfull.rows / FEWER).max(1), Ordering::Relaxed);
            self.fitted.store(fitted.max(FEW), Ordering::Relaxed);
        }
    }

    /// Has more rows probed at once from now on, where those had few `pairs`.
    pub(super) fn grow(&self, pairs: usize) {
        if pairs < self.fitted.load(Ordering::Relaxed) / 4 {
            self.rows.store(self.rows.load(Ordering::Relaxed).saturating_mul(2), Ordering::Relaxed);
        }
    }
}

/// Rows that are probed at once, and all that come after them in their batch.
#[derive(Debug)]
pub(super) struct Portion {
    rest: RecordBatch,
    rows: usize,
    /// The candidates of the partition before.
    pub candidates: usize,
    /// The pairs of the partition before.
    pub pairs: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// A single row, whose pairs come out as they are found.
    AsFound,
    Held(Pairs, MemoryReservation),
    TooMany {
        /// Pairs that were held.
        fitted: usize,
    },
    Sorted(ByRow),
}

impl Portion {
    /// The rows at hand.
    pub(super) fn at_hand(&self) -> RecordBatch {
        self.rest.slice(0, self.rows)
    }

    /// The rows at hand and those after them, to begin anew.
    pub(super) fn all(&self) -> RecordBatch {
        self.rest.clone()
    }

    /// Whether pairs are to be given to [`hold`](Self::hold).
    pub(super) fn holds(&self) -> bool {
        matches!(self.stage, Stage::Held(..) | Stage::TooMany { .. })
    }

    /// Takes pairs, as long as there are not too many.
    pub(super) fn hold(&mut self, build: &UInt32Array, probe: &UInt32Array) {
        let Stage::Held(pairs, reservation) = &mut self.stage else { return };
        let held = pairs.len();
        if held + build.len() > MOST || reservation.try_grow(build.len() * BYTES).is_err() {
            self.stage = Stage::TooMany { fitted: held };
            return;
        }
        pairs.build.extend_from_slice(build.values());
        pairs.probe.extend_from_slice(probe.values());
    }

    /// Whether the rows are to be probed anew, fewer at once.
    pub(super) fn is_overfull(&self) -> bool {
        matches!(self.stage, Stage::TooMany { .. })
    }

    /// Ends the search: all pairs are held. Returns how many there are; `unmatched` rows come out as well, beside no
    /// row of the build side.
    pub(super) fn sort(&mut self, unmatched: bool) -> usize {
        let stage = std::mem::replace(&mut self.stage, Stage::AsFound);
        let (by_row, pairs) = match stage {
            Stage::Held(pairs, reservation) => (ByRow::new(&pairs, self.rows, unmatched, reservation), pairs.len()),
            _ => (ByRow::default(), 0),
        };
        self.stage = Stage::Sorted(by_row);
        pairs
    }

    /// Whether the search has ended.
    pub(super) fn is_sorted(&self) -> bool {
        matches!(self.stage, Stage::Sorted(_))
    }

    /// Whether everything has come out.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.stage, Stage::Sorted(by_row) if by_row.is_done())
    }

    /// The next rows of the build side, NULL beside an unmatched row, and of the probe side: `most` of them, `None` at
    /// the end.
    pub(super) fn next(&mut self, most: usize) -> Option<(UInt32Array, UInt32Array)> {
        match &mut self.stage {
            Stage::Sorted(by_row) if !by_row.is_done() => Some(by_row.next(most)),
            _ => None,
        }
    }

    /// The rows of the batch that come after those at hand.
    pub(super) fn after(&self) -> Option<RecordBatch> {
        let (rows, all) = (self.rows, self.rest.num_rows());
        (rows < all).then(|| self.rest.slice(rows, all - rows))
    }
}

/// Build rows by their probe rows.
#[derive(Debug, Default)]
struct ByRow {
    /// Where the build rows of each probe row end.
    ends: Vec<u32>,
    build: Vec<u32>,
    unmatched: bool,
    /// The probe row that is next, and the first of its build rows.
    row: usize,
    place: usize,
    /// Memory of all of these.
    _reservation: Option<MemoryReservation>,
}

impl ByRow {
    fn new(pairs: &Pairs, rows: usize, unmatched: bool, reservation: MemoryReservation) -> Self {
        let mut ends = vec![0; rows];
        pairs.probe.iter().for_each(|&row| ends[row as usize] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut build = vec![0; pairs.len()];
        for (&row, &of_build) in pairs.probe.iter().zip(&pairs.build) {
            let place = &mut ends[row as usize];
            build[*place as usize] = of_build;
            *place += 1;
        }
        Self { ends, build, unmatched, row: 0, place: 0, _reservation: Some(reservation) }
    }

    fn is_done(&self) -> bool {
        self.place == self.build.len() && (!self.unmatched || self.row == self.ends.len())
    }

    fn next(&mut self, most: usize) -> (UInt32Array, UInt32Array) {
        let (mut build, mut probe) = (UInt32Builder::new(), Vec::new());
        while probe.len() < most && self.row < self.ends.len() {
            let (row, end) = (self.row as u32, self.ends[self.row] as usize);
            if self.place < end {
                let stop = end.min(self.place + most - probe.len());
                build.append_slice(&self.build[self.place..stop]);
                probe.resize(probe.len() + stop - self.place, row);
                self.place = stop;
            } else if self.unmatched && self.is_alone() {
                build.append_null();
                probe.push(row);
            }
            self.row += usize::from(self.place == end);
        }
        (build.finish(), UInt32Array::from(probe))
    }

    /// Whether the next probe row has no pair.
    fn is_alone(&self) -> bool {
        self.ends[self.row] == if self.row == 0 { 0 } else { self.ends[self.row - 1] }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Array, Int32Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    fn batch(rows: i32) -> RecordBatch {
        RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from_iter_values(0..rows)) as Arc<dyn Array>)]).unwrap()
    }

    fn portions(bytes: usize) -> Portions {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        Portions::new(&MemoryConsumer::new("test").register(&pool))
    }

    fn numbers(values: &[u32]) -> UInt32Array {
        UInt32Array::from(values.to_vec())
    }

    /// Build and probe rows as they come out.
    fn emitted(portion: &mut Portion, most: usize) -> Vec<(Option<u32>, u32)> {
        let mut all = Vec::new();
        while let Some((build, probe)) = portion.next(most) {
            assert!(build.len() == probe.len() && (1..=most).contains(&probe.len()));
            all.extend(build.iter().zip(probe.values().iter().copied()));
        }
        assert!(portion.is_done());
        all
    }

    #[test]
    fn pairs_come_out_by_row_and_as_they_were_found() {
        for most in [1, 2, 3, 100] {
            for unmatched in [false, true] {
                let portions = portions(10_000);
                let mut portion = portions.begin(batch(6), 0, 0);
                assert!(portion.holds() && !portion.is_done());
                portion.hold(&numbers(&[7, 3, 9]), &numbers(&[4, 1, 4]));
                portion.hold(&numbers(&[8, 2, 5, 1]), &numbers(&[2, 4, 1, 1]));
                assert_eq!(portion.sort(unmatched), 7);
                let pairs = [(3, 1), (5, 1), (1, 1), (8, 2), (7, 4), (9, 4), (2, 4)];
                let mut expected: Vec<_> = pairs.iter().map(|&(build, probe)| (Some(build), probe)).collect();
                if unmatched {
                    expected.insert(0, (None, 0));
                    expected.insert(5, (None, 3));
                    expected.push((None, 5));
                }
                assert_eq!(emitted(&mut portion, most), expected);
                assert!(portion.after().is_none());
            }
        }
    }

    #[test]
    fn nothing_found() {
        let portions = portions(10_000);
        for (unmatched, rows) in [(false, vec![]), (true, vec![(None, 0), (None, 1)])] {
            let mut portion = portions.begin(batch(2), 0, 0);
            assert_eq!(portion.sort(unmatched), 0);
            assert_eq!(emitted(&mut portion, 10), rows);
        }
    }

    #[test]
    fn too_many_pairs_are_probed_for_by_fewer_rows() {
        let portions = portions(10 * BYTES);
        let mut portion = portions.begin(batch(16), 5, 0);
        portion.hold(&numbers(&[0; 10]), &numbers(&[0; 10]));
        assert!(!portion.is_overfull());
        portion.hold(&numbers(&[0]), &numbers(&[0]));
        assert!(portion.is_overfull() && portion.holds());
        portions.shrink(&portion);
        let mut portion = portions.begin(portion.all(), portion.candidates, 0);
        assert_eq!((portion.at_hand().num_rows(), portion.candidates), (2, 5));
        // what was held has been given back
        portion.hold(&numbers(&[0; 9]), &numbers(&[1; 9]));
        assert_eq!(portion.sort(false), 9);
        portions.grow(FEW);
        assert_eq!(portion.after().unwrap().num_rows(), 14);
        let mut portion = portions.begin(portion.after().unwrap(), 5, 0);
        assert_eq!(portion.at_hand(), batch(16).slice(2, 2));
        assert_eq!(portion.sort(false), 0);
        portions.grow(0);
        let mut portion = portions.begin(portion.after().unwrap(), 5, 0);
        assert_eq!(portion.at_hand(), batch(16).slice(4, 4));
        // one row needs no order
        (0..2).for_each(|_| {
            portion.hold(&numbers(&[0; 11]), &numbers(&[0; 11]));
            portions.shrink(&portion);
            portion = portions.begin(portion.all(), 5, 0);
        });
        assert!(portion.at_hand().num_rows() == 1 && !portion.holds() && !portion.is_done());
        assert_eq!(portion.sort(true), 0);
        assert!(portion.is_done() && portion.after().unwrap().num_rows() == 11);
    }
}
