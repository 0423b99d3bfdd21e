//! Joins of rules on a device, against the CPU.

use arrow::array::{Int64Array, ListArray, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Float64Type;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;
use crate::test_device::{budget_of, device, device_alone};
use similarity_engine::atoms::{AtomColumn, BandColumn, PairConditions, SideColumns, Span};
use similarity_engine::choice::Engine;
use similarity_engine::condition::{Bounds, VectorCondition};
use similarity_engine::equality::Groups;
use similarity_engine::internals::{
    counters_of, entries_on_device, entries_probed_on_device, groups_of_equalities, walk_on_host,
};
use similarity_engine::rules::{RuleSource, Run};
use similarity_engine::{BuildContext, Limit, NO_GROUP, PrepareContext};
use similarity_measures::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};

struct NoConditions;

impl PairConditions for NoConditions {
    fn select(&self, _: usize, _: &Pairs) -> similarity_engine::Result<Vec<u16>> {
        unreachable!("no atom is a condition")
    }
}

/// The pairs of a self-join by two clauses, each an equality and an edit distance, with how many rows have no
/// partner, and the bytes that went to the device.
fn join(engine: &Engine, equalities: [&ArrayRef; 2], key: &ArrayRef) -> ((Vec<(u32, u32)>, usize), usize) {
    let edit = |k| Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(k, true) };
    let conditions = vec![
        AtomCondition::Equality,
        AtomCondition::Equality,
        AtomCondition::Similarity { key: 0, condition: edit(1.0) },
        AtomCondition::Similarity { key: 0, condition: edit(2.0) },
    ];
    let source = RuleSource::new(conditions, vec![vec![0, 2], vec![1, 3]]);
    let values = |values: &ArrayRef| AtomColumn::Values { values: Arc::clone(values), null_equals_null: false };
    let atoms = vec![values(equalities[0]), values(equalities[1]), AtomColumn::None, AtomColumn::None];
    let side = SideColumns { rows: key.len(), atoms, keys: vec![Arc::clone(key)] };
    let cancel = Cancel::default();
    let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
    let index = RuleIndex::try_new(source, side, engine, &context).unwrap();
    let (mut cursor, mut pairs) = (Cursor { next: 0, end: index.len(None) }, Pairs::default());
    let (limit, run) = (Limit { pairs: 1 << 20, work: 1 << 30 }, Run { conditions: &NoConditions, cancel: &cancel });
    while !cursor.is_done() {
        index.probe(None, &mut cursor, limit, &run, &mut pairs, &mut RuleCounters::new(4, 2)).unwrap();
    }
    let mut pairs: Vec<_> = pairs.build.into_iter().zip(pairs.probe).map(|(a, b)| (a.min(b), a.max(b))).collect();
    pairs.sort_unstable();
    let metrics = index.metrics();
    let bytes = metrics.iter().filter(|metric| metric.name() == "device_bytes_in").map(|metric| metric.as_usize());
    ((pairs, index.unmatchable()), bytes.sum())
}

#[test]
fn strings_of_an_equality_and_an_edit_measure_are_brought_once() {
    let on_device = engine_of(Budget::new(&device(), 0.5));
    let text = |row: u32| (!row.is_multiple_of(11)).then(|| format!("a name of many letters, {}", row * 7919 % 500));
    let names = || Arc::new((0..3000).map(text).collect::<StringArray>()) as ArrayRef;
    let city = |row: u32| Some(format!("city {}", row % 40));
    let (shared, copy, cities) = (names(), names(), Arc::new((0..3000).map(city).collect::<StringArray>()) as ArrayRef);
    let (expected, _) = join(&Engine::Cpu, [&shared, &cities], &shared);
    let (once, few) = join(&on_device, [&shared, &cities], &shared);
    let (twice, many) = join(&on_device, [&copy, &cities], &shared);
    assert!(expected.0.len() > 5000 && expected.1 > 200 && once == expected && twice == expected);
    // a view and the letters of each row
    assert!(many - few >= 3000 * (16 + 20), "{many} {few}");
    // only one of two equalities can be brought with the measure
    let (expected, _) = join(&Engine::Cpu, [&shared, &shared], &shared);
    assert_eq!(join(&on_device, [&shared, &shared], &shared).0, expected);
}

