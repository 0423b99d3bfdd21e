//! Plans as EXPLAIN shows them, on the CPU and on a device: snapshots in `tests/it/snapshots`.
//!
//! `INSTA_UPDATE=always cargo test --test it -- plans` writes them anew. No device is needed to plan for one.

use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;

use crate::session;

/// A name and a query for each plan.
const QUERIES: &[(&str, &str)] = &[
    ("sets", "SELECT a.id, b.id FROM p a JOIN q b ON jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.8"),
    ("sets_within_groups", "SELECT a.id, b.id FROM p a JOIN q b ON a.city = b.city AND dice(a.tags, b.tags) >= 0.5"),
    (
        "sets_null_groups",
        "SELECT a.id FROM p a JOIN q b ON (a.city IS NOT DISTINCT FROM b.city) AND a.k = b.k AND dice(a.tags, b.tags) >= 0.5",
    ),
    (
        "asymmetric_self_join",
        "SELECT a.id, b.id FROM p a JOIN p b ON containment(a.tags, b.tags) >= 0.9 AND a.id <> b.id",
    ),
    ("tversky", "SELECT a.id, b.id FROM p a JOIN q b ON tversky(a.tags, b.tags, 0.8, 0.2) >= 0.7"),
    ("trigrams", "SELECT a.id, b.id FROM p a JOIN q b ON similarity(a.name, b.name) >= 0.3"),
    ("edit_distance", "SELECT a.id, b.id FROM p a JOIN q b ON levenshtein(a.name, b.name) <= 2"),
    ("edit_self_join", "SELECT a.id, b.id FROM p a JOIN p b ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id"),
    ("jaro_winkler", "SELECT a.id, b.id FROM p a JOIN q b ON jaro_winkler_similarity(a.name, b.name) >= 0.9"),
    (
        "jaro_winkler_constants",
        "SELECT a.id, b.id FROM p a JOIN q b ON jaro_winkler_similarity(a.name, b.name, 0.25, 0) >= 0.9",
    ),
    ("rewritten", "SELECT a.id, b.id FROM p a JOIN q b ON 1 - jaro_similarity(a.name, b.name) <= 0.2"),
    ("left_join", "SELECT a.id, b.id FROM p a LEFT JOIN q b ON damerau_levenshtein(a.name, b.name) <= 1 AND b.k > 3"),
    ("full_join", "SELECT a.id, b.id FROM p a FULL JOIN q b ON hamming(a.name, b.name) <= 1 AND a.k + b.k < 9"),
    ("semi_join", "SELECT a.id FROM p a LEFT SEMI JOIN q b ON levenshtein(a.name, b.name) <= 1"),
    ("not_exists", "SELECT a.id FROM p a WHERE NOT EXISTS (SELECT 1 FROM q b WHERE levenshtein(a.name, b.name) <= 1)"),
    ("epsilon", "SELECT a.id, b.id FROM p a JOIN q b ON l2_distance(a.e, b.e) <= 0.5"),
    ("epsilon_columns", "SELECT a.id, b.id FROM p a JOIN q b ON sqrt(power(a.x - b.x, 2) + power(a.y - b.y, 2)) <= 1"),
    ("antipodal", "SELECT a.id, b.id FROM p a JOIN q b ON inner_product(a.e, b.e) <= -1"),
    ("stock_measure", "SELECT a.id, b.id FROM p a JOIN q b ON array_distance(a.e, b.e) <= 1"),
    (
        "rule",
        "SELECT a.id, b.id FROM p a JOIN q b ON (a.city = b.city AND levenshtein(a.name, b.name) <= 2) OR (a.k = b.k AND jaccard(a.tags, b.tags) >= 0.5)",
    ),
    (
        "rule_self_join",
        "SELECT a.id, b.id FROM p a JOIN p b ON ((a.city = b.city AND levenshtein(a.name, b.name) <= 2) OR (abs(a.x - b.x) <= 1 AND a.k = b.k)) AND a.id < b.id",
    ),
    ("band", "SELECT a.id, b.id FROM p a JOIN q b ON abs(a.x - b.x) <= 2"),
    ("band_semi_join", "SELECT a.id FROM p a WHERE EXISTS (SELECT 1 FROM q b WHERE b.k BETWEEN a.k - 1 AND a.k + 1)"),
    ("nearest_vectors", "SELECT a.id, b.id FROM p a JOIN q b NEAREST 3 BY DISTANCE l2_distance(a.e, b.e)"),
    (
        "nearest_sets",
        "SELECT a.id, b.id FROM p a LEFT JOIN q b NEAREST 2 BY SIMILARITY jaccard(a.tags, b.tags) THEN BY b.id ON a.city = b.city WITH TIES",
    ),
    (
        "nearest_strings",
        "SELECT a.id, b.id FROM p a JOIN q b NEAREST 1 BY DISTANCE levenshtein(a.name, b.name) ON a.k < b.k",
    ),
    ("nearest_any_score", "SELECT a.id, b.id FROM p a JOIN q b NEAREST 1 BY DISTANCE abs(a.x - b.x)"),
];

async fn context() -> SessionContext {
    let context = session(8192, 4);
    for (name, rows) in [("p", 100), ("q", 300)] {
        let columns = "i AS id, 'name ' || i AS name, 'city ' || (i % 7) AS city, i % 5 AS k, [CAST(i AS VARCHAR)] AS tags, \
                       CAST(i AS DOUBLE) AS x, CAST(i AS DOUBLE) AS y, [CAST(i AS DOUBLE), 1.0] AS e";
        let create = format!("CREATE TABLE {name} AS SELECT {columns} FROM generate_series(1, {rows}) AS s(i)");
        context.sql(&create).await.unwrap().collect().await.unwrap();
    }
    context
}

/// The plan below the output of the query, without the tables.
async fn plan(context: &SessionContext, engine: &str, query: &str) -> String {
    context.sql(&format!("SET similarity.engine = {engine}")).await.unwrap();
    let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let of_join = text.lines().filter(|line| !line.contains("DataSourceExec") && !line.contains("RepartitionExec"));
    of_join.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn plans_are_those_of_the_snapshots() {
    let context = context().await;
    for &(name, query) in QUERIES {
        let [cpu, cuda] = ["cpu", "cuda"].map(|engine| plan(&context, engine, query));
        let (cpu, cuda) = (cpu.await, cuda.await);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, format!("{query}\n\ncpu\n{cpu}\n\ncuda\n{cuda}"));
        });
    }
}
