//! Rules on each of some devices: the columns of atoms, and the entries whose trees are walked.

use std::sync::Arc;

use super::copies::copy_to;
use super::metrics::{OfDevices, on_devices};
use super::replicas::{OnOneDevice, Replicas};
use super::shares::stretch;
use crate::accelerator::Accelerator;
use crate::accelerator::rules::{DeviceColumns, DeviceEntry, DeviceItems, DeviceRules, DeviceTrees, ProbeRows};
use crate::atoms::{RuleCounters, RuleRows};
use crate::error::{Error, Result, internal_err, unless_failed};
use crate::metrics::MetricValue;
use crate::offered::Offered;
use crate::{Cancel, Counts, Cursor, Pairs};

/// Calls that a device answers at the same time: its launches are shorter than those of an index.
const CALLS: usize = 12;

/// A build side of rules on each of some devices: all have the same columns, and the same entries.
#[derive(Debug)]
pub(crate) struct ReplicatedRules {
    replicas: Arc<Replicas<WalkedRules>>,
    metrics: OfDevices,
    name: String,
}

/// Rules on one device.
#[derive(Debug)]
pub(crate) struct WalkedRules {
    pub(crate) rules: Box<dyn DeviceRules>,
    /// Entries in the order of the plan, where they are there.
    pub(crate) entries: Vec<Option<EntryThere>>,
}

/// An entry on a device, by where its candidates come from.
#[derive(Debug)]
pub(crate) enum EntryThere {
    /// Candidates that the device finds.
    Walked(Box<dyn DeviceEntry>),
    /// Candidates that an index finds, for trees there.
    Found(Box<dyn DeviceTrees>),
}

impl EntryThere {
    fn replicate(&self, to: &dyn DeviceRules) -> Result<Offered<Self>> {
        Ok(match self {
            Self::Walked(entry) => entry.replicate(to)?.map(Self::Walked),
            Self::Found(trees) => trees.replicate(to)?.map(Self::Found),
        })
    }
}

/// The columns of a probe batch on one of the devices.
pub(crate) type RulesBatch = OnOneDevice<WalkedRules, Box<dyn DeviceColumns>>;

impl WalkedRules {
    fn entry(&self, at: usize) -> Result<&dyn DeviceEntry> {
        match self.entries.get(at) {
            Some(Some(EntryThere::Walked(entry))) => Ok(entry.as_ref()),
            _ => internal_err!("an entry that is not on a device was asked for there"),
        }
    }

    fn trees(&self, at: usize) -> Result<&dyn DeviceTrees> {
        match self.entries.get(at) {
            Some(Some(EntryThere::Found(trees))) => Ok(trees.as_ref()),
            _ => internal_err!("trees that are not on a device were asked for there"),
        }
    }

    /// A copy on another device.
    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Self>> {
        let rules = match to.copy_rules(self.rules.as_ref())? {
            Offered::Taken(rules) => rules,
            Offered::Declined(why) => return Ok(Offered::Declined(why)),
        };
        let mut entries = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            entries.push(match entry.as_ref().map(|entry| entry.replicate(rules.as_ref())).transpose()? {
                Some(Offered::Taken(entry)) => Some(entry),
                Some(Offered::Declined(why)) => return Ok(Offered::Declined(why)),
                None => None,
            });
        }
        Ok(Offered::Taken(Self { rules, entries }))
    }
}

/// Result in which a lack of memory is an error, so that another device may do the work.
fn or_full<T>(done: Option<T>) -> Result<T> {
    done.ok_or(Error::DeviceFull)
}

/// Pairs and counters as they are before a device adds to them.
struct Before {
    pairs: usize,
    counters: RuleCounters,
}

impl Before {
    fn of(out: &Pairs, counters: &RuleCounters) -> Self {
        Self { pairs: out.len(), counters: counters.clone() }
    }

    /// What a device has done, or an error, after which pairs and counters are as before.
    fn or_taken_back(
        &self,
        done: Result<Option<Counts>>,
        (out, counters): (&mut Pairs, &mut RuleCounters),
    ) -> Result<Counts> {
        let done = done.and_then(or_full);
        if done.is_err() {
            out.truncate(self.pairs);
            counters.clone_from(&self.counters);
        }
        done
    }
}

/// Result that is `None` where no device can do the work, so that the host does it.
fn on_the_host<T>(done: Result<T>) -> Result<Option<T>> {
    unless_failed(done.map(Some))
}