#[test]
fn where_memory_lacks_for_them_the_keys_are_numbered_all_the_same() {
    let long = |row: u32| Some(if row == 7 { "x".repeat(5000) } else { format!("name {}", row % 300) });
    let names = Arc::new((0..2000).map(long).collect::<StringArray>()) as ArrayRef;
    let expected = join(&Engine::Cpu, [&names, &names], &names).0;
    // the string is too long for the measure there
    let on_device = engine_of(Budget::new(&device(), 0.5));
    assert_eq!(join(&on_device, [&names, &names], &names).0, expected);
    let device = device_alone();
    for bytes in (10..26).map(|bits| 1usize << bits) {
        let budget = budget_of(&device, bytes);
        assert_eq!(join(&engine_of(budget), [&names, &names], &names).0, expected, "{bytes} bytes");
    }
}

#[test]
fn why_a_device_does_not_walk_is_said() {
    let condition = Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(1.0, true) };
    let conditions = vec![AtomCondition::Equality, AtomCondition::Similarity { key: 0, condition }];
    let source = RuleSource::new(conditions, vec![vec![0, 1]]);
    let (cancel, device) = (Cancel::default(), device_alone());
    let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
    let chosen = |(longest, long): (usize, usize), bytes: usize| {
        let text = |row: usize| Some(if row < long { "x".repeat(longest) } else { format!("name {row}") });
        let key: ArrayRef = Arc::new((0..300).map(text).collect::<StringArray>());
        let codes = AtomColumn::Codes((0..300).map(|row| row % 150).collect::<Vec<u32>>().into());
        let side = SideColumns { rows: 300, atoms: vec![codes, AtomColumn::None], keys: vec![key] };
        let engine = engine_of(budget_of(&device, bytes));
        RuleIndex::try_new(source.clone(), side, &engine, &context).unwrap().chosen().join("")
    };
    assert!(chosen((9, 300), 1 << 29).starts_with("walked on cuda:0"));
    assert_eq!(chosen((9, 300), 1 << 10), "walked on the cpu; cpu: the device has no memory left for it");
    let some = ", cpu for rows with very long strings or extreme numbers";
    assert!(chosen((1100, 1), 1 << 29).contains(some) && chosen((1100, 18), 1 << 29).contains(some));
    assert_eq!(chosen((1100, 19), 1 << 29), "walked on the cpu; cpu: there are no kernels for such values");
}

/// Two equalities, a band, a condition of one side, similarities, some of the same key, and a condition of either side.
pub(super) fn conditions() -> Vec<AtomCondition> {
    let edit = |key, measure, bounds| AtomCondition::Similarity { key, condition: Condition::Edit { measure, bounds } };
    let words = Tokenizer::Words;
    let near =
        VectorCondition { bounds: Bounds::at_most(0.5, true), ..VectorCondition::every_score(VectorMeasure::L2) };
    let set = Condition::Set { tokenizer: words, measure: SetMeasure::JACCARD, bounds: Bounds::at_least(0.5, true) };
    vec![
        AtomCondition::Equality,
        AtomCondition::Equality,
        AtomCondition::Band,
        AtomCondition::OneSided,
        edit(0, EditMeasure::LEVENSHTEIN, Bounds::at_most(2.0, true)),
        edit(0, EditMeasure::JARO_WINKLER, Bounds::at_least(0.85, true)),
        AtomCondition::Similarity { key: 1, condition: set },
        edit(1, EditMeasure::OSA, Bounds::at_most(3.0, true)),
        AtomCondition::Similarity { key: 2, condition: Condition::Vector(near) },
        AtomCondition::EitherSide,
    ]
}

