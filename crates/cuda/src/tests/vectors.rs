//! Joins on a device against a nested loop over the measure.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray};
use arrow::datatypes::Float64Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::memory::Budget;
use crate::test_device::device;
use crate::tiled_index::Tiled;
use crate::vectors::VectorIndex;
use similarity_engine::accelerator::Platform as _;
use similarity_engine::condition::{Bounds, Condition, VectorCondition};
use similarity_engine::{
    BuildContext, Cancel, Counts, Cursor, Index as _, KeyColumn, Limit, NO_GROUP, PairIndex as _, Pairs,
    PrepareContext, Probe,
};
use similarity_measures::{Power, VectorMeasure};

pub(crate) type Rows = Vec<Option<Vec<Option<f64>>>>;

/// A distance by a power.
fn lp(power: f64) -> VectorMeasure {
    VectorMeasure::Lp(Power::new(power).unwrap())
}

fn measures() -> [VectorMeasure; 9] {
    [
        VectorMeasure::L1,
        VectorMeasure::L2,
        VectorMeasure::Linf,
        lp(1.0),
        lp(1.7),
        lp(3.0),
        VectorMeasure::Cosine,
        VectorMeasure::CosineDistance,
        VectorMeasure::InnerProduct,
    ]
}

pub(crate) fn keys(rows: &Rows, groups: Option<Vec<u32>>) -> KeyColumn {
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows.clone()));
    KeyColumn { values: lists, groups }
}

fn condition(measure: VectorMeasure, bounds: Bounds) -> VectorCondition {
    let stock = matches!(measure, VectorMeasure::CosineDistance | VectorMeasure::InnerProduct);
    VectorCondition { measure, bounds, undecided_from: stock.then_some(465) }
}

/// Points around some centres, each number a multiple of 2^-10 so that sums tie, with duplicates.
pub(crate) fn points(count: usize, dimension: usize, seed: u64) -> Rows {
    let mut random = StdRng::seed_from_u64(seed);
    let centres: Vec<Vec<f64>> =
        (0..16).map(|_| (0..dimension).map(|_| random.random_range(-40..40) as f64 / 8.0).collect()).collect();
    let mut rows: Rows = Vec::new();
    for at in 0..count {
        if at % 29 == 28 {
            rows.push(rows[random.random_range(0..at)].clone());
            continue;
        }
        let centre = &centres[random.random_range(0..centres.len())];
        let near = centre.iter().map(|x| Some(x + f64::from(random.random_range(-256..256)) / 1024.0));
        rows.push(Some(near.collect()));
    }
    rows
}

/// The score that about one pair in `in_a` of some has at most, so that it ties.
fn threshold(measure: VectorMeasure, rows: &Rows, in_a: usize) -> f64 {
    let vectors: Vec<Vec<f64>> = rows.iter().flatten().map(|row| row.iter().flatten().copied().collect()).collect();
    let some = || vectors.iter().step_by(vectors.len() / 60 + 1);
    let mut scores: Vec<f64> =
        some().flat_map(|a| some().filter(move |b| *b != a).filter_map(move |b| measure.score(a, b))).collect();
    scores.sort_unstable_by(f64::total_cmp);
    let place = scores.len() / in_a;
    if measure.is_distance() { scores[place] } else { scores[scores.len() - 1 - place] }
}

fn bounds(measure: VectorMeasure, value: f64, inclusive: bool) -> Bounds {
    if measure.is_distance() { Bounds::at_most(value, inclusive) } else { Bounds::at_least(value, inclusive) }
}

pub(crate) fn vector(row: &Option<Vec<Option<f64>>>) -> Option<Vec<f64>> {
    row.as_ref()?.iter().copied().collect()
}

