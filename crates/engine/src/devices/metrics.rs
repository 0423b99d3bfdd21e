//! Metrics of a join on its devices: all of them together, and each of several.

use crate::metrics::{Count, MetricValue};

/// The metric that says how many devices have failed.
pub(crate) const DEVICE_FAILURES: &str = "device_failures";

/// Metrics that are shown for each of several devices, too.
const OF_EACH: [&str; 2] = ["device_tasks", "kernel_time"];

/// Metrics of a join on its devices.
#[derive(Debug, Clone)]
pub(crate) struct OfDevices(Vec<MetricValue>);

impl OfDevices {
    /// Metrics of each device, by its [label](crate::accelerator::Accelerator::label).
    pub(super) fn new(devices: Vec<(String, Vec<MetricValue>)>) -> Self {
        let several = devices.len() > 1;
        let of_each = |label: &str, value: &MetricValue| {
            let is_shown = several && OF_EACH.contains(&value.name());
            is_shown.then(|| value.named(format!("{}_{}", value.name(), label.replace(':', ""))))
        };
        let mut values = Vec::new();
        for (label, of_device) in devices {
            values.extend(of_device.iter().filter_map(|value| of_each(&label, value)));
            // values of one name are added up where they are shown
            values.extend(of_device);
        }
        Self(values)
    }

    /// All of them, given how many devices have failed.
    pub(super) fn values(&self, failures: &Count) -> Vec<MetricValue> {
        let failures = MetricValue::Count { name: DEVICE_FAILURES.into(), count: failures.clone() };
        self.0.iter().cloned().chain([failures]).collect()
    }
}

/// Access path of an index on so many devices, as EXPLAIN ANALYZE shows it.
pub(super) fn on_devices(path: &str, devices: usize) -> String {
    if devices == 1 { path.into() } else { format!("{path} on {devices} devices") }
}
