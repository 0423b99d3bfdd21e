//! Neighbours on a device against those of the CPU.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::RowsByCount;
use super::build_side::CountedColumns;
use crate::memory::Budget;
use crate::nearest::NearestOnDevice;
use crate::test_device::{budget_of, device, device_alone};
use crate::tests::nearest::{agree, agrees, metric, on_device, some_groups, some_ranks};
use similarity_engine::accelerator::Platform as _;
use similarity_engine::atoms::Span;
use similarity_engine::choice::Engine;
use similarity_engine::match_count::{MatchCount, keys};
use similarity_engine::nearest::{Best, Wanted};
use similarity_engine::{BuildContext, Cancel, Erased, KeyColumn, PrepareContext, Probe};

/// Spans of the conditions of a side: a place or an interval of build rows, what probe rows accept, or nothing.
fn columns(rows: usize, intervals: &[bool], places: u32, probe: bool, rng: &mut StdRng) -> Vec<Vec<Span>> {
    let mut span = |interval: bool| {
        if rng.random_range(0..8) == 0 {
            return Span::NONE;
        }
        let first = rng.random_range(0..places);
        let reach = if interval || probe { rng.random_range(0..=places / 2) } else { 0 };
        Span { first, last: first + reach }
    };
    intervals.iter().map(|&interval| (0..rows).map(|_| span(interval)).collect()).collect()
}

fn key_column(columns: &[Vec<Span>], groups: Option<Vec<u32>>) -> KeyColumn {
    KeyColumn { values: keys(columns, columns[0].len()).unwrap(), groups }
}

/// Random weights of which some are 0.
fn some_weights(conditions: usize, rng: &mut StdRng) -> Option<Arc<[f64]>> {
    Some((0..conditions).map(|_| f64::from(rng.random_range(0..4)) / 3.0).collect())
}

#[test]
fn counts_rank_as_the_cpu_does() {
    let budget = Budget::new(&device(), 0.5);
    let mut neighbours = 0;
    for case in 0..140 {
        let rng = &mut StdRng::seed_from_u64(case);
        let case = case as usize;
        let conditions = [rng.random_range(1..6), 15, 16, 40][[0, 0, 0, 0, 1, 2, 3][case % 7]];
        let (rows, places) = ([1, 63, 64, 300, 700][case % 5], [1, 3, 40, 70_000][case % 4]);
        let weights = if case % 3 == 2 { some_weights(conditions, rng) } else { None };
        let intervals: Vec<bool> = (0..conditions).map(|_| rng.random_range(0..3) == 0).collect();
        let build = columns(rows, &intervals, places, false, rng);
        let probe = columns(90, &intervals, places, true, rng);
        let groups = [0, 0, 1, 3, 40][rng.random_range(0..5)];
        let build = key_column(&build, some_groups(rows, groups, rng));
        let probe = key_column(&probe, some_groups(90, groups + 1, rng).filter(|_| groups > 0));
        let ranks = if rng.random_bool(0.5) { some_ranks(rows, rng) } else { (0..rows as u32).rev().collect() };
        let wanted = Wanted { rows: [1, 3, 10, 600][rng.random_range(0..4)], ties: rng.random_bool(0.4) };
        if build.groups.as_ref().is_some_and(|groups| groups.iter().all(|&group| group == u32::MAX)) {
            continue;
        }
        let count = MatchCount { conditions, weights };
        neighbours += agree(&budget, count, (&build, &probe), &ranks, (wanted, [37, 1000][case % 2]));
    }
    assert!(neighbours > 30_000, "{neighbours}");
}

#[test]
fn samples_bound_what_is_offered() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(7));
    let rows = 40_000;
    let build = key_column(&columns(rows, &[false; 6], 50, false, rng), None);
    let probe = key_column(&columns(70, &[false; 6], 50, true, rng), None);
    let wanted = Wanted { rows: 5, ties: false };
    for weights in [None, some_weights(6, rng)] {
        let (count, ranks) = (MatchCount { conditions: 6, weights }, some_ranks(rows, rng));
        let index = on_device(&budget, count.clone(), &build, &ranks, wanted).expect("there are kernels");
        agrees(index.as_ref(), count, (&build, &probe), &ranks, (wanted, 1000));
        let offered = metric(index.as_ref(), "filter_survivors");
        assert!(offered < rows * 70 / 8, "{offered}");
    }
}

/// Rows that count the same come by rank, and those behind the worst one are not offered.
#[test]
fn rows_that_all_count_the_same() {
    let (budget, rows) = (Budget::new(&device(), 0.5), 30_000);
    let place = |first: u32| vec![vec![Span { first, last: first }; rows]; 2];
    let accepts = |first: u32| vec![vec![Span { first, last: first + 1 }; 3]; 2];
    let ranks: Vec<u32> = (0..rows as u32).map(|row| row.wrapping_mul(0x9e37_79b9) >> 12).collect();
    for (accepted, weights) in [(4, None), (9, None), (4, Some([0.0, 0.25].into()))] {
        let (build, probe) = (key_column(&place(4), None), key_column(&accepts(accepted), None));
        for ties in [false, true] {
            let (count, wanted) = (MatchCount { conditions: 2, weights: weights.clone() }, Wanted { rows: 4, ties });
            let index = on_device(&budget, count.clone(), &build, &ranks, wanted).expect("there are kernels");
            agrees(index.as_ref(), count, (&build, &probe), &ranks, (wanted, 1000));
            assert!(metric(index.as_ref(), "filter_survivors") < 3 * rows);
        }
    }
}

