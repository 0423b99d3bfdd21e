//! An index of rankings whose build side is on a device: what is the same for all families of keys.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::accelerator::{Accelerator, DeviceNearest, DynDeviceNearest};
use similarity_engine::error::{Result, internal_err};
use similarity_engine::metrics::MetricValue;

use super::{SEARCHES, has_room, positions_at_once};
use crate::fault::Fault;
use crate::kernels::BLOCK;
use crate::memory::Budget;
use crate::object_pool::ObjectPool;
use crate::replicate::{Copying, replicated};
use crate::tiled_index::Side;
use similarity_engine::nearest::{Best, NearestIndex};
use similarity_engine::offered::Offered;
use similarity_engine::{Cancel, Counts, Erased, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};

/// Stretches of a self-join at least, so that rows of one come out while another one is searched.
const STRETCHES: usize = 4;

/// Rows of a probe side that the host ranks, with what it needs to know of the side.
pub(crate) trait OnHost: fmt::Debug + Send + Sync {
    /// Row numbers in the probe side.
    fn rows(&self) -> &[u32];
}

/// All rows of the probe side are on the device.
impl OnHost for () {
    fn rows(&self) -> &[u32] {
        &[]
    }
}

/// A probe side.
#[derive(Debug)]
pub(crate) struct Batch<S, H> {
    side: S,
    on_host: H,
    /// The row at each position, then the rows on the host.
    order: Vec<u32>,
}

/// The rows of a probe side, and what the host knows of them.
pub(crate) struct Searching<'a, S, H> {
    pub(crate) side: &'a S,
    pub(crate) on_host: &'a H,
    /// The row at each position.
    pub(crate) order: &'a [u32],
}

/// A build side of one family of keys, on a device.
pub(crate) trait Ranked: fmt::Debug + Send + Sync + Sized {
    type Side: Side + 'static;
    type OnHost: OnHost + 'static;

    /// What it may take of the device.
    fn budget(&self) -> &Budget;

    /// Rows of its own as a probe side; none where it never probes itself.
    fn own(&self) -> Option<(&Self::Side, &Self::OnHost)>;

    /// What it says of itself; how many rows probe themselves is known already.
    fn info(&self) -> IndexInfo;

    /// A copy on another device.
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault>;

    /// Brings a probe batch to the device; so many of its rows match nothing.
    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>)
    -> Result<(Self::Side, Self::OnHost, usize), Fault>;

    /// Offers each of `best` the neighbours of its position, and returns how many candidates there were.
    fn search(
        &self,
        stream: &Arc<CudaStream>,
        probe: Searching<'_, Self::Side, Self::OnHost>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault>;

    /// Offers the neighbours of one of the rows on the host, and returns how many rows were compared.
    fn search_on_host(&self, rows: &Self::OnHost, at: usize, best: &mut Best<i64>, cancel: &Cancel) -> usize;
}

/// An index that ranks the rows of a build side on a device.
#[derive(Debug)]
pub(crate) struct NearestOnDevice<R> {
    ranked: R,
    /// The row at each position, then the rows on the host.
    order: Vec<u32>,
    /// Queues of those that search at the same time.
    queues: ObjectPool<Arc<CudaStream>>,
    info: IndexInfo,
}

fn order_of<S: Side, H: OnHost>(budget: &Budget, side: &S, on_host: &H) -> Result<Vec<u32>, Fault> {
    let mut order = side.rows(budget, 0..side.count() as usize)?;
    order.extend_from_slice(on_host.rows());
    Ok(order)
}

impl<R: Ranked> NearestOnDevice<R> {
    /// Index of a build side.
    ///
    /// # Errors
    /// A device that fails.
    pub(crate) fn try_new(ranked: R) -> Result<Self, Fault> {
        let order = ranked.own().map(|(side, on_host)| order_of(ranked.budget(), side, on_host)).transpose()?;
        let order = order.unwrap_or_default();
        let known = ranked.info();
        let info = IndexInfo {
            bytes: known.bytes + order.capacity() * size_of::<u32>(),
            self_join_len: order.len(),
            // one search is better than several small ones
            shared: false,
            ..known
        };
        Ok(Self { ranked, order, queues: ObjectPool::new(SEARCHES), info })
    }

    fn probe<'a>(&'a self, probe: Probe<'a, Batch<R::Side, R::OnHost>>) -> Result<Searching<'a, R::Side, R::OnHost>> {
        match (probe, self.ranked.own()) {
            (Probe::Batch(Batch { side, on_host, order }), _) => Ok(Searching { side, on_host, order }),
            (Probe::SelfJoin, Some((side, on_host))) => Ok(Searching { side, on_host, order: &self.order }),
            (Probe::SelfJoin, None) => internal_err!("an index that does not probe itself was given no probe batch"),
        }
    }
}

impl<R: Ranked + 'static> DeviceNearest for NearestOnDevice<R> {
    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceNearest>>> {
        let copy = |ranked| {
            let (order, info) = (self.order.clone(), self.info.clone());
            Box::new(Erased(Self { ranked, order, queues: ObjectPool::new(SEARCHES), info })) as Box<DynDeviceNearest>
        };
        Ok(replicated(to, |to| self.ranked.replicate(to))?.map(copy))
    }
}

impl<R: Ranked> Index for NearestOnDevice<R> {
    type Batch = Batch<R::Side, R::OnHost>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.ranked.budget().metrics.values()
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Self::Batch>> {
        let (side, on_host, unmatchable) = self.ranked.bring(keys, context)?;
        let order = order_of(self.ranked.budget(), &side, &on_host)?;
        let len = order.len();
        Ok(Prepared { shared: false, ..Prepared::new(Batch { side, on_host, order }, len, unmatchable) })
    }
}

impl<R: Ranked> NearestIndex for NearestOnDevice<R> {
    fn positions_at_once(&self, _: Probe<'_, Self::Batch>, wanted: usize) -> Result<usize> {
        Ok(positions_at_once(self.ranked.budget(), wanted))
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        let (rows, most) = (self.order.len(), positions_at_once(self.ranked.budget(), wanted));
        rows.min(start + most.min(rows.div_ceil(STRETCHES)).next_multiple_of(BLOCK as usize))
    }

    fn order<'a>(&'a self, probe: Probe<'a, Self::Batch>) -> Result<&'a [u32]> {
        Ok(self.probe(probe)?.order)
    }

    fn nearest(
        &self,
        probe: Probe<'_, Self::Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let Searching { side, on_host, order } = self.probe(probe)?;
        let mut counts = Counts::default();
        let Some(wanted) = best.first().map(Best::wanted) else { return Ok(counts) };
        if !has_room(wanted) {
            // no room for so many
            return Err(Fault::Memory.into());
        }
        let on_device = side.count();
        let (positions, others) = positions.split_at(positions.partition_point(|&position| position < on_device));
        let (best, best_of_others) = best.split_at_mut(positions.len());
        if !positions.is_empty() {
            let new = || self.ranked.budget().device.stream();
            let probe = Searching { side, on_host, order };
            let search = |stream: &mut Arc<CudaStream>| self.ranked.search(stream, probe, positions, best, cancel);
            counts.candidates += self.queues.with(new, search)?;
        }
        let others = others.iter().zip(best_of_others).take_while(|_| !cancel.is_cancelled());
        for (&position, best) in others {
            let at = (position - on_device) as usize;
            counts.candidates += self.ranked.search_on_host(on_host, at, best, cancel);
        }
        counts.verified = counts.candidates;
        Ok(counts)
    }
}
