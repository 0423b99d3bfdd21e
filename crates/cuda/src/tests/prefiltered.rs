//! Joins of rules of which a device decides some atoms, against the CPU.

use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, StringArray};
use arrow::datatypes::Float64Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::rules::{conditions, run_with, same, side};
use super::*;
use crate::test_device::{budget_of, device, device_alone};
use similarity_engine::atoms::{AtomColumn, PairConditions, SideColumns};
use similarity_engine::choice::Engine;
use similarity_engine::condition::Bounds;
use similarity_engine::rules::RuleSource;
use similarity_engine::{BuildContext, PrepareContext};
use similarity_measures::EditMeasure;

/// What the chosen engine of an entry says where the CPU decides some atoms.
pub(super) const SOME: &str = ", cpu for what it has no kernels for";

/// Condition without a kernel: the numbers of two rows have no sum that three divides.
pub(super) struct NoThirds;

impl PairConditions for NoThirds {
    fn select(&self, _: usize, pairs: &Pairs) -> similarity_engine::Result<Vec<u16>> {
        let rows = pairs.build.iter().zip(&pairs.probe);
        Ok((0..).zip(rows).filter(|(_, (build, probe))| (*build + *probe) % 3 != 0).map(|(at, _)| at).collect())
    }
}

/// The atoms of [`conditions`], and behind them two that no device decides.
pub(super) fn with_others() -> Vec<AtomCondition> {
    let condition = Condition::Edit { measure: EditMeasure::DAMERAU_LEVENSHTEIN, bounds: Bounds::at_most(2.0, true) };
    let mut all = conditions();
    all.extend([AtomCondition::Similarity { key: 0, condition }, AtomCondition::Pair]);
    all
}

pub(super) fn side_of(rows: usize, is_build: bool, rng: &mut StdRng) -> SideColumns {
    let mut side = side(rows, is_build, rng);
    side.atoms.extend([AtomColumn::None, AtomColumn::None]);
    side
}

/// Pairs that a device finds, and what it has chosen for each entry. Pairs, candidates and witnesses are the CPU's; a
/// self-join has no probe side.
fn as_on_the_cpu(
    source: &RuleSource,
    build: &SideColumns,
    probe: Option<&SideColumns>,
    on_device: &Engine,
    step: usize,
) -> (Vec<(u32, u32)>, Vec<String>) {
    let cancel = Cancel::default();
    let context = BuildContext { self_join: probe.is_none(), ..BuildContext::new(2, &cancel, &|_| Ok(())) };
    let [(expected, _), (found, chosen)] = [&Engine::Cpu, on_device].map(|engine| {
        let index = RuleIndex::try_new(source.clone(), same(build), engine, &context).unwrap();
        let prepare = |probe| index.prepare(same(probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap();
        let prepared = probe.map(prepare);
        (run_with(&index, prepared.as_ref(), step, &NoThirds), index.chosen())
    });
    assert_eq!(found.0, expected.0, "{source:?}");
    assert_eq!((found.1.candidates, found.1.witnesses), (expected.1.candidates, expected.1.witnesses), "{source:?}");
    (found.0, chosen)
}

#[test]
fn the_cpu_decides_atoms_without_kernels() {
    let mut rng = StdRng::seed_from_u64(12);
    let on_device = engine_of(Budget::new(&device(), 0.5));
    let (mut prefiltered, mut pairs) = (0, 0);
    for case in 0..40 {
        let self_join = case % 2 == 0;
        let mut clauses: Vec<Vec<usize>> = Vec::new();
        for _ in 0..rng.random_range(1..5) {
            // a condition of one side leaves no self-join
            let may = |atom: usize| !self_join || atom != 3;
            let entry = rng.random_range(0..3);
            let share = |atom: usize| if atom < 10 { 0.25 } else { 0.4 };
            let atoms = (1..12).filter(|&atom| may(atom) && atom != entry && rng.random_bool(share(atom)));
            let mut clause: Vec<usize> = std::iter::once(entry).chain(atoms).collect();
            clause.sort_unstable();
            clauses.push(clause);
        }
        let source = RuleSource::new(with_others(), clauses.clone());
        let mut build = side_of([1, 40, 300][case % 3], true, &mut rng);
        if self_join {
            build.atoms[3] = AtomColumn::None;
        }
        let probe = side_of(200, false, &mut rng);
        let (found, chosen) = as_on_the_cpu(&source, &build, (!self_join).then_some(&probe), &on_device, 1 + case * 7);
        prefiltered += chosen.iter().filter(|chosen| chosen.contains(SOME)).count();
        pairs += found.len();
    }
    assert!(prefiltered > 15 && pairs > 1000, "{prefiltered} entries, {pairs} pairs");
}

/// A side of which some strings are too long for a device, and some numbers too large. They match each other.
pub(super) fn side_with_unknown(rows: usize, is_build: bool, rng: &mut StdRng) -> SideColumns {
    let mut side = side_of(rows, is_build, rng);
    for key in &mut side.keys[..2] {
        let values = key.as_string::<i32>();
        let long = |rng: &mut StdRng| format!("anna {}", "x y ".repeat(400 + rng.random_range(0..2)));
        let text = |row: usize| match rng.random_bool(0.03) {
            true => Some(long(rng)),
            false => values.is_valid(row).then(|| values.value(row).to_owned()),
        };
        *key = Arc::new((0..rows).map(text).collect::<StringArray>());
    }
    let vectors = side.keys[2].as_list::<i32>();
    let vector = |row: usize| match rng.random_bool(0.03) {
        true => Some(vec![Some(1e200), Some(1e-200), Some(0.25)]),
        false => {
            vectors.is_valid(row).then(|| vectors.value(row).as_primitive::<Float64Type>().iter().collect::<Vec<_>>())
        }
    };
    let vectors: Vec<_> = (0..rows).map(vector).collect();
    side.keys[2] = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vectors));
    side
}

