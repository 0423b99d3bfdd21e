//! An index that finds pairs, on each of some devices.

use super::index::{Replicated, ReplicatedBatch};
use crate::accelerator::DynDeviceIndex;
use crate::error::Result;
use crate::{Cancel, Counts, Cursor, Limit, PairIndex, Pairs, Probe};

/// An index that finds pairs, on each of some devices.
pub(crate) type ReplicatedJoin = Replicated<DynDeviceIndex>;

/// A probe batch of such an index.
pub(crate) type JoinBatch = ReplicatedBatch<DynDeviceIndex>;

impl PairIndex for ReplicatedJoin {
    fn self_join_stretch(&self, start: usize) -> usize {
        self.shared_stretch(start, |index| index.self_join_stretch(start))
    }

    fn probe(
        &self,
        probe: Probe<'_, JoinBatch>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let (start, before) = (*cursor, out.len());
        self.run(probe, start.end - start.next, |index, probe| {
            *cursor = start;
            out.truncate(before);
            index.probe(probe, cursor, limit, cancel, out)
        })
    }
}
