//! Neighbours on a device against all scores.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::ranking::Ranking;
use super::{NearestVectors, VectorsOnDevice};
use crate::memory::Budget;
use crate::nearest::MOST_WANTED;
use crate::test_device::device;
use crate::tests::vectors::{Rows, keys, points, vector};
use similarity_engine::nearest::{Best, NearestIndex as _, Neighbour, Wanted, float_key};
use similarity_engine::{BuildContext, Cancel, Index as _, KeyColumn, NO_GROUP, PrepareContext, Probe};
use similarity_measures::VectorMeasure;

pub(super) const MEASURES: [VectorMeasure; 4] =
    [VectorMeasure::L1, VectorMeasure::L2, VectorMeasure::Linf, VectorMeasure::Cosine];

/// A count of neighbours, without or with those that tie.
pub(super) trait IntoWanted {
    fn wanted(self) -> Wanted;
}

impl IntoWanted for usize {
    fn wanted(self) -> Wanted {
        Wanted { rows: self, ties: false }
    }
}

impl IntoWanted for Wanted {
    fn wanted(self) -> Wanted {
        self
    }
}

/// The neighbours of each probe row, by all scores.
fn expected(
    measure: VectorMeasure,
    (build, probe): ((&Rows, &KeyColumn), (&Rows, &KeyColumn)),
    ranks: &[u32],
    wanted: impl IntoWanted,
) -> Vec<Vec<u32>> {
    let wanted = wanted.wanted();
    let group = |keys: &KeyColumn, at: usize| keys.groups.as_ref().map_or(0, |groups| groups[at]);
    let vectors: Vec<_> = build.0.iter().map(vector).collect();
    let of_row = |(at, row): (usize, &Option<Vec<Option<f64>>>)| {
        let mut best = Best::new(wanted);
        let self_join = group(probe.1, at);
        for (other, vector_of_build) in vectors.iter().enumerate() {
            let same = self_join != NO_GROUP && self_join == group(build.1, other);
            let (Some(vector), Some(other_vector), true) = (vector(row), vector_of_build, same) else { continue };
            let Some(score) = measure.score(other_vector, &vector) else { continue };
            let key = if measure.is_distance() { float_key(score) } else { !float_key(score) };
            best.offer(Neighbour { score: key, rank: ranks[other], row: other as u32 });
        }
        rows_of(&mut best)
    };
    probe.0.iter().enumerate().map(of_row).collect()
}

fn rows_of(best: &mut Best<i64>) -> Vec<u32> {
    let mut found = Vec::new();
    best.take_into(&mut found);
    found.into_iter().map(|neighbour| neighbour.row).collect()
}

/// A build side on the host, ready for so many neighbours.
pub(super) fn ranking(
    budget: &Budget,
    measure: VectorMeasure,
    build: &KeyColumn,
    ranks: &[u32],
    (wanted, self_join): (impl IntoWanted, bool),
) -> Option<Arc<Ranking>> {
    let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
    let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
    Ranking::try_new(budget, measure, build, (ranks, wanted.wanted()), &context).unwrap().map(Arc::new)
}

fn index(
    budget: &Budget,
    measure: VectorMeasure,
    build: &KeyColumn,
    ranks: &[u32],
    by: (impl IntoWanted, bool),
) -> Option<NearestVectors> {
    ranking(budget, measure, build, ranks, by).map(|ranking| VectorsOnDevice::try_new(&ranking).unwrap())
}

/// The neighbours of each row of `probe`, or in a self-join of its own, of some positions at a time.
fn found(
    index: &NearestVectors,
    probe: Option<&KeyColumn>,
    rows: usize,
    wanted: impl IntoWanted,
    some: usize,
) -> Vec<Vec<u32>> {
    let wanted = wanted.wanted();
    let context = PrepareContext { threads: 2, cancel: &Cancel::default() };
    let prepared = probe.map(|keys| index.prepare(keys, &context).unwrap());
    let probe = prepared.as_ref().map_or(Probe::SelfJoin, |prepared| Probe::Batch(&prepared.batch));
    let order = index.order(probe).unwrap();
    let mut neighbours = vec![Vec::new(); rows];
    let positions: Vec<u32> = (0..order.len() as u32).collect();
    for positions in positions.chunks(some) {
        let mut best: Vec<_> = positions.iter().map(|_| Best::new(wanted)).collect();
        index.nearest(probe, positions, &mut best, &Cancel::default()).unwrap();
        for (best, &position) in best.iter_mut().zip(positions) {
            neighbours[order[position as usize] as usize] = rows_of(best);
        }
    }
    neighbours
}

pub(super) fn some_ranks(count: usize, seed: u64) -> Vec<u32> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(0..3)).collect()
}

