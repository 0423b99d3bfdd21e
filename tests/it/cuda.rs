//! Joins with `similarity.engine = 'cuda'`: on a device where the machine has one, else on the emulated driver of
//! `kernels/emulator`.
//!
//! A process has one driver for all its sessions, so each test runs in a process of its own. With
//! `SIMILARITY_ENGINE=cuda` in the environment the whole test binary uses the device, and with
//! `SIMILARITY_REQUIRE_CUDA=1` a machine without one fails.

use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUmemPool_attribute::{
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
};
use cudarc::driver::sys::{cuDeviceGetDefaultMemPool, cuMemPoolGetAttribute};
use cudarc::driver::{CudaContext, LaunchConfig};
use cudarc::nvrtc::Ptx;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use datafusion_similarity::optimizer::IndexCatalog;
use futures::StreamExt;
use similarity_cuda::Device;

use crate::epsilon::{finite_table, random_vectors};
use crate::nearest::{self, Checked, SCORES, SCORES_OF_CONDITIONS, SCORES_OF_TEXTS, check_tables};
use crate::oracle::{BANDS, Cases, DENSE, QUERIES_PER_TABLE, RULES, TEXTS, about, check, random_condition};
use crate::self_joins::SELF_RULES;
use crate::session;

/// Names the engine of all sessions.
pub(crate) const ENGINE: &str = "SIMILARITY_ENGINE";

/// Names the devices of all sessions, which share every join then.
pub(crate) const DEVICES: &str = "SIMILARITY_DEVICES";

/// How much of a device's memory the joins of all sessions may hold, in kilobytes.
const MEMORY: &str = "SIMILARITY_DEVICE_KILOBYTES";

/// The same as a share of it, where the environment says.
pub(crate) fn memory_fraction() -> Option<f64> {
    let kilobytes: u32 = std::env::var(MEMORY).ok()?.parse().unwrap();
    Some(f64::from(kilobytes) * 1024.0 / Device::open(0).unwrap().memory() as f64)
}

/// Says that a process runs a single test.
const ALONE: &str = "SIMILARITY_TEST_ALONE";

/// Whether all sessions of this process use a device.
pub(crate) fn is_on_a_device() -> bool {
    std::env::var(ENGINE).is_ok_and(|engine| engine == "cuda")
}

/// Whether the device of this process is the emulated driver.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os(ALONE).is_some() && std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none()
}

/// Random cases of a test that would run `all` on a device: a third of them on the emulated driver, which is slow, where
/// `SIMILARITY_CASES` does not ask for more.
pub(crate) fn cases_on_device(all: usize) -> usize {
    if is_emulated() && std::env::var_os("SIMILARITY_CASES").is_none() { all.div_ceil(3) } else { all }
}

/// The first of some seeds, as many as [`cases_on_device`] says of all of them.
fn seeds_on_device(seeds: Range<u64>) -> Range<u64> {
    seeds.start..seeds.start + cases_on_device((seeds.end - seeds.start) as usize) as u64
}

/// Runs a test in a process of its own that has a device, unless this is one.
pub(crate) fn on_a_device(test: &str) -> bool {
    on_a_device_with(test, &[])
}

/// As [`on_a_device`], with settings of the emulated driver.
pub(crate) fn on_a_device_with(test: &str, settings: &[(&str, &str)]) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(ALONE, "1").envs(settings.iter().copied());
    if !is_on_a_device() {
        child.env(ENGINE, "cuda");
        if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none() {
            child.env("LD_LIBRARY_PATH", emulated_cuda::folder());
        }
    }
    let output = child.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    println!("{out}");
    false
}

/// Whether `test` runs on a device that is not the emulated driver, as [`on_a_device`] tells it.
fn on_a_real_device(test: &str) -> bool {
    if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none() {
        skipped_tests::skip("SIMILARITY_REQUIRE_CUDA is not set, the test needs a GPU");
        return false;
    }
    on_a_device(test)
}

