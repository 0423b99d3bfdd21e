//! The sets of one side on the device, in the order in which blocks of them are compared.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::SetColumns;
use crate::block_ranges::BLOCK;
use crate::fault::Fault;
use crate::kernels::{PositionColumns, RowSignatures, SetsOnDevice};
use crate::memory::{Budget, Buffer};
use crate::sort::sort;
use crate::tiled_index::Side;

/// Bits of a sort key below the group.
const KEY_BITS: u32 = 32;

/// Words of 32 bits of signatures for sets of `mean` tokens: at least about four bits a token, as far as there are
/// kernels.
pub(super) fn signature_words(mean: f64) -> u32 {
    match mean {
        m if m <= 80.0 => 8,
        m if m <= 160.0 => 16,
        m if m <= 320.0 => 32,
        _ => 64,
    }
}

/// The sets of one side, one a position, ordered by group, size and bits set.
#[derive(Debug)]
pub(crate) struct SortedSets {
    columns: PositionColumns,
    tokens: Buffer<u32>,
    pub(super) count: u32,
    pub(super) unmatchable: usize,
}

impl Side for SortedSets {
    fn count(&self) -> u32 {
        self.count
    }

    fn rows(&self, budget: &Budget, positions: Range<usize>) -> Result<Vec<u32>, Fault> {
        budget.fetch(&self.columns.rows, positions)
    }
}

impl SortedSets {
    /// Uploads `sets` and puts them into order; the bits of signatures of `words` words stand for tokens of `ranks`
    /// ranks.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        sets: &SetColumns,
        (ranks, words): (u32, u32),
    ) -> Result<Self, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let count = sets.rows as u32;
        let padded = count.next_multiple_of(BLOCK);
        let kernels = budget.device.sets()?;
        let rows = sets.upload(budget, stream)?;
        let mut of_rows = RowSignatures {
            signatures: budget.buffer(stream, count as usize * words as usize)?,
            ones: budget.buffer(stream, count as usize)?,
            keys: budget.buffer(stream, count as usize)?,
            order: budget.buffer(stream, count as usize)?,
        };
        let buffer = || budget.buffer(stream, padded as usize);
        let mut columns = PositionColumns {
            signatures: budget.buffer(stream, padded as usize * words as usize)?,
            sizes: buffer()?,
            known: buffer()?,
            ones: buffer()?,
            groups: buffer()?,
            rows: buffer()?,
            starts: budget.buffer(stream, padded as usize)?,
            summaries: budget.buffer(stream, (padded / BLOCK) as usize)?,
        };
        if count > 0 {
            kernels.signatures(stream, &rows, ranks, words, &mut of_rows)?;
            let groups = sets.last_group().map_or(0, |last| u32::BITS - last.leading_zeros());
            let (_, order) = sort(budget, stream, of_rows.keys, of_rows.order, count, KEY_BITS + groups)?;
            let of_rows = (&of_rows.signatures, &of_rows.ones);
            kernels.gather(stream, &rows, of_rows, &order, (padded, words), &mut columns)?;
            kernels.summaries(stream, &mut columns, count)?;
        }
        stream.synchronize()?;
        Ok(Self { columns, tokens: rows.tokens, count, unmatchable: sets.unmatchable })
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u32 {
        self.count.div_ceil(BLOCK)
    }

    /// The columns as kernels read them, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> SetsOnDevice {
        let columns = &self.columns;
        SetsOnDevice {
            signatures: columns.signatures.address(stream),
            sizes: columns.sizes.address(stream),
            known: columns.known.address(stream),
            ones: columns.ones.address(stream),
            groups: columns.groups.address(stream),
            rows: columns.rows.address(stream),
            starts: columns.starts.address(stream),
            tokens: self.tokens.address(stream),
            summaries: columns.summaries.address(stream),
            count: self.count,
            unused: 0,
        }
    }
}