pub(super) fn side(rows: usize, is_build: bool, rng: &mut StdRng) -> SideColumns {
    let codes = |values: u32, rng: &mut StdRng| {
        let code = |rng: &mut StdRng| if rng.random_bool(0.05) { NO_GROUP } else { rng.random_range(0..values) };
        AtomColumn::Codes((0..rows).map(|_| code(rng)).collect::<Vec<u32>>().into())
    };
    let places: Vec<u32> = (0..rows).map(|_| rng.random_range(1..30)).collect();
    let span = |first: u32, last: u32| Span { first, last };
    let band = BandColumn {
        places: places.iter().map(|&place| span(place, place)).collect(),
        accepted: places.iter().map(|&place| span(place - 1, place + 2)).collect(),
    };
    let bits = BooleanBuffer::collect_bool(rows, |_| rng.random_bool(0.7));
    let mut atoms = vec![codes(4, rng), codes(12, rng), AtomColumn::Band(Arc::new(band))];
    atoms.push(if is_build { AtomColumn::Bits(bits) } else { AtomColumn::None });
    atoms.extend((0..5).map(|_| AtomColumn::None));
    atoms.push(AtomColumn::EitherBits(BooleanBuffer::collect_bool(rows, |_| rng.random_bool(0.4))));
    let text = |rng: &mut StdRng| {
        let words = ["anna", "anne", "hanna", "otto", "ott\u{f6}", "a", "bernd bert", "x y z", "anna lena otto"];
        (!rng.random_bool(0.05)).then(|| {
            let count = rng.random_range(0..4);
            (0..count).map(|_| *words.choose(rng).unwrap()).collect::<Vec<_>>().join(" ")
        })
    };
    let mut keys: Vec<ArrayRef> =
        (0..2).map(|_| Arc::new((0..rows).map(|_| text(rng)).collect::<StringArray>()) as ArrayRef).collect();
    let vector = |rng: &mut StdRng| {
        let element = |rng: &mut StdRng| (!rng.random_bool(0.01)).then(|| f64::from(rng.random_range(-2..3)) / 4.0);
        (!rng.random_bool(0.05)).then(|| (0..3).map(|_| element(rng)).collect::<Vec<_>>())
    };
    let vectors: Vec<_> = (0..rows).map(|_| vector(rng)).collect();
    keys.push(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vectors)));
    SideColumns { rows, atoms, keys }
}

pub(super) fn same(side: &SideColumns) -> SideColumns {
    SideColumns { rows: side.rows, atoms: side.atoms.clone(), keys: side.keys.clone() }
}

/// All pairs, ascending, and what was counted of them on the way.
pub(super) fn run(index: &RuleIndex, probe: Option<&PreparedRules>, step: usize) -> (Vec<(u32, u32)>, RuleCounters) {
    run_with(index, probe, step, &NoConditions)
}

/// Pairs and counters of a run where some atoms are conditions.
pub(super) fn run_with(
    index: &RuleIndex,
    probe: Option<&PreparedRules>,
    step: usize,
    conditions: &dyn PairConditions,
) -> (Vec<(u32, u32)>, RuleCounters) {
    let mut counters = counters_of(index);
    let (mut pairs, cancel) = (Pairs::default(), Cancel::default());
    let run = Run { conditions, cancel: &cancel };
    let all = index.len(probe);
    for start in (0..all).step_by(step) {
        let mut cursor = Cursor { next: start, end: all.min(start.saturating_add(step)) };
        while !cursor.is_done() {
            let limit = Limit { pairs: 500, work: 5000 };
            index.probe(probe, &mut cursor, limit, &run, &mut pairs, &mut counters).unwrap();
        }
    }
    let mut pairs: Vec<_> = pairs.build.into_iter().zip(pairs.probe).collect();
    if probe.is_none() {
        pairs.iter_mut().for_each(|(one, other)| (*one, *other) = ((*one).min(*other), (*one).max(*other)));
    }
    pairs.sort_unstable();
    (pairs, counters)
}

