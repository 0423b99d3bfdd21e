//! Columns that only keys are made of: their values are let go, and no row changes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::chunks::run;
use crate::cuda::is_on_a_device;
use crate::nearest_in_chunks::refused;
use crate::{metric, session, session_of};

const ROWS: usize = 210;
/// Words of a text.
const WORDS: usize = 60;
/// Bytes of the texts of a table, about.
const TEXTS: usize = ROWS * WORDS * 7;

/// Texts, each of which stands three times in all tables, with a few other words of the seed; a few are NULL.
fn table(seed: u64) -> MemTable {
    let (mut originals, mut rng) = (StdRng::seed_from_u64(0), StdRng::seed_from_u64(seed));
    let mut words = Vec::new();
    let word = |rng: &mut StdRng| format!("w{}", rng.random_range(10_000..100_000));
    let texts = (0..ROWS).map(|row| {
        if row % 3 == 0 {
            words = (0..WORDS).map(|_| word(&mut originals)).collect();
        }
        let text = words.iter().map(|own| if rng.random_bool(0.05) { word(&mut rng) } else { own.clone() });
        let text = text.collect::<Vec<_>>().join(" ");
        rng.random_bool(0.98).then_some(text)
    });
    let texts = Arc::new(texts.collect::<StringArray>()) as ArrayRef;
    let [ids, keys] =
        [1, 7].map(|every| Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| row / every))));
    let columns = [("id", ids as ArrayRef, true), ("k", keys as ArrayRef, true), ("s", texts, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    MemTable::try_new(batch.schema(), vec![vec![batch.slice(0, 100), batch.slice(100, ROWS - 100)]]).unwrap()
}

fn context() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(256);
    let context = session_of(SessionStateBuilder::new().with_config(config));
    for (seed, name) in [(1, "l"), (2, "r")] {
        context.register_table(name, Arc::new(table(seed))).unwrap();
    }
    context
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_let_go_where_nothing_reads_them() {
    let context = context();
    let similar = "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.6";
    let lower = "jaccard(word_tokens(lower(a.s)), word_tokens(lower(b.s))) >= 0.6";
    let cases = [
        // a self-join, with a residual, with an equality, of computed keys
        (true, "a.id, b.id", format!("l a JOIN l b ON {similar} AND a.id < b.id")),
        (true, "a.id, b.k", format!("l a JOIN l b ON {similar} AND a.id + b.k < b.id + a.k")),
        (true, "a.id, b.id", format!("l a JOIN l b ON {similar} AND a.k = b.k AND a.id < b.id")),
        (true, "a.id, b.id", format!("l a JOIN l b ON {lower} AND a.id < b.id")),
        (true, "a.id, b.id", format!("l a FULL JOIN l b ON {similar} AND a.id < b.id")),
        // two inputs
        (true, "a.id, b.id", format!("l a JOIN r b ON {similar}")),
        (true, "a.id, b.id", format!("l a LEFT JOIN r b ON {similar}")),
        (true, "a.id, b.id", format!("l a RIGHT JOIN r b ON {similar} AND a.k = b.k")),
        (true, "a.id, b.id", format!("l a FULL JOIN r b ON {similar}")),
        // what comes out, what a residual reads, and keys of other rows that might not be there to be evaluated
        (false, "a.id, b.s", format!("l a JOIN l b ON {similar} AND a.id < b.id")),
        (false, "a.s, b.id", format!("l a FULL JOIN r b ON {similar}")),
        (false, "a.id, b.id", format!("l a JOIN l b ON {similar} AND a.s < b.s")),
        (false, "a.id, b.id", format!("l a JOIN r b ON {lower}")),
        // strings are compared themselves
        (false, "a.id, b.id", "l a JOIN l b ON levenshtein(a.s, b.s) <= 20 AND a.id < b.id".to_owned()),
    ];
    for (is_let_go, columns, join) in &cases {
        let query = format!("SELECT {columns} FROM {join}");
        let (expected, _) = run(&context, &query, false).await;
        assert!(expected.len() > 10, "{query}");
        let mut held = [0; 2];
        // a check reads the rows again
        for (verify, held) in ["off", "complete"].into_iter().zip(&mut held) {
            context.sql(&format!("SET similarity.verify = '{verify}'")).await.unwrap();
            let (found, plan) = run(&context, &query, true).await;
            assert_eq!(found, expected, "{query}");
            *held = metric(&plan, "build_mem_used");
        }
        let [held, held_for_check] = held;
        // the host keeps what a device may hand back to it
        let holds_less = held + TEXTS / 2 < held_for_check;
        assert!(holds_less == *is_let_go || is_on_a_device(), "{query}: {held}, {held_for_check}");
    }
}

/// A row without a partner by `k` has a key that cannot be evaluated, and meets the rows of other chunks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_cannot_be_evaluated_fail_no_self_join_in_chunks() {
    let most = [("SimilarityJoinExec[build]", 1000), ("similarity join[chunk]", 700_000)];
    let contexts = [session(256, 2), refused(&most, 256, 2)];
    let text = "concat(repeat('word ', 20), CAST(1000 / a.x AS VARCHAR))";
    let query = format!(
        "SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k AND a.id < b.id \
         AND jaccard(word_tokens({text}), word_tokens({})) >= 0.9",
        text.replace("a.x", "b.x")
    );
    let mut found = Vec::new();
    for context in &contexts {
        let create = "CREATE TABLE t AS SELECT value AS id, CASE WHEN value <> 1500 THEN value / 3 END AS k, \
                      CASE WHEN value <> 1500 THEN 1 + value % 900 / 2 ELSE 0 END AS x FROM generate_series(0, 2999)";
        context.sql(create).await.unwrap().collect().await.unwrap();
        let (expected, _) = run(context, &query, false).await;
        let (rows, plan) = run(context, &query, true).await;
        assert_eq!(rows, expected);
        found.push((rows, metric(&plan, "chunks")));
    }
    assert!(found[0].0.len() > 100 && found[0].0 == found[1].0);
    assert!(found[1].1 > 1, "{}", found[1].1);
}
