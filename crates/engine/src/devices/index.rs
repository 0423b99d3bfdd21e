//! An index on each of some devices: what is the same whether it finds pairs or ranks rows.

use std::ops::Range;
use std::sync::Arc;

use super::metrics::{OfDevices, on_devices};
use super::replicas::{OnOneDevice, Replicas};
use super::shares::{rows_at_once, stretch};
use crate::accelerator::{DynDeviceIndex, DynDeviceNearest};
use crate::error::{Result, internal_err};
use crate::metrics::MetricValue;
use crate::{AnyBatch, Cancel, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};

/// Calls that a device answers at the same time.
const CALLS: usize = 4;

/// Index on one device, which can say which row it has at each position.
pub(crate) trait Positioned: Index<Batch = AnyBatch> {
    /// Rows at the first `len` positions of a batch, or of the build side itself.
    ///
    /// # Errors
    /// A device that fails.
    fn positions(&self, probe: Probe<'_, AnyBatch>, len: usize) -> Result<Vec<u32>>;
}

impl Positioned for DynDeviceIndex {
    fn positions(&self, probe: Probe<'_, AnyBatch>, len: usize) -> Result<Vec<u32>> {
        self.rows(probe, 0..len)
    }
}

impl Positioned for DynDeviceNearest {
    fn positions(&self, probe: Probe<'_, AnyBatch>, _: usize) -> Result<Vec<u32>> {
        Ok(self.order(probe)?.to_vec())
    }
}

/// A build side on each of some devices: all have the same rows at the same positions.
#[derive(Debug)]
pub(crate) struct Replicated<I: ?Sized> {
    replicas: Arc<Replicas<Box<I>>>,
    metrics: OfDevices,
    info: IndexInfo,
    /// Row at each position of a self-join: a device that has failed cannot be asked.
    order: Vec<u32>,
}

/// A probe batch on one of the devices.
#[derive(Debug)]
pub(crate) struct ReplicatedBatch<I: ?Sized> {
    /// Keys that it was made of.
    pub(crate) keys: KeyColumn,
    on: OnOneDevice<Box<I>, Prepared<AnyBatch>>,
    /// Row at each position: a device that has failed cannot be asked.
    order: Vec<u32>,
}

impl<I: Positioned + ?Sized> Replicated<I> {
    /// An index on each of some devices, the first of which has built it.
    ///
    /// # Errors
    /// Devices that fail.
    pub(crate) fn try_new(indexes: Vec<Box<I>>, metrics: OfDevices) -> Result<Self> {
        let Some(first) = indexes.first() else { return internal_err!("an index is on no device") };
        let of_first = first.info();
        let order = match of_first.self_join_len {
            0 => Vec::new(),
            rows => {
                // one of them may have failed since
                let mut order = first.positions(Probe::SelfJoin, rows);
                for index in &indexes[1..] {
                    order = order.or_else(|_| index.positions(Probe::SelfJoin, rows));
                }
                order?
            }
        };
        let info = IndexInfo {
            path: on_devices(&of_first.path, indexes.len()),
            bytes: of_first.bytes + order.capacity() * size_of::<u32>(),
            rows_at_once: rows_at_once(of_first.rows_at_once, indexes.len()),
            ..of_first.clone()
        };
        Ok(Self { replicas: Replicas::new(indexes, CALLS), metrics, info, order })
    }

    /// An index on one device alone.
    #[cfg(test)]
    pub(crate) fn of_one(index: Box<I>) -> Result<Self> {
        let metrics = OfDevices::new(vec![(String::new(), index.metrics())]);
        Self::try_new(vec![index], metrics)
    }

    /// Index on the device that has built it.
    ///
    /// # Errors
    /// An index on no device.
    pub(super) fn first(&self) -> Result<&I> {
        match self.replicas.all() {
            [first, ..] => Ok(first.as_ref()),
            [] => internal_err!("an index is on no device"),
        }
    }

    /// The end of a stretch of a self-join from `start` on, where one device would take positions up to what `of_one`
    /// says.
    pub(super) fn shared_stretch(&self, start: usize, of_one: impl FnOnce(&I) -> usize) -> usize {
        self.first().map_or(start, |first| stretch(start, of_one(first), self.replicas.all().len()))
    }

    /// Rows of a batch, or of the build side itself, by position.
    pub(super) fn order<'a>(&'a self, probe: Probe<'a, ReplicatedBatch<I>>) -> &'a [u32] {
        match probe {
            Probe::SelfJoin => &self.order,
            Probe::Batch(batch) => &batch.order,
        }
    }

    /// Rows at some positions of a batch, or of the build side itself, as far as a device compares these.
    pub(crate) fn rows<'a>(&'a self, probe: Probe<'a, ReplicatedBatch<I>>, positions: Range<usize>) -> &'a [u32] {
        let order = self.order(probe);
        order.get(positions.start..positions.end.min(order.len())).unwrap_or(&[])
    }

    /// Runs `work`, which is so much in a self-join: on the device that has the batch or is free first, or on another
    /// one where that fails or has no memory.
    ///
    /// # Errors
    /// Errors of `work` that no device is to blame for, and the error of the last device.
    pub(super) fn run<R>(
        &self,
        probe: Probe<'_, ReplicatedBatch<I>>,
        amount: usize,
        mut work: impl FnMut(&I, Probe<'_, AnyBatch>) -> Result<R>,
    ) -> Result<R> {
        let batch = match probe {
            Probe::SelfJoin => return self.replicas.run(amount, |index| work(index.as_ref(), Probe::SelfJoin)),
            Probe::Batch(batch) => batch,
        };
        batch.on.run(
            |index| {
                let brought = prepare_again(index.as_ref(), &batch.keys)?;
                // positions that are answered must stay so
                match index.positions(Probe::Batch(&brought.batch), brought.len)? == batch.order {
                    true => Ok(brought),
                    false => internal_err!("two devices have the rows of a probe batch in different orders"),
                }
            },
            |index, prepared| work(index.as_ref(), Probe::Batch(&prepared.batch)),
        )
    }
}

/// A batch for a device that takes over from another one.
fn prepare_again<I: Index<Batch = AnyBatch> + ?Sized>(index: &I, keys: &KeyColumn) -> Result<Prepared<AnyBatch>> {
    index.prepare(keys, &PrepareContext { threads: 1, cancel: &Cancel::default() })
}

impl<I: Positioned + ?Sized + 'static> Index for Replicated<I> {
    type Batch = ReplicatedBatch<I>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.metrics.values(self.replicas.failures())
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<ReplicatedBatch<I>>> {
        let on = OnOneDevice::bring(&self.replicas, keys.values.len(), |index| index.prepare(keys, context))?;
        let (known, order) = on.run(
            |index| prepare_again(index.as_ref(), keys),
            |index, prepared| Ok((prepared.known(), index.positions(Probe::Batch(&prepared.batch), prepared.len)?)),
        )?;
        Ok(known.map(|()| ReplicatedBatch { keys: keys.clone(), on, order }))
    }
}
