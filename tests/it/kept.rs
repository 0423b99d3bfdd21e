//! Similarity indexes: the same rows with one and without, whatever asks first, and after the table has changed.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use datafusion_similarity::optimizer::IndexCatalog;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::rows::rows_of;
use crate::{cases, session};

const JOINS: [&str; 6] = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"];

async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = context.similarity_sql(sql).await.unwrap().collect().await.unwrap();
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    rows
}

/// Values of random rows from a number on.
fn values(rng: &mut StdRng, from: usize, rows: usize) -> String {
    let row = |row: usize| {
        let words = ["a", "b", "c", "d", "e f", "g"];
        let text: Vec<_> = (0..rng.random_range(0..5)).map(|_| *words.choose(rng).unwrap()).collect();
        let text =
            if rng.random_bool(0.1) { "CAST(NULL AS VARCHAR)".to_owned() } else { format!("'{}'", text.join(" ")) };
        let [x, y, k] = [0; 3].map(|_| rng.random_range(0..4));
        format!("({row}, {text}, {k}, [{x}.0, {y}.5])")
    };
    (from..from + rows).map(row).collect::<Vec<_>>().join(", ")
}

fn query(rng: &mut StdRng) -> String {
    let on = if rng.random_bool(0.3) { "a.k = b.k" } else { "true" };
    let filter = if rng.random_bool(0.2) { "(SELECT * FROM r WHERE k < 3)" } else { "r" };
    let left = *["l", "(SELECT id, k, s AS s, v FROM l)", "r"].choose(rng).unwrap();
    if rng.random_bool(0.5) {
        let join = *JOINS.choose(rng).unwrap();
        let join = join.replace("JOIN", "SIMILARITY JOIN");
        let columns = if join.contains("SEMI") || join.contains("ANTI") { "a.id, a.k" } else { "a.id, b.id, b.s" };
        let condition = *[
            "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5",
            "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.8",
            "levenshtein(a.s, b.s) <= 2",
            "l2_distance(a.v, b.v) <= 1",
            "(a.s = b.s AND a.k < 2 OR levenshtein(a.s, b.s) <= 1 AND b.k BETWEEN a.k - 1 AND a.k + 1)",
            "(jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5 AND b.k > 1 OR a.s = b.s AND a.id + b.id > 40)",
            "(a.s = b.s AND (a.k < 1 OR b.k < 2) OR a.v = b.v AND abs(a.k - b.k) <= 1 AND levenshtein(a.s, b.s) <= 2)",
        ]
        .choose(rng)
        .unwrap();
        return format!("SELECT {columns} FROM {left} a {join} {filter} b ON {condition} AND {on}");
    }
    let score = *[
        "SIMILARITY jaccard(word_tokens(a.s), word_tokens(b.s))",
        "DISTANCE levenshtein(a.s, b.s)",
        "DISTANCE l2_distance(a.v, b.v)",
        "SIMILARITY match_count(a.s = b.s, b.k BETWEEN a.k - 1 AND a.k + 1)",
    ]
    .choose(rng)
    .unwrap();
    let k = rng.random_range(1..4);
    format!("SELECT a.id, b.id, b.k FROM {left} a LEFT JOIN {filter} b NEAREST {k} BY {score} THEN BY b.id ON {on}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rows_with_an_index_and_without() {
    let mut used = 0;
    for seed in 0..cases(18) as u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (plain, indexed) = (session(8192, 2), session(*[7, 8192].choose(&mut rng).unwrap(), 2));
        for name in ["l", "r"] {
            let rows = *[1, 20, 120].choose(&mut rng).unwrap();
            let values = values(&mut rng, 0, rows);
            let create = format!("CREATE TABLE {name} (id BIGINT, s VARCHAR, k BIGINT, v DOUBLE[]) AS VALUES {values}");
            for context in [&plain, &indexed] {
                rows_of_nothing(context, &create).await;
            }
        }
        for (name, expression) in [("of_words", "word_tokens(s)"), ("of_texts", "s"), ("of_vectors", "v")] {
            rows_of_nothing(&indexed, &format!("CREATE SIMILARITY INDEX {name} ON r ({expression})")).await;
        }
        let queries: Vec<String> = (0..6).map(|_| query(&mut rng)).collect();
        for round in 0..3 {
            for query in queries.iter().chain(&queries) {
                assert_eq!(rows(&indexed, query).await, rows(&plain, query).await, "seed {seed}, {round}: {query}");
            }
            let more = format!("INSERT INTO r VALUES {}", values(&mut rng, 1000 * (round + 1), 3));
            for context in [&plain, &indexed] {
                rows_of_nothing(context, &more).await;
            }
        }
        let indexes = IndexCatalog::of(&indexed.copied_config()).unwrap().all();
        used += indexes.iter().flat_map(|index| index.kept()).map(|kept| kept.uses).sum::<usize>();
    }
    assert!(used > 2 * cases(18), "{used} queries have used a kept index");
}

