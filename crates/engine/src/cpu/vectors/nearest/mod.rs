//! The nearest rows of a build side for each row of a probe side.
//!
//! The points of a leaf of the probe side are searched together. With boxes, the nearer part of a node is visited
//! first, and what is farther than the worst neighbour so far of any of them is passed over. Without, the leaves with
//! the nearest centres come first, and then all others in order, for several leaves of the probe side at once.
//!
//! Where a query lets neighbours be missed, points are searched in some clusters alone (`clustered`), as many as a
//! sample shows to be needed (`calibration`).

mod approximate;
mod calibration;
mod clustered;
mod collected;
mod kept;
mod ranked;
mod ranking;
mod tops;
mod walk;

use crate::error::{Result, internal_err};

use self::approximate::Asked;
use self::calibration::Calibration;
use self::clustered::Clustered;
use self::ranked::NearestBlocks;
use self::walk::{Centres, Scratch, Walk};
use super::blocks::has_boxes;
use super::blocks::{Blocks, LeafOf};
use super::build_tree::Role;
use super::frame::Frame;
use super::lanes::{LANES, Real};
use super::metric::{Chebyshev, Euclidean, Halves, Manhattan, Metric};
use super::points::{Points, Vectors};
use super::reach::{Reach, Sum};
use super::sorted::Side;
use crate::condition::VectorCondition;
use crate::metrics::MetricValue;
use crate::nearest::{Best, DynNearestIndex, NearestIndex, Wanted};
use crate::recall::Recall;
use crate::stored::{Source, Store, Stored};
use crate::{BuildContext, Cancel, Counts, Erased, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};
use similarity_measures::VectorMeasure;

/// Makes the vectors of `keys`, each row with a rank, ready for being ranked by `measure`, one of this crate's own.
/// With a recall, some of the neighbours that are wanted may be missed.
///
/// # Errors
/// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build.
pub fn build(
    measure: VectorMeasure,
    keys: &KeyColumn,
    ranks: Vec<u32>,
    (recall, wanted): (Option<Recall>, Wanted),
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    let asked = recall.map(|recall| Asked { recall, wanted });
    (context.reserve)(Vectors::memory_of(&keys.values))?;
    let points = Points::try_new(&VectorCondition::every_score(measure), keys, None, &context.preparing())?;
    match measure {
        VectorMeasure::L1 => with_metric::<Manhattan>(measure, points, (ranks, asked), context),
        VectorMeasure::Linf => with_metric::<Chebyshev>(measure, points, (ranks, asked), context),
        VectorMeasure::L2 | VectorMeasure::Cosine => with_metric::<Euclidean>(measure, points, (ranks, asked), context),
        other => internal_err!("{} ranks by no index", other.name()),
    }
}

fn with_metric<M: Metric>(
    measure: VectorMeasure,
    points: Points,
    (ranks, asked): (Vec<u32>, Option<Asked>),
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    let frame = Frame::of(&points, measure);
    let norm = frame.typical_norm(&points, measure);
    let suits_halves = || {
        let reach = Reach::of_sum(measure, M::SUM, points.dimension, frame.typical_gap(&points, measure), (norm, norm));
        M::SUM == Sum::Squares && !has_boxes(points.dimension) && reach.suits_halves::<f32>(norm)
    };
    Ok(match points.suit_single_precision(norm) {
        false => Box::new(Erased(NearestBlocks::<f64, M>::build(measure, frame, points, ranks, asked, context)?)),
        true if suits_halves() => {
            Box::new(Erased(NearestBlocks::<f32, Halves>::build(measure, frame, points, ranks, asked, context)?))
        }
        true => Box::new(Erased(NearestBlocks::<f32, M>::build(measure, frame, points, ranks, asked, context)?)),
    })
}

/// Reads the index of [`build`] for the same measure.
///
/// # Errors
/// Bytes that are no such index.
pub fn load(measure: VectorMeasure, source: &mut Source<'_>) -> Result<Box<DynNearestIndex>> {
    match measure {
        VectorMeasure::L1 => load_with_metric::<Manhattan>(measure, source),
        VectorMeasure::Linf => load_with_metric::<Chebyshev>(measure, source),
        _ => load_with_metric::<Euclidean>(measure, source),
    }
}

