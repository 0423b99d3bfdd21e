//! Epsilon joins against stock DataFusion: dimensions, list and element types, metrics, points exactly at the bound,
//! everything that is no number, and shapes that spoil an index.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, Float64Array, Float64Builder, Int64Array, ListArray,
    ListBuilder, RecordBatch, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::SimilarityContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::cuda::is_on_a_device;
use crate::oracle::{Cases, SMALL, check, random_query};
use crate::{session, session_of};

pub(crate) const FEW: Cases = Cases {
    table: random_table,
    sizes: SMALL,
    condition: |rng| random_condition(rng, &[3]),
    query: random_query,
    operator: "EpsilonJoinExec",
    tenths: 6,
    settings: &[],
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_stock() {
    check(5000..5040, FEW).await;
}

/// So many rows that boxes and balls leave leaves out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_tables_have_the_same_rows_as_stock() {
    check(5100..5104, Cases { sizes: &[700], ..FEW }).await;
}

/// Tables whose elements are all numbers, so that undecided rows do not hide what the index does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finite_vectors_have_the_same_rows_as_stock() {
    check(5200..5204, Cases { table: finite_table, sizes: &[23, 700], condition: random_vectors, ..FEW }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_in_rules_have_the_same_rows_as_stock() {
    let rules = Cases { condition: random_rules, operator: "MatchingDependencyBlockExec", tenths: 5, ..FEW };
    check(5300..5316, rules).await;
    check(5400..5401, Cases { sizes: &[600], ..rules }).await;
}

/// A table t of `points` in batches of 8,192.
fn register(context: &SessionContext, name: &str, dimension: usize, points: Vec<f32>) {
    let field = Arc::new(Field::new_list_field(DataType::Float32, true));
    let rows = points.len() / dimension;
    let points = FixedSizeListArray::new(field, dimension as i32, Arc::new(Float32Array::from(points)), None);
    let id = Int64Array::from_iter_values(0..rows as i64);
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(id) as ArrayRef), ("v", Arc::new(points) as ArrayRef)]).unwrap();
    let batches = (0..rows).step_by(8192).map(|at| batch.slice(at, 8192.min(rows - at))).collect();
    context.register_table(name, Arc::new(MemTable::try_new(batch.schema(), vec![batches]).unwrap())).unwrap();
}

async fn numbers(context: &SessionContext, query: &str) -> Vec<i64> {
    let batches = context.similarity_sql(query).await.unwrap().collect().await.unwrap();
    batches[0].columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_points_in_one_place() {
    let context = session(8192, 2);
    register(&context, "t", 2, vec![0.5; 2 * 100_000]);
    let join = "SELECT a.id FROM t a SIMILARITY JOIN t b ON l2_distance(a.v, b.v) <= 0.1 AND a.id < b.id LIMIT 100000";
    let start = Instant::now();
    assert_eq!(numbers(&context, &format!("SELECT count(*) FROM ({join})")).await, [100_000]);
    let semi = "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE l2_distance(a.v, b.v) <= 0)";
    assert_eq!(numbers(&context, semi).await, [100_000]);
    assert!(start.elapsed() < Duration::from_secs(30), "took {:?}", start.elapsed());
}

/// A grid over all points would have all but a few in one cell.
#[tokio::test(flavor = "multi_thread")]
async fn one_point_far_away() {
    let context = session(8192, 2);
    for far in [1e12, f32::MAX] {
        for dimension in [2, 40] {
            let mut rng = StdRng::seed_from_u64(7);
            let mut points: Vec<f32> = (0..dimension * 20_000).map(|_| rng.random::<f32>()).collect();
            points[..dimension].fill(far);
            register(&context, &format!("t{dimension}"), dimension, points);
            let query = format!(
                "EXPLAIN ANALYZE SELECT a.id FROM t{dimension} a SIMILARITY JOIN t{dimension} b
                 ON l2_distance(a.v, b.v) <= 0.01 AND a.id < b.id"
            );
            let batches = context.similarity_sql(&query).await.unwrap().collect().await.unwrap();
            let plan = pretty_format_batches(&batches).unwrap().to_string();
            // in single precision, and hardly any pair is decided in double precision
            let verified = plan.split("verified=").nth(1).and_then(|rest| rest.split([',', ']']).next());
            let few = verified.is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n < 50_000) || n.ends_with(" K"));
            assert!(plan.contains("single precision") && few, "{plan}");
        }
        for dimension in [2, 40] {
            context.deregister_table(format!("t{dimension}")).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_points_in_little_memory() {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(160 << 20))).build_arc();
    let config = SessionConfig::new().with_target_partitions(2);
    let context = session_of(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime.unwrap()));
    for (name, seed) in [("l", 1), ("r", 2)] {
        let mut rng = StdRng::seed_from_u64(seed);
        register(&context, name, 2, (0..2 * 200_000).map(|_| rng.random::<f32>()).collect());
    }
    let query = |condition: &str| format!("SELECT count(*) FROM l SIMILARITY JOIN r ON {condition}");
    // about ten pairs a point
    let found = numbers(&context, &query("l2_distance(l.v, r.v) <= 0.004")).await[0];
    assert!((1_900_000..2_100_000).contains(&found), "{found}");
}

