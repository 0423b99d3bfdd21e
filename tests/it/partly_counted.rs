//! NEAREST by match counts of which an index knows only some conditions: the same rows as by the scores of all pairs.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::rows::rows_of;
use crate::{metric, session};

/// Right rows: so many that those scored first are few of them.
const ROWS: i64 = 6000;
const LEFT_ROWS: usize = 20;

/// A table of `rows` rows: `id`, `age`, `city`, and a `name` of two letters.
fn people(context: &SessionContext, table: &str, rows: i64, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut numbers = |most: i64| -> Int64Array {
        (0..rows).map(|_| (!rng.random_bool(0.05)).then(|| rng.random_range(0..most))).collect()
    };
    let (age, city) = (numbers(50), numbers(12));
    let mut letter = || char::from(*b"abcdefgh".choose(&mut rng).unwrap());
    let name: StringArray = (0..rows).map(|_| Some(String::from_iter([letter(), letter()]))).collect();
    let id: Int64Array = (0..rows).map(Some).collect();
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(id) as _),
        ("age", Arc::new(age) as _),
        ("city", Arc::new(city) as _),
        ("name", Arc::new(name) as _),
    ]);
    context.register_batch(table, batch.unwrap()).unwrap();
}

/// Rows of a query, pairs that an index has looked at, and the plan.
async fn run(context: &SessionContext, query: &str, enabled: bool) -> (Vec<String>, usize) {
    context.sql(&format!("SET similarity.enabled = {enabled}")).await.unwrap();
    let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    (rows, metric(&plan, "verified"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_by_the_scores_of_all_pairs() {
    let context = session(7, 2);
    people(&context, "l", LEFT_ROWS as i64, 1);
    people(&context, "r", ROWS, 2);
    let scores = [
        "match_count(b.age BETWEEN a.age - 2 AND a.age + 2, b.city = a.city, a.name = b.name OR a.id = b.id)",
        "match_count(b.age BETWEEN a.age - 2 AND a.age + 2, b.city = a.city AND b.age < 30, levenshtein(a.name, b.name) <= 1)",
        "match_count(b.age = a.age, 2, levenshtein(a.name, b.name) <= 1, 3, b.city = a.city, 2, b.name < a.name, 1)",
        "match_count(b.age = a.age, 0.3, levenshtein(a.name, b.name) <= 1, 0.1, b.city = a.city, 0.2, b.id > 3000, 0.1)",
        // the other conditions decide: rows of which none is counted are among the best
        "match_count(b.age = a.age AND b.city = a.city AND a.name < b.name, b.name LIKE 'a%', a.id < b.id, a.name > b.name)",
    ];
    let mut settled = 0;
    for score in scores {
        for rest in [
            "THEN BY b.id",
            "THEN BY b.name WITH TIES",
            "THEN BY b.id ON a.city = b.city",
            "THEN BY b.id ON a.id < b.id",
        ] {
            for k in [1, 7, 700] {
                let join = format!("l a JOIN r b NEAREST {k} BY SIMILARITY {score} {rest}");
                let query = format!("SELECT a.id, b.id, {score} FROM {join}");
                let (expected, _) = run(&context, &query, false).await;
                let (rows, verified) = run(&context, &query, true).await;
                assert_eq!(rows, expected, "{query}");
                settled += usize::from(verified < LEFT_ROWS * ROWS as usize / 4);
            }
        }
    }
    assert!(settled >= 20, "{settled} queries have settled on a part of the pairs");
}

/// A quarter of nineteen million pairs has similar names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_too_many_pairs_are_scored() {
    let context = session(8192, 2);
    people(&context, "l", 3200, 1);
    people(&context, "r", ROWS, 2);
    let score = "match_count(b.age = a.age, b.city = a.city, levenshtein(a.name, b.name) <= 1)";
    let query = format!("SELECT a.id, b.id FROM l a JOIN r b NEAREST 2 BY SIMILARITY {score} THEN BY b.id");
    assert_eq!(run(&context, &query, true).await.0, run(&context, &query, false).await.0);
}