/// All pairs that match: of rows of both sides, or of one side in the order of their numbers.
fn nested_loop(
    condition: &VectorCondition,
    build: &KeyColumn,
    probe: Option<&KeyColumn>,
    rows: [&Rows; 2],
) -> Vec<(u32, u32)> {
    let group = |keys: &KeyColumn, at: usize| keys.groups.as_ref().map_or(0, |groups| groups[at]);
    let of = |rows: &Rows| rows.iter().map(vector).collect::<Vec<_>>();
    let (left, right) = (of(rows[0]), of(rows[1]));
    let mut pairs = Vec::new();
    for (b, one) in left.iter().enumerate().filter_map(|(b, row)| Some((b, row.as_ref()?))) {
        for (p, other) in right.iter().enumerate().filter_map(|(p, row)| Some((p, row.as_ref()?))) {
            let (self_join, others) = (group(build, b), group(probe.unwrap_or(build), p));
            if (probe.is_none() && p <= b) || self_join != others || self_join == NO_GROUP {
                continue;
            }
            if condition.measure.score(one, other).is_some_and(|score| condition.bounds.contains(score)) {
                pairs.push((b as u32, p as u32));
            }
        }
    }
    pairs
}

fn index(budget: &Budget, condition: VectorCondition, keys: &KeyColumn, self_join: bool) -> Option<Tiled<VectorIndex>> {
    let cancel = Cancel::default();
    let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
    VectorIndex::try_new(budget, condition, keys, &context).unwrap().map(Tiled::new)
}

/// The pairs that an index finds over ranges of so many positions, sorted.
fn found(index: &Tiled<VectorIndex>, probe: Option<&KeyColumn>, range: usize) -> Vec<(u32, u32)> {
    let context = PrepareContext { threads: 2, cancel: &Cancel::default() };
    let prepared = probe.map(|keys| index.prepare(keys, &context).unwrap());
    let probe = prepared.as_ref().map_or(Probe::SelfJoin, |prepared| Probe::Batch(&prepared.batch));
    let len = prepared.as_ref().map_or(index.info().self_join_len, |prepared| prepared.len);
    let (limit, cancel, mut out) = (Limit { pairs: 1 << 20, work: 1 << 30 }, Cancel::default(), Pairs::default());
    index.probe(probe, &mut Cursor { next: len, end: len }, limit, &cancel, &mut out).unwrap();
    assert!(out.is_empty());
    for start in (0..len).step_by(range) {
        let mut cursor = Cursor { next: start, end: len.min(start + range) };
        while !cursor.is_done() {
            index.probe(probe, &mut cursor, limit, &cancel, &mut out).unwrap();
        }
    }
    let self_join = prepared.is_none();
    let ordered = |(b, p): (u32, u32)| if self_join { (b.min(p), b.max(p)) } else { (b, p) };
    let mut pairs: Vec<_> = out.build.into_iter().zip(out.probe).map(ordered).collect();
    pairs.sort_unstable();
    pairs
}

fn budget() -> Budget {
    Budget::new(&device(), 0.5)
}

#[test]
fn both_sides_and_one_side_by_every_measure() {
    let (budget, mut matched, mut by_halves) = (budget(), 0, 0);
    for measure in measures() {
        for dimension in [1, 2, 3, 5, 16, 40, 130] {
            let (left, mut right) = (points(700, dimension, 1), points(333, dimension, 1));
            right[17] = None;
            right[40].as_mut().unwrap()[dimension - 1] = None;
            let value = threshold(measure, &left, 40);
            for inclusive in [true, false] {
                let condition = condition(measure, bounds(measure, value, inclusive));
                let (build, probe) = (keys(&left, None), keys(&right, None));
                if let Some(index) = index(&budget, condition, &build, false) {
                    let expected = nested_loop(&condition, &build, Some(&probe), [&left, &right]);
                    assert_eq!(found(&index, Some(&probe), 1 << 20), expected, "{measure:?} {dimension} {inclusive}");
                } else {
                    panic!("no index for {measure:?} {dimension} {value}");
                }
                let index = index(&budget, condition, &probe, true).unwrap();
                let expected = nested_loop(&condition, &probe, None, [&right, &right]);
                assert_eq!(found(&index, None, 100), expected, "{measure:?} {dimension} {inclusive}");
                matched += expected.len();
                by_halves += usize::from(index.info().path.contains("half precision"));
            }
        }
    }
    assert!(matched > 10_000 && by_halves > 10, "{matched} {by_halves}");
}

