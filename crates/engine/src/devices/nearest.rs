//! An index that ranks rows, on each of some devices.

use std::sync::Arc;

use super::metrics::{OfDevices, on_devices};
use super::replicas::{OnOneDevice, Replicas};
use super::shares::{rows_at_once, stretch};
use crate::accelerator::DynDeviceNearest;
use crate::error::{Result, internal_err};
use crate::metrics::MetricValue;
use crate::nearest::{Best, NearestIndex};
use crate::{AnyBatch, Cancel, Counts, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};

/// Calls that a device answers at the same time.
const CALLS: usize = 4;

/// A build side on one device.
type OnDevice = Box<DynDeviceNearest>;

/// A build side on each of some devices, which rank all of its rows alike.
#[derive(Debug)]
pub(crate) struct ReplicatedNearest {
    replicas: Arc<Replicas<OnDevice>>,
    metrics: OfDevices,
    info: IndexInfo,
    /// Rows of a self-join in the order in which they are searched.
    order: Vec<u32>,
}

/// A probe batch on one of the devices.
#[derive(Debug)]
pub(crate) struct NearestBatch {
    /// The keys that it was made of.
    pub(crate) keys: KeyColumn,
    /// Rows in the order in which they are searched.
    order: Vec<u32>,
    on: OnOneDevice<OnDevice, Prepared<AnyBatch>>,
}

impl ReplicatedNearest {
    /// An index on each of some devices, the first of which has built it.
    ///
    /// # Errors
    /// A device that fails.
    pub(crate) fn try_new(indexes: Vec<OnDevice>, metrics: OfDevices) -> Result<Self> {
        let Some(first) = indexes.first() else { return internal_err!("an index is on no device") };
        let of_first = first.info();
        let order = match of_first.self_join_len {
            0 => Vec::new(),
            _ => first.order(Probe::SelfJoin)?.to_vec(),
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
        batch: &NearestBatch,
        mut work: impl FnMut(&DynDeviceNearest, &AnyBatch) -> Result<R>,
    ) -> Result<R> {
        let never = Cancel::default();
        let bring = |index: &OnDevice| {
            let brought = index.prepare(&batch.keys, &PrepareContext { threads: 1, cancel: &never })?;
            match index.order(Probe::Batch(&brought.batch))? == batch.order {
                true => Ok(brought),
                false => internal_err!("two devices have the rows of a probe batch in different orders"),
            }
        };
        batch.on.run(bring, |index, prepared| work(index.as_ref(), &prepared.batch))
    }
}

impl Index for ReplicatedNearest {
    type Batch = NearestBatch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.metrics.values(self.replicas.failures())
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<NearestBatch>> {
        let on = OnOneDevice::bring(&self.replicas, keys.values.len(), |index| index.prepare(keys, context))?;
        let (known, order) = on.read(|index, prepared| {
            let order = index.order(Probe::Batch(&prepared.batch))?.to_vec();
            Ok::<_, crate::Error>((prepared.known(), order))
        })?;
        Ok(known.map(|()| NearestBatch { keys: keys.clone(), order, on }))
    }
}

impl NearestIndex for ReplicatedNearest {
    fn positions_at_once(&self, probe: Probe<'_, NearestBatch>, wanted: usize) -> Result<usize> {
        match probe {
            Probe::SelfJoin => match self.replicas.all() {
                [first, ..] => first.positions_at_once(Probe::SelfJoin, wanted),
                [] => internal_err!("an index is on no device"),
            },
            Probe::Batch(batch) => {
                batch.on.read(|index, prepared| index.positions_at_once(Probe::Batch(&prepared.batch), wanted))
            }
        }
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        let indexes = self.replicas.all();
        indexes.first().map_or(start, |first| stretch(start, first.self_join_stretch(start, wanted), indexes.len()))
    }

    fn order<'a>(&'a self, probe: Probe<'a, NearestBatch>) -> Result<&'a [u32]> {
        Ok(match probe {
            Probe::SelfJoin => &self.order,
            Probe::Batch(batch) => &batch.order,
        })
    }

    fn nearest(
        &self,
        probe: Probe<'_, NearestBatch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let mut search = |index: &DynDeviceNearest, probe: Probe<'_, AnyBatch>| {
            best.iter_mut().for_each(|best| *best = Best::new(best.wanted()));
            index.nearest(probe, positions, best, cancel)
        };
        match probe {
            Probe::SelfJoin => self.replicas.run(positions.len(), |index| search(index.as_ref(), Probe::SelfJoin)),
            Probe::Batch(batch) => self.run(batch, |index, prepared| search(index, Probe::Batch(prepared))),
        }
    }
}
