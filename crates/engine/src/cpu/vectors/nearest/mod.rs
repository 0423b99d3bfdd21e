//! The nearest rows of a build side for each row of a probe side.
//!
//! The points of a leaf of the probe side are searched together. With boxes, the nearer part of a node is visited
//! first, and what is farther than the worst neighbour so far of any of them is passed over. Without, the leaves with
//! the nearest centres come first, and then all others in order, for several leaves of the probe side at once.

mod collected;
mod ranked;
mod ranking;
mod tops;
mod walk;

use crate::error::{Result, internal_err};

use self::ranked::NearestBlocks;
use self::walk::{Centres, Scratch, Walk};
use super::blocks::has_boxes;
use super::blocks::{Blocks, LeafOf};
use super::frame::Frame;
use super::lanes::Real;
use super::metric::{Chebyshev, Euclidean, Halves, Manhattan, Metric};
use super::points::{Points, Vectors};
use super::reach::{Reach, Sum};
use super::sorted::Side;
use crate::condition::VectorCondition;
use crate::nearest::{Best, DynNearestIndex, NearestIndex};
use crate::{BuildContext, Cancel, Counts, Erased, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};
use similarity_measures::VectorMeasure;

/// Makes the vectors of `keys`, each row with a rank, ready for being ranked by `measure`, one of this crate's own.
///
/// # Errors
/// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build.
pub fn build(
    measure: VectorMeasure,
    keys: &KeyColumn,
    ranks: Vec<u32>,
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    (context.reserve)(Vectors::memory_of(&keys.values))?;
    let points = Points::try_new(&VectorCondition::every_score(measure), keys, None, &context.preparing())?;
    match measure {
        VectorMeasure::L1 => with_metric::<Manhattan>(measure, points, ranks, context),
        VectorMeasure::Linf => with_metric::<Chebyshev>(measure, points, ranks, context),
        VectorMeasure::L2 | VectorMeasure::Cosine => with_metric::<Euclidean>(measure, points, ranks, context),
        other => internal_err!("{} ranks by no index", other.name()),
    }
}

fn with_metric<M: Metric>(
    measure: VectorMeasure,
    points: Points,
    ranks: Vec<u32>,
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    let frame = Frame::of(&points, measure);
    let norm = frame.typical_norm(&points, measure);
    let suits_halves = || {
        let reach = Reach::of_sum(measure, M::SUM, points.dimension, frame.typical_gap(&points, measure), (norm, norm));
        M::SUM == Sum::Squares && !has_boxes(points.dimension) && reach.suits_halves::<f32>(norm)
    };
    Ok(match points.suit_single_precision(norm) {
        false => Box::new(Erased(NearestBlocks::<f64, M>::try_new(measure, frame, points, ranks, context)?)),
        true if suits_halves() => {
            Box::new(Erased(NearestBlocks::<f32, Halves>::try_new(measure, frame, points, ranks, context)?))
        }
        true => Box::new(Erased(NearestBlocks::<f32, M>::try_new(measure, frame, points, ranks, context)?)),
    })
}

impl<R: Real, M: Metric> Index for NearestBlocks<R, M> {
    type Batch = PreparedPoints<R>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedPoints<R>>> {
        let dimension = (!self.side.is_empty()).then_some(self.side.blocks.dimension);
        let points = Points::try_new(&VectorCondition::every_score(self.measure), keys, dimension, context)?;
        context.cancel.check()?;
        if self.side.is_empty() {
            return Ok(Prepared::new(PreparedPoints { side: None, order: Vec::new() }, 0, keys.values.len()));
        }
        let context = BuildContext::new(context.threads, context.cancel, &|_| Ok(()));
        let side = Side::<R>::try_new::<M>(
            &VectorCondition::every_score(self.measure),
            &self.frame,
            points,
            Some(&self.side),
            &context,
        )?;
        let order = side.order();
        let (len, unmatchable) = (order.len(), side.unmatchable);
        Ok(Prepared::new(PreparedPoints { side: Some(side), order }, len, unmatchable))
    }
}