/// As [`on_a_device_with`], where it is the emulated driver.
pub(crate) fn on_the_emulated_driver(test: &str, settings: &[(&str, &str)]) -> bool {
    let is_alone = std::env::var_os(ALONE).is_some();
    if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_some() || is_on_a_device() && !is_alone {
        skipped_tests::skip("a device is used, the test needs the emulated driver");
        return false;
    }
    on_a_device_with(test, settings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_have_the_same_rows_as_stock() {
    if on_a_device("cuda::joins_have_the_same_rows_as_stock") {
        // of the measures, some have kernels
        let cases = Cases { operator: "engine=cuda:0", tenths: 1, ..TEXTS };
        check(seeds_on_device(5000..5030), cases).await;
        check(seeds_on_device(5100..5104), Cases { sizes: &[600], ..cases }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_have_the_same_rows_as_stock() {
    if on_a_device("cuda::rules_have_the_same_rows_as_stock") {
        check(seeds_on_device(6000..6020), Cases { operator: "engine=cuda:0", tenths: 4, ..RULES }).await;
        check(seeds_on_device(6100..6103), Cases { operator: "engine=cuda:0", tenths: 3, sizes: &[600], ..RULES })
            .await;
        check(seeds_on_device(6200..6208), Cases { operator: "engine=cuda:0", tenths: 3, ..BANDS }).await;
        check(seeds_on_device(6300..6310), Cases { operator: "engine=cuda:0", tenths: 3, ..SELF_RULES }).await;
    }
}

/// Indexes over some of the rows, on a device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_joins_of_many_pairs_have_the_same_rows_as_stock() {
    if on_a_device("cuda::semi_joins_of_many_pairs_have_the_same_rows_as_stock") {
        check(6300..6303, Cases { operator: "engine=cuda:0", tenths: 3, sizes: &[40, 300], ..DENSE }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_of_each_measure() {
    if !on_a_device("cuda::cases_of_each_measure") {
        return;
    }
    macro_rules! each {
        ($cases:expr, $random:path: $($measure:literal)*) => {
            [$(($measure, Cases { condition: |rng| about(rng, $measure, $random), ..$cases })),*]
        };
    }
    // up to three blocks of a device
    let cases = Cases { operator: "engine=cuda:0", tenths: 3, sizes: &[0, 1, 23, 65, 150], ..TEXTS };
    let texts = each!(cases, random_condition: "jaccard" "dice" "set_cosine" "overlap_coefficient" "overlap_count"
        "containment" "tversky" "similarity" "levenshtein" "levenshtein_less_equal" "levenshtein_similarity" "osa_distance" "damerau_levenshtein"
        "hamming" "jaro_similarity" "jaro_winkler_similarity");
    let cases = Cases { table: finite_table, ..cases };
    let vectors = each!(cases, random_vectors: "l1_distance" "l2_distance" "linf_distance" "array_distance"
        "cosine_similarity" "cosine_distance" "inner_product" "lp_distance");
    let count = crate::cases(20);
    for (number, (measure, cases)) in (0..).zip(texts.into_iter().chain(vectors)) {
        println!("{measure}");
        let first = 1_000_000 + number * 10_000;
        check(first..first + (count / QUERIES_PER_TABLE) as u64, cases).await;
    }
}

/// Random queries in so little memory that a device holds hardly anything, the columns of rules, or an index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_in_little_memory() {
    for kilobytes in ["300", "4000", "16000"] {
        if !on_a_device_with("cuda::cases_in_little_memory", &[(MEMORY, kilobytes)]) {
            continue;
        }
        let kilobytes: u64 = std::env::var(MEMORY).unwrap().parse().unwrap();
        let tables = (crate::cases(QUERIES_PER_TABLE) / QUERIES_PER_TABLE) as u64;
        let seeds = |what: u64| {
            let first = 3_000_000 + 100_000 * what + 20 * kilobytes;
            first..first + tables
        };
        // with the buffers of a worker an index takes ten megabytes
        let operator = if kilobytes < 10_000 { "engine=cuda:0" } else { "(cuda:0" };
        let cases = Cases { operator, tenths: 1, sizes: &[120, 250], ..TEXTS };
        check(seeds(0), cases).await;
        check(seeds(1), Cases { condition: random_vectors, table: finite_table, ..cases }).await;
        check(seeds(2), Cases { sizes: &[120, 250], operator: "engine=cuda:0", tenths: 1, ..RULES }).await;
        check_tables(seeds(3).start, &SCORES[..5]).await;
        check_tables(seeds(4).start, &SCORES_OF_CONDITIONS[..4]).await;
        return;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_joins_have_the_same_rows_as_window_functions() {
    if on_a_device("cuda::nearest_joins_have_the_same_rows_as_window_functions") {
        let count = crate::cases(cases_on_device(150));
        let (tables, mut checked) = (count / nearest::QUERIES_PER_TABLE, Checked::default());
        for table in 0..tables {
            // those that kernels rank by
            checked.add(check_tables(2_000_000 + table as u64, &SCORES[..5]).await);
        }
        println!("{checked:?}");
        assert!(checked.on_device * 8 > count, "{checked:?} of {count}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_joins_by_texts_have_the_same_rows_as_window_functions() {
    if on_a_device("cuda::nearest_joins_by_texts_have_the_same_rows_as_window_functions") {
        let count = crate::cases(cases_on_device(150));
        let (tables, mut checked) = (count / nearest::QUERIES_PER_TABLE, Checked::default());
        for table in 0..tables {
            checked.add(check_tables(3_000_000 + table as u64, SCORES_OF_TEXTS).await);
        }
        println!("{checked:?}");
        assert!(checked.on_device * 8 > count, "{checked:?} of {count}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_joins_by_conditions_have_the_same_rows_as_window_functions() {
    if on_a_device("cuda::nearest_joins_by_conditions_have_the_same_rows_as_window_functions") {
        let count = crate::cases(cases_on_device(150));
        let (tables, mut checked) = (count / nearest::QUERIES_PER_TABLE, Checked::default());
        for table in 0..tables {
            // those that are counted
            checked.add(check_tables(4_000_000 + table as u64, &SCORES_OF_CONDITIONS[..4]).await);
        }
        println!("{checked:?}");
        assert!(checked.on_device * 8 > count, "{checked:?} of {count}");
    }
}

/// A kept index ranks on the device, for one query after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_index_of_conditions_stays_on_the_device() {
    if !on_a_device("cuda::a_kept_index_of_conditions_stays_on_the_device") {
        return;
    }
    let context = with_strings(3000).await;
    let query = "SELECT count(*), sum(a.id * 7 + b.id) FROM (SELECT * FROM t WHERE id % 9 = 1) a JOIN t b
                 NEAREST 4 BY SIMILARITY match_count(b.id BETWEEN a.id - 40 AND a.id + 9, a.s = b.s, b.id = a.city) THEN BY b.id
                 ON a.city = b.city";
    set_engine(&context, "cpu").await;
    let expected = table_and_plan(&context, query).await.0;
    set_engine(&context, "cuda").await;
    assert_eq!(table_and_plan(&context, query).await.0, expected);
    context.similarity_sql("CREATE SIMILARITY INDEX i ON t (id)").await.unwrap().collect().await.unwrap();
    for uses in 0..3 {
        let (found, plan) = table_and_plan(&context, query).await;
        assert_eq!(found, expected, "{plan}");
        assert!(plan.contains(" rows (cuda:0 "), "{plan}");
        let kept = IndexCatalog::of(&context.copied_config()).unwrap().all()[0].kept();
        assert_eq!(kept.iter().map(|kept| kept.uses).sum::<usize>(), uses, "{plan}");
        assert!(Device::open(0).unwrap().reserved() > 0, "the index is there");
    }
    context.similarity_sql("DROP SIMILARITY INDEX i").await.unwrap().collect().await.unwrap();
    assert_eq!(Device::open(0).unwrap().reserved(), 0);
}

/// A table of so many strings, a fifth of them alike, and numbers with them.
pub(crate) async fn with_strings(rows: usize) -> SessionContext {
    let context = session(8192, 4);
    let table = format!(
        "CREATE TABLE t AS SELECT value AS id, value % 50 AS city, [value % 90 / 90.0, value % 41 / 41.0] AS v,
                                  'number ' || md5(to_hex(value - value % 5)) || to_hex(value % 5) AS s
                           FROM generate_series(1, {rows})"
    );
    context.similarity_sql(&table).await.unwrap().collect().await.unwrap();
    context
}

/// One condition for each kind of kernels.
pub(crate) const CONDITIONS: [&str; 5] = [
    "jaccard(qgrams(a.s, 3), qgrams(b.s, 3)) >= 0.8",
    "levenshtein(a.s, b.s) <= 2",
    "jaro_winkler_similarity(a.s, b.s) >= 0.95",
    "l2_distance(a.v, b.v) <= 0.05",
    "(a.city = b.city AND levenshtein(a.s, b.s) <= 2 OR a.city = b.city AND jaccard(qgrams(a.s, 3), qgrams(b.s, 3)) >= 0.9)",
];

async fn count(context: &SessionContext, condition: &str) -> Result<i64> {
    Ok(count_with_plan(context, condition).await?.0)
}

/// Counts the pairs of rows that satisfy a condition.
fn counted(condition: &str) -> String {
    format!("SELECT count(*) FROM t a JOIN t b ON {condition} AND a.id < b.id")
}

/// The count, and the plan as it is after that.
async fn count_with_plan(context: &SessionContext, condition: &str) -> Result<(i64, String)> {
    let plan = context.similarity_sql(&counted(condition)).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let count = batches[0].column(0).as_primitive::<Int64Type>().value(0);
    Ok((count, displayable(plan.as_ref()).indent(true).to_string()))
}

pub(crate) async fn set_engine(context: &SessionContext, engine: &str) {
    let set = format!("SET similarity.engine = '{engine}'");
    context.similarity_sql(&set).await.unwrap().collect().await.unwrap();
}

/// Lets joins hold so much of the device's memory.
pub(crate) async fn set_memory(context: &SessionContext, kilobytes: u32) {
    let fraction = f64::from(kilobytes << 10) / Device::open(0).unwrap().memory() as f64;
    let set = format!("SET similarity.device_memory_fraction = {fraction:.12}");
    context.similarity_sql(&set).await.unwrap().collect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_at_once_leave_nothing_behind() {
    if !on_a_device("cuda::two_sessions_at_once_leave_nothing_behind") {
        return;
    }
    let sessions = (0..2).map(|_| {
        tokio::spawn(async {
            let context = with_strings(300).await;
            set_engine(&context, "cpu").await;
            let mut expected = Vec::new();
            for condition in CONDITIONS {
                expected.push(count(&context, condition).await.unwrap());
            }
            set_engine(&context, "cuda").await;
            for query in 0..100 {
                let kind = query % CONDITIONS.len();
                assert_eq!(count(&context, CONDITIONS[kind]).await.unwrap(), expected[kind], "{}", CONDITIONS[kind]);
            }
            expected.iter().sum::<i64>()
        })
    });
    for session in futures::future::join_all(sessions).await {
        assert!(session.unwrap() > 1000);
    }
    assert_eq!(Device::open(0).unwrap().reserved(), 0);
}

/// Sides of rare tokens so large that they are joined by a prefix index. The emulated driver would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rare_tokens_are_joined_by_prefixes() {
    if !on_a_real_device("cuda::rare_tokens_are_joined_by_prefixes") {
        return;
    }
    let context = session(8192, 4);
    // three tokens a row: two or three rows have the first, up to six the second, some five hundred the third
    let table = "CREATE TABLE t AS SELECT value AS id, concat('x', value % 260000, ' y', value % 260000 / 2, ' z', value % 1000) AS s
                 FROM generate_series(1, 530000)";
    context.similarity_sql(table).await.unwrap().collect().await.unwrap();
    for (condition, expected) in [
        // rows that have the first token in common have all three
        ("jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.9", 280_000),
        // with the second one or the third alone a fifth is in common
        ("jaccard(word_tokens(a.s), word_tokens(b.s)) > 0.2", 280_000),
        // with two of them a half
        ("jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5 AND a.id % 2 = b.id % 2", 280_000),
    ] {
        let (found, plan) = count_with_plan(&context, condition).await.unwrap();
        assert_eq!(found, expected, "{condition}");
        assert!(plan.contains("prefix index"), "{plan}");
        // two sides
        let query = format!("SELECT count(*) FROM t a JOIN (SELECT * FROM t WHERE id > 3) b ON {condition}");
        let found = context.similarity_sql(&query).await.unwrap().collect().await.unwrap();
        let found = found[0].column(0).as_primitive::<Int64Type>().value(0);
        set_engine(&context, "cpu").await;
        let by_cpu = context.similarity_sql(&query).await.unwrap().collect().await.unwrap();
        assert_eq!(found, by_cpu[0].column(0).as_primitive::<Int64Type>().value(0), "{query}");
        set_engine(&context, "cuda").await;
    }
}

/// What a device cannot hold at once is joined block by block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_sides_larger_than_the_device() {
    if !on_a_device("cuda::build_sides_larger_than_the_device") {
        return;
    }
    let context = with_strings(2000).await;
    for condition in CONDITIONS {
        set_engine(&context, "cpu").await;
        let expected = count(&context, condition).await.unwrap();
        set_engine(&context, "cuda").await;
        let (mut divided, mut by_cpu) = (0, 0);
        for kilobytes in [1, 60, 200, 400, 800, 1600, 3200] {
            set_memory(&context, kilobytes).await;
            let (found, plan) = count_with_plan(&context, condition).await.unwrap();
            assert_eq!(found, expected, "{condition} in {kilobytes} KB\n{plan}");
            divided += usize::from(plan.contains("in chunks, each with"));
            by_cpu += usize::from(plan.contains("(walked on the cpu; cpu: the device has no memory left for it)"));
        }
        // what equalities pair is too little work for chunks
        let expected = if condition.contains("city") { by_cpu } else { divided };
        assert!(expected > 1, "{condition}: {divided} {by_cpu}");
    }
}

/// Searches that a device has no memory for run on the CPU, as do those for more rows than it ranks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_joins_in_little_device_memory() {
    if !on_a_device("cuda::nearest_joins_in_little_device_memory") {
        return;
    }
    let context = with_strings(2000).await;
    for (rows, on) in [(3, ""), (3, "ON a.city = b.city AND a.id <> b.id"), (2, "ON b.id > 1995 + a.id % 2")] {
        for right in ["t", "(SELECT * FROM t WHERE id > 7)"] {
            let query = format!(
                "SELECT count(*), sum(a.id * 7 + b.id) FROM t a JOIN {right} b
                 NEAREST {rows} BY DISTANCE l2_distance(a.v, b.v) THEN BY b.id {on}"
            );
            set_engine(&context, "cpu").await;
            let expected = table_and_plan(&context, &query).await.0;
            set_engine(&context, "cuda").await;
            let (mut fallbacks, mut on_device) = (0, 0);
            for kilobytes in [1, 300, 350, 400, 1500, 100_000] {
                set_memory(&context, kilobytes).await;
                let (found, plan) = table_and_plan(&context, &query).await;
                assert_eq!(found, expected, "{query} in {kilobytes} KB\n{plan}");
                on_device += usize::from(plan.contains("blocks along a curve over"));
                fallbacks += usize::from(plan.contains("cpu_fallbacks=") && !plan.contains("cpu_fallbacks=0"));
            }
            println!("{rows} {on} {right}: {on_device} on the device, {fallbacks} with fallbacks");
            assert!(on_device > 2 && fallbacks > 0, "{query}: {on_device} {fallbacks}");
        }
    }
}

/// What a query returns, and the plan as it is after that.
pub(crate) async fn table_and_plan(context: &SessionContext, query: &str) -> (String, String) {
    let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let shown = DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(true).to_string();
    (pretty_format_batches(&batches).unwrap().to_string(), shown)
}

/// The emulated driver fails one launch after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_device_is_lost_to_its_process_and_ends_no_query() {
    for launch in ["1", "4", "9", "14"] {
        let settings = [("EMULATED_FAIL_LAUNCH", launch)];
        if !on_the_emulated_driver("cuda::a_failing_device_is_lost_to_its_process_and_ends_no_query", &settings) {
            continue;
        }
        let context = with_strings(200).await;
        let found = count(&context, CONDITIONS[4]).await.unwrap();
        set_engine(&context, "cpu").await;
        assert_eq!(found, count(&context, CONDITIONS[4]).await.unwrap());
        set_engine(&context, "cuda").await;
        goes_on_without_a_device(&context, "CUDA_ERROR_LAUNCH_FAILED").await;
        return;
    }
}

/// A process that exits while the driver compiles for a query which nobody waits for any more: the driver would bring
/// it down.
#[test]
fn a_process_exits_once_the_driver_has_compiled() {
    let settings = [("EMULATED_COMPILE_TIME", "4000"), ("EMULATED_MACHINE_CODE", "0")];
    if !on_the_emulated_driver("cuda::a_process_exits_once_the_driver_has_compiled", &settings) {
        return;
    }
    let compiling = || emulated_figure(b"emulated_compiling");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let context = with_strings(200).await;
        Device::open(0).unwrap();
        let query = tokio::spawn(async move { count(&context, CONDITIONS[0]).await });
        while compiling() == 0 {
            assert!(!query.is_finished(), "nothing was compiled");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        query.abort();
        assert!(query.await.unwrap_err().is_cancelled());
    });
    drop(runtime);
    assert!(compiling() > 0, "nobody waited for the driver");
}

/// A kernel that stores to an address which is nobody's.
const STRAY_STORE: &str = "
.version 6.3
.target sm_75
.address_size 64
.visible .entry stray_store() {
    .reg .b64 %address;
    mov.u64 %address, 8;
    st.global.u64 [%address], %address;
    ret;
}";

/// The driver of a real device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stray_store_leaves_a_process_without_its_device() {
    if !on_a_real_device("cuda::a_stray_store_leaves_a_process_without_its_device") {
        return;
    }
    let context = with_strings(2000).await;
    count(&context, CONDITIONS[4]).await.unwrap();
    {
        // that of all queries, too
        let device = CudaContext::new(0).unwrap();
        let kernel = device.load_module(Ptx::from_src(STRAY_STORE)).unwrap().load_function("stray_store").unwrap();
        let stream = device.default_stream();
        // SAFETY: that it stores where it must not is what it is for.
        unsafe { stream.launch_builder(&kernel).launch(LaunchConfig::for_num_elems(1)).unwrap() };
        stream.synchronize().expect_err("nobody has that address");
    }
    goes_on_without_a_device(&context, "CUDA_ERROR_ILLEGAL_ADDRESS").await;
}

/// Asserts that joins say why there is no device any more, and that those that need none are joined.
async fn goes_on_without_a_device(context: &SessionContext, reason: &str) {
    let error = count(context, CONDITIONS[0]).await.expect_err("the device is lost").strip_backtrace();
    let parts = ["similarity.device = '0'", reason, "since a query on", "start a new process", "'cpu' or 'auto'"];
    parts.iter().for_each(|part| assert!(error.contains(part), "{error}"));
    auto_does_without(context, reason).await;
}

/// Asserts that `auto` leaves a join to the CPU that is worth a device, and says that this is the reason.
async fn auto_does_without(context: &SessionContext, reason: &str) {
    // 2^30 pairs of sets with low scores, but few to find
    let table = "CREATE OR REPLACE TABLE t AS SELECT value AS id, to_hex(value) || ' ' || to_hex(value / 2) AS s FROM generate_series(1, 50000)";
    context.similarity_sql(table).await.unwrap().collect().await.unwrap();
    let condition = "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.25";
    set_engine(context, "auto").await;
    let (found, plan) = count_with_plan(context, condition).await.unwrap();
    let said = "engine=cpu, or cuda:0 from 1073741824 pairs of rows on";
    assert!(plan.contains(said) && !plan.contains("(cuda:0"), "{plan}");
    let why = plan.split("1250000000 pairs of rows, a device pays from 1073741824 pairs of rows on; cpu: ").nth(1);
    assert!(why.is_some_and(|why| why.contains(reason)), "{plan}");
    set_engine(context, "cpu").await;
    assert_eq!(found, count(context, condition).await.unwrap());
}

/// `auto` says from where on a device pays, and takes it there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_takes_a_device_where_it_pays() {
    if !on_a_device("cuda::auto_takes_a_device_where_it_pays") {
        return;
    }
    let context = with_strings(2000).await;
    let is_on_device = |plan: &str| plan.contains("signature tiles (cuda:0");
    set_engine(&context, "auto").await;
    let (expected, plan) = count_with_plan(&context, CONDITIONS[0]).await.unwrap();
    assert!(!is_on_device(&plan), "{plan}");
    let said = "engine=cpu, or cuda:0 from 17179869184 pairs of rows on, 32768 pairs of rows once it is open";
    assert!(plan.contains(said), "{plan}");
    // now it is open, and these are two million pairs
    let _open = Device::open(0).unwrap();
    let (found, plan) = count_with_plan(&context, CONDITIONS[0]).await.unwrap();
    assert!(found == expected && is_on_device(&plan) && plan.contains(said), "{plan}");
    assert!(plan.contains("about 2000000 pairs of rows, a device pays from 32768 pairs of rows on"), "{plan}");
    // and these fourteen thousand
    let (_, plan) =
        count_with_plan(&context, &format!("{} AND a.id % 12 = 0 AND b.id % 12 = 0", CONDITIONS[0])).await.unwrap();
    assert!(!is_on_device(&plan), "{plan}");
    // strings by what a sample says
    for (condition, is_taken) in
        [("levenshtein_similarity(a.s, b.s) >= 0.4", true), ("levenshtein_similarity(a.s, b.s) >= 0.95", false)]
    {
        let condition = format!("{condition} AND a.id % 4 = 0 AND b.id % 4 = 0");
        let (_, plan) = count_with_plan(&context, &condition).await.unwrap();
        assert_eq!(is_on_device(&plan), is_taken, "{plan}");
        assert!(plan.contains("ms of a core's work, a device pays from 2 ms of a core's work on"), "{plan}");
        let said = "engine=cpu, or cuda:0 from 10 s of a core's work on, 2 ms of a core's work once it is open";
        assert!(plan.contains(said), "{plan}");
    }
    for engine in ["cuda", "auto"] {
        set_engine(&context, engine).await;
        let (_, plan) = count_with_plan(&context, "lp_distance(a.v, b.v, 1e9) <= 0.001").await.unwrap();
        assert!(plan.contains("engine=cpu (no kernels for this condition)"), "{engine}: {plan}");
        let (_, plan) = count_with_plan(&context, CONDITIONS[4]).await.unwrap();
        let said = match engine {
            "cuda" => "cpu for what it has no kernels for",
            _ => {
                "engine=cpu, or cuda:0 from 10 s of a core's work on, 15 ms of a core's work once it is open, then also from 32768 rows on"
            }
        };
        assert!(plan.contains(said), "{plan}");
    }
}

/// A table whose rows never come.
#[derive(Debug)]
struct Silent(SchemaRef);

impl PartitionStream for Silent {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), futures::stream::pending()))
    }
}

/// A device that is asked for is opened while rows are read, and one that may be used is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_opened_while_rows_are_read() {
    if !on_a_device("cuda::a_device_is_opened_while_rows_are_read") {
        return;
    }
    let context = session(8192, 4);
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
    let table = StreamingTable::try_new(Arc::clone(&schema), vec![Arc::new(Silent(schema))]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    for (engine, opens, longest) in [("auto", false, 300), ("cuda", true, 60_000)] {
        set_engine(&context, engine).await;
        let query = "SELECT * FROM t a JOIN t b ON jaccard(qgrams(a.s, 3), qgrams(b.s, 3)) >= 0.8";
        let query = tokio::spawn(context.similarity_sql(query).await.unwrap().collect());
        let start = Instant::now();
        while !Device::is_open(0) && start.elapsed() < Duration::from_millis(longest) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(Device::is_open(0), opens, "{engine}");
        assert!(!query.is_finished(), "{engine}");
        query.abort();
    }
}

/// Kernels for devices without binary and half-precision matrix products.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_without_tensor_cores_finds_the_same_rows() {
    let settings = [("EMULATED_COMPUTE_CAPABILITY", "75")];
    if on_the_emulated_driver("cuda::a_device_without_tensor_cores_finds_the_same_rows", &settings) {
        let (_, plan) = count_with_plan(&with_strings(200).await, CONDITIONS[0]).await.unwrap();
        assert!(plan.contains("popcounts"), "{plan}");
        let cases = Cases { operator: "engine=cuda:0", tenths: 1, ..TEXTS };
        check(7000..7005, cases).await;
        check(7100..7101, Cases { sizes: &[600], ..cases }).await;
        check(7200..7203, Cases { condition: random_vectors, table: finite_table, ..cases }).await;
        check_tables(7300, &SCORES[..5]).await;
    }
}

