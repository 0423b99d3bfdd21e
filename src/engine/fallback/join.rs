//! An index on a device that finds pairs: what does not fit there is probed on the CPU.

use datafusion::common::Result;
use datafusion::physical_plan::metrics::{Count, MetricValue};

use super::Made;
use crate::engine::cuda::DeviceFull;
use crate::engine::{BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PreparedProbe, Probe, cpu};
use crate::predicate::Test;

/// An index on a device, and what makes another one on the CPU.
#[derive(Debug)]
pub(in crate::engine) struct WithFallback {
    on_device: Box<dyn Index>,
    test: Test,
    keys: KeyColumn,
    on_cpu: Made<Box<dyn Index>>,
    /// Probe batches that went to the CPU.
    fallbacks: Count,
}

/// A probe batch that the index on the CPU has prepared.
struct OnCpu(Box<dyn PreparedProbe>);

impl WithFallback {
    pub(in crate::engine) fn new(on_device: Box<dyn Index>, test: Test, keys: KeyColumn) -> Self {
        Self { on_device, test, keys, on_cpu: Made::default(), fallbacks: Count::new() }
    }

    /// The index on the CPU, built when it is first needed.
    fn on_cpu(&self, threads: usize) -> Result<&dyn Index> {
        let build = || {
            let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
            let context = BuildContext::new(threads, &cancel, &reserve);
            cpu::build(self.test, &self.keys, &context)
        };
        Ok(self.on_cpu.get(build)?.as_ref())
    }
}

impl Index for WithFallback {
    fn describe(&self) -> String {
        self.on_device.describe()
    }

    fn memory(&self) -> usize {
        self.on_device.memory()
    }

    fn unmatchable(&self) -> usize {
        self.on_device.unmatchable()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        let mut metrics = self.on_device.metrics();
        metrics.push(MetricValue::Count { name: "cpu_fallbacks".into(), count: self.fallbacks.clone() });
        metrics
    }

    fn is_undecided(&self) -> bool {
        self.on_device.is_undecided()
    }

    fn own_len(&self) -> usize {
        self.on_device.own_len()
    }

    fn own_stretch(&self, start: usize) -> usize {
        self.on_device.own_stretch(start)
    }

    fn rows_at_once(&self) -> usize {
        self.on_device.rows_at_once()
    }

    fn is_shared(&self, probe: Option<&dyn PreparedProbe>) -> bool {
        probe.is_some_and(|probe| probe.as_any().is::<OnCpu>()) || self.on_device.is_shared(probe)
    }

    fn prepare(&self, keys: &KeyColumn, threads: usize) -> Result<Box<dyn PreparedProbe>> {
        match self.on_device.prepare(keys, threads) {
            Err(error) if DeviceFull::is_cause_of(&error) => {
                self.fallbacks.add(1);
                Ok(Box::new(OnCpu(self.on_cpu(threads)?.prepare(keys, threads)?)))
            }
            prepared => prepared,
        }
    }

    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        match probe {
            Probe::Batch(batch) => match batch.as_any().downcast_ref::<OnCpu>() {
                Some(OnCpu(batch)) => self.on_cpu(1)?.probe(Probe::Batch(batch.as_ref()), cursor, limit, cancel, out),
                None => self.on_device.probe(probe, cursor, limit, cancel, out),
            },
            Probe::Own => self.on_device.probe(probe, cursor, limit, cancel, out),
        }
    }
}

impl PreparedProbe for OnCpu {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn unmatchable(&self) -> usize {
        self.0.unmatchable()
    }

    fn is_undecided(&self) -> bool {
        self.0.is_undecided()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::{DataFusionError, internal_err};

    use super::*;
    use crate::engine::sets::SetPredicate;
    use crate::engine::sets::nested_loop::*;
    use crate::measure::SetMeasure;
    use crate::predicate::Bounds;

    /// A device on which nothing fits any more.
    #[derive(Debug)]
    struct Full;

    impl Index for Full {
        fn describe(&self) -> String {
            "full".into()
        }

        fn memory(&self) -> usize {
            0
        }

        fn unmatchable(&self) -> usize {
            0
        }

        fn own_len(&self) -> usize {
            0
        }

        fn prepare(&self, _: &KeyColumn, _: usize) -> Result<Box<dyn PreparedProbe>> {
            Err(DataFusionError::External(Box::new(DeviceFull)))
        }

        fn probe(&self, _: Probe<'_>, _: &mut Cursor, _: Limit, _: &Cancel, _: &mut Pairs) -> Result<Counts> {
            internal_err!("nothing was prepared")
        }
    }

    #[test]
    fn batches_that_do_not_fit_are_probed_on_the_cpu() {
        let predicate = SetPredicate { measure: SetMeasure::Jaccard, bounds: Bounds::at_least(0.5, true) };
        let (build, probe) = (strings(200, 12, 1), strings(100, 12, 2));
        let test = Test::Set { tokenizer: WORDS, measure: predicate.measure, bounds: predicate.bounds };
        let index = WithFallback::new(Box::new(Full), test, key_column(&build, &None));
        let expected = oracle(WORDS, predicate, (&build, &None), Some((&probe, &None)));
        assert_eq!(batch(&index, &key_column(&probe, &None), 30, UNLIMITED), expected);
        let fallbacks = index.metrics().into_iter().find(|metric| metric.name() == "cpu_fallbacks");
        assert_eq!(fallbacks.map(|fallbacks| fallbacks.as_usize()), Some(1));
    }
}
