//! Similarity indexes with a LOCATION: what a later session reads is what the first one built, and what it cannot use
//! it refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use datafusion_similarity::exec::KeptSummary;
use datafusion_similarity::optimizer::IndexCatalog;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::rows::rows_of;
use crate::{session, session_of};

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("index_file").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

async fn try_rows(context: &SessionContext, sql: &str) -> Result<Vec<String>, DataFusionError> {
    let batches = context.similarity_sql(sql).await?.collect().await?;
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    Ok(rows)
}

async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    try_rows(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A new session over the tables in a folder.
async fn over(folder: &Path) -> SessionContext {
    open_tables(session(8192, 2), folder).await
}

async fn open_tables(context: SessionContext, folder: &Path) -> SessionContext {
    rows(&context, "SET similarity.engine = 'cpu'").await;
    for name in ["l", "r"] {
        let path = folder.join(format!("{name}.parquet"));
        rows(&context, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'", path.display())).await;
    }
    context
}

/// The statement that makes an index with files in `location`.
fn create(expression: &str, location: &Path) -> String {
    format!("CREATE SIMILARITY INDEX i ON r ({expression}) LOCATION '{}'", location.display())
}

fn kept(context: &SessionContext) -> Vec<KeptSummary> {
    IndexCatalog::of(&context.copied_config()).unwrap().all().iter().flat_map(|index| index.kept()).collect()
}

fn files(location: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(location) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Random rows with texts, numbers and vectors, some of them NULL or in no order with others.
fn values(rng: &mut StdRng, rows: usize) -> String {
    let words: Vec<String> = (0..60).map(|word| format!("w{word:x}")).collect();
    let text = |rng: &mut StdRng, count: usize| {
        let words: Vec<&str> = (0..count).map(|_| words.choose(rng).unwrap().as_str()).collect();
        words.join(" ")
    };
    let row = |id: usize| {
        let count = rng.random_range(0..6);
        let s = if id % 17 == 3 { "NULL".to_owned() } else { format!("'{}'", text(rng, count)) };
        let long = text(rng, 60);
        let [k, g, f] = [3, rows / 3 + 1, 4].map(|values| rng.random_range(0..values));
        let mut vector = |dimension: usize| {
            let numbers = (0..dimension).map(|_| format!("{:.3}", rng.random_range(-2.0..2.0)));
            numbers.collect::<Vec<_>>().join(", ")
        };
        let v = if id % 13 == 5 { "[1e200, 1e200]".to_owned() } else { format!("[{}]", vector(2)) };
        let y = if id % 19 == 7 { "NULL".to_owned() } else { format!("[{}]", vector(40)) };
        format!("({id}, {s}, '{long}', {k}, {g}, {f}.5, {v}, [{}], {y})", vector(1))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Writes a left table and a right one.
async fn write_tables(folder: &Path, rows_of_each: [usize; 2]) {
    let context = session(8192, 2);
    let mut rng = StdRng::seed_from_u64(7);
    for (name, count) in ["l", "r"].into_iter().zip(rows_of_each) {
        let columns =
            "id BIGINT, s VARCHAR, long VARCHAR, k BIGINT, g BIGINT, f DOUBLE, v DOUBLE[], x DOUBLE[], y DOUBLE[]";
        rows(&context, &format!("CREATE TABLE {name} ({columns}) AS VALUES {}", values(&mut rng, count))).await;
        let path = folder.join(format!("{name}.parquet"));
        let query = format!("SELECT *, split_part(s, ' ', 1) AS dup FROM {name}");
        rows(&context, &format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display())).await;
    }
}

/// A kind of index: the expression, what is forced, the query, and what EXPLAIN ANALYZE calls it.
type Kind = (&'static str, &'static str, &'static str, &'static str);

const SETS: &[Kind] = &[
    (
        "word_tokens(s)",
        "access_path=prefix index",
        "SELECT a.id, b.id FROM l a LEFT SIMILARITY JOIN r b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.4",
        "prefix index",
    ),
    (
        "word_tokens(s)",
        "access_path=signature tiles",
        "SELECT a.id, b.id FROM l a FULL SIMILARITY JOIN r b ON set_cosine(word_tokens(a.s), word_tokens(b.s)) >= 0.5",
        "signature tiles",
    ),
    (
        "word_tokens(s)",
        "access_path=signature tiles",
        "SELECT a.id, b.id FROM r a SIMILARITY JOIN r b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.4 AND a.id < b.id",
        "signature tiles",
    ),
    (
        "word_tokens(s)",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON overlap_count(word_tokens(a.s), word_tokens(b.s)) >= 2 AND a.k = b.k AND a.f = b.f",
        "",
    ),
    (
        "word_tokens(s)",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.2 AND a.g = b.g",
        "pair by pair",
    ),
    (
        "word_tokens(long)",
        "access_path=signature tiles",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON jaccard(word_tokens(a.long), word_tokens(b.long)) >= 0.5",
        "signature tiles",
    ),
    ("s", "", "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON jaccard(a.s, b.s, 3) >= 0.4", ""),
    (
        "word_tokens(s)",
        "",
        "SELECT a.id, b.id FROM l a LEFT JOIN r b NEAREST 3 BY SIMILARITY jaccard(word_tokens(a.s), word_tokens(b.s)) THEN BY b.id",
        "inverted index",
    ),
    (
        "word_tokens(s)",
        "",
        "SELECT a.id, b.id FROM r a JOIN r b NEAREST 2 BY SIMILARITY dice(word_tokens(a.s), word_tokens(b.s)) THEN BY b.id ON a.id <> b.id AND a.k = b.k",
        "inverted index",
    ),
    (
        "word_tokens(s)",
        "",
        "SELECT id FROM r ORDER BY jaccard(word_tokens(s), word_tokens('w1 w2 w3')) DESC NULLS LAST, id LIMIT 5",
        "",
    ),
];

const STRINGS: &[Kind] = &[
    (
        "s",
        "access_path=segment index",
        "SELECT a.id, b.id FROM l a LEFT SIMILARITY JOIN r b ON levenshtein(a.s, b.s) <= 2",
        "segment index",
    ),
    (
        "s",
        "access_path=signature tiles",
        "SELECT a.id, b.id FROM l a RIGHT SIMILARITY JOIN r b ON osa_distance(a.s, b.s) <= 3 AND a.k = b.k",
        "signature tiles",
    ),
    (
        "s",
        "",
        "SELECT a.id, b.id FROM r a SIMILARITY JOIN r b ON jaro_winkler_similarity(a.s, b.s) >= 0.9 AND a.id < b.id",
        "signature tiles",
    ),
    (
        "s",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(a.s, b.s) <= 3 AND a.g = b.g",
        "pair by pair",
    ),
    (
        "long",
        "access_path=signature tiles",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(a.long, b.long) <= 120",
        "signature tiles",
    ),
    (
        "s",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 3 BY DISTANCE levenshtein(a.s, b.s) THEN BY b.id WITH TIES",
        "signature tiles",
    ),
    (
        "s",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 2 BY SIMILARITY jaro_similarity(a.s, b.s) THEN BY b.id ON a.k = b.k",
        "signature tiles",
    ),
    (
        "dup",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 4 BY DISTANCE levenshtein(a.dup, b.dup) THEN BY b.id",
        "different keys",
    ),
    ("s", "", "SELECT id FROM r ORDER BY levenshtein(s, 'w1 w2 w3') NULLS LAST, id LIMIT 5", ""),
    (
        "lower(s)",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(lower(a.s), lower(b.s)) <= 2 AND upper(a.dup) = upper(b.dup)",
        "",
    ),
    (
        "s",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN (SELECT * FROM r WHERE k IN (0, 2) AND dup IN ('w1', 'w2', 'w3', 'w4', 'w5') OR s LIKE 'w%3') b ON levenshtein(a.s, b.s) <= 3",
        "",
    ),
    (
        "CASE WHEN k > 0 THEN s ELSE dup END",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 2 BY DISTANCE levenshtein(a.s, CASE WHEN b.k > 0 THEN b.s ELSE b.dup END) THEN BY abs(b.k - 1), b.id",
        "",
    ),
];

const VECTORS: &[Kind] = &[
    ("v", "", "SELECT a.id, b.id FROM l a LEFT SIMILARITY JOIN r b ON l2_distance(a.v, b.v) <= 0.4", "k-d blocks"),
    (
        "v",
        "",
        "SELECT a.id, b.id FROM r a SIMILARITY JOIN r b ON l1_distance(a.v, b.v) <= 0.3 AND a.id < b.id",
        "k-d blocks",
    ),
    (
        "v",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON linf_distance(a.v, b.v) <= 0.4 AND a.k = b.k",
        "k-d blocks",
    ),
    (
        "v",
        "",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON l2_distance(a.v, b.v) <= 1.5 AND a.g = b.g",
        "pair by pair",
    ),
    ("v", "", "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON cosine_similarity(a.v, b.v) >= 0.999", ""),
    ("x", "", "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON l2_distance(a.x, b.x) <= 0.01", "sorted runs"),
    ("y", "", "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON l2_distance(a.y, b.y) <= 8", "metric blocks"),
    ("y", "", "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON inner_product(a.y, b.y) >= 12", ""),
    (
        "v",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 3 BY DISTANCE l2_distance(a.v, b.v) THEN BY b.id",
        "k-d blocks",
    ),
    (
        "v",
        "",
        "SELECT a.id, b.id FROM r a JOIN r b NEAREST 2 BY DISTANCE linf_distance(a.v, b.v) THEN BY b.id ON a.id <> b.id",
        "k-d blocks",
    ),
    (
        "y",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 3 BY SIMILARITY cosine_similarity(a.y, b.y) THEN BY b.id ON a.k = b.k",
        "metric blocks",
    ),
    (
        "y",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 3 BY DISTANCE l1_distance(a.y, b.y) THEN BY b.id",
        "metric blocks",
    ),
    ("v", "", "SELECT id FROM r ORDER BY l2_distance(v, [0.5, 0.5]) NULLS LAST, id LIMIT 5", ""),
];

const COUNTS: &[Kind] = &[
    (
        "s",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 3 BY SIMILARITY match_count(a.s = b.s, a.f = b.f, b.g BETWEEN a.g - 2 AND a.g + 2) THEN BY b.id",
        "columns of conditions",
    ),
    (
        "s",
        "",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 3 BY SIMILARITY match_count(a.s = b.s, 2.5, b.g BETWEEN a.g - 2 AND a.g + 2, 1.0) THEN BY b.id ON a.k = b.k",
        "columns of conditions",
    ),
];

/// Kinds of which a query asks for a share of the rows. It may find others where another side is indexed.
const SHARES: &[Kind] = &[
    (
        "word_tokens(s)",
        "access_path=hash bands",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.6 WITH RECALL 0.9",
        "minhash bands",
    ),
    (
        "word_tokens(s)",
        "access_path=hash bands",
        "SELECT a.id, b.id FROM r a SIMILARITY JOIN r b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.6 AND a.id < b.id WITH RECALL 0.9",
        "minhash bands",
    ),
    (
        "y",
        "access_path=hash bands",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON cosine_similarity(a.y, b.y) >= 0.4 WITH RECALL 0.9",
        "projection bands",
    ),
    (
        "y",
        "access_path=hash bands",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON l2_distance(a.y, b.y) <= 8 WITH RECALL 0.9",
        "projection bands",
    ),
    (
        "y",
        "",
        "SELECT a.id, b.id FROM r a JOIN r b APPROXIMATE NEAREST 3 BY DISTANCE l2_distance(a.y, b.y) THEN BY b.id WITH RECALL 0.6",
        "clustered blocks",
    ),
];

/// Every session finds the same rows for each of `kinds`, and the later ones read the file of the first one.
async fn come_back(name: &str, kinds: &[Kind], are_all_found: bool) {
    let folder = folder(name);
    write_tables(&folder, [60, if are_all_found { 300 } else { 4500 }]).await;
    for (number, (expression, overrides, query, path)) in kinds.iter().enumerate() {
        let location = folder.join(number.to_string());
        let sessions = [over(&folder).await, over(&folder).await, over(&folder).await, over(&folder).await];
        for context in &sessions {
            rows(context, &format!("SET similarity.overrides = '{overrides}'")).await;
        }
        let [plain, first, later, explained] = &sessions;
        for context in [first, later, explained] {
            rows(context, &create(expression, &location)).await;
        }
        let built = rows(first, query).await;
        assert!(!built.is_empty(), "{query}");
        let written = files(&location);
        assert_eq!((written.len(), kept(first)[0].uses, kept(first)[0].file.is_some()), (1, 0, true), "{query}");
        let at = fs::metadata(&written[0]).unwrap().modified().unwrap();
        assert_eq!(rows(later, query).await, built, "{query}");
        assert_eq!((kept(later).len(), kept(later)[0].uses), (1, 1), "{query}");
        assert_eq!(rows(later, query).await, built, "{query}");
        assert_eq!((kept(later)[0].uses, files(&location)), (2, written.clone()), "{query}");
        assert_eq!(fs::metadata(&written[0]).unwrap().modified().unwrap(), at, "written once: {query}");
        let plan = rows(explained, &format!("EXPLAIN ANALYZE {query}")).await.join("\n");
        assert!(plan.contains(&format!("read from {}", written[0].display())), "{plan}");
        assert!(plan.contains("index_read_time") && !plan.contains("index_write_time"), "{plan}");
        assert!(plan.contains(path), "{path} of {query}: {plan}");
        if are_all_found {
            assert_eq!(rows(plain, query).await, built, "{query}");
            if !query.contains("NEAREST") {
                rows(plain, "SET similarity.enabled = false").await;
                assert_eq!(rows(plain, query).await, built, "{query}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_sets_come_back() {
    come_back("sets", SETS, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_strings_come_back() {
    come_back("strings", STRINGS, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_vectors_come_back() {
    come_back("vectors", VECTORS, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_counted_conditions_come_back() {
    come_back("counts", COUNTS, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_that_may_miss_pairs_come_back() {
    come_back("shares", SHARES, false).await;
}

const QUERY: &str = "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(a.s, b.s) <= 2";

/// The tables, the folder of the index, and its file, which has been written.
async fn written(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let folder = folder(name);
    write_tables(&folder, [20, 60]).await;
    let location = folder.join("index");
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    rows(&context, QUERY).await;
    let [file] = files(&location).try_into().unwrap();
    (folder, location, file)
}

/// What a new session says when it asks [`QUERY`].
async fn refusal(folder: &Path, location: &Path) -> String {
    let context = over(folder).await;
    rows(&context, &create("s", location)).await;
    let error = try_rows(&context, QUERY).await.expect_err("the file was used").to_string();
    assert!(kept(&context).is_empty());
    assert!(error.contains(&location.display().to_string()), "{error}");
    assert!(error.contains("DROP SIMILARITY INDEX"), "{error}");
    error
}

#[tokio::test]
async fn damaged_files_are_refused() {
    let (folder, location, file) = written("damaged").await;
    let whole = fs::read(&file).unwrap();
    let cuts = (0..40).chain((1..30).map(|part| whole.len() * part / 30)).chain([whole.len() - 1]);
    for cut in cuts {
        fs::write(&file, &whole[..cut]).unwrap();
        let error = refusal(&folder, &location).await;
        assert!(error.contains("cut short") || error.contains(&format!("has {cut} bytes instead of")), "{error}");
    }
    let at = (0..40).chain((1..40).map(|part| whole.len() * part / 40)).chain([whole.len() - 1]);
    for (number, at) in at.enumerate() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (number % 8);
        fs::write(&file, &flipped).unwrap();
        let error = refusal(&folder, &location).await;
        let expected = match at {
            0..8 => "is no index file",
            8..12 => "has the format",
            12..20 => "bytes instead of",
            _ => "is damaged",
        };
        assert!(error.contains(expected), "{at}: {error}");
    }
    fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
    assert!(refusal(&folder, &location).await.contains("bytes instead of"));
    fs::write(&file, b"").unwrap();
    assert!(refusal(&folder, &location).await.contains("is no index file"));
    fs::write(&file, &whole).unwrap();
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    rows(&context, QUERY).await;
    assert_eq!(kept(&context)[0].uses, 1, "the whole file is used again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_is_checked_in_every_stretch() {
    let folder = folder("large");
    let context = session(8192, 2);
    for (name, count) in [("l", 20), ("r", 60_000)] {
        let path = folder.join(format!("{name}.parquet"));
        let query = format!("SELECT value AS id, concat('row ', value * 7919, ' of many') AS s FROM range({count})");
        rows(&context, &format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display())).await;
    }
    let location = folder.join("index");
    let sessions = [over(&folder).await, over(&folder).await];
    for context in &sessions {
        rows(context, &create("s", &location)).await;
    }
    let query = &QUERY.replace("<= 2", "<= 1");
    assert_eq!(rows(&sessions[0], query).await, rows(&sessions[1], query).await);
    assert_eq!(kept(&sessions[1])[0].uses, 1);
    let [file] = files(&location).try_into().unwrap();
    let whole = fs::read(&file).unwrap();
    assert!(whole.len() > 9 << 20, "{} bytes are too few stretches", whole.len());
    for part in 0..8 {
        let mut flipped = whole.clone();
        flipped[28 + part * (whole.len() - 29) / 7] ^= 4;
        fs::write(&file, flipped).unwrap();
        let context = over(&folder).await;
        rows(&context, &create("s", &location)).await;
        let error = try_rows(&context, query).await.unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{part}: {error}");
    }
}

/// Replaces a text in the file by another one of the same length, and corrects the checksum.
fn rewrite(file: &Path, from: &str, to: &str) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    // a file of one stretch
    let sum = xxhash_rust::xxh3::xxh3_64(&xxhash_rust::xxh3::xxh3_64(&bytes[28..]).to_le_bytes());
    bytes[20..28].copy_from_slice(&sum.to_le_bytes());
    fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn files_of_others_are_refused() {
    let (folder, location, file) = written("others").await;
    let whole = fs::read(&file).unwrap();
    rewrite(&file, "Arrow", "Wagon");
    assert!(refusal(&folder, &location).await.contains("is of version"));
    fs::write(&file, &whole).unwrap();
    rewrite(&file, "datafusion.public.r", "datafusion.public.q");
    assert!(refusal(&folder, &location).await.contains("is about another table, expression or condition"));
    fs::write(&file, &whole).unwrap();
    // another condition, under the name of this one
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    rows(&context, &QUERY.replace("<= 2", "<= 1")).await;
    let [other] = files(&location).into_iter().filter(|path| *path != file).collect::<Vec<_>>().try_into().unwrap();
    fs::rename(&other, &file).unwrap();
    assert!(refusal(&folder, &location).await.contains("is about another table, expression or condition"));
}

#[tokio::test]
async fn a_changed_table_is_stale() {
    let (folder, location, file) = written("stale").await;
    let table = folder.join("r.parquet");
    let bytes = fs::read(&table).unwrap();
    // the same bytes at another time
    fs::remove_file(&table).unwrap();
    fs::write(&table, &bytes).unwrap();
    let error = refusal(&folder, &location).await;
    assert!(error.contains("is stale"), "{error}");
    assert!(file.exists());
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    // the ranking of such a query may fail, and rows are sorted then, but not for this
    let ranked = "SELECT id FROM r ORDER BY levenshtein(s, 'w1') NULLS LAST, id LIMIT 3";
    rows(&context, ranked).await;
    fs::remove_file(&table).unwrap();
    fs::write(&table, &bytes).unwrap();
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    assert!(try_rows(&context, ranked).await.unwrap_err().to_string().contains("is stale"));
    // OR REPLACE begins anew
    let context = over(&folder).await;
    rows(&context, &create("s", &location).replace("CREATE", "CREATE OR REPLACE")).await;
    assert!(!file.exists());
    let built = rows(&context, QUERY).await;
    assert_eq!((kept(&context)[0].uses, files(&location)), (0, vec![file]));
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    assert_eq!((rows(&context, QUERY).await, kept(&context)[0].uses), (built, 1));
}

#[tokio::test]
async fn drop_removes_the_files_of_the_index_alone() {
    let (folder, location, file) = written("drop").await;
    let context = over(&folder).await;
    rows(&context, &format!("CREATE SIMILARITY INDEX j ON r (word_tokens(s)) LOCATION '{}'", location.display())).await;
    rows(
        &context,
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5",
    )
    .await;
    fs::write(location.join("notes.txt"), "not ours").unwrap();
    let own = file.file_name().unwrap().to_str().unwrap();
    let unfinished = location.join(format!("{own}.1-0.unfinished"));
    fs::write(&unfinished, "left behind").unwrap();
    let near = location.join(format!("{own}.bak"));
    fs::write(&near, "not ours").unwrap();
    assert_eq!(files(&location).len(), 5);
    // a session that has not read the file removes it, even damaged
    fs::write(&file, "damaged").unwrap();
    rows(&context, &create("s", &location)).await;
    rows(&context, "DROP SIMILARITY INDEX i").await;
    assert!(!file.exists() && !unfinished.exists() && near.exists());
    assert_eq!(files(&location).len(), 3);
    rows(&context, "DROP SIMILARITY INDEX j").await;
    assert_eq!(files(&location).len(), 2);
    // a folder that is gone has no files
    rows(&context, &create("s", &folder.join("nowhere"))).await;
    rows(&context, "DROP SIMILARITY INDEX i").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_that_write_at_once_leave_one_whole_file() {
    let folder = folder("at_once");
    write_tables(&folder, [20, 300]).await;
    let location = folder.join("index");
    let mut sessions = Vec::new();
    for _ in 0..6 {
        let context = over(&folder).await;
        rows(&context, &create("s", &location)).await;
        sessions.push(context);
    }
    let asking = sessions.into_iter().map(|context| tokio::spawn(async move { rows(&context, QUERY).await }));
    let found: Vec<Vec<String>> = futures::future::join_all(asking).await.into_iter().map(Result::unwrap).collect();
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(files(&location).len(), 1);
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    assert_eq!((rows(&context, QUERY).await, kept(&context)[0].uses), (found[0].clone(), 1));
}

#[tokio::test]
async fn partitions_and_other_columns_do_not_make_a_file_stale() {
    let (folder, location, file) = written("partitions").await;
    let context = over(&folder).await;
    for setting in ["target_partitions = 5", "batch_size = 100"] {
        rows(&context, &format!("SET datafusion.execution.{setting}")).await;
    }
    rows(&context, "SET datafusion.optimizer.repartition_file_min_size = 1").await;
    rows(&context, &create("s", &location)).await;
    let found = rows(&context, QUERY).await;
    assert_eq!((kept(&context)[0].uses, files(&location)), (1, vec![file.clone()]));
    rows(&context, "SET similarity.engine = 'auto'").await;
    assert_eq!(rows(&context, QUERY).await, found);
    assert_eq!(files(&location).len(), 1, "the engine makes no difference to a file of the host");
    // other columns are other rows, with a file of their own
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    let with_k = QUERY.replace("b.id FROM", "b.id, b.k FROM");
    assert_eq!(rows(&context, &with_k).await.len(), found.len());
    assert_eq!((kept(&context)[0].uses, files(&location).len()), (0, 2));
    let filtered =
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN (SELECT * FROM r WHERE k > 0) b ON levenshtein(a.s, b.s) <= 2";
    let filtered_rows = rows(&context, filtered).await;
    assert_eq!(files(&location).len(), 3);
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    assert_eq!((rows(&context, filtered).await, kept(&context)[0].uses), (filtered_rows, 1));
}

#[tokio::test]
async fn functions_of_somebodys_own_have_no_file() {
    let (folder, location, file) = written("own_functions").await;
    let context = over(&folder).await;
    let clean = Arc::new(|columns: &[ColumnarValue]| Ok(columns[0].clone()));
    let clean = create_udf("clean", vec![DataType::Utf8View], DataType::Utf8View, Volatility::Immutable, clean);
    context.register_udf(clean);
    rows(&context, &create("s", &location)).await;
    rows(&context, &format!("CREATE SIMILARITY INDEX j ON r (clean(s)) LOCATION '{}'", location.display())).await;
    let own = [
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(a.s, clean(b.s)) <= 2",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 1 BY DISTANCE levenshtein(a.s, b.s) THEN BY clean(b.s)",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN (SELECT * FROM r WHERE clean(s) > 'w2') b ON levenshtein(a.s, b.s) <= 2",
        "SELECT a.id, c FROM l a SIMILARITY JOIN (SELECT s, clean(s) AS c FROM r) b ON levenshtein(a.s, b.s) <= 2",
    ];
    for (number, query) in own.into_iter().enumerate() {
        rows(&context, query).await;
        assert!(!kept(&context).is_empty() && kept(&context).iter().all(|kept| kept.file.is_none()), "{number}");
    }
    assert_eq!(files(&location), [file]);
    // of the other side, only its values are looked up
    rows(&context, "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(clean(a.s), b.s) <= 2").await;
    assert!(kept(&context).iter().any(|kept| kept.file.is_some() && kept.uses == 1));
}

#[tokio::test]
async fn what_is_read_is_part_of_the_pool() {
    let (folder, location, file) = written("pool").await;
    let context = over(&folder).await;
    rows(&context, &create("s", &location)).await;
    let reserved = || context.runtime_env().memory_pool.reserved();
    assert_eq!(reserved(), 0);
    rows(&context, QUERY).await;
    assert!(reserved() > 0 && reserved() == kept(&context)[0].bytes, "{}", reserved());
    rows(&context, "DROP SIMILARITY INDEX i").await;
    assert_eq!(reserved(), 0);
    assert!(!file.exists());
}

#[tokio::test]
async fn where_memory_is_short_the_index_is_not_read() {
    let (folder, location, _) = written("short").await;
    let expected = rows(&over(&folder).await, QUERY).await;
    let [mut read, mut others, mut refused] = [0; 3];
    for kilobytes in (5..400).step_by(10) {
        let pool = RuntimeEnvBuilder::new().with_memory_limit(kilobytes << 10, 1.0).build_arc().unwrap();
        let context = session_of(SessionStateBuilder::new().with_runtime_env(pool));
        let context = open_tables(context, &folder).await;
        rows(&context, &create("s", &location)).await;
        match try_rows(&context, QUERY).await {
            Ok(found) => {
                assert_eq!(found, expected, "{kilobytes}");
                match kept(&context).first() {
                    Some(kept) if kept.uses == 1 => read += 1,
                    _ => others += 1,
                }
            }
            Err(error) => {
                assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{kilobytes}: {error}");
                refused += 1;
            }
        }
    }
    assert!(read > 0 && others > 0, "{read} have read, {others} have not, {refused} were refused");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_an_error() {
    let folder = folder("unwritable");
    write_tables(&folder, [20, 60]).await;
    fs::write(folder.join("file"), "").unwrap();
    let context = over(&folder).await;
    // found by the query, since CREATE writes nothing
    rows(&context, &create("s", &folder.join("file").join("below"))).await;
    let error = try_rows(&context, QUERY).await.unwrap_err().to_string();
    assert!(error.contains("cannot be written") && error.contains("without LOCATION"), "{error}");
}

#[tokio::test]
async fn how_a_table_reads_its_file_is_part_of_its_rows() {
    let folder = folder("csv");
    fs::write(folder.join("r.csv"), "1,aaa;river\n2,river;b\n").unwrap();
    let location = folder.join("index");
    let query = "SELECT * FROM r ORDER BY levenshtein(s, 'river') NULLS LAST LIMIT 1";
    for (delimiter, expected) in [(",", "2"), (";", "1,aaa")] {
        for uses in [0, 1] {
            let context = session(8192, 2);
            rows(&context, "SET similarity.engine = 'cpu'").await;
            let path = folder.join("r.csv");
            let options = format!("OPTIONS ('has_header' 'false', 'delimiter' '{delimiter}')");
            let table = format!(
                "CREATE EXTERNAL TABLE r (id VARCHAR, s VARCHAR) STORED AS CSV LOCATION '{}' {options}",
                path.display()
            );
            rows(&context, &table).await;
            rows(&context, &create("s", &location)).await;
            let found = rows(&context, query).await;
            assert!(found[0].starts_with(expected), "{found:?}");
            assert_eq!(kept(&context)[0].uses, uses, "{delimiter}");
        }
    }
    assert_eq!(files(&location).len(), 2);
}
