//! What is launched to rank strings: blocks of about the same length first.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_measures::EditKernel;

use super::kept::StringsOnDevice;
use crate::fault::Fault;
use crate::kernels::constants::nearest::BY_SCORE;
use crate::kernels::{Appended, BLOCK, EditRanking, NearestStrings, Round, Searched, TaskList};
use crate::nearest::{Rounds, ScoreOrder};
use crate::strings::sorted::SortedStrings;

/// Blocks that give first bounds, beside those that hold the wanted rows.
const SEEDS: u32 = 3;
/// How far the first rounds look, in edits for each character. By design, not measured.
const SHARES: [f32; 4] = [0.1, 0.2, 0.3, 0.45];
/// Pairs that a launch compares by their signatures. By design, not measured.
const PAIRS_OF_LAUNCH: u64 = 1 << 35;

/// A probe side, and the build side that is ranked for it.
pub(super) struct StringRounds<'a> {
    index: &'a StringsOnDevice,
    probe: &'a SortedStrings,
    by: EditRanking,
    decision: EditKernel,
}

impl<'a> StringRounds<'a> {
    pub(super) fn new(index: &'a StringsOnDevice, probe: &'a SortedStrings) -> Self {
        let measure = index.measure;
        let by = EditRanking {
            weights: measure.weights().get(),
            measure: measure.number(),
            torn: measure.operations().map_or(0, |operations| operations.torn_bigrams as u32),
            is_distance: measure.is_distance().into(),
            needs_equal_lengths: measure.needs_equal_lengths().into(),
        };
        // a measure without one is not ranked here
        let decision = measure.descriptor().kernel.unwrap_or(EditKernel::Levenshtein);
        Self { index, probe, by, decision }
    }

    fn sides(&self, stream: &CudaStream) -> NearestStrings {
        NearestStrings {
            probe: self.probe.on_device(stream),
            build: self.index.side.texts.on_device(stream),
            by: self.by,
            decision: self.decision,
            is_small: self.index.side.alphabet.is_small(),
            ranks: self.index.ranks_on_device.as_ref().map(|ranks| ranks.address(stream)),
        }
    }
}

impl Rounds for StringRounds<'_> {
    fn build_blocks(&self) -> u32 {
        self.index.side.texts.blocks()
    }

    fn score_order(&self) -> ScoreOrder {
        let descending = !self.index.measure.is_distance();
        ScoreOrder { descending, reach_by: BY_SCORE, dimension: 0, rounding: (1.0, 0.0) }
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
        PAIRS_OF_LAUNCH
    }

    fn seeds(&self, stream: &Arc<CudaStream>, searched: Searched) -> Result<(), Fault> {
        self.index.budget.device.kernels().nearest_strings()?.seeds(stream, &self.sides(stream), searched)
    }

    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let kernels = self.index.budget.device.kernels().nearest_strings()?;
        kernels.filter(stream, &self.sides(stream), searched, tasks, round, out)
    }

    fn offer(&self, stream: &Arc<CudaStream>, searched: Searched, candidates: &Appended<'_>) -> Result<(), Fault> {
        self.index.budget.device.kernels().nearest_strings()?.offer(stream, &self.sides(stream), searched, candidates)
    }
}
