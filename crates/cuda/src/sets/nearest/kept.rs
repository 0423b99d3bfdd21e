//! What a ranking of sets keeps of its build side.

use std::sync::Arc;

use super::inverted_index::InvertedIndex;
use crate::buffer::Buffer;
use crate::kernels::SetSigner;
use crate::memory::Budget;
use crate::sets::sorted::SortedSets;
use similarity_engine::sets::Dictionary;
use similarity_engine::sets::rows_by_rank::RowsByRank;
use similarity_measures::{SetMeasure, Tokenizer};

/// The sets of a build side, and what ranks them.
#[derive(Debug)]
pub(super) struct SetsOnDevice {
    pub(super) budget: Budget,
    pub(super) tokenizer: Tokenizer,
    pub(super) measure: SetMeasure,
    pub(super) dictionary: Arc<Dictionary>,
    pub(super) signer: SetSigner,
    pub(super) sets: SortedSets,
    /// Where tokens are rare enough, and there is room for it.
    pub(super) inverted: Option<InvertedIndex>,
    pub(super) scored: Arc<RowsByRank>,
    /// Ranks by row; none where all are 0.
    pub(super) ranks: Option<Buffer<u32>>,
}
