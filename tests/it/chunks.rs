//! Build sides larger than memory: the same rows as stock DataFusion with as much memory as it likes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, FixedSizeListArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::datasource::MemTable;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cuda::is_on_a_device;
use crate::nearest_in_chunks::refused;
use crate::rows::rows_of;
use crate::{metric, session_of};

const ROWS: usize = 3000;

/// Points with names, in batches of a hundred rows; a few are NULL.
fn table(seed: u64, rows: usize) -> MemTable {
    let mut rng = StdRng::seed_from_u64(seed);
    let batch = |first: usize, rng: &mut StdRng| {
        let ids = Arc::new(Int64Array::from_iter_values(first as i64..first as i64 + 100)) as ArrayRef;
        let mut point = |_| {
            let is_some = rng.random_range(0..50) > 0;
            is_some.then(|| [Some(rng.random_range(0.0..100.0)), Some(rng.random_range(0.0..100.0))])
        };
        let points: Vec<Option<[Option<f64>; 2]>> = (0..100).map(&mut point).collect();
        let points = Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(points, 2)) as ArrayRef;
        let name = |_| format!("name {:05} {}", rng.random_range(0..20_000), "x".repeat(200));
        let names = Arc::new(StringArray::from_iter_values((0..100).map(name))) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("v", points, true), ("s", names, true)]).unwrap()
    };
    let batches: Vec<_> = (0..rows / 100).map(|n| batch(n * 100, &mut rng)).collect();
    let (one, other) = batches.split_at(batches.len() / 3);
    MemTable::try_new(batches[0].schema(), vec![one.to_vec(), other.to_vec()]).unwrap()
}

fn context(runtime: Arc<RuntimeEnv>, partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(512);
    let context = session_of(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime));
    for (seed, name) in [(1, "l"), (2, "r")] {
        context.register_table(name, Arc::new(table(seed, ROWS))).unwrap();
    }
    context
}

fn in_memory(bytes: usize) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes))).build_arc().unwrap()
}

/// The sorted rows, and the plan.
pub(crate) async fn run(context: &SessionContext, query: &str, enabled: bool) -> (Vec<String>, Arc<dyn ExecutionPlan>) {
    context.sql(&format!("SET similarity.enabled = {enabled}")).await.unwrap();
    let frame = context.similarity_sql(query).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
    let batches = batches.unwrap_or_else(|e| panic!("{query}: {e}"));
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    (rows, plan)
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_join_type_in_little_memory() {
    let plenty = context(Arc::default(), 2);
    let little = [1, 3].map(|partitions| context(in_memory(250 << 10), partitions));
    for join in ["", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "RIGHT SEMI", "LEFT ANTI", "RIGHT ANTI"] {
        for other in ["r", "l"] {
            let columns = match join {
                "LEFT SEMI" | "LEFT ANTI" => "a.id",
                "RIGHT SEMI" | "RIGHT ANTI" => "b.id",
                _ => "a.id, b.id",
            };
            let query = format!(
                "SELECT {columns} FROM l a {join} JOIN {other} b ON l2_distance(a.v, b.v) <= 0.7 AND a.id < b.id"
            );
            let (expected, _) = run(&plenty, &query, false).await;
            for little in &little {
                let (found, plan) = run(little, &query, true).await;
                assert_eq!(found, expected, "{query}\n{}", shown(&plan));
                if is_on_a_device() {
                    // whose memory is another one
                    continue;
                }
                assert!(shown(&plan).contains("in chunks, each with k-d blocks"), "{query}\n{}", shown(&plan));
                assert!(metric(&plan, "chunks") > 4, "{query}");
                assert!(metric(&plan, "chunk_pairs_skipped") > metric(&plan, "chunk_pairs"), "{query}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_conditions_in_little_memory() {
    let plenty = context(Arc::default(), 2);
    for (kilobytes, condition) in [
        (700, "levenshtein(substr(a.s, 1, 10), substr(b.s, 1, 10)) <= 1 AND a.id <> b.id"),
        (700, "a.id = b.id AND jaccard(a.s, b.s, 3) >= 0.2"),
        (350, "(a.id = b.id AND l2_distance(a.v, b.v) <= 30) OR (l2_distance(a.v, b.v) <= 0.3 AND a.id <> b.id)"),
        (300, "cosine_similarity(a.v, b.v) >= 0.9999999"),
        (300, "inner_product(a.v, b.v) >= 18000"),
    ] {
        let little = context(in_memory(kilobytes << 10), 1);
        let query = format!("SELECT a.id, b.id FROM l a LEFT JOIN r b ON {condition}");
        let (expected, _) = run(&plenty, &query, false).await;
        let (found, plan) = run(&little, &query, true).await;
        assert_eq!(found, expected, "{query}\n{}", shown(&plan));
        assert!(is_on_a_device() || shown(&plan).contains("in chunks"), "{query}\n{}", shown(&plan));
    }
}

/// Texts of 1 to 60 words, many of which differ from others by a letter or a word.
fn texts(seed: u64) -> MemTable {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut text = |row: usize| {
        let count = 1 + row * 7 % 60;
        let mut words: Vec<String> =
            (0..count).map(|word| format!("{:03x}", (row % 300 * 61 + word * 17) % 4096)).collect();
        match rng.random_range(0..4) {
            0 => words[rng.random_range(0..count)].push('z'),
            1 => words.push("more".into()),
            _ => {}
        }
        (!row.is_multiple_of(97)).then(|| words.join(" "))
    };
    let batches = (0..ROWS / 100).map(|n| {
        let rows = n * 100..n * 100 + 100;
        let ids = Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))) as ArrayRef;
        let texts = Arc::new(rows.map(&mut text).collect::<StringArray>()) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("s", texts, true)]).unwrap()
    });
    let batches: Vec<_> = batches.collect();
    MemTable::try_new(batches[0].schema(), vec![batches]).unwrap()
}

