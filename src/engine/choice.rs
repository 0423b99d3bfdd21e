//! Which engine runs a join.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, config_datafusion_err, config_err};

use super::cuda::{self, Budget, Device, PaysFrom};
use super::fallback::{LongStrings, NearestWithFallback, WithFallback, WithLongStrings};
use super::nearest::{NearestIndex, Wanted};
use super::{BuildContext, Index, KeyColumn, NO_GROUP, cpu};
use crate::config::{EngineChoice, SimilarityOptions};
use crate::predicate::Test;

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

/// Candidates of a join of rules from which on a device is worth the copies and launches, and being opened, too.
const CANDIDATES_WORTH_A_DEVICE: u64 = 1 << 24;
const CANDIDATES_WORTH_OPENING: u64 = 1 << 30;

/// Rows of both sides from which on a device that is open is faster than sixteen cores at numbering the keys of rules and walking
/// them, however few candidates there are.
const ROWS_WORTH_A_DEVICE: usize = 1 << 16;

impl Engine {
    /// What a session asks for.
    ///
    /// # Errors
    /// The CUDA engine where its device cannot be used, a share of its memory that is none.
    pub fn of(options: &SimilarityOptions) -> Result<Self> {
        let SimilarityOptions { engine, device: ordinal, device_memory_fraction: fraction, .. } = *options;
        if !(fraction > 0.0 && fraction <= 1.0) {
            return config_err!("similarity.device_memory_fraction takes a number above 0 and up to 1");
        }
        match engine {
            EngineChoice::Cpu => Ok(Self::Cpu),
            EngineChoice::Cuda => match Device::open(ordinal) {
                Ok(device) => Ok(Self::Cuda(Budget::new(&device, fraction))),
                Err(reason) => Err(config_datafusion_err!(
                    "similarity.engine = 'cuda' with similarity.device = {ordinal}: {reason}; set similarity.engine to 'cpu' or 'auto'"
                )),
            },
            EngineChoice::Auto if Device::has_driver() => Ok(Self::Auto { ordinal, fraction }),
            EngineChoice::Auto => Ok(Self::Cpu),
        }
    }

    /// Makes the keys of a build side ready for `test`.
    ///
    /// # Errors
    /// Keys that `test` is not about, a refused reservation, a cancelled build, a device that fails.
    pub fn build(&self, test: Test, keys: KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
        let budget = cuda::pays_from(test).and_then(|pays| self.budget(pays, &keys, context));
        let Some(budget) = budget else { return cpu::build(test, &keys, context) };
        if let Some(index) = cuda::build(&budget, test, &keys, context)? {
            return Ok(Box::new(WithFallback::new(index, test, keys, context.threads)));
        }
        if let Some(long) = LongStrings::of(test, &keys)?
            && let Some(index) = cuda::build(&budget, test, long.others(), context)?
        {
            let index = WithFallback::new(index, test, long.others().clone(), context.threads);
            return Ok(Box::new(WithLongStrings::try_new(long, Box::new(index), context)?));
        }
        cpu::build(test, &keys, context)
    }

    /// Makes the keys of a build side, each row with a rank, ready for being ranked by the score of `test`, whose bounds are of
    /// no account.
    ///
    /// # Errors
    /// Keys that have no such score, a refused reservation, a cancelled build, a device that fails.
    pub fn build_nearest(
        &self,
        test: Test,
        keys: &KeyColumn,
        (ranks, wanted): (Vec<u32>, Wanted),
        context: &BuildContext<'_>,
    ) -> Result<Box<dyn NearestIndex>> {
        let is_flat = dimension(&keys.values) <= cuda::FEW_DIMENSIONS as usize;
        let pays_from = cuda::ranking_pays_from(test, wanted).map(|pays| if is_flat { PaysFrom::NEVER } else { pays });
        if let Some(pays_from) = pays_from
            && let Some(budget) = self.budget(pays_from, keys, context)
            && let Some(index) = cuda::build_nearest(&budget, test, keys, (&ranks, wanted), context)?
        {
            return Ok(Box::new(NearestWithFallback::new(
                index,
                (test, keys.clone(), ranks),
                (context.own, context.threads),
            )));
        }
        cpu::build_nearest(test, keys, ranks, context)
    }

