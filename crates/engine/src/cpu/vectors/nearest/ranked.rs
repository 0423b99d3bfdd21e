//! A build side that is ranked: its vectors in blocks, and what decides between equal scores.

use std::marker::PhantomData;

use similarity_measures::VectorMeasure;

use super::super::build_tree::Role;
use super::super::clusters::Clustering;
use super::super::lanes::Real;
use super::super::metric::Metric;
use super::super::sorted::Side;
use super::approximate::{Approximate, Asked};
use super::ranking::{Ranking, Tie};
use crate::condition::VectorCondition;
use crate::cpu::kind::IndexKind;
use crate::error::Result;
use crate::nearest::{Best, float_key};
use crate::stored::{Sink, Source, Store, Stored};
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
    /// What is asked of it, and what becomes of that, where neighbours may be missed.
    pub(super) approximate: Option<Approximate>,
    pub(super) metric: PhantomData<fn() -> M>,
}

impl<R: Real, M: Metric> Store for NearestBlocks<R, M> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Points.store(sink)?;
        R::IS_DOUBLE.store(sink)?;
        M::SUM.store(sink)?;
        let Self { frame, side, ties, unfilterable_ties, self_join_order, info, approximate, .. } = self;
        frame.store(sink)?;
        side.store(sink)?;
        ties.store(sink)?;
        unfilterable_ties.store(sink)?;
        self_join_order.store(sink)?;
        info.store(sink)?;
        approximate.store(sink)
    }
}

impl<R: Real, M: Metric> NearestBlocks<R, M> {
    /// Reads what follows the kind of numbers.
    pub(super) fn load(measure: VectorMeasure, source: &mut Source<'_>) -> Result<Self> {
        Ok(Self {
            measure,
            frame: Stored::load(source)?,
            side: Stored::load(source)?,
            ties: Stored::load(source)?,
            unfilterable_ties: Stored::load(source)?,
            self_join_order: Stored::load(source)?,
            info: Stored::load(source)?,
            approximate: Stored::load(source)?,
            metric: PhantomData,
        })
    }

    pub(super) fn try_new(
        measure: VectorMeasure,
        frame: Frame,
        points: Points,
        ranks: Vec<u32>,
        asked: Option<Asked>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let probe_rows = context.expected_probe_rows(points.filterable.len());
        let asked = asked.filter(|asked| Clustering::suits(points.dimension) && asked.is_shown_among(probe_rows));
        let role = Role::Build(asked.map(|_| Clustering { probe_rows }));
        (context.reserve)(asked.map_or(0, |_| ranks.len() * size_of::<u32>()))?;
        let side = Side::try_new::<M>(&VectorCondition::every_score(measure), &frame, points, role, context)?;
        let approximate = Approximate::of(asked, &side, ranks.len());
        let self_join_order = context.self_join.then(|| side.order());
        let tie = |&row: &u32| Tie::new(ranks[row as usize], row);
        let ties: Vec<Tie> = side.blocks.rows.iter().map(tie).collect();
        let unfilterable_ties: Vec<Tie> = side.unfilterable.rows.iter().map(tie).collect();
        let of_order = self_join_order.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        let of_side = side.info();
        let info = IndexInfo {
            bytes: of_side.bytes
                + (ties.capacity() + unfilterable_ties.capacity()) * size_of::<Tie>()
                + approximate.as_ref().map_or(0, Approximate::memory)
                + of_order,
            self_join_len: self_join_order.as_ref().map_or(0, Vec::len),
            ..of_side
        };
        let metric = PhantomData;
        Ok(Self { measure, frame, side, ties, unfilterable_ties, self_join_order, info, approximate, metric })
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

    /// Offers the points at some positions, in the order of their scores.
    #[inline(always)]
    pub(super) fn offer_ranked(&self, positions: &[u32], vector: &[f64], ranking: &mut Ranking, best: &mut Best<i64>) {
        // loops over so many numbers are unrolled
        match self.side.blocks.dimension {
            2 => self.offer_ranked_of::<2>(positions, vector, ranking, best),
            3 => self.offer_ranked_of::<3>(positions, vector, ranking, best),
            _ => self.offer_ranked_of::<ANY>(positions, vector, ranking, best),
        }
    }

    #[inline(always)]
    fn offer_ranked_of<const DIMENSION: usize>(
        &self,
        positions: &[u32],
        vector: &[f64],
        ranking: &mut Ranking,
        best: &mut Best<i64>,
    ) {
        let (blocks, vector) = (&self.side.blocks, numbers_of::<DIMENSION>(vector));
        for &position in positions {
            let position = position as usize;
            if let Some(score) = self.measure.score(numbers_of::<DIMENSION>(blocks.vector(position)), vector) {
                ranking.push(self.key(score), self.ties[position]);
            }
        }
        best.offer_ranked(ranking.take());
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

/// Stands for numbers of any dimension.
const ANY: usize = 0;

/// A vector, whose length the compiler knows where it is not [`ANY`].
#[inline(always)]
fn numbers_of<const DIMENSION: usize>(vector: &[f64]) -> &[f64] {
    if DIMENSION == ANY { vector } else { &vector[..DIMENSION] }
}
