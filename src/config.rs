//! The options under `similarity.*`: `SET`, `SHOW` and `information_schema.df_settings` know them.

use std::any::Any;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigField, ExtensionOptions, Visit};
use datafusion::common::{DataFusionError, Result, config_err, config_namespace};
use datafusion::config::ConfigOptions;
use similarity_engine::accelerator::DeviceLimits;
use similarity_engine::choice::{Asked, EngineSpec};
use similarity_engine::devices::DeviceSet;
use similarity_engine::overrides::Overrides;

config_namespace! {
    /// What a session may set for similarity joins.
    pub struct SimilarityOptions {
        /// Whether joins with similarity conditions are accelerated. When false every join is left to stock DataFusion
        /// and SIMILARITY JOIN runs as the plain join: the same rows, slowly.
        pub enabled: bool, default = true

        /// Which engine runs similarity joins: cpu, cuda (an error where there is no usable device) or auto.
        pub engine: EngineChoice, default = EngineChoice::Auto

        /// Which CUDA devices: an ordinal, a list of them such as '0,2', or all. They work on one join together.
        pub device: DeviceChoice, default = DeviceChoice::default()

        /// How much of each device's memory all joins of this process together may use, above 0 and up to 1.
        pub device_memory_fraction: f64, default = 0.8

        /// After how many seconds a device that does not answer is given up: the process then goes on without it. 0 is
        /// never.
        pub device_timeout: u64, default = 60

        /// How many clauses a join condition may have, written as an OR of ANDs; one with more is left to stock
        /// DataFusion.
        pub max_clauses: usize, default = 256

        /// How many candidate pairs one join may produce before the query fails: a number, or unlimited.
        pub max_candidates: Option<usize>, default = None

        /// How many pairs a nested loop may compare whose pairs are links for clusters or one-to-one matches: a number,
        /// or unlimited. A join in a query of its own has no such limit.
        pub max_nested_loop_pairs: Option<usize>, default = Some(100_000_000_000)

        /// Re-check of accelerated output against the plain join condition while a query runs. off: none. sample: one
        /// output batch in sixteen. full: every output batch. complete: every output batch, and for a few rows of each
        /// probe batch a nested loop looks for pairs that were lost (not for NEAREST). A difference fails the query.
        pub verify: Verify, default = Verify::Off

        /// Whether output partitions of a plan may run in processes of their own, as on a cluster. Joins of many rows
        /// are then divided among these. A self-join of few rows looks for each pair twice, and outer joins that emit
        /// rows of the indexed side have one partition.
        pub independent_partitions: bool, default = false

        /// What is forced in place of what the data would decide, to find out which part of a join is wrong. SHOW does
        /// not list it.
        pub overrides: ForcedChoices, default = ForcedChoices::default()
    }
}

/// The engine that a session asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The planner decides.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// How much of the accelerated output is checked against the plain condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Output is not checked.
    #[default]
    Off,
    /// One output batch in sixteen.
    Sample,
    /// Every output batch.
    Full,
    /// Every output batch, and lost pairs of a sample of rows.
    Complete,
}

/// The devices that a session asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceChoice(DeviceSet);

impl Default for DeviceChoice {
    fn default() -> Self {
        Self(DeviceSet::FIRST)
    }
}

impl ConfigField for DeviceChoice {
    fn visit<V: Visit>(&self, v: &mut V, key: &str, description: &'static str) {
        v.some(key, self.0, description);
    }

    fn set(&mut self, _key: &str, value: &str) -> Result<()> {
        match value.parse() {
            Ok(devices) => self.0 = devices,
            Err(error) => return config_err!("similarity.device: {error}, or DEFAULT"),
        }
        Ok(())
    }
}

impl Verify {
    /// Whether the condition is evaluated once more for the pairs of a step, which are counted from 1.
    pub(crate) fn asks(self, step: usize) -> bool {
        match self {
            Self::Off => false,
            Self::Sample => step % 16 == 1,
            Self::Full | Self::Complete => true,
        }
    }
}

/// Choices that are forced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForcedChoices(Overrides);

impl ConfigField for ForcedChoices {
    // nobody needs it who does not look for a fault in this project
    fn visit<V: Visit>(&self, _v: &mut V, _key: &str, _description: &'static str) {}

    fn set(&mut self, _key: &str, value: &str) -> Result<()> {
        match value.parse() {
            Ok(overrides) => self.0 = overrides,
            Err(error) => return config_err!("similarity.overrides: {error}"),
        }
        Ok(())
    }
}

/// An option that takes one of a few words.
macro_rules! worded_option {
    ($type:ty, $option:literal, $($word:literal => $value:expr),+) => {
        impl FromStr for $type {
            type Err = DataFusionError;

            fn from_str(word: &str) -> Result<Self> {
                match word.trim().to_ascii_lowercase().as_str() {
                    $($word => Ok($value),)+
                    _ => config_err!("similarity.{} takes one of: {}, or DEFAULT", $option, [$($word),+].join(", ")),
                }
            }
        }

        impl Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(if *self == $value { return f.write_str($word); })+
                Ok(())
            }
        }

