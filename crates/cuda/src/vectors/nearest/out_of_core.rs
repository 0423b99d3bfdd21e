//! Nearest joins whose build side is larger than the device's memory.
//!
//! The build side is cut into parts of as many rows, one of which is on the device at a time. A stretch of probe rows
//! is brought there, searches the part that is there, then each other one in turn, and keeps the best of all. Stretches
//! that are searched at the same time share a part, and another one is loaded only once none of them searches that.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::accelerator::{Accelerator, DeviceNearest, DynDeviceNearest};
use similarity_engine::error::{Result, internal_err};
use similarity_engine::metrics::{Count, MetricValue};

use super::ranking::{NUMBERS_AT_ONCE, Part, Ranking};
use super::shared_slot::SharedSlot;
use crate::fault::Fault;
use crate::kernels::BLOCK;
use crate::nearest::{SEARCHES, has_room};
use crate::replicate::{Replicate as _, replicated};
use crate::tiled_index::Side as _;
use similarity_engine::nearest::{Best, NearestIndex};
use similarity_engine::offered::Offered;
use similarity_engine::vectors::points::Points;
use similarity_engine::{
    BuildContext, Cancel, Counts, Erased, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe, parallel,
};

/// Rows of a part at least, and parts at most; a build side that would need smaller ones is left to the CPU. By design,
/// not measured.
const LEAST_ROWS: usize = 1 << 12;
const MOST_PARTS: usize = 64;
/// Probe rows that are searched for one loading of each part at most, and neighbours of them.
const MOST_ROWS: usize = 1 << 20;
const MOST_NEIGHBOURS: usize = 1 << 23;
/// Probe rows that are searched for one loading at least, or else the CPU is asked. By design, not measured.
const LEAST_AT_ONCE: usize = 1 << 10;
/// Bytes of a probe row while it is put into order, about: for each number of it in double and in single precision, and
/// others.
const BYTES_OF_NUMBER: usize = 12;
const BYTES_OF_ROW: usize = 96;

/// A build side whose parts take turns on a device.
#[derive(Debug)]
pub(super) struct OutOfCoreIndex {
    ranking: Arc<Ranking>,
    /// The places of their rows among the filterable ones.
    parts: Vec<Range<usize>>,
    loaded: SharedSlot<Part>,
    /// The stream of loading, so that a part has the memory of the one before it.
    queue: Arc<CudaStream>,
    /// Rows of the build side as those that get neighbours, in a self-join: part by part, along the curve of each.
    order: Option<Vec<u32>>,
    /// Probe rows that are searched for one loading of each part.
    at_once: usize,
    threads: usize,
    loadings: Count,
    info: IndexInfo,
}

/// A probe batch, on the host.
#[derive(Debug)]
pub(super) struct Batch {
    points: Points,
    /// The rows that a filter tells apart, then the others.
    order: Vec<u32>,
}

impl OutOfCoreIndex {
    /// Build side in as few parts as fit with room for a search.
    ///
    /// # Errors
    /// Too little memory for a part that is worth it, a cancelled build, a device that fails.
    pub(super) fn try_new(ranking: &Arc<Ranking>, context: &BuildContext<'_>) -> Result<Self, Fault> {
        let mut parts = 2;
        while parts <= MOST_PARTS && ranking.host.filterable.len() / parts >= LEAST_ROWS {
            match Self::of_parts(ranking, parts, context) {
                Err(Fault::Memory) => parts *= 2,
                index => return index,
            }
        }
        Err(Fault::Memory)
    }

