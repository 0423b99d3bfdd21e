//! An index on a device that ranks rows: what does not fit there is ranked on the CPU.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::metrics::{Count, MetricValue};

use super::LazyOnce;
use crate::condition::Condition;
use crate::nearest::{Best, NearestIndex, prepared};
use crate::reason::CPU_FALLBACKS;
use crate::{BuildContext, Cancel, Counts, KeyColumn, PrepareContext, PreparedProbe, cpu};

/// An index on a device, and what makes another one on the CPU.
#[derive(Debug)]
pub(crate) struct NearestWithCpuFallback {
    on_device: Box<dyn NearestIndex>,
    condition: Condition,
    keys: KeyColumn,
    ranks: Vec<u32>,
    self_join: bool,
    on_cpu: LazyOnce<Box<dyn NearestIndex>>,
    /// Where each of its own rows stands in the order of the CPU.
    positions_on_cpu: OnceLock<Vec<u32>>,
    threads: usize,
    /// Searches that went to the CPU.
    fallbacks: Count,
}

/// A probe batch that either index may search for.
struct Batch {
    keys: KeyColumn,
    /// Batch on the device; `None` where it has no memory for it.
    on_device: Option<Box<dyn PreparedProbe>>,
    on_cpu: LazyOnce<Box<dyn PreparedProbe>>,
    /// Where each row stands in the order of the CPU.
    positions_on_cpu: OnceLock<Vec<u32>>,
    len: usize,
    unmatchable: usize,
}

/// Where each row of one order stands in another one of the same rows.
fn positions_by_row(order: &[u32], other: &[u32]) -> Vec<u32> {
    let mut positions = vec![0; order.iter().max().map_or(0, |&last| last as usize + 1)];
    (0..).zip(other).for_each(|(position, &row)| positions[row as usize] = position);
    positions
}

impl NearestWithCpuFallback {
    /// An index with what it was made of; `self_join` for a self-join, and how many threads may make the other one.
    pub(crate) fn new(
        on_device: Box<dyn NearestIndex>,
        (condition, keys, ranks): (Condition, KeyColumn, Vec<u32>),
        (self_join, threads): (bool, usize),
    ) -> Self {
        let (on_cpu, positions_on_cpu, fallbacks) = (LazyOnce::default(), OnceLock::new(), Count::new());
        Self { on_device, condition, keys, ranks, self_join, on_cpu, positions_on_cpu, threads, fallbacks }
    }

    /// The index on the CPU, built when it is first needed.
    fn on_cpu(&self, cancel: &Cancel) -> Result<&dyn NearestIndex> {
        let context =
            BuildContext { self_join: self.self_join, ..BuildContext::new(self.threads, cancel, &|_| Ok(())) };
        let build = || cpu::build_nearest(self.condition, &self.keys, self.ranks.clone(), &context);
        Ok(self.on_cpu.get(build, cancel)?.as_ref())
    }

    /// A probe batch as the index on the CPU wants it.
    fn batch_on_cpu<'a>(&self, batch: &'a Batch, cancel: &Cancel) -> Result<&'a dyn PreparedProbe> {
        let by = PrepareContext { threads: self.threads, cancel };
        let prepare = || self.on_cpu(cancel)?.prepare(&batch.keys, &by);
        Ok(batch.on_cpu.get(prepare, cancel)?.as_ref())
    }

    /// Neighbours as [`nearest`](NearestIndex::nearest) gives them, by the index on the CPU, in whose order rows are at
    /// other positions.
    fn nearest_on_cpu(
        &self,
        (order, probe): (&[u32], Option<&dyn PreparedProbe>),
        positions_of_rows: &OnceLock<Vec<u32>>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        self.fallbacks.add(1);
        let index = self.on_cpu(cancel)?;
        let self_join_order = index.order(probe)?;
        let positions_of_rows = positions_of_rows.get_or_init(|| positions_by_row(order, self_join_order));
        let position = |&position: &u32| positions_of_rows[order[position as usize] as usize];
        let mut turned: Vec<(u32, usize)> = positions.iter().map(position).zip(0..).collect();
        turned.sort_unstable();
        let positions: Vec<u32> = turned.iter().map(|(position, _)| *position).collect();
        let mut found: Vec<_> = turned.iter().map(|&(_, at)| Best::new(best[at].wanted())).collect();
        let counts = index.nearest(probe, &positions, &mut found, cancel)?;
        turned.into_iter().zip(found).for_each(|((_, at), found)| best[at] = found);
        Ok(counts)
    }
}

impl NearestIndex for NearestWithCpuFallback {
    fn describe(&self) -> String {
        self.on_device.describe()
    }

    fn memory(&self) -> usize {
        self.on_device.memory() + self.ranks.capacity() * size_of::<u32>()
    }

    fn unmatchable(&self) -> usize {
        self.on_device.unmatchable()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        let mut metrics = self.on_device.metrics();
        metrics.push(MetricValue::Count { name: CPU_FALLBACKS, count: self.fallbacks.clone() });
        metrics
    }

    fn rows_at_once(&self) -> usize {
        self.on_device.rows_at_once()
    }

    fn positions_at_once(&self, probe: Option<&dyn PreparedProbe>, wanted: usize) -> usize {
        let Some(batch) = probe.and_then(|probe| probe.as_any().downcast_ref::<Batch>()) else {
            return self.on_device.positions_at_once(None, wanted);
        };
        match &batch.on_device {
            Some(probe) => self.on_device.positions_at_once(Some(probe.as_ref()), wanted),
            None => self.on_cpu(&Cancel::default()).map_or(1, |index| index.positions_at_once(None, wanted)),
        }
    }

