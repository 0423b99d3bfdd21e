//! An index whose sides lie in blocks on a device: what is the same for all kinds of keys.

use std::fmt;
use std::ops::Range;

use cudarc::driver::CudaStream;
use similarity_engine::error::{Result, internal_err};
use similarity_engine::metrics::MetricValue;

use super::fault::Fault;
use super::kernels::Positions;
use super::memory::Budget;
use super::replicate::{Copying, Replicate, replicated};
use super::scheduler::Scheduler;
use super::work_split::WorkSplit;
use super::worker::Comparison;
use similarity_engine::accelerator::{Accelerator, DeviceIndex, DynDeviceIndex};
use similarity_engine::offered::Offered;
use similarity_engine::{
    Cancel, Counts, Cursor, Erased, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs, PrepareContext, Prepared,
    Probe,
};

/// One side in the order of its blocks.
pub(super) trait Side: fmt::Debug + Send + Sync {
    /// How many positions it has.
    fn count(&self) -> u32;

    /// The rows at some positions.
    fn rows(&self, budget: &Budget, positions: Range<usize>) -> Result<Vec<u32>, Fault>;
}

/// Rows of a probe batch that a device does not tell apart: the host compares each with all of the build side.
pub(super) trait OnHost: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;
}

impl OnHost for () {
    fn len(&self) -> usize {
        0
    }
}

/// A build side.
#[derive(Debug)]
pub(super) struct Build<S, C> {
    pub(super) budget: Budget,
    pub(super) side: S,
    /// Rows that match nothing.
    pub(super) unmatchable: usize,
    /// Blocks that each block is compared with, in a self-join.
    pub(super) self_join: Option<C>,
    pub(super) steps: Scheduler,
    pub(super) rows_at_once: usize,
}

/// A probe batch.
pub(super) struct Batch<S, C, H> {
    pub(super) side: S,
    /// Which build blocks are compared with each of its blocks.
    pub(super) cut: C,
    pub(super) on_host: H,
}

impl<S: Side + Replicate, C> Build<S, C> {
    /// A copy on another device, whose own blocks `copy` copies.
    pub(super) fn replicate(&self, to: &Copying<'_>, copy: impl Fn(&C) -> Result<C, Fault>) -> Result<Self, Fault> {
        Ok(Self {
            budget: to.budget.going_on(&self.budget),
            side: self.side.replicate(to)?,
            unmatchable: self.unmatchable,
            self_join: self.self_join.as_ref().map(copy).transpose()?,
            steps: self.steps.replicate(to.budget)?,
            rows_at_once: self.rows_at_once,
        })
    }
}

impl<S: Side, C, H: OnHost> Batch<S, C, H> {
    /// The batch, so many of whose rows match nothing. One launch is better than several small ones, so that threads do
    /// not share it.
    pub(super) fn prepared(self, unmatchable: usize) -> Prepared<Self> {
        let len = self.side.count() as usize + self.on_host.len();
        Prepared { shared: false, ..Prepared::new(self, len, unmatchable) }
    }
}

/// The batches of an index.
pub(super) type BatchOf<I> = Batch<<I as TiledIndex>::Side, <I as TiledIndex>::WorkSplit, <I as TiledIndex>::OnHost>;

/// What an index of one kind of keys does in its own way.
pub(super) trait TiledIndex: fmt::Debug + Send + Sync + Sized {
    type Side: Side + 'static;
    type WorkSplit: WorkSplit + Send + Sync + 'static;
    type OnHost: OnHost + 'static;
    /// What compares two sides.
    type Comparison<'a>: Comparison
    where
        Self: 'a;

    /// The build side.
    fn build(&self) -> &Build<Self::Side, Self::WorkSplit>;

    /// What was chosen for these rows, and why, see [`IndexInfo::path`].
    fn chosen(&self) -> String;

    /// Bytes on the host.
    fn held(&self) -> usize;

    /// A copy on another device.
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault>;

    /// Brings a probe batch to the device.
    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<BatchOf<Self>>, Fault>;

