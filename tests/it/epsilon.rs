//! Epsilon joins against stock DataFusion: dimensions, list and element types, metrics, points exactly at the bound,
//! everything that is no number, and shapes that spoil an index.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Float64Array, Float64Builder, Int64Array, ListArray, ListBuilder,
    RecordBatch, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::datasource::MemTable;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::oracle::{Cases, SMALL, check};

const FEW: Cases = Cases {
    table: random_table,
    sizes: SMALL,
    condition: |rng| random_condition(rng, &[3]),
    operator: "EpsilonJoinExec",
    tenths: 6,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_stock() {
    check(5000..5060, FEW).await;
}

/// So many rows that boxes and balls leave leaves out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_tables_have_the_same_rows_as_stock() {
    check(5100..5108, Cases { sizes: &[700], ..FEW }).await;
}

/// Tables whose elements are all numbers, so that undecided rows do not hide what the index does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finite_vectors_have_the_same_rows_as_stock() {
    check(
        5200..5212,
        Cases { table: finite_table, sizes: &[23, 700], condition: |rng| random_condition(rng, &DIMENSIONS), ..FEW },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_in_rules_have_the_same_rows_as_stock() {
    let rules = Cases { condition: random_rules, operator: "MatchingDependencyBlockExec", tenths: 5, ..FEW };
    check(5300..5330, rules).await;
    check(5400..5403, Cases { sizes: &[600], ..rules }).await;
}

/// Lengths of the vectors in the columns v1, v2, ...
const DIMENSIONS: [usize; 7] = [1, 2, 3, 8, 16, 33, 128];

/// id, k, v3 (vectors), x, y and z (coordinates), n and s (as the other oracle's queries ask for).
fn random_table(rng: &mut StdRng, sizes: &[usize]) -> MemTable {
    table(rng, sizes, &[3], true)
}

fn finite_table(rng: &mut StdRng, sizes: &[usize]) -> MemTable {
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
/// The only NaN is the negative one, as infinity less infinity is: which of two NaN a sum takes its sign from, and with it
/// whether stock holds it to be below a bound, is up to the compiler.
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
    match rng.random_range(0..16) {
        0..3 => format!("l2_distance({arguments}) {le} {eps}"),
        3 => format!("l1_distance({arguments}) {le} {eps}"),
        4 => format!("linf_distance({arguments}) {le} {eps}"),
        5 => format!("lp_distance({arguments}, {}) {le} {eps}", ["1", "1.5", "2", "3", "20"].choose(rng).unwrap()),
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
        _ => format!("l2_distance({arguments}) BETWEEN 0.25 AND {eps}"),
    }
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
