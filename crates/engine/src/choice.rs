//! Which engine runs a join.

use super::cuda::{self, Budget, Device};
use super::fallback::{LongStrings, NearestWithFallback, WithFallback, WithLongStrings};
use super::nearest::{NearestIndex, Wanted};
use super::pays::{self, PaysFrom, ROWS_OF_RULES, RULES, Weighed};
use super::reason::{Reason, Refused};
use super::{BuildContext, Index, KeyColumn, cpu};
use crate::condition::Test;
use crate::error::{Error, Result, internal_err};

/// Which engine a session asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asked {
    /// The faster one, by the work that there is.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A device; it is an error if there is none.
    Cuda,
}

/// The engine of a plan: what was asked for, before any device is opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineSpec {
    /// Which engine.
    pub asked: Asked,
    /// The ordinal of the device.
    pub device: usize,
    /// How much of its memory all joins of a process may use together, above 0 and up to 1.
    pub memory_fraction: f64,
}

impl EngineSpec {
    /// The CPU, whatever devices there are.
    pub const CPU: Self = Self { asked: Asked::Cpu, device: 0, memory_fraction: 1.0 };

    /// Opens what was asked for.
    ///
    /// # Errors
    /// A device that was asked for and cannot be used.
    pub fn open(self) -> Result<Engine> {
        let Self { asked, device: ordinal, memory_fraction: fraction } = self;
        match asked {
            Asked::Cpu => Ok(Engine::Cpu),
            Asked::Cuda => match Device::open(ordinal) {
                Ok(device) => Ok(Engine::Cuda(Budget::new(&device, fraction))),
                Err(reason) => Err(Error::Setting(format!(
                    "similarity.engine = 'cuda' with similarity.device = {ordinal}: {reason}; set similarity.engine to 'cpu' or 'auto'"
                ))),
            },
            Asked::Auto if Device::has_driver() => Ok(Engine::Auto { ordinal, fraction }),
            Asked::Auto => Ok(Engine::Cpu),
        }
    }
}

/// An engine, or two to choose from.
#[derive(Debug, Clone)]
pub enum Engine {
    /// The CPU, for everything.
    Cpu,
    /// A device, for every condition that it has kernels for.
    Cuda(Budget),
    /// A device where its kernels are faster and there is work enough, which is opened only then.
    Auto {
        /// Which device.
        ordinal: usize,
        /// How much of its memory.
        fraction: f64,
    },
}

impl Engine {
    /// Makes the keys of a build side ready for `test`, and says why on this engine.
    ///
    /// # Errors
    /// Keys that `test` is not about, a refused reservation, a cancelled build, a device that fails.
    pub fn build(&self, test: Test, keys: KeyColumn, context: &BuildContext<'_>) -> Result<(Box<dyn Index>, Reason)> {
        if context.own && !test.is_symmetric() {
            return internal_err!("{test} is not symmetric: a self-join reads both of its sides");
        }
        let on_cpu = |reason| Ok((cpu::build(test, &keys, context)?, reason));
        let Some(pays) = pays::of_condition(test, pays::dimension(&keys.values)) else {
            return on_cpu(Reason::default());
        };
        let (budget, reason) = self.budget(pays, || pays::work_of_condition(test, &keys, context))?;
        let Some(budget) = budget else { return on_cpu(reason) };
        let mut refused = match cuda::build(&budget, test, &keys, context)? {
            Ok(index) => return Ok((Box::new(WithFallback::new(index, test, keys, context.threads)), reason)),
            Err(refused) => refused,
        };
        if let Some(long) = LongStrings::of(test, &keys)? {
            match cuda::build(&budget, test, long.others(), context)? {
                Ok(index) => {
                    let index = WithFallback::new(index, test, long.others().clone(), context.threads);
                    return Ok((Box::new(WithLongStrings::try_new(long, Box::new(index), context)?), reason));
                }
                Err(of_others) => refused = of_others,
            }
        }
        let index = cpu::build(test, &keys, context)?;
        let reason = reason.but(refused, (keys.values.len(), index.unmatchable()));
        Ok((index, reason))
    }