#[test]
fn what_there_are_no_kernels_for() {
    let budget = Budget::new(&device(), 0.5);
    let wanted = Wanted { rows: 3, ties: false };
    let span = Span { first: 1, last: 1 };
    let declined = |conditions: usize, rows: usize, groups: Option<Vec<u32>>, wanted: Wanted| {
        let keys = key_column(&vec![vec![span; rows]; conditions], groups);
        let count = MatchCount { conditions, weights: None };
        on_device(&budget, count, &keys, &vec![0; rows], wanted).is_none()
    };
    assert!(!declined(255, 2, None, wanted) && declined(256, 2, None, wanted));
    assert!(declined(1, 2, None, Wanted { rows: 961, ..wanted }), "too many neighbours");
    assert!(declined(1, 0, None, wanted) && declined(1, 2, Some(vec![u32::MAX; 2]), wanted), "no rows");
    let places = key_column(&vec![vec![Span { first: 0, last: u32::MAX }]; 2], None);
    let count = MatchCount { conditions: 2, weights: None };
    assert!(on_device(&budget, count.clone(), &places, &[0], wanted).is_none(), "too many places");
    assert!(crate::Cuda.ranks_by(&count.into(), wanted));
}

#[test]
fn masks_without_room_are_made_block_by_block() {
    let (device, rng) = (device_alone(), &mut StdRng::seed_from_u64(9));
    let build = key_column(&columns(500, &[false, true], 9_000, false, rng), None);
    let probe = key_column(&columns(400, &[false, true], 9_000, true, rng), None);
    let count = MatchCount { conditions: 2, weights: None };
    let (ranks, wanted) = (some_ranks(500, rng), Wanted { rows: 2, ties: false });
    let index = on_device(&budget_of(&device, 4 << 20), count.clone(), &build, &ranks, wanted).unwrap();
    agrees(index.as_ref(), count, (&build, &probe), &ranks, (wanted, 1000));
}

/// More of them than a row has places for.
#[test]
fn many_rows_that_tie() {
    let (device, rng) = (device(), &mut StdRng::seed_from_u64(15));
    let build = key_column(&columns(6000, &[false, true], 3, false, rng), some_groups(6000, 2, rng));
    let probe = key_column(&columns(70, &[false, true], 3, true, rng), some_groups(70, 3, rng));
    let wanted = Wanted { rows: 3, ties: true };
    let (same, some) = (vec![0; 6000], some_ranks(6000, rng));
    for (weights, ranks) in [(None, &same), (None, &some), (some_weights(2, rng), &same)] {
        let count = MatchCount { conditions: 2, weights };
        let budget = Budget::new(&device, 0.5);
        let index = on_device(&budget, count.clone(), &build, ranks, wanted).expect("there are kernels");
        let neighbours = agrees(index.as_ref(), count, (&build, &probe), ranks, (wanted, 1000));
        assert!(neighbours > 960 * 20, "{neighbours}");
        assert!(metric(index.as_ref(), "device_retries") > 0, "there was room");
    }
}

/// What a device has no memory for is ranked on the CPU.
#[test]
fn a_search_without_room_is_the_cpus() {
    let (device, rng) = (device_alone(), &mut StdRng::seed_from_u64(16));
    let build = key_column(&columns(3000, &[true], 60_000, false, rng), None);
    let probe = key_column(&columns(70, &[true], 60_000, true, rng), None);
    let (count, wanted) = (MatchCount { conditions: 1, weights: None }.into(), Wanted { rows: 3, ties: true });
    let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
    let context = BuildContext::new(2, &cancel, &reserve);
    let engine = Engine::Devices(Arc::new(budget_of(&device, 700 << 10)).into());
    let (index, _) = engine.build_nearest(&count, &build, vec![0; 3000], wanted, &context).unwrap();
    assert!(index.info().path.contains("(cuda:0"), "{}", index.info().path);
    agrees(index.as_ref(), count, (&build, &probe), &[0; 3000], (wanted, 1000));
    assert!(metric(index.as_ref(), "cpu_fallbacks") > 0);
}

#[test]
fn a_search_ends_when_it_is_cancelled() {
    let (budget, rng) = (Budget::new(&device(), 0.5).of_join(), &mut StdRng::seed_from_u64(14));
    let keys = key_column(&columns(300, &[false], 9, true, rng), None);
    let (count, cancel, reserve) = (MatchCount { conditions: 1, weights: None }, Cancel::default(), |_| Ok(()));
    let context = BuildContext::new(2, &cancel, &reserve);
    let columns = CountedColumns::try_new(&budget, &count, (&keys, &[0; 300]), &context).unwrap();
    let ranked = RowsByCount { budget, conditions: 1, columns, unmatchable: 0 };
    let index = Erased(NearestOnDevice::try_new(ranked).unwrap());
    let index: &similarity_engine::nearest::DynNearestIndex = &index;
    let prepared = index.prepare(&keys, &PrepareContext { threads: 1, cancel: &cancel }).unwrap();
    cancel.cancel();
    let mut best = vec![Best::new(Wanted { rows: 2, ties: false })];
    index.nearest(Probe::Batch(&prepared.batch), &[0], &mut best, &cancel).unwrap();
    assert_eq!(metric(index, "device_tasks"), 0);
}