/// Runs a statement whose result nobody reads.
async fn rows_of_nothing(context: &SessionContext, sql: &str) {
    context.similarity_sql(sql).await.unwrap().collect().await.unwrap();
}

#[tokio::test]
async fn a_file_that_has_changed_is_indexed_again() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("r.csv");
    std::fs::write(&file, "id,s\n1,red river\n2,sky\n").unwrap();
    let context = session(8192, 2);
    let table =
        format!("CREATE EXTERNAL TABLE r STORED AS CSV LOCATION '{}' OPTIONS ('has_header' 'true')", file.display());
    rows_of_nothing(&context, &table).await;
    rows_of_nothing(&context, "CREATE TABLE l (s VARCHAR) AS VALUES ('blue sky')").await;
    rows_of_nothing(&context, "CREATE SIMILARITY INDEX i ON r (s)").await;
    let score = "jaccard(word_tokens(a.s), word_tokens(b.s))";
    let query = &format!("SELECT b.id FROM l a JOIN r b NEAREST 1 BY SIMILARITY {score} THEN BY b.id");
    let uses = || {
        IndexCatalog::of(&context.copied_config()).unwrap().all()[0].kept().iter().map(|kept| kept.uses).sum::<usize>()
    };
    assert_eq!(
        (rows(&context, query).await, rows(&context, query).await, uses()),
        (vec!["2".into()], vec!["2".into()], 1)
    );
    std::fs::write(&file, "id,s\n1,red river\n2,sky\n3,blue sky\n").unwrap();
    // a session lists the files of a table once; another table of the same name lists them anew
    rows_of_nothing(&context, "DROP TABLE r").await;
    rows_of_nothing(&context, &table).await;
    assert_eq!((rows(&context, query).await, uses()), (vec!["3".into()], 0));
}

