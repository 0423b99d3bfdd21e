//! Connected components, on a device and on the host.

use arrow::array::{AsArray, Float64Array, Int64Array, UInt64Array, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use similarity_engine::accelerator::DeviceLimits;
use similarity_engine::devices::DeviceSet;
use similarity_engine::links::{Clustering, Components, LinkChunk, LinkSink, LinkTable, Method};

use super::*;
use crate::memory::Budget;
use crate::test_device::{budget_of, device, device_alone};
use crate::test_oracle::links::{Edge, random_edges};

/// Each id with that of its cluster.
type Rows = Vec<(String, String)>;

fn chunk(edges: &[Edge], data_type: &DataType) -> LinkChunk {
    let column = |end: fn(&Edge) -> Option<i64>| {
        let ids: ArrayRef = match data_type {
            // bits, so that ids beyond those with a sign come, too
            DataType::UInt64 => {
                Arc::new(edges.iter().map(|edge| end(edge).map(|id| id as u64)).collect::<UInt64Array>())
            }
            _ => Arc::new(edges.iter().map(end).collect::<Int64Array>()),
        };
        match data_type {
            DataType::Date32 => cast(&cast(&ids, &DataType::Int32).unwrap(), data_type).unwrap(),
            _ => cast(&ids, data_type).unwrap(),
        }
    };
    LinkChunk { left: vec![column(|edge| edge.0)], right: vec![column(|edge| edge.1)], scores: vec![] }
}

fn rows(table: &dyn LinkTable) -> Rows {
    let columns = table.columns(0..table.rows()).unwrap();
    let texts: Vec<ArrayRef> = columns.iter().map(|column| cast(column, &DataType::Utf8).unwrap()).collect();
    let texts = (texts[0].as_string::<i32>(), texts[1].as_string::<i32>());
    let mut rows: Rows = texts.0.iter().zip(texts.1).map(|(id, of)| (id.unwrap().into(), of.unwrap().into())).collect();
    rows.sort_unstable();
    rows
}

/// What `sink` makes of links that two threads bring.
fn table(sink: impl LinkSink + 'static, chunks: &[LinkChunk]) -> Box<dyn LinkTable> {
    std::thread::scope(|scope| {
        for chunks in chunks.chunks(chunks.len().div_ceil(2).max(1)) {
            let sink = &sink;
            scope.spawn(move || chunks.iter().for_each(|chunk| sink.add(chunk).unwrap()));
        }
    });
    let needed = sink.memory_to_finish();
    let table = Box::new(sink).finish(2, &Cancel::default()).unwrap();
    assert!(needed >= table.rows() * size_of::<u64>(), "{needed} bytes for {} rows", table.rows());
    table
}

fn by_cpu(chunks: &[LinkChunk], data_type: &DataType) -> Rows {
    rows(table(Clustering::new(Method::Components, data_type).unwrap(), chunks).as_ref())
}

fn by(engine: Engine, chunks: &[LinkChunk], data_type: &DataType) -> Box<dyn LinkTable> {
    table(Components::new(engine, data_type, None).unwrap(), chunks)
}

fn count(table: &dyn LinkTable, metric: &str) -> Option<usize> {
    table.metrics().iter().find(|value| value.name() == metric).map(|value| value.as_usize())
}

#[test]
fn random_graphs_of_each_type() {
    let engine = engine_of(Budget::new(&device(), 0.5));
    let mut rng = StdRng::seed_from_u64(76);
    let types = [
        DataType::Int64,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Date64,
        DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into())),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Duration(TimeUnit::Second),
    ];
    for case in 0..400 {
        let data_type = &types[case % types.len()];
        let mut edges = random_edges(&mut rng);
        if matches!(data_type, DataType::Time64(_)) {
            let shift = |id: Option<i64>| id.map(|id| id + 50);
            edges.iter_mut().for_each(|edge| *edge = (shift(edge.0), shift(edge.1)));
        }
        let mut chunks: Vec<LinkChunk> = edges.chunks(7).map(|edges| chunk(edges, data_type)).collect();
        if case % 3 == 0 {
            for chunk in &mut chunks {
                let score = |row: usize| (!row.is_multiple_of(4)).then_some(0.5);
                let scores: Float64Array = (0..chunk.left[0].len()).map(score).collect();
                chunk.scores.push(Arc::new(scores));
            }
        }
        let found = by(engine.clone(), &chunks, data_type);
        assert!(found.engine().unwrap().starts_with("cuda:0"), "{:?}", found.engine());
        assert_eq!(rows(found.as_ref()), by_cpu(&chunks, data_type), "case {case} of {data_type}");
        assert_eq!(count(found.as_ref(), "cpu_fallbacks"), None);
    }
}

