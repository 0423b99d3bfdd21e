//! The strings of one side on the device, ordered by group, length and how little their signatures say.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::StringColumns;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::signature_tile::STEP;
use crate::kernels::constants::strings::{EXCESS_BITS, LENGTH_BITS};
use crate::kernels::{
    BLOCK, CodedStringsOnDevice, KeyedRows, SignerOnDevice, StringPositions, StringRows, StringSignatures, SymbolBuffer,
};
use crate::memory::Budget;
use crate::replicate::replicate;
use crate::sorted_side::{Family, PackedRows, SortedSide};

/// The strings of one side, one a position.
pub(crate) type SortedStrings = SortedSide<Strings>;

/// How the strings of both sides set bits, on the device.
#[derive(Debug)]
pub(crate) struct Signer {
    pub(super) scalars: Buffer<u32>,
    pub(super) character_bits: Buffer<u8>,
    pub(super) bigram_bits: Buffer<u8>,
    /// Whether characters tell strings apart, not bigrams.
    pub(super) by_characters: bool,
}

impl Signer {
    fn on_device(&self, stream: &CudaStream) -> SignerOnDevice {
        SignerOnDevice {
            scalars: self.scalars.address(stream),
            character_bits: self.character_bits.address(stream),
            bigram_bits: self.bigram_bits.address(stream),
        }
    }
}

/// The columns of a side.
#[derive(Debug)]
pub(crate) struct Strings {
    positions: StringPositions,
    symbols: SymbolBuffer,
}

impl Family for Strings {
    type Packed<'a> = StringColumns;
    type Signer<'a> = Signer;
    type Rows = StringRows;
    type Signatures = StringSignatures;
    type Positions = StringPositions;
    type OnDevice = CodedStringsOnDevice;

    fn packed(strings: &StringColumns) -> PackedRows {
        PackedRows {
            count: strings.rows.len() as u32,
            last_group: strings.groups.iter().max().copied(),
            unmatchable: strings.unmatchable,
        }
    }

    fn key_bits(_: &Signer) -> u32 {
        LENGTH_BITS + EXCESS_BITS
    }

    fn upload(budget: &Budget, stream: &Arc<CudaStream>, strings: &StringColumns) -> Result<StringRows, Fault> {
        strings.upload(budget, stream)
    }

    fn room(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        _: &StringRows,
        _: &Signer,
        count: u32,
    ) -> Result<(StringSignatures, StringPositions), Fault> {
        let padded = count.next_multiple_of(BLOCK) as usize;
        let positions = StringPositions {
            signatures: signatures(budget, stream, padded)?,
            lengths: budget.buffer(stream, padded)?,
            groups: budget.buffer(stream, padded)?,
            rows: budget.buffer(stream, padded)?,
            starts: budget.buffer(stream, padded)?,
            summaries: budget.buffer(stream, padded / BLOCK as usize)?,
        };
        Ok((signatures(budget, stream, count as usize)?, positions))
    }

    fn sign(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &StringRows,
        signer: &Signer,
        signatures: &mut StringSignatures,
        records: &mut KeyedRows,
    ) -> Result<(), Fault> {
        let (by, by_characters) = (signer.on_device(stream), signer.by_characters);
        budget.device.kernels().strings()?.signatures(stream, rows, by, by_characters, signatures, records)
    }

    fn gather(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &StringRows,
        _: &Signer,
        signatures: &StringSignatures,
        order: &Buffer<u32>,
        positions: &mut StringPositions,
    ) -> Result<(), Fault> {
        budget.device.kernels().strings()?.gather(stream, rows, signatures, order, positions)
    }

    fn summarise(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: StringRows,
        _: &Signer,
        mut positions: StringPositions,
        count: u32,
    ) -> Result<Self, Fault> {
        if count > 0 {
            budget.device.kernels().strings()?.summaries(stream, &mut positions, count)?;
        }
        Ok(Self { positions, symbols: rows.symbols })
    }

    fn rows(&self) -> &Buffer<u32> {
        &self.positions.rows
    }

    fn on_device(&self, stream: &CudaStream, count: u32) -> CodedStringsOnDevice {
        let (positions, signatures) = (&self.positions, &self.positions.signatures);
        CodedStringsOnDevice {
            characters: signatures.characters.address(stream),
            bigrams: signatures.bigrams.address(stream),
            character_excess: signatures.character_excess.address(stream),
            bigram_excess: signatures.bigram_excess.address(stream),
            lengths: positions.lengths.address(stream),
            prefixes: signatures.prefixes.address(stream),
            groups: positions.groups.address(stream),
            rows: positions.rows.address(stream),
            starts: positions.starts.address(stream),
            symbols: self.symbols.address(stream),
            summaries: positions.summaries.address(stream),
            count,
            unused: 0,
        }
    }
}

fn signatures(budget: &Budget, stream: &Arc<CudaStream>, rows: usize) -> Result<StringSignatures, Fault> {
    Ok(StringSignatures {
        characters: budget.buffer(stream, rows * STEP as usize)?,
        bigrams: budget.buffer(stream, rows * STEP as usize)?,
        character_excess: budget.buffer(stream, rows)?,
        bigram_excess: budget.buffer(stream, rows)?,
        prefixes: budget.buffer(stream, rows)?,
    })
}

replicate!(Signer { scalars, character_bits, bigram_bits; same by_characters });
replicate!(Strings { positions, symbols });
