//! Sub-queries in the ON condition of SIMILARITY JOIN and NEAREST: the rows of the plain join wherever stock DataFusion
//! can run that, and elsewhere the right rows or an error that names the condition.

use datafusion::common::Result;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;

use crate::rows::Rows;
use crate::session;

const SIMILAR: &str = "levenshtein(a.name, b.name) <= 1";

const JOINS: [&str; 8] = ["INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "RIGHT SEMI", "LEFT ANTI", "RIGHT ANTI"];

const CONDITIONS: [&str; 27] = [
    "a.id IN (SELECT id FROM ok)",
    "b.id IN (SELECT id FROM ok)",
    "a.id NOT IN (SELECT id FROM ok)",
    "b.id NOT IN (SELECT id FROM ok)",
    "a.id NOT IN (SELECT id FROM gaps)",
    "b.k NOT IN (SELECT id FROM ok)",
    "NOT (a.k IN (SELECT id FROM gaps))",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id = a.id)",
    "NOT EXISTS (SELECT 1 FROM ok WHERE ok.id = b.id)",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id = b.id - a.id)",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id = a.id AND ok.id < b.id)",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id = 3)",
    "NOT EXISTS (SELECT 1 FROM ok WHERE ok.id = 3)",
    "b.id - a.id IN (SELECT id FROM ok)",
    "a.id IN (SELECT id FROM ok WHERE ok.id < b.id)",
    "a.id < (SELECT max(id) FROM ok)",
    "b.id <= (SELECT max(id) FROM ok)",
    "a.id + b.id <= (SELECT max(id) FROM ok)",
    "a.id <= (SELECT max(id) FROM ok WHERE ok.id = a.id)",
    "a.id <= (SELECT max(id) FROM ok WHERE ok.id = b.id)",
    "(a.id = 6 OR a.id IN (SELECT id FROM ok))",
    "(b.id = 6 OR a.id IN (SELECT id FROM ok))",
    "(b.id IN (SELECT id FROM ok) OR a.id NOT IN (SELECT id FROM gaps))",
    "(a.id < b.id OR NOT EXISTS (SELECT 1 FROM ok WHERE ok.id = a.id))",
    "a.id < ANY (SELECT id FROM ok)",
    "b.id <= ALL (SELECT id FROM ok)",
    "a.id < b.id AND a.id IN (SELECT id FROM ok) AND b.id NOT IN (SELECT id FROM ok WHERE id < 2)",
];

async fn people() -> SessionContext {
    let ctx = session(3, 2);
    for statement in [
        "CREATE TABLE p (id INT, k INT, name VARCHAR) AS VALUES
         (1, 1, 'Anna'), (2, NULL, 'Ana'), (3, 2, 'Hanna'), (6, 3, 'anna'), (7, NULL, 'Ann'), (8, 8, NULL), (9, 1, '')",
        "CREATE TABLE ok (id INT) AS VALUES (1), (2), (3)",
        "CREATE TABLE gaps (id INT) AS VALUES (2), (NULL), (6)",
    ] {
        ctx.sql(statement).await.unwrap().collect().await.unwrap();
    }
    ctx
}

/// The rows of a query and its plan.
async fn run(ctx: &SessionContext, query: &str, enabled: bool) -> Result<(Rows, String)> {
    ctx.sql(&format!("SET similarity.enabled = {enabled}")).await?;
    let frame = ctx.similarity_sql(query).await?;
    let (schema, plan) = (frame.schema().inner().clone(), frame.clone().create_physical_plan().await?);
    Ok((Rows::new(schema, frame.collect().await?), displayable(plan.as_ref()).indent(false).to_string()))
}

fn select(join: &str, keyword: &str, condition: &str) -> String {
    let columns = match join {
        "LEFT SEMI" | "LEFT ANTI" => "a.id, a.k",
        "RIGHT SEMI" | "RIGHT ANTI" => "b.id, b.k",
        _ => "a.id, b.id, b.k",
    };
    format!("SELECT {columns} FROM p a {join} {keyword} p b ON {SIMILAR} AND {condition}")
}

#[tokio::test]
async fn rows_are_those_of_the_plain_join() {
    let ctx = people().await;
    let (mut same, mut more, mut refused) = (0, 0, 0);
    for (join, condition) in JOINS.into_iter().flat_map(|join| CONDITIONS.map(|condition| (join, condition))) {
        let query = select(join, "SIMILARITY JOIN", condition);
        let expected = run(&ctx, &select(join, "JOIN", condition), false).await;
        match (run(&ctx, &query, true).await, expected) {
            (Ok((rows, plan)), Ok((expected, _))) => {
                assert_eq!(rows, expected, "{query}");
                assert!(plan.contains("SimilarityJoinExec"), "{query}\n{plan}");
                let off = run(&ctx, &query, false).await.unwrap().0;
                assert_eq!(off, expected, "{query}");
                same += 1;
            }
            (Ok((rows, plan)), Err(_)) => {
                assert!(plan.contains("SimilarityJoinExec"), "{query}\n{plan}");
                let off = run(&ctx, &query, false).await.unwrap_or_else(|e| panic!("{query}: {e}")).0;
                assert_eq!(rows, off, "{query}");
                more += 1;
            }
            (Err(error), Err(_)) => {
                let error = error.strip_backtrace();
                assert!(error.contains("SIMILARITY JOIN") && error.contains("sub-query"), "{query}: {error}");
                refused += 1;
            }
            (Err(error), Ok(_)) => panic!("{query}: {error}"),
        }
    }
    println!("{same} as stock, {more} that stock cannot run, {refused} refused");
    assert!(same > 80 && more > 20, "{same} as stock, {more} more");
}

