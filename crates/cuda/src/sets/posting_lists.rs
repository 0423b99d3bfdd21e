//! Which positions of a build side have each token: of its prefixes, or of whole sets.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{KeyedRows, PostingsOnDevice};
use crate::memory::Budget;
use crate::replicate::replicate;
use crate::sort::sort;
use crate::wait::wait;

/// Lists take one of so many shares of what memory is left at most: the rest is for probe batches.
const SHARES: usize = 4;
/// Bytes of a posting while it is sorted.
const BYTES_OF_POSTING: usize = 2 * size_of::<u64>() + 4 * size_of::<u32>();

/// Lists of positions, ascending, one for each token.
#[derive(Debug)]
pub(super) struct PostingLists {
    starts: Buffer<u32>,
    positions: Buffer<u32>,
}

impl PostingLists {
    /// Whether there is room for the lists of so many tokens of sets.
    pub(super) fn have_room(budget: &Budget, tokens: u64) -> bool {
        tokens as usize <= budget.available() / (SHARES * BYTES_OF_POSTING)
    }

    /// The lists of tokens below `ranks`, from so many records of a token and a position, ascending by positions.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (records, count): (KeyedRows, u32),
        ranks: u32,
    ) -> Result<Self, Fault> {
        let bits = u32::BITS - ranks.leading_zeros();
        let KeyedRows { keys, rows } = sort(budget, stream, records, count, bits)?;
        let mut starts = budget.buffer(stream, ranks as usize + 1)?;
        budget.device.kernels().prefixes()?.starts(stream, &keys, count, ranks, &mut starts)?;
        wait(stream)?;
        Ok(Self { starts, positions: rows })
    }

    pub(super) fn on_device(&self, stream: &CudaStream) -> PostingsOnDevice {
        PostingsOnDevice { starts: self.starts.address(stream), positions: self.positions.address(stream) }
    }
}

replicate!(PostingLists { starts, positions });