#[test]
fn neighbours_by_every_measure() {
    let (budget, mut by_halves) = (Budget::new(&device(), 0.5), 0);
    for measure in MEASURES {
        for (dimension, wanted) in [(1, 3), (2, 10), (3, 70), (5, 1), (16, 10), (40, 5), (130, 7)] {
            let (left, mut right) = (points(1500, dimension, 1), points(333, dimension, 2));
            right[17] = None;
            right[40].as_mut().unwrap()[dimension - 1] = None;
            let (build, probe) = (keys(&left, None), keys(&right, None));
            let ranks = if dimension % 2 == 0 { some_ranks(left.len(), 3) } else { vec![0; left.len()] };
            let built = index(&budget, measure, &build, &ranks, (wanted, false)).unwrap();
            by_halves += usize::from(built.info().path.contains("half precision"));
            let all = expected(measure, ((&left, &build), (&right, &probe)), &ranks, wanted);
            assert_eq!(found(&built, Some(&probe), right.len(), wanted, 1 << 20), all, "{measure:?} {dimension}");
            let ranks = vec![7; right.len()];
            let built = index(&budget, measure, &probe, &ranks, (wanted, true)).unwrap();
            let all = expected(measure, ((&right, &probe), (&right, &probe)), &ranks, wanted);
            assert_eq!(found(&built, None, right.len(), wanted, 100), all, "own, {measure:?} {dimension}");
        }
    }
    assert!(by_halves > 4, "{by_halves}");
}

/// Rows so few that a race checker gets through them.
#[test]
fn few_blocks_by_every_filter() {
    let (budget, mut by_halves) = (Budget::new(&device(), 0.5), 0);
    for (measure, dimension) in MEASURES.into_iter().flat_map(|measure| [(measure, 2), (measure, 40)]) {
        let (left, right) = (points(130, dimension, 10), points(70, dimension, 11));
        let (build, probe) = (keys(&left, None), keys(&right, None));
        let ranks = some_ranks(left.len(), 12);
        let built = index(&budget, measure, &build, &ranks, (3, false)).unwrap();
        by_halves += usize::from(built.info().path.contains("half precision"));
        let all = expected(measure, ((&left, &build), (&right, &probe)), &ranks, 3);
        assert_eq!(found(&built, Some(&probe), right.len(), 3, 1 << 20), all, "{measure:?} {dimension}");
    }
    assert!(by_halves > 0);
    // what is compared first ties with more rows of a better rank than a row may be offered at once
    let left: Rows = vec![Some(vec![Some(0.5); 6]); 500];
    let right = points(5, 6, 13);
    let (build, probe) = (keys(&left, None), keys(&right, None));
    let ranks: Vec<u32> = (0..500).map(|at| u32::from(at < 300)).collect();
    let built = index(&budget, VectorMeasure::L2, &build, &ranks, (1, false)).unwrap();
    let all = expected(VectorMeasure::L2, ((&left, &build), (&right, &probe)), &ranks, 1);
    assert_eq!(found(&built, Some(&probe), right.len(), 1, 1 << 20), all);
}

#[test]
fn groups_and_small_groups() {
    let budget = Budget::new(&device(), 0.5);
    for dimension in [2, 20] {
        let (left, right) = (points(900, dimension, 3), points(500, dimension, 4));
        let groups = |rows: &Rows, of: usize| (0..rows.len()).map(|at| (at * 7 % of) as u32).collect::<Vec<_>>();
        for of in [3, 200] {
            let mut some = groups(&right, of);
            some[5] = NO_GROUP;
            let (build, probe) = (keys(&left, Some(groups(&left, of))), keys(&right, Some(some)));
            let ranks = some_ranks(left.len(), 5);
            let built = index(&budget, VectorMeasure::L2, &build, &ranks, (6, false)).unwrap();
            let all = expected(VectorMeasure::L2, ((&left, &build), (&right, &probe)), &ranks, 6);
            assert_eq!(found(&built, Some(&probe), right.len(), 6, 77), all, "{dimension} {of}");
        }
    }
}

#[test]
fn equal_rows_are_ranked_one_by_one() {
    let budget = Budget::new(&device(), 0.5);
    let rows: Rows = (0..3000).map(|at| Some(vec![Some(f64::from(at % 3) / 100.0); 8])).collect();
    let keys = keys(&rows, None);
    for wanted in [1, 10, 300] {
        let ranks = some_ranks(rows.len(), 6);
        let built = index(&budget, VectorMeasure::L1, &keys, &ranks, (wanted, true)).unwrap();
        let all = expected(VectorMeasure::L1, ((&rows, &keys), (&rows, &keys)), &ranks, wanted);
        assert_eq!(found(&built, None, rows.len(), wanted, 1 << 20), all, "{wanted}");
    }
}