        impl ConfigField for $type {
            fn visit<V: Visit>(&self, v: &mut V, key: &str, description: &'static str) {
                v.some(key, self, description);
            }

            fn set(&mut self, _key: &str, value: &str) -> Result<()> {
                *self = value.parse()?;
                Ok(())
            }
        }
    };
}

worded_option!(EngineChoice, "engine", "auto" => Self::Auto, "cpu" => Self::Cpu, "cuda" => Self::Cuda);
worded_option!(Verify, "verify", "off" => Self::Off, "sample" => Self::Sample, "full" => Self::Full, "complete" => Self::Complete);

impl SimilarityOptions {
    /// The options of a session, or the defaults where the extension is not registered there.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The engine that plans carry.
    ///
    /// # Errors
    /// A share of a device's memory that is out of range.
    pub(crate) fn engine_spec(&self) -> Result<EngineSpec> {
        if !(self.device_memory_fraction > 0.0 && self.device_memory_fraction <= 1.0) {
            return config_err!("similarity.device_memory_fraction takes a number above 0 and up to 1");
        }
        let asked = match self.engine {
            EngineChoice::Auto => Asked::Auto,
            EngineChoice::Cpu => Asked::Cpu,
            EngineChoice::Cuda => Asked::Cuda,
        };
        Ok(EngineSpec {
            asked,
            devices: self.device.0,
            limits: DeviceLimits { memory_fraction: self.device_memory_fraction, timeout: self.device_timeout },
            overrides: self.overrides.0,
        })
    }
}

impl ConfigExtension for SimilarityOptions {
    const PREFIX: &'static str = "similarity";
}

// Written by hand because `extensions_options!` lists entries without their prefix, so that SHOW and
// information_schema would not find them.
impl ExtensionOptions for SimilarityOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match Value::of(key, value)? {
            Value::Default => ConfigField::reset(self, key),
            Value::Unlimited => {
                let limit =
                    if key == "max_candidates" { &mut self.max_candidates } else { &mut self.max_nested_loop_pairs };
                *limit = None;
                Ok(())
            }
            Value::Text => ConfigField::set(self, key, value.trim()),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Entries(Vec::new());
        self.visit(&mut entries, Self::PREFIX, "");
        entries.0
    }
}

/// What a text says that an option is set to.
enum Value {
    /// What the option was at first: `DEFAULT`, which RESET stands for too.
    Default,
    /// No limit.
    Unlimited,
    /// A value in the range of its option.
    Text,
}

impl Value {
    fn of(key: &str, text: &str) -> Result<Self> {
        let text = text.trim();
        let number = |range: RangeInclusive<usize>| text.parse().is_ok_and(|number| range.contains(&number));
        let (in_range, expected) = match key {
            _ if text.eq_ignore_ascii_case("default") => return Ok(Self::Default),
            "max_candidates" | "max_nested_loop_pairs" if text.eq_ignore_ascii_case("unlimited") => {
                return Ok(Self::Unlimited);
            }
            "max_candidates" | "max_nested_loop_pairs" => {
                (number(1..=usize::MAX), "a whole number from 1 on, or 'unlimited'")
            }
            "max_clauses" => (number(1..=usize::MAX), "a whole number from 1 on"),
            "device_memory_fraction" => {
                (text.parse().is_ok_and(|part: f64| part > 0.0 && part <= 1.0), "a number above 0 and up to 1")
            }
            "device_timeout" => (number(0..=usize::MAX), "a whole number of seconds, 0 for no end"),
            "enabled" => (matches!(text.to_lowercase().as_str(), "true" | "false"), "true or false"),
            // words say for themselves which there are, and so do unknown options
            _ => (true, ""),
        };
        match in_range {
            true => Ok(Self::Text),
            false => config_err!("similarity.{key} takes {expected}, or DEFAULT"),
        }
    }
}

struct Entries(Vec<ConfigEntry>);

impl Visit for Entries {
    fn some<V: Display>(&mut self, key: &str, value: V, description: &'static str) {
        self.0.push(ConfigEntry { key: key.into(), value: Some(value.to_string()), description });
    }

    fn none(&mut self, key: &str, description: &'static str) {
        // the only options without a value are limits, and the word can be set again
        self.0.push(ConfigEntry { key: key.into(), value: Some("unlimited".into()), description });
    }
}
