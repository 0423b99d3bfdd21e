//! Adversarial input ends in a result or a clear error, in bounded time; work stops when nobody waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Int64Array, ListBuilder, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::SimilarityContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cuda::is_on_a_device;
use crate::{session, session_of};

/// Generous: the tests run at once, on two cores, without full optimisation.
const BOUNDED: Duration = Duration::from_secs(30);

fn register(context: &SessionContext, name: &str, values: ArrayRef) {
    let id = Arc::new(Int64Array::from_iter_values(0..values.len() as i64)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", id), ("s", values)]).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}

fn strings<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Sentences of a skewed vocabulary, hardly two alike.
fn sentences(rows: usize) -> ArrayRef {
    let mut rng = StdRng::seed_from_u64(1);
    strings((0..rows).map(|_| {
        let word = |_| {
            let skewed = rng.random::<f64>().powi(3);
            format!("w{:x}", (skewed * 20_000.0) as u32 * 7919)
        };
        (0..8).map(word).collect::<Vec<_>>().join(" ")
    }))
}

async fn count(context: &SessionContext, condition: &str) -> i64 {
    let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {condition}");
    let batches = context.similarity_sql(&query).await.unwrap().collect().await.unwrap();
    datafusion::common::cast::as_int64_array(batches[0].column(0)).unwrap().value(0)
}

async fn bounded<T>(work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let result = work.await;
    assert!(start.elapsed() < BOUNDED, "took {:?}", start.elapsed());
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn long_strings() {
    let context = session(8192, 2);
    let long = "abcdefghij".repeat(100_000);
    let other = format!("{}X{}", &long[..500_000], &long[500_001..]);
    register(&context, "t", strings([long, other]));
    assert_eq!(bounded(count(&context, "levenshtein(a.s, b.s) <= 2 AND a.id < b.id")).await, 1);
    assert_eq!(bounded(count(&context, "levenshtein(a.s, b.s) <= 0 AND a.id < b.id")).await, 0);
    assert_eq!(bounded(count(&context, "jaccard(a.s, b.s, 3) >= 0.5 AND a.id < b.id")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_strings_with_a_limit() {
    let context = session(8192, 2);
    register(&context, "t", strings(std::iter::repeat_n("the same string again", 100_000)));
    for condition in ["jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.8", "levenshtein(a.s, b.s) <= 2"] {
        let query = format!("SELECT a.id FROM t a SIMILARITY JOIN t b ON {condition} AND a.id < b.id LIMIT 10");
        let rows = bounded(async { context.similarity_sql(&query).await.unwrap().count().await.unwrap() }).await;
        assert_eq!(rows, 10);
        for (join, rows) in [("LEFT SEMI", 100_000), ("LEFT ANTI", 0), ("RIGHT SEMI", 100_000)] {
            let query = format!("SELECT 1 FROM t a {join} JOIN t b ON {condition}");
            let found = bounded(async { context.similarity_sql(&query).await.unwrap().count().await.unwrap() }).await;
            assert_eq!(found, rows, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blanks() {
    let context = session(8192, 2);
    register(&context, "t", strings(std::iter::repeat_n("", 100_000)));
    assert_eq!(bounded(count(&context, "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.1")).await, 0);
    assert_eq!(bounded(count(&context, "jaro_winkler_similarity(a.s, b.s) > 1")).await, 0);
    let query = "SELECT 1 FROM t a SIMILARITY JOIN t b ON levenshtein(a.s, b.s) <= 1 LIMIT 10";
    let rows = bounded(async { context.similarity_sql(query).await.unwrap().count().await.unwrap() }).await;
    assert_eq!(rows, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_in_every_row() {
    let context = session(8192, 2);
    register(&context, "t", strings((0..50_000).map(|i| format!("everywhere u{i} v{i} w{i}"))));
    assert_eq!(bounded(count(&context, "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5 AND a.id < b.id")).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_tokens_and_lists() {
    let context = session(8192, 2);
    let token = |i: usize| format!("{}{i}", "z".repeat(100_000));
    register(&context, "t", strings((0..40).map(|i| format!("{} {} small", token(i / 2), token(1000 + i / 2)))));
    assert_eq!(
        bounded(count(&context, "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.9 AND a.id < b.id")).await,
        20
    );

    let mut lists = ListBuilder::new(datafusion::arrow::array::Int64Builder::new());
    for row in 0..3 {
        lists.values().append_slice(&(row..1_000_000 + row).collect::<Vec<_>>());
        lists.append(true);
    }
    let context = session(8192, 2);
    register(&context, "t", Arc::new(lists.finish()));
    assert_eq!(bounded(count(&context, "jaccard(a.s, b.s) >= 0.99 AND a.id < b.id")).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_memory_is_an_error_that_names_the_operator() {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(64 << 20)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
        .build_arc();
    let config = SessionConfig::new().with_target_partitions(2);
    let context = session_of(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime.unwrap()));
    register(&context, "t", sentences(200_000));
    for (condition, operator) in [
        ("jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.8", "SimilarityJoinExec"),
        ("levenshtein(a.s, b.s) <= 3", "SimilarityJoinExec"),
        ("(jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.8 OR a.s = b.s)", "MatchingDependencyBlockExec"),
    ] {
        let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {condition} AND a.id < b.id");
        let error = context.similarity_sql(&query).await.unwrap().collect().await.unwrap_err().to_string();
        assert!(error.contains("Resources exhausted") && error.contains(operator), "{condition}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_candidates_ends_the_query() {
    let context = session(8192, 2);
    register(&context, "t", strings((0..2_000).map(|i| format!("same words here {}", i % 7))));
    context.sql("SET similarity.max_candidates = 1000").await.unwrap();
    for condition in ["jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5", "a.s = b.s OR levenshtein(a.s, b.s) <= 1"] {
        let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {condition}");
        let error = context.similarity_sql(&query).await.unwrap().collect().await.unwrap_err().to_string();
        assert!(error.contains("similarity.max_candidates = 1000"), "{condition}: {error}");
    }
}

#[test]
fn dropping_the_stream_stops_the_work() {
    let conditions = [
        "jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.3 AND a.id < b.id",
        "levenshtein(a.s, b.s) <= 20 AND a.id < b.id",
        "jaro_winkler_similarity(a.s, b.s) >= 0.7",
        "(length(a.s) % 2 = length(b.s) % 2 AND levenshtein(a.s, b.s) <= 20 OR a.s = b.s) AND a.id < b.id",
        "length(a.s) % 2 = length(b.s) % 2 AND levenshtein(a.s, b.s) <= 20 OR a.s = b.s",
    ];
    for condition in conditions {
        for after in [30, 400] {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let context = session(8192, 2);
                register(&context, "t", sentences(60_000));
                let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {condition}");
                let mut stream = context.similarity_sql(&query).await.unwrap().execute_stream().await.unwrap();
                let waited = tokio::time::timeout(Duration::from_millis(after), stream.next()).await;
                assert!(waited.is_err() || is_on_a_device(), "{condition} was done within {after} ms");
            });
            // dropping a runtime waits for what runs on its blocking threads
            let start = Instant::now();
            drop(runtime);
            let took = start.elapsed();
            assert!(took < Duration::from_millis(300), "{condition}: work went on for {took:?} after {after} ms");
        }
    }
}
