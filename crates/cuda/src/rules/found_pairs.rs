//! An entry of a join of rules on a device whose candidates an index finds, on whichever engine.

use std::sync::Arc;

use similarity_engine::accelerator::rules::{DeviceColumns, DeviceRules, DeviceTrees};
use similarity_engine::atoms::RuleCounters;
use similarity_engine::error::{Result, internal_err};
use similarity_engine::offered::{Declined, Offered};
use similarity_engine::plan::ExecutionTree;
use similarity_engine::{Cancel, Counts, Pairs};

use super::atoms::RulesOnDevice;
use super::probe_ranges::PAIRS_OF_TASK;
use super::walking::{Source, TreesOnDevice, Walking};
use crate::fault::Fault;
use crate::kernels::{Positions, Task};
use crate::worker::Workers;

/// An entry whose pairs are found elsewhere.
#[derive(Debug)]
pub(super) struct FoundPairs {
    trees: TreesOnDevice,
    /// Pairs that are brought together: all of them find room.
    at_once: usize,
    workers: Arc<Workers>,
}

impl FoundPairs {
    /// Entry with these trees, the own one first, unless they ask what is not there.
    pub(super) fn try_new(rules: &RulesOnDevice, trees: [&ExecutionTree; 2]) -> Offered<Self> {
        match TreesOnDevice::new(rules, trees) {
            Some(trees) => Offered::Taken(Self::of(rules, trees)),
            None => Offered::Declined(Declined::Keys),
        }
    }

    fn of(rules: &RulesOnDevice, trees: TreesOnDevice) -> Self {
        let (capacity, workers) = (rules.workers.capacity(), Arc::clone(&rules.workers));
        Self { at_once: trees.walking.min(capacity.candidates).min(capacity.pairs), trees, workers }
    }
}

impl DeviceTrees for FoundPairs {
    fn replicate(&self, to: &dyn DeviceRules) -> Result<Offered<Box<dyn DeviceTrees>>> {
        Ok(Offered::Taken(Box::new(Self::of(RulesOnDevice::of(to)?, self.trees.clone()))))
    }

    fn decide(
        &self,
        rules: &dyn DeviceRules,
        probe: Option<&dyn DeviceColumns>,
        found: &Pairs,
        cancel: &Cancel,
        (out, counters): (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>> {
        let rules = RulesOnDevice::of(rules)?;
        let probe = match probe.map(|columns| columns.as_any().downcast_ref()) {
            Some(None) => return internal_err!("pairs were found with a batch that is not on the device"),
            columns => columns.flatten(),
        };
        let before = out.len();
        let walking = Walking::new(rules, &self.trees, probe, Source::Found(found), counters);
        let decided = self.workers.with(|worker| {
            for first in (0..found.len()).step_by(self.at_once) {
                let end = found.len().min(first + self.at_once);
                let task = |first: usize| {
                    let (first, most) = (first as u32, PAIRS_OF_TASK);
                    Task { probe: 0, first, end: (end as u32).min(first + most) }
                };
                let tasks = (first..end).step_by(PAIRS_OF_TASK as usize).map(task).collect();
                worker.run(&walking, tasks, Positions { begin: 0, end: 1 }, cancel, out)?;
            }
            Ok(())
        });
        match decided {
            Err(Fault::Memory) => Ok(None),
            decided => {
                decided?;
                let candidates = found.len();
                Ok(Some(Counts { candidates, verified: candidates, matched: out.len() - before }))
            }
        }
    }
}
