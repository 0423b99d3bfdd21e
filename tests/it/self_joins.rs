//! Self-joins by rules: which conditions hold for both orders of a pair, and rows against stock DataFusion.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::oracle::{Cases, RULES, check, random_atom};
use crate::session;

/// Rules of which many hold for both orders of a pair. Sub-queries read fewer columns than the rows that ask them, and
/// are no self-joins then.
pub(crate) const SELF_RULES: Cases =
    Cases { condition: random_self_rules, query: random_self_join, operator: "build=self-join", tenths: 4, ..RULES };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_joins_by_rules_have_the_same_rows_as_stock() {
    check(8600..8618, SELF_RULES).await;
    check(8700..8701, Cases { sizes: &[600], tenths: 2, ..SELF_RULES }).await;
}

/// Whether a self-join looks for a pair once by a rule with a clause.
#[tokio::test]
async fn a_condition_is_asked_once_where_it_holds_for_both_orders() {
    let context = session(8192, 2);
    let table = "CREATE TABLE p AS SELECT i AS id, 'name ' || i AS s, i % 5 AS k, CAST(i AS DOUBLE) AS x,
                 CAST(i AS INT UNSIGNED) AS u FROM generate_series(1, 100) AS g(i)";
    context.sql(table).await.unwrap();
    for (condition, once) in [
        ("(a.x + b.x) % 2 = 0", true),
        ("(a.x - b.x) % 2 = 0", false),
        ("a.x + b.x * 2 > 3", false),
        ("a.x * b.x < greatest(a.x, b.x)", false),
        ("a.x + b.x > 3 OR b.k * a.k <> 2", true),
        ("a.x + b.k > 3 OR a.k + b.x > 3", true),
        ("a.x < b.k OR a.k > b.x", true),
        ("a.x < b.k OR a.k < b.x", false),
        ("a.x < b.k + 1 AND b.x < a.k + 1", true),
        ("a.x < b.k + 1 AND b.x < a.k + 2", false),
        ("abs(a.x - b.x) * 2 < a.k + b.k", true),
        ("abs(a.u - b.u) * 2 < a.k + b.k", false),
        ("abs(a.k - b.k) % 3 = 1", true),
        ("levenshtein(a.s, b.s) < length(a.s) + length(b.s) - 9", true),
        ("levenshtein(a.s, b.s) < length(a.s)", false),
        ("CASE WHEN a.k > b.k THEN a.k - b.k ELSE b.k - a.k END > 1", false),
        ("CASE WHEN a.k = b.k THEN a.x + b.x END BETWEEN 3 AND 9", true),
        ("a.k = 3 AND b.k = 3", true),
        ("a.k = 3 AND b.k = 3 AND a.x > 1 AND b.x > 1", true),
        ("a.k = 3 AND b.k = 2", false),
        ("a.k = 3 OR b.k = 3", true),
        ("a.k = 3 OR b.k = 2", false),
        ("(a.k = 3 OR b.k = 2) AND (b.k = 3 OR a.k = 2)", true),
        ("(a.k = 3 OR b.k = 2) AND (b.k = 3 OR a.k = 1)", false),
        ("a.k = 3", false),
        ("a.s LIKE '%1%' AND b.s LIKE '%1%'", true),
        ("a.s LIKE '%1%' AND b.s LIKE '%2%'", false),
        ("a.s LIKE b.s", false),
        ("a.x + b.x > random()", false),
    ] {
        let rule = format!("(levenshtein(a.s, b.s) <= 1) OR (a.k = b.k AND ({condition}))");
        let query = format!("EXPLAIN SELECT a.id, b.id FROM p a JOIN p b ON ({rule}) AND a.id < b.id");
        let frame = context.sql(&query).await.unwrap();
        let plan = pretty_format_batches(&frame.collect().await.unwrap()).unwrap();
        assert_eq!(plan.to_string().contains("build=self-join"), once, "{condition}\n{plan}");
        if condition.contains("random") {
            continue;
        }
        let query = query.replace("EXPLAIN ", "") + " ORDER BY 1, 2";
        let mut rows = Vec::new();
        for enabled in [true, false] {
            context.sql(&format!("SET similarity.enabled = {enabled}")).await.unwrap().collect().await.unwrap();
            let found = context.sql(&query).await.unwrap().collect().await.unwrap();
            rows.push(pretty_format_batches(&found).unwrap().to_string());
        }
        assert!(rows[0] == rows[1], "{condition}");
        context.sql("SET similarity.enabled = true").await.unwrap().collect().await.unwrap();
    }
}