#[tokio::test]
async fn a_join_by_rules_is_kept_for_the_same_clauses() {
    let (context, plain) = (session(8192, 2), session(8192, 2));
    for name in ["l", "m", "r"] {
        let values = values(&mut StdRng::seed_from_u64(7), 0, 60);
        for context in [&context, &plain] {
            rows_of_nothing(
                context,
                &format!("CREATE TABLE {name} (id BIGINT, s VARCHAR, k BIGINT, v DOUBLE[]) AS VALUES {values}"),
            )
            .await;
        }
    }
    rows_of_nothing(&context, "CREATE SIMILARITY INDEX i ON r (s)").await;
    let kept = || {
        let kept = IndexCatalog::of(&context.copied_config()).unwrap().all()[0].kept();
        kept.iter().map(|kept| (kept.label.clone(), kept.uses)).collect::<Vec<_>>()
    };
    let join = |left: &str, join: &str, conditions: [&str; 2]| {
        let [first, second] = conditions;
        format!(
            "SELECT a.id, b.id FROM {left} a {join} r b ON a.s = b.s AND {first} OR levenshtein(a.s, b.s) <= 1 AND {second}"
        )
    };
    let same = ["b.k < 2", "b.k BETWEEN a.k - 1 AND a.k + 1"];
    for (query, uses) in [
        (join("l", "JOIN", same), vec![0]),
        // another left table, another condition over it, and another join type
        (join("m", "JOIN", same), vec![1]),
        (join("(SELECT v, s, id, k FROM l WHERE id > 3)", "LEFT JOIN", same), vec![2]),
        (join("l", "JOIN", ["b.k < 3", same[1]]), vec![2, 0]),
        // the ends of a range are looked up, and what a pair alone decides is part of no index
        (join("l", "JOIN", [same[0], "b.k BETWEEN a.k - 1 AND a.k + 2"]), vec![3, 0]),
        (join("l", "JOIN", [same[0], "a.id * b.id > 9"]), vec![3, 0, 0]),
        (join("l", "JOIN", [same[0], "a.id * b.id > 99"]), vec![3, 0, 1]),
    ] {
        assert_eq!(rows(&context, &query).await, rows(&plain, &query).await, "{query}");
        let expected: Vec<_> = uses.into_iter().map(|uses| ("2 clauses".to_owned(), uses)).collect();
        assert_eq!(kept(), expected, "{query}");
    }
}

/// Function `clean(text)` that gives what `of` does.
fn clean(of: fn(&str) -> String) -> ScalarUDF {
    let clean = Arc::new(move |columns: &[ColumnarValue]| {
        let texts = ColumnarValue::values_to_arrays(columns)?[0].clone();
        let texts = texts.as_string_view().iter().map(|text| text.map(of)).collect::<StringViewArray>();
        Ok(ColumnarValue::Array(Arc::new(texts)))
    });
    create_udf("clean", vec![DataType::Utf8View], DataType::Utf8View, Volatility::Immutable, clean)
}

#[tokio::test]
async fn another_function_of_the_same_name_is_another_condition() {
    let tables = ["l", "r"].map(|name| {
        let values = values(&mut StdRng::seed_from_u64(9), 0, 60);
        format!("CREATE TABLE {name} (id BIGINT, s VARCHAR, k BIGINT, v DOUBLE[]) AS VALUES {values}")
    });
    let (context, plain) = (session(8192, 2), session(8192, 2));
    for context in [&context, &plain] {
        for table in &tables {
            rows_of_nothing(context, table).await;
        }
    }
    let queries = [
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN r b ON levenshtein(a.s, clean(b.s)) <= 1",
        "SELECT a.id, b.id FROM l a JOIN r b ON a.s = clean(b.s) AND b.k < 3 OR levenshtein(a.s, clean(b.s)) <= 1 AND a.k = b.k",
        "SELECT a.id, b.id FROM l a JOIN r b NEAREST 1 BY SIMILARITY match_count(a.k = b.k, a.s = clean(b.s)) THEN BY b.id",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN (SELECT * FROM r WHERE clean(s) > 'b') b ON levenshtein(a.s, b.s) <= 1",
        "SELECT a.id, b.id FROM l a SIMILARITY JOIN (SELECT id, clean(s) AS s FROM r) b ON levenshtein(a.s, b.s) <= 1",
    ];
    let whole: [fn(&str) -> String; 2] = [|text| text.to_owned(), |text| text.replace('a', "c")];
    let mut found = Vec::new();
    for of in whole {
        for context in [&context, &plain] {
            context.register_udf(clean(of));
        }
        for index in
            ["CREATE OR REPLACE SIMILARITY INDEX i ON r (s)", "CREATE OR REPLACE SIMILARITY INDEX j ON r (clean(s))"]
        {
            if found.is_empty() {
                rows_of_nothing(&context, index).await;
            }
        }
        for query in queries {
            for _ in 0..2 {
                assert_eq!(rows(&context, query).await, rows(&plain, query).await, "{query}");
            }
        }
        found.push(rows(&plain, queries[0]).await);
    }
    assert_ne!(found[0], found[1]);
    let indexes = IndexCatalog::of(&context.copied_config()).unwrap().all();
    assert!(indexes.iter().flat_map(|index| index.kept()).map(|kept| kept.uses).sum::<usize>() >= 3);
}

