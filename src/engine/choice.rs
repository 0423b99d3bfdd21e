//! Which engine runs a join.

use datafusion::common::{Result, config_datafusion_err, config_err};

use super::cuda::{self, Budget, Device};
use super::fallback::WithFallback;
use super::{BuildContext, Index, KeyColumn, cpu};
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

/// Pairs of rows from which on a device is worth the copies and launches.
const PAIRS_WORTH_A_DEVICE: u64 = 1 << 32;

/// Pairs of rows from which on it is worth being opened, too: the better part of a second, once a process.
const PAIRS_WORTH_OPENING: u64 = 1 << 36;

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
    pub fn build(&self, test: Test, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
        if cuda::serves(test)
            && let Some(budget) = self.budget(test, keys, context)
            && let Some(index) = cuda::build(&budget, test, keys, context)?
        {
            return Ok(match context.own {
                // it has all the memory that it needs
                true => index,
                false => Box::new(WithFallback::new(index, test, keys.clone())),
            });
        }
        cpu::build(test, keys, context)
    }

    /// The device, where one is to be used.
    fn budget(&self, test: Test, keys: &KeyColumn, context: &BuildContext<'_>) -> Option<Budget> {
        match self {
            Self::Cpu => None,
            Self::Cuda(budget) => Some(budget.clone()),
            Self::Auto { .. } if !cuda::pays(test) => None,
            Self::Auto { ordinal, fraction } => {
                let is_open = Device::is_open(*ordinal);
                let enough = if is_open { PAIRS_WORTH_A_DEVICE } else { PAIRS_WORTH_OPENING };
                // a driver without a usable device is as good as none
                let device = (pairs(keys, context) >= enough).then(|| Device::open(*ordinal).ok())??;
                Some(Budget::new(&device, *fraction))
            }
        }
    }

    /// Which engine runs a condition, for EXPLAIN.
    pub fn explain(&self, test: Test) -> String {
        match self {
            Self::Cuda(_) if !cuda::serves(test) => "cpu (no kernels for this condition)".into(),
            Self::Cuda(budget) => budget.device().to_string(),
            Self::Auto { ordinal, .. } if cuda::pays(test) => {
                format!("cpu, or cuda:{ordinal} from {PAIRS_WORTH_A_DEVICE} pairs of rows on")
            }
            Self::Auto { .. } | Self::Cpu => "cpu".into(),
        }
    }
}

/// All pairs of the two sides.
fn pairs(keys: &KeyColumn, context: &BuildContext<'_>) -> u64 {
    let build = keys.values.len() as u64;
    match context.own {
        true => build.saturating_mul(build) / 2,
        false => build.saturating_mul(context.probe_rows.map_or(build, |rows| rows as u64)),
    }
}