    /// The device, where one is to be used for what pays from so many pairs on.
    fn budget(
        &self,
        PaysFrom { open, closed }: PaysFrom,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Option<Budget> {
        match self {
            Self::Cpu => None,
            Self::Cuda(budget) => Some(budget.clone()),
            Self::Auto { ordinal, fraction } => {
                let enough = if Device::is_open(*ordinal) { open } else { closed };
                // a driver without a usable device is as good as none
                let device = (pairs(keys, context) >= enough).then(|| Device::open(*ordinal).ok())??;
                Some(Budget::new(&device, *fraction))
            }
        }
    }

    /// The device, where so many candidates of a join of rules are to be walked on one.
    pub(super) fn budget_of_rules(&self, candidates: u64) -> Option<Budget> {
        match self {
            Self::Cpu => None,
            Self::Cuda(budget) => Some(budget.clone()),
            Self::Auto { ordinal, fraction } => {
                let is_open = Device::is_open(*ordinal);
                let enough = if is_open { CANDIDATES_WORTH_A_DEVICE } else { CANDIDATES_WORTH_OPENING };
                let device = (candidates >= enough).then(|| Device::open(*ordinal).ok())??;
                Some(Budget::new(&device, *fraction))
            }
        }
    }

    /// The device for one join, where the keys of so many rows of a build side are to be numbered and grouped on one: the one that was
    /// sent columns, if one was.
    pub fn budget_of_keys(&self, rows: usize, context: &BuildContext<'_>) -> Option<Budget> {
        if let Some(device) = context.device {
            return Some(device.clone());
        }
        match self {
            Self::Cpu => None,
            Self::Cuda(budget) => Some(budget.of_join()),
            Self::Auto { ordinal, fraction } => {
                let probe_rows = if context.own { 0 } else { context.expected_probe_rows(rows) };
                let pays = rows.saturating_add(probe_rows) >= ROWS_WORTH_A_DEVICE && Device::is_open(*ordinal);
                let device = pays.then(|| Device::open(*ordinal).ok())??;
                Some(Budget::new(&device, *fraction))
            }
        }
    }

    /// Which engine runs a join of rules, for EXPLAIN.
    pub fn explain_rules(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            Self::Cuda(budget) => format!("{}, cpu for what it has no kernels for", budget.device()),
            Self::Auto { ordinal, .. } => {
                format!(
                    "cpu, or cuda:{ordinal} from {CANDIDATES_WORTH_OPENING} candidates on, {CANDIDATES_WORTH_A_DEVICE} or {ROWS_WORTH_A_DEVICE} rows once it is open"
                )
            }
        }
    }

    /// Which engine runs a condition, for EXPLAIN.
    pub fn explain(&self, test: Test) -> String {
        self.explain_where(cuda::pays_from(test), "condition")
    }

    /// Which engine ranks so many rows by the score of `test`, for EXPLAIN.
    pub fn explain_ranking(&self, test: Test, wanted: Wanted) -> String {
        let pays_from = cuda::ranking_pays_from(test, wanted);
        let engine = self.explain_where(pays_from, "ranking");
        match (self, pays_from) {
            (Self::Auto { .. }, Some(_)) => format!("{engine}; cpu in up to {} dimensions", cuda::FEW_DIMENSIONS),
            _ => engine,
        }
    }

    fn explain_where(&self, pays_from: Option<PaysFrom>, what: &str) -> String {
        match (self, pays_from) {
            (Self::Cuda(_) | Self::Auto { .. }, None) => format!("cpu (no kernels for this {what})"),
            (Self::Cuda(budget), Some(_)) => budget.device().to_string(),
            (Self::Auto { ordinal, .. }, Some(PaysFrom { open, closed })) => {
                format!("cpu, or cuda:{ordinal} from {closed} pairs of rows on, {open} once it is open")
            }
            (Self::Cpu, _) => "cpu".into(),
        }
    }
}

