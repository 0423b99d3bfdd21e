//! The sets of one side on the device, ordered by group, size and bits set.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::SetColumns;
use crate::address::Address;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::sets::{ONES_BITS, SIZE_BITS};
use crate::kernels::{
    BLOCK, KeyedRows, SetPositions, SetRows, SetSignatures, SetSigner, SetsOnDevice, WORDS_OF_FREQUENT,
};
use crate::memory::Budget;
use crate::replicate::replicate;
use crate::sorted_side::{Family, PackedRows, SortedSide};

/// The sets of one side, one a position.
pub(crate) type SortedSets = SortedSide<Sets>;

impl SortedSets {
    /// The most frequent tokens of each set, where they are there.
    pub(super) fn frequent(&self, stream: &CudaStream) -> Option<Address<u32>> {
        self.columns().positions.frequent.as_ref().map(|frequent| frequent.address(stream))
    }
}

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

/// The columns of a side.
#[derive(Debug)]
pub(crate) struct Sets {
    positions: SetPositions,
    tokens: Buffer<u32>,
}

impl Family for Sets {
    type Packed<'a> = SetColumns;
    type Signer<'a> = SetSigner;
    type Rows = SetRows;
    type Signatures = SetSignatures;
    type Positions = SetPositions;
    type OnDevice = SetsOnDevice;

    fn packed(sets: &SetColumns) -> PackedRows {
        PackedRows { count: sets.rows as u32, last_group: sets.last_group(), unmatchable: sets.unmatchable }
    }

    fn key_bits(_: &SetSigner) -> u32 {
        SIZE_BITS + ONES_BITS
    }

    fn upload(budget: &Budget, stream: &Arc<CudaStream>, sets: &SetColumns) -> Result<SetRows, Fault> {
        sets.upload(budget, stream)
    }

    fn room(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        _: &SetRows,
        signer: &SetSigner,
        count: u32,
    ) -> Result<(SetSignatures, SetPositions), Fault> {
        let (padded, words) = (count.next_multiple_of(BLOCK) as usize, signer.words as usize);
        let signatures = SetSignatures {
            signatures: budget.buffer(stream, count as usize * words)?,
            ones: budget.buffer(stream, count as usize)?,
        };
        let buffer = || budget.buffer(stream, padded);
        let positions = SetPositions {
            signatures: budget.buffer(stream, padded * words)?,
            sizes: buffer()?,
            known: buffer()?,
            ones: buffer()?,
            groups: buffer()?,
            rows: buffer()?,
            starts: budget.buffer(stream, padded)?,
            summaries: budget.buffer(stream, padded / BLOCK as usize)?,
            frequent: match signer.are_frequent {
                true => Some(budget.buffer(stream, padded * WORDS_OF_FREQUENT)?),
                false => None,
            },
        };
        Ok((signatures, positions))
    }

    fn sign(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &SetRows,
        signer: &SetSigner,
        signatures: &mut SetSignatures,
        records: &mut KeyedRows,
    ) -> Result<(), Fault> {
        budget.device.kernels().sets()?.signatures(stream, rows, signer, signatures, records)
    }

    fn gather(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &SetRows,
        signer: &SetSigner,
        signatures: &SetSignatures,
        order: &Buffer<u32>,
        positions: &mut SetPositions,
    ) -> Result<(), Fault> {
        budget.device.kernels().sets()?.gather(stream, rows, signatures, signer.words, order, positions)
    }

    fn summarise(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: SetRows,
        signer: &SetSigner,
        mut positions: SetPositions,
        count: u32,
    ) -> Result<Self, Fault> {
        if count > 0 {
            let kernels = budget.device.kernels().sets()?;
            kernels.summaries(stream, &mut positions, count)?;
            kernels.frequent(stream, &mut positions, &rows.tokens, (count, signer.ranks))?;
        }
        Ok(Self { positions, tokens: rows.tokens })
    }

    fn rows(&self) -> &Buffer<u32> {
        &self.positions.rows
    }

    fn on_device(&self, stream: &CudaStream, count: u32) -> SetsOnDevice {
        let positions = &self.positions;
        SetsOnDevice {
            signatures: positions.signatures.address(stream),
            sizes: positions.sizes.address(stream),
            known: positions.known.address(stream),
            ones: positions.ones.address(stream),
            groups: positions.groups.address(stream),
            rows: positions.rows.address(stream),
            starts: positions.starts.address(stream),
            tokens: self.tokens.address(stream),
            summaries: positions.summaries.address(stream),
            count,
            unused: 0,
        }
    }
}

replicate!(Sets { positions, tokens });
