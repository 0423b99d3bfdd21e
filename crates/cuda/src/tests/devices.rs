//! Several devices that work on one join, against one of them and the CPU.

use std::thread;

use arrow::array::StringArray;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::nearest::{agrees, some_groups, some_ranks};
use super::vectors::{keys as vector_keys, points};
use super::*;
use crate::Cuda;
use crate::test_device::{DEVICES, device};
use similarity_engine::accelerator::DeviceLimits;
use similarity_engine::choice::{Asked, EngineSpec};
use similarity_engine::condition::{Bounds, VectorCondition};
use similarity_engine::devices::DeviceSet;
use similarity_engine::metrics::MetricValue;
use similarity_engine::nearest::Wanted;
use similarity_engine::overrides::Overrides;
use similarity_engine::ranking::Ranking;
use similarity_engine::rules::RuleSource;
use similarity_engine::{DynPairIndex, Limit, PrepareContext, Probe};
use similarity_measures::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};

/// All devices, which share every join.
const SHARED: Overrides = Overrides { little_work: true, ..Overrides::NONE };

fn engine() -> Engine {
    device();
    let spec = EngineSpec {
        asked: Asked::Cuda,
        devices: DeviceSet::All,
        limits: DeviceLimits { memory_fraction: 0.3, ..DeviceLimits::NONE },
        overrides: SHARED,
    };
    spec.open(Some(&Cuda)).unwrap()
}

fn context(self_join: bool) -> BuildContext<'static> {
    static NEVER: std::sync::LazyLock<Cancel> = std::sync::LazyLock::new(Cancel::default);
    BuildContext { self_join, overrides: SHARED, ..BuildContext::new(2, &NEVER, &|_| Ok(())) }
}

/// Strings of which many are a few edits away from another one.
fn names(rows: usize, seed: u64) -> ArrayRef {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut text = |row: usize| {
        let name = format!("{:x} of the town {}", (row / 3) * 7919 % 5000, rng.random_range(0..40));
        (!row.is_multiple_of(17)).then_some(name)
    };
    Arc::new((0..rows).map(&mut text).collect::<StringArray>())
}