    /// Makes the keys of a build side, each row with a rank, ready for being ranked by the score of `test`, and says
    /// why on this engine. The bounds of `test` are ignored.
    ///
    /// # Errors
    /// Keys that have no such score, a refused reservation, a cancelled build, a device that fails.
    pub fn build_nearest(
        &self,
        test: Test,
        keys: &KeyColumn,
        (ranks, wanted): (Vec<u32>, Wanted),
        context: &BuildContext<'_>,
    ) -> Result<(Box<dyn NearestIndex>, Reason)> {
        let is_flat = pays::dimension(&keys.values) <= cuda::FEW_DIMENSIONS as usize;
        let (budget, reason) = match (pays::of_ranking(test, wanted), self) {
            (None, _) => (None, Reason::default()),
            (Some(_), Self::Auto { .. }) if is_flat => (None, Reason::default()),
            (Some(pays), _) => self.budget(pays, || Ok(pays::pairs(keys, context)))?,
        };
        let Some(budget) = budget else { return Ok((cpu::build_nearest(test, keys, ranks, context)?, reason)) };
        match cuda::build_nearest(&budget, test, keys, (&ranks, wanted), context)? {
            Ok(index) => {
                let (of, by) = ((test, keys.clone(), ranks), (context.own, context.threads));
                Ok((Box::new(NearestWithFallback::new(index, of, by)), reason))
            }
            Err(refused) => {
                let index = cpu::build_nearest(test, keys, ranks, context)?;
                let reason = reason.but(refused, (keys.values.len(), index.unmatchable()));
                Ok((index, reason))
            }
        }
    }

    /// The device, where one is to be used: for work that is worth it. And what has decided that.
    pub(super) fn budget(
        &self,
        pays: PaysFrom,
        work: impl FnOnce() -> Result<u64>,
    ) -> Result<(Option<Budget>, Reason)> {
        match self {
            Self::Cpu => Ok((None, Reason::default())),
            Self::Cuda(budget) => Ok((Some(budget.clone()), Reason::default())),
            Self::Auto { ordinal, fraction } => {
                let weighed = Weighed::new(work()?, pays, Device::is_open(*ordinal));
                let opened = weighed.is_enough().then(|| Device::open(*ordinal));
                // a driver without a usable device is as good as none
                let (device, refused) = match opened {
                    Some(Ok(device)) => (Some(device), None),
                    Some(Err(reason)) => (None, Some(Refused::Device(reason))),
                    None => (None, None),
                };
                let budget = device.map(|device| Budget::new(&device, *fraction));
                Ok((budget, Reason { weighed: Some(weighed), refused }))
            }
        }
    }

    /// The device for one join, where the keys of so many rows of a build side are to be numbered and grouped on one:
    /// the one that was sent columns, if one was.
    pub fn budget_of_keys(&self, rows: usize, context: &BuildContext<'_>) -> Option<Budget> {
        if let Some(device) = context.device {
            return Some(device.clone());
        }
        match self {
            Self::Cpu => None,
            Self::Cuda(budget) => Some(budget.of_join()),
            Self::Auto { ordinal, fraction } => {
                let probe_rows = if context.own { 0 } else { context.expected_probe_rows(rows) };
                let pays = rows.saturating_add(probe_rows) >= ROWS_OF_RULES && Device::is_open(*ordinal);
                let device = pays.then(|| Device::open(*ordinal).ok())??;
                Some(Budget::new(&device, *fraction))
            }
        }
    }
}

impl EngineSpec {
    /// Which engine runs a join of rules, for EXPLAIN.
    pub fn explain_rules(self) -> String {
        match self.possible() {
            Asked::Cpu => "cpu".into(),
            Asked::Cuda => format!("cuda:{}, cpu for what it has no kernels for", self.device),
            Asked::Auto => format!("cpu, or cuda:{} {RULES}, then also from {ROWS_OF_RULES} rows on", self.device),
        }
    }

    /// Which engine runs a condition, for EXPLAIN.
    pub fn explain(self, test: Test) -> String {
        let many = cuda::FEW_DIMENSIONS as usize + 1;
        let engine = self.explain_where(pays::of_condition(test, many), "condition");
        match (self.possible(), test, pays::of_condition(test, 0)) {
            (Asked::Auto, Test::Vector(_), Some(few)) => {
                format!("{engine}; in up to {} dimensions {few}", cuda::FEW_DIMENSIONS)
            }
            _ => engine,
        }
    }

    /// Which engine ranks so many rows by the score of `test`, for EXPLAIN.
    pub fn explain_ranking(self, test: Test, wanted: Wanted) -> String {
        let pays = pays::of_ranking(test, wanted);
        let engine = self.explain_where(pays, "ranking");
        match (self.possible(), pays) {
            (Asked::Auto, Some(_)) => format!("{engine}; cpu in up to {} dimensions", cuda::FEW_DIMENSIONS),
            _ => engine,
        }
    }

