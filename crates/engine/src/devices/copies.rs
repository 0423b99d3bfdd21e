//! Copies of what one device has built, on the others.

use std::sync::Arc;

use super::metrics::OfDevices;
use crate::accelerator::Accelerator;
use crate::error::Result;
use crate::metrics::MetricValue;
use crate::offered::Offered;
use crate::parallel::each_in_parallel;

/// Replicas of what was built, and has counted something, on one device; the copies are on the `others`. A device is
/// left out that fails or has no memory for its copy.
pub(super) fn copy_to<T: Send + Sync>(
    others: Vec<Arc<dyn Accelerator>>,
    (device, built, counted): (&dyn Accelerator, T, Vec<MetricValue>),
    copy: impl Fn(&T, &dyn Accelerator) -> Result<Offered<T>> + Sync,
) -> Result<(Vec<T>, OfDevices)> {
    let copies = each_in_parallel(others.into_iter(), |other| {
        let copied = copy(&built, other.as_ref());
        (other, copied)
    });
    let (mut all, mut metrics) = (vec![built], vec![(device.label(), counted)]);
    for (other, copied) in copies {
        match copied {
            Err(error) if error.is_of_device() => {}
            copied => {
                if let Some(copied) = copied?.taken() {
                    metrics.push((other.label(), other.metrics()));
                    all.push(copied);
                }
            }
        }
    }
    Ok((all, OfDevices::new(metrics)))
}
