//! The choice of an engine, with a device.

use arrow::array::{ListArray, StringArray};
use arrow::datatypes::Float64Type;

use super::*;
use crate::test_device::device;
use similarity_engine::PrepareContext;
use similarity_engine::accelerator::DeviceLimits;
use similarity_engine::atoms::Span;
use similarity_engine::choice::{Asked, EngineSpec};
use similarity_engine::condition::{Bounds, VectorCondition};
use similarity_engine::devices::DeviceSet;
use similarity_engine::internals::ROWS_OF_RULES;
use similarity_engine::match_count::{self, MatchCount};
use similarity_engine::nearest::Wanted;
use similarity_engine::ranking::Ranking;
use similarity_measures::{EditMeasure, Power, SetMeasure, Tokenizer, VectorMeasure};

#[test]
fn keys_of_rules_go_to_an_open_device_from_so_many_rows_on() {
    let _open = device();
    let (auto, half) = (
        Engine::Auto {
            platform: &crate::Cuda,
            devices: DeviceSet::FIRST,
            limits: DeviceLimits { memory_fraction: 0.5, ..DeviceLimits::NONE },
        },
        ROWS_OF_RULES / 2,
    );
    let never = Cancel::default();
    let pays = |rows: usize, self_join: bool, probe_rows: Option<usize>| {
        let context = BuildContext { self_join, probe_rows, ..BuildContext::new(2, &never, &|_| Ok(())) };
        auto.device_of_keys(rows, &context).is_some()
    };
    for (rows, self_join, probe_rows) in [(2 * half, true, None), (half, false, Some(half)), (half, false, None)] {
        assert!(
            pays(rows, self_join, probe_rows) && !pays(rows - 1, self_join, probe_rows),
            "{rows} {self_join} {probe_rows:?}"
        );
    }
    assert!(pays(1, false, Some(2 * half)) && !pays(half, true, Some(half)), "a self-join has no other side");
}

#[test]
fn access_paths_are_those_of_the_engine_that_may_run() {
    let _open = device();
    let edit = |measure| Condition::Edit { measure, bounds: Bounds::at_least(0.9, true) };
    let (similarity, jaro) = (edit(EditMeasure::LEVENSHTEIN_SIMILARITY), edit(EditMeasure::JARO));
    let lp = |power| Condition::Vector(VectorCondition::every_score(VectorMeasure::Lp(Power::new(power).unwrap())));
    let on_cpu = "segment index or signature tiles (by the cost over the collected keys)";
    let paths =
        |asked, condition| EngineSpec { asked, ..EngineSpec::CPU }.access_paths(Some(&crate::Cuda), condition, None);
    assert_eq!(paths(Asked::Cpu, similarity), on_cpu);
    assert_eq!(paths(Asked::Cuda, similarity), "signature tiles");
    assert_eq!(paths(Asked::Auto, similarity), format!("{on_cpu}; on cuda:0 signature tiles"));
    // both have the same one
    assert_eq!(paths(Asked::Auto, jaro), "signature tiles");
    assert_eq!(paths(Asked::Cuda, lp(3.0)), "blocks along a curve");
    // no kernels for that one
    assert_eq!(paths(Asked::Cuda, lp(1e9)), paths(Asked::Cpu, lp(1e9)));
}

