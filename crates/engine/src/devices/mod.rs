//! Several devices that work on one join.
//!
//! ```text
//! set      --> which devices a session asks for
//! copies   --> copies of what one device has built, on the others
//! shares   --> how much of a join a device takes at a time
//! replicas --> one thing on each device, and which device the next work goes to
//! index    --> an index on each device, whether it finds pairs or ranks rows
//! join     --> an index that finds pairs
//! nearest  --> an index that ranks rows
//! rules    --> columns and entries of rules
//! metrics  --> what the devices have done, together and each
//! ```
//!
//! The first device builds. Where there is work enough, its index is copied to the others, device to device, so that
//! all have the same rows at the same positions. From then on each stretch of a self-join, and each probe batch, goes
//! to the device with the least outstanding work. A device that fails is given no more; another one answers what it
//! has not. See decision 0092.

mod copies;
mod index;
mod join;
mod metrics;
mod nearest;
mod replicas;
mod rules;
mod set;
mod shares;

use std::sync::Arc;

use crate::accelerator::{Accelerator, DeviceLimits, Platform};
use crate::condition::Condition;
use crate::error::Result;
use crate::nearest::Wanted;
use crate::offered::{Declined, Offered};
use crate::offload;
use crate::parallel::each_in_parallel;
use crate::ranking::Ranking;
use crate::{BuildContext, KeyColumn};
use copies::copy_to;
use index::{Positioned, Replicated};
pub(crate) use join::{JoinBatch, ReplicatedJoin};
pub(crate) use metrics::DEVICE_FAILURES;
pub(crate) use nearest::{NearestBatch, ReplicatedNearest};
pub(crate) use rules::{EntryThere, ReplicatedRules, RulesBatch, WalkedRules};
pub use set::DeviceSet;

/// Open devices, one at least.
#[derive(Debug, Clone)]
pub struct Devices(Vec<Arc<dyn Accelerator>>);

/// Pairs of rows from which on several devices share a join: with fewer, copies of an index take longer than they save.
/// The amount is by design: a million rows gain, and fewer were not measured.
const PAIRS_OF_COPIES: u64 = 1 << 34;

impl Devices {
    /// Opens those of `asked` that have not failed in this process. All joins together may take of each what `limits`
    /// say.
    ///
    /// # Errors
    /// A listed device that cannot be used, or none that can; as a user reads it.
    pub(crate) fn open(
        platform: &'static dyn Platform,
        asked: DeviceSet,
        limits: DeviceLimits,
    ) -> Result<Self, String> {
        let ordinals: Vec<usize> = asked.ordinals(platform.devices()?).collect();
        let is_out = |ordinal| platform.has_failed(ordinal) || asked == DeviceSet::All && platform.was_refused(ordinal);
        let works: Vec<usize> = ordinals.iter().copied().filter(|&ordinal| !is_out(ordinal)).collect();
        // one that has failed says why
        let opened = if works.is_empty() { ordinals } else { works };
        let open = |ordinal: usize| (ordinal, platform.open(ordinal, limits));
        let opened: Vec<_> = match opened.iter().all(|&ordinal| platform.is_open(ordinal)) {
            true => opened.into_iter().map(open).collect(),
            // which takes a while
            false => each_in_parallel(opened.into_iter(), open),
        };
        let (mut devices, mut refused) = (Vec::new(), None);
        for (ordinal, device) in opened {
            match device {
                Ok(device) => devices.push(device),
                Err(reason) => drop(refused.get_or_insert(format!("device {ordinal}: {reason}"))),
            }
        }
        match (refused, asked) {
            (Some(reason), DeviceSet::Listed(_)) => Err(reason),
            (Some(reason), DeviceSet::All) if devices.is_empty() => Err(reason),
            _ if devices.is_empty() => Err("the NVIDIA driver finds no device".into()),
            _ => Ok(Self(devices)),
        }
    }

    /// Whether this process has opened all that are `asked` for and have not failed.
    pub(crate) fn are_open(platform: &dyn Platform, asked: DeviceSet) -> bool {
        let mut ordinals = asked.ordinals(platform.devices().unwrap_or(0));
        let is_out = |ordinal| platform.has_failed(ordinal) || platform.was_refused(ordinal);
        ordinals.clone().any(|ordinal| platform.is_open(ordinal))
            && ordinals.all(|ordinal| platform.is_open(ordinal) || is_out(ordinal))
    }

