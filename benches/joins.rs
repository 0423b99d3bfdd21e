//! Joins in SQL from tables in memory to counted pairs, by rows and selectivity.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_similarity::{SimilarityContext, SimilarityStateBuilder};
use divan::Bencher;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Runtime;

fn main() {
    divan::main();
}

const ROWS: [usize; 2] = [5_000, 20_000];

/// Sentences of seven words of a skewed vocabulary; one in five is a noisy copy of an earlier one.
fn sentences(rows: usize) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(42);
    let mut made: Vec<String> = Vec::with_capacity(rows);
    for row in 0..rows {
        if row > 0 && rng.random_bool(0.2) {
            let mut copy: Vec<char> = made[rng.random_range(0..row)].chars().collect();
            for _ in 0..rng.random_range(0..4) {
                let at = rng.random_range(0..copy.len());
                copy[at] = rng.random_range('a'..='z');
            }
            made.push(copy.into_iter().collect());
            continue;
        }
        let mut text = String::new();
        for _ in 0..7 {
            let rank = (rng.random::<f64>().powi(3) * 20_000.0) as u64;
            let mut word = rank.wrapping_mul(2_654_435_761) % 308_915_776;
            if !text.is_empty() {
                text.push(' ');
            }
            while word > 0 {
                let _ = text.write_char((b'a' + (word % 26) as u8) as char);
                word /= 26;
            }
        }
        made.push(text);
    }
    made
}

/// A table `t` with `id` and `s`.
fn context(rows: usize) -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features().with_similarity().build();
    let context = SessionContext::new_with_state(state);
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let s: ArrayRef = Arc::new(StringArray::from(sentences(rows)));
    let batch = RecordBatch::try_from_iter([("id", id), ("s", s)]).expect("equal lengths");
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("the batch's own schema");
    context.register_table("t", Arc::new(table)).expect("a new name");
    context
}

fn self_join(bencher: Bencher, rows: usize, condition: &str) {
    let runtime = Runtime::new().expect("a runtime");
    let context = context(rows);
    let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {condition} AND a.id < b.id");
    bencher.bench_local(|| {
        let work = async { context.similarity_sql(&query).await?.collect().await };
        runtime.block_on(work).expect("the query runs")
    });
}

macro_rules! joins {
    ($($name:ident: $condition:literal),+ $(,)?) => {
        $(#[divan::bench(args = ROWS, sample_count = 5, sample_size = 1)]
        fn $name(bencher: Bencher, rows: usize) {
            self_join(bencher, rows, $condition);
        })+
    };
}

joins! {
    jaccard_words_08: "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.8",
    jaccard_words_05: "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5",
    jaccard_q3_09: "jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.9",
    jaccard_q3_05: "jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.5",
    dice_q3_07: "dice(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.7",
    set_cosine_q3_07: "set_cosine(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.7",
    overlap_coefficient_words_08: "overlap_coefficient(word_tokens(a.s), word_tokens(b.s)) >= 0.8",
    overlap_count_words_5: "overlap_count(word_tokens(a.s), word_tokens(b.s)) >= 5",
    similarity_06: "similarity(a.s, b.s) >= 0.6",
    levenshtein_1: "levenshtein(a.s, b.s) <= 1",
    levenshtein_3: "levenshtein(a.s, b.s) <= 3",
    levenshtein_similarity_09: "levenshtein_similarity(a.s, b.s) >= 0.9",
    osa_2: "osa_distance(a.s, b.s) <= 2",
    damerau_levenshtein_2: "damerau_levenshtein(a.s, b.s) <= 2",
    hamming_2: "hamming(a.s, b.s) <= 2",
    jaro_09: "jaro_similarity(a.s, b.s) >= 0.9",
    jaro_winkler_09: "jaro_winkler_similarity(a.s, b.s) >= 0.9",
}
