//! Joins at their worst: clauses that nothing selects, very many of them, equalities that say little, one value in a
//! tenth of the rows, rankings of rows that are all alike.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;

use crate::session;

/// id, name (of 40, with typos), sex (two values and NULL), town (one of 30, a tenth of the rows in one of them).
async fn with_people(rows: usize) -> SessionContext {
    let context = session(1024, 2);
    let create = format!(
        "CREATE TABLE p AS SELECT value AS id,
            concat(substr('johannes maria katharina elisabeth friedrich', 1 + value % 36, 4 + value % 5),
                   CASE WHEN value % 7 = 0 THEN 'x' ELSE '' END) AS name,
            CASE value % 11 WHEN 0 THEN NULL WHEN 1 THEN 'f' WHEN 2 THEN 'f' WHEN 3 THEN 'f' ELSE 'm' END AS sex,
            CASE WHEN value % 10 = 0 THEN 'Berlin' ELSE concat('town ', value % 29) END AS town
         FROM generate_series(1, {rows})"
    );
    context.similarity_sql(&create).await.unwrap();
    context
}

/// A sum over all pairs that tells one set of them from another.
fn query(join: &str, condition: &str) -> String {
    format!("SELECT count(*), coalesce(sum(a.id * 7919 + b.id), 0) FROM p a {join} p b ON {condition}")
}