/// Clauses that share an equality and have others of their own: a hash join would look at all pairs that share it.
#[tokio::test]
async fn equalities_of_one_table_are_a_rule() {
    let context = session(8192, 2);
    for table in ["p", "other"] {
        let table = format!(
            "CREATE TABLE {table} AS SELECT i AS id, i % 3 AS k, nullif(i % 7, 2) AS x, nullif(i % 11, 4) AS y
             FROM generate_series(1, 200) AS g(i)"
        );
        context.sql(&table).await.unwrap();
    }
    let both = "a.k = b.k AND (a.x = b.x OR a.y = b.y)";
    for (tables, condition, is_rule) in [
        ("p a JOIN p b", both, true),
        ("p a JOIN (SELECT id, k, x, y FROM p WHERE id > 20) b", both, true),
        ("p a LEFT JOIN p b", both, true),
        ("p a JOIN p b", "(a.k = b.k AND a.x = b.x) OR (a.y = b.y AND a.k = b.k)", true),
        ("p a JOIN other b", both, false),
        ("p a JOIN p b", "a.k = b.k AND (a.x = b.x OR a.y = 3)", false),
        ("p a JOIN p b", "a.k = b.k AND a.x = b.x", false),
    ] {
        let query = format!("SELECT a.id, b.id FROM {tables} ON {condition} AND a.id < b.id ORDER BY 1, 2");
        let rows = async || {
            let rows = context.sql(&query).await.unwrap().collect().await.unwrap();
            pretty_format_batches(&rows).unwrap().to_string()
        };
        let plan = context.sql(&format!("EXPLAIN FORMAT INDENT {query}")).await.unwrap().collect().await.unwrap();
        let plan = pretty_format_batches(&plan).unwrap().to_string();
        assert_eq!(plan.contains("MatchingDependencyBlockExec"), is_rule, "{query}\n{plan}");
        let found = rows().await;
        context.sql("SET similarity.enabled = false").await.unwrap();
        assert_eq!(found, rows().await, "{query}");
        context.sql("SET similarity.enabled = true").await.unwrap();
    }
}

/// A condition that fails for some rows is asked after those that keep such rows away.
#[tokio::test]
async fn conditions_are_asked_in_their_order() {
    let context = session(8192, 2);
    let table = "CREATE TABLE g AS SELECT i AS id, CASE WHEN i % 3 = 0 THEN '' ELSE 'name ' || i END AS s, i % 5 AS k
                 FROM generate_series(1, 60) AS t(i)";
    context.sql(table).await.unwrap();
    for guarded in [
        "length(a.s) > 0 AND length(b.s) > 0 AND 100 / length(a.s) > 14 AND 100 / length(b.s) > 14",
        "length(a.s) > 0 AND length(b.s) > 0 AND 1000 / (length(a.s) * length(b.s)) > 20",
    ] {
        let rule = format!("(levenshtein(a.s, b.s) <= 0 AND a.k <> b.k OR a.k = b.k AND {guarded}) AND a.id < b.id");
        let query = format!("SELECT count(*) FROM g a JOIN g b ON {rule}");
        let explained = context.sql(&format!("EXPLAIN {query}")).await.unwrap().collect().await.unwrap();
        let plan = pretty_format_batches(&explained).unwrap().to_string();
        assert!(plan.contains("build=self-join"), "{plan}");
        let batches = context.sql(&query).await.unwrap().collect().await.unwrap();
        assert!(batches[0].column(0).as_primitive::<Int64Type>().value(0) > 0);
    }
}