/// With INNER JOIN a condition of ON may as well stand in WHERE, where stock runs all of them.
#[tokio::test]
async fn an_inner_join_takes_every_sub_query() {
    let ctx = people().await;
    for condition in CONDITIONS {
        let query = select("INNER", "SIMILARITY JOIN", condition);
        let expected = format!("SELECT a.id, b.id, b.k FROM p a JOIN p b ON {SIMILAR} WHERE {condition}");
        let expected = run(&ctx, &expected, false).await.unwrap_or_else(|e| panic!("{condition}: {e}")).0;
        let (rows, _) = run(&ctx, &query, true).await.unwrap_or_else(|e| panic!("{query}: {e}"));
        assert_eq!(rows, expected, "{query}");
    }
}

/// A sub-query in a clause of an OR: what follows without it is what the join is entered by.
#[tokio::test]
async fn clauses_of_a_rule_may_hold_sub_queries() {
    let ctx = people().await;
    let clauses = "(levenshtein(a.name, b.name) <= 1 AND a.id IN (SELECT id FROM ok)) \
                   OR (a.k = b.k AND NOT EXISTS (SELECT 1 FROM gaps WHERE gaps.id = b.id))";
    let plain = format!("SELECT a.id, b.id FROM p a JOIN p b ON {clauses}");
    let expected = run(&ctx, &plain.replace(" ON ", " ON true WHERE "), false).await.unwrap().0;
    let (rows, plan) = run(&ctx, &plain.replace("JOIN", "SIMILARITY JOIN"), true).await.unwrap();
    assert_eq!(rows, expected);
    assert!(plan.contains("MatchingDependencyBlockExec"), "{plan}");
}

#[tokio::test]
async fn a_join_by_nothing_but_sub_queries_is_refused() {
    let ctx = people().await;
    for condition in ["a.id IN (SELECT id FROM ok)", "levenshtein(a.name, b.name) <= (SELECT min(id) FROM ok)"] {
        let query = format!("SELECT a.id FROM p a SIMILARITY JOIN p b ON {condition}");
        let error = run(&ctx, &query, true).await.unwrap_err().strip_backtrace();
        assert!(error.contains("SIMILARITY JOIN") && error.contains("sub-query"), "{query}: {error}");
        let plain = run(&ctx, &query.replace("SIMILARITY ", ""), false).await.unwrap().0;
        assert_eq!(run(&ctx, &query, false).await.unwrap().0, plain, "{query}");
    }
}

#[tokio::test]
async fn nearest_takes_sub_queries_over_one_table() {
    let ctx = people().await;
    let nearest = "NEAREST 2 BY DISTANCE levenshtein(a.name, b.name) THEN BY b.id";
    let of = |left: &str, kind: &str, right: &str, on: &str| {
        format!("SELECT a.id, b.id FROM {left} a {kind} JOIN {right} b {nearest} {on}")
    };
    let (some, none) = ("(SELECT * FROM p WHERE id IN (SELECT id FROM ok))", "(SELECT * FROM p WHERE false)");
    for kind in ["INNER", "LEFT"] {
        for (on, expected) in [
            ("ON b.id IN (SELECT id FROM ok)", of("p", kind, some, "")),
            ("ON EXISTS (SELECT 1 FROM ok WHERE ok.id = b.id) AND a.k = b.k", of("p", kind, some, "ON a.k = b.k")),
            ("ON EXISTS (SELECT 1 FROM ok WHERE ok.id = 7)", of("p", kind, none, "")),
            ("ON b.id <= (SELECT max(id) FROM ok)", of("p", kind, some, "")),
        ] {
            let query = of("p", kind, "p", on);
            assert_eq!(
                run(&ctx, &query, true).await.unwrap().0,
                run(&ctx, &expected, true).await.unwrap().0,
                "{query}"
            );
        }
    }
    let query = of("p", "INNER", "p", "ON a.id IN (SELECT id FROM ok)");
    assert_eq!(run(&ctx, &query, true).await.unwrap().0, run(&ctx, &of(some, "INNER", "p", ""), true).await.unwrap().0);
    for refused in
        [of("p", "LEFT", "p", "ON a.id IN (SELECT id FROM ok)"), of("p", "", "p", "ON a.id + b.id IN (SELECT 3)")]
    {
        let error = run(&ctx, &refused, true).await.unwrap_err().strip_backtrace();
        assert!(error.contains("NEAREST takes no sub-query"), "{refused}: {error}");
    }
}
