//! The strings of one side on the device, in the order in which blocks of them are compared.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::StringColumns;
use crate::block_ranges::BLOCK;
use crate::fault::Fault;
use crate::kernels::{CodedStringsOnDevice, SignerOnDevice, SymbolBuffer, TextPositions, TextSignatures};
use crate::memory::{Budget, Buffer};
use crate::sort::sort;
use crate::tiled_index::Side;

/// Bits of a sort key below the group.
const KEY_BITS: u32 = 24;

/// Words of 32 bits of a signature.
const WORDS: usize = 8;

/// How the strings of both sides set bits, on the device.
#[derive(Debug)]
pub(super) struct Signer {
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

/// The strings of one side, one a position, ordered by group, length and how little their signatures say.
#[derive(Debug)]
pub(crate) struct SortedStrings {
    columns: TextPositions,
    symbols: SymbolBuffer,
    pub(super) count: u32,
    pub(super) unmatchable: usize,
}

impl Side for SortedStrings {
    fn count(&self) -> u32 {
        self.count
    }

    fn rows(&self, budget: &Budget, positions: Range<usize>) -> Result<Vec<u32>, Fault> {
        budget.fetch(&self.columns.rows, positions)
    }
}

impl SortedStrings {
    /// Uploads `texts` and puts them into order.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        texts: &StringColumns,
        signer: &Signer,
    ) -> Result<Self, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let count = texts.rows.len() as u32;
        let padded = count.next_multiple_of(BLOCK) as usize;
        let kernels = budget.device.edits()?;
        let rows = texts.upload(budget, stream)?;
        let mut of_rows = signatures(budget, stream, count as usize)?;
        let mut keys = budget.buffer(stream, count as usize)?;
        let mut order = budget.buffer(stream, count as usize)?;
        let mut columns = TextPositions {
            signatures: signatures(budget, stream, padded)?,
            lengths: budget.buffer(stream, padded)?,
            groups: budget.buffer(stream, padded)?,
            rows: budget.buffer(stream, padded)?,
            starts: budget.buffer(stream, padded)?,
            summaries: budget.buffer(stream, padded / BLOCK as usize)?,
        };
        if count > 0 {
            let (by, sorted_by) = (signer.on_device(stream), (&mut keys, &mut order));
            kernels.signatures(stream, &rows, &by, signer.by_characters, &mut of_rows, sorted_by)?;
            let groups = texts.groups.iter().max().map_or(0, |&last| u32::BITS - last.leading_zeros());
            let (_, order) = sort(budget, stream, keys, order, count, KEY_BITS + groups)?;
            kernels.gather(stream, &rows, &of_rows, &order, padded as u32, &mut columns)?;
            kernels.summaries(stream, &mut columns, count)?;
        }
        stream.synchronize()?;
        Ok(Self { columns, symbols: rows.symbols, count, unmatchable: texts.unmatchable })
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u32 {
        self.count.div_ceil(BLOCK)
    }

    /// The columns as kernels read them, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> CodedStringsOnDevice {
        let columns = &self.columns;
        CodedStringsOnDevice {
            characters: columns.signatures.characters.address(stream),
            bigrams: columns.signatures.bigrams.address(stream),
            character_excess: columns.signatures.character_excess.address(stream),
            bigram_excess: columns.signatures.bigram_excess.address(stream),
            lengths: columns.lengths.address(stream),
            prefixes: columns.signatures.prefixes.address(stream),
            groups: columns.groups.address(stream),
            rows: columns.rows.address(stream),
            starts: columns.starts.address(stream),
            symbols: self.symbols.address(stream),
            summaries: columns.summaries.address(stream),
            count: self.count,
            unused: 0,
        }
    }
}

/// Room for the signatures of so many strings.
fn signatures(budget: &Budget, stream: &Arc<CudaStream>, count: usize) -> Result<TextSignatures, Fault> {
    Ok(TextSignatures {
        characters: budget.buffer(stream, count * WORDS)?,
        bigrams: budget.buffer(stream, count * WORDS)?,
        character_excess: budget.buffer(stream, count)?,
        bigram_excess: budget.buffer(stream, count)?,
        prefixes: budget.buffer(stream, count)?,
    })
}
