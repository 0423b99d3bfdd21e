//! A join on a device step by step: how much is compared at once, by which worker, and what it has yielded.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::fault::Fault;
use super::kernels::Positions;
use super::memory::Budget;
use super::work_split::WorkSplit;
use super::worker::{Comparison, Done, Workers};
use super::yield_estimate::YieldEstimate;
use similarity_engine::{Cancel, Counts, Cursor, Pairs};

/// What takes the steps of a join.
#[derive(Debug)]
pub(super) struct Scheduler {
    workers: Arc<Workers>,
    estimate: YieldEstimate,
}

impl Scheduler {
    pub(super) fn new(workers: impl Into<Arc<Workers>>) -> Self {
        Self { workers: workers.into(), estimate: YieldEstimate::default() }
    }

    /// Scheduler of the same join on another device.
    pub(super) fn replicate(&self, budget: &Budget) -> Result<Self, Fault> {
        Ok(Self::new(Workers::try_new(budget, self.workers.capacity())?))
    }

    /// Compares some of the probe positions from `cursor` on, of which there are `count`, by what `comparison` makes of
    /// a worker's stream and a range of them.
    pub(super) fn step<C: Comparison, P: WorkSplit>(
        &self,
        (cut, count): (&P, u32),
        cursor: &mut Cursor,
        comparison: impl FnOnce(&CudaStream, Positions) -> C,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts, Fault> {
        let (start, last) = (cursor.next as u32, count.min(cursor.end as u32));
        let pairs = self.estimate.pairs_of_step(|most| cut.stretch(start, last, most).1);
        let (end, _) = cut.stretch(start, last, pairs.min(cut.most_pairs()));
        let (tasks, range) = (cut.tasks(start..end), Positions { begin: start, end });
        let mut done = Done { counts: Counts::default(), end };
        if !tasks.is_empty() {
            done = self.workers.with(|worker| {
                let comparison = comparison(worker.stream(), range);
                worker.run(&comparison, tasks, range, cancel, out)
            })?;
            let (_, compared) = cut.stretch(start, done.end, u64::MAX);
            self.estimate.add(compared, &done.counts);
        }
        cursor.next = done.end as usize;
        Ok(done.counts)
    }
}
