//! One side of a join on a device, in the order in which blocks of it are compared: what all families of keys have in
//! common.
//!
//! Rows are uploaded, signed, sorted by what their signatures say, gathered by position, and summarised block by block.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::buffer::Buffer;
use super::fault::Fault;
use super::kernels::{BLOCK, KeyedRows};
use super::memory::Budget;
use super::replicate::{Copying, Replicate};
use super::sort::sort;
use super::tiled_index::Side;
use super::wait::wait;

/// What is known of packed rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedRows {
    /// How many there are.
    pub(super) count: u32,
    /// The last of their groups; `None` where there are no equality keys.
    pub(super) last_group: Option<u32>,
    /// Rows that match nothing, which are not among them.
    pub(super) unmatchable: usize,
}

/// The columns of a side by position, as one family of keys has them.
pub(super) trait Family: fmt::Debug + Send + Sync + Sized {
    /// Rows that the host has packed.
    type Packed<'a>;
    /// What rows are signed by.
    type Signer<'a>;
    /// Rows on the device.
    type Rows;
    /// What is known of each row before rows are sorted.
    type Signatures;
    /// Columns that are gathered.
    type Positions;
    /// The columns as kernels read them.
    type OnDevice;

    /// Counts what was packed.
    fn packed(packed: &Self::Packed<'_>) -> PackedRows;

    /// Bits of a sort key below the group.
    fn key_bits(signer: &Self::Signer<'_>) -> u32;

    /// Uploads the rows.
    fn upload(budget: &Budget, stream: &Arc<CudaStream>, packed: &Self::Packed<'_>) -> Result<Self::Rows, Fault>;

    /// Makes room for the signatures of `count` rows, and for columns of whole blocks of them.
    fn room(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &Self::Rows,
        signer: &Self::Signer<'_>,
        count: u32,
    ) -> Result<(Self::Signatures, Self::Positions), Fault>;

    /// Signs the rows, and makes what they are sorted by.
    fn sign(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &Self::Rows,
        signer: &Self::Signer<'_>,
        signatures: &mut Self::Signatures,
        records: &mut KeyedRows,
    ) -> Result<(), Fault>;

    /// Writes columns in the order of `order`.
    fn gather(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &Self::Rows,
        signer: &Self::Signer<'_>,
        signatures: &Self::Signatures,
        order: &Buffer<u32>,
        positions: &mut Self::Positions,
    ) -> Result<(), Fault>;

    /// Keeps what is compared, with what the `count` rows of blocks have in common.
    fn summarise(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: Self::Rows,
        signer: &Self::Signer<'_>,
        positions: Self::Positions,
        count: u32,
    ) -> Result<Self, Fault>;

    /// The row at each position.
    fn rows(&self) -> &Buffer<u32>;

    /// The columns of `count` rows as kernels read them, as long as `self` lives.
    fn on_device(&self, stream: &CudaStream, count: u32) -> Self::OnDevice;
}

/// One side, a row a position.
#[derive(Debug)]
pub(super) struct SortedSide<F> {
    columns: F,
    pub(super) count: u32,
    /// Rows that match nothing and have no position.
    pub(super) unmatchable: usize,
}

impl<F: Family> SortedSide<F> {
    /// Uploads rows and puts them into order.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        packed: &F::Packed<'_>,
        signer: &F::Signer<'_>,
    ) -> Result<Self, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let PackedRows { count, last_group, unmatchable } = F::packed(packed);
        let rows = F::upload(budget, stream, packed)?;
        let (mut signatures, mut positions) = F::room(budget, stream, &rows, signer, count)?;
        let mut records =
            KeyedRows { keys: budget.buffer(stream, count as usize)?, rows: budget.buffer(stream, count as usize)? };
        if count > 0 {
            F::sign(budget, stream, &rows, signer, &mut signatures, &mut records)?;
            let group_bits = last_group.map_or(0, |last| u32::BITS - last.leading_zeros());
            let sorted = sort(budget, stream, records, count, F::key_bits(signer) + group_bits)?;
            F::gather(budget, stream, &rows, signer, &signatures, &sorted.rows, &mut positions)?;
        }
        let columns = F::summarise(budget, stream, rows, signer, positions, count)?;
        wait(stream)?;
        Ok(Self { columns, count, unmatchable })
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u32 {
        self.count.div_ceil(BLOCK)
    }

    /// The columns.
    pub(super) fn columns(&self) -> &F {
        &self.columns
    }

    /// The columns as kernels read them, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> F::OnDevice {
        self.columns.on_device(stream, self.count)
    }
}

impl<F: Replicate> Replicate for SortedSide<F> {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Self { columns: self.columns.replicate(to)?, count: self.count, unmatchable: self.unmatchable })
    }
}

impl<F: Family> Side for SortedSide<F> {
    fn count(&self) -> u32 {
        self.count
    }

    fn rows(&self, budget: &Budget, positions: Range<usize>) -> Result<Vec<u32>, Fault> {
        budget.fetch(self.columns.rows(), positions)
    }
}
