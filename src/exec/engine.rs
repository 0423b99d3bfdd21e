//! Where DataFusion meets the engines: their errors and metrics, in DataFusion's own types.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::error::ArrowError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_plan::metrics::{self, CustomMetricValue};
use similarity_engine::Error;
use similarity_engine::accelerator::Platform;
use similarity_engine::choice::{Asked, Engine, EngineSpec};
use similarity_engine::error::DeviceFull;
use similarity_engine::metrics::{Count, MetricValue, Time};
use similarity_engine::parallel::each_in_turn;

/// The kind of device that this build knows.
pub(super) fn platform() -> Option<&'static dyn Platform> {
    #[cfg(feature = "cuda")]
    return Some(&similarity_cuda::Cuda);
    #[cfg(not(feature = "cuda"))]
    None
}

/// Opens the engine that a plan asks for.
///
/// # Errors
/// A device that was asked for and cannot be used.
pub(super) fn open(engine: EngineSpec) -> Result<Engine> {
    engine.open(platform()).or_datafusion()
}

/// Whether a plan may run on a device, as far as is known before one is opened.
pub(super) fn may_use_device(engine: EngineSpec) -> bool {
    engine.asked != Asked::Cpu && platform().is_some_and(Platform::has_driver)
}

/// Opens a device that a plan asks for while its rows are read. Whoever needs the device waits for it, and is told what
/// fails.
pub(super) fn open_ahead(engine: EngineSpec) -> Option<SpawnedTask<()>> {
    let open_device = move || drop(open(engine));
    (engine.asked == Asked::Cuda).then(|| SpawnedTask::spawn_blocking(open_device))
}

/// Results of engines that become DataFusion's.
pub(super) trait EngineResult<T> {
    /// This result, with an error that DataFusion understands.
    fn or_datafusion(self) -> Result<T>;
}

impl<T> EngineResult<T> for similarity_engine::Result<T> {
    fn or_datafusion(self) -> Result<T> {
        self.map_err(datafusion_error)
    }
}

/// An engine's error as DataFusion's, by who can mend it. What the engine's caller failed with comes back as it was.
pub(super) fn datafusion_error(error: Error) -> DataFusionError {
    match error {
        Error::Keys(_) | Error::Cancelled => DataFusionError::Execution(error.to_string()),
        Error::Setting(message) => DataFusionError::Configuration(message),
        Error::DeviceFull => DataFusionError::External(Box::new(DeviceFull)),
        Error::Device(message) => DataFusionError::External(message.into()),
        Error::Arrow(error) => error.into(),
        Error::Caller(error) => match error.downcast() {
            Ok(own) => *own,
            Err(other) => DataFusionError::External(other),
        },
        Error::Shared(error) => shared(error),
        Error::Internal(_) => DataFusionError::External(error.to_string().into()),
    }
}

/// An error that others hold, too, by the kind of its root.
fn shared(error: Arc<Error>) -> DataFusionError {
    let error = match Arc::try_unwrap(error) {
        Ok(error) => return datafusion_error(error),
        Err(held) => held,
    };
    match error.root() {
        Error::Keys(_) | Error::Cancelled => DataFusionError::Execution(error.to_string()),
        Error::DeviceFull => DataFusionError::External(Box::new(DeviceFull)),
        Error::Arrow(_) => ArrowError::ExternalError(Box::new(Held(error))).into(),
        Error::Caller(own) => match own.downcast_ref() {
            Some(DataFusionError::ResourcesExhausted(message)) => DataFusionError::ResourcesExhausted(message.clone()),
            _ => DataFusionError::External(Box::new(Held(error))),
        },
        _ => DataFusionError::External(Box::new(Held(error))),
    }
}

/// An error that others hold, too.
#[derive(Debug)]
struct Held(Arc<Error>);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Held {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Whether an error may come from a value that a plain join would not have evaluated.
pub(super) fn is_about_values(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ArrowError(..) | DataFusionError::Execution(_))
}

/// An error of DataFusion's on its way through an engine, which hands it back as it was.
pub(super) fn engine_error(error: DataFusionError) -> Error {
    Error::caller(error)
}

/// The results of `work` for `0..count`, in order, by up to `threads` threads; the error of the first item that failed.
pub(super) fn in_turn<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    each_in_turn(count, threads, work).into_iter().collect()
}

/// A metric of an engine as DataFusion shows it. It goes on counting.
pub(super) fn metric(value: MetricValue) -> metrics::MetricValue {
    metrics::MetricValue::Custom { name: value.name().to_owned().into(), value: Arc::new(EngineMetric(value)) }
}

/// A metric of an engine.
#[derive(Debug)]
struct EngineMetric(MetricValue);

impl fmt::Display for EngineMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            MetricValue::Count { count, .. } => {
                let shown = metrics::Count::new();
                shown.add(count.value());
                shown.fmt(f)
            }
            MetricValue::Time { time, .. } => {
                let shown = metrics::Time::new();
                shown.add_duration(Duration::from_nanos(time.value() as u64));
                shown.fmt(f)
            }
        }
    }
}

impl CustomMetricValue for EngineMetric {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self(match self.0 {
            MetricValue::Count { ref name, .. } => MetricValue::Count { name: name.clone(), count: Count::new() },
            MetricValue::Time { ref name, .. } => MetricValue::Time { name: name.clone(), time: Time::new() },
        }))
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        match &self.0 {
            MetricValue::Count { count, .. } => count.add(other.as_usize()),
            MetricValue::Time { time, .. } => time.add_duration(Duration::from_nanos(other.as_usize() as u64)),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.0.as_usize()
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().is::<Self>() && other.as_usize() == self.as_usize()
    }
}