#[test]
fn dropping_the_stream_stops_the_work() {
    for (dimension, eps) in [(2, 10.0), (16, 0.9), (200, 5.0)] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let context = session(8192, 2);
            let mut rng = StdRng::seed_from_u64(9);
            register(&context, "t", dimension, (0..dimension * 60_000).map(|_| rng.random::<f32>()).collect());
            let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON l2_distance(a.v, b.v) <= {eps}");
            let mut stream = context.similarity_sql(&query).await.unwrap().execute_stream().await.unwrap();
            let waited = tokio::time::timeout(Duration::from_millis(400), stream.next()).await;
            assert!(waited.is_err() || is_on_a_device(), "{dimension} dimensions were done");
        });
        let start = Instant::now();
        drop(runtime);
        let took = start.elapsed();
        assert!(took < Duration::from_millis(300), "{dimension} dimensions: work went on for {took:?}");
    }
}

/// Lengths of the vectors in the columns v1, v2, ...
const DIMENSIONS: [usize; 7] = [1, 2, 3, 8, 16, 33, 128];

/// id, k, v3 (vectors), x, y and z (coordinates), n and s (as the other oracle's queries ask for).
fn random_table(rng: &mut StdRng, sizes: &[usize]) -> MemTable {
    table(rng, sizes, &[3], true)
}

pub(crate) fn finite_table(rng: &mut StdRng, sizes: &[usize]) -> MemTable {
    table(rng, sizes, &DIMENSIONS, false)
}

fn table(rng: &mut StdRng, sizes: &[usize], dimensions: &[usize], odd: bool) -> MemTable {
    let rows = *sizes.choose(rng).unwrap();
    let shape = rng.random_range(0..4);
    let keys: Vec<_> = (0..rows).map(|_| [Some("x"), Some("y"), None].choose(rng).copied().flatten()).collect();
    let mut columns: Vec<(String, ArrayRef, bool)> = vec![
        ("id".into(), Arc::new(Int64Array::from_iter_values(0..rows as i64)), true),
        ("k".into(), Arc::new(StringArray::from(keys.clone())), true),
        ("s".into(), Arc::new(StringArray::from(keys)), true),
        ("n".into(), Arc::new(Float64Array::from_iter_values((0..rows).map(|n| (n % 5) as f64))), true),
    ];
    for &dimension in dimensions {
        let mut list = ListBuilder::new(Float64Builder::new());
        for row in 0..rows {
            for k in 0..dimension {
                list.values().append_option(coordinate(rng, shape, row + k, odd));
            }
            list.append(!odd || rng.random_bool(0.95));
        }
        columns.push((format!("v{dimension}"), as_type(list.finish(), dimension as i32, rng), true));
    }
    for axis in ["x", "y", "z"] {
        let numbers: Float64Array = (0..rows).map(|row| coordinate(rng, shape, row, odd)).collect();
        let types = [DataType::Float64, DataType::Float32, DataType::Int64, DataType::Int32];
        let to = types.choose(rng).unwrap();
        columns.push((axis.into(), cast(&numbers, to).unwrap(), true));
    }
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let cut = rows / 3;
    let parts = vec![vec![batch.slice(0, cut)], vec![batch.slice(cut, rows - cut)]];
    MemTable::try_new(batch.schema(), parts).unwrap()
}