#[tokio::test]
async fn what_is_kept_is_part_of_the_pool() {
    let context = session(8192, 1);
    rows_of_nothing(&context, "CREATE TABLE r AS SELECT value AS id, CAST(value AS VARCHAR) AS s FROM range(2000)")
        .await;
    rows_of_nothing(&context, "CREATE SIMILARITY INDEX i ON r (s)").await;
    let join = "SELECT count(*) FROM r a SIMILARITY JOIN r b ON levenshtein(a.s, b.s) <= 1 AND a.id < b.id";
    let [before, again] = [rows(&context, join).await, rows(&context, join).await];
    assert_eq!(before, again);
    let reserved = || context.runtime_env().memory_pool.reserved();
    assert!(reserved() > 0, "what is kept is part of the pool");
    rows_of_nothing(&context, "DROP SIMILARITY INDEX i").await;
    assert_eq!(reserved(), 0, "what was kept is given back");
}

/// The first rows by a measure against a constant. An id decides between equal scores.
fn top_k(rng: &mut StdRng) -> String {
    let score = *[
        "jaccard(word_tokens(s), word_tokens('a c g')) DESC",
        "overlap_count(word_tokens('e d'), word_tokens(s)) DESC",
        "jaccard(s, 'e f a', 2) DESC",
        "levenshtein(s, 'a e f')",
        "hamming(s, 'a c')",
        "jaro_winkler_similarity('b c d', s) DESC",
        "l2_distance(v, [1.0, 0.5])",
        "l1_distance([2.0, 2.0], v)",
        "cosine_similarity(v, [1.0, 1.5]) DESC",
        "l2_distance(v, [1.0, NULL])",
    ]
    .choose(rng)
    .unwrap();
    let nulls = *["", " NULLS FIRST", " NULLS LAST"].choose(rng).unwrap();
    let filter = *[
        "",
        "",
        "WHERE k < 3",
        "WHERE k = 2 AND id > 4",
        "WHERE 6 / k > 2",
        "WHERE s = 'b c'",
        "WHERE s = 'g' AND id = 3",
    ]
    .choose(rng)
    .unwrap();
    let (rows, skipped) = (rng.random_range(1..6), *["", "", " OFFSET 2"].choose(rng).unwrap());
    match rng.random_range(0..3) {
        0 => {
            let (score, order) = score.strip_suffix(" DESC").map_or((score, ""), |score| (score, " DESC"));
            let from = format!("(SELECT id AS i, {score} AS score FROM r {filter}) t");
            format!("SELECT i, score FROM {from} ORDER BY score{order}{nulls}, i LIMIT {rows}{skipped}")
        }
        1 => format!("SELECT id, k + 1 FROM r AS r2 {filter} ORDER BY {score}{nulls}, id DESC LIMIT {rows}{skipped}"),
        _ => format!("SELECT * FROM r {filter} ORDER BY {score}{nulls}, k, id LIMIT {rows}{skipped}"),
    }
}