/// Thresholds are scores of pairs, and sums of powers overflow, vanish or are near 1.
#[test]
fn a_power_loses_no_match_to_rounding() {
    let (budget, mut matched) = (budget(), 0);
    for power in [1.0, 1.001, 2.0, 2.5, 3.0, 10.0, 300.0, 1e4] {
        // beyond, all sums overflow
        for scale in [1e-30, 0.01, 1.0, 7e9].into_iter().filter(|scale| power < 100.0 || *scale <= 1.0) {
            let scaled = |rows: Rows| -> Rows {
                let of_row = |row: Option<Vec<Option<f64>>>| {
                    row.map(|row| row.iter().map(|x| Some(x.unwrap() * scale)).collect())
                };
                rows.into_iter().map(of_row).collect()
            };
            let (left, mut right) = (scaled(points(300, 3, 11)), scaled(points(200, 3, 11)));
            right[5] = Some(vec![Some(1e200), Some(0.0), Some(f64::NAN)]);
            let value = threshold(lp(power), &left, 50);
            let condition = condition(lp(power), Bounds::at_most(value, true));
            let (build, probe) = (keys(&left, None), keys(&right, None));
            let Some(index) = index(&budget, condition, &build, false) else { continue };
            let expected = nested_loop(&condition, &build, Some(&probe), [&left, &right]);
            assert_eq!(found(&index, Some(&probe), 1 << 20), expected, "{power} {scale} {value}");
            matched += expected.len();
        }
    }
    assert!(matched > 10_000, "{matched}");
}

#[test]
fn powers_beyond_what_rounding_is_known_of_are_the_cpus() {
    let serves = |power: f64| {
        let condition = condition(lp(power), Bounds::at_most(1.0, true));
        crate::Cuda.serves(Condition::Vector(condition))
    };
    assert!(serves(1.0) && serves(1e6) && !serves(1e7) && !serves(f64::INFINITY));
}

#[test]
fn groups_and_both_bounds() {
    let budget = budget();
    for dimension in [2, 20] {
        let (left, right) = (points(900, dimension, 3), points(500, dimension, 3));
        let groups = |rows: &Rows, of: usize| (0..rows.len()).map(|at| (at * 7 % of) as u32).collect::<Vec<_>>();
        for of in [3, 200] {
            let mut some = groups(&right, of);
            some[5] = NO_GROUP;
            let (build, probe) = (keys(&left, Some(groups(&left, of))), keys(&right, Some(some)));
            let value = threshold(VectorMeasure::L2, &left, 20);
            let condition =
                condition(VectorMeasure::L2, Bounds::at_most(value, true).and(Bounds::at_least(value / 2.0, false)));
            let index = index(&budget, condition, &build, false).unwrap();
            let expected = nested_loop(&condition, &build, Some(&probe), [&left, &right]);
            assert_eq!(found(&index, Some(&probe), 77), expected);
            assert!(!expected.is_empty());
        }
    }
}