/// The pairs that an index finds, by several threads.
fn pairs_of(index: &DynPairIndex, probe: Option<&KeyColumn>) -> Vec<(u32, u32)> {
    let never = Cancel::default();
    let prepared = probe.map(|keys| index.prepare(keys, &PrepareContext { threads: 2, cancel: &never }).unwrap());
    let probe = prepared.as_ref().map_or(Probe::SelfJoin, |prepared| Probe::Batch(&prepared.batch));
    let len = prepared.as_ref().map_or(index.info().self_join_len, |prepared| prepared.len);
    let mut stretches = Vec::new();
    let mut start = 0;
    while start < len {
        let end = if prepared.is_some() { len } else { index.self_join_stretch(start) };
        stretches.push((start, end));
        start = end;
    }
    let limit = Limit { pairs: usize::MAX, work: usize::MAX };
    let stretch = |&(next, end): &(usize, usize)| {
        let (mut cursor, mut out) = (Cursor { next, end }, Pairs::default());
        while !cursor.is_done() {
            index.probe(probe, &mut cursor, limit, &never, &mut out).unwrap();
        }
        out.build.into_iter().zip(out.probe).collect::<Vec<_>>()
    };
    let found = thread::scope(|scope| {
        let threads: Vec<_> = stretches.iter().map(|range| scope.spawn(move || stretch(range))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let in_order = |(a, b): (u32, u32)| if prepared.is_none() { (a.min(b), a.max(b)) } else { (a, b) };
    let mut found: Vec<_> = found.into_iter().map(in_order).collect();
    found.sort_unstable();
    found
}

/// How many devices have done something.
fn busy(metrics: &[MetricValue]) -> usize {
    metrics.iter().filter(|value| value.name().starts_with("device_tasks_cuda") && value.as_usize() > 0).count()
}

#[test]
fn joins_find_the_same_pairs() {
    let several = engine();
    let set = |measure, least| Condition::Set {
        tokenizer: Tokenizer::QGrams { q: 3, pad: Some('#') },
        measure,
        bounds: Bounds::at_least(least, true),
    };
    let edit = |measure, bounds| Condition::Edit { measure, bounds };
    let near = |measure, bounds| Condition::Vector(VectorCondition { bounds, ..VectorCondition::every_score(measure) });
    let strings = (names(600, 1), names(400, 2));
    let vectors = (vector_keys(&points(600, 7, 3), None).values, vector_keys(&points(400, 7, 3), None).values);
    for (condition, (build, probe)) in [
        (set(SetMeasure::JACCARD, 0.6), &strings),
        (set(SetMeasure::DICE, 0.9), &strings),
        (edit(EditMeasure::LEVENSHTEIN, Bounds::at_most(2.0, true)), &strings),
        (edit(EditMeasure::DAMERAU_LEVENSHTEIN, Bounds::at_most(1.0, true)), &strings),
        (edit(EditMeasure::JARO_WINKLER, Bounds::at_least(0.93, true)), &strings),
        (near(VectorMeasure::L2, Bounds::at_most(0.4, true)), &vectors),
        (near(VectorMeasure::Cosine, Bounds::at_least(0.995, true)), &vectors),
    ] {
        for groups in [0, 2] {
            let mut rng = StdRng::seed_from_u64(7);
            let mut keys = |values: &ArrayRef| KeyColumn {
                values: Arc::clone(values),
                groups: some_groups(values.len(), groups, &mut rng),
            };
            let (build, probe) = (keys(build), keys(probe));
            for self_join in [true, false] {
                let (ours, _) = several.build(condition, build.clone(), &context(self_join)).unwrap();
                let (cpu, _) = Engine::Cpu.build(condition, build.clone(), &context(self_join)).unwrap();
                let probe = (!self_join).then_some(&probe);
                let expected = pairs_of(cpu.as_ref(), probe);
                assert!(expected.len() > 5, "{condition} {}", expected.len());
                assert_eq!(pairs_of(ours.as_ref(), probe), expected, "{condition}");
                // the next batch goes to another device
                assert_eq!(pairs_of(ours.as_ref(), probe), expected, "{condition}");
                let metrics = ours.metrics();
                assert!(*DEVICES == 1 || busy(&metrics) > 1, "{condition}: {metrics:?}");
                let on = format!(" on {} devices", *DEVICES);
                assert!(*DEVICES == 1 || ours.info().path.ends_with(&on), "{}", ours.info().path);
            }
        }
    }
}

#[test]
fn rankings_find_the_same_neighbours() {
    let several = engine();
    let mut rng = StdRng::seed_from_u64(4);
    let set =
        Condition::Set { tokenizer: Tokenizer::Words, measure: SetMeasure::JACCARD, bounds: Bounds::everything() };
    let edit = Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::everything() };
    let near = Condition::Vector(VectorCondition::every_score(VectorMeasure::L2));
    let strings = (names(200, 1), names(150, 2));
    let vectors = (vector_keys(&points(200, 5, 3), None).values, vector_keys(&points(150, 5, 3), None).values);
    for (condition, (build, probe)) in [(set, &strings), (edit, &strings), (near, &vectors)] {
        for groups in [0, 3] {
            let mut keys = |values: &ArrayRef| KeyColumn {
                values: Arc::clone(values),
                groups: some_groups(values.len(), groups, &mut rng),
            };
            let (build, probe) = (keys(build), keys(probe));
            let ranks = some_ranks(build.values.len(), &mut rng);
            let ranking: Ranking = condition.into();
            for (wanted, some) in [(Wanted { rows: 3, ties: false }, 60), (Wanted { rows: 250, ties: true }, 1000)] {
                let built = several.build_nearest(&ranking, &build, ranks.clone(), wanted, &context(false));
                let (ours, _) = built.unwrap();
                for _ in 0..2 {
                    agrees(ours.as_ref(), ranking.clone(), (&build, &probe), &ranks, (wanted, some));
                }
                let metrics = ours.metrics();
                assert!(*DEVICES == 1 || busy(&metrics) > 1, "{condition}: {metrics:?}");
            }
        }
    }
}

#[test]
fn rules_find_the_same_pairs() {
    let several = engine();
    let mut rng = StdRng::seed_from_u64(9);
    let clauses = vec![vec![0, 1, 4], vec![1, 6], vec![0, 3, 5], vec![0, 2, 7]];
    for (case, self_join) in [(0, true), (1, false), (2, true), (3, false)] {
        let source = RuleSource::new(rules::conditions(), clauses.clone());
        let (build, probe) = (rules::side(400, true, &mut rng), rules::side(300, false, &mut rng));
        // codes that a device has made, and others
        let (build, probe) = match case {
            0 | 1 => (rules::with_values(build), rules::with_values(probe)),
            _ => (build, probe),
        };
        let index = |engine: &Engine| {
            RuleIndex::try_new(source.clone(), rules::same(&build), engine, &context(self_join)).unwrap()
        };
        let prepare = |index: &RuleIndex| {
            let preparing = context(false).preparing();
            (!self_join).then(|| index.prepare(rules::same(&probe), &preparing).unwrap())
        };
        let (on_cpu, ours) = (index(&Engine::Cpu), index(&several));
        let expected = rules::run(&on_cpu, prepare(&on_cpu).as_ref(), 100);
        assert!(expected.0.len() > 300, "{}", expected.0.len());
        for limit in [30, usize::MAX, 100] {
            let prepared = prepare(&ours);
            let found = rules::run(&ours, prepared.as_ref(), limit);
            assert_eq!((&found.0, &found.1.witnesses), (&expected.0, &expected.1.witnesses), "case {case}");
        }
        let metrics = ours.metrics();
        assert!(*DEVICES == 1 || busy(&metrics) > 1, "case {case}: {metrics:?}");
        let on = format!(" on {} devices", *DEVICES);
        assert!(*DEVICES == 1 || ours.chosen().iter().any(|chosen| chosen.contains(&on)), "{:?}", ours.chosen());
    }
}
