//! Which engine runs a join.

use std::sync::Arc;

use super::accelerator::{Accelerator, DeviceLimits, Platform};
use super::devices::{DeviceSet, Devices};
use super::fallback::{LongStrings, NearestWithCpuFallback, WithCpuFallback, WithLongStrings};
use super::nearest::{DynNearestIndex, Wanted};
use super::offered::{Declined, Offered};
use super::offload::{self, ROWS_OF_RULES};
use super::overrides::Overrides;
use super::ranking::Ranking;
use super::reason::Reason;
use super::repeated::{NearestRepeated, RankedRows, Repeated};
use super::work::{OffloadThreshold, WorkEstimate};
use super::{BuildContext, DynPairIndex, Erased, KeyColumn, cpu};
use crate::condition::Condition;
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
    /// Which devices.
    pub devices: DeviceSet,
    /// What joins may take of each.
    pub limits: DeviceLimits,
    /// What is forced in place of what the data would decide.
    pub overrides: Overrides,
}

impl EngineSpec {
    /// The CPU, whatever devices there are.
    pub const CPU: Self =
        Self { asked: Asked::Cpu, devices: DeviceSet::FIRST, limits: DeviceLimits::NONE, overrides: Overrides::NONE };

    /// Opens what was asked for.
    ///
    /// # Errors
    /// A device that was asked for and cannot be used.
    pub fn open(self, platform: Option<&'static dyn Platform>) -> Result<Engine> {
        let Self { asked, devices, limits, .. } = self;
        let no_platform = || Err("this build has no CUDA engine".into());
        match (asked, platform.filter(|platform| platform.has_driver())) {
            (Asked::Cpu, _) | (Asked::Auto, None) => Ok(Engine::Cpu),
            (Asked::Auto, Some(platform)) => Ok(Engine::Auto { platform, devices, limits }),
            (Asked::Cuda, _) => match platform.map_or_else(no_platform, |kind| Devices::open(kind, devices, limits)) {
                Ok(devices) => Ok(Engine::Devices(devices)),
                Err(reason) => Err(Error::Setting(format!(
                    "similarity.engine = 'cuda' with similarity.device = '{devices}': {reason}; set similarity.engine to 'cpu' or 'auto'"
                ))),
            },
        }
    }
}

/// An engine, or two to choose from.
#[derive(Debug, Clone)]
pub enum Engine {
    /// The CPU, for everything.
    Cpu,
    /// Devices, for every condition that they have kernels for.
    Devices(Devices),
    /// Devices where their kernels are faster and there is work enough, which are opened only then.
    Auto {
        /// The kind of device.
        platform: &'static dyn Platform,
        /// Which devices.
        devices: DeviceSet,
        /// What joins may take of each.
        limits: DeviceLimits,
    },
}