/// Quarters, so that distances meet the bounds exactly; all alike, spread out, or with outliers.
///
/// The only NaN is the negative one, as infinity less infinity is: which of two NaN a sum takes its sign from, and
/// with it whether stock holds it to be below a bound, is up to the compiler.
fn coordinate(rng: &mut StdRng, shape: u32, at: usize, odd: bool) -> Option<f64> {
    if odd && rng.random_bool(0.03) {
        let odd = [None, Some(-f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(1e200)];
        return *odd.choose(rng).unwrap();
    }
    Some(match shape {
        0 => 1.5,
        1 => f64::from(rng.random_range(-8..8)) / 4.0,
        2 if rng.random_bool(0.01) => [1e9, -1e15, 1e18, 1e-170].choose(rng).copied().unwrap(),
        2 => f64::from(rng.random_range(0..4000)) / 4.0,
        _ => 1e6 + (at % 7) as f64 + f64::from(rng.random_range(0..4)) / 4.0,
    })
}

fn as_type(lists: ListArray, dimension: i32, rng: &mut StdRng) -> ArrayRef {
    let element = [DataType::Float64, DataType::Float64, DataType::Float32, DataType::Int64, DataType::Float16];
    let element = element.choose(rng).unwrap().clone();
    let list: ArrayRef = Arc::new(lists);
    match rng.random_range(0..3) {
        0 => cast(&list, &DataType::new_list(element, true)).unwrap(),
        1 => cast(&list, &DataType::new_large_list(element, true)).unwrap(),
        _ => {
            let lists = list.as_list::<i32>();
            let values = cast(lists.values(), &element).unwrap();
            let field = Arc::new(Field::new_list_field(element, true));
            if lists.is_empty() {
                return Arc::new(FixedSizeListArray::new_null(field, dimension, 0));
            }
            Arc::new(FixedSizeListArray::new(field, dimension, values, lists.nulls().cloned()))
        }
    }
}

fn random_vector_condition(rng: &mut StdRng, dimensions: &[usize]) -> String {
    let eps =
        *["0", "0.25", "0.5", "1", "2.5", "1.4142135623730951", "0.0001", "1e300", "-1", "100"].choose(rng).unwrap();
    let le = *["<=", "<=", "<"].choose(rng).unwrap();
    let d = dimensions.choose(rng).unwrap();
    let arguments = if rng.random_bool(0.5) { format!("a.v{d}, b.v{d}") } else { format!("b.v{d}, a.v{d}") };
    let ge = *[">=", ">=", ">"].choose(rng).unwrap();
    match rng.random_range(0..20) {
        0..3 => format!("l2_distance({arguments}) {le} {eps}"),
        3 => format!("l1_distance({arguments}) {le} {eps}"),
        4 => format!("linf_distance({arguments}) {le} {eps}"),
        5 => format!(
            "lp_distance({arguments}, {}) {le} {eps}",
            ["1", "1.5", "2", "3", "20", "1000"].choose(rng).unwrap()
        ),
        6 => format!("array_distance({arguments}) {le} {eps}"),
        7 => format!("{eps} >= list_distance({arguments})"),
        8 => {
            format!("cosine_similarity({arguments}) >= {}", ["0.5", "0.9", "1", "0.99999", "-0.5"].choose(rng).unwrap())
        }
        9 => {
            format!("cosine_distance({arguments}) {le} {}", ["0.5", "0.1", "0", "0.000001", "1.5"].choose(rng).unwrap())
        }
        10 => format!("inner_product({arguments}) >= {}", ["0.5", "100", "0", "-3", "1e6"].choose(rng).unwrap()),
        11 => format!("sqrt(power(a.x - b.x, 2) + power(a.y - b.y, 2)) {le} {eps}"),
        12 => format!("power(b.x - a.x, 2) + power(a.y - b.y, 2) + power(a.z - b.z, 2) {le} {eps}"),
        13 => format!("sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)) {le} {eps}"),
        14 => format!("abs(a.x - b.x) {le} {eps} AND abs(b.y - a.y) {le} 1"),
        15 => format!("cosine_similarity({arguments}) {le} {}", ["0.5", "-0.9", "0", "-1"].choose(rng).unwrap()),
        16 => format!("cosine_distance({arguments}) {ge} {}", ["0.5", "1.9", "1", "2"].choose(rng).unwrap()),
        17 => format!("inner_product({arguments}) {le} {}", ["0.5", "-100", "0", "2.25", "-1e6"].choose(rng).unwrap()),
        18 => format!("cosine_distance({arguments}) BETWEEN 0.5 AND {}", ["1.5", "2", "0.7"].choose(rng).unwrap()),
        _ => format!("l2_distance({arguments}) BETWEEN 0.25 AND {eps}"),
    }
}

/// About vectors of a finite table.
pub(crate) fn random_vectors(rng: &mut StdRng) -> String {
    random_condition(rng, &DIMENSIONS)
}

fn random_condition(rng: &mut StdRng, dimensions: &[usize]) -> String {
    let mut conjuncts = vec![random_vector_condition(rng, dimensions)];
    if rng.random_bool(0.3) {
        conjuncts.push(["a.k = b.k", "(a.k IS NOT DISTINCT FROM b.k)", "a.n = b.n"].choose(rng).unwrap().to_string());
    }
    if rng.random_bool(0.4) {
        conjuncts
            .push(["a.id < b.id", "a.id <> b.id", "a.n + b.n > 3", "a.k LIKE 'x%'"].choose(rng).unwrap().to_string());
    }
    let shift = rng.random_range(0..conjuncts.len());
    conjuncts.rotate_left(shift);
    conjuncts.join(" AND ")
}

fn random_rules(rng: &mut StdRng) -> String {
    let clauses = (0..rng.random_range(2..4)).map(|_| {
        let mut clause = vec![format!("({})", random_vector_condition(rng, &[3]))];
        if rng.random_bool(0.5) {
            clause.push(["a.k = b.k", "a.n = b.n", "a.k = 'x'", "a.id < b.id"].choose(rng).unwrap().to_string());
        }
        if rng.random_bool(0.3) {
            clause.push(format!("({})", random_vector_condition(rng, &[3])));
        }
        clause.join(" AND ")
    });
    clauses.collect::<Vec<_>>().join(" OR ")
}
