//! An index on devices that ranks rows: what does not fit there, or was left by the last one to fail, is ranked on the
//! CPU.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::metrics::{Count, MetricValue};

use super::LazyOnce;
use crate::devices::{NearestBatch, ReplicatedNearest};
use crate::nearest::{Best, DynNearestIndex, NearestIndex};
use crate::ranking::Ranking;
use crate::reason::CPU_FALLBACKS;
use crate::{
    AnyBatch, BuildContext, Cancel, Counts, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe, cpu,
};

/// An index on a device, and what makes another one on the CPU.
#[derive(Debug)]
pub(crate) struct NearestWithCpuFallback {
    on_device: ReplicatedNearest,
    info: IndexInfo,
    ranking: Ranking,
    keys: KeyColumn,
    ranks: Vec<u32>,
    self_join: bool,
    on_cpu: LazyOnce<Box<DynNearestIndex>>,
    /// Where each of its own rows stands in the order of the CPU.
    positions_on_cpu: OnceLock<Vec<u32>>,
    threads: usize,
    /// Searches that went to the CPU.
    fallbacks: Count,
}

/// A probe batch that either index may search for.
#[derive(Debug)]
pub(crate) struct Batch {
    keys: KeyColumn,
    /// Batch on a device; `None` where none has the memory for it.
    on_device: Option<NearestBatch>,
    on_cpu: LazyOnce<Prepared<AnyBatch>>,
    /// Where each row stands in the order of the CPU.
    positions_on_cpu: OnceLock<Vec<u32>>,
}

/// Where each row of one order stands in another one of the same rows.
fn positions_by_row(order: &[u32], other: &[u32]) -> Vec<u32> {
    let mut positions = vec![0; order.iter().max().map_or(0, |&last| last as usize + 1)];
    (0..).zip(other).for_each(|(position, &row)| positions[row as usize] = position);
    positions
}

impl NearestWithCpuFallback {
    /// An index with what it was made of, as `context` says.
    pub(crate) fn new(
        on_device: ReplicatedNearest,
        ranking: Ranking,
        keys: KeyColumn,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Self {
        let of_device = on_device.info().clone();
        let info = IndexInfo { bytes: of_device.bytes + ranks.capacity() * size_of::<u32>(), ..of_device };
        Self {
            on_device,
            info,
            ranking,
            keys,
            ranks,
            self_join: context.self_join,
            on_cpu: LazyOnce::default(),
            positions_on_cpu: OnceLock::new(),
            threads: context.threads,
            fallbacks: Count::new(),
        }
    }

    /// The index on the CPU, built when it is first needed.
    fn on_cpu(&self, cancel: &Cancel) -> Result<&DynNearestIndex> {
        let context =
            BuildContext { self_join: self.self_join, ..BuildContext::new(self.threads, cancel, &|_| Ok(())) };
        let build = || cpu::build_nearest(&self.ranking, &self.keys, self.ranks.clone(), &context);
        Ok(self.on_cpu.get(build, cancel)?.as_ref())
    }

    /// A probe batch as the index on the CPU wants it.
    fn batch_on_cpu<'a>(&self, batch: &'a Batch, cancel: &Cancel) -> Result<&'a Prepared<AnyBatch>> {
        let by = PrepareContext { threads: self.threads, cancel };
        let prepare = || self.on_cpu(cancel)?.prepare(&batch.keys, &by);
        batch.on_cpu.get(prepare, cancel)
    }

    /// Neighbours as [`nearest`](NearestIndex::nearest) gives them, by the index on the CPU, in whose order rows are at
    /// other positions.
    fn nearest_on_cpu(
        &self,
        probe: Probe<'_, Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let order = self.order(probe)?;
        let (on_cpu, positions_of_rows) = match probe {
            Probe::SelfJoin => (Probe::SelfJoin, &self.positions_on_cpu),
            Probe::Batch(batch) => (Probe::Batch(&self.batch_on_cpu(batch, cancel)?.batch), &batch.positions_on_cpu),
        };
        self.fallbacks.add(1);
        let index = self.on_cpu(cancel)?;
        let order_on_cpu = index.order(on_cpu)?;
        let positions_of_rows = positions_of_rows.get_or_init(|| positions_by_row(order, order_on_cpu));
        let position = |&position: &u32| positions_of_rows[order[position as usize] as usize];
        let mut turned: Vec<(u32, usize)> = positions.iter().map(position).zip(0..).collect();
        turned.sort_unstable();
        let positions: Vec<u32> = turned.iter().map(|(position, _)| *position).collect();
        let mut found: Vec<_> = turned.iter().map(|&(_, at)| Best::new(best[at].wanted())).collect();
        let counts = index.nearest(on_cpu, &positions, &mut found, cancel)?;
        turned.into_iter().zip(found).for_each(|((_, at), found)| best[at] = found);
        Ok(counts)
    }
}