impl Engine {
    /// The kind of device that may be used.
    pub(super) fn platform(&self) -> Option<&'static dyn Platform> {
        match self {
            Self::Cpu => None,
            Self::Devices(devices) => Some(devices.platform()),
            Self::Auto { platform, .. } => Some(*platform),
        }
    }

    /// Makes the keys of a build side ready for `condition`, and says why on this engine.
    ///
    /// # Errors
    /// Keys that `condition` is not about, a refused reservation, a cancelled build, a device that fails.
    pub fn build(
        &self,
        condition: Condition,
        keys: KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<(Box<DynPairIndex>, Reason)> {
        if context.self_join && !condition.is_symmetric() {
            return internal_err!("{condition} is not symmetric: a self-join reads both of its sides");
        }
        let pays =
            self.platform().and_then(|kind| offload::of_condition(kind, condition, offload::dimension(&keys.values)));
        let (devices, reason) = match pays {
            Some(pays) => self.devices(pays, || offload::work_of_condition(condition, &keys, context))?,
            None => (None, Reason::default()),
        };
        let Some(devices) = devices else { return Ok((cpu::build(condition, keys, context)?, reason)) };
        let mut declined = match devices.build(condition, &keys, context)? {
            Offered::Taken(index) => {
                let index = WithCpuFallback::new(index, condition, keys, context.threads);
                return Ok((Box::new(Erased(index)), reason));
            }
            Offered::Declined(why) => why,
        };
        if let Some(long) = LongStrings::of(devices.one().as_ref(), condition, &keys)? {
            match devices.build(condition, long.others(), context)? {
                Offered::Taken(index) => {
                    let others = WithCpuFallback::new(index, condition, long.others().clone(), context.threads);
                    let index = WithLongStrings::try_new(long, Box::new(Erased(others)), context)?;
                    return Ok((Box::new(Erased(index)), reason));
                }
                Offered::Declined(why) => declined = why,
            }
        }
        let rows = keys.values.len();
        let index = cpu::build(condition, keys, context)?;
        let reason = reason.but(declined, rows, index.info().unmatchable);
        Ok((index, reason))
    }

    /// Makes the keys of a build side, each row with a rank, ready for `ranking`, and says why on this engine. Where
    /// conditions are counted, the keys are those of [`match_count::keys`](crate::match_count::keys).
    ///
    /// # Errors
    /// Keys that are not ranked so, a refused reservation, a cancelled build, a device that fails.
    pub fn build_nearest(
        &self,
        ranking: &Ranking,
        keys: &KeyColumn,
        ranks: Vec<u32>,
        wanted: Wanted,
        context: &BuildContext<'_>,
    ) -> Result<(Box<DynNearestIndex>, Reason)> {
        let repeated = match context.overrides.repeated {
            true => Repeated::of(keys, Some(&ranks), context.cancel, context.reserve)?,
            false => None,
        };
        let Some(repeated) = repeated else {
            let (index, reason) = self.build_ranking(ranking, keys, ranks, wanted, context)?;
            return Ok((Box::new(Erased(NearestRepeated::of_rows(index))), reason));
        };
        let keys = repeated.keys(keys)?;
        // a key that is missed may have any number of rows
        let exactly = BuildContext { recall: None, ..*context };
        let (index, reason) = self.build_ranking(ranking, &keys, repeated.ranks(&ranks), wanted, &exactly)?;
        let rows = RankedRows::new(repeated, ranks);
        Ok((Box::new(Erased(NearestRepeated::of_keys(index, rows, ranking, &keys, context)?)), reason))
    }

    /// The index of [`build_nearest`](Self::build_nearest) over all of `keys`.
    fn build_ranking(
        &self,
        ranking: &Ranking,
        keys: &KeyColumn,
        ranks: Vec<u32>,
        wanted: Wanted,
        context: &BuildContext<'_>,
    ) -> Result<(Box<DynNearestIndex>, Reason)> {
        let platform = self.platform();
        let flat = |kind: &dyn Platform| offload::dimension(&keys.values) <= kind.few_dimensions();
        let is_flat = matches!(ranking, Ranking::Score(Condition::Vector(_))) && platform.is_some_and(flat);
        let pays = platform.and_then(|kind| offload::of_ranking(kind, ranking, wanted));
        let (devices, reason) = match (pays, self) {
            (None, _) => (None, Reason::default()),
            (Some(_), Self::Auto { .. }) if is_flat => (None, Reason::default()),
            (Some(pays), _) => self.devices(pays, || offload::work_of_ranking(ranking, keys, context))?,
        };
        let Some(devices) = devices else {
            return Ok((cpu::build_approximate(ranking, keys, ranks, wanted, context)?, reason));
        };
        match devices.build_nearest(ranking, keys, &ranks, wanted, context)? {
            Offered::Taken(index) => {
                let index = NearestWithCpuFallback::new(index, ranking.clone(), keys.clone(), ranks, context);
                Ok((Box::new(Erased(index)), reason))
            }
            Offered::Declined(why) => {
                let index = cpu::build_approximate(ranking, keys, ranks, wanted, context)?;
                let reason = reason.but(why, keys.values.len(), index.info().unmatchable);
                Ok((index, reason))
            }
        }
    }

    /// The devices, where some are to be used: for work that is worth it. And what has decided that.
    pub(super) fn devices(
        &self,
        pays: OffloadThreshold,
        work: impl FnOnce() -> Result<u64>,
    ) -> Result<(Option<Devices>, Reason)> {
        match self {
            Self::Cpu => Ok((None, Reason::default())),
            Self::Devices(devices) => Ok((Some(devices.clone()), Reason::default())),
            Self::Auto { platform, devices, limits } => {
                let weighed = WorkEstimate::new(work()?, pays, Devices::are_open(*platform, *devices));
                let opened = weighed.is_enough().then(|| Devices::open(*platform, *devices, *limits));
                // a driver without a usable device is as good as none
                let (devices, declined) = match opened {
                    Some(Ok(devices)) => (Some(devices), None),
                    Some(Err(reason)) => (None, Some(Declined::Device(reason))),
                    None => (None, None),
                };
                Ok((devices, Reason { weighed: Some(weighed), declined }))
            }
        }
    }

    /// The engine for a build that a device has ended: under `auto` all devices that have not failed, whatever the
    /// work. Later it is those of them that have not failed meanwhile; the CPU where there is none, or where all work.
    pub(super) fn without_failed(&self) -> Self {
        let devices = match self {
            Self::Cpu => None,
            Self::Devices(devices) => devices.without_failed(),
            Self::Auto { platform, devices, limits } => Devices::open(*platform, *devices, *limits).ok(),
        };
        devices.map_or(Self::Cpu, Self::Devices)
    }

    /// The other devices, for a join of rules that `device` has begun.
    pub(super) fn devices_beside(&self, device: &dyn Accelerator) -> Vec<Arc<dyn Accelerator>> {
        match self {
            Self::Cpu => Vec::new(),
            Self::Devices(devices) => devices.beside(device),
            Self::Auto { platform, devices, limits } => {
                Devices::open(*platform, *devices, *limits).map_or_else(|_| Vec::new(), |open| open.beside(device))
            }
        }
    }

    /// The device for one join, where the keys of so many rows of a build side are to be numbered and grouped on one.
    pub fn device_of_keys(&self, rows: usize, context: &BuildContext<'_>) -> Option<Arc<dyn Accelerator>> {
        match self {
            Self::Cpu => None,
            Self::Devices(devices) => Some(devices.one().for_join()),
            Self::Auto { platform, devices, limits } => {
                let probe_rows = if context.self_join { 0 } else { context.expected_probe_rows(rows) };
                let pays = rows.saturating_add(probe_rows) >= ROWS_OF_RULES && Devices::are_open(*platform, *devices);
                let opened = pays.then(|| Devices::open(*platform, *devices, *limits).ok()).flatten();
                opened.map(|devices| devices.one().for_join())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use similarity_measures::{SetMeasure, Tokenizer};

    use super::*;
    use crate::Cancel;
    use crate::condition::Bounds;

    #[test]
    fn an_index_that_probes_itself_has_a_symmetric_measure() {
        let (never, bounds) = (Cancel::default(), Bounds::at_least(0.5, true));
        let keys = KeyColumn { values: Arc::new(StringArray::from(vec!["a b", "a"])), groups: None };
        for self_join in [true, false] {
            let context = BuildContext { self_join, ..BuildContext::new(1, &never, &|_| Ok(())) };
            for &measure in SetMeasure::ALL {
                let condition = Condition::Set { tokenizer: Tokenizer::Words, measure, bounds };
                let built = Engine::Cpu.build(condition, keys.clone(), &context);
                assert_eq!(built.is_ok(), !self_join || measure.descriptor().is_symmetric, "{condition}");
            }
        }
    }
}