    /// Build side in so many parts.
    ///
    /// # Errors
    /// Errors of [`try_new`](Self::try_new).
    pub(super) fn of_parts(ranking: &Arc<Ranking>, parts: usize, context: &BuildContext<'_>) -> Result<Self, Fault> {
        let (budget, host) = (&ranking.budget, &ranking.host);
        let places = host.filterable.len();
        let mut index = Self {
            ranking: Arc::clone(ranking),
            parts: (0..parts).map(|n| places * n / parts..places * (n + 1) / parts).collect(),
            loaded: SharedSlot::new(SEARCHES),
            queue: budget.device.stream()?,
            order: None,
            at_once: (NUMBERS_AT_ONCE / host.dimension).min(MOST_ROWS),
            threads: context.threads,
            loadings: Count::new(),
            info: IndexInfo::default(),
        };
        // as much for probe rows and searches as for a part
        let least = budget.available() / 2;
        if context.self_join {
            index.order = Some(index.self_join_order(least, context.cancel)?);
        } else {
            let widest = (0..parts).max_by_key(|&n| host.rows(index.parts[n].clone()).len());
            index.visit(&mut widest.into_iter().collect(), context.cancel, |_| index.leaves(least))?;
        }
        let bytes_of_row = BYTES_OF_NUMBER * host.dimension + BYTES_OF_ROW;
        // half of it for the rows of all who search
        let room = budget.available() / (2 * SEARCHES * bytes_of_row);
        if room < LEAST_AT_ONCE {
            return Err(Fault::Memory);
        }
        index.at_once = index.at_once.min(room).max(BLOCK as usize);
        index.info = index.known();
        Ok(index)
    }

    fn known(&self) -> IndexInfo {
        IndexInfo {
            path: format!("{}, in {} parts", self.ranking.describe(), self.parts.len()),
            bytes: self.ranking.memory() + self.order.as_ref().map_or(0, Vec::capacity) * size_of::<u32>(),
            unmatchable: self.ranking.host.unmatchable,
            undecided: false,
            self_join_len: self.order.as_ref().map_or(0, Vec::len),
            rows_at_once: self.at_once,
            // every search goes through all parts
            shared: false,
        }
    }

    /// Probe rows of one search, each of which wants so many neighbours.
    fn rows_of_search(&self, wanted: usize) -> usize {
        self.at_once.min(MOST_NEIGHBOURS / wanted.max(1)).max(BLOCK as usize)
    }

    fn leaves(&self, least: usize) -> Result<(), Fault> {
        if self.ranking.budget.available() < least { Err(Fault::Memory) } else { Ok(()) }
    }

    /// Runs `work` on one of the pending parts, as [`SharedSlot::with`] does.
    fn visit<R>(
        &self,
        pending: &mut Vec<usize>,
        cancel: &Cancel,
        work: impl FnOnce(&Part) -> Result<R, Fault>,
    ) -> Result<Option<R>, Fault> {
        let bring = |number: usize| {
            self.loadings.add(1);
            let (host, places) = (&self.ranking.host, self.parts[number].clone());
            let first = host.rows(places.clone()).start as u32;
            self.ranking.bring(&self.queue, &host.part(places), first)
        };
        self.loaded.with(pending, bring, work, cancel)
    }

    /// The rows of all parts, each of which leaves so much memory at least.
    fn self_join_order(&self, least: usize, cancel: &Cancel) -> Result<Vec<u32>, Fault> {
        let mut order = Vec::with_capacity(self.ranking.host.filterable.len());
        for number in 0..self.parts.len() {
            let rows = |part: &Part| {
                self.leaves(least)?;
                let rows = part.vectors.rows(&self.ranking.budget, 0..part.vectors.count as usize)?;
                order.extend(rows.into_iter().map(|row| part.first + row));
                Ok(())
            };
            self.visit(&mut vec![number], cancel, rows)?;
            cancel.check()?;
        }
        Ok(order)
    }

    /// Offers each of `best` the neighbours of its row of `points`, which are few enough for the device.
    fn search(&self, points: &Points, rows: &[u32], best: &mut [Best<i64>], cancel: &Cancel) -> Result<usize, Fault> {
        let (ranking, Some(wanted)) = (&self.ranking, best.first().map(Best::wanted)) else { return Ok(0) };
        let Some(_visit) = self.loaded.visit(cancel) else { return Ok(0) };
        let stream = ranking.budget.device.stream()?;
        let probe = ranking.arrange(&stream, &points.gathered(rows, self.threads)?)?;
        let places = probe.rows(&ranking.budget, 0..probe.count as usize)?;
        let positions: Vec<u32> = (0..probe.count).collect();
        let mut turned: Vec<_> =
            places.iter().map(|&place| std::mem::replace(&mut best[place as usize], Best::new(wanted))).collect();
        let (mut pending, mut candidates): (Vec<usize>, _) = ((0..self.parts.len()).collect(), 0);
        while !pending.is_empty() && !cancel.is_cancelled() {
            let search = |part: &Part| ranking.search(&stream, (&probe, part), &positions, &mut turned, cancel);
            candidates += self.visit(&mut pending, cancel, search)?.unwrap_or(0);
        }
        places.iter().zip(turned).for_each(|(&place, found)| best[place as usize] = found);
        Ok(candidates)
    }
}

