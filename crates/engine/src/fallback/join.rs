//! An index on devices that finds pairs: what does not fit there, or was left by the last one to fail, is probed on the
//! CPU.

use std::sync::OnceLock;

use crate::error::{Result, internal_err};
use crate::metrics::{Count, MetricValue};
use arrow::array::UInt32Array;
use arrow::compute::take;

use super::LazyOnce;
use crate::condition::Condition;
use crate::devices::{JoinBatch, ReplicatedJoin};
use crate::reason::CPU_FALLBACKS;
use crate::{
    AnyBatch, BuildContext, Cancel, Counts, Cursor, DynPairIndex, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs,
    PrepareContext, Prepared, Probe, cpu,
};

/// An index on a device, and what makes another one on the CPU.
#[derive(Debug)]
pub(crate) struct WithCpuFallback {
    on_device: ReplicatedJoin,
    info: IndexInfo,
    condition: Condition,
    keys: KeyColumn,
    on_cpu: LazyOnce<Box<DynPairIndex>>,
    /// Threads that may build the index on the CPU.
    threads: usize,
    /// Position of each row on the device, in a self-join.
    positions: OnceLock<Vec<u32>>,
    /// Number of times that the CPU has taken over a probe batch, or a stretch of one.
    fallbacks: Count,
}

/// A probe batch.
#[derive(Debug)]
pub(crate) enum Batch {
    OnDevice(JoinBatch),
    OnCpu(AnyBatch),
}

/// Positions that the CPU takes over at a time, and about how many pairs these have at most.
const ROWS_AT_ONCE: usize = 1 << 13;
const FEWEST_ROWS: usize = 1 << 6;
const PAIRS_AT_ONCE: usize = 1 << 22;

impl WithCpuFallback {
    pub(crate) fn new(on_device: ReplicatedJoin, condition: Condition, keys: KeyColumn, threads: usize) -> Self {
        let of_device = on_device.info().clone();
        let of_groups = keys.groups.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        let info = IndexInfo { bytes: of_device.bytes + of_groups, ..of_device };
        let (on_cpu, positions, fallbacks) = (LazyOnce::default(), OnceLock::new(), Count::new());
        Self { on_device, info, condition, keys, on_cpu, threads, positions, fallbacks }
    }

    /// The index on the CPU, built when it is first needed.
    fn on_cpu(&self, cancel: &Cancel) -> Result<&DynPairIndex> {
        let context = BuildContext::new(self.threads, cancel, &|_| Ok(()));
        Ok(self.on_cpu.get(|| cpu::build(self.condition, self.keys.clone(), &context), cancel)?.as_ref())
    }

    /// Where the device has each row of a self-join; anything for rows that it does not have.
    fn positions(&self) -> Result<&[u32]> {
        if let Some(positions) = self.positions.get() {
            return Ok(positions);
        }
        let rows = self.on_device.rows(Probe::SelfJoin, 0..self.info.self_join_len);
        let mut positions = vec![0; self.keys.values.len()];
        (0..).zip(rows).for_each(|(position, &row)| positions[row as usize] = position);
        Ok(self.positions.get_or_init(|| positions))
    }

    /// Appends the pairs of some positions from `cursor` on that no device can answer.
    fn take_over(
        &self,
        probe: Probe<'_, JoinBatch>,
        cursor: &mut Cursor,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        self.fallbacks.add(1);
        let index = self.on_cpu(cancel)?;
        let most = (PAIRS_AT_ONCE / self.keys.values.len().max(1)).clamp(FEWEST_ROWS, ROWS_AT_ONCE);
        let rows = self.on_device.rows(probe, cursor.next..cursor.end.min(cursor.next + most)).to_vec();
        if rows.is_empty() {
            return internal_err!("a device has no memory for rows that it does not have");
        }
        let keys = match probe {
            Probe::SelfJoin => &self.keys,
            Probe::Batch(batch) => &batch.keys,
        };
        let prepared = index.prepare(&some_of(keys, &rows)?, &PrepareContext { threads: 1, cancel })?;
        let (mut all, mut found) = (Cursor { next: 0, end: prepared.len }, Pairs::default());
        let limit = Limit { pairs: PAIRS_AT_ONCE, work: PAIRS_AT_ONCE };
        let mut counts = Counts::default();
        while !all.is_done() && !cancel.is_cancelled() {
            let more = index.probe(Probe::Batch(&prepared.batch), &mut all, limit, cancel, &mut found)?;
            counts.candidates += more.candidates;
            counts.verified += more.verified;
        }
        let positions = match probe {
            Probe::SelfJoin => Some(self.positions()?),
            Probe::Batch(_) => None,
        };
        let before = out.len();
        for (build, at) in found.build.into_iter().zip(found.probe) {
            let row = rows[at as usize];
            if positions.is_none_or(|positions| positions[row as usize] < positions[build as usize]) {
                out.push(build, row);
            }
        }
        counts.matched = out.len() - before;
        if positions.is_some() {
            // each pair is found from both of its rows
            counts.verified = (counts.verified / 2).max(counts.matched);
            counts.candidates = (counts.candidates / 2).max(counts.verified);
        }
        cursor.next += rows.len();
        Ok(counts)
    }
}

