//! Joins with a recall: no pair too many, as many as were asked for, and what EXPLAIN ANALYZE says of it.

use std::collections::BTreeSet;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::{SessionContext, col, lit};
use datafusion_similarity::functions::expr_fn::{jaccard, with_recall, word_tokens};
use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::session;

type Found = BTreeSet<(i64, i64)>;

const JACCARD: &str = "jaccard(word_tokens(a.s), word_tokens(b.s))";

/// Texts in fours that share most of their words, of which the first may be NULL.
async fn texts(context: &SessionContext, seed: u64, rows: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut values = Vec::new();
    let mut text: Vec<u32> = Vec::new();
    for id in 0..rows {
        if id % 4 == 0 {
            text = (0..rng.random_range(5..40)).map(|_| rng.random_range(0..2000)).collect();
        }
        let noise = rng.random_range(0.0..0.2);
        let mut word =
            |word: &u32| format!("w{}", if rng.random_bool(noise) { rng.random_range(0..2000) } else { *word });
        let words: Vec<String> = text.iter().map(&mut word).collect();
        let s = if id % 50 == 0 { "NULL".to_owned() } else { format!("'{}'", words.join(" ")) };
        values.push(format!("({id}, {s}, {})", id % 3));
    }
    let sql = format!("CREATE TABLE t (id BIGINT, s VARCHAR, k BIGINT) AS VALUES {}", values.join(", "));
    context.sql(&sql).await.unwrap().collect().await.unwrap();
    context.sql("SET similarity.overrides = 'access_path=hash bands'").await.unwrap();
    context.sql("SET similarity.engine = 'cpu'").await.unwrap();
}

async fn pairs(context: &SessionContext, sql: &str) -> Found {
    let batches = context.similarity_sql(sql).await.unwrap().collect().await.unwrap();
    let mut found = Found::new();
    for batch in batches {
        let [left, right] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>().clone());
        found.extend(left.iter().zip(&right).map(|(left, right)| (left.unwrap_or(-1), right.unwrap_or(-1))));
    }
    found
}