    fn explain_where(self, pays: Option<PaysFrom>, what: &str) -> String {
        match (self.possible(), pays) {
            (Asked::Cuda | Asked::Auto, None) => format!("cpu (no kernels for this {what})"),
            (Asked::Cuda, Some(_)) => format!("cuda:{}", self.device),
            (Asked::Auto, Some(pays)) => format!("cpu, or cuda:{} {pays}", self.device),
            (Asked::Cpu, _) => "cpu".into(),
        }
    }

    /// What was asked for, as far as this machine can have it: `auto` means the CPU where no driver is installed.
    fn possible(self) -> Asked {
        match self.asked {
            Asked::Auto if !Device::has_driver() => Asked::Cpu,
            asked => asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, ListArray, StringArray};
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::condition::{Bounds, VectorTest};
    use crate::cuda::test_device::device;
    use crate::{Cancel, PrepareContext};
    use similarity_measures::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};

    #[test]
    fn keys_of_rules_go_to_an_open_device_from_so_many_rows_on() {
        let _open = device();
        let (auto, half) = (Engine::Auto { ordinal: 0, fraction: 0.5 }, ROWS_OF_RULES / 2);
        let never = Cancel::default();
        let pays = |rows: usize, own: bool, probe_rows: Option<usize>| {
            let context = BuildContext { own, probe_rows, ..BuildContext::new(2, &never, &|_| Ok(())) };
            auto.budget_of_keys(rows, &context).is_some()
        };
        for (rows, own, probe_rows) in [(2 * half, true, None), (half, false, Some(half)), (half, false, None)] {
            assert!(pays(rows, own, probe_rows) && !pays(rows - 1, own, probe_rows), "{rows} {own} {probe_rows:?}");
        }
        assert!(pays(1, false, Some(2 * half)) && !pays(half, true, Some(half)), "a self-join has no other side");
    }

    #[test]
    fn an_index_that_probes_itself_has_a_symmetric_measure() {
        let (never, bounds) = (Cancel::default(), Bounds::at_least(0.5, true));
        let keys = KeyColumn { values: Arc::new(StringArray::from(vec!["a b", "a"])), groups: None };
        for own in [true, false] {
            let context = BuildContext { own, ..BuildContext::new(1, &never, &|_| Ok(())) };
            for &measure in SetMeasure::ALL {
                let test = Test::Set { tokenizer: Tokenizer::Words, measure, bounds };
                let built = Engine::Cpu.build(test, keys.clone(), &context);
                assert_eq!(built.is_ok(), !own || measure.descriptor().is_symmetric, "{test}");
            }
        }
    }

    #[test]
    fn batches_are_made_ready_until_they_are_cancelled() {
        let words = Tokenizer::Words;
        let texts: ArrayRef = Arc::new((0..2000).map(|row| Some(format!("a name {row}"))).collect::<StringArray>());
        let point = |row: i32| Some((0..20).map(|at| Some(f64::from(row * at % 97))).collect::<Vec<_>>());
        let points: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>((0..2000).map(point).collect::<Vec<_>>()));
        let near = VectorTest { bounds: Bounds::at_most(5.0, true), ..VectorTest::every_score(VectorMeasure::L2) };
        let set = Test::Set { tokenizer: words, measure: SetMeasure::JACCARD, bounds: Bounds::at_least(0.5, true) };
        let edit = Test::Edit { measure: EditMeasure::Levenshtein, bounds: Bounds::at_most(1.0, true) };
        let (never, cancelled) = (Cancel::default(), Cancel::default());
        cancelled.cancel();
        for engine in [Engine::Cpu, Engine::Cuda(Budget::new(&device(), 0.5))] {
            for (test, values) in [(set, &texts), (edit, &texts), (Test::Vector(near), &points)] {
                let keys = KeyColumn { values: Arc::clone(values), groups: None };
                let context = BuildContext::new(2, &never, &|_| Ok(()));
                let (index, _) = engine.build(test, keys.clone(), &context).unwrap();
                assert!(index.prepare(&keys, &PrepareContext { threads: 2, cancel: &never }).is_ok());
                let error = index.prepare(&keys, &PrepareContext { threads: 2, cancel: &cancelled }).err();
                assert!(error.is_some_and(|error| error.to_string().contains("cancelled")), "{test} {engine:?}");
            }
        }
    }
}