#[test]
fn a_device_walks_as_the_cpu_does() {
    let mut rng = StdRng::seed_from_u64(7);
    let on_device = engine_of(Budget::new(&device(), 0.5));
    let mut walked = 0;
    for case in 0..60 {
        let self_join = case % 3 == 0;
        let mut clauses: Vec<Vec<usize>> = Vec::new();
        for _ in 0..rng.random_range(1..6) {
            // a condition of one side leaves no self-join
            let entry = rng.random_range(0..3);
            let atoms = (1..10).filter(|&atom| (!self_join || atom != 3) && rng.random_bool(0.35));
            clauses.push(std::iter::once(entry).chain(atoms).collect());
        }
        clauses.iter_mut().for_each(|clause| {
            clause.sort_unstable();
            clause.dedup();
        });
        let conditions = conditions();
        let source = RuleSource::new(conditions, clauses.clone());
        let mut build = side([0, 1, 40, 300][case % 4], true, &mut rng);
        if self_join {
            build.atoms[3] = AtomColumn::None;
        }
        let probe = side(200, false, &mut rng);
        let cancel = Cancel::default();
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
        let [cpu, cuda] = [&Engine::Cpu, &on_device]
            .map(|engine| RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap());
        walked += entries_on_device(&cuda);
        let (expected, found) = match self_join {
            true => (run(&cpu, None, usize::MAX), run(&cuda, None, 1 + case * 7)),
            false => {
                let [by_cpu, by_cuda] = [&cpu, &cuda]
                    .map(|index| index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap());
                (run(&cpu, Some(&by_cpu), usize::MAX), run(&cuda, Some(&by_cuda), 1 + case * 7))
            }
        };
        assert_eq!(found.0, expected.0, "case {case}: {clauses:?}");
        assert_eq!(found.1.candidates, expected.1.candidates, "case {case}: {clauses:?}");
        assert_eq!(found.1.passed, expected.1.passed, "case {case}: {clauses:?}");
        assert_eq!(found.1.witnesses, expected.1.witnesses, "case {case}: {clauses:?}");
    }
    assert!(walked > 60, "{walked}");
}

/// The kernels' warps come back for a second share of a launch.
#[test]
fn a_device_walks_launches_of_many_pairs() {
    let mut rng = StdRng::seed_from_u64(9);
    let mut build = side(1700, true, &mut rng);
    build.atoms[0] = AtomColumn::Codes(vec![0; 1700].into());
    build.atoms[3] = AtomColumn::None;
    let clauses = vec![vec![0, 1, 4, 6], vec![0, 5, 7], vec![0, 4, 8]];
    let source = RuleSource::new(conditions(), clauses);
    let cancel = Cancel::default();
    let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
    let [expected, found] = [Engine::Cpu, engine_of(Budget::new(&device(), 0.5))].map(|engine| {
        let index = RuleIndex::try_new(source.clone(), same(&build), &engine, &context).unwrap();
        let is_walked_there = matches!(engine, Engine::Devices(_));
        assert_eq!(entries_on_device(&index), if is_walked_there { index.plan().groups.len() } else { 0 });
        run(&index, None, usize::MAX)
    });
    assert!(expected.0.len() > 20_000);
    assert_eq!(found.0, expected.0);
    assert_eq!((found.1.passed, found.1.witnesses), (expected.1.passed, expected.1.witnesses));
}

