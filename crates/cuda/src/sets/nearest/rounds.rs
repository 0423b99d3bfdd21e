//! What is launched to rank sets: blocks of about the same size first.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::kept::SetsOnDevice;
use crate::fault::Fault;
use crate::kernels::constants::nearest::BY_SCORE;
use crate::kernels::{Appended, BLOCK, NearestSets, Round, Searched, SetRanking, TaskList};
use crate::nearest::{Rounds, ScoreOrder};
use crate::sets::sorted::SortedSets;

/// Blocks that give first bounds, beside those that hold the wanted rows.
const SEEDS: u32 = 3;
/// How far the first rounds look, by how much of a full score is missing. By design, not measured.
const SHARES: [f32; 3] = [0.3, 0.5, 0.7];
/// Pairs that a launch compares by 256 bits of their signatures. By design, not measured.
const PAIRS_OF_LAUNCH: u64 = 1 << 35;
/// Words of 256 bits.
const FEWEST_WORDS: u32 = 8;

/// How scores order rows.
pub(super) const SCORE_ORDER: ScoreOrder =
    ScoreOrder { descending: true, reach_by: BY_SCORE, dimension: 0, rounding: (1.0, 0.0) };

/// A probe side, and the build side that is ranked for it, as kernels read them.
pub(super) fn sides(index: &SetsOnDevice, probe: &SortedSets, stream: &CudaStream) -> NearestSets {
    let measure = index.measure;
    let by = SetRanking {
        weights: measure.weights().get(),
        measure: measure.number(),
        is_reversed: measure.is_reversed().into(),
    };
    NearestSets {
        probe: probe.on_device(stream),
        build: index.sets.on_device(stream),
        by,
        words: index.signer.words,
        ranks: index.ranks.as_ref().map(|ranks| ranks.address(stream)),
    }
}

/// A probe side, and the build side that is ranked for it by signatures.
pub(super) struct SetRounds<'a> {
    index: &'a SetsOnDevice,
    sides: NearestSets,
}

impl<'a> SetRounds<'a> {
    pub(super) fn new(index: &'a SetsOnDevice, probe: &'a SortedSets, stream: &CudaStream) -> Self {
        Self { index, sides: sides(index, probe, stream) }
    }
}

impl Rounds for SetRounds<'_> {
    fn build_blocks(&self) -> u32 {
        self.index.sets.blocks()
    }

    fn score_order(&self) -> ScoreOrder {
        SCORE_ORDER
    }

    fn seed_counts(&self, wanted: usize) -> (u32, u32) {
        ((wanted as u32).div_ceil(BLOCK) + SEEDS, 0)
    }

    fn shares(&self) -> &[f32] {
        &SHARES
    }

    fn samples(&self) -> bool {
        true
    }

    fn pairs_of_launch(&self) -> u64 {
        PAIRS_OF_LAUNCH / u64::from(self.index.signer.words / FEWEST_WORDS)
    }

    fn seeds(&self, stream: &Arc<CudaStream>, searched: Searched) -> Result<(), Fault> {
        self.index.budget.device.kernels().nearest_sets()?.seeds(stream, &self.sides, searched)
    }

    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let kernels = self.index.budget.device.kernels().nearest_sets()?;
        kernels.filter(stream, &self.sides, searched, tasks, round, out)
    }

    fn offer(&self, stream: &Arc<CudaStream>, searched: Searched, candidates: &Appended<'_>) -> Result<(), Fault> {
        self.index.budget.device.kernels().nearest_sets()?.offer(stream, &self.sides, searched, candidates)
    }
}