impl Index for NearestWithCpuFallback {
    type Batch = Batch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        let mut metrics = self.on_device.metrics();
        metrics.push(MetricValue::Count { name: CPU_FALLBACKS.into(), count: self.fallbacks.clone() });
        metrics
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Batch>> {
        let batch = |on_device| {
            let (on_cpu, positions_on_cpu) = (LazyOnce::default(), OnceLock::new());
            Batch { keys: keys.clone(), on_device, on_cpu, positions_on_cpu }
        };
        match self.on_device.prepare(keys, context) {
            Err(error) if error.is_of_device() => {
                let batch = batch(None);
                let on_cpu = self.batch_on_cpu(&batch, context.cancel)?;
                let (len, unmatchable) = (on_cpu.len, on_cpu.unmatchable);
                Ok(Prepared::new(batch, len, unmatchable))
            }
            prepared => Ok(prepared?.map(|on_device| batch(Some(on_device)))),
        }
    }
}

impl NearestIndex for NearestWithCpuFallback {
    fn positions_at_once(&self, probe: Probe<'_, Batch>, wanted: usize) -> Result<usize> {
        let cancel = Cancel::default();
        match probe {
            Probe::SelfJoin => self.on_device.positions_at_once(Probe::SelfJoin, wanted),
            Probe::Batch(Batch { on_device: Some(batch), .. }) => {
                self.on_device.positions_at_once(Probe::Batch(batch), wanted)
            }
            Probe::Batch(batch) => {
                let on_cpu = Probe::Batch(&self.batch_on_cpu(batch, &cancel)?.batch);
                self.on_cpu(&cancel)?.positions_at_once(on_cpu, wanted)
            }
        }
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        self.on_device.self_join_stretch(start, wanted)
    }

    fn order<'a>(&'a self, probe: Probe<'a, Batch>) -> Result<&'a [u32]> {
        match probe {
            Probe::SelfJoin => self.on_device.order(Probe::SelfJoin),
            Probe::Batch(Batch { on_device: Some(batch), .. }) => self.on_device.order(Probe::Batch(batch)),
            Probe::Batch(batch) => {
                let cancel = Cancel::default();
                self.on_cpu(&cancel)?.order(Probe::Batch(&self.batch_on_cpu(batch, &cancel)?.batch))
            }
        }
    }