impl DeviceNearest for OutOfCoreIndex {
    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceNearest>>> {
        let copy = replicated(to, |to| {
            Ok(Self {
                ranking: self.ranking.replicate(to)?,
                parts: self.parts.clone(),
                loaded: SharedSlot::new(SEARCHES),
                queue: to.budget.device.stream()?,
                order: self.order.clone(),
                at_once: self.at_once,
                threads: self.threads,
                loadings: self.loadings.clone(),
                info: self.info.clone(),
            })
        })?;
        Ok(copy.map(|index| Box::new(Erased(index)) as Box<DynDeviceNearest>))
    }
}

impl Index for OutOfCoreIndex {
    type Batch = Batch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        let mut metrics = self.ranking.budget.metrics.values();
        metrics.push(MetricValue::Count { name: "part_loadings".into(), count: self.loadings.clone() });
        metrics
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Batch>> {
        let points = self.ranking.probe_points(keys, context)?;
        let order = [points.filterable.rows.as_slice(), &points.unfilterable.rows].concat();
        let (len, unmatchable) = (order.len(), points.unmatchable);
        Ok(Prepared { shared: false, ..Prepared::new(Batch { points, order }, len, unmatchable) })
    }
}

impl NearestIndex for OutOfCoreIndex {
    fn positions_at_once(&self, _: Probe<'_, Batch>, wanted: usize) -> Result<usize> {
        Ok(self.rows_of_search(wanted))
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        self.info.self_join_len.min(start + self.rows_of_search(wanted))
    }

    fn order<'a>(&'a self, probe: Probe<'a, Batch>) -> Result<&'a [u32]> {
        match (probe, &self.order) {
            (Probe::Batch(batch), _) => Ok(&batch.order),
            (Probe::SelfJoin, Some(order)) => Ok(order),
            (Probe::SelfJoin, None) => internal_err!("a nearest index was not built for a self-join"),
        }
    }

