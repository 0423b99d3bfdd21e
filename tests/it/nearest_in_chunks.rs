//! Rankings whose right side does not fit into memory: the same rows as in memory, and as window functions of stock
//! DataFusion give.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::{Result, resources_err};
use datafusion::datasource::MemTable;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use datafusion_similarity::SimilarityContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::nearest::{Checked, QUERIES_PER_TABLE, SCORES, SCORES_OF_CONDITIONS, SCORES_OF_TEXTS, Scores};
use crate::rows::rows_of;
use crate::{cases, metric, nearest, session_of};

/// A pool that refuses more than so many bytes to a consumer of a name, whatever others have.
#[derive(Debug)]
struct Refusing {
    most: Vec<(&'static str, usize)>,
    others: UnboundedMemoryPool,
}

impl fmt::Display for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.others.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.others.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let name = reservation.consumer().name();
        match self.most.iter().find(|(consumer, _)| name.contains(consumer)) {
            Some((_, most)) if reservation.size() + additional > *most => resources_err!("{name} has enough"),
            _ => self.others.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.others.reserved()
    }
}

/// A session of tiny chunks, and of few probe rows at once.
pub(crate) fn refused(most: &[(&'static str, usize)], batch_size: usize, partitions: usize) -> SessionContext {
    let pool = Refusing { most: most.to_vec(), others: UnboundedMemoryPool::default() };
    session_in(runtime(Arc::new(pool)), batch_size, partitions)
}

fn runtime(pool: Arc<dyn MemoryPool>) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap()
}

fn session_in(runtime: Arc<RuntimeEnv>, batch_size: usize, partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_batch_size(batch_size).with_target_partitions(partitions);
    session_of(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_window_functions() {
    compare(SCORES, 3, [400_000, 150_000]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_window_functions_by_texts() {
    compare(SCORES_OF_TEXTS, 3, [4_000_000, 2_000_000]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_window_functions_by_conditions() {
    compare(SCORES_OF_CONDITIONS, 3, [400_000, 150_000]).await;
}

/// Of the memory for a chunk, and for what is found of the probe rows, so much is granted.
async fn compare(scores: Scores, tables: usize, of_chunk: [usize; 2]) {
    let (mut checked, tables) = (Checked::default(), cases(tables));
    for seed in 0..tables as u64 {
        let of_probe = [2_000_000, 700_000][seed as usize / 2 % 2];
        let most = [
            ("NearestJoinExec[build]", 1000),
            ("[chunk]", of_chunk[seed as usize % 2]),
            ("NearestJoinExec[probe]", of_probe),
        ];
        let session = |batch_size: usize, partitions| refused(&most, batch_size.min(20), partitions);
        checked.add(nearest::check_tables_in(500 + seed, scores, session).await);
    }
    println!("{checked:?}");
    let cases = tables * QUERIES_PER_TABLE;
    assert!(checked.compared * 10 > cases * 9 && checked.in_chunks * 2 > cases, "{checked:?}");
}

/// Points and names, in batches of a hundred rows; a few are NULL. `k` has five values, and is NULL for some rows.
fn batches(seed: u64, rows: usize) -> Vec<RecordBatch> {
    let mut rng = StdRng::seed_from_u64(seed);
    let batch = |first: usize, rng: &mut StdRng| {
        let ids = Arc::new(Int64Array::from_iter_values(first as i64..first as i64 + 100)) as ArrayRef;
        let keys: Int64Array =
            (0..100).map(|_| Some(rng.random_range(0..5)).filter(|_| rng.random_range(0..20) > 0)).collect();
        let mut point = |_| {
            let number = |rng: &mut StdRng| Some(f64::from(rng.random_range(0..60)));
            (rng.random_range(0..50) > 0).then(|| [number(rng), number(rng)])
        };
        let points: Vec<Option<[Option<f64>; 2]>> = (0..100).map(&mut point).collect();
        let points = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(points, 2);
        let name = |_| format!("name {:05} {}", rng.random_range(0..20_000), "x".repeat(200));
        let names = StringArray::from_iter_values((0..100).map(name));
        RecordBatch::try_from_iter_with_nullable([
            ("id", ids, true),
            ("k", Arc::new(keys), true),
            ("v", Arc::new(points), true),
            ("s", Arc::new(names), true),
        ])
        .unwrap()
    };
    (0..rows / 100).map(|n| batch(n * 100, &mut rng)).collect()
}

fn table(seed: u64, rows: usize) -> MemTable {
    let batches = batches(seed, rows);
    let (one, other) = batches.split_at(batches.len() / 3);
    MemTable::try_new(batches[0].schema(), vec![one.to_vec(), other.to_vec()]).unwrap()
}

fn with_tables(context: SessionContext) -> SessionContext {
    for (seed, name, rows) in [(1, "l", 2000), (2, "r", 4000)] {
        context.register_table(name, Arc::new(table(seed, rows))).unwrap();
    }
    context
}

async fn plan(context: &SessionContext, query: &str) -> Arc<dyn ExecutionPlan> {
    context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap()
}

/// The sorted rows, and the plan.
async fn run(context: &SessionContext, query: &str) -> (Vec<String>, Arc<dyn ExecutionPlan>) {
    let plan = plan(context, query).await;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
    let batches = batches.unwrap_or_else(|e| panic!("{query}: {e}"));
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    (rows, plan)
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(true).to_string()
}

/// Bytes that a join has put on disk, the plan's root.
fn spilled(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or_default()
}

/// The first rows in which two results differ.
fn different(found: &[String], expected: &[String]) -> String {
    let without = |some: &[String], others: &[String]| {
        some.iter().filter(|row| !others.contains(row)).take(5).cloned().collect::<Vec<_>>()
    };
    let (more, fewer) = (without(found, expected), without(expected, found));
    format!("{} rows, not {}: {more:#?} are too many, {fewer:#?} are missing", found.len(), expected.len())
}

const NEAREST: &str = "NEAREST 3 BY DISTANCE l2_distance(a.v, b.v)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_memory_in_pools_of_several_sizes() {
    let plenty = with_tables(session_in(Arc::default(), 512, 2));
    let runtimes = [800, 1500].map(|kilobytes| runtime(Arc::new(GreedyMemoryPool::new(kilobytes << 10))));
    let most = [("NearestJoinExec[build]", 1000), ("[chunk]", 4_000_000), ("NearestJoinExec[probe]", 90_000)];
    // several partitions would take the rest of such a pool from each other
    let mut little: Vec<_> =
        runtimes.iter().map(|runtime| with_tables(session_in(Arc::clone(runtime), 128, 1))).collect();
    little.extend([2, 3].map(|partitions| with_tables(refused(&most, 128, partitions))));
    for query in [
        format!("SELECT a.id, b.id, b.s FROM l a JOIN r b {NEAREST}"),
        format!("SELECT a.id, b.id, b.s FROM l a LEFT JOIN r b {NEAREST} THEN BY b.k DESC, b.id ON a.k = b.k"),
        format!(
            "SELECT a.id, b.id, b.s FROM l a LEFT JOIN r b {NEAREST} THEN BY b.k ON a.k = b.k AND a.id < b.id WITH TIES"
        ),
        format!("SELECT a.id, b.id, b.s FROM r a JOIN r b {NEAREST} ON a.id <> b.id"),
        "SELECT a.id, b.id, b.s FROM l a JOIN r b NEAREST 40 BY DISTANCE abs(a.id - b.id) ON a.id < 300".to_owned(),
        "SELECT a.id, b.id, b.s FROM (SELECT * FROM l WHERE id < 9) a JOIN r b NEAREST 700 BY DISTANCE l1_distance(a.v, b.v)"
            .to_owned(),
        "SELECT a.id, b.id, b.s FROM (SELECT * FROM l WHERE id < 50) a JOIN r b \
         NEAREST 2 BY SIMILARITY jaccard(a.s, b.s, 3) THEN BY b.id"
            .to_owned(),
    ] {
        let (expected, _) = run(&plenty, &query).await;
        for little in &little {
            let (found, plan) = run(little, &query).await;
            assert!(found == expected, "{query}\n{}\n{}", different(&found, &expected), shown(&plan));
            assert!(shown(&plan).contains("in chunks, each with "), "{query}\n{}", shown(&plan));
            assert!(metric(&plan, "chunks") > 1 && spilled(&plan) > 0, "{query}\n{}", shown(&plan));
            assert_eq!(metric(&plan, "matched"), expected.iter().filter(|row| !row.contains("NULL")).count());
        }
    }
    drop(little);
    for runtime in &runtimes {
        assert_eq!((runtime.disk_manager.used_disk_space(), runtime.memory_pool.reserved()), (0, 0));
    }
}

/// A right side in one batch, which is larger than the memory pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_large_batch_is_cut_for_the_sort() {
    let rows = batches(2, 30_000);
    let whole = concat_batches(&rows[0].schema(), &rows).unwrap();
    let pool = 4 << 20;
    assert!(whole.get_array_memory_size() > pool);
    let query = format!("SELECT a.id, b.id, b.s FROM l a JOIN one b {NEAREST} THEN BY b.k, b.id");
    let of = |runtime| {
        let context = session_in(runtime, 512, 2);
        context.register_table("l", Arc::new(table(1, 100))).unwrap();
        context.register_batch("one", whole.clone()).unwrap();
        context
    };
    let (expected, _) = run(&of(Arc::default()), &query).await;
    let (found, plan) = run(&of(runtime(Arc::new(GreedyMemoryPool::new(pool)))), &query).await;
    assert!(found == expected, "{}", different(&found, &expected));
    assert!(shown(&plan).contains("in chunks, each with "), "{}", shown(&plan));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_left_rows_is_kept() {
    let context = session_in(runtime(Arc::new(GreedyMemoryPool::new(400 << 10))), 128, 1);
    let context = with_tables(context);
    let rows = batches(1, 2000);
    let sorted = MemTable::try_new(rows[0].schema(), vec![rows]).unwrap();
    let sorted = sorted.with_sort_order(vec![vec![col("id").sort(true, false)]]);
    context.register_table("sorted", Arc::new(sorted)).unwrap();
    for join in ["JOIN", "LEFT JOIN"] {
        let query =
            format!("SELECT a.id, l2_distance(a.v, b.v) FROM sorted a {join} r b {NEAREST} ON a.k = b.k ORDER BY a.id");
        let plan = plan(&context, &query).await;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        let text = shown(&plan);
        assert!(text.contains("in chunks, each with ") && !text.contains("SortExec"), "{text}");
        let rows = concat_batches(&plan.schema(), &batches).unwrap();
        let scores = rows.column(1).as_primitive::<Float64Type>().iter();
        let keys: Vec<_> = rows.column(0).as_primitive::<Int64Type>().iter().zip(scores).collect();
        let unordered = keys.windows(2).position(|pair| pair[0] > pair[1]);
        assert!(keys.len() > 4000 && unordered.is_none(), "{} rows, {unordered:?}", keys.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_where_a_recall_is_asked_for() {
    let vectors = |seed: u64, rows: usize| {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut vector = |_| Some((0..16).map(|_| Some(rng.random_range(0.0..1.0))).collect::<Vec<_>>());
        let vectors: Vec<_> = (0..rows).map(&mut vector).collect();
        let vectors = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(vectors, 16);
        let ids = Int64Array::from_iter_values(0..rows as i64);
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("v", Arc::new(vectors))]).unwrap()
    };
    let context = refused(&[("NearestJoinExec[build]", 1000), ("[chunk]", 2 << 20)], 1024, 2);
    context.register_batch("l", vectors(1, 1000)).unwrap();
    context.register_batch("r", vectors(2, 9000)).unwrap();
    let query = |word: &str, with: &str| {
        format!("SELECT a.id, b.id FROM l a JOIN r b {word} NEAREST 10 BY DISTANCE l2_distance(a.v, b.v) {with}")
    };
    let (some, plan) = run(&context, &query("APPROXIMATE", "WITH RECALL 0.6")).await;
    assert!(shown(&plan).contains("in chunks, each with "), "{}", shown(&plan));
    assert!(!shown(&plan).contains("clustered"), "{}", shown(&plan));
    assert!(some == run(&context, &query("", "")).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_files_the_error_says_what_to_do() {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(400 << 10)))
        .with_disk_manager_builder(disk)
        .build_arc();
    let context = with_tables(session_in(runtime.unwrap(), 512, 2));
    let query = format!("SELECT a.id FROM l a JOIN r b {NEAREST}");
    let error = context.similarity_sql(&query).await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("Resources exhausted") && error.contains("NearestJoinExec"), "{error}");
    assert!(error.contains("temporary files are switched off; allow them or raise the memory limit"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_left_row_that_ties_with_too_many_is_an_error() {
    let most = [("NearestJoinExec[build]", 1000), ("NearestJoinExec[probe]", 20_000)];
    let context = with_tables(refused(&most, 128, 2));
    let query = "SELECT a.id, b.id FROM l a JOIN r b NEAREST 1 BY DISTANCE a.id WITH TIES";
    let error = context.similarity_sql(query).await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("NearestJoinExec[probe]") && error.contains("has enough"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sides_without_columns() {
    let most = [("NearestJoinExec[build]", 1000), ("NearestJoinExec[probe]", 1 << 30)];
    let (plenty, little) = (session_in(Arc::default(), 128, 2), refused(&most, 128, 2));
    let (plenty, little) = (with_tables(plenty), with_tables(little));
    for query in [
        "SELECT b.id FROM l a JOIN r b NEAREST 2 BY DISTANCE b.id THEN BY b.id",
        "SELECT a.id FROM (SELECT id FROM l WHERE id < 50) a LEFT JOIN r b NEAREST 2 BY DISTANCE a.id THEN BY b.id",
        "SELECT a.id FROM (SELECT id FROM l WHERE id < 3) a JOIN r b NEAREST 2 BY DISTANCE a.id WITH TIES",
    ] {
        let (expected, _) = run(&plenty, query).await;
        let (found, plan) = run(&little, query).await;
        assert!(found == expected, "{query}\n{}\n{}", different(&found, &expected), shown(&plan));
        assert!(shown(&plan).contains("in chunks, each with "), "{query}\n{}", shown(&plan));
    }
}

/// Files and memory are given back soon after nobody waits for the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_dropped_leaves_nothing() {
    let runtime = runtime(Arc::new(GreedyMemoryPool::new(800 << 10)));
    let context = with_tables(session_in(Arc::clone(&runtime), 128, 2));
    let query = "SELECT a.id, b.id FROM r a JOIN r b NEAREST 9 BY DISTANCE levenshtein(a.s, b.s)";
    for milliseconds in [0, 100, 1000] {
        let mut stream = context.similarity_sql(query).await.unwrap().execute_stream().await.unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(milliseconds), stream.next()).await;
        drop(stream);
        let left = || (runtime.disk_manager.used_disk_space(), runtime.memory_pool.reserved());
        for _ in 0..100 {
            if left() != (0, 0) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        assert_eq!(left(), (0, 0), "after {milliseconds} ms");
    }
}
