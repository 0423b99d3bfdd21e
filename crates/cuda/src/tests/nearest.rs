//! Rankings on a device against those of the CPU.

use arrow::array::Array;
use rand::Rng;
use rand::rngs::StdRng;

use crate::memory::Budget;
use similarity_engine::accelerator::Accelerator as _;
use similarity_engine::nearest::{Best, DynNearestIndex, Neighbour, Wanted};
use similarity_engine::offered::Offered;
use similarity_engine::ranking::Ranking;
use similarity_engine::{BuildContext, Cancel, KeyColumn, NO_GROUP, PrepareContext, Probe, cpu};

/// Groups of some rows, of which a few are in none; `None` where there are no equality keys.
pub(crate) fn some_groups(rows: usize, of: u32, rng: &mut StdRng) -> Option<Vec<u32>> {
    let mut group = || if rng.random_bool(0.05) { NO_GROUP } else { rng.random_range(0..of) };
    (of > 0).then(|| (0..rows).map(|_| group()).collect())
}

/// Ranks of few values, or of one.
pub(crate) fn some_ranks(rows: usize, rng: &mut StdRng) -> Vec<u32> {
    let most = rng.random_range(1..4);
    (0..rows).map(|_| rng.random_range(0..most)).collect()
}

/// What an index has counted under a name.
pub(crate) fn metric(index: &DynNearestIndex, name: &str) -> usize {
    index.metrics().into_iter().find(|metric| metric.name() == name).unwrap().as_usize()
}

/// The neighbours of each row of `probe`, of some positions at a time.
pub(crate) fn found(
    index: &DynNearestIndex,
    probe: &KeyColumn,
    wanted: Wanted,
    some: usize,
) -> Vec<(u32, Vec<Neighbour<i64>>)> {
    let cancel = Cancel::default();
    let prepared = index.prepare(probe, &PrepareContext { threads: 2, cancel: &cancel }).unwrap();
    let probe = Probe::Batch(&prepared.batch);
    let order = index.order(probe).unwrap();
    assert_eq!(prepared.len, order.len());
    let positions: Vec<u32> = (0..order.len() as u32).collect();
    let mut neighbours = Vec::new();
    for positions in positions.chunks(some) {
        let mut best: Vec<_> = positions.iter().map(|_| Best::new(wanted)).collect();
        index.nearest(probe, positions, &mut best, &cancel).unwrap();
        for (best, &position) in best.iter_mut().zip(positions) {
            let mut found = Vec::new();
            best.take_into(&mut found);
            neighbours.push((order[position as usize], found));
        }
    }
    neighbours.sort_unstable();
    neighbours
}

/// What a device makes of a build side; none where it has no kernels for it.
pub(crate) fn on_device(
    budget: &Budget,
    ranking: impl Into<Ranking>,
    build: &KeyColumn,
    ranks: &[u32],
    wanted: Wanted,
) -> Option<Box<DynNearestIndex>> {
    let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
    let context = BuildContext::new(2, &cancel, &reserve);
    match budget.build_nearest(&ranking.into(), build, ranks, wanted, &context).unwrap() {
        Offered::Taken(index) => Some(index),
        Offered::Declined(_) => None,
    }
}

/// Compares both, and returns how many neighbours there are.
pub(crate) fn agree(
    budget: &Budget,
    ranking: impl Into<Ranking>,
    (build, probe): (&KeyColumn, &KeyColumn),
    ranks: &[u32],
    (wanted, some): (Wanted, usize),
) -> usize {
    let ranking = ranking.into();
    let device = on_device(budget, ranking.clone(), build, ranks, wanted).expect("there are kernels");
    agrees(device.as_ref(), ranking, (build, probe), ranks, (wanted, some))
}

/// Compares an index on a device with that of the CPU, and returns how many neighbours there are.
pub(crate) fn agrees(
    device: &DynNearestIndex,
    ranking: impl Into<Ranking>,
    (build, probe): (&KeyColumn, &KeyColumn),
    ranks: &[u32],
    (wanted, some): (Wanted, usize),
) -> usize {
    let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
    let context = BuildContext::new(2, &cancel, &reserve);
    let ranking = ranking.into();
    let cpu = cpu::build_nearest(&ranking, build, ranks.to_vec(), &context).unwrap();
    assert_eq!(device.info().unmatchable, cpu.info().unmatchable, "{ranking}");
    let (ours, expected) = (found(device, probe, wanted, some), found(cpu.as_ref(), probe, wanted, 256));
    assert_eq!(ours.len(), expected.len(), "{ranking}");
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(ours, expected, "{ranking} {wanted:?} of {} rows", build.values.len());
    }
    expected.iter().map(|(_, found)| found.len()).sum()
}
