//! What a join has done on its device, for EXPLAIN ANALYZE.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context::DeviceContext;
use similarity_engine::metrics::{Count, MetricValue, Time};

/// Counters that all parts of a join share.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceMetrics {
    /// Bytes copied to the device.
    uploaded: Count,
    /// Bytes copied from it.
    downloaded: Count,
    /// Bytes copied from other devices.
    copied: Count,
    /// Time that copies from other devices took.
    pub(super) copy_time: Time,
    /// Time from keys ready on the host to an index or a probe batch ready on the device.
    pub(super) arrange_time: Time,
    /// Time from the keys of the build side in the host's memory (tokens with their ranks) to the last decided pair
    /// there so far.
    join: Arc<Mutex<Option<Span>>>,
    /// Time that the kernels of comparisons took, as the device measured it.
    kernel_time: Time,
    /// Tasks that were launched, those that were launched again included.
    tasks: Count,
    /// Postings of tokens that were looked at.
    postings: Count,
    /// Pairs that the filter let pass.
    survivors: Count,
    /// Kernel files that the device's driver was given as PTX, in the whole process.
    files_from_ptx: Count,
    /// Launches that yielded more than the buffers hold, so that they were done again in pieces.
    retries: Count,
}

#[derive(Debug)]
struct Span {
    start: Instant,
    /// Length of the span, which is added to as it grows.
    length: Time,
    so_far: Duration,
}

impl DeviceMetrics {
    /// Metrics of a join on a device.
    pub(super) fn new(device: &DeviceContext) -> Self {
        Self { files_from_ptx: device.files_from_ptx().clone(), ..Self::default() }
    }

    /// Metrics on a device that goes on with a join which another one has begun: its time counts from there.
    pub(super) fn begun_by(self, other: &Self) -> Self {
        Self { join: Arc::clone(&other.join), ..self }
    }

    fn join(&self) -> MutexGuard<'_, Option<Span>> {
        self.join.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of a build side are in the host's memory.
    pub(super) fn keys_are_ready(&self) {
        *self.join() = Some(Span { start: Instant::now(), length: Time::new(), so_far: Duration::ZERO });
    }

    /// Some pairs are in the host's memory.
    pub(super) fn pairs_are_ready(&self) {
        if let Some(span) = self.join().as_mut() {
            let now = span.start.elapsed();
            span.length.add_duration(now - span.so_far);
            span.so_far = now;
        }
    }

    pub(super) fn upload<T>(&self, values: &[T]) {
        self.uploaded.add(size_of_val(values));
    }

    /// Bytes copied to the device so far.
    pub(super) fn uploaded(&self) -> usize {
        self.uploaded.value()
    }

    pub(super) fn download<T>(&self, count: usize) {
        self.downloaded.add(count * size_of::<T>());
    }

    pub(super) fn copy<T>(&self, count: usize) {
        self.copied.add(count * size_of::<T>());
    }

    /// A launch of so many tasks that took this long and found so many candidates.
    pub(super) fn launch(&self, tasks: usize, milliseconds: f32, candidates: usize) {
        self.tasks.add(tasks);
        self.kernel_time.add_duration(Duration::from_secs_f64(f64::from(milliseconds) / 1e3));
        self.survivors.add(candidates);
    }

    pub(super) fn see_postings(&self, postings: usize) {
        self.postings.add(postings);
    }

    pub(super) fn retry(&self) {
        self.retries.add(1);
    }

    /// All of them, to be shown under their names.
    pub(super) fn values(&self) -> Vec<MetricValue> {
        let count = |name: &'static str, count: &Count| MetricValue::Count { name: name.into(), count: count.clone() };
        let time = |name: &'static str, time: &Time| MetricValue::Time { name: name.into(), time: time.clone() };
        let mut values = vec![
            count("device_bytes_in", &self.uploaded),
            count("device_bytes_out", &self.downloaded),
            count("device_bytes_copied", &self.copied),
            time("copy_time", &self.copy_time),
            time("arrange_time", &self.arrange_time),
            time("kernel_time", &self.kernel_time),
            count("device_tasks", &self.tasks),
            count("device_postings", &self.postings),
            count("filter_survivors", &self.survivors),
            count("device_retries", &self.retries),
            count("kernel_files_from_ptx", &self.files_from_ptx),
        ];
        values.extend(self.join().as_ref().map(|span| time("device_join_time", &span.length)));
        values
    }
}