async fn result(context: &SessionContext, query: &str) -> String {
    let batches = context.similarity_sql(query).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

/// Checks the rows against stock DataFusion and returns the plan that ran.
async fn same_as_stock(context: &SessionContext, condition: &str) -> String {
    let query = query("JOIN", condition);
    context.sql("SET similarity.enabled = false").await.unwrap();
    let expected = result(context, &query).await;
    context.sql("SET similarity.enabled = true").await.unwrap();
    let plan = context.similarity_sql(&query).await.unwrap().create_physical_plan().await.unwrap();
    let batches = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    assert_eq!(pretty_format_batches(&batches).unwrap().to_string(), expected, "{condition}");
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clause_of_constants_only() {
    let context = with_people(500).await;
    let condition =
        "(a.sex = 'f' AND b.sex = 'm' AND b.id > 400) OR (a.town = b.town AND levenshtein(a.name, b.name) <= 1)";
    let plan = same_as_stock(&context, condition).await;
    assert!(plan.contains("all pairs"), "{plan}");
    let planned =
        async { context.similarity_sql(&query("SIMILARITY JOIN", condition)).await?.create_physical_plan().await };
    let error = planned.await.unwrap_err().to_string();
    assert!(error.contains("clause 1, a.sex = f AND b.sex = m AND b.id > 400: it has no equality"), "{error}");
}

/// Constants leave few rows of each side, and only these are paired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_restrict_the_rows_of_a_clause() {
    let context = with_people(60_000).await;
    context.sql("SET similarity.max_candidates = 100000").await.unwrap();
    let condition = "(a.id < 40 AND b.id BETWEEN 100 AND 140 AND levenshtein(a.name, b.name) <= 1 AND a.id = b.id + 1)
                     OR (a.id IN (1, 2, 3) AND b.id BETWEEN 10 AND 20) OR a.id = b.id";
    let count = result(&context, &query("JOIN", condition)).await;
    assert!(count.contains("60033"), "{count}");
}

/// The tree depends on the rows and not on the order in which partitions deliver them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rows_give_the_same_tree() {
    let mut trees = Vec::new();
    for order in ["id", "id % 1013, id", "name, id DESC"] {
        let context = with_people(30_000).await;
        context.sql(&format!("CREATE TABLE q AS SELECT * FROM p ORDER BY {order}")).await.unwrap();
        let query = "EXPLAIN ANALYZE SELECT count(*) FROM q a SIMILARITY JOIN q b ON a.id < b.id AND
                     (a.town = b.town AND (levenshtein(a.name, b.name) <= 1 AND jaccard(a.name, b.name, 2) >= 0.5
                      OR jaro_winkler_similarity(a.name, b.name) >= 0.9 AND a.sex = b.sex AND abs(a.id - b.id) < 50)
                      OR levenshtein(a.name, b.name) = 0 AND a.id = b.id)";
        let plan = result(&context, query).await;
        let (_, tree) = plan.split_once("tree=").unwrap();
        let tree = tree.split_once(", filter=").unwrap().0;
        // how an index divides its rows depends on a sample and on the machine
        let (entry, index) = tree.split_once(" (").unwrap();
        let (_, steps) = index.split_once(") {").unwrap();
        trees.push(format!("{entry} {{{steps}"));
    }
    assert_eq!(trees[0], trees[1]);
    assert_eq!(trees[0], trees[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clauses_of_similarity_only() {
    let context = with_people(500).await;
    let condition = "levenshtein(a.name, b.name) <= 1 OR jaro_winkler_similarity(a.name, b.name) >= 0.95
                     OR (jaccard(a.name, b.name, 2) >= 0.6 AND a.id < b.id)";
    let plan = same_as_stock(&context, condition).await;
    assert!(plan.contains("clauses=3"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clauses() {
    let context = with_people(400).await;
    let clause = |n: usize| {
        let equality = ["a.town = b.town", "a.sex = b.sex", "a.id % 40 = b.id % 40", "abs(a.id - b.id) <= 9"][n % 4];
        let similar = match n % 3 {
            0 => format!("levenshtein(a.name, b.name) <= {}", n % 5),
            1 => format!("jaro_winkler_similarity(a.name, b.name) >= 0.{}", 70 + n % 29),
            _ => format!("jaccard(a.name, b.name, 2) >= 0.{}", 40 + n),
        };
        format!("({equality} AND {similar} AND a.id % {} = {})", 2 + n % 7, n % 2)
    };
    let clauses: Vec<String> = (0..50).map(clause).collect();
    let plan = same_as_stock(&context, &clauses.join(" OR ")).await;
    assert!(plan.contains("clauses=50"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_equality_of_two_values() {
    let context = with_people(700).await;
    let condition = "a.id < b.id AND (a.sex = b.sex AND levenshtein(a.name, b.name) <= 1
                     OR a.sex = b.sex AND a.town = b.town)";
    same_as_stock(&context, condition).await;
}

/// Two thousand of twenty thousand rows in one town are two million pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_value_in_a_tenth_of_the_rows() {
    let context = with_people(20_000).await;
    let condition =
        "a.id < b.id AND (a.town = b.town AND levenshtein(a.name, b.name) <= 1 OR a.town = b.town AND a.id = b.id)";
    let plan = same_as_stock(&context, condition).await;
    assert!(plan.contains("self-join"), "{plan}");
}

/// Thousands of rows have the same key: each of them is as near as any other, and the least id decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rankings_of_few_different_keys() {
    let context = session(1024, 2);
    let create = "CREATE TABLE p AS SELECT value AS id, value % 7 AS c, value % 2 AS half,
                      [CAST(value % 7 AS DOUBLE) / 7, 0.5] AS v,
                      array_resize([1.0, CAST(value % 7 AS DOUBLE)], 40, 0.5) AS wide,
                      concat('some name ', value % 7, ' of those') AS s
                  FROM generate_series(1, 30000)";
    context.similarity_sql(create).await.unwrap();
    let scores = [
        "DISTANCE l2_distance(a.v, b.v)",
        "DISTANCE l1_distance(a.wide, b.wide)",
        "SIMILARITY cosine_similarity(a.wide, b.wide)",
        "SIMILARITY jaccard(word_tokens(a.s), word_tokens(b.s))",
        "DISTANCE levenshtein(a.s, b.s)",
        "SIMILARITY jaro_winkler_similarity(a.s, b.s)",
        // by no index
        "DISTANCE abs(a.c - b.c)",
    ];
    // all but the rows of the probe side that are scored with each key
    context.sql("SET similarity.max_candidates = 120000").await.unwrap();
    for score in scores {
        for (group, condition) in [("", ""), (", half", "ON a.half = b.half")] {
            for (order, then_by) in [("id", ""), ("id DESC", "THEN BY b.id DESC"), ("id", "THEN BY b.c, b.id")] {
                let sum = "SELECT count(*), sum(a.id % 100 * b.id) FROM p a JOIN";
                let nearest = format!("{sum} p b NEAREST 2 BY {score} {then_by} {condition} WHERE a.id <= 3000");
                let place = format!("row_number() OVER (PARTITION BY c{group} ORDER BY {order}) AS place");
                let on = format!("a.c = b.c {}", condition.replace("ON", "AND"));
                let expected = format!("{sum} (SELECT *, {place} FROM p) b ON {on} AND place <= 2 WHERE a.id <= 3000");
                assert_eq!(result(&context, &nearest).await, result(&context, &expected).await, "{nearest}");
            }
        }
    }
    let ties = "SELECT count(*), sum(b.id) FROM p a JOIN p b NEAREST 2 BY DISTANCE l2_distance(a.v, b.v) THEN BY b.half
                WITH TIES WHERE a.id <= 20";
    let expected = "SELECT count(*), sum(b.id) FROM p a JOIN p b ON a.c = b.c AND b.half = 0 WHERE a.id <= 20";
    assert_eq!(result(&context, ties).await, result(&context, expected).await);
}

/// Each row has thousands of partners, of which the first one is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_joins_of_rows_with_very_many_partners() {
    let conditions = [
        "a.id BETWEEN b.id - 2000 AND b.id + 2000",
        "abs(a.id - b.id) <= 3000 AND a.k = b.k",
        "(a.k = b.k AND abs(a.id - b.id) <= 2000 OR abs(a.id - b.id) <= 3)",
        "abs(a.id - b.id) <= 3000 AND a.id <> b.id",
        "levenshtein(a.s, b.s) <= 1",
        "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5",
        "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5 AND a.id <> b.id",
        "l2_distance(a.v, b.v) <= 3000",
        "l2_distance(a.v, b.v) <= 3000 AND a.id <> b.id",
    ];
    let context = session(1024, 2);
    let rows = "SELECT value AS id, value % 10 AS k, concat('some name ', value % 3) AS s,
                    [CAST(value AS DOUBLE), 0.5] AS v FROM generate_series";
    context.similarity_sql(&format!("CREATE TABLE p AS {rows}(1, 6000)")).await.unwrap();
    // the smaller side is indexed
    context.similarity_sql(&format!("CREATE TABLE q AS {rows}(1, 5990)")).await.unwrap();
    // a device compares whole blocks of rows, so that it counts more candidates
    context.sql("SET similarity.engine = 'cpu'").await.unwrap();
    context.sql("SET similarity.max_candidates = 1000000").await.unwrap();
    for condition in conditions {
        for (a, b) in [("p", "q"), ("q", "p"), ("p", "p")] {
            let count = |join: &str| format!("SELECT count(*) FROM {a} a {join} JOIN {b} b ON {condition}");
            let exists = format!("SELECT count(*) FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE {condition})");
            let all = |table: &str| if table == "p" { "6000" } else { "5990" };
            for (query, rows) in [(count("LEFT SEMI"), all(a)), (count("RIGHT ANTI"), " 0 "), (exists, all(a))] {
                let found = result(&context, &query).await;
                assert!(found.contains(rows), "{query}: {found}");
            }
        }
    }
}

/// A condition that an index leaves half of all pairs to, none of which satisfies it, is no more work than the pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_joins_of_many_candidates_and_no_partner() {
    let context = session(8192, 2);
    for (table, rows) in [("p", 8000), ("q", 7990)] {
        let create =
            format!("CREATE TABLE {table} AS SELECT value AS id, value % 10 AS k FROM generate_series(1, {rows})");
        context.similarity_sql(&create).await.unwrap();
    }
    for (a, b) in [("p", "q"), ("q", "p"), ("p", "p")] {
        let query = format!(
            "EXPLAIN ANALYZE SELECT count(*) FROM {a} a LEFT SEMI JOIN {b} b ON
                 abs(a.id - b.id) <= 6000 AND a.k * b.k < 0 AND a.id <> b.id"
        );
        let plan = result(&context, &query).await;
        assert!(plan.contains("nested_loops=") && !plan.contains("nested_loops=0"), "{plan}");
    }
}