    /// The kind of the devices.
    pub fn platform(&self) -> &'static dyn Platform {
        self.one().platform()
    }

    /// The devices by how much of their memory joins hold, the least first: that is where a join is built.
    fn least_held(&self) -> Vec<&Arc<dyn Accelerator>> {
        let mut devices: Vec<_> = self.0.iter().collect();
        devices.sort_by_key(|device| device.held());
        devices
    }

    /// The device for what is done on one alone: one that has not failed, if there is one.
    pub(crate) fn one(&self) -> &Arc<dyn Accelerator> {
        let order = |device: &&Arc<dyn Accelerator>| (device.has_failed(), device.held());
        self.0.iter().min_by_key(order).unwrap_or_else(|| unreachable!("there is one at least"))
    }

    /// Devices that have not failed; `None` where all have, or none.
    pub(crate) fn without_failed(&self) -> Option<Self> {
        let works: Vec<_> = self.0.iter().filter(|device| !device.has_failed()).cloned().collect();
        (!works.is_empty() && works.len() < self.0.len()).then_some(Self(works))
    }

    /// The other devices, for a join that one has begun.
    pub(crate) fn beside(&self, device: &dyn Accelerator) -> Vec<Arc<dyn Accelerator>> {
        let label = device.label();
        self.0.iter().filter(|device| device.label() != label).map(|device| device.for_join()).collect()
    }

    /// Makes the keys of a build side ready for `condition`, as [`Accelerator::build`] does; on several devices where
    /// there is work enough. Declined where all devices fail.
    ///
    /// # Errors
    /// Errors of [`Accelerator::build`].
    pub(crate) fn build(
        &self,
        condition: Condition,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Offered<ReplicatedJoin>> {
        let on_first = self.on_first(|device| device.build(condition, keys, context))?;
        let shared = self.share(keys, context);
        self.replicated(on_first, shared, |index, to| index.replicate(to))
    }

    /// Makes the keys of a build side ready for `ranking`, as [`Accelerator::build_nearest`] does; on several devices
    /// where there is work enough. Declined where all devices fail.
    ///
    /// # Errors
    /// Errors of [`Accelerator::build_nearest`].
    pub(crate) fn build_nearest(
        &self,
        ranking: &Ranking,
        keys: &KeyColumn,
        ranks: &[u32],
        wanted: Wanted,
        context: &BuildContext<'_>,
    ) -> Result<Offered<ReplicatedNearest>> {
        let on_first = self.on_first(|device| device.build_nearest(ranking, keys, ranks, wanted, context))?;
        let shared = self.share(keys, context);
        self.replicated(on_first, shared, |index, to| index.replicate(to))
    }

    /// Index that one device has built, with its copies on all others where it is `shared`.
    fn replicated<I: Positioned + ?Sized>(
        &self,
        built: Offered<(&dyn Accelerator, Box<I>)>,
        shared: bool,
        copy: impl Fn(&I, &dyn Accelerator) -> Result<Offered<Box<I>>> + Sync,
    ) -> Result<Offered<Replicated<I>>> {
        or_declined(built.try_map(|(device, index)| {
            let others = if shared { self.beside(device) } else { Vec::new() };
            let counted = index.metrics();
            let (indexes, metrics) = copy_to(others, (device, index, counted), |index, to| copy(index, to))?;
            Replicated::try_new(indexes, metrics)
        }))
    }

    /// Builds on the first device that does not fail.
    fn on_first<T>(
        &self,
        build: impl Fn(&dyn Accelerator) -> Result<Offered<T>>,
    ) -> Result<Offered<(&dyn Accelerator, T)>> {
        let mut failed = None;
        for device in self.least_held() {
            match build(device.as_ref()) {
                Err(error) if error.is_of_device() && !error.is_device_full() => failed = Some(error),
                built => return Ok(built?.map(|built| (device.as_ref(), built))),
            }
        }
        let reason = failed.map_or_else(String::new, |error| error.to_string());
        Ok(Offered::Declined(Declined::Device(reason)))
    }

    /// Whether several devices share a join of these keys.
    fn share(&self, keys: &KeyColumn, context: &BuildContext<'_>) -> bool {
        self.0.len() > 1 && (context.overrides.little_work || offload::pairs(keys, context) >= PAIRS_OF_COPIES)
    }
}

/// Result of a build, which is left to the CPU where no device works any more.
fn or_declined<T>(built: Result<Offered<T>>) -> Result<Offered<T>> {
    match built {
        Err(error) if error.is_of_device() => Ok(Offered::Declined(Declined::Device(error.to_string()))),
        built => built,
    }
}

/// One device alone.
impl<A: Accelerator + 'static> From<Arc<A>> for Devices {
    fn from(device: Arc<A>) -> Self {
        Self(vec![device])
    }
}
