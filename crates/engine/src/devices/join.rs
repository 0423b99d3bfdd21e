//! An index that finds pairs, on each of some devices.

use std::ops::Range;
use std::sync::Arc;

use super::metrics::{OfDevices, on_devices};
use super::replicas::{OnOneDevice, Replicas};
use super::shares::{rows_at_once, stretch};
use crate::accelerator::DynDeviceIndex;
use crate::error::{Result, internal_err};
use crate::metrics::MetricValue;
use crate::{
    AnyBatch, Cancel, Counts, Cursor, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs, PrepareContext, Prepared,
    Probe,
};

/// Calls that a device answers at the same time.
const CALLS: usize = 4;

/// A build side on one device.
type OnDevice = Box<DynDeviceIndex>;

/// A build side on each of some devices: all have the same rows at the same positions.
#[derive(Debug)]
pub(crate) struct ReplicatedJoin {
    replicas: Arc<Replicas<OnDevice>>,
    metrics: OfDevices,
    info: IndexInfo,
    /// Row at each position of a self-join: a device that has failed cannot be asked.
    order: Vec<u32>,
}

/// A probe batch on one of the devices.
#[derive(Debug)]
pub(crate) struct JoinBatch {
    /// The keys that it was made of.
    pub(crate) keys: KeyColumn,
    on: OnOneDevice<OnDevice, Prepared<AnyBatch>>,
    /// Row at each position: a device that has failed cannot be asked.
    order: Vec<u32>,
}

impl ReplicatedJoin {
    /// An index on each of some devices, the first of which has built it.
    ///
    /// # Errors
    /// A device that fails.
    pub(crate) fn try_new(indexes: Vec<OnDevice>, metrics: OfDevices) -> Result<Self> {
        let Some(first) = indexes.first() else { return internal_err!("an index is on no device") };
        let of_first = first.info();
        let order = match of_first.self_join_len {
            0 => Vec::new(),
            rows => {
                // one of them may have failed since
                let mut order = first.rows(Probe::SelfJoin, 0..rows);
                for index in &indexes[1..] {
                    order = order.or_else(|_| index.rows(Probe::SelfJoin, 0..rows));
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
    pub(crate) fn of_one(index: OnDevice) -> Result<Self> {
        let metrics = OfDevices::new(vec![(String::new(), index.metrics())]);
        Self::try_new(vec![index], metrics)
    }

    /// Runs `work` on the device that has a batch, or once another one has it.
    fn run<R>(
        &self,
        batch: &JoinBatch,
        mut work: impl FnMut(&DynDeviceIndex, &Prepared<AnyBatch>) -> Result<R>,
    ) -> Result<R> {
        let never = Cancel::default();
        let bring = |index: &OnDevice| {
            let brought = index.prepare(&batch.keys, &PrepareContext { threads: 1, cancel: &never })?;
            // positions that are answered must stay so
            match index.rows(Probe::Batch(&brought.batch), 0..brought.len)? == batch.order {
                true => Ok(brought),
                false => internal_err!("two devices have the rows of a probe batch in different orders"),
            }
        };
        batch.on.run(bring, |index, prepared| work(index.as_ref(), prepared))
    }

    /// The rows at some positions of a batch, or of the build side itself, as [`DeviceIndex::rows`] gives them.
    pub(crate) fn rows<'a>(&'a self, probe: Probe<'a, JoinBatch>, positions: Range<usize>) -> &'a [u32] {
        let order = match probe {
            Probe::SelfJoin => &self.order,
            Probe::Batch(batch) => &batch.order,
        };
        order.get(positions.start..positions.end.min(order.len())).unwrap_or(&[])
    }
}

impl Index for ReplicatedJoin {
    type Batch = JoinBatch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.metrics.values(self.replicas.failures())
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<JoinBatch>> {
        let prepare = |index: &OnDevice| index.prepare(keys, context);
        let on = OnOneDevice::bring(&self.replicas, keys.values.len(), prepare)?;
        let never = Cancel::default();
        let again = |index: &OnDevice| index.prepare(keys, &PrepareContext { threads: 1, cancel: &never });
        let (known, order) = on.run(again, |index, prepared| {
            Ok((prepared.known(), index.rows(Probe::Batch(&prepared.batch), 0..prepared.len)?))
        })?;
        Ok(known.map(|()| JoinBatch { keys: keys.clone(), on, order }))
    }
}

impl PairIndex for ReplicatedJoin {
    fn self_join_stretch(&self, start: usize) -> usize {
        let indexes = self.replicas.all();
        indexes.first().map_or(start, |first| stretch(start, first.self_join_stretch(start), indexes.len()))
    }

    fn probe(
        &self,
        probe: Probe<'_, JoinBatch>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let (start, before) = (*cursor, out.len());
        let mut step = |index: &DynDeviceIndex, probe: Probe<'_, AnyBatch>| {
            *cursor = start;
            out.truncate(before);
            index.probe(probe, cursor, limit, cancel, out)
        };
        match probe {
            Probe::SelfJoin => self.replicas.run(start.end - start.next, |index| step(index.as_ref(), Probe::SelfJoin)),
            Probe::Batch(batch) => self.run(batch, |index, prepared| step(index, Probe::Batch(&prepared.batch))),
        }
    }
}
