//! What ranks the rows of a build side on a device, wherever their vectors are.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::error::Result;

use super::rounds::VectorRounds;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::VectorCondition;
use crate::memory::Budget;
use crate::nearest::{has_room, search};
use crate::replicate::{Copying, Replicate, replicate};
use crate::vectors::columns::Framing;
use crate::vectors::condition::{ROWS_UNCHECKED, halves_scale, vector_test};
use crate::vectors::sorted::{PackedPoints, PointSigner, SortedPoints};
use crate::wait::wait;
use similarity_engine::condition;
use similarity_engine::nearest::{Best, Neighbour, Wanted, float_key};
use similarity_engine::vectors::frame::Frame;
use similarity_engine::vectors::points::{Points, Vectors};
use similarity_engine::vectors::reach::{Reach, Sum};
use similarity_engine::{BuildContext, Cancel, KeyColumn, PrepareContext};
use similarity_measures::VectorMeasure;

/// Numbers of probe rows that are made ready at once.
pub(super) const NUMBERS_AT_ONCE: usize = 1 << 26;

/// A build side on the host, and how vectors are arranged and compared with its own on a device.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) budget: Budget,
    pub(super) measure: VectorMeasure,
    condition: VectorCondition,
    in_halves: bool,
    framing: Framing,
    /// Whether only rows of the same group are compared.
    pub(super) grouped: bool,
    pub(super) host: Arc<Points>,
    /// What decides between equal scores, by row; none where all have the same.
    ranks: Option<Arc<[u32]>>,
}

/// Rows of a build side on the device.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) vectors: SortedPoints,
    ranks: Option<Buffer<u32>>,
    /// The build row that is the first one here.
    pub(super) first: u32,
}

impl Replicate for Ranking {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        to.needs_tensor_cores(self.in_halves)?;
        Ok(Self {
            budget: to.budget.clone(),
            measure: self.measure,
            condition: self.condition,
            in_halves: self.in_halves,
            framing: self.framing.replicate(to)?,
            grouped: self.grouped,
            host: Arc::clone(&self.host),
            ranks: self.ranks.clone(),
        })
    }
}

replicate!(Part { vectors, ranks; same first });

impl Ranking {
    /// Ranking of the vectors of `keys`, each row with a rank. It is `None` where there are no kernels: for measures
    /// that no index ranks by, for rows that no filter tells apart, for no vectors at all, and for vectors that single
    /// precision does not tell apart.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build, a
    /// device that fails.
    pub(super) fn try_new(
        budget: &Budget,
        measure: VectorMeasure,
        keys: &KeyColumn,
        (ranks, wanted): (&[u32], Wanted),
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        let sum = match measure {
            _ if !measure.is_ranked() || !has_room(wanted) => return Ok(None),
            VectorMeasure::L1 | VectorMeasure::Linf => Sum::Distance,
            _ => Sum::Squares,
        };
        (context.reserve)(Vectors::memory_of(&keys.values))?;
        let query = condition::VectorCondition::every_score(measure);
        let points = Points::try_new(&query, keys, None, &context.preparing())?;
        context.cancel.check()?;
        let frame = Frame::of(&points, measure);
        let norm = frame.typical_norm(&points, measure);
        let has_points = !points.filterable.is_empty() && points.dimension > 0;
        if !has_points || !points.unfilterable.is_empty() || !points.suit_single_precision(norm) {
            return Ok(None);
        }
        let gap = frame.typical_gap(&points, measure);
        let reach = Reach::of_sum(measure, sum, points.dimension, gap, (norm, norm));
        let condition = vector_test(&query, &reach, points.dimension);
        let halves = halves_scale(&condition, frame.typical_largest(&points), norm);
        let halves = halves.filter(|_| sum == Sum::Squares && budget.device.has_tensor_cores());
        let grouped = keys.groups.is_some();
        Ok(Some(Self {
            budget: budget.clone(),
            measure,
            condition: VectorCondition { scale: halves.unwrap_or(1.0), ..condition },
            in_halves: halves.is_some(),
            framing: Framing::try_new(budget, &budget.device.stream()?, &frame, &points, grouped)?,
            grouped,
            host: Arc::new(points),
            ranks: ranks.iter().any(|&rank| rank != ranks[0]).then(|| Arc::from(ranks)),
        }))
    }