/// The keys of some rows.
fn some_of(keys: &KeyColumn, rows: &[u32]) -> Result<KeyColumn> {
    let values = take(&keys.values, &UInt32Array::from(rows.to_vec()), None)?;
    let groups = keys.groups.as_ref().map(|groups| rows.iter().map(|&row| groups[row as usize]).collect());
    Ok(KeyColumn { values, groups })
}

impl Index for WithCpuFallback {
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
        match self.on_device.prepare(keys, context) {
            Err(error) if error.is_of_device() => {
                self.fallbacks.add(1);
                let index = self.on_cpu(context.cancel)?;
                let prepared = index.prepare(keys, context)?;
                let undecided = index.info().undecided || prepared.undecided;
                Ok(Prepared { undecided, ..prepared.map(Batch::OnCpu) })
            }
            prepared => Ok(prepared?.map(Batch::OnDevice)),
        }
    }
}

impl PairIndex for WithCpuFallback {
    fn self_join_stretch(&self, start: usize) -> usize {
        self.on_device.self_join_stretch(start)
    }

    fn probe(
        &self,
        probe: Probe<'_, Batch>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let probe = match probe {
            Probe::SelfJoin => Probe::SelfJoin,
            Probe::Batch(Batch::OnDevice(batch)) => Probe::Batch(batch),
            Probe::Batch(Batch::OnCpu(batch)) => {
                return self.on_cpu(cancel)?.probe(Probe::Batch(batch), cursor, limit, cancel, out);
            }
        };
        let (start, before) = (*cursor, out.len());
        match self.on_device.probe(probe, cursor, limit, cancel, out) {
            Err(error) if error.is_of_device() => {
                out.truncate(before);
                *cursor = start;
                self.take_over(probe, cursor, cancel, out)
            }
            probed => probed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use crate::error::Error;
    use arrow::array::ListArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::Erased;
    use crate::accelerator::{Accelerator, DeviceIndex, DynDeviceIndex};
    use crate::condition::{Bounds, VectorCondition};
    use crate::offered::{Declined, Offered};
    use crate::sets::SetPredicate;
    use crate::test_oracle::sets::*;
    use similarity_measures::{SetMeasure, VectorMeasure};

    /// A device on which nothing fits: neither what is to be probed, nor else what it takes to probe it.
    #[derive(Debug)]
    struct Full {
        takes_batches: bool,
        /// The rows of a self-join.
        self_join: Vec<u32>,
        info: IndexInfo,
    }

    impl Full {
        /// The only device.
        fn alone(takes_batches: bool, self_join: Vec<u32>) -> ReplicatedJoin {
            let info = IndexInfo { self_join_len: self_join.len(), ..IndexInfo::default() };
            ReplicatedJoin::of_one(Box::new(Erased(Self { takes_batches, self_join, info }))).unwrap()
        }
    }

    fn full<T>() -> Result<T> {
        Err(Error::DeviceFull)
    }

    impl Index for Full {
        /// Rows of a batch, in the order of a device.
        type Batch = Vec<u32>;

        fn info(&self) -> &IndexInfo {
            &self.info
        }

        fn prepare(&self, keys: &KeyColumn, _: &PrepareContext<'_>) -> Result<Prepared<Vec<u32>>> {
            let rows: Vec<u32> = (0..keys.values.len() as u32).rev().collect();
            let len = rows.len();
            if self.takes_batches { Ok(Prepared::new(rows, len, 0)) } else { full() }
        }
    }

    impl PairIndex for Full {
        fn probe(
            &self,
            _: Probe<'_, Vec<u32>>,
            cursor: &mut Cursor,
            _: Limit,
            _: &Cancel,
            out: &mut Pairs,
        ) -> Result<Counts> {
            if cursor.is_done() {
                return Ok(Counts::default());
            }
            // what it has found so far is ignored
            out.push(0, 0);
            full()
        }
    }

    impl DeviceIndex for Full {
        fn rows(&self, probe: Probe<'_, Vec<u32>>, positions: Range<usize>) -> Result<Vec<u32>> {
            Ok(match probe {
                Probe::SelfJoin => self.self_join[positions].to_vec(),
                Probe::Batch(rows) => rows[positions].to_vec(),
            })
        }

        fn replicate(&self, _: &dyn Accelerator) -> Result<Offered<Box<DynDeviceIndex>>> {
            Ok(Offered::Declined(Declined::Memory))
        }
    }

    fn fallbacks(index: &WithCpuFallback) -> Option<usize> {
        index.metrics().iter().find(|metric| metric.name() == "cpu_fallbacks").map(MetricValue::as_usize)
    }

    #[test]
    fn what_does_not_fit_is_probed_on_the_cpu() {
        let predicate = SetPredicate { measure: SetMeasure::JACCARD, bounds: Bounds::at_least(0.5, true) };
        let (build, probe) = (strings(200, 12, 1), strings(100, 12, 2));
        let condition = Condition::Set { tokenizer: WORDS, measure: predicate.measure, bounds: predicate.bounds };
        for count in [0, 3] {
            let (of_build, of_probe) = (groups(200, count, 5), groups(100, count, 6));
            let (build_keys, probe_keys) = (key_column(&build, &of_build), key_column(&probe, &of_probe));
            let expected = oracle(WORDS, predicate, (&build, &of_build), Some((&probe, &of_probe)));
            for takes_batches in [false, true] {
                let device = Full::alone(takes_batches, Vec::new());
                let index = WithCpuFallback::new(device, condition, build_keys.clone(), 2);
                assert_eq!(batch(&index, &probe_keys, 30, UNLIMITED), expected);
                // by ranges of thirty rows of a hundred
                assert_eq!(fallbacks(&index), Some(if takes_batches { 4 } else { 1 }));
            }
            let mut rows: Vec<u32> = (0..200).filter(|row| row % 2 == 1).collect();
            rows.extend((0..200).filter(|row| row % 2 == 0));
            let index = WithCpuFallback::new(Full::alone(false, rows), condition, build_keys.clone(), 2);
            let expected = oracle(WORDS, predicate, (&build, &of_build), None);
            assert!(expected.len() > 100);
            for range in [usize::MAX, 30] {
                assert_eq!(self_join_pairs(&index, range, UNLIMITED), expected);
            }
            assert_eq!(fallbacks(&index), Some(1 + 7));
        }
    }

    /// DataFusion's own distance decides about infinite elements, which groups of few rows leave to it.
    #[test]
    fn what_the_cpu_leaves_undecided_stays_so() {
        let measure = VectorCondition { undecided_from: Some(465), ..VectorCondition::every_score(VectorMeasure::L2) };
        let condition = Condition::Vector(VectorCondition { bounds: Bounds::at_most(1.0, true), ..measure });
        let keys = |last: f64| {
            let row = |row: u32| Some(vec![Some(f64::from(row)), Some(if row == 19 { last } else { 0.5 })]);
            let rows: Vec<_> = (0..20).map(row).collect();
            let values = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows));
            KeyColumn { values, groups: Some((0..20).map(|row| row / 4).collect()) }
        };
        let index = WithCpuFallback::new(Full::alone(false, Vec::new()), condition, keys(0.5), 1);
        let prepared = index.prepare(&keys(f64::INFINITY), &PrepareContext::by(1)).unwrap();
        assert!(prepared.undecided);
    }
}