/// The pairs of a condition with a recall, and all of them.
async fn both(context: &SessionContext, join: &str, condition: &str, recall: f64) -> (Found, Found) {
    let query = |with: &str| format!("SELECT a.id, b.id FROM t a {join} SIMILARITY JOIN t b ON {condition}{with}");
    (pairs(context, &query(&format!(" WITH RECALL {recall}"))).await, pairs(context, &query("")).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_hold_and_enough_are_found() {
    let (mut found, mut missed) = (0, 0);
    for seed in 0..8 {
        let context = session([64, 8192][seed as usize % 2], 2);
        texts(&context, seed, 1200).await;
        context.sql("SET similarity.verify = 'complete'").await.unwrap();
        for (condition, recall) in [
            (format!("{JACCARD} >= 0.7 AND a.id < b.id"), 0.8),
            (format!("{JACCARD} >= 0.5 AND a.id <> b.id AND a.k <= b.k"), 0.9),
            ("dice(word_tokens(a.s), word_tokens(b.s)) >= 0.8 AND a.k = b.k".to_owned(), 0.7),
            (format!("({JACCARD} >= 0.8 OR (a.k = b.k AND {JACCARD} >= 0.5)) AND a.id < b.id"), 0.9),
        ] {
            let (some, all) = both(&context, "", &condition, recall).await;
            assert!(some.is_subset(&all), "{condition}");
            assert!(some.len() as f64 >= recall * all.len() as f64, "{} of {}: {condition}", some.len(), all.len());
            found += some.len();
            missed += all.len() - some.len();
        }
    }
    assert!(missed > 0 && missed * 10 < found, "{missed} of {found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_partner_come_out_once() {
    let context = session(100, 2);
    texts(&context, 77, 1000).await;
    let condition = format!("{JACCARD} >= 0.6 AND a.k <> b.k");
    let (left, all) = both(&context, "LEFT", &condition, 0.8).await;
    let (with, without): (Found, Found) = left.into_iter().partition(|(_, right)| *right >= 0);
    assert!(with.is_subset(&all) && with.len() < all.iter().filter(|(_, right)| *right >= 0).count());
    let ids = |found: &Found| found.iter().map(|(left, _)| *left).collect::<BTreeSet<i64>>();
    assert!(ids(&with).is_disjoint(&ids(&without)));
    assert_eq!(ids(&with).union(&ids(&without)).count(), 1000);
    // of rows that have a partner some may seem to have none, but no row without one is lost
    let anti = format!("SELECT a.id, -1 FROM t a ANTI SIMILARITY JOIN t b ON {condition}");
    let (some, every) = (pairs(&context, &format!("{anti} WITH RECALL 0.8")).await, pairs(&context, &anti).await);
    assert!(every.is_subset(&some) && some.len() < every.len() + 200, "{} {}", some.len(), every.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recall_is_stated_and_measured() {
    let context = session(8192, 2);
    texts(&context, 5, 3000).await;
    let query =
        format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {JACCARD} >= 0.7 AND a.id < b.id WITH RECALL 0.9");
    let explained = |words: &str| format!("EXPLAIN {words} {query}");
    let text = async |sql: String| {
        let batches = context.similarity_sql(&sql).await.unwrap().collect().await.unwrap();
        datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
    };
    context.sql("SET datafusion.explain.format = 'indent'").await.unwrap();
    let plan = text(explained("")).await;
    assert!(plan.contains("recall=at least 0.9 of the pairs") && plan.contains("or hash bands"), "{plan}");
    let analyzed = text(explained("ANALYZE")).await;
    assert!(analyzed.contains("which find a pair at the threshold with a probability of 0.9"), "{analyzed}");
    let count = |name: &str| {
        let at = analyzed.find(name).unwrap_or_else(|| panic!("{name} in {analyzed}")) + name.len() + 1;
        analyzed[at..].split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<usize>().unwrap()
    };
    let (sampled, found) = (count("recall_sample_pairs"), count("recall_sample_found"));
    assert!(found <= sampled && sampled > 5 && found * 10 >= sampled * 7, "{found} of {sampled}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_frames_and_plain_joins_take_a_recall() {
    let context = session(8192, 2);
    texts(&context, 9, 1000).await;
    let [a, b] = ["a", "b"].map(|alias| async { context.table("t").await.unwrap().alias(alias).unwrap() });
    let (a, b) = (a.await, b.await);
    let alike =
        jaccard(word_tokens(col("a.s")), word_tokens(col("b.s"))).gt_eq(lit(0.7)).and(col("a.id").lt(col("b.id")));
    let joined = a.similarity_join(b, datafusion::common::JoinType::Inner, with_recall(alike, lit(0.8))).unwrap();
    let by_frame = joined.count().await.unwrap();
    let condition = format!("{JACCARD} >= 0.7 AND a.id < b.id");
    let (some, all) = both(&context, "", &condition, 0.8).await;
    let plain = format!("SELECT a.id, b.id FROM t a JOIN t b ON with_recall({condition}, 0.8)");
    assert!((by_frame, pairs(&context, &plain).await) == (some.len(), some.clone()));
    assert!(some.len() < all.len());
    // the larger of two recalls, and exact where one alternative has none
    let stricter = format!("SELECT a.id, b.id FROM t a JOIN t b ON with_recall(with_recall({condition}, 0.8), 1)");
    assert!(pairs(&context, &stricter).await == all);
    let partly = format!(
        "SELECT a.id, b.id FROM t a JOIN t b ON (with_recall({JACCARD} >= 0.7, 0.8) OR a.id = -b.id) AND a.id < b.id"
    );
    assert!(pairs(&context, &partly).await == all);
    let plans = async |condition: &str| {
        let sql = format!("EXPLAIN SELECT a.id, b.id FROM t a JOIN t b ON {condition}");
        let batches = context.similarity_sql(&sql).await.unwrap().collect().await.unwrap();
        datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
    };
    context.sql("SET datafusion.explain.format = 'indent'").await.unwrap();
    // an alternative keeps its index
    let alternative = plans(&format!("with_recall({JACCARD} >= 0.7, 0.8) OR (a.k = b.k AND a.s = b.s)")).await;
    assert!(alternative.contains("index [#") && !alternative.contains("recall="), "{alternative}");
    // what is left to DataFusion keeps its keys
    let declined = format!("with_recall(a.k = b.k AND {JACCARD} >= a.id / 1e9, 0.9)");
    assert!(plans(&declined).await.contains("HashJoinExec"), "{}", plans(&declined).await);
    context.sql("SET similarity.enabled = false").await.unwrap();
    let off = plans(&format!("with_recall(a.k = b.k AND {JACCARD} >= 0.5, 0.9)")).await;
    assert!(off.contains("HashJoinExec"), "{off}");
}
