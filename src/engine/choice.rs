//! Which engine runs a join.

use datafusion::common::{Result, config_datafusion_err, config_err};

use super::cuda::{self, Budget, Device};
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
    /// A device, where it has kernels and there is work enough.
    Auto(Budget),
}

/// Pairs of rows from which on a device is worth its start.
const PAIRS_WORTH_A_DEVICE: u64 = 1 << 32;

impl Engine {
    /// What a session asks for.
    ///
    /// # Errors
    /// The CUDA engine where its device cannot be used, a share of its memory that is none.
    pub fn of(options: &SimilarityOptions) -> Result<Self> {
        let fraction = options.device_memory_fraction;
        if !(fraction > 0.0 && fraction <= 1.0) {
            return config_err!("similarity.device_memory_fraction takes a number above 0 and up to 1");
        }
        let ordinal = options.device;
        let open = || Device::open(ordinal).map(|device| Budget::new(&device, fraction));
        match options.engine {
            EngineChoice::Cpu => Ok(Self::Cpu),
            EngineChoice::Cuda => open().map(Self::Cuda).map_err(|reason| {
                config_datafusion_err!(
                    "similarity.engine = 'cuda' with similarity.device = {ordinal}: {reason}; set similarity.engine to 'cpu' or 'auto'"
                )
            }),
            EngineChoice::Auto => Ok(open().map_or(Self::Cpu, Self::Auto)),
        }
    }

    /// Makes the keys of a build side ready for `test`.
    ///
    /// # Errors
    /// Keys that `test` is not about, a refused reservation, a cancelled build, a device that fails.
    pub fn build(&self, test: Test, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
        let on_device = match self {
            Self::Cpu => None,
            Self::Cuda(budget) => Some(budget),
            Self::Auto(budget) => Some(budget).filter(|_| is_worth_a_device(keys, context)),
        };
        if let Some(budget) = on_device.filter(|_| cuda::serves(test))
            && let Some(index) = cuda::build(budget, test, keys, context)?
        {
            return Ok(index);
        }
        cpu::build(test, keys, context)
    }

    /// Which engine runs a condition, for EXPLAIN.
    pub fn explain(&self, test: Test) -> String {
        match self {
            Self::Cuda(_) if !cuda::serves(test) => "cpu (no kernels for this condition)".into(),
            Self::Auto(_) if !cuda::serves(test) => "cpu".into(),
            Self::Cpu => "cpu".into(),
            Self::Cuda(budget) => budget.device().to_string(),
            Self::Auto(budget) => format!("{} or cpu (by the rows on both sides)", budget.device()),
        }
    }
}

/// Whether all pairs of both sides are many.
fn is_worth_a_device(keys: &KeyColumn, context: &BuildContext<'_>) -> bool {
    let build = keys.values.len() as u64;
    let probe = context.probe_rows.filter(|_| !context.own).map_or(build, |rows| rows as u64);
    let pairs = build.saturating_mul(probe) / if context.own { 2 } else { 1 };
    pairs >= PAIRS_WORTH_A_DEVICE
}