#[test]
fn the_cpu_decides_rows_that_no_kernel_takes() {
    let mut rng = StdRng::seed_from_u64(15);
    let on_device = engine_of(Budget::new(&device(), 0.5));
    let (mut left, mut prefiltered, mut pairs) = (0, 0, 0);
    for case in 0..48 {
        let self_join = case % 2 == 0;
        let last = if case % 3 == 0 { 11 } else { 9 };
        let mut clauses: Vec<Vec<usize>> = Vec::new();
        for _ in 0..rng.random_range(1..5) {
            // a condition of one side leaves no self-join
            let may = |atom: usize| !self_join || atom != 3;
            let entry = rng.random_range(0..3);
            let atoms = (1..last).filter(|&atom| may(atom) && atom != entry && rng.random_bool(0.3));
            let mut clause: Vec<usize> = std::iter::once(entry).chain(atoms).collect();
            clause.sort_unstable();
            clauses.push(clause);
        }
        let source = RuleSource::new(with_others(), clauses.clone());
        // unknown rows on both sides, on the build side alone, and on the probe side alone
        let of = |unknown: bool| if unknown { side_with_unknown } else { side_of };
        let mut build = of(self_join || case % 8 != 1)([40, 300][case / 2 % 2], true, &mut rng);
        if self_join {
            build.atoms[3] = AtomColumn::None;
        }
        let probe = of(case % 8 != 3)(200, false, &mut rng);
        let (found, chosen) = as_on_the_cpu(&source, &build, (!self_join).then_some(&probe), &on_device, 1 + case * 7);
        for chosen in chosen {
            left += usize::from(chosen.contains(", cpu for rows with very long strings"));
            prefiltered += usize::from(chosen.contains(SOME));
        }
        let is_long = |key: usize, row: u32| build.keys[key].as_string::<i32>().value(row as usize).len() > 1024;
        pairs += found.iter().filter(|(build, _)| is_long(0, *build) || is_long(1, *build)).count();
    }
    assert!(left > 20 && prefiltered > 5 && pairs > 100, "{left} and {prefiltered} entries, {pairs} pairs");
}

/// The CPU is asked about the pairs that a device leaves, and about no other.
#[test]
fn a_device_leaves_few_pairs_to_the_cpu() {
    let mut rng = StdRng::seed_from_u64(13);
    let build = side_of(900, true, &mut rng);
    let source = RuleSource::new(with_others(), vec![vec![0, 4, 6, 11]]);
    let cancel = Cancel::default();
    let context = BuildContext::new(2, &cancel, &|_| Ok(()));
    let probe = side_of(900, false, &mut rng);
    let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap();
    let asked = |index: &RuleIndex| {
        let prepared = index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap();
        run_with(index, Some(&prepared), usize::MAX, &NoThirds)
    };
    let by_device = index(&engine_of(Budget::new(&device(), 0.5)));
    assert!(by_device.chosen()[0].contains(SOME), "{:?}", by_device.chosen());
    let (expected, found) = (asked(&index(&Engine::Cpu)), asked(&by_device));
    assert_eq!((&found.0, &found.1.witnesses), (&expected.0, &expected.1.witnesses));
    // the last atom is the CPU's alone
    assert_eq!(found.1.evaluated[11], expected.1.evaluated[11]);
    assert!(!found.0.is_empty() && found.1.evaluated[11] * 5 < found.1.candidates[0], "{:?}", found.1);
}

/// A measure that the device has no kernel for, beside nothing but an equality, is filtered there by another one.
#[test]
fn a_device_filters_by_plain_edits_what_it_cannot_decide() {
    let mut rng = StdRng::seed_from_u64(16);
    let (build, probe) = (side_of(700, true, &mut rng), side_of(700, false, &mut rng));
    let source = RuleSource::new(with_others(), vec![vec![0, 10], vec![1, 4]]);
    let on_device = engine_of(Budget::new(&device(), 0.5));
    let (found, chosen) = as_on_the_cpu(&source, &build, Some(&probe), &on_device, usize::MAX);
    assert!(found.len() > 1000 && chosen.iter().any(|chosen| chosen.contains(SOME)), "{chosen:?}");
}

#[test]
fn in_little_memory_the_cpu_decides_all_atoms() {
    let mut rng = StdRng::seed_from_u64(14);
    let source = RuleSource::new(with_others(), vec![vec![1, 4, 9], vec![0, 6, 10], vec![0, 8]]);
    let cancel = Cancel::default();
    let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
    let side = side_of(300, true, &mut rng);
    let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&side), engine, &context).unwrap();
    let expected = run_with(&index(&Engine::Cpu), None, 100, &NoThirds);
    let device = device_alone();
    let mut prefiltered = Vec::new();
    for bytes in (10..30).map(|bits| 1usize << bits) {
        let index = index(&engine_of(budget_of(&device, bytes)));
        let found = run_with(&index, None, 100, &NoThirds);
        assert_eq!((found.0, found.1.witnesses), (expected.0.clone(), expected.1.witnesses.clone()), "{bytes} bytes");
        prefiltered.push(index.chosen().iter().any(|chosen| chosen.contains(SOME)));
    }
    assert!(prefiltered.contains(&true) && prefiltered.contains(&false));
}