/// Groups of four strings, of a few symbols or of many, each made from one of ten by up to three edits.
fn side_of_strings(first: char, symbols: u32, rng: &mut StdRng) -> SideColumns {
    let symbol = |at: u32| char::from_u32(first as u32 + at % symbols).unwrap();
    let base = |at: usize| [0, 1, 4, 17, 31, 32, 33, 64, 65, 150][at % 10];
    let text = |row: usize, rng: &mut StdRng| {
        let mut text: Vec<char> = (0..base(row)).map(|at| symbol(row as u32 % 10 * 41 + at * at)).collect();
        for _ in 0..rng.random_range(0..4) {
            let (at, other) = (rng.random_range(0..=text.len()), symbol(rng.random_range(0..symbols)));
            match rng.random_range(0..4) {
                0 => text.insert(at, other),
                1 if at < text.len() => drop(text.remove(at)),
                2 if at + 1 < text.len() => text.swap(at, at + 1),
                _ if at < text.len() => text[at] = other,
                _ => {}
            }
        }
        text.into_iter().collect::<String>()
    };
    let codes: Vec<u32> = (0..240).map(|row| row % 60).collect();
    let texts = (0..240).map(|row| (!rng.random_bool(0.02)).then(|| text(row, rng)));
    let key: ArrayRef = Arc::new(texts.collect::<StringArray>());
    SideColumns { rows: 240, atoms: vec![AtomColumn::Codes(codes.into()), AtomColumn::None], keys: vec![key] }
}

#[test]
fn a_device_decides_strings_of_few_and_of_many_symbols() {
    let (far, near) = (Bounds::at_most(3.0, true), Bounds::at_least(0.85, true));
    let raised = |weights: [f64; 2]| EditMeasure::JARO_WINKLER.with(&weights).unwrap();
    let measures = [
        (EditMeasure::LEVENSHTEIN, far),
        (EditMeasure::LEVENSHTEIN_SIMILARITY, near),
        (EditMeasure::OSA, far),
        (EditMeasure::DAMERAU_LEVENSHTEIN, far),
        (EditMeasure::HAMMING, far),
        (EditMeasure::JARO, near),
        (EditMeasure::JARO_WINKLER, near),
        (raised([0.25, 0.0]), near),
        (raised([0.2, 0.9]), near),
    ];
    let mut rng = StdRng::seed_from_u64(10);
    let on_device = engine_of(Budget::new(&device(), 0.5));
    for (first, symbols) in [('a', 26), ('\u{4e00}', 600)] {
        for (measure, bounds) in measures {
            let condition = Condition::Edit { measure, bounds };
            let conditions = vec![AtomCondition::Equality, AtomCondition::Similarity { key: 0, condition }];
            let source = RuleSource::new(conditions, vec![vec![0, 1]]);
            let build = side_of_strings(first, symbols, &mut rng);
            // some of its symbols are unknown to the build side
            let probe = side_of_strings(char::from_u32(first as u32 + 5).unwrap(), symbols, &mut rng);
            let cancel = Cancel::default();
            for self_join in [true, false] {
                let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
                let [expected, found] = [&Engine::Cpu, &on_device].map(|engine| {
                    let index = RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap();
                    let has_kernels = measure != EditMeasure::DAMERAU_LEVENSHTEIN;
                    let is_walked_there = has_kernels && matches!(engine, Engine::Devices(_));
                    let walked = if is_walked_there { index.plan().groups.len() } else { 0 };
                    assert_eq!(entries_on_device(&index), walked, "{measure:?} {self_join}");
                    let prepared = (!self_join)
                        .then(|| index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap());
                    run(&index, prepared.as_ref(), usize::MAX)
                });
                assert!(expected.0.len() > 30, "{measure:?} of {symbols} symbols: {} pairs", expected.0.len());
                assert_eq!(found.0, expected.0, "{measure:?} of {symbols} symbols, own: {self_join}");
                assert_eq!(found.1.passed, expected.1.passed, "{measure:?} of {symbols} symbols, own: {self_join}");
            }
        }
    }
}