impl RulesBatch {
    /// Whether some of its rows are unknown on the device, see [`DeviceColumns::has_unknown`].
    pub(crate) fn has_unknown(&self) -> bool {
        self.there(|columns| columns.has_unknown())
    }
}

impl ReplicatedRules {
    /// The rules that a `device` has, with their copies on the `others`.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(crate) fn try_new(
        (device, walked): (&dyn Accelerator, WalkedRules),
        others: Vec<Arc<dyn Accelerator>>,
    ) -> Result<Self> {
        let (counted, name) = (walked.rules.metrics(), walked.rules.name());
        let (all, metrics) = copy_to(others, (device, walked, counted), |walked, to| walked.replicate(to))?;
        let name = on_devices(&name, all.len());
        Ok(Self { replicas: Replicas::new(all, CALLS), metrics, name })
    }

    /// The devices as EXPLAIN ANALYZE names them.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Metrics of the join on the devices.
    pub(crate) fn metrics(&self) -> Vec<MetricValue> {
        self.metrics.values(self.replicas.failures())
    }

    /// Brings a probe side of so many rows to the least busy device; `None` where it fits on none, or has values
    /// without kernels.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(crate) fn prepare(&self, probe: &dyn RuleRows, rows: usize, threads: usize) -> Result<Option<RulesBatch>> {
        let bring = |walked: &WalkedRules| or_full(walked.rules.prepare(probe, threads)?);
        on_the_host(OnOneDevice::bring(&self.replicas, rows, bring))
    }

    /// Brings the rows of a batch that have partners in an entry to the device that has the batch; `None` where it
    /// cannot take them.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(crate) fn prepare_entry(
        &self,
        entry: usize,
        batch: &RulesBatch,
        rows: &ProbeRows<'_>,
    ) -> Result<Option<Box<dyn DeviceItems>>> {
        on_the_host(batch.run_there(|walked, _| or_full(walked.entry(entry)?.prepare(walked.rules.as_ref(), rows)?)))
    }

    /// The end of a stretch of a self-join of an entry from `start` on.
    pub(crate) fn self_join_stretch(&self, entry: usize, start: usize) -> usize {
        let all = self.replicas.all();
        let end = all.first().and_then(|first| first.entry(entry).ok()).map(|entry| entry.self_join_stretch(start));
        end.map_or(start, |end| stretch(start, end, all.len()))
    }

    /// Bytes of an entry that are held on the host.
    pub(crate) fn memory(&self, entry: usize) -> usize {
        self.replicas.all().iter().filter_map(|walked| walked.entry(entry).ok()).map(|entry| entry.memory()).sum()
    }

    /// Appends the matches among pairs that the index of an entry has `found`: with rows of a probe batch, or within
    /// the build side. `None`, and nothing is done, where no device can.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(crate) fn decide(
        &self,
        entry: usize,
        probe: Option<&RulesBatch>,
        found: &Pairs,
        cancel: &Cancel,
        (out, counters): (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>> {
        let before = Before::of(out, counters);
        let mut decide = |walked: &WalkedRules, probe: Option<&dyn DeviceColumns>| {
            let decided = walked.trees(entry)?.decide(walked.rules.as_ref(), probe, found, cancel, (out, counters));
            before.or_taken_back(decided, (out, counters))
        };
        on_the_host(match probe {
            None => self.replicas.run(found.len(), |walked| decide(walked, None)),
            Some(batch) => batch.run_there(|walked, columns| decide(walked, Some(columns.as_ref()))),
        })
    }

    /// Appends the matches among some of the candidates of an entry from `cursor` on: of a probe batch, or of the build
    /// side itself. `None`, and nothing is done, where no device can.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(crate) fn walk(
        &self,
        entry: usize,
        probe: Option<(&RulesBatch, &dyn DeviceItems)>,
        cursor: &mut Cursor,
        cancel: &Cancel,
        (out, counters): (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>> {
        let (start, before) = (*cursor, Before::of(out, counters));
        let mut walk = |walked: &WalkedRules, probe: Option<(&dyn DeviceColumns, &dyn DeviceItems)>| {
            let done = walked.entry(entry)?.walk(walked.rules.as_ref(), probe, cursor, cancel, (out, counters));
            let done = before.or_taken_back(done, (out, counters));
            if done.is_err() {
                *cursor = start;
            }
            done
        };
        on_the_host(match probe {
            None => self.replicas.run(start.end - start.next, |walked| walk(walked, None)),
            Some((batch, items)) => batch.run_there(|walked, columns| walk(walked, Some((columns.as_ref(), items)))),
        })
    }
}
