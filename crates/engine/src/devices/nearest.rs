//! An index that ranks rows, on each of some devices.

use super::index::{Replicated, ReplicatedBatch};
use crate::accelerator::DynDeviceNearest;
use crate::error::Result;
use crate::nearest::{Best, NearestIndex};
use crate::{Cancel, Counts, Probe};

/// An index that ranks rows, on each of some devices.
pub(crate) type ReplicatedNearest = Replicated<DynDeviceNearest>;

/// A probe batch of such an index.
pub(crate) type NearestBatch = ReplicatedBatch<DynDeviceNearest>;

impl NearestIndex for ReplicatedNearest {
    fn positions_at_once(&self, probe: Probe<'_, NearestBatch>, wanted: usize) -> Result<usize> {
        match probe {
            Probe::SelfJoin => self.first()?.positions_at_once(Probe::SelfJoin, wanted),
            Probe::Batch(_) => self.run(probe, 0, |index, probe| index.positions_at_once(probe, wanted)),
        }
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        self.shared_stretch(start, |index| index.self_join_stretch(start, wanted))
    }

    fn order<'a>(&'a self, probe: Probe<'a, NearestBatch>) -> Result<&'a [u32]> {
        Ok(Replicated::order(self, probe))
    }

    fn nearest(
        &self,
        probe: Probe<'_, NearestBatch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        self.run(probe, positions.len(), |index, probe| {
            best.iter_mut().for_each(|best| *best = Best::new(best.wanted()));
            index.nearest(probe, positions, best, cancel)
        })
    }
}
