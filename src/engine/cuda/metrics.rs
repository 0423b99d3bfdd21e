//! What a join has done on its device, for EXPLAIN ANALYZE.

use std::time::Duration;

use datafusion::physical_plan::metrics::{Count, MetricValue, Time};

/// Counters that all parts of a join share.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceMetrics {
    /// Bytes copied to the device.
    uploaded: Count,
    /// Bytes copied from it.
    downloaded: Count,
    /// Time from keys ready on the host to an index or a probe batch ready on the device.
    pub(super) arrange_time: Time,
    /// Time that the kernels of comparisons took, as the device measured it.
    kernel_time: Time,
    /// Tasks that were launched, those that were launched again included.
    tasks: Count,
    /// Postings of tokens that were looked at.
    postings: Count,
    /// Pairs that the filter let pass.
    survivors: Count,
    /// Launches that yielded more than the buffers hold, so that they were done again in pieces.
    retries: Count,
}

impl DeviceMetrics {
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
        vec![
            count("device_bytes_in", &self.uploaded),
            count("device_bytes_out", &self.downloaded),
            MetricValue::Time { name: "arrange_time".into(), time: self.arrange_time.clone() },
            MetricValue::Time { name: "kernel_time".into(), time: self.kernel_time.clone() },
            count("device_tasks", &self.tasks),
            count("device_postings", &self.postings),
            count("filter_survivors", &self.survivors),
            count("device_retries", &self.retries),
        ]
    }
}
