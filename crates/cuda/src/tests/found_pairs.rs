//! Pairs that an index has found, decided on a device, against the CPU.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::prefiltered::{NoThirds, SOME, side_of, side_with_unknown, with_others};
use super::rules::{run_with, same};
use super::*;
use crate::test_device::{budget_of, device, device_alone};
use similarity_engine::PrepareContext;
use similarity_engine::atoms::{AtomColumn, SideColumns};
use similarity_engine::choice::Engine;
use similarity_engine::overrides::Overrides;
use similarity_engine::rules::RuleSource;

/// A device decides pairs, however few they are.
const FEW: Overrides = Overrides { little_work: true, ..Overrides::NONE };

/// What the chosen engine of an entry says where a device decides its pairs.
const DECIDED: &str = "; decided on cuda:0";

fn context(self_join: bool, cancel: &Cancel) -> BuildContext<'_> {
    BuildContext { self_join, overrides: FEW, ..BuildContext::new(2, cancel, &|_| Ok(())) }
}

/// Clauses without an equality, so that an index enters each, unless `others` adds a first one to some.
fn clauses(others: bool, self_join: bool, rng: &mut StdRng) -> Vec<Vec<usize>> {
    let last = if others { 12 } else { 10 };
    let clause = |rng: &mut StdRng| {
        let mut clause = vec![rng.random_range(4..9)];
        // a condition of one side leaves no self-join
        clause.extend((1..last).filter(|&atom| (!self_join || atom != 3) && rng.random_bool(0.3)));
        clause.extend(rng.random_bool(0.2).then_some(0));
        clause.sort_unstable();
        clause.dedup();
        clause
    };
    (0..rng.random_range(1..5)).map(|_| clause(rng)).collect()
}

#[test]
fn a_device_decides_pairs_as_the_cpu_does() {
    let mut rng = StdRng::seed_from_u64(21);
    let on_device = engine_of(Budget::new(&device(), 0.5));
    let (mut decided, mut prefiltered, mut unknown, mut pairs) = (0, 0, 0, 0);
    for case in 0..48 {
        let self_join = case % 2 == 0;
        let source = RuleSource::new(with_others(), clauses(case % 3 == 0, self_join, &mut rng));
        // rows that no kernel takes on both sides, on the build side alone, and on the probe side alone
        let of = |is_unknown: bool| if is_unknown { side_with_unknown } else { side_of };
        let mut build = of(matches!(case % 8, 4 | 5))([1, 40, 300][case % 3], true, &mut rng);
        if self_join {
            build.atoms[3] = AtomColumn::None;
        }
        let probe = (!self_join).then(|| of(matches!(case % 8, 5 | 7))(200, false, &mut rng));
        let cancel = Cancel::default();
        let [expected, found] = [&Engine::Cpu, &on_device].map(|engine| {
            let index = RuleIndex::try_new(source.clone(), same(&build), engine, &context(self_join, &cancel)).unwrap();
            let prepare = |probe: &SideColumns| {
                index.prepare(same(probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap()
            };
            let prepared = probe.as_ref().map(prepare);
            let step = if matches!(engine, Engine::Cpu) { usize::MAX } else { 1 + case * 7 };
            (run_with(&index, prepared.as_ref(), step, &NoThirds), index.chosen())
        });
        let ((expected, _), (found, chosen)) = (expected, found);
        assert_eq!(found.0, expected.0, "case {case}: {source:?}");
        assert_eq!(found.1.witnesses, expected.1.witnesses, "case {case}: {source:?}");
        for chosen in chosen.iter().filter(|chosen| chosen.contains(DECIDED)) {
            decided += 1;
            prefiltered += usize::from(chosen.contains(SOME));
            unknown += usize::from(chosen.contains(", cpu for rows with very long strings"));
        }
        pairs += found.0.len();
    }
    assert!(decided > 30 && prefiltered > 5 && unknown > 3, "{decided} {prefiltered} {unknown}");
    assert!(pairs > 10_000, "{pairs}");
}

/// The trees of a device count what those of the CPU count, and the CPU is asked nothing.
#[test]
fn a_device_counts_the_pairs_that_it_decides() {
    let mut rng = StdRng::seed_from_u64(22);
    let build = side_of(400, true, &mut rng);
    let source = RuleSource::new(with_others(), vec![vec![4, 6, 9], vec![5, 7]]);
    let (cancel, probe) = (Cancel::default(), side_of(300, false, &mut rng));
    let [expected, found] = [Engine::Cpu, engine_of(Budget::new(&device(), 0.5))].map(|engine| {
        let index = RuleIndex::try_new(source.clone(), same(&build), &engine, &context(false, &cancel)).unwrap();
        let prepared = index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap();
        let is_decided_there = index.chosen().iter().all(|chosen| chosen.contains(DECIDED));
        assert_eq!(is_decided_there, matches!(engine, Engine::Devices(_)), "{:?}", index.chosen());
        run_with(&index, Some(&prepared), usize::MAX, &NoThirds)
    });
    assert!(found.0 == expected.0 && found.0.len() > 1000, "{}", found.0.len());
    let of =
        |counters: &RuleCounters| (counters.candidates.clone(), counters.passed.clone(), counters.verified.clone());
    assert_eq!(of(&found.1), of(&expected.1));
    assert_eq!((&found.1.evaluated, &found.1.witnesses), (&expected.1.evaluated, &expected.1.witnesses));
}

#[test]
fn in_little_memory_the_cpu_decides_what_an_index_finds() {
    let mut rng = StdRng::seed_from_u64(23);
    let source = RuleSource::new(with_others(), vec![vec![0, 6], vec![4, 9], vec![5, 8, 11]]);
    let (cancel, device) = (Cancel::default(), device_alone());
    let mut side = side_of(300, true, &mut rng);
    side.atoms[3] = AtomColumn::None;
    let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&side), engine, &context(true, &cancel));
    let expected = run_with(&index(&Engine::Cpu).unwrap(), None, 100, &NoThirds);
    let mut decided = Vec::new();
    for bytes in (10..30).map(|bits| 1usize << bits) {
        let index = index(&engine_of(budget_of(&device, bytes))).unwrap();
        let found = run_with(&index, None, 100, &NoThirds);
        assert_eq!((&found.0, &found.1.witnesses), (&expected.0, &expected.1.witnesses), "{bytes} bytes");
        decided.push(index.chosen().iter().filter(|chosen| chosen.contains(DECIDED)).count());
    }
    assert!(decided.contains(&0) && decided.contains(&2), "{decided:?}");
}