#[test]
fn few_rows_far_points_and_what_is_left_to_the_cpu() {
    let budget = Budget::new(&device(), 0.5);
    let none: Rows = Vec::new();
    let few = points(5, 3, 7);
    assert!(index(&budget, VectorMeasure::L2, &keys(&none, None), &[], (3, false)).is_none());
    let (build, ranks) = (keys(&few, None), vec![0; few.len()]);
    let built = index(&budget, VectorMeasure::L2, &build, &ranks, (30, true)).unwrap();
    let all = expected(VectorMeasure::L2, ((&few, &build), (&few, &build)), &ranks, 30);
    assert_eq!(found(&built, None, few.len(), 30, 2), all);
    assert_eq!(found(&built, Some(&keys(&none, None)), 0, 30, 2), Vec::<Vec<u32>>::new());
    // without a length there is no cosine
    let zeros: Rows = vec![Some(vec![Some(0.0); 3]); 10];
    assert!(index(&budget, VectorMeasure::Cosine, &keys(&zeros, None), &[0; 10], (3, false)).is_none());
    assert!(index(&budget, VectorMeasure::InnerProduct, &build, &ranks, (3, false)).is_none());
    assert!(index(&budget, VectorMeasure::L2, &build, &ranks, (MOST_WANTED + 1, false)).is_none());
    let empty: Rows = vec![Some(Vec::new()); 10];
    assert!(index(&budget, VectorMeasure::L2, &keys(&empty, None), &[0; 10], (3, false)).is_none());
    // in the probe batch alone, on the host
    let mut far = points(2000, 4, 8);
    for (at, x) in [(7, 1e5), (100, 1e12), (101, 1e30), (103, -1e300)] {
        far[at] = Some((0..4).map(|k| Some(x + f64::from(k))).collect());
    }
    for measure in MEASURES {
        let (build, probe) = (keys(&points(700, 4, 9), None), keys(&far, None));
        let ranks = vec![0; 700];
        let built = index(&budget, measure, &build, &ranks, (4, false)).unwrap();
        let all = expected(measure, ((&points(700, 4, 9), &build), (&far, &probe)), &ranks, 4);
        assert_eq!(found(&built, Some(&probe), far.len(), 4, 500), all, "{measure:?}");
        // and on both sides
        if let Some(built) = index(&budget, measure, &probe, &vec![0; far.len()], (4, true)) {
            let all = expected(measure, ((&far, &probe), (&far, &probe)), &vec![0; far.len()], 4);
            assert_eq!(found(&built, None, far.len(), 4, 1 << 20), all, "own, {measure:?}");
        }
    }
}

#[test]
fn all_that_tie_with_the_last_one_come_too() {
    let budget = Budget::new(&device(), 0.5);
    // each point many times, and as many at each distance
    let grid = |rows: i32, copies: i32| -> Rows {
        (0..rows).map(|at| Some((0..6).map(|k| Some(f64::from(at / copies * (k + 3) % 7))).collect())).collect()
    };
    for (copies, rows, is_served) in [(1, 3, true), (9, 4, true), (60, 1, true), (500, 2, true), (1500, 2, false)] {
        let (left, right) = (grid(3000, copies), grid(70, 1));
        let (build, probe) = (keys(&left, None), keys(&right, None));
        let (wanted, ranks) = (Wanted { rows, ties: true }, vec![0; left.len()]);
        let built = index(&budget, VectorMeasure::L2, &build, &ranks, (wanted, false)).unwrap();
        if !is_served {
            let cancel = Cancel::default();
            let prepared = built.prepare(&probe, &PrepareContext { threads: 1, cancel: &cancel }).unwrap();
            let error = built.nearest(Probe::Batch(&prepared.batch), &[0], &mut [Best::new(wanted)], &cancel);
            assert!(error.is_err_and(|error| error.is_device_full()));
            continue;
        }
        let all = expected(VectorMeasure::L2, ((&left, &build), (&right, &probe)), &ranks, wanted);
        assert!(all.iter().any(|found| found.len() > rows));
        assert_eq!(found(&built, Some(&probe), right.len(), wanted, 30), all, "{copies}");
        let ranks = some_ranks(right.len(), 8);
        let built = index(&budget, VectorMeasure::L1, &probe, &ranks, (wanted, true)).unwrap();
        let all = expected(VectorMeasure::L1, ((&right, &probe), (&right, &probe)), &ranks, wanted);
        assert_eq!(found(&built, None, right.len(), wanted, 1 << 20), all, "own, {copies}");
    }
}
