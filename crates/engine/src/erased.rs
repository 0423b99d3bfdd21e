//! An index whose batches have lost their type.
//!
//! An index knows the type of its batches; whoever drives it does not. [`Erased`] is where the one becomes the other:
//! it wraps the batches of an index on their way out, and unwraps them on their way in. No index does that itself.

use std::ops::Range;

use crate::accelerator::{Accelerator, DeviceIndex, DeviceNearest, DynDeviceIndex, DynDeviceNearest};
use crate::batch::{AnyBatch, Prepared, Probe};
use crate::cancel::Cancel;
use crate::context::PrepareContext;
use crate::cursor::{Cursor, Limit};
use crate::error::Result;
use crate::index::{Index, IndexInfo, PairIndex};
use crate::key_column::KeyColumn;
use crate::metrics::MetricValue;
use crate::nearest::{Best, NearestIndex};
use crate::offered::Offered;
use crate::pairs::{Counts, Pairs};
use crate::stored::Store;

/// An index behind an interface that does not tell the type of its batches.
#[derive(Debug)]
pub struct Erased<I>(pub I);

impl<I: Index> Index for Erased<I> {
    type Batch = AnyBatch;

    fn info(&self) -> &IndexInfo {
        self.0.info()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.0.metrics()
    }

    fn stored(&self) -> Option<&dyn Store> {
        self.0.stored()
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<AnyBatch>> {
        Ok(self.0.prepare(keys, context)?.map(AnyBatch::new))
    }
}

impl<I: PairIndex> PairIndex for Erased<I> {
    fn self_join_stretch(&self, start: usize) -> usize {
        self.0.self_join_stretch(start)
    }

    fn probe(
        &self,
        probe: Probe<'_, AnyBatch>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        self.0.probe(probe.typed()?, cursor, limit, cancel, out)
    }
}

impl<I: DeviceIndex> DeviceIndex for Erased<I> {
    fn rows(&self, probe: Probe<'_, AnyBatch>, positions: Range<usize>) -> Result<Vec<u32>> {
        self.0.rows(probe.typed()?, positions)
    }

    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceIndex>>> {
        self.0.replicate(to)
    }
}

impl<I: DeviceNearest> DeviceNearest for Erased<I> {
    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceNearest>>> {
        self.0.replicate(to)
    }
}

impl<I: NearestIndex> NearestIndex for Erased<I> {
    fn misses(&self) -> bool {
        self.0.misses()
    }

    fn positions_at_once(&self, probe: Probe<'_, AnyBatch>, wanted: usize) -> Result<usize> {
        self.0.positions_at_once(probe.typed()?, wanted)
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        self.0.self_join_stretch(start, wanted)
    }

    fn order<'a>(&'a self, probe: Probe<'a, AnyBatch>) -> Result<&'a [u32]> {
        self.0.order(probe.typed()?)
    }

    fn nearest(
        &self,
        probe: Probe<'_, AnyBatch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        self.0.nearest(probe.typed()?, positions, best, cancel)
    }
}