    /// What compares the positions in `range` of a probe side, or of the build side itself.
    fn comparison<'a>(
        &'a self,
        stream: &CudaStream,
        sides: (Option<&Self::Side>, &Self::WorkSplit),
        range: Positions,
    ) -> Self::Comparison<'a>;

    /// Keeps those of the pairs from `first` on for which the condition holds, where the device has only filtered.
    fn decide(&self, _probe: Option<&BatchOf<Self>>, _first: usize, _cancel: &Cancel, _out: &mut Pairs) {}

    /// Appends the pairs of one of the rows that stay on the host.
    fn compare_on_host(&self, _rows: &Self::OnHost, _at: usize, _cancel: &Cancel, _out: &mut Pairs) -> Counts {
        Counts::default()
    }
}

/// An index whose sides lie in blocks.
#[derive(Debug)]
pub(super) struct Tiled<I> {
    pub(super) index: I,
    info: IndexInfo,
}

impl<I: TiledIndex> Tiled<I> {
    pub(super) fn new(index: I) -> Self {
        let Build { side, unmatchable, rows_at_once, .. } = index.build();
        let info = IndexInfo {
            path: index.chosen(),
            bytes: index.held(),
            unmatchable: *unmatchable,
            undecided: false,
            self_join_len: side.count() as usize,
            rows_at_once: *rows_at_once,
            // one launch is better than several small ones
            shared: false,
        };
        Self { index, info }
    }
}

#[cfg(test)]
impl<I> std::ops::Deref for Tiled<I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.index
    }
}

impl<I: TiledIndex> Index for Tiled<I> {
    type Batch = BatchOf<I>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.index.build().budget.metrics.values()
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<BatchOf<I>>> {
        if self.index.build().self_join.is_some() {
            return internal_err!("an index on a device was built for a self-join and given another input");
        }
        Ok(self.index.bring(keys, context)?)
    }
}

impl<I: TiledIndex> PairIndex for Tiled<I> {
    fn self_join_stretch(&self, start: usize) -> usize {
        let Build { side, self_join, .. } = self.index.build();
        let part = |self_join: &I::WorkSplit| self_join.part(start as u32, side.count()) as usize;
        self_join.as_ref().map_or(self.info.self_join_len, part)
    }

    fn probe(
        &self,
        probe: Probe<'_, BatchOf<I>>,
        cursor: &mut Cursor,
        _limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let Build { side: own_side, self_join, steps, .. } = self.index.build();
        let (batch, cut) = match (probe, self_join) {
            (Probe::SelfJoin, Some(self_join)) => (None, self_join),
            (Probe::Batch(batch), None) => {
                let on_device = batch.side.count() as usize;
                if !cursor.is_done() && cursor.next >= on_device {
                    cursor.next += 1;
                    return Ok(self.index.compare_on_host(&batch.on_host, cursor.next - 1 - on_device, cancel, out));
                }
                (Some(batch), &batch.cut)
            }
            _ => return internal_err!("an index on a device was built for the other kind of probe"),
        };
        if cursor.is_done() {
            return Ok(Counts::default());
        }
        let (probe, before) = (batch.map(|batch| &batch.side), out.len());
        let comparison = |stream: &CudaStream, range| self.index.comparison(stream, (probe, cut), range);
        let counts = steps.step((cut, probe.unwrap_or(own_side).count()), cursor, comparison, cancel, out)?;
        self.index.decide(batch, before, cancel, out);
        self.index.build().budget.metrics.pairs_are_ready();
        Ok(Counts { matched: out.len() - before, ..counts })
    }
}

impl<I: TiledIndex + 'static> DeviceIndex for Tiled<I> {
    fn rows(&self, probe: Probe<'_, BatchOf<I>>, positions: Range<usize>) -> Result<Vec<u32>> {
        let Build { budget, side, .. } = self.index.build();
        let side = match probe {
            Probe::SelfJoin => side,
            Probe::Batch(batch) => &batch.side,
        };
        Ok(side.rows(budget, positions.start..positions.end.min(side.count() as usize))?)
    }

    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceIndex>>> {
        let copy = replicated(to, |to| self.index.replicate(to))?;
        Ok(copy.map(|index| Box::new(Erased(Self::new(index))) as Box<DynDeviceIndex>))
    }
}