    fn nearest(
        &self,
        probe: Probe<'_, Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let (ranking, order) = (&self.ranking, self.order(probe)?);
        let points = match probe {
            Probe::SelfJoin => &ranking.host,
            Probe::Batch(batch) => &batch.points,
        };
        let mut counts = Counts::default();
        let Some(wanted) = best.first().map(Best::wanted) else { return Ok(counts) };
        if !has_room(wanted) || parallel::is_in_a_part() {
            // no room for so many; and no thread of the pool waits for others that run parts there
            return Err(Fault::Memory.into());
        }
        let filterable = points.filterable.len();
        let (positions, others) = positions.split_at(positions.partition_point(|&p| (p as usize) < filterable));
        let (best, best_of_others) = best.split_at_mut(positions.len());
        for (positions, best) in positions.chunks(self.at_once).zip(best.chunks_mut(self.at_once)) {
            let rows: Vec<u32> = positions.iter().map(|&position| order[position as usize]).collect();
            counts.candidates += self.search(points, &rows, best, cancel)?;
        }
        for (&position, best) in others.iter().zip(best_of_others).take_while(|_| !cancel.is_cancelled()) {
            counts.candidates += ranking.score_unfilterable(points, position as usize - filterable, best, cancel);
        }
        counts.verified = counts.candidates;
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::tests::{MEASURES, ranking, some_ranks};
    use super::*;
    use crate::memory::Budget;
    use crate::test_device::{budget_of, device, device_alone};
    use crate::tests::vectors::{Rows, keys, points};
    use similarity_engine::choice::Engine;
    use similarity_engine::condition::{Condition, VectorCondition};
    use similarity_engine::nearest::{DynNearestIndex, Neighbour, Wanted};
    use similarity_engine::{NO_GROUP, cpu};
    use similarity_measures::VectorMeasure;

    fn in_parts(
        measure: VectorMeasure,
        build: &KeyColumn,
        ranks: &[u32],
        parts: usize,
        self_join: bool,
    ) -> OutOfCoreIndex {
        let ranking = ranking(&Budget::new(&device(), 0.5), measure, build, ranks, (1, self_join)).unwrap();
        let (cancel, reserve) = (Cancel::default(), |_: usize| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        OutOfCoreIndex::of_parts(&ranking, parts, &context).unwrap()
    }

    fn on_the_cpu(measure: VectorMeasure, build: &KeyColumn, ranks: &[u32], self_join: bool) -> Box<DynNearestIndex> {
        let (cancel, reserve) = (Cancel::default(), |_: usize| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        cpu::build_nearest(
            &Condition::Vector(VectorCondition::every_score(measure)).into(),
            build,
            ranks.to_vec(),
            &context,
        )
        .unwrap()
    }

    /// The neighbours of each row of `probe`, or in a self-join of its own, of some positions at a time.
    fn found<I: NearestIndex + ?Sized>(
        index: &I,
        probe: Option<&KeyColumn>,
        wanted: usize,
        some: usize,
    ) -> Vec<(u32, Vec<Neighbour<i64>>)> {
        found_at(index, probe, wanted, some, usize::MAX)
    }

    /// Neighbours found at the first positions alone.
    fn found_at<I: NearestIndex + ?Sized>(
        index: &I,
        probe: Option<&KeyColumn>,
        wanted: usize,
        some: usize,
        first: usize,
    ) -> Vec<(u32, Vec<Neighbour<i64>>)> {
        let prepared =
            probe.map(|keys| index.prepare(keys, &PrepareContext { threads: 2, cancel: &Cancel::default() }).unwrap());
        let probe = prepared.as_ref().map_or(Probe::SelfJoin, |prepared| Probe::Batch(&prepared.batch));
        let order = index.order(probe).unwrap();
        let positions: Vec<u32> = (0..order.len().min(first) as u32).collect();
        let mut neighbours = Vec::new();
        for positions in positions.chunks(some) {
            let mut best: Vec<_> = positions.iter().map(|_| Best::new(Wanted { rows: wanted, ties: false })).collect();
            index.nearest(probe, positions, &mut best, &Cancel::default()).unwrap();
            for (best, &position) in best.iter_mut().zip(positions) {
                let mut found = Vec::new();
                best.take_into(&mut found);
                neighbours.push((order[position as usize], found));
            }
        }
        neighbours.sort_unstable();
        neighbours
    }

    /// Some points without a vector, or without all of it, the first one among them.
    fn with_nulls(mut rows: Rows) -> Rows {
        rows.iter_mut().step_by(13).for_each(|row| *row = None);
        rows.iter_mut().skip(1).step_by(31).flatten().for_each(|row| row[0] = None);
        rows
    }

    #[test]
    fn neighbours_of_all_parts_are_those_of_the_cpu() {
        for measure in MEASURES {
            for (dimension, wanted, grouped) in [(2, 3, true), (2, 40, false), (16, 10, false), (40, 5, true)] {
                let (left, mut right) = (with_nulls(points(1300, dimension, 1)), with_nulls(points(210, dimension, 2)));
                // on the host
                right[77] = Some(vec![Some(1e300); dimension]);
                let groups = |rows: &Rows| (0..rows.len()).map(|at| (at * 7 % 3) as u32).collect::<Vec<_>>();
                let mut of_right = groups(&right);
                of_right[9] = NO_GROUP;
                let build = keys(&left, grouped.then(|| groups(&left)));
                let probe = keys(&right, grouped.then_some(of_right));
                let ranks = some_ranks(left.len(), 3);
                let mut index = in_parts(measure, &build, &ranks, 4, false);
                assert!(index.info().path.ends_with("in 4 parts"));
                let cpu = on_the_cpu(measure, &build, &ranks, false);
                assert_eq!(index.info().unmatchable, cpu.info().unmatchable);
                let expected = found(cpu.as_ref(), Some(&probe), wanted, 1000);
                assert_eq!(found(&index, Some(&probe), wanted, 1000), expected, "{measure:?} {dimension}");
                assert_eq!(index.loadings.value(), 4, "one is there already");
                index.at_once = 64;
                assert_eq!(found(&index, Some(&probe), wanted, 150), expected, "{measure:?} {dimension} by stretches");
                let ranks = some_ranks(right.len(), 3);
                right[77] = None;
                let self_join = keys(&right, probe.groups.clone());
                let mut index = in_parts(measure, &self_join, &ranks, 3, true);
                index.at_once = 100;
                let expected = found(on_the_cpu(measure, &self_join, &ranks, true).as_ref(), None, wanted, 1000);
                assert_eq!(found(&index, None, wanted, 170), expected, "own, {measure:?} {dimension}");
            }
        }
    }

    /// What is there is searched first, so that the order of parts changes from one stretch to the next.
    #[test]
    fn ties_across_parts_are_ranked_one_by_one() {
        let rows: Rows = (0..640).map(|at| Some(vec![Some(f64::from(at % 3) / 100.0); 8])).collect();
        let keys = keys(&rows, None);
        for (wanted, ranked) in [(1, true), (10, true), (100, true), (10, false)] {
            let ranks = if ranked { some_ranks(rows.len(), 6) } else { vec![0; rows.len()] };
            let index = in_parts(VectorMeasure::L1, &keys, &ranks, 5, true);
            let expected = found(on_the_cpu(VectorMeasure::L1, &keys, &ranks, true).as_ref(), None, wanted, 2000);
            assert_eq!(found(&index, None, wanted, 250), expected, "{wanted} {ranked}");
        }
    }

    /// Budgets from those too small for a part that is worth it to those in which all fit.
    #[test]
    fn what_does_not_fit_is_searched_in_parts() {
        let (left, right) = (points(16_500, 16, 1), points(50, 16, 2));
        let (build, probe, ranks) = (keys(&left, None), keys(&right, None), vec![0; left.len()]);
        let condition = Condition::Vector(VectorCondition::every_score(VectorMeasure::L2));
        let (device, cancel, reserve) = (device_alone(), Cancel::default(), |_: usize| Ok(()));
        for (self_join, step) in [(false, 1), (true, 2)] {
            let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
            let probe = (!self_join).then_some(&probe);
            let cpu = on_the_cpu(VectorMeasure::L2, &build, &ranks, self_join);
            let expected = found(cpu.as_ref(), probe, 5, 4000);
            let mut paths = Vec::new();
            for bytes in (1..60).step_by(step).map(|quarters| quarters << 18) {
                let budget = budget_of(&device, bytes);
                let (engine, wanted) = (Engine::Devices(Arc::new(budget).into()), Wanted { rows: 5, ties: false });
                let (index, _) =
                    engine.build_nearest(&condition.into(), &build, ranks.clone(), wanted, &context).unwrap();
                let some = found_at(index.as_ref(), probe, 5, 30, 50);
                assert!(
                    some.len() == 50 && some.iter().all(|of_row| expected.binary_search(of_row).is_ok()),
                    "{bytes}"
                );
                let metrics = index.metrics();
                let value = |name: &str| metrics.iter().find(|metric| metric.name() == name).map(MetricValue::as_usize);
                paths.push((value("cpu_fallbacks"), value("part_loadings").map(|loadings| loadings > 3)));
            }
            assert_eq!(paths[0], (None, None), "the CPU");
            assert!(paths.contains(&(Some(0), Some(true))), "in parts: {paths:?}");
            assert!(paths.contains(&(Some(0), None)), "all at once: {paths:?}");
        }
    }

    #[test]
    fn many_search_at_the_same_time() {
        let (left, right) = (points(1200, 6, 1), points(300, 6, 2));
        let (build, probe, ranks) = (keys(&left, None), keys(&right, None), some_ranks(left.len(), 4));
        let mut index = in_parts(VectorMeasure::L2, &build, &ranks, 3, true);
        index.at_once = 256;
        let cpu = on_the_cpu(VectorMeasure::L2, &build, &ranks, true);
        let (self_join, other) = (found(cpu.as_ref(), None, 4, 2000), found(cpu.as_ref(), Some(&probe), 4, 2000));
        let before = index.loadings.value();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(found(&index, None, 4, 400), self_join));
                scope.spawn(|| assert_eq!(found(&index, Some(&probe), 4, 400), other));
            }
        });
        let stretches = 3 * (3 * 2 + 2);
        let loadings = index.loadings.value() - before;
        assert!((2..=2 * stretches).contains(&loadings), "{loadings} loadings for {stretches} stretches");
    }

    #[test]
    fn who_waits_for_a_part_may_be_cancelled() {
        let rows = points(600, 5, 1);
        let (build, ranks) = (keys(&rows, None), vec![0; rows.len()]);
        let index = in_parts(VectorMeasure::L2, &build, &ranks, 3, true);
        let expected = found(on_the_cpu(VectorMeasure::L2, &build, &ranks, true).as_ref(), None, 3, 1000);
        let candidates = |cancel: &Cancel| {
            let positions: Vec<u32> = (0..600).collect();
            let mut best: Vec<_> = positions.iter().map(|_| Best::new(Wanted { rows: 3, ties: false })).collect();
            index.nearest(Probe::SelfJoin, &positions, &mut best, cancel).unwrap().candidates
        };
        let started = Instant::now();
        let (all, cancel) = (candidates(&Cancel::default()), Cancel::default());
        let long = 3 * started.elapsed() + Duration::from_millis(100);
        let held = |_: &Part| {
            let some = thread::scope(|scope| {
                let searching = scope.spawn(|| candidates(&cancel));
                thread::sleep(long);
                assert!(!searching.is_finished(), "the other parts cannot be loaded");
                cancel.cancel();
                searching.join().unwrap()
            });
            Ok(some)
        };
        let some = index.visit(&mut vec![1], &Cancel::default(), held).unwrap().unwrap();
        assert!(some > 0 && some < all, "{some} of {all}: those of one part");
        assert_eq!(candidates(&cancel), 0);
        assert_eq!(found(&index, None, 3, 1000), expected, "nobody holds it up");
        let built = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
        assert!(matches!(OutOfCoreIndex::of_parts(&index.ranking, 3, &built), Err(Fault::Other(_))));
    }

    #[test]
    fn what_finds_no_room_is_left_to_the_cpu() {
        let rows = points(500, 7, 1);
        let (build, ranks, device) = (keys(&rows, None), vec![0; rows.len()], device_alone());
        let ranking = ranking(&budget_of(&device, 8 << 20), VectorMeasure::L2, &build, &ranks, (3, true));
        let never = Cancel::default();
        let context = BuildContext { self_join: true, ..BuildContext::new(2, &never, &|_| Ok(())) };
        let index = OutOfCoreIndex::of_parts(&ranking.unwrap(), 2, &context).unwrap();
        let nearest = |wanted: usize| {
            let mut best: Vec<_> = (0..100).map(|_| Best::new(Wanted { rows: wanted, ties: false })).collect();
            let positions: Vec<u32> = (0..100).collect();
            let error = index.nearest(Probe::SelfJoin, &positions, &mut best, &Cancel::default()).err();
            error.map(|error| error.is_device_full())
        };
        assert_eq!(nearest(2000), Some(true));
        let others = Budget::new(&device, 1.0);
        let taken = others.buffer::<u8>(&device.stream().unwrap(), 200 << 20).unwrap();
        assert_eq!(nearest(3), Some(true));
        drop(taken);
        assert_eq!(nearest(3), None);
        let expected = found(on_the_cpu(VectorMeasure::L2, &build, &ranks, true).as_ref(), None, 3, 1000);
        assert_eq!(found(&index, None, 3, 1000), expected);
        // a thread that runs parts would wait for others that run parts
        let on_threads = parallel::each_in_parallel(0..3, |_| (parallel::is_in_a_part(), nearest(3)));
        assert!(on_threads.iter().all(|(is_part, full)| full.is_some() == *is_part), "{on_threads:?}");
        assert!(on_threads.iter().any(|(is_part, _)| *is_part));
    }
}