/// A driver that is given machine code compiles nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_of_a_known_kind_is_given_machine_code() {
    for capability in ["75", "80", "86", "89", "90"] {
        let settings = [("EMULATED_COMPUTE_CAPABILITY", capability), ("EMULATED_COMPILE_TIME", "60000")];
        if !on_the_emulated_driver("cuda::a_device_of_a_known_kind_is_given_machine_code", &settings) {
            continue;
        }
        let (_, plan) = table_and_plan(&with_strings(200).await, &counted(CONDITIONS[0])).await;
        assert!(plan.contains("engine=cuda:0") && plan.contains("kernel_files_from_ptx=0,"), "{plan}");
        return;
    }
}

/// Devices that are newer than all machine code, and a driver that refuses machine code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_machine_code_a_device_finds_the_same_rows() {
    for settings in [("EMULATED_COMPUTE_CAPABILITY", "100"), ("EMULATED_MACHINE_CODE", "0")] {
        if !on_the_emulated_driver("cuda::without_machine_code_a_device_finds_the_same_rows", &[settings]) {
            continue;
        }
        // the kernels of sets, and those that sort
        let (_, plan) = table_and_plan(&with_strings(200).await, &counted(CONDITIONS[0])).await;
        assert!(plan.contains("binary tensor cores") && plan.contains("kernel_files_from_ptx=2,"), "{plan}");
        check(7400..7405, Cases { operator: "engine=cuda:0", tenths: 1, ..TEXTS }).await;
        return;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_is_too_old_is_none() {
    let settings = [("EMULATED_COMPUTE_CAPABILITY", "70")];
    if on_the_emulated_driver("cuda::a_device_that_is_too_old_is_none", &settings) {
        let context = with_strings(2000).await;
        let error = count(&context, CONDITIONS[0]).await.expect_err("the device is too old").strip_backtrace();
        assert!(error.contains("has compute capability 7.0, and 7.5 is the least"), "{error}");
        auto_does_without(&context, "has compute capability 7.0").await;
    }
}

/// What the emulated driver counts under this name.
fn emulated_figure(name: &[u8]) -> u64 {
    // SAFETY: the functions of our own driver that count take nothing and return such a number.
    unsafe {
        let driver = libloading::Library::new("libcuda.so").unwrap();
        driver.get::<unsafe extern "C" fn() -> u64>(name).unwrap()()
    }
}

/// Rows enough that strings are sent to the device while batches are put together; some are read there and some are
/// not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_are_sent_while_they_are_put_together() {
    if !on_a_device("cuda::strings_are_sent_while_they_are_put_together") {
        return;
    }
    let context = with_strings(70_000).await;
    let table = "CREATE TABLE texts AS SELECT id, arrow_cast(s, 'Utf8View') AS s, arrow_cast(to_hex(id % 30000), 'Utf8View') AS h,
                     arrow_cast(CASE WHEN id % 11 > 0 THEN 'a group of a few, ' || to_hex(id / 5) END, 'Utf8View') AS g FROM t";
    context.similarity_sql(table).await.unwrap().collect().await.unwrap();
    let rules = "a.g = b.g AND levenshtein(a.s, b.s) <= 2 OR a.h = b.h AND jaro_winkler_similarity(a.s, b.s) >= 0.7";
    // a set measure has no use for what is sent of its column
    let others = "a.g = b.g AND jaccard(qgrams(a.s, 3), qgrams(b.s, 3)) >= 0.3 OR a.h = b.h AND a.s = b.s";
    for (rules, least) in [(rules, 50_000), (others, 20_000)] {
        for sides in
            ["texts a JOIN texts b ON a.id < b.id AND", "(SELECT * FROM texts WHERE id % 3 > 0) a JOIN texts b ON"]
        {
            let query = format!("SELECT count(*), sum(a.id * 31 + b.id) FROM {sides} ({rules})");
            let mut found = Vec::new();
            for engine in ["cuda", "cpu"] {
                set_engine(&context, engine).await;
                let batches = context.similarity_sql(&query).await.unwrap().collect().await.unwrap();
                let number = |column: usize| batches[0].column(column).as_primitive::<Int64Type>().value(0);
                found.push((number(0), number(1)));
            }
            assert!(found[0].0 > least && found[0] == found[1], "{query}: {found:?}");
        }
    }
}

