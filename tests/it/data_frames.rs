//! The table functions over data frames against the same functions over tables.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::dataframe::DataFrame;
use datafusion::prelude::{SessionContext, lit};
use datafusion_similarity::tables::Truth;
use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};

use crate::session;

const TABLES: &str = "
CREATE TABLE people (\"Id\" INT, name VARCHAR, city VARCHAR) AS VALUES
    (1, 'Anna', 'Bonn'), (2, 'Ana', 'Bonn'), (3, 'Hanna', 'Kiel'), (4, 'Otto', 'Ulm'), (5, NULL, 'Ulm');
CREATE TABLE guests (nr INT, name VARCHAR, city VARCHAR) AS VALUES (1, 'Anne', 'Bonn'), (2, 'Oto', 'Ulm');
CREATE TABLE clustered AS SELECT *, \"Id\" AS cluster_id FROM people;
CREATE TABLE more (\"Id\" INT, name VARCHAR, city VARCHAR) AS VALUES (7, 'Ann', 'Bonn');
CREATE TABLE found AS SELECT a.\"Id\" AS l, b.\"Id\" AS r, 1.0 / levenshtein(a.name, b.name) AS score
    FROM people a JOIN people b ON levenshtein(a.name, b.name) <= 2 AND a.\"Id\" < b.\"Id\";
CREATE TABLE truth (l INT, r INT) AS VALUES (2, 1), (3, 4);
CREATE TABLE clusters_found (id INT, c INT) AS VALUES (1, 1), (2, 1), (3, 1), (4, 4);
CREATE TABLE clusters_true (id INT, c INT) AS VALUES (1, 1), (2, 1), (3, 3), (4, 3);
CREATE MATCHING RULE near ON a, b AS levenshtein(a.name, b.name) <= 1 AND a.city = b.city";

async fn rows(frame: DataFrame) -> String {
    pretty_format_batches(&frame.collect().await.unwrap()).unwrap().to_string()
}

/// What `query` returns, and `frame`.
async fn both(context: &SessionContext, query: &str, frame: DataFrame) -> [String; 2] {
    [rows(context.similarity_sql(query).await.unwrap()).await, rows(frame).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_over_frames_are_those_over_tables() {
    let context = session(8192, 2);
    for statement in TABLES.split(';') {
        context.similarity_sql(statement).await.unwrap().collect().await.unwrap();
    }
    let table = async |name: &str| context.table(name).await.unwrap();
    let (people, guests, found, truth) =
        (table("people").await, table("guests").await, table("found").await, table("truth").await);
    let condition = "levenshtein(a.name, b.name) <= 1 AND a.city = b.city";
    let cases = [
        (
            format!("SELECT * FROM extend_duplicates('clustered', 'more', '\"Id\"', '{condition}') ORDER BY 1"),
            table("clustered").await.extend_duplicates(table("more").await, "Id", condition).unwrap(),
        ),
        (
            "SELECT * FROM evaluate_pairs('found', 'truth', 'duplicates', 5)".into(),
            found.clone().evaluate_pairs(truth.clone(), Truth::Duplicates, &[5]).unwrap(),
        ),
        (
            "SELECT * FROM evaluate_pairs('found', 'truth', 'known links')".into(),
            found.clone().evaluate_pairs(truth.clone(), Truth::KnownLinks, &[]).unwrap(),
        ),
        (
            "SELECT * FROM evaluate_pairs('found', 'truth', 'links', 5, 6)".into(),
            found.clone().evaluate_pairs(truth.clone(), Truth::Links, &[5, 6]).unwrap(),
        ),
        (
            "SELECT * FROM evaluate_clusters('clusters_found', 'clusters_true')".into(),
            table("clusters_found").await.evaluate_clusters(table("clusters_true").await).unwrap(),
        ),
        (
            "SELECT * FROM threshold_sweep('found', 'truth', 'known duplicates', 4) ORDER BY 1".into(),
            found.clone().threshold_sweep(truth.clone(), Truth::KnownDuplicates, 4).unwrap(),
        ),
        (
            "SELECT clause, condition, matches FROM estimate_join('people', 'near', 1000)".into(),
            people.clone().estimate_join(None, "near", 1000).unwrap(),
        ),
        (
            "SELECT clause, condition, matches FROM estimate_join('people', 'guests', 'near', 1000)".into(),
            people.clone().estimate_join(Some(guests.clone()), "near", 1000).unwrap(),
        ),
        (
            "SELECT * FROM largest_blocks('people', 'guests', 'near', 2)".into(),
            people.clone().largest_blocks(Some(guests.clone()), "near", 2).unwrap(),
        ),
        (
            "SELECT * FROM largest_blocks('people', 'near', 1)".into(),
            people.clone().largest_blocks(None, "near", 1).unwrap(),
        ),
        (
            "SELECT * FROM explain_match('people', '\"Id\"', 'near', 1, 2) ORDER BY part".into(),
            people.clone().explain_match("Id", None, "near", [lit(1), lit(2)], false).unwrap(),
        ),
        (
            "SELECT * FROM explain_match('people', 'guests', '\"Id\"', 'nr', 'near', 4, 2, 'values') ORDER BY part"
                .into(),
            people.clone().explain_match("Id", Some((guests, "nr")), "near", [lit(4), lit(2)], true).unwrap(),
        ),
    ];
    for (query, frame) in cases {
        // seconds and bytes of an estimate are those of the machine
        let frame = match query.starts_with("SELECT clause,") {
            true => frame.select_columns(&["clause", "condition", "matches"]).unwrap(),
            false => frame,
        };
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let [expected, got] = both(&context, &query, frame).await.map(sorted);
        assert!(expected.len() > 4, "{query}: {expected:?}");
        assert_eq!(got, expected, "{query}");
    }
    // a frame need not be a table, and the session keeps none
    let query = "SELECT \"Id\", lower(name) AS name, city FROM people";
    let frame = context.sql(query).await.unwrap().explain_match("Id", None, "near", [lit(1), lit(2)], true).unwrap();
    assert!(rows(frame).await.contains("anna"));
    // two columns of one name are read by their places
    let pairs = "SELECT a.\"Id\", b.\"Id\" FROM people a JOIN people b ON a.\"Id\" < b.\"Id\"";
    let pairs = context.sql(pairs).await.unwrap();
    let measures = pairs.evaluate_pairs(truth, Truth::Duplicates, &[]).unwrap();
    assert!(rows(measures).await.contains("| 2  | 8  | 0  |"));
    assert!(!context.catalog_names().contains(&"similarity_frames".to_owned()));
}

#[tokio::test]
async fn errors_of_functions_over_frames_name_the_argument() {
    let context = session(8192, 2);
    let frame = || async { context.sql("SELECT 1 AS id, 'Anna' AS name").await.unwrap() };
    let message = |result: datafusion::common::Result<DataFrame>| result.unwrap_err().strip_backtrace();
    let unknown = message(frame().await.explain_match("nr", None, "a.name = b.name", [lit(1), lit(1)], false));
    assert!(unknown.contains("nr"), "{unknown}");
    let steps = message(frame().await.threshold_sweep(frame().await, Truth::Links, 5));
    assert!(steps.contains("the scored pairs) have two ids and a score"), "{steps}");
    let sample = message(frame().await.estimate_join(None, "a.name = b.name", 0));
    assert!(sample.contains("the size of the sample) is a positive whole number"), "{sample}");
}