    fn self_join_stretch(&self, start: usize, rows: usize, wanted: usize) -> usize {
        self.on_device.self_join_stretch(start, rows, wanted)
    }

    fn is_shared(&self, probe: Option<&dyn PreparedProbe>) -> bool {
        match probe.and_then(|probe| probe.as_any().downcast_ref::<Batch>()) {
            None => self.on_device.is_shared(None),
            Some(Batch { on_device, .. }) => {
                on_device.as_ref().is_none_or(|probe| self.on_device.is_shared(Some(probe.as_ref())))
            }
        }
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>> {
        let on_device = match self.on_device.prepare(keys, context) {
            Ok(probe) => Some(probe),
            Err(error) if error.is_device_full() => None,
            Err(error) => return Err(error),
        };
        let (on_cpu, positions_on_cpu) = (LazyOnce::default(), OnceLock::new());
        let mut batch = Batch { keys: keys.clone(), on_device, on_cpu, positions_on_cpu, len: 0, unmatchable: 0 };
        let probe = match &batch.on_device {
            Some(probe) => probe.as_ref(),
            None => self.batch_on_cpu(&batch, context.cancel)?,
        };
        (batch.len, batch.unmatchable) = (probe.len(), probe.unmatchable());
        Ok(Box::new(batch))
    }

    fn order<'a>(&'a self, probe: Option<&'a dyn PreparedProbe>) -> Result<&'a [u32]> {
        let Some(_) = probe else { return self.on_device.order(None) };
        let batch = prepared::<Batch>(probe)?;
        match &batch.on_device {
            Some(probe) => self.on_device.order(Some(probe.as_ref())),
            None => {
                let cancel = Cancel::default();
                self.on_cpu(&cancel)?.order(Some(self.batch_on_cpu(batch, &cancel)?))
            }
        }
    }

    fn nearest(
        &self,
        probe: Option<&dyn PreparedProbe>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let batch = probe.map(|_| prepared::<Batch>(probe)).transpose()?;
        let on_device = match batch.map(|batch| &batch.on_device) {
            None => self.on_device.nearest(None, positions, best, cancel),
            Some(Some(probe)) => self.on_device.nearest(Some(probe.as_ref()), positions, best, cancel),
            Some(None) => Err(Error::DeviceFull),
        };
        match on_device {
            Err(error) if error.is_device_full() => {
                let order = self.order(probe)?;
                let on_cpu = batch.map(|batch| self.batch_on_cpu(batch, cancel)).transpose()?;
                let places = batch.map_or(&self.positions_on_cpu, |batch| &batch.positions_on_cpu);
                self.nearest_on_cpu((order, on_cpu), places, positions, best, cancel)
            }
            counts => counts,
        }
    }
}

impl PreparedProbe for Batch {
    fn len(&self) -> usize {
        self.len
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::ListArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::condition::VectorCondition;
    use crate::nearest::{Neighbour, Wanted};
    use similarity_measures::VectorMeasure;

    const RANKS: [u32; 40] = [0; 40];

    /// A device that finds no room for a search, or none for a batch either.
    #[derive(Debug)]
    struct Full {
        index: Box<dyn NearestIndex>,
        takes_batches: bool,
    }

    fn full<T>() -> Result<T> {
        Err(Error::DeviceFull)
    }

    impl NearestIndex for Full {
        fn describe(&self) -> String {
            "full".into()
        }

        fn memory(&self) -> usize {
            0
        }

        fn unmatchable(&self) -> usize {
            0
        }

        fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>> {
            if self.takes_batches { self.index.prepare(keys, context) } else { full() }
        }

        fn order<'a>(&'a self, probe: Option<&'a dyn PreparedProbe>) -> Result<&'a [u32]> {
            self.index.order(probe)
        }

        fn nearest(
            &self,
            _: Option<&dyn PreparedProbe>,
            _: &[u32],
            best: &mut [Best<i64>],
            _: &Cancel,
        ) -> Result<Counts> {
            // what it had found before is ignored
            best.iter_mut().for_each(|best| best.offer(Neighbour { score: i64::MIN, rank: 0, row: 9 }));
            full()
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
        let condition = Condition::Vector(VectorCondition::every_score(VectorMeasure::L2));
        let (cancel, reserve) = (Cancel::default(), |_: usize| Ok(()));
        let neighbours = |index: &dyn NearestIndex, probe: Option<&dyn PreparedProbe>| {
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
            let cpu = || cpu::build_nearest(condition, &build, RANKS.to_vec(), &context).unwrap();
            let device = Box::new(Full { index: cpu(), takes_batches });
            let index = NearestWithCpuFallback::new(device, (condition, build.clone(), RANKS.to_vec()), (self_join, 1));
            let cpu = cpu();
            let (one, other) = match self_join {
                true => (None, None),
                false => (
                    Some(index.prepare(&probe, &PrepareContext::by(1)).unwrap()),
                    Some(cpu.prepare(&probe, &PrepareContext::by(1)).unwrap()),
                ),
            };
            assert_eq!(neighbours(&index, one.as_deref()), neighbours(cpu.as_ref(), other.as_deref()));
            let fallbacks = index.metrics().into_iter().find(|metric| metric.name() == "cpu_fallbacks");
            assert_eq!(fallbacks.map(|fallbacks| fallbacks.as_usize()), Some(1));
        }
    }
}