/// Bytes of the device that are allocated for this process, and that the driver has taken for it, in use or not.
fn held_by_the_driver() -> [u64; 2] {
    let device = CudaContext::new(0).unwrap();
    // what is freed behind something is freed now
    device.synchronize().unwrap();
    [CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT].map(|attribute| {
        let (mut pool, mut bytes) = (std::ptr::null_mut(), 0u64);
        // SAFETY: the device is open, `pool` receives the handle of its default pool, and the attribute's value is a
        // u64.
        unsafe {
            cuDeviceGetDefaultMemPool(&mut pool, device.cu_device()).result().unwrap();
            cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()).result().unwrap();
        }
        bytes
    })
}

/// What the driver itself holds, beside what joins count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_queries_leave_the_memory_as_it_is() {
    if !on_a_device("cuda::two_hundred_queries_leave_the_memory_as_it_is") {
        return;
    }
    let context = with_strings(150).await;
    let mut held = Vec::new();
    for query in 0..200 {
        count(&context, CONDITIONS[query % CONDITIONS.len()]).await.unwrap();
        if (query + 1) % 50 == 0 {
            given_back(&Device::open(0).unwrap()).await;
            held.push(held_by_the_driver());
        }
    }
    println!("allocated, and taken by the driver, after every 50 queries: {held:?}");
    // what the driver keeps grows where more has run side by side than before
    assert!(held.iter().all(|[allocated, _]| *allocated == held[0][0]), "{held:?}");
}