    /// What compares them, for EXPLAIN ANALYZE.
    pub(super) fn describe(&self) -> String {
        let filter = if self.in_halves { "half precision on tensor cores" } else { "single precision" };
        let (device, dimension) = (&self.budget.device, self.condition.dimension);
        format!("blocks along a curve over {dimension} dimensions ({device}, {filter})")
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let ranks = self.ranks.as_ref().map_or(0, |ranks| ranks.len());
        self.host.filterable.memory() + self.host.vectors.memory() + ranks * size_of::<u32>()
    }

    /// The vectors of a probe batch.
    pub(super) fn probe_points(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Points> {
        let query = condition::VectorCondition::every_score(self.measure);
        let points = Points::try_new(&query, keys, Some(self.host.dimension), context)?;
        context.cancel.check()?;
        Ok(points)
    }

    /// Brings the filterable rows of `points` to the device.
    pub(super) fn arrange(&self, stream: &Arc<CudaStream>, points: &Points) -> Result<SortedPoints, Fault> {
        let packed = PackedPoints { points, grouped: self.grouped };
        let signer = PointSigner { framing: &self.framing, condition: self.condition, in_halves: self.in_halves };
        SortedPoints::try_new(&self.budget, stream, &packed, &signer)
    }

    /// Brings the build rows of `points` there, whose first row is that of this number.
    pub(super) fn bring(&self, stream: &Arc<CudaStream>, points: &Points, first: u32) -> Result<Part, Fault> {
        let vectors = self.arrange(stream, points)?;
        let ranks = self.ranks.as_ref().map(|ranks| &ranks[first as usize..][..points.vectors.len()]);
        let ranks = ranks.map(|ranks| self.budget.upload(stream, ranks)).transpose()?;
        wait(stream)?;
        Ok(Part { vectors, ranks, first })
    }

    /// A score as an integer, less being better.
    fn key(&self, score: f64) -> i64 {
        if self.measure.is_distance() { float_key(score) } else { !float_key(score) }
    }

    /// Offers each of `best` the neighbours among `part` of its position in `probe`, and returns how many candidates
    /// there were.
    ///
    /// # Errors
    /// More ties than there is room for, too little memory, a device that fails.
    pub(super) fn search(
        &self,
        stream: &Arc<CudaStream>,
        (probe, part): (&SortedPoints, &Part),
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let wider = Reach::wider::<f32>(self.host.dimension);
        let rounds = VectorRounds {
            budget: &self.budget,
            probe,
            build: &part.vectors,
            condition: self.condition,
            ranks: part.ranks.as_ref(),
            descending: !self.measure.is_distance(),
            rounding: (wider.0 as f32 * (1.0 + f32::EPSILON), wider.1 as f32 * (1.0 + f32::EPSILON)),
        };
        search(&self.budget, stream, &rounds, positions, (best, part.first), cancel)
    }

    /// Offers the neighbours of a row of a probe batch that no filter tells apart, at its place among these, and
    /// returns how many rows were compared.
    pub(super) fn score_unfilterable(&self, probe: &Points, at: usize, best: &mut Best<i64>, cancel: &Cancel) -> usize {
        let (row, group) = (probe.unfilterable.rows[at], probe.unfilterable.groups[at]);
        let vector = probe.vectors.given(row as usize);
        let mut compared = 0;
        for (at, &row) in self.host.filterable.rows.iter().enumerate() {
            if at % ROWS_UNCHECKED == 0 && cancel.is_cancelled() {
                break;
            }
            if self.host.filterable.groups[at] != group {
                continue;
            }
            compared += 1;
            if let Some(score) = self.measure.score(self.host.filterable(at), vector) {
                let rank = self.ranks.as_ref().map_or(0, |ranks| ranks[row as usize]);
                best.offer(Neighbour { score: self.key(score), rank, row });
            }
        }
        compared
    }
}
