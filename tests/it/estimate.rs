//! `estimate_join` against the true numbers, by how often its bounds hold them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::session;

/// A table `t` of rows with names of a small alphabet and keys of very different frequency.
fn register(context: &SessionContext, count: usize) {
    let mut rng = StdRng::seed_from_u64(35);
    let keys = (0..count).map(|_| (rng.random::<f64>().powi(4) * 3000.0) as i32).collect::<Vec<_>>();
    let name = |_| (0..4).map(|_| char::from(b'a' + rng.random_range(0..7))).chain("anna".chars()).collect::<String>();
    let names: Vec<String> = (0..count).map(name).collect();
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from_iter_values(1..=count as i32)) as ArrayRef),
        ("k", Arc::new(Int32Array::from(keys))),
        ("name", Arc::new(StringArray::from(names))),
    ])
    .unwrap();
    context.register_batch("t", batch).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_hold_the_true_numbers_in_19_of_20_samples() {
    let context = session(8192, 2);
    register(&context, 12_000);
    let conditions = [
        "a.k = b.k AND levenshtein(a.name, b.name) <= 1",
        "levenshtein(a.name, b.name) <= 1",
        "a.k = b.k OR (a.name = b.name AND abs(a.k - b.k) <= 10)",
        "a.name = b.name AND a.k < b.k",
    ];
    for condition in conditions {
        for tables in ["'t'", "'SELECT * FROM t WHERE id <= 9000', 'SELECT * FROM t WHERE id > 3000'"] {
            let truth = estimates(&context, tables, condition, 1 << 20, 1).await;
            let (mut held, mut asked) = (0, 0);
            for seed in 1..=40 {
                let sample = estimates(&context, tables, condition, 1500, seed).await;
                assert_eq!(sample.len(), truth.len());
                for (sample, truth) in sample.iter().zip(&truth) {
                    assert!(sample.low <= sample.value && sample.value <= sample.high, "{sample:?}");
                    held += usize::from(sample.low <= truth.value && truth.value <= sample.high);
                    asked += 1;
                }
            }
            assert!(held * 20 >= asked * 19, "{condition} over {tables}: {held} of {asked}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_tables_are_counted_as_a_join_counts_them() {
    let context = session(1000, 2);
    register(&context, 1500);
    let condition = "a.k = b.k AND levenshtein(a.name, b.name) <= 1";
    let estimates = estimates(&context, "'t'", condition, 1 << 20, 5).await;
    let count = |on: &str| format!("SELECT CAST(count(*) AS DOUBLE) FROM t a JOIN t b ON {on} AND a.id < b.id");
    for (on, estimate) in ["a.k = b.k", condition].into_iter().zip(estimates) {
        let [expected] = rows(&context, &count(on)).await[..] else { panic!("a count has one row") };
        assert_eq!([estimate.value, estimate.low, estimate.high], [expected; 3], "{on}");
    }
}

#[derive(Debug)]
struct Estimate {
    value: f64,
    low: f64,
    high: f64,
}

/// The candidates and the matches of each clause.
async fn estimates(
    context: &SessionContext,
    tables: &str,
    condition: &str,
    sample: usize,
    seed: usize,
) -> Vec<Estimate> {
    let columns: Vec<String> = ["candidates", "matches"]
        .into_iter()
        .flat_map(|of| ["", "_low", "_high"].map(|bound| format!("CAST({of}{bound} AS DOUBLE)")))
        .collect();
    let sql = format!("SELECT {} FROM estimate_join({tables}, '{condition}', {sample}, {seed})", columns.join(", "));
    let of = rows(context, &sql).await;
    of.chunks(3).map(|of| Estimate { value: of[0], low: of[1], high: of[2] }).collect()
}

/// The values of a query, row by row.
async fn rows(context: &SessionContext, sql: &str) -> Vec<f64> {
    let batches = context.similarity_sql(sql).await.unwrap().collect().await.unwrap();
    let mut values = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::Float64).unwrap());
        let columns: Vec<_> = columns.collect();
        for row in 0..batch.num_rows() {
            values.extend(columns.iter().map(|column| column.as_primitive::<Float64Type>().value(row)));
        }
    }
    values
}