/// The emulated driver has a second device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_its_own_device() {
    if !on_the_emulated_driver("cuda::a_session_has_its_own_device", &[("EMULATED_DEVICE_COUNT", "2")]) {
        return;
    }
    let context = with_strings(300).await;
    let mut counts = Vec::new();
    for device in ["0", "1"] {
        context.sql(&format!("SET similarity.device = {device}")).await.unwrap();
        let (count, plan) = count_with_plan(&context, CONDITIONS[0]).await.unwrap();
        assert!(plan.contains(&format!("engine=cuda:{device}")) && plan.contains(&format!("(cuda:{device}")), "{plan}");
        counts.push(count);
    }
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
    context.sql("SET similarity.device = 2").await.unwrap();
    let error = count(&context, CONDITIONS[0]).await.expect_err("there is none").strip_backtrace();
    assert!(error.contains("there is no device 2, the last one is 1"), "{error}");
}

/// The emulated driver has no memory left from one allocation of a query on, from another one of the next query on,
/// and so forth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_memory_runs_out_the_cpu_takes_over() {
    if !on_the_emulated_driver("cuda::where_memory_runs_out_the_cpu_takes_over", &[]) {
        return;
    }
    let allocations = || emulated_figure(b"emulated_allocations");
    // SAFETY: the function of our own driver takes and returns what is said here.
    let fail = |n: u64, count: u64| unsafe {
        let driver = libloading::Library::new("libcuda.so").unwrap();
        driver.get::<unsafe extern "C" fn(u64, u64)>(b"emulated_fail_allocations").unwrap()(n, count);
    };
    let context = with_strings(400).await;
    let mut queries = Vec::new();
    for condition in CONDITIONS {
        for right in ["t", "(SELECT * FROM t WHERE id > 7)"] {
            queries.push(format!(
                "SELECT count(*), sum(a.id * 7 + b.id) FROM t a JOIN {right} b ON {condition} AND a.id < b.id"
            ));
        }
    }
    for score in [
        "DISTANCE l2_distance(a.v, b.v)",
        "DISTANCE levenshtein(a.s, b.s)",
        "SIMILARITY jaccard(qgrams(a.s, 3), qgrams(b.s, 3))",
        "SIMILARITY match_count(b.city BETWEEN a.city - 2 AND a.city + 9, a.s = b.s, b.id % 7 = a.id % 7)",
    ] {
        queries.push(format!(
            "SELECT count(*), sum(a.id * 7 + b.id) FROM t a JOIN (SELECT * FROM t WHERE id > 7) b
             NEAREST 3 BY {score} THEN BY b.id"
        ));
    }
    let (mut with_fallbacks, mut halved) = (0, 0);
    for query in queries {
        set_engine(&context, "cpu").await;
        let expected = table_and_plan(&context, &query).await.0;
        set_engine(&context, "cuda").await;
        let before = allocations();
        assert_eq!(table_and_plan(&context, &query).await.0, expected, "{query}");
        let all = allocations() - before;
        let mut fallbacks = 0;
        // the later ones are those of probing
        for first in (0..2).map(|n| n * all / 2).chain(all.saturating_sub(4)..all) {
            // all from there on, or that one alone
            for failing in [0, 1] {
                fail(first + 1, failing);
                let (found, plan) = table_and_plan(&context, &query).await;
                fail(0, 0);
                assert_eq!(found, expected, "{query} without memory at allocation {first} of {all}\n{plan}");
                let is_counted = |metric: &str| plan.contains(metric) && !plan.contains(&format!("{metric}0"));
                fallbacks += usize::from(is_counted("cpu_fallbacks="));
                if (first, failing) == (0, 0) {
                    let why = "cpu: the device has no memory left for it";
                    assert!(plan.contains(why) && is_counted("cpu_fallbacks="), "{query}\n{plan}");
                }
                halved += usize::from(is_counted("device_retries=") && !is_counted("cpu_fallbacks="));
            }
        }
        println!("{query}: {all} allocations, {fallbacks} with fallbacks");
        with_fallbacks += usize::from(fallbacks > 0);
        assert_eq!(Device::open(0).unwrap().reserved(), 0);
    }
    println!("{halved} with halved launches alone");
    assert!(with_fallbacks > 8 && halved > 3, "{with_fallbacks} {halved}");
}