/// The elements of the first of some lists, 0 where there is none.
fn dimension(lists: &ArrayRef) -> usize {
    let first = (0..lists.len()).find(|&row| !lists.is_null(row)).unwrap_or(0);
    match lists.data_type() {
        DataType::FixedSizeList(_, length) => *length as usize,
        DataType::List(_) if !lists.is_empty() => lists.as_list::<i32>().value_length(first) as usize,
        DataType::LargeList(_) if !lists.is_empty() => lists.as_list::<i64>().value_length(first) as usize,
        _ => 0,
    }
}

/// The pairs of the two sides that groups leave, those of a probe side taken to be as those of the build side.
fn pairs(keys: &KeyColumn, context: &BuildContext<'_>) -> u64 {
    let build = keys.values.len();
    let own = match &keys.groups {
        None => (build as u128).pow(2),
        Some(groups) => {
            let mut rows = vec![0u64; groups.iter().filter(|&&g| g != NO_GROUP).max().map_or(0, |&g| g as usize + 1)];
            groups.iter().filter(|&&group| group != NO_GROUP).for_each(|&group| rows[group as usize] += 1);
            rows.iter().map(|&rows| u128::from(rows) * u128::from(rows)).sum()
        }
    };
    let pairs = match context.own {
        true => own / 2,
        false => own * context.expected_probe_rows(build).max(1) as u128 / build.max(1) as u128,
    };
    pairs.min(u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ListArray, StringArray};
    use datafusion::arrow::datatypes::Float64Type;

    use super::*;
    use crate::engine::cuda::test_device::device;
    use crate::engine::{Cancel, PrepareContext};
    use crate::measure::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};
    use crate::predicate::{Bounds, VectorTest};

    #[test]
    fn keys_of_rules_go_to_an_open_device_from_so_many_rows_on() {
        let _open = device();
        let (auto, half) = (Engine::Auto { ordinal: 0, fraction: 0.5 }, ROWS_WORTH_A_DEVICE / 2);
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
    fn batches_are_made_ready_until_they_are_cancelled() {
        let words = Tokenizer::Words;
        let texts: ArrayRef = Arc::new((0..2000).map(|row| Some(format!("a name {row}"))).collect::<StringArray>());
        let point = |row: i32| Some((0..20).map(|at| Some(f64::from(row * at % 97))).collect::<Vec<_>>());
        let points: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>((0..2000).map(point).collect::<Vec<_>>()));
        let near = VectorTest { bounds: Bounds::at_most(5.0, true), ..VectorTest::every_score(VectorMeasure::L2) };
        let set = Test::Set { tokenizer: words, measure: SetMeasure::Jaccard, bounds: Bounds::at_least(0.5, true) };
        let edit = Test::Edit { measure: EditMeasure::Levenshtein, bounds: Bounds::at_most(1.0, true) };
        let (never, cancelled) = (Cancel::default(), Cancel::default());
        cancelled.cancel();
        for engine in [Engine::Cpu, Engine::Cuda(Budget::new(&device(), 0.5))] {
            for (test, values) in [(set, &texts), (edit, &texts), (Test::Vector(near), &points)] {
                let keys = KeyColumn { values: Arc::clone(values), groups: None };
                let context = BuildContext::new(2, &never, &|_| Ok(()));
                let index = engine.build(test, keys.clone(), &context).unwrap();
                assert!(index.prepare(&keys, &PrepareContext { threads: 2, cancel: &never }).is_ok());
                let error = index.prepare(&keys, &PrepareContext { threads: 2, cancel: &cancelled }).err();
                assert!(error.is_some_and(|error| error.to_string().contains("cancelled")), "{test} {engine:?}");
            }
        }
    }
}