#[test]
fn empty_sides_and_what_is_left_to_the_cpu() {
    let budget = budget();
    let (none, some) = (Vec::new(), points(70, 3, 4));
    let l2 = condition(VectorMeasure::L2, Bounds::at_most(1.0, true));
    assert!(index(&budget, l2, &keys(&none, None), true).is_none());
    let built = index(&budget, l2, &keys(&some, None), false).unwrap();
    assert_eq!(found(&built, Some(&keys(&none, None)), 10), []);
    let nulls = vec![None; 5];
    assert_eq!(found(&built, Some(&keys(&nulls, None)), 10), []);
    // nothing is that near, or single precision tells nothing apart, or a row is beside all measure
    let near = condition(VectorMeasure::L2, Bounds::at_most(-1.0, true));
    assert!(index(&budget, near, &keys(&some, None), false).is_none());
    let near = condition(VectorMeasure::L2, Bounds::at_most(0.0, true));
    assert!(index(&budget, near, &keys(&some, None), false).is_none());
    let mut wild = some.clone();
    wild[3] = Some(vec![Some(f64::INFINITY); 3]);
    let cosine = condition(VectorMeasure::CosineDistance, Bounds::at_most(0.1, true));
    assert!(index(&budget, cosine, &keys(&wild, None), false).is_none());
    assert!(index(&budget, l2, &keys(&wild, None), true).is_some());
}

#[test]
fn unfilterable_rows_of_a_batch_are_compared_on_the_host() {
    let budget = budget();
    let (left, mut right) = (points(100, 4, 5), points(80, 4, 5));
    right[9] = Some(vec![Some(1e-200); 4]);
    right[11] = Some(vec![Some(1e200), Some(0.0), Some(0.0), Some(0.0)]);
    let condition = condition(VectorMeasure::Cosine, Bounds::at_least(0.5, true));
    let (build, probe) = (keys(&left, None), keys(&right, None));
    let index = index(&budget, condition, &build, false).unwrap();
    let expected = nested_loop(&condition, &build, Some(&probe), [&left, &right]);
    assert_eq!(found(&index, Some(&probe), 30), expected);
}

#[test]
fn numbers_far_beyond_those_of_the_sample() {
    let budget = budget();
    for dimension in [2, 16] {
        let mut rows = points(3000, dimension, 6);
        for (at, x) in [(7, 1e5), (8, 1e5), (100, 1e12), (101, 1e30), (102, 1e30), (103, -1e300)] {
            rows[at] = Some((0..dimension).map(|k| Some(x + k as f64)).collect());
        }
        let condition = condition(VectorMeasure::L2, Bounds::at_most(0.25, true));
        let keys = keys(&rows, None);
        let index = index(&budget, condition, &keys, true).unwrap();
        assert_eq!(found(&index, None, 1 << 20), nested_loop(&condition, &keys, None, [&rows, &rows]));
    }
}

#[test]
fn more_pairs_than_the_buffers_hold() {
    let budget = budget();
    let rows: Rows = (0..3000).map(|at| Some(vec![Some(f64::from(at % 3) / 100.0); 8])).collect();
    let condition = condition(VectorMeasure::L1, Bounds::at_most(1.0, true));
    let keys = keys(&rows, None);
    let index = index(&budget, condition, &keys, true).unwrap();
    assert_eq!(found(&index, None, 1 << 20).len(), 3000 * 2999 / 2);
}

#[test]
fn filters_let_few_others_pass() {
    let budget = budget();
    // a power has a filter by another distance
    for measure in measures().into_iter().filter(|measure| !matches!(measure, VectorMeasure::Lp(_))) {
        for dimension in [2, 16, 70] {
            let rows = points(1500, dimension, 8);
            let condition = condition(measure, bounds(measure, threshold(measure, &rows, 40), true));
            let keys = keys(&rows, None);
            let index = index(&budget, condition, &keys, true).unwrap();
            let (mut counts, mut out) = (Counts::default(), Pairs::default());
            let mut cursor = Cursor { next: 0, end: index.info().self_join_len };
            let limit = Limit { pairs: usize::MAX, work: usize::MAX };
            while !cursor.is_done() {
                let some = index.probe(Probe::SelfJoin, &mut cursor, limit, &Cancel::default(), &mut out).unwrap();
                counts.candidates += some.candidates;
                counts.matched += some.matched;
            }
            assert!(
                counts.candidates <= counts.matched + counts.matched / 4 + 100,
                "{measure:?} {dimension} {counts:?}"
            );
        }
    }
}
