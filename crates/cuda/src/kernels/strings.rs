//! Launches of the kernels of `strings.cu`.

use std::ffi::c_void;

use cudarc::driver::{CudaStream, DriverError};
use similarity_measures::EditKernel;

use super::generated::constants::signature_tile::STEP;
use super::generated::edit_measure::EditCondition;
use super::generated::strings::{CodedStrings, Kernels, Signer, Summary};
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, KeyedRows, Positions, TaskList, Windows, multiprocessors};
use crate::address::Address;
use crate::buffer::Buffer;
use crate::context::DeviceContext;
use crate::fault::Fault;
use crate::replicate::{Copying, Replicate, replicate};

/// The kernels of `strings.cu`.
pub(crate) struct StringKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// Codes of characters, one a byte or four bytes each.
#[derive(Debug)]
pub(crate) enum SymbolBuffer {
    Small(Buffer<u8>),
    Large(Buffer<u32>),
}

impl SymbolBuffer {
    /// Address of the symbols, see [`Buffer::address`].
    pub(crate) fn address(&self, stream: &CudaStream) -> Address<c_void> {
        match self {
            Self::Small(symbols) => symbols.address(stream).cast(),
            Self::Large(symbols) => symbols.address(stream).cast(),
        }
    }
}

/// The strings of a side in the order of its rows.
pub(crate) struct StringRows {
    pub(crate) starts: Buffer<u64>,
    pub(crate) symbols: SymbolBuffer,
    /// None where all rows are of one group.
    pub(crate) groups: Option<Buffer<u32>>,
    /// The row numbers.
    pub(crate) rows: Buffer<u32>,
    pub(crate) count: u32,
}

/// Signatures of both bags, and how many occurrences share a bit of each.
#[derive(Debug)]
pub(crate) struct StringSignatures {
    pub(crate) characters: Buffer<u32>,
    pub(crate) bigrams: Buffer<u32>,
    pub(crate) character_excess: Buffer<u32>,
    pub(crate) bigram_excess: Buffer<u32>,
    /// The first symbols.
    pub(crate) prefixes: Buffer<u32>,
}

/// The strings of a side in the order of positions.
#[derive(Debug)]
pub(crate) struct StringPositions {
    pub(crate) signatures: StringSignatures,
    pub(crate) lengths: Buffer<u32>,
    pub(crate) groups: Buffer<u32>,
    pub(crate) rows: Buffer<u32>,
    pub(crate) starts: Buffer<u64>,
    pub(crate) summaries: Buffer<Summary>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(crate) struct StringSides {
    pub(crate) probe: CodedStrings,
    pub(crate) build: CodedStrings,
    pub(crate) condition: EditCondition,
    pub(crate) decision: EditKernel,
    /// Whether the symbols are bytes.
    pub(crate) is_small: bool,
    /// Whether both are one side.
    pub(crate) self_join: bool,
}

replicate!(StringSignatures { characters, bigrams, character_excess, bigram_excess, prefixes });
replicate!(StringPositions { signatures, lengths, groups, rows, starts, summaries });

impl Replicate for SymbolBuffer {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(match self {
            Self::Small(symbols) => Self::Small(symbols.replicate(to)?),
            Self::Large(symbols) => Self::Large(symbols.replicate(to)?),
        })
    }
}