/// The difference of unsigned numbers wraps around, so that one order of a pair may match and the other not.
#[tokio::test]
async fn duplicates_by_unsigned_numbers_are_looked_at_both_ways() {
    let context = session(8192, 2);
    let table = "CREATE TABLE u AS SELECT id, arrow_cast(y, 'UInt32') AS y
                 FROM (VALUES (1, 3), (2, 5), (3, 90), (4, 80), (5, 89)) AS v(id, y)";
    context.sql(table).await.unwrap();
    let query = "SELECT id, cluster_id FROM duplicates('u', 'id', 'abs(a.y - b.y) <= 2') ORDER BY id";
    let batches = context.sql(query).await.unwrap().collect().await.unwrap();
    let clusters = batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(clusters.collect::<Vec<_>>(), [1, 1, 3, 4, 3]);
}

/// An OR of ANDs, nearly all of which hold for both orders of a pair.
fn random_self_rules(rng: &mut StdRng) -> String {
    let clauses = (0..rng.random_range(2..6)).map(|_| {
        let keys = [
            "a.k = b.k",
            "(a.k IS NOT DISTINCT FROM b.k)",
            "a.s = b.s",
            "levenshtein(a.s, b.s) <= 2",
            "jaro_winkler_similarity(a.s, b.s) >= 0.9",
            "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5",
            "overlap_count(a.l, b.l) >= 2",
            "abs(a.id - b.id) <= 4",
        ];
        let mut clause: Vec<String> = vec![keys.choose(rng).unwrap().to_string()];
        for _ in 0..rng.random_range(0..4) {
            clause.push(random_symmetric(rng));
        }
        let shift = rng.random_range(0..clause.len());
        clause.rotate_left(shift);
        clause.join(" AND ")
    });
    let mut clauses: Vec<String> = clauses.collect();
    if rng.random_bool(0.15) {
        clauses.push(format!("({}) AND a.k = b.k", random_atom(rng)));
    }
    format!("({}) AND {}", clauses.join(" OR "), ["a.id < b.id", "a.id <> b.id", "b.id < a.id"].choose(rng).unwrap())
}

/// A condition that holds for both orders of a pair: of both rows, or the same of each.
fn random_symmetric(rng: &mut StdRng) -> String {
    let of_one = ["a.k = 'x'", "a.k IN ('x', 'y', NULL)", "a.k IS NULL", "a.n > 1", "NOT a.n > 1", "length(a.s) > 6"];
    let of_both = [
        "a.n + b.n > 1",
        "(a.id + b.id) % 2 = 0",
        "(a.id * b.id) % 3 <> 1",
        "NOT (a.k = b.k AND a.n = b.n)",
        "(a.id < b.id + 3 AND b.id < a.id + 3)",
        "(a.n > b.id OR a.id < b.n)",
        "(a.k = b.k OR a.k <> b.k OR a.k IS NULL OR b.k IS NULL)",
        "(a.k = 'x' OR b.n > 1) AND (b.k = 'x' OR a.n > 1)",
        "(a.d <= b.until AND a.until >= b.d)",
        "abs(a.id - b.id) % 3 = 1",
        "levenshtein(a.s, b.s) < length(a.s) + length(b.s) - 9",
        "jaccard(word_tokens(b.s), word_tokens(a.s)) < 0.5",
        "coalesce(a.k, 'x') = coalesce(b.k, 'x')",
    ];
    if rng.random_bool(0.4) {
        let one = of_one.choose(rng).unwrap();
        let other = one.replace("a.", "b.");
        return if rng.random_bool(0.5) { format!("{one} AND {other}") } else { format!("({one} OR {other})") };
    }
    of_both.choose(rng).unwrap().to_string()
}

fn random_self_join(rng: &mut StdRng, condition: &str) -> String {
    match rng.random_range(0..7) {
        0 => format!("SELECT a.id, b.id FROM l a, l b WHERE {condition}"),
        1 => format!("SELECT a.* FROM l a WHERE EXISTS (SELECT 1 FROM l b WHERE {condition})"),
        2 => format!("SELECT a.id FROM l a WHERE NOT EXISTS (SELECT 1 FROM l b WHERE {condition})"),
        3 => format!("SELECT count(*), sum(a.id * 7 + b.id) FROM l a JOIN l b ON {condition}"),
        kind => {
            let join = ["", "LEFT", "LEFT SEMI"][kind - 4];
            format!("SELECT * FROM l a {join} JOIN l b ON {condition}")
        }
    }
}