    fn nearest(
        &self,
        probe: Probe<'_, Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let on_device = match probe {
            Probe::SelfJoin => self.on_device.nearest(Probe::SelfJoin, positions, best, cancel),
            Probe::Batch(Batch { on_device: Some(batch), .. }) => {
                self.on_device.nearest(Probe::Batch(batch), positions, best, cancel)
            }
            Probe::Batch(Batch { on_device: None, .. }) => Err(Error::DeviceFull),
        };
        match on_device {
            Err(error) if error.is_of_device() => self.nearest_on_cpu(probe, positions, best, cancel),
            counts => counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::ListArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::Erased;
    use crate::accelerator::{Accelerator, DeviceNearest, DynDeviceNearest};
    use crate::condition::{Condition, VectorCondition};
    use crate::nearest::{Neighbour, Wanted};
    use crate::offered::{Declined, Offered};
    use similarity_measures::VectorMeasure;

    const RANKS: [u32; 40] = [0; 40];

    /// A device that finds no room for a search, or none for a batch either.
    #[derive(Debug)]
    struct Full {
        index: Box<DynNearestIndex>,
        takes_batches: bool,
    }

    fn full<T>() -> Result<T> {
        Err(Error::DeviceFull)
    }

    impl Index for Full {
        type Batch = AnyBatch;

        fn info(&self) -> &IndexInfo {
            self.index.info()
        }

        fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<AnyBatch>> {
            if self.takes_batches { self.index.prepare(keys, context) } else { full() }
        }
    }

    impl NearestIndex for Full {
        fn order<'a>(&'a self, probe: Probe<'a, AnyBatch>) -> Result<&'a [u32]> {
            self.index.order(probe)
        }

        fn nearest(&self, _: Probe<'_, AnyBatch>, _: &[u32], best: &mut [Best<i64>], _: &Cancel) -> Result<Counts> {
            // what it had found before is ignored
            best.iter_mut().for_each(|best| best.offer(Neighbour { score: i64::MIN, rank: 0, row: 9 }));
            full()
        }
    }

    impl DeviceNearest for Full {
        fn replicate(&self, _: &dyn Accelerator) -> Result<Offered<Box<DynDeviceNearest>>> {
            Ok(Offered::Declined(Declined::Memory))
        }
    }

    #[test]
    fn what_does_not_fit_is_ranked_on_the_cpu() {
        let column = |from: usize| {
            let rows = (from..from + 40).map(|at| Some(vec![Some((at * 7 % 40) as f64), Some((at % 3) as f64)]));
            let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(rows);
            KeyColumn { values: Arc::new(lists), groups: None }
        };
        let (build, probe) = (column(0), column(11));
        let ranking: Ranking = Condition::Vector(VectorCondition::every_score(VectorMeasure::L2)).into();
        let (cancel, reserve) = (Cancel::default(), |_: usize| Ok(()));
        let neighbours = |index: &DynNearestIndex, batch: Option<&Prepared<AnyBatch>>| {
            let probe = batch.map_or(Probe::SelfJoin, |prepared| Probe::Batch(&prepared.batch));
            let order = index.order(probe).unwrap();
            let positions: Vec<u32> = (1..order.len() as u32).step_by(2).collect();
            let mut best: Vec<_> = positions.iter().map(|_| Best::new(Wanted { rows: 3, ties: false })).collect();
            index.nearest(probe, &positions, &mut best, &cancel).unwrap();
            let mut rows = Vec::new();
            for (best, position) in best.iter_mut().zip(positions) {
                let mut found = Vec::new();
                best.take_into(&mut found);
                rows.push((order[position as usize], found));
            }
            rows.sort_unstable();
            rows
        };
        for (self_join, takes_batches) in [(true, true), (false, true), (false, false)] {
            let context = BuildContext { self_join, ..BuildContext::new(1, &cancel, &reserve) };
            let cpu = || cpu::build_nearest(&ranking, &build, RANKS.to_vec(), &context).unwrap();
            let device = ReplicatedNearest::of_one(Box::new(Full { index: cpu(), takes_batches })).unwrap();
            let (ranking, ranks) = (ranking.clone(), RANKS.to_vec());
            let index = Erased(NearestWithCpuFallback::new(device, ranking, build.clone(), ranks, &context));
            let cpu = cpu();
            let (one, other) = match self_join {
                true => (None, None),
                false => (
                    Some(index.prepare(&probe, &PrepareContext::by(1)).unwrap()),
                    Some(cpu.prepare(&probe, &PrepareContext::by(1)).unwrap()),
                ),
            };
            assert_eq!(neighbours(&index, one.as_ref()), neighbours(cpu.as_ref(), other.as_ref()));
            let fallbacks = index.metrics().into_iter().find(|metric| metric.name() == "cpu_fallbacks");
            assert_eq!(fallbacks.map(|fallbacks| fallbacks.as_usize()), Some(1));
        }
    }
}
