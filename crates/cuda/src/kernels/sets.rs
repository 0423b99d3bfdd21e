//! Launches of the kernels of `sets.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::constants::sets::{FREQUENT_BITS, FREQUENT_WORDS};
use super::generated::set_measure::SetCondition;
use super::generated::sets::{Kernels, Sets, Summary};
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, KeyedRows, Positions, TaskList, Windows, multiprocessors};
use crate::address::Address;
use crate::buffer::Buffer;
use crate::context::DeviceContext;
use crate::replicate::replicate;

/// Words of what is known of the most frequent tokens of a set.
pub(crate) const WORDS_OF_FREQUENT: usize = FREQUENT_WORDS as usize;

/// How many tokens are the most frequent ones.
pub(crate) const MOST_FREQUENT: usize = 32 * FREQUENT_BITS as usize;

/// The kernels of `sets.cu`.
pub(crate) struct SetKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// The sets of a side in the order of its rows.
pub(crate) struct SetRows {
    pub(crate) starts: Buffer<u64>,
    pub(crate) tokens: Buffer<u32>,
    pub(crate) sizes: Buffer<u32>,
    /// None where all rows are of one group.
    pub(crate) groups: Option<Buffer<u32>>,
    /// The row numbers.
    pub(crate) rows: Buffer<u32>,
    pub(crate) count: u32,
}

/// Signatures in the order of rows.
pub(crate) struct SetSignatures {
    pub(crate) signatures: Buffer<u32>,
    pub(crate) ones: Buffer<u32>,
}

/// What the bits of signatures stand for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetSigner {
    /// How many tokens have a rank.
    pub(crate) ranks: u32,
    /// Words of 32 bits of a signature.
    pub(crate) words: u32,
    /// Whether nearly all tokens are among the most frequent ones, which then have a bit each.
    pub(crate) are_frequent: bool,
}

/// The sets of a side in the order of positions.
#[derive(Debug)]
pub(crate) struct SetPositions {
    pub(crate) signatures: Buffer<u32>,
    pub(crate) sizes: Buffer<u32>,
    pub(crate) known: Buffer<u32>,
    pub(crate) ones: Buffer<u32>,
    pub(crate) groups: Buffer<u32>,
    pub(crate) rows: Buffer<u32>,
    pub(crate) starts: Buffer<u64>,
    pub(crate) summaries: Buffer<Summary>,
    /// The most frequent tokens of each set, where nearly all tokens are among them.
    pub(crate) frequent: Option<Buffer<u32>>,
}