async fn in_order(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let batches = context.similarity_sql(sql).await.unwrap().collect().await;
    Ok(batches.map_err(|error| error.find_root().to_string())?.iter().flat_map(rows_of).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_by_an_index_are_those_without() {
    let mut used = 0;
    for seed in 0..cases(30) as u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (plain, indexed) = (session(8192, 2), session(*[7, 8192].choose(&mut rng).unwrap(), 2));
        let rows = *[3, 40, 400].choose(&mut rng).unwrap();
        let mut values = values(&mut rng, 0, rows);
        if rng.random_bool(0.5) {
            values =
                values.replace("CAST(NULL AS VARCHAR)", "'x'").replace("[0.0, ", "[0.5, ").replace(", 0, [", ", 3, [");
        } else if rng.random_bool(0.5) {
            values += ", (1000, 'a', 1, NULL), (1001, '', 2, [NULL, 1.0]), (1002, 'g', 2, [0.0, 0.0])";
        } else {
            values += ", (1000, 'a', 1, [1e200, 1e200]), (1001, 'd', 2, [-1e200, 3e200]), (1002, 'g', 2, [1e-200, 0])";
        }
        // of single precision, an index settles what comes first where rows without a score do
        let single = rng.random_bool(0.5) && !values.contains("e200");
        let v = if single { "arrow_cast(v, 'List(Float32)')" } else { "v" };
        let create = format!("CREATE TABLE r0 (id BIGINT, s VARCHAR, k BIGINT, v DOUBLE[]) AS VALUES {values}");
        for context in [&plain, &indexed] {
            rows_of_nothing(context, &create).await;
            rows_of_nothing(context, &format!("CREATE TABLE r AS SELECT id, s, k, {v} AS v FROM r0")).await;
        }
        for (name, expression) in [("of_words", "word_tokens(s)"), ("of_texts", "s"), ("of_vectors", "v")] {
            rows_of_nothing(&indexed, &format!("CREATE SIMILARITY INDEX {name} ON r ({expression})")).await;
        }
        for _ in 0..12 {
            let query = top_k(&mut rng);
            let (found, expected) = (in_order(&indexed, &query).await, in_order(&plain, &query).await);
            assert_eq!(found, expected, "seed {seed}: {query}");
        }
        let indexes = IndexCatalog::of(&indexed.copied_config()).unwrap().all();
        used += indexes.iter().flat_map(|index| index.kept()).count();
    }
    assert!(used > cases(30), "{used} indexes have been built");
}

#[tokio::test]
async fn the_first_rows_are_the_indexs_where_it_settles_them() {
    let context = session(8192, 1);
    let points = "SELECT value AS id, [CAST(value % 17 + 1 AS DOUBLE), 1.0] AS v, CAST(value AS VARCHAR) AS s";
    rows_of_nothing(&context, &format!("CREATE TABLE double AS {points} FROM range(500)")).await;
    let single = "SELECT id, s, arrow_cast(v, 'List(Float32)') AS v FROM double";
    rows_of_nothing(&context, &format!("CREATE TABLE single AS {single}")).await;
    for name in ["double", "single"] {
        rows_of_nothing(&context, &format!("CREATE SIMILARITY INDEX {name}_v ON {name} (v)")).await;
        rows_of_nothing(&context, &format!("CREATE SIMILARITY INDEX {name}_s ON {name} (s)")).await;
    }
    let cosine = "cosine_similarity(v, [1.0, 2.0]) DESC";
    for (query, answered_without) in [
        (format!("single ORDER BY {cosine} LIMIT 3"), Some(0)),
        (format!("double ORDER BY {cosine} NULLS LAST LIMIT 3"), Some(0)),
        // a sum of squares may overflow, so that there is no second way
        (format!("double ORDER BY {cosine} LIMIT 3"), None),
        ("double ORDER BY levenshtein(s, '77') LIMIT 3".into(), Some(0)),
        ("double WHERE id % 2 = 0 ORDER BY levenshtein(s, '77') LIMIT 3".into(), Some(0)),
        ("double WHERE id = 499 ORDER BY levenshtein(s, '77') LIMIT 3".into(), Some(1)),
        ("double ORDER BY levenshtein(s, '77') LIMIT 501".into(), Some(1)),
    ] {
        let plan = in_order(&context, &format!("EXPLAIN ANALYZE SELECT id FROM {query}")).await.unwrap().join("");
        let shown = answered_without.map(|times| format!("answered_without_index={times}"));
        match shown {
            Some(shown) => assert!(plan.contains(&shown), "{query}: {plan}"),
            None => assert!(!plan.contains("IndexedTopKExec"), "{query}: {plan}"),
        }
    }
}