fn load_with_metric<M: Metric>(measure: VectorMeasure, source: &mut Source<'_>) -> Result<Box<DynNearestIndex>> {
    let (is_double, sum) = (bool::load(source)?, Sum::load(source)?);
    Ok(match (is_double, sum) {
        (true, _) => Box::new(Erased(NearestBlocks::<f64, M>::load(measure, source)?)),
        (false, Sum::Halves) => Box::new(Erased(NearestBlocks::<f32, Halves>::load(measure, source)?)),
        (false, _) => Box::new(Erased(NearestBlocks::<f32, M>::load(measure, source)?)),
    })
}

impl<R: Real, M: Metric> Index for NearestBlocks<R, M> {
    type Batch = PreparedPoints<R>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.approximate.as_ref().map_or(Vec::new(), |approximate| approximate.counters.metrics())
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedPoints<R>>> {
        let dimension = (!self.side.is_empty()).then_some(self.side.blocks.dimension);
        let points = Points::try_new(&VectorCondition::every_score(self.measure), keys, dimension, context)?;
        context.cancel.check()?;
        if self.side.is_empty() {
            return Ok(Prepared::new(
                PreparedPoints { side: None, visited: None, order: Vec::new() },
                0,
                keys.values.len(),
            ));
        }
        let by = BuildContext::new(context.threads, context.cancel, &|_| Ok(()));
        let side = Side::<R>::try_new::<M>(
            &VectorCondition::every_score(self.measure),
            &self.frame,
            points,
            Role::Probe(&self.side),
            &by,
        )?;
        let visited = self.visited(&side, *context)?;
        let order = side.order();
        let (len, unmatchable) = (order.len(), side.unmatchable);
        Ok(Prepared::new(PreparedPoints { side: Some(side), visited, order }, len, unmatchable))
    }
}

impl<R: Real, M: Metric> NearestIndex for NearestBlocks<R, M> {
    fn misses(&self) -> bool {
        self.approximate.is_some()
    }

    fn positions_at_once(&self, probe: Probe<'_, PreparedPoints<R>>, wanted: usize) -> Result<usize> {
        Ok(match self.probed(probe) {
            // the more of them visit a cluster, the fewer lanes are empty
            (_, Some(visited)) => {
                (MOST_KEPT / wanted.max(1)).min(MOST_VISITS / visited.max(1)).clamp(LANES, MOST_AT_ONCE)
            }
            (_, None) => FEWEST_AT_ONCE,
        })
    }

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
        let (Some(probe), visited) = self.probed(probe) else { return Ok(Counts::default()) };
        let asked = self.approximate.as_ref().map(|approximate| approximate.asked.wanted);
        match (visited, best.first().map(Best::wanted)) {
            // the sample tells about as many neighbours alone
            (Some(visited), Some(wanted)) if Some(wanted) == asked => {
                Ok(self.search_clusters(probe, (visited, wanted), positions, best, cancel))
            }
            _ => Ok(self.search(probe, positions, best, cancel)),
        }
    }
}

/// Rows that are searched exactly at once.
const FEWEST_AT_ONCE: usize = 256;
/// Rows that are searched in clusters at once.
const MOST_AT_ONCE: usize = 4096;
/// Neighbours that are kept of them, about.
const MOST_KEPT: usize = 1 << 16;
/// Clusters that they visit, all together, about.
const MOST_VISITS: usize = 1 << 20;