/// How long it takes until no buffer of the device is held.
async fn given_back(device: &Device) -> Duration {
    let start = Instant::now();
    while device.reserved() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(start.elapsed() < Duration::from_secs(10), "{} bytes are held", device.reserved());
    }
    start.elapsed()
}

/// Kernels of an emulated driver run as long as they do, so that it takes a device to tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_join_gives_its_device_back() {
    if !on_a_real_device("cuda::a_cancelled_join_gives_its_device_back") {
        return;
    }
    let context = with_strings(400_000).await;
    let device = Device::open(0).unwrap();
    for condition in CONDITIONS {
        let query = format!("SELECT a.id FROM t a JOIN t b ON {condition} AND a.id < b.id");
        // without kernels, which the driver compiles once on a machine, a query holds nothing yet that it could give
        // back
        count(&context, condition).await.unwrap();
        let mut slowest = Duration::ZERO;
        for wait in [0, 30, 60, 90, 120, 200] {
            let frame = context.similarity_sql(&query).await.unwrap();
            let mut rows = frame.execute_stream().await.unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(wait), rows.next()).await;
            drop(rows);
            slowest = slowest.max(given_back(&device).await);
        }
        println!("{condition}: given back within {slowest:?}");
        let most = Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 100 });
        assert!(slowest < most, "{condition}: {slowest:?}");
    }
}