#[test]
fn whatever_does_not_fit_on_a_device_is_walked_on_the_cpu() {
    let mut rng = StdRng::seed_from_u64(8);
    let clauses = vec![vec![1, 4], vec![0, 6]];
    let source = RuleSource::new(conditions(), clauses);
    let cancel = Cancel::default();
    let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
    let side = side(300, true, &mut rng);
    let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&side), engine, &context).unwrap();
    let expected = run(&index(&Engine::Cpu), None, 100);
    let device = device_alone();
    let mut walked = Vec::new();
    // up to all of the emulated device's memory
    for bytes in (10..30).map(|bits| 1usize << bits) {
        let budget = budget_of(&device, bytes);
        let index = index(&engine_of(budget));
        let found = run(&index, None, 100);
        assert_eq!((found.0, found.1.witnesses), (expected.0.clone(), expected.1.witnesses.clone()), "{bytes} bytes");
        walked.push(entries_on_device(&index) > 0);
    }
    assert!(walked.contains(&true));
}

/// Side with values for codes, of which a device makes others.
pub(super) fn with_values(mut side: SideColumns) -> SideColumns {
    for (atom, column) in side.atoms.iter_mut().enumerate() {
        if let AtomColumn::Codes(codes) = column {
            let known = |&code: &u32| (code != NO_GROUP).then_some(code);
            let values: ArrayRef = match atom {
                0 => Arc::new(
                    codes.fetched().iter().map(|code| Some(known(code)? as i64 * 7 - 9)).collect::<Int64Array>(),
                ),
                _ => {
                    let text = |code: u32| format!("a value that no view holds, {code}");
                    Arc::new(codes.fetched().iter().map(|code| known(code).map(text)).collect::<StringArray>())
                }
            };
            *column = AtomColumn::Values { values, null_equals_null: atom == 1 };
        }
    }
    side
}

#[test]
fn a_device_looks_up_another_side_as_the_cpu_does() {
    let mut rng = StdRng::seed_from_u64(9);
    let clauses = vec![vec![0, 1, 4], vec![1, 6], vec![0, 3, 5], vec![0, 2, 7]];
    let source = RuleSource::new(conditions(), clauses);
    let (build, probe) = (with_values(side(400, true, &mut rng)), with_values(side(300, false, &mut rng)));
    let (cancel, device) = (Cancel::default(), device_alone());
    let context = BuildContext::new(2, &cancel, &|_| Ok(()));
    let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap();
    let prepare =
        |index: &RuleIndex| index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap();
    let by_cpu = index(&Engine::Cpu);
    let expected = run(&by_cpu, Some(&prepare(&by_cpu)), 100);
    assert!(expected.0.len() > 500);
    let mut by_device = index(&engine_of(Budget::new(&device, 0.5)));
    assert!(groups_of_equalities(&by_device).all(|groups| matches!(groups, Groups::Device(_))));
    let prepared = prepare(&by_device);
    assert!(entries_probed_on_device(&prepared) >= 2);
    let found = run(&by_device, Some(&prepared), 100);
    assert_eq!((&found.0, found.1.witnesses), (&expected.0, expected.1.witnesses.clone()));
    assert_eq!(by_device.unmatchable(), by_cpu.unmatchable());
    assert_eq!(prepared.unmatchable(), prepare(&by_cpu).unmatchable());
    // of what was made ready for the device the CPU walks the same rows
    walk_on_host(&mut by_device);
    let found = run(&by_device, Some(&prepared), 100);
    assert_eq!((&found.0, found.1.witnesses), (&expected.0, expected.1.witnesses.clone()));
    for bytes in (10..30).map(|bits| 1usize << bits) {
        let budget = budget_of(&device, bytes);
        let index = index(&engine_of(budget));
        let found = run(&index, Some(&prepare(&index)), 100);
        assert_eq!((found.0, found.1.witnesses), (expected.0.clone(), expected.1.witnesses.clone()), "{bytes} bytes");
    }
}