#[test]
fn rankings_go_where_there_are_kernels_for_them() {
    let _open = device();
    let wanted = Wanted { rows: 3, ties: false };
    let explain = |asked, ranking: &Ranking| {
        let spec = EngineSpec { asked, ..EngineSpec::CPU };
        let paths = spec.ranking_access_paths(Some(&crate::Cuda), ranking, wanted, None);
        format!("{paths}; {}", spec.explain_ranking(Some(&crate::Cuda), ranking, wanted))
    };
    let edit = |measure| Ranking::Score(Condition::Edit { measure, bounds: Bounds::everything() });
    let set =
        Condition::Set { tokenizer: Tokenizer::Words, measure: SetMeasure::JACCARD, bounds: Bounds::everything() };
    let set = Ranking::Score(set);
    let (tiles, no_kernels) = ("signature tiles", "signature tiles; cpu (no kernels for this ranking)");
    for measure in [EditMeasure::LEVENSHTEIN, EditMeasure::JARO_WINKLER] {
        assert_eq!(explain(Asked::Cuda, &edit(measure)), format!("{tiles}; cuda:0"));
        let auto =
            format!("{tiles}; cpu, or cuda:0 from 10 s of a core's work on, 2 ms of a core's work once it is open");
        assert_eq!(explain(Asked::Auto, &edit(measure)), auto);
    }
    assert_eq!(explain(Asked::Cuda, &edit(EditMeasure::DAMERAU_LEVENSHTEIN)), no_kernels);
    let by_cost = "inverted index or signature tiles (by the cost over the collected keys)";
    assert_eq!(explain(Asked::Cuda, &set), format!("{by_cost}; cuda:0"));
    let auto = format!("inverted index; on cuda:0 {by_cost}; cpu, or cuda:0 from ");
    assert!(explain(Asked::Auto, &set).starts_with(&auto));
    let count = |conditions| Ranking::MatchCount(MatchCount { conditions, weights: None });
    let auto =
        "columns of conditions; cpu, or cuda:0 from 10 s of a core's work on, 20 ms of a core's work once it is open";
    assert_eq!(explain(Asked::Auto, &count(3)), auto);
    assert_eq!(explain(Asked::Cuda, &count(255)), "columns of conditions; cuda:0");
    assert_eq!(explain(Asked::Cuda, &count(256)), "columns of conditions; cpu (no kernels for this ranking)");
    // `auto` takes the device that is open for as much work as that
    let auto = Engine::Auto {
        platform: &crate::Cuda,
        devices: DeviceSet::FIRST,
        limits: DeviceLimits { memory_fraction: 0.5, ..DeviceLimits::NONE },
    };
    let never = Cancel::default();
    for (rows, is_enough) in [(20u64, false), (1500, true)] {
        let text = |row: u64| Some(format!("a text of some length, {}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let texts: ArrayRef = Arc::new((0..rows).map(text).collect::<StringArray>());
        let (keys, ranks) = (KeyColumn { values: texts, groups: None }, vec![0; rows as usize]);
        let context = BuildContext::new(2, &never, &|_| Ok(()));
        let by = edit(EditMeasure::LEVENSHTEIN);
        let (index, _) = auto.build_nearest(&by, &keys, ranks, wanted, &context).unwrap();
        assert_eq!(index.info().path.contains("cuda:0"), is_enough, "{rows}: {}", index.info().path);
    }
    for (rows, is_enough) in [(4000u32, false), (8000, true)] {
        let places = (0..rows).map(|row| Span { first: row, last: row }).collect();
        let keys = KeyColumn { values: match_count::keys(&vec![places; 3], rows as usize).unwrap(), groups: None };
        let context = BuildContext::new(2, &never, &|_| Ok(()));
        let (index, reason) = auto.build_nearest(&count(3), &keys, vec![0; rows as usize], wanted, &context).unwrap();
        assert_eq!(index.info().path.contains("(cuda:0"), is_enough, "{rows}: {}{reason}", index.info().path);
    }
}

#[test]
fn batches_are_made_ready_until_they_are_cancelled() {
    let words = Tokenizer::Words;
    let texts: ArrayRef = Arc::new((0..2000).map(|row| Some(format!("a name {row}"))).collect::<StringArray>());
    let point = |row: i32| Some((0..20).map(|at| Some(f64::from(row * at % 97))).collect::<Vec<_>>());
    let points: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>((0..2000).map(point).collect::<Vec<_>>()));
    let near =
        VectorCondition { bounds: Bounds::at_most(5.0, true), ..VectorCondition::every_score(VectorMeasure::L2) };
    let set = Condition::Set { tokenizer: words, measure: SetMeasure::JACCARD, bounds: Bounds::at_least(0.5, true) };
    let edit = Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(1.0, true) };
    let (never, cancelled) = (Cancel::default(), Cancel::default());
    cancelled.cancel();
    for engine in [Engine::Cpu, engine_of(Budget::new(&device(), 0.5))] {
        for (condition, values) in [(set, &texts), (edit, &texts), (Condition::Vector(near), &points)] {
            let keys = KeyColumn { values: Arc::clone(values), groups: None };
            let context = BuildContext::new(2, &never, &|_| Ok(()));
            let (index, _) = engine.build(condition, keys.clone(), &context).unwrap();
            assert!(index.prepare(&keys, &PrepareContext { threads: 2, cancel: &never }).is_ok());
            let error = index.prepare(&keys, &PrepareContext { threads: 2, cancel: &cancelled }).err();
            assert!(error.is_some_and(|error| error.to_string().contains("cancelled")), "{condition} {engine:?}");
        }
    }
}
