//! What a ranking of strings keeps of its build side.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::memory::Budget;
use crate::strings::build_side::BuildSide;
use similarity_measures::EditMeasure;

/// The strings of a build side, and what ranks them.
#[derive(Debug)]
pub(super) struct StringsOnDevice {
    pub(super) budget: Budget,
    pub(super) measure: EditMeasure,
    pub(super) side: BuildSide,
    pub(super) ranks: Arc<[u32]>,
    /// Ranks on the device; none where all are 0.
    pub(super) ranks_on_device: Option<Buffer<u32>>,
    pub(super) groups: Option<Arc<[u32]>>,
    pub(super) threads: usize,
}
