//! A build side that is ranked: its vectors in blocks, and what decides between equal scores.

use std::marker::PhantomData;

use similarity_measures::VectorMeasure;

use super::super::lanes::Real;
use super::super::metric::Metric;
use super::super::sorted::Side;
use super::ranking::Tie;
use crate::condition::VectorCondition;
use crate::error::Result;
use crate::nearest::{Best, float_key};
use crate::vectors::frame::Frame;
use crate::vectors::points::Points;
use crate::{BuildContext, IndexInfo};

/// A build side's vectors, ready for being ranked.
#[derive(Debug)]
pub(super) struct NearestBlocks<R, M> {
    pub(super) measure: VectorMeasure,
    pub(super) frame: Frame,
    pub(super) side: Side<R>,
    /// What decides between equal scores, by position.
    pub(super) ties: Vec<Tie>,
    /// What decides between equal scores, by unfilterable row.
    pub(super) unfilterable_ties: Vec<Tie>,
    /// Rows of the build side as those that get neighbours, in a self-join.
    pub(super) self_join_order: Option<Vec<u32>>,
    pub(super) info: IndexInfo,
    pub(super) metric: PhantomData<fn() -> M>,
}

impl<R: Real, M: Metric> NearestBlocks<R, M> {
    pub(super) fn try_new(
        measure: VectorMeasure,
        frame: Frame,
        points: Points,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let side = Side::try_new::<M>(&VectorCondition::every_score(measure), &frame, points, None, context)?;
        let self_join_order = context.self_join.then(|| side.order());
        let tie = |&row: &u32| Tie::new(ranks[row as usize], row);
        let ties: Vec<Tie> = side.blocks.rows.iter().map(tie).collect();
        let unfilterable_ties: Vec<Tie> = side.unfilterable.rows.iter().map(tie).collect();
        let of_order = self_join_order.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        let of_side = side.info();
        let info = IndexInfo {
            bytes: of_side.bytes + (ties.capacity() + unfilterable_ties.capacity()) * size_of::<Tie>() + of_order,
            self_join_len: self_join_order.as_ref().map_or(0, Vec::len),
            ..of_side
        };
        Ok(Self { measure, frame, side, ties, unfilterable_ties, self_join_order, info, metric: PhantomData })
    }

    /// A score as an integer, less being better.
    pub(super) fn key(&self, score: f64) -> i64 {
        if self.measure.is_distance() { float_key(score) } else { !float_key(score) }
    }

    pub(super) fn offer(&self, tie: Tie, build: &[f64], probe: &[f64], best: &mut Best<i64>) {
        if let Some(score) = self.measure.score(build, probe) {
            best.offer(tie.neighbour(self.key(score)));
        }
    }

    /// Offers all unfilterable rows of a group, and where `all` is set the filterable ones, too.
    pub(super) fn offer_one_by_one(&self, group: u32, vector: &[f64], all: bool, best: &mut Best<i64>) -> usize {
        let Side { blocks, unfilterable, .. } = &self.side;
        for at in (0..unfilterable.len()).filter(|&at| unfilterable.groups[at] == group) {
            self.offer(self.unfilterable_ties[at], self.side.unfilterable(at), vector, best);
        }
        let positions = if all { blocks.positions_of(group) } else { 0..0 };
        let compared = unfilterable.len() + positions.len();
        positions.for_each(|position| self.offer(self.ties[position], blocks.vector(position), vector, best));
        compared
    }
}
