//! Counts on which independent programs agree, over 100,000 strings with noisy duplicates.
//!
//! The data lies outside the project; without it the tests are skipped, unless `SIMILARITY_REQUIRE_DATA=1`.

use std::env;
use std::path::PathBuf;

use datafusion::common::cast::as_int64_array;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use datafusion_similarity::SimilarityContext;

use crate::session;

async fn strings() -> Option<SessionContext> {
    let folder = env::var_os("SIMILARITY_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let file = folder.join("synthetic_100k/strings.parquet");
    if !file.exists() {
        let required = env::var_os("SIMILARITY_REQUIRE_DATA").is_some_and(|v| v == "1");
        assert!(!required, "{} is missing", file.display());
        skipped_tests::skip("SIMILARITY_DATA has no synthetic_100k");
        return None;
    }
    let context = session(8192, 2);
    context.register_parquet("t", file.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    Some(context)
}

async fn count(context: &SessionContext, condition: &str) -> i64 {
    let query = format!("SELECT count(*) FROM t a SIMILARITY JOIN t b ON {condition} AND a.id < b.id");
    let batches = context.similarity_sql(&query).await.unwrap().collect().await.unwrap();
    as_int64_array(batches[0].column(0)).unwrap().value(0)
}

const WORDS: &str = "word_tokens(a.s), word_tokens(b.s)";
const Q3: &str = "qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')";
const THRESHOLDS: [&str; 5] = ["0.9", "0.8", "0.7", "0.6", "0.5"];

#[tokio::test(flavor = "multi_thread")]
async fn set_joins() {
    let Some(context) = strings().await else { return };
    let expected: [(&str, &str, &[i64]); 5] = [
        ("jaccard", WORDS, &[4_674, 11_041, 15_043, 19_752, 43_603]),
        // at 0.5 they are 27,652, which takes a build without optimisation a minute
        ("jaccard", Q3, &[4_211, 12_815, 18_484, 22_038]),
        ("dice", WORDS, &[9_594, 17_177, 20_771, 58_167, 499_188]),
        ("set_cosine", WORDS, &[9_594, 17_177, 24_343, 65_730, 543_831]),
        ("overlap_coefficient", WORDS, &[159_363, 166_753, 251_118, 2_757_676, 11_630_846]),
    ];
    for (measure, sets, counts) in expected {
        for (threshold, &expected) in THRESHOLDS.iter().zip(counts) {
            let condition = format!("{measure}({sets}) >= {threshold}");
            assert_eq!(count(&context, &condition).await, expected, "{condition}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_distance_join() {
    let Some(context) = strings().await else { return };
    let condition = "a.id < 20000 AND b.id < 20000 AND levenshtein(a.s, b.s) <= 2";
    assert_eq!(count(&context, condition).await, 388);
}