impl<R: Real, M: Metric> NearestIndex for NearestBlocks<R, M> {
    fn order<'a>(&'a self, probe: Probe<'a, PreparedPoints<R>>) -> Result<&'a [u32]> {
        match (probe, &self.self_join_order) {
            (Probe::Batch(batch), _) => Ok(&batch.order),
            (Probe::SelfJoin, Some(order)) => Ok(order),
            (Probe::SelfJoin, None) => internal_err!("a nearest index was not built for a self-join"),
        }
    }

    fn nearest(
        &self,
        probe: Probe<'_, PreparedPoints<R>>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let mut counts = Counts::default();
        let probe = match probe {
            Probe::SelfJoin => Some(&self.side),
            Probe::Batch(batch) => batch.side.as_ref(),
        };
        let Some(probe) = probe else { return Ok(counts) };
        let blocks = &probe.blocks;
        let mut spare: Vec<Scratch<R>> = Vec::new();
        let mut done = 0;
        while done < positions.len() && !cancel.is_cancelled() {
            let position = positions[done] as usize;
            if position >= blocks.len() {
                let at = position - blocks.len();
                let group = probe.unfilterable.groups[at];
                counts.candidates += self.offer_one_by_one(group, probe.unfilterable(at), true, &mut best[done]);
                done += 1;
                continue;
            }
            let some = self.abreast(blocks, &positions[done..]);
            let mut walks = Vec::new();
            let (mut positions, mut best) = (&positions[done..done + some], &mut best[done..done + some]);
            while let [first, ..] = positions {
                let leaf = blocks.leaf_of(*first as usize);
                let end = blocks.leaves[leaf].first + blocks.leaves[leaf].len;
                let self_join = positions.iter().take_while(|&&position| position < end).count();
                let (now, later) = std::mem::take(&mut best).split_at_mut(self_join);
                let scratch = spare.pop().unwrap_or_default();
                walks.push(Walk::<R, M>::new(self, LeafOf { blocks, leaf }, &positions[..self_join], now, scratch));
                (positions, best) = (&positions[self_join..], later);
            }
            self.run(&mut walks, cancel);
            for mut walk in walks {
                walk.finish();
                counts.candidates += walk.candidates;
                counts.verified += walk.verified;
                spare.push(walk.scratch);
            }
            done += some;
        }
        Ok(counts)
    }
}

impl<R: Real, M: Metric> NearestBlocks<R, M> {
    /// How many of `positions`, the first of which is in a leaf, are searched at once: those of the leaf, or where
    /// leaves are visited in order those of its group.
    fn abreast(&self, probe: &Blocks<R>, positions: &[u32]) -> usize {
        let leaf = probe.leaf_of(positions[0] as usize);
        let end = match self.side.blocks.width {
            0 => probe.positions_of(probe.group_of(leaf)).end,
            _ => (probe.leaves[leaf].first + probe.leaves[leaf].len) as usize,
        };
        positions.partition_point(|&position| (position as usize) < end)
    }

    fn run(&self, walks: &mut [Walk<'_, R, M>], cancel: &Cancel) {
        let Some(first) = walks.first() else { return };
        let build = &self.side.blocks;
        let group = first.probe.blocks.group_of(first.probe.leaf);
        walks.iter_mut().for_each(|walk| walk.offer_unfilterable(group));
        let nodes = build.nodes_of(group);
        if nodes.is_empty() {
            return;
        }
        if build.width > 0 {
            walks.iter_mut().for_each(|walk| walk.by_boxes(nodes.start, cancel));
            return;
        }
        let leaves = build.leaves_of(nodes);
        let centres: Vec<Centres<R>> = walks.iter_mut().map(|walk| walk.nearest_leaves(leaves.clone())).collect();
        // each leaf is fetched once for all walks
        for leaf in leaves {
            if cancel.is_cancelled() {
                return;
            }
            for (walk, centres) in walks.iter_mut().zip(&centres) {
                walk.visit_unless_far(leaf, centres);
            }
        }
    }
}

/// A batch of the probe side.
#[derive(Debug)]
struct PreparedPoints<R> {
    /// Arranged rows of the batch; `None` where the build side has no rows.
    side: Option<Side<R>>,
    /// The rows of the blocks, then the unfilterable ones.
    order: Vec<u32>,
}