/// The most frequent tokens of both sides.
#[derive(Clone, Copy)]
pub(crate) struct FrequentTokens {
    pub(crate) of_probe: Address<u32>,
    pub(crate) of_build: Address<u32>,
    /// How many tokens have a rank.
    pub(crate) ranks: u32,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(crate) struct SetSides {
    pub(crate) probe: Sets,
    pub(crate) build: Sets,
    pub(crate) condition: SetCondition,
    /// Whether both are one side.
    pub(crate) self_join: bool,
    /// Where nearly all tokens are among them.
    pub(crate) frequent: Option<FrequentTokens>,
}

replicate!(SetPositions { signatures, sizes, known, ones, groups, rows, starts, summaries, frequent });

impl SetKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 8 * multiprocessors(context)? })
    }

    /// Signatures, and keys to sort by.
    pub(crate) fn signatures(
        &self,
        stream: &CudaStream,
        rows: &SetRows,
        signer: &SetSigner,
        out: &mut SetSignatures,
        records: &mut KeyedRows,
    ) -> Launched {
        // SAFETY: there is an entry a row, and a signature of so many words.
        unsafe {
            self.kernels.set_signatures(
                stream,
                Grid::Warps(rows.count),
                rows.starts.address(stream),
                rows.tokens.address(stream),
                rows.sizes.address(stream),
                rows.groups.as_ref().map(|groups| groups.address(stream)),
                rows.count,
                signer.ranks,
                signer.words,
                out.signatures.address_mut(stream),
                out.ones.address_mut(stream),
                records.keys.address_mut(stream),
                records.rows.address_mut(stream),
            )
        }
    }

    /// Columns in the order of `order`, with empty sets up to whole blocks of positions.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        rows: &SetRows,
        signatures: &SetSignatures,
        words: u32,
        order: &Buffer<u32>,
        out: &mut SetPositions,
    ) -> Launched {
        let padded = rows.count.next_multiple_of(BLOCK);
        // SAFETY: every output has all positions of whole blocks.
        unsafe {
            self.kernels.set_gather(
                stream,
                Grid::Items(u64::from(padded) * u64::from(words)),
                order.address(stream),
                rows.count,
                padded,
                words,
                signatures.signatures.address(stream),
                rows.sizes.address(stream),
                signatures.ones.address(stream),
                rows.groups.as_ref().map(|groups| groups.address(stream)),
                rows.rows.address(stream),
                rows.starts.address(stream),
                out.signatures.address_mut(stream),
                out.sizes.address_mut(stream),
                out.known.address_mut(stream),
                out.ones.address_mut(stream),
                out.groups.address_mut(stream),
                out.rows.address_mut(stream),
                out.starts.address_mut(stream),
            )
        }
    }

    /// What the sets of each block of positions have in common.
    pub(crate) fn summaries(&self, stream: &CudaStream, columns: &mut SetPositions, count: u32) -> Launched {
        // SAFETY: there is a summary a block.
        unsafe {
            self.kernels.set_summaries(
                stream,
                Grid::Threads(count.div_ceil(BLOCK)),
                columns.sizes.address(stream),
                columns.known.address(stream),
                columns.ones.address(stream),
                columns.groups.address(stream),
                count,
                columns.summaries.address_mut(stream),
            )
        }
    }

    /// Which of the most frequent tokens each set has.
    pub(crate) fn frequent(
        &self,
        stream: &CudaStream,
        columns: &mut SetPositions,
        tokens: &Buffer<u32>,
        (count, ranks): (u32, u32),
    ) -> Launched {
        let Some(frequent) = &mut columns.frequent else { return Ok(()) };
        // SAFETY: there is an entry of so many words a position.
        unsafe {
            self.kernels.set_frequent(
                stream,
                Grid::Warps(count),
                columns.starts.address(stream),
                columns.known.address(stream),
                tokens.address(stream),
                count,
                ranks,
                frequent.address_mut(stream),
            )
        }
    }

    /// The first and one past the last build block for each of `blocks` probe blocks.
    pub(crate) fn windows(&self, stream: &CudaStream, sides: &SetSides, blocks: u32, out: &mut Windows) -> Launched {
        let SetSides { probe, build, condition, self_join, .. } = *sides;
        let (firsts, ends) = (out.firsts.address_mut(stream), out.ends.address_mut(stream));
        let grid = Grid::Threads(blocks);
        // SAFETY: the outputs have an entry a block, and the addresses are of live columns.
        unsafe {
            self.kernels.set_windows(stream, grid, probe, build, condition, 0, blocks, self_join.into(), firsts, ends)
        }
    }

    /// Appends the positions of pairs whose signatures, of `words` words, allow a match, for some probe positions.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        words: u32,
        tasks: TaskList<'_>,
        positions: Positions,
        out: &mut Appended<'_>,
    ) -> Launched {
        let filter = match words {
            8 => Kernels::set_filter_256,
            16 => Kernels::set_filter_512,
            32 => Kernels::set_filter_1024,
            _ => Kernels::set_filter_2048,
        };
        // SAFETY: the addresses are of live columns, with signatures of so many words.
        unsafe {
            filter(
                &self.kernels,
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
        sides: &SetSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        if let Some(FrequentTokens { of_probe, of_build, ranks }) = sides.frequent {
            // SAFETY: the threads share whatever number of candidates there is, and the addresses are of live columns.
            return unsafe {
                self.kernels.set_verify_frequent(
                    stream,
                    Grid::Blocks(self.blocks),
                    sides.probe,
                    sides.build,
                    sides.condition,
                    of_probe,
                    of_build,
                    ranks,
                    candidates.pairs.address(stream),
                    candidates.count.address(stream),
                    candidates.capacity,
                    out.pairs.address_mut(stream),
                    out.count.address_mut(stream),
                    out.capacity,
                )
            };
        }
        // SAFETY: as above, for warps.
        unsafe {
            self.kernels.set_verify(
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
