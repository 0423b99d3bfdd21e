//! The probe side of a match count on the device, group by group.

use std::ops::Range;

use cudarc::driver::CudaStream;

use super::build_side::CountedColumns;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{BLOCK, CountingRowsOnDevice};
use crate::memory::Budget;
use crate::tiled_index::Side;
use crate::wait::wait;
use similarity_engine::match_count::spans;
use similarity_engine::sets::rows_by_rank::group_of;
use similarity_engine::{KeyColumn, NO_GROUP};

/// What the rows of a probe side accept, and where their groups are.
#[derive(Debug)]
pub(super) struct CountingSide {
    accepted: Buffer<u32>,
    rows: Buffer<u32>,
    firsts: Buffer<u32>,
    ends: Buffer<u32>,
    /// The row at each position.
    order: Vec<u32>,
    /// Rows without a group.
    pub(super) unmatchable: usize,
}

impl CountingSide {
    /// The rows of `keys` that have a group.
    ///
    /// # Errors
    /// Keys of other conditions, a device that fails.
    pub(super) fn try_new(budget: &Budget, build: &CountedColumns, keys: &KeyColumn) -> Result<Self, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let (spans, rows) = (spans(&keys.values, build.conditions as usize)?, keys.values.len());
        let mut order: Vec<u32> = (0..rows as u32).filter(|&row| group_of(keys, row) != NO_GROUP).collect();
        order.sort_by_key(|&row| group_of(keys, row));
        let padded = order.len().next_multiple_of(BLOCK as usize);
        let positions = order.iter().map(|&row| build.positions(group_of(keys, row)));
        let (mut firsts, mut ends): (Vec<u32>, Vec<u32>) = positions.map(|group| (group.start, group.end)).unzip();
        let mut padded_rows = order.clone();
        for column in [&mut padded_rows, &mut firsts, &mut ends] {
            column.resize(padded, 0);
        }
        let stream = budget.device.stream()?;
        let side = Self {
            accepted: budget.upload(&stream, spans.as_numbers())?,
            rows: budget.upload(&stream, &padded_rows)?,
            firsts: budget.upload(&stream, &firsts)?,
            ends: budget.upload(&stream, &ends)?,
            unmatchable: rows - order.len(),
            order,
        };
        // what was uploaded may go
        wait(&stream)?;
        Ok(side)
    }

    /// The columns as kernels read them, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> CountingRowsOnDevice {
        CountingRowsOnDevice {
            accepted: self.accepted.address(stream).cast(),
            rows: self.rows.address(stream),
            firsts: self.firsts.address(stream),
            ends: self.ends.address(stream),
        }
    }
}

impl Side for CountingSide {
    fn count(&self) -> u32 {
        self.order.len() as u32
    }

    fn rows(&self, _: &Budget, positions: Range<usize>) -> Result<Vec<u32>, Fault> {
        Ok(self.order[positions].to_vec())
    }
}