/// Parts whose strings are too short or too long for those of a chunk are not read for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_keep_chunks_apart() {
    let plenty = context(Arc::default(), 2);
    let little = context(in_memory(900 << 10), 1);
    for (seed, name) in [(5, "texts_l"), (6, "texts_r")] {
        for context in [&plenty, &little] {
            context.register_table(name, Arc::new(texts(seed))).unwrap();
        }
    }
    for condition in [
        "levenshtein(a.s, b.s) <= 1",
        "levenshtein_similarity(a.s, b.s) >= 0.98",
        "jaccard(a.s, b.s) >= 0.9",
        "jaro_winkler_similarity(a.s, b.s) >= 0.99",
    ] {
        for (join, right) in [("", "texts_l"), ("", "texts_r"), ("FULL", "texts_r"), ("LEFT ANTI", "texts_r")] {
            let columns = if join == "LEFT ANTI" { "a.id" } else { "a.id, b.id" };
            let query =
                format!("SELECT {columns} FROM texts_l a {join} JOIN {right} b ON {condition} AND a.id <> b.id");
            // in memory the rows are those of stock, as other tests show; a nested loop takes too long here
            let (expected, _) = run(&plenty, &query, true).await;
            let (found, plan) = run(&little, &query, true).await;
            assert!(found == expected && found.len() > 30, "{query}: {} {}", found.len(), expected.len());
            if is_on_a_device() {
                continue;
            }
            assert!(shown(&plan).contains("in chunks"), "{query}\n{}", shown(&plan));
            let [skipped, probed] = ["chunk_pairs_skipped", "chunk_pairs"].map(|name| metric(&plan, name));
            assert!(skipped > probed, "{query}: {skipped} skipped, {probed} probed");
        }
    }
}

/// A self-join that is divided among processes has a build side in each of its partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn divided_self_joins_in_little_memory() {
    let query = "SELECT a.id, b.id FROM l a JOIN l b ON a.id % 20 = b.id % 20 AND a.id < b.id
                 AND levenshtein(substr(a.s, 1, 10), substr(b.s, 1, 10)) <= 3";
    let (expected, _) = run(&context(Arc::default(), 2), query, false).await;
    let little = refused(&[("[build]", 100_000)], 512, 3);
    little.register_table("l", Arc::new(table(1, ROWS))).unwrap();
    for setting in ["similarity.independent_partitions = true", "similarity.overrides = 'replicated=off'"] {
        little.sql(&format!("SET {setting}")).await.unwrap();
    }
    let (found, plan) = run(&little, query, true).await;
    assert!(found == expected && found.len() > 100, "{} and {}\n{}", found.len(), expected.len(), shown(&plan));
    assert!(shown(&plan).contains("self-join of each partition"), "{}", shown(&plan));
    assert!(is_on_a_device() || shown(&plan).contains("in chunks"), "{}", shown(&plan));
}

/// Without a place for files memory is the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_chunks_where_there_cannot_be_any() {
    if is_on_a_device() {
        skipped_tests::skip("a device is used, the test limits the CPU's memory");
        return;
    }
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(250 << 10)))
        .with_disk_manager_builder(disk)
        .build_arc()
        .unwrap();
    let query = "SELECT a.id FROM l a JOIN r b ON l2_distance(a.v, b.v) <= 0.7";
    let error = context(runtime, 2).similarity_sql(query).await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("Resources exhausted") && error.contains("allow them or raise the memory limit"), "{error}");
}