impl<R: Real, M: Metric> NearestBlocks<R, M> {
    /// An index that knows how many clusters its own rows visit in a self-join.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    fn build(
        measure: VectorMeasure,
        frame: Frame,
        points: Points,
        ranks: Vec<u32>,
        asked: Option<Asked>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let mut index = Self::try_new(measure, frame, points, ranks, asked, context)?;
        if context.self_join {
            let visited = index.visited(&index.side, context.preparing())?;
            index.approximate.iter_mut().for_each(|approximate| approximate.self_join = visited);
        }
        Ok(index)
    }

    /// How many clusters the rows of a probe side visit; `None` where they are searched exactly.
    ///
    /// # Errors
    /// A cancelled query.
    fn visited(&self, probe: &Side<R>, context: PrepareContext<'_>) -> Result<Option<usize>> {
        let Some(approximate) = &self.approximate else { return Ok(None) };
        Calibration { index: self, probe, approximate, context }.visited()
    }

    /// The points that are searched for, and how many clusters they visit where they are not searched exactly.
    fn probed<'a>(&'a self, probe: Probe<'a, PreparedPoints<R>>) -> (Option<&'a Side<R>>, Option<usize>) {
        match probe {
            Probe::SelfJoin => (Some(&self.side), self.approximate.as_ref().and_then(|known| known.self_join)),
            Probe::Batch(batch) => (batch.side.as_ref(), batch.visited),
        }
    }

    /// Offers neighbours in some clusters, group by group; those of rows whose group has no clusters in all leaves.
    fn search_clusters(
        &self,
        probe: &Side<R>,
        (visited, wanted): (usize, Wanted),
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Counts {
        let (mut counts, blocks, mut done) = (Counts::default(), &probe.blocks, 0);
        while done < positions.len() && !cancel.is_cancelled() {
            let position = positions[done] as usize;
            let leaf = (position < blocks.len()).then(|| blocks.leaf_of(position));
            let group = leaf.map(|leaf| blocks.group_of(leaf));
            let end = group.map_or(usize::MAX, |group| blocks.positions_of(group).end);
            let some = positions[done..].partition_point(|&position| (position as usize) < end);
            let (positions, best) = (&positions[done..done + some], &mut best[done..done + some]);
            // a few points of a group are not side by side
            let has_lanes = leaf.is_some_and(|leaf| blocks.leaves[leaf].lanes.is_some());
            let of_group = match group.and_then(|group| self.side.blocks.clusters_of(group)).filter(|_| has_lanes) {
                Some(clusters) => {
                    let (index, probe, counters) = (self, blocks, self.approximate.as_ref().map(|a| &a.counters));
                    counters.into_iter().for_each(|counters| {
                        counters.searched.add(some);
                        counters.visited.add(some * visited.min(clusters.len()));
                    });
                    Clustered { index, clusters, probe, visited, wanted }.nearest(positions, best, cancel)
                }
                None => self.search(probe, positions, best, cancel),
            };
            counts.candidates += of_group.candidates;
            counts.verified += of_group.verified;
            done += some;
        }
        counts
    }

    /// Offers the neighbours in all leaves.
    pub(super) fn search(&self, probe: &Side<R>, positions: &[u32], best: &mut [Best<i64>], cancel: &Cancel) -> Counts {
        let mut counts = Counts::default();
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
        counts
    }

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
    /// How many clusters its rows visit; `None` where they are searched exactly.
    visited: Option<usize>,
    /// The rows of the blocks, then the unfilterable ones.
    order: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::FixedSizeListArray;
    use arrow::datatypes::Float64Type;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::NO_GROUP;
    use crate::nearest::Neighbour;
    use crate::recall::CONFIDENCE;
    use crate::repeated::NearestRepeated;

    type Vectors = Vec<Option<Vec<f64>>>;
    type Ranked = Vec<Vec<Neighbour<i64>>>;

    /// How the vectors of a test lie.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Shape {
        Clustered,
        Uniform,
        Duplicated,
        AllEqual,
    }

    fn vectors(rng: &mut StdRng, shape: Shape, dimension: usize, rows: [usize; 2]) -> [Vectors; 2] {
        let mut point =
            |spread: f64| -> Vec<f64> { (0..dimension).map(|_| rng.random_range(-spread..spread)).collect() };
        let centres: Vec<Vec<f64>> = (0..50).map(|_| point(1.0)).collect();
        let mut row = |at: usize| match shape {
            _ if at % 97 == 96 => None,
            Shape::Clustered => {
                Some(centres[at * 31 % 50].iter().zip(point(0.5)).map(|(centre, noise)| centre + noise).collect())
            }
            Shape::Uniform => Some(point(1.0)),
            Shape::Duplicated => Some(centres[at * 17 % 50].iter().map(|x| x + (at % 40) as f64 / 100.0).collect()),
            Shape::AllEqual => Some(vec![1.0; dimension]),
        };
        rows.map(|rows| (0..rows).map(&mut row).collect())
    }

    fn keys(vectors: &Vectors, dimension: usize, groups: Option<Vec<u32>>) -> KeyColumn {
        let lists = vectors.iter().map(|row| row.as_ref().map(|row| row.iter().copied().map(Some).collect::<Vec<_>>()));
        let values = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(lists, dimension as i32);
        KeyColumn { values: Arc::new(values), groups }
    }

    /// The neighbours of each probe row, or of each row of a self-join.
    fn ranked(index: &DynNearestIndex, probe: Option<&KeyColumn>, rows: usize, wanted: Wanted) -> Ranked {
        let never = Cancel::default();
        let batch =
            probe.map(|keys| index.prepare(keys, &PrepareContext { threads: 2, cancel: &never }).unwrap().batch);
        let probe = batch.as_ref().map_or(Probe::SelfJoin, Probe::Batch);
        let order = index.order(probe).unwrap();
        let at_once = index.positions_at_once(probe, wanted.rows).unwrap();
        let mut ranked = vec![Vec::new(); rows];
        for positions in (0..order.len() as u32).collect::<Vec<_>>().chunks(at_once) {
            let mut best: Vec<_> = positions.iter().map(|_| Best::new(wanted)).collect();
            index.nearest(probe, positions, &mut best, &never).unwrap();
            for (best, &position) in best.iter_mut().zip(positions) {
                best.take_into(&mut ranked[order[position as usize] as usize]);
            }
        }
        ranked
    }

    fn count(index: &DynNearestIndex, name: &str) -> usize {
        index.metrics().iter().find(|metric| metric.name() == name).map_or(0, MetricValue::as_usize)
    }

    /// The mean share of the exact neighbours that were found. Every neighbour has its exact score.
    fn recall(found: &Ranked, exact: &Ranked) -> f64 {
        let mut shares = Vec::new();
        for (found, exact) in found.iter().zip(exact).filter(|(_, exact)| !exact.is_empty()) {
            assert!(found.is_sorted() && found.len() >= exact.len().min(1));
            let among = exact.iter().filter(|neighbour| found.binary_search(neighbour).is_ok()).count();
            shares.push(among as f64 / exact.len() as f64);
        }
        shares.iter().sum::<f64>() / (shares.len() as f64).max(1.0)
    }

    #[test]
    fn recall_is_what_was_asked_for() {
        const CASES: u64 = 60;
        let (mut clustered, mut below, mut missing) = (0, 0, 0);
        for case in 0..CASES {
            let mut rng = StdRng::seed_from_u64(case);
            let shape = [Shape::Clustered, Shape::Uniform, Shape::Clustered, Shape::Duplicated, Shape::AllEqual]
                [case as usize % 5];
            let measure = [VectorMeasure::L2, VectorMeasure::Cosine, VectorMeasure::L1, VectorMeasure::Linf]
                [rng.random_range(0..4)];
            let dimension = [16, 20, 40][rng.random_range(0..3)];
            let rows = [rng.random_range(4200..6000), [200, 700, 1000][rng.random_range(0..3)]];
            let wanted = Wanted { rows: rng.random_range(1..=20), ties: rng.random_bool(0.3) };
            let asked = Recall::new([0.5, 0.8, 0.9, 0.95][rng.random_range(0..4)]).unwrap();
            let [right, left] = vectors(&mut rng, shape, dimension, rows);
            let is_grouped = case % 4 == 3;
            let groups = |rows: usize| {
                let group = |row: usize| if row % 50 == 7 { NO_GROUP } else { u32::from(row.is_multiple_of(9)) };
                is_grouped.then(|| (0..rows).map(group).collect())
            };
            let [keys_of_build, keys_of_probe] =
                [&right, &left].map(|vectors| keys(vectors, dimension, groups(vectors.len())));
            let ranks: Vec<u32> = (0..right.len() as u32).map(|row| row % 1000).collect();
            let never = Cancel::default();
            let self_join = case % 17 == 6;
            let (keys_of_probe, rows) =
                if self_join { (None, right.len()) } else { (Some(&keys_of_probe), left.len()) };
            let context = BuildContext { self_join, ..BuildContext::new(2, &never, &|_| Ok(())) };
            let of = |recall| build(measure, &keys_of_build, ranks.clone(), (recall, wanted), &context).unwrap();
            let (exact, some) = (of(None), of(Some(asked)));
            let neighbours = ranked(exact.as_ref(), keys_of_probe, rows, wanted);
            let found = ranked(some.as_ref(), keys_of_probe, rows, wanted);
            if case % 8 == 0 {
                assert_eq!(found, ranked(some.as_ref(), keys_of_probe, rows, wanted), "always the same rows");
            }
            let recall = recall(&found, &neighbours);
            let is_clustered = count(some.as_ref(), "clustered_rows") > 0;
            clustered += u64::from(is_clustered);
            missing += u64::from(found != neighbours);
            below += usize::from(recall < asked.share());
            assert!(is_clustered || found == neighbours, "{case}");
            assert!(!is_clustered || shape != Shape::AllEqual, "{case}");
        }
        assert!(below as f64 <= (1.0 - CONFIDENCE) * CASES as f64, "{below}");
        assert!(clustered * 3 >= CASES && missing * 6 >= CASES, "{clustered} {missing}");
    }

    /// Vectors of 16 dimensions around 50 centres.
    fn around_centres(rows: usize) -> Vectors {
        vectors(&mut StdRng::seed_from_u64(7), Shape::Clustered, 16, [rows, 0])[0].clone()
    }

    #[test]
    fn a_repeated_vector_counts_as_often_as_it_comes() {
        let wanted = Wanted { rows: 10, ties: false };
        let (right, mut left) = (around_centres(6000), around_centres(1500));
        // amid all centres, so that its neighbours are in many clusters
        left[..700].fill(Some(vec![0.0; 16]));
        let [build_keys, probe_keys] = [&right, &left].map(|vectors| keys(vectors, 16, None));
        let (never, ranks) = (Cancel::default(), (0..right.len() as u32).collect::<Vec<_>>());
        let context = BuildContext::new(2, &never, &|_| Ok(()));
        let of = |recall: f64| {
            let known = (Recall::new(recall).filter(|recall| recall.share() < 1.0), wanted);
            let index = build(VectorMeasure::L2, &build_keys, ranks.clone(), known, &context).unwrap();
            Erased(NearestRepeated::of_rows(index))
        };
        let exact = ranked(&of(1.0), Some(&probe_keys), left.len(), wanted);
        for asked in [0.5, 0.7, 0.8, 0.9] {
            let some = of(asked);
            let found = ranked(&some, Some(&probe_keys), left.len(), wanted);
            let (recall, clustered) = (recall(&found, &exact), count(&some, "clustered_rows"));
            assert!(recall >= asked, "{asked}: {recall}, {clustered} rows");
            let all = left.iter().flatten().count();
            assert!(clustered == all || clustered == 0 && recall == 1.0, "{asked}: {clustered} of {all}");
            assert!(asked > 0.5 || clustered == all, "{clustered} of {all}");
        }
    }

    #[test]
    fn hardly_any_recall_and_very_many_neighbours() {
        let right = around_centres(4500);
        let (left, never) = (keys(&right[..400].to_vec(), 16, None), Cancel::default());
        let ranks: Vec<u32> = (0..right.len() as u32).collect();
        for (share, rows) in [(1e-310, 3), (f64::MIN_POSITIVE, 1), (0.5, 2000), (0.9, usize::MAX)] {
            let wanted = Wanted { rows, ties: false };
            let context = BuildContext::new(2, &never, &|_| Ok(()));
            let known = (Recall::new(share), wanted);
            let index = build(VectorMeasure::L2, &keys(&right, 16, None), ranks.clone(), known, &context).unwrap();
            let found = ranked(index.as_ref(), Some(&left), 400, wanted);
            assert!(found.iter().zip(&right).all(|(found, vector)| found.is_empty() == vector.is_none()), "{share}");
        }
    }

    #[test]
    fn the_choice_does_not_depend_on_threads() {
        let wanted = Wanted { rows: 5, ties: false };
        let right = around_centres(6000);
        let (left, never) = (keys(&right[..1500].to_vec(), 16, None), Cancel::default());
        let ranks: Vec<u32> = (0..right.len() as u32).collect();
        let of = |threads| {
            let context = BuildContext::new(threads, &never, &|_| Ok(()));
            let known = (Recall::new(0.9), wanted);
            let index = build(VectorMeasure::L2, &keys(&right, 16, None), ranks.clone(), known, &context).unwrap();
            index.prepare(&left, &PrepareContext { threads, cancel: &never }).unwrap();
            let counts =
                ["pairs", "found", "shown"].map(|name| count(index.as_ref(), &format!("recall_sample_{name}")));
            (counts, ranked(index.as_ref(), Some(&left), 1500, wanted))
        };
        let (counts, found) = of(1);
        assert!(counts[0] > 0);
        assert!([2, 3, 7].into_iter().all(|threads| of(threads).0 == counts && of(threads).1 == found));
    }
}
