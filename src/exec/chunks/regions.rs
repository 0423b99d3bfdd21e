//! Where the rows of both sides of a join lie, by its key.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{JoinSide, Result};
use datafusion::physical_expr::PhysicalExprRef;

use crate::exec::engine::EngineResult;
use crate::exec::strategy::RegionKey;
use similarity_engine::cpu::regions::Regions;
use similarity_engine::cpu::vectors::{Extent, REGIONS};

/// Regions of a key.
#[derive(Debug)]
pub(super) struct KeyRegions {
    regions: Regions,
    left: PhysicalExprRef,
    right: PhysicalExprRef,
}

impl KeyRegions {
    /// Regions as the rows `sample` of `side` are spread, none where nothing can be told apart.
    pub(super) fn of(key: RegionKey<'_>, side: JoinSide, sample: &RecordBatch) -> Option<Self> {
        let RegionKey { condition, left, right } = key;
        let key = if side == JoinSide::Right { right } else { left };
        let regions = Regions::of(condition, &values(key, sample).ok()?)?;
        Some(Self { regions, left: Arc::clone(left), right: Arc::clone(right) })
    }

    fn key(&self, side: JoinSide) -> &PhysicalExprRef {
        if side == JoinSide::Right { &self.right } else { &self.left }
    }

    /// The region of each row; `extents`, one for each region, grow around them. Rows whose key cannot be evaluated are
    /// in the last one, so that the error comes where it would come for rows that are held whole.
    pub(super) fn place(&self, side: JoinSide, batch: &RecordBatch, extents: &mut [Extent]) -> Vec<u32> {
        let placed = values(self.key(side), batch).and_then(|keys| self.regions.place(&keys, extents).or_datafusion());
        placed.unwrap_or_else(|_| {
            let last = REGIONS - 1;
            extents[last] = Extent::everywhere();
            vec![last as u32; batch.num_rows()]
        })
    }

    /// Whether a row of one part may match one of the other.
    pub(super) fn may_match(&self, one: &Extent, other: &Extent) -> bool {
        self.regions.may_match(one, other)
    }
}

fn values(key: &PhysicalExprRef, batch: &RecordBatch) -> Result<ArrayRef> {
    key.evaluate(batch)?.into_array(batch.num_rows())
}
