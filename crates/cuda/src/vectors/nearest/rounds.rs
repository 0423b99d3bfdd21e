//! What is launched to rank vectors: nearby blocks first; in few dimensions these say enough.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::nearest::{BY_COSINE, BY_DISTANCE};
use crate::kernels::constants::vector_measure::COSINE;
use crate::kernels::constants::vectors::STEP;
use crate::kernels::{Appended, BLOCK, NearestVectors, Round, Searched, TaskList, VectorCondition};
use crate::memory::Budget;
use crate::nearest::{Rounds, ScoreOrder};
use crate::vectors::sorted::SortedPoints;

/// Blocks that say first how far neighbours are, beside those that hold the wanted rows: in few dimensions the nearest
/// to the first and to the last point of a block.
const CORNERS: u32 = 2;
const SEEDS: u32 = 3;
/// Dimensions up to which the seeds are so near that all that is left is compared in one round.
pub const FEW_DIMENSIONS: u32 = 4;
/// Pairs that a launch compares by `STEP` numbers of them, and at least; in few dimensions, where boxes leave few of
/// them.
const PAIRS_OF_LAUNCH: u64 = 1 << 35;
const LEAST_PAIRS: u64 = 1 << 30;
const FEW_PAIRS_OF_LAUNCH: u64 = 1 << 38;

/// Two sides, and how scores order their rows.
#[derive(Clone, Copy)]
pub(super) struct VectorRounds<'a> {
    pub(super) budget: &'a Budget,
    pub(super) probe: &'a SortedPoints,
    pub(super) build: &'a SortedPoints,
    pub(super) condition: VectorCondition,
    /// The rank of each build row, none where all have the same.
    pub(super) ranks: Option<&'a Buffer<u32>>,
    pub(super) descending: bool,
    /// What rounding adds to a reach: a factor, and for each unit of the points' norms.
    pub(super) rounding: (f32, f32),
}

impl VectorRounds<'_> {
    fn is_flat(&self) -> bool {
        self.condition.dimension <= FEW_DIMENSIONS
    }

    fn sides(&self, stream: &CudaStream) -> NearestVectors {
        NearestVectors {
            probe: self.probe.on_device(stream),
            build: self.build.on_device(stream),
            condition: self.condition,
            ranks: self.ranks.map(|ranks| ranks.address(stream)),
        }
    }
}

impl Rounds for VectorRounds<'_> {
    fn build_blocks(&self) -> u32 {
        self.build.blocks()
    }

    fn score_order(&self) -> ScoreOrder {
        let VectorCondition { measure, dimension, .. } = self.condition;
        let reach_by = if measure == COSINE { BY_COSINE } else { BY_DISTANCE };
        ScoreOrder { descending: self.descending, reach_by, dimension, rounding: self.rounding }
    }

    fn seed_counts(&self, wanted: usize) -> (u32, u32) {
        let holding = (wanted as u32).div_ceil(BLOCK);
        if self.is_flat() { (holding + CORNERS, CORNERS) } else { (holding + SEEDS, 0) }
    }

    fn shares(&self) -> &[f32] {
        &[]
    }

    fn samples(&self) -> bool {
        !self.is_flat()
    }

    fn pairs_of_launch(&self) -> u64 {
        let steps = u64::from(self.condition.dimension.div_ceil(STEP));
        if self.is_flat() { FEW_PAIRS_OF_LAUNCH } else { (PAIRS_OF_LAUNCH / steps).max(LEAST_PAIRS) }
    }

    fn seeds(&self, stream: &Arc<CudaStream>, searched: Searched) -> Result<(), Fault> {
        self.budget.device.kernels().nearest_vectors()?.seeds(stream, &self.sides(stream), searched)
    }

    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let kernels = self.budget.device.kernels().nearest_vectors()?;
        kernels.filter(stream, &self.sides(stream), searched, tasks, round, out)
    }

    fn offer(&self, stream: &Arc<CudaStream>, searched: Searched, candidates: &Appended<'_>) -> Result<(), Fault> {
        self.budget.device.kernels().nearest_vectors()?.offer(stream, &self.sides(stream), searched, candidates)
    }
}