/// Graphs large enough that the table grows again and again.
#[test]
fn large_graphs() {
    let engine = engine_of(Budget::new(&device(), 0.5));
    let mut rng = StdRng::seed_from_u64(77);
    let path = |count: i64| (1..count).map(|id| (Some(id - 1), Some(id))).collect::<Vec<Edge>>();
    let mut shuffled = path(100_000);
    shuffled.shuffle(&mut rng);
    let far = |id: i64| Some(id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
    let random = (0..60_000).map(|_| (far(rng.random_range(0..50_000)), far(rng.random_range(0..50_000)))).collect();
    let graphs: [(&str, Vec<Edge>); 7] = [
        ("path", path(100_000)),
        ("path backwards", path(100_000).into_iter().rev().map(|(left, right)| (right, left)).collect()),
        ("path in no order", shuffled),
        ("star", (1..50_000).map(|id| (Some(25_000), Some(id))).collect()),
        ("clique", (0..300).flat_map(|a| (0..a).map(move |b| (far(a), far(b)))).collect()),
        ("alone", (0..50_000).map(|id| if id % 2 == 0 { (far(id), None) } else { (far(id), far(id)) }).collect()),
        ("random", random),
    ];
    for (name, edges) in graphs {
        let chunks: Vec<LinkChunk> = edges.chunks(9_000).map(|edges| chunk(edges, &DataType::Int64)).collect();
        let found = by(engine.clone(), &chunks, &DataType::Int64);
        assert_eq!(rows(found.as_ref()), by_cpu(&chunks, &DataType::Int64), "{name}");
        let links = edges.iter().filter(|edge| edge.0.is_some() || edge.1.is_some()).count();
        assert_eq!(count(found.as_ref(), "device_bytes_in"), Some(2 * links * size_of::<u64>()), "{name}");
        assert!(count(found.as_ref(), "device_tasks") > Some(chunks.len()));
    }
}

/// Links of one launch. On a device they meet each other, which those of the emulated driver do not.
#[test]
fn links_that_come_at_once() {
    let engine = engine_of(Budget::new(&device(), 0.5));
    let count: i64 = if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_some() { 5 << 20 } else { 1 << 15 };
    let mut rng = StdRng::seed_from_u64(80);
    let mut shuffled: Vec<Edge> = (1..count).map(|id| (Some(id - 1), Some(id))).collect();
    let path = shuffled.clone();
    shuffled.shuffle(&mut rng);
    let random =
        (0..count).map(|_| (Some(rng.random_range(0..count / 2)), Some(rng.random_range(0..count / 2)))).collect();
    let graphs: [(&str, Vec<Edge>); 5] = [
        ("path", path),
        ("path in no order", shuffled),
        ("star", (0..count).map(|id| (Some(id), Some(count / 3))).collect()),
        ("few ids", (0..count).map(|at| (Some(at % 7), Some(at * at % 11))).collect()),
        ("random", random),
    ];
    for (name, edges) in graphs {
        let chunks: Vec<LinkChunk> =
            edges.chunks(count as usize / 2).map(|edges| chunk(edges, &DataType::Int64)).collect();
        let found = by(engine.clone(), &chunks, &DataType::Int64);
        assert!(rows(found.as_ref()) == by_cpu(&chunks, &DataType::Int64), "{name}");
        assert!(found.engine().unwrap().starts_with("cuda:0"), "{name}: {:?}", found.engine());
    }
}

#[test]
fn ids_may_be_any_number() {
    let engine = engine_of(Budget::new(&device(), 0.5));
    // of these bits some are negative, or beyond all numbers with a sign
    let ids = [0, 1, 2, -1, -2, i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1];
    let pairs = |step: usize| (0..ids.len()).map(move |at| (Some(ids[at]), Some(ids[(at + step) % ids.len()])));
    for data_type in [DataType::Int64, DataType::UInt64] {
        for step in [0, 1, 3] {
            for zero in [true, false] {
                let there = |edge: &Edge| zero || edge.0 != Some(0) && edge.1 != Some(0);
                let edges: Vec<Edge> = pairs(step).filter(there).collect();
                let chunks = [chunk(&edges, &data_type)];
                let found = rows(by(engine.clone(), &chunks, &data_type).as_ref());
                assert_eq!(found, by_cpu(&chunks, &data_type), "{data_type}, step {step}, zero {zero}");
                assert_eq!(found.len(), ids.len() - usize::from(!zero));
            }
        }
    }
    let nothing = by(engine, &[], &DataType::Int32);
    assert_eq!(nothing.rows(), 0);
    assert!(nothing.columns(0..0).unwrap().iter().all(|column| column.data_type() == &DataType::Int32));
}

/// The memory may end at any step: before the first link, when the table grows, or when the clusters are fetched.
#[test]
fn cpu_goes_on_where_memory_lacks() {
    let device = device_alone();
    let mut rng = StdRng::seed_from_u64(78);
    let edges: Vec<Edge> =
        (0..6_000).map(|_| (Some(rng.random_range(0..5_000)), Some(rng.random_range(0..5_000)))).collect();
    let chunks: Vec<LinkChunk> = edges.chunks(500).map(|edges| chunk(edges, &DataType::Int64)).collect();
    let expected = by_cpu(&chunks, &DataType::Int64);
    let mut engines = std::collections::BTreeMap::new();
    for kilobytes in (0..400).step_by(10) {
        let found = by(engine_of(budget_of(&device, kilobytes << 10)), &chunks, &DataType::Int64);
        assert_eq!(rows(found.as_ref()), expected, "{kilobytes} kB");
        let engine = found.engine().unwrap().to_owned();
        let is_on_cpu = engine == "cpu (the device has no memory left for it)";
        assert_eq!(count(found.as_ref(), "cpu_fallbacks"), is_on_cpu.then_some(1), "{engine}");
        let sent = count(found.as_ref(), "device_bytes_in").unwrap_or(0);
        *engines.entry((is_on_cpu, sent == 0)).or_insert(0) += 1;
        drop(found);
        assert_eq!(device.reserved(), 0);
    }
    assert!(engines[&(true, true)] > 0 && engines[&(true, false)] > 0 && engines[&(false, false)] > 0, "{engines:?}");
}

#[test]
fn a_device_takes_over_from_the_cpu_once_there_are_links_enough() {
    let _open = device();
    let auto = || Engine::Auto {
        platform: &crate::Cuda,
        devices: DeviceSet::FIRST,
        limits: DeviceLimits { memory_fraction: 0.5, ..DeviceLimits::NONE },
    };
    let mut rng = StdRng::seed_from_u64(79);
    let nulls = new_null_array(&DataType::Int64, 1 << 19);
    for case in 0..20 {
        let edges = random_edges(&mut rng);
        let half = edges.len() / 2;
        let links = |edges| chunk(edges, &DataType::Int64);
        let nothing = || LinkChunk { left: vec![nulls.clone()], right: vec![nulls.clone()], scores: vec![] };
        let few = [links(&edges[..half]), links(&edges[half..])];
        let expected = by_cpu(&few, &DataType::Int64);
        let found = by(auto(), &few, &DataType::Int64);
        assert_eq!(rows(found.as_ref()), expected);
        let reason = format!("cpu (about {} links, a device pays from {} links on)", edges.len(), 1 << 20);
        assert_eq!(found.engine(), Some(reason.as_str()));
        // one thread, so that the first half is the CPU's
        let sink = Components::new(auto(), &DataType::Int64, None).unwrap();
        for chunk in [links(&edges[..half]), nothing(), nothing(), links(&edges[half..])] {
            sink.add(&chunk).unwrap();
        }
        let found = Box::new(sink).finish(2, &Cancel::default()).unwrap();
        assert_eq!(rows(found.as_ref()), expected, "case {case}");
        assert!(found.engine().unwrap().starts_with("cuda:0"), "{:?}", found.engine());
        let found = table(Components::new(auto(), &DataType::Int64, Some(1 << 20)).unwrap(), &few);
        assert_eq!(rows(found.as_ref()), expected);
        assert!(found.engine().unwrap().starts_with("cuda:0"), "{:?}", found.engine());
    }
}

#[test]
fn other_ids_are_left_to_the_cpu() {
    let texts = cast(&Int64Array::from(vec![3, 5, 7]), &DataType::Utf8).unwrap();
    let links = LinkChunk { left: vec![texts.slice(0, 2)], right: vec![texts.slice(1, 2)], scores: vec![] };
    let found = by(engine_of(Budget::new(&device(), 0.5)), std::slice::from_ref(&links), &DataType::Utf8);
    assert_eq!(rows(found.as_ref()), ["3", "5", "7"].map(|id| (id.into(), "3".into())));
    assert_eq!((found.engine(), found.metrics().len()), (None, 0));
    let sink = Components::new(engine_of(Budget::new(&device(), 0.5)), &DataType::Int64, None).unwrap();
    assert!(sink.add(&links).is_err(), "ids of another type");
}

#[test]
fn nobody_waits_for_clusters_of_a_cancelled_query() {
    let sink = Components::new(engine_of(Budget::new(&device(), 0.5)), &DataType::Int64, None).unwrap();
    sink.add(&chunk(&[(Some(1), Some(2))], &DataType::Int64)).unwrap();
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(matches!(Box::new(sink).finish(1, &cancel), Err(similarity_engine::Error::Cancelled)));
}