impl StringKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 16 * multiprocessors(context)? })
    }

    /// Signatures, and keys to sort by: the excess of characters or of bigrams is their last part.
    pub(crate) fn signatures(
        &self,
        stream: &CudaStream,
        strings: &StringRows,
        signer: Signer,
        by_characters: bool,
        out: &mut StringSignatures,
        records: &mut KeyedRows,
    ) -> Launched {
        let StringSignatures { characters, bigrams, character_excess, bigram_excess, prefixes } = out;
        macro_rules! launch {
            ($kernel:ident, $symbols:expr) => {
                self.kernels.$kernel(
                    stream,
                    Grid::Warps(strings.count),
                    strings.starts.address(stream),
                    $symbols.address(stream),
                    strings.groups.as_ref().map(|groups| groups.address(stream)),
                    strings.count,
                    signer,
                    by_characters.into(),
                    characters.address_mut(stream),
                    bigrams.address_mut(stream),
                    character_excess.address_mut(stream),
                    bigram_excess.address_mut(stream),
                    prefixes.address_mut(stream),
                    records.keys.address_mut(stream),
                    records.rows.address_mut(stream),
                )
            };
        }
        match &strings.symbols {
            // SAFETY: there is an entry a row, and the addresses are of live tables.
            SymbolBuffer::Small(symbols) => unsafe { launch!(edit_signatures_small, symbols) },
            // SAFETY: as above.
            SymbolBuffer::Large(symbols) => unsafe { launch!(edit_signatures_large, symbols) },
        }
    }

    /// Columns in the order of `order`, with empty strings up to whole blocks of positions.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        strings: &StringRows,
        signatures: &StringSignatures,
        order: &Buffer<u32>,
        out: &mut StringPositions,
    ) -> Launched {
        let padded = strings.count.next_multiple_of(BLOCK);
        let to = &mut out.signatures;
        // SAFETY: every output has all positions of whole blocks.
        unsafe {
            self.kernels.edit_gather(
                stream,
                Grid::Items(u64::from(padded) * u64::from(STEP)),
                order.address(stream),
                strings.count,
                padded,
                signatures.characters.address(stream),
                signatures.bigrams.address(stream),
                signatures.character_excess.address(stream),
                signatures.bigram_excess.address(stream),
                signatures.prefixes.address(stream),
                strings.groups.as_ref().map(|groups| groups.address(stream)),
                strings.rows.address(stream),
                strings.starts.address(stream),
                to.characters.address_mut(stream),
                to.bigrams.address_mut(stream),
                to.character_excess.address_mut(stream),
                to.bigram_excess.address_mut(stream),
                to.prefixes.address_mut(stream),
                out.lengths.address_mut(stream),
                out.groups.address_mut(stream),
                out.rows.address_mut(stream),
                out.starts.address_mut(stream),
            )
        }
    }

    /// What the strings of each block of positions have in common.
    pub(crate) fn summaries(&self, stream: &CudaStream, columns: &mut StringPositions, count: u32) -> Launched {
        // SAFETY: there is a summary a block.
        unsafe {
            self.kernels.edit_summaries(
                stream,
                Grid::Threads(count.div_ceil(BLOCK)),
                columns.lengths.address(stream),
                columns.signatures.character_excess.address(stream),
                columns.signatures.bigram_excess.address(stream),
                columns.groups.address(stream),
                count,
                columns.summaries.address_mut(stream),
            )
        }
    }

    /// The first and one past the last build block for each of `blocks` probe blocks.
    pub(crate) fn windows(&self, stream: &CudaStream, sides: &StringSides, blocks: u32, out: &mut Windows) -> Launched {
        let StringSides { probe, build, condition, self_join, .. } = *sides;
        let (firsts, ends) = (out.firsts.address_mut(stream), out.ends.address_mut(stream));
        let grid = Grid::Threads(blocks);
        // SAFETY: the outputs have an entry a block, and the addresses are of live columns.
        unsafe {
            self.kernels.edit_windows(stream, grid, probe, build, condition, 0, blocks, self_join.into(), firsts, ends)
        }
    }

    /// Appends the positions of pairs whose signatures allow a match, for some probe positions.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &StringSides,
        tasks: TaskList<'_>,
        positions: Positions,
        out: &mut Appended<'_>,
    ) -> Launched {
        // SAFETY: the addresses are of live columns.
        unsafe {
            self.kernels.edit_filter(
                stream,
                tasks.grid(),
                sides.probe,
                sides.build,
                sides.condition,
                tasks.on_device.address(stream),
                sides.self_join.into(),
                positions.begin,
                positions.end,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Appends the row numbers of the candidates that match.
    pub(crate) fn verify(
        &self,
        stream: &CudaStream,
        sides: &StringSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let verify = match (sides.decision, sides.is_small) {
            (EditKernel::Levenshtein, true) => Kernels::edit_verify_levenshtein_small,
            (EditKernel::Levenshtein, false) => Kernels::edit_verify_levenshtein_large,
            (EditKernel::Osa, true) => Kernels::edit_verify_osa_small,
            (EditKernel::Osa, false) => Kernels::edit_verify_osa_large,
            (EditKernel::Hamming, true) => Kernels::edit_verify_hamming_small,
            (EditKernel::Hamming, false) => Kernels::edit_verify_hamming_large,
            (EditKernel::Jaro, true) => Kernels::edit_verify_jaro_small,
            (EditKernel::Jaro, false) => Kernels::edit_verify_jaro_large,
        };
        // SAFETY: the threads share whatever number of candidates there is; both sides' symbols are of the kernel's
        // size, and the addresses are of live columns.
        unsafe {
            verify(
                &self.kernels,
                stream,
                Grid::Blocks(self.blocks),
                sides.probe,
                sides.build,
                sides.condition,
                candidates.pairs.address(stream),
                candidates.count.address(stream),
                candidates.capacity,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }
}
