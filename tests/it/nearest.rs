//! NEAREST against window functions over the join of all candidates: the same rows over random tables, scores,
//! conditions, ties, batch sizes and partitions.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Float64Builder, Int64Array, ListBuilder, RecordBatch, StringArray,
    UInt32Array,
};
use datafusion::arrow::compute::{cast, take, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::SchemaProvider;
use datafusion::common::{JoinType, Result};
use datafusion::config::{Dialect, SqlParserOptions};
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionContext, col};
use datafusion_similarity::functions::expr_fn::l2_distance;
use datafusion_similarity::functions::nearest::{Direction, Nearest};
use datafusion_similarity::{SimilarityContext, SimilarityDataFrame, sql};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::rows::{Rows, rows_of};
use crate::session;

const TABLES: u64 = 14;
/// Stock DataFusion takes its time for scores of texts.
const TABLES_OF_TEXTS: u64 = 8;
pub(crate) const QUERIES_PER_TABLE: usize = 15;
/// All columns of the right table, in order.
const COLUMNS: [&str; 6] = ["x", "k", "n", "d", "s", "v"];

/// Scores, and whether the largest is the best.
pub(crate) type Scores = &'static [(&'static str, bool)];

pub(crate) const SCORES: Scores = &[
    ("l2_distance(a.v, b.v)", false),
    ("l2_distance(b.v, a.v)", false),
    ("l1_distance(a.v, b.v)", false),
    ("linf_distance(a.v, b.v)", false),
    ("cosine_similarity(a.v, b.v)", true),
    ("cosine_similarity(a.v, b.v)", false),
    ("l2_distance(a.v, b.v)", true),
    ("array_distance(a.v, b.v)", false),
    ("abs(a.x - b.x)", false),
    ("a.x * b.x", true),
    ("a.n * b.n", true),
    ("a.d - b.d", false),
    ("b.x", false),
    ("CAST(a.n AS INT)", true),
];

pub(crate) const SCORES_OF_TEXTS: Scores = &[
    ("jaccard(word_tokens(a.s), word_tokens(b.s))", true),
    ("jaccard(b.s, a.s, 2)", true),
    ("dice(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#'))", true),
    ("set_cosine(a.s, b.s)", true),
    ("overlap_coefficient(word_tokens(a.s), word_tokens(b.s))", true),
    ("overlap_count(a.s, b.s, 2)", true),
    ("containment(word_tokens(a.s), word_tokens(b.s))", true),
    ("containment(b.s, a.s, 2)", true),
    ("tversky(word_tokens(b.s), word_tokens(a.s), 0.8, 0.2)", true),
    ("tversky(a.s, b.s, 0, 3, 2)", true),
    ("tversky(a.s, b.s, 0.0000000001, 1e-16)", true),
    ("similarity(a.s, b.s)", true),
    ("jaccard(a.v, b.v)", true),
    ("levenshtein(a.s, b.s)", false),
    ("levenshtein_similarity(b.s, a.s)", true),
    ("osa_distance(a.s, b.s)", false),
    ("damerau_levenshtein(a.s, b.s)", false),
    ("hamming(a.s, b.s)", false),
    ("jaro_similarity(a.s, b.s)", true),
    ("jaro_winkler_similarity(lower(a.s), b.s)", true),
    ("jaro_winkler_similarity(a.s, b.s, 0.25, 0)", true),
    ("jaro_winkler_similarity(b.s, a.s, 0.2, 0.4)", true),
    ("jaccard(a.s, b.s, 2)", false),
    ("levenshtein_less_equal(a.s, b.s, 2)", false),
    ("levenshtein(a.s, b.s)", true),
];

/// Conditions without functions and equalities of `k`: stock DataFusion cannot plan many windows over these.
pub(crate) const SCORES_OF_CONDITIONS: Scores = &[
    ("match_count(b.x BETWEEN a.x - 1 AND a.x + 1, b.n = a.n, a.d - b.d BETWEEN -2 AND 2)", true),
    ("match_count(a.x BETWEEN b.x - 2 AND b.x + 0.5, a.s = b.s, a.n IS NOT DISTINCT FROM b.n)", true),
    ("match_count(b.n = a.n, 2.5, b.d BETWEEN a.d - 1 AND a.d, 0.1, b.s = a.s, 0.3, a.x = b.x, 0.2)", true),
    ("match_count(a.n = b.n + 1, a.n < b.n + 3 AND a.n > b.n - 1, a.x - b.x BETWEEN -2 AND 2)", true),
    ("match_count(a.n = b.n OR a.x = b.x, a.s < b.s, b.x < 2)", true),
    ("match_count(a.n = b.n, a.s < b.s, b.x < 2 OR a.n < b.n)", true),
    (
        "match_count(b.d BETWEEN a.d - 1 AND a.d AND a.s <> b.s, 0.7, a.s < b.s, 0.1, a.x = b.x, 0.2, b.n = a.n, 0)",
        true,
    ),
    ("match_count(a.s = b.s, 3, a.x < b.x, 2, a.d = b.d AND a.n < b.n, 2)", true),
    ("match_count(a.n = b.n, a.x - b.x BETWEEN -1 AND 1)", false),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_window_functions_by_conditions() {
    compare(SCORES_OF_CONDITIONS, TABLES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_window_functions() {
    compare(SCORES, TABLES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_window_functions_by_texts() {
    compare(SCORES_OF_TEXTS, TABLES_OF_TEXTS).await;
}

async fn compare(scores: Scores, tables: u64) {
    let halves = (0..2).map(|half| {
        tokio::spawn(async move {
            let mut checked = Checked::default();
            for seed in (half..tables).step_by(2) {
                checked.add(check_tables(seed, scores).await);
            }
            checked
        })
    });
    let mut checked = Checked::default();
    for half in futures::future::join_all(halves).await {
        checked.add(half.unwrap());
    }
    let (cases, Checked { compared, indexed, .. }) = (tables as usize * QUERIES_PER_TABLE, checked);
    println!("{cases} cases: {checked:?}");
    assert!(compared * 10 > cases * 9 && indexed * 4 > cases, "{compared} compared, {indexed} by an index");
}

/// What came of some cases.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checked {
    /// Stock DataFusion answers them.
    pub compared: usize,
    /// An index has served them.
    pub indexed: usize,
    /// One on a device.
    pub on_device: usize,
    /// The right side was on disk.
    pub in_chunks: usize,
}

impl Checked {
    pub fn add(&mut self, other: Self) {
        self.compared += other.compared;
        self.indexed += other.indexed;
        self.on_device += other.on_device;
        self.in_chunks += other.in_chunks;
    }
}

/// Compares random queries over two random tables.
pub(crate) async fn check_tables(seed: u64, scores: Scores) -> Checked {
    check_tables_in(seed, scores, session).await
}

/// Compares random queries over two random tables in a session of some batch size and number of partitions.
pub(crate) async fn check_tables_in(
    seed: u64,
    scores: Scores,
    session_of_size: impl Fn(usize, usize) -> SessionContext,
) -> Checked {
    let mut rng = StdRng::seed_from_u64(seed);
    let (batch_size, partitions) = (*[1, 7, 8192].choose(&mut rng).unwrap(), *[1, 4].choose(&mut rng).unwrap());
    let (context, stock) = (session_of_size(batch_size, partitions), session(8192, 1));
    let dimensions = *[1, 2, 3, 8, 33, 70].choose(&mut rng).unwrap();
    let grid = rng.random_bool(0.5);
    for name in ["l", "r"] {
        let rows = *[0, 1, 7, 40, 150, 400].choose(&mut rng).unwrap();
        let table = Arc::new(random_table(&mut rng, name == "l", rows, dimensions, grid));
        context.register_table(name, Arc::clone(&table) as Arc<dyn TableProvider>).unwrap();
        stock.register_table(name, table).unwrap();
    }
    let mut checked = Checked::default();
    for _ in 0..QUERIES_PER_TABLE {
        let case = Case::random(&mut rng, scores);
        // what fails in stock may fail here
        let Ok((expected, _)) = run(&stock, &case.by_window_functions(), false).await else { continue };
        checked.compared += 1;
        for enabled in [true, false] {
            let query = case.nearest();
            let (rows, plan) = run(&context, &query, enabled).await.unwrap_or_else(|e| panic!("{seed}: {query}: {e}"));
            assert_eq!(
                rows, expected,
                "seed {seed}, batch size {batch_size}, {partitions} partitions: {query}\n{plan}"
            );
            let on_device = ["blocks along a curve over ", "signature tiles (cuda:0 ", " rows (cuda:0 "];
            let on_device = on_device.iter().any(|path| plan.contains(path));
            let paths = [" leaves over ", "inverted index of ", "signature tiles over ", "columns of conditions ("];
            checked.on_device += usize::from(on_device);
            checked.in_chunks += usize::from(plan.contains("in chunks, each with "));
            checked.indexed += usize::from(on_device || paths.iter().any(|path| plan.contains(path)));
        }
        let query = case.table_function();
        let (rows, _) = run(&context, &query, true).await.unwrap_or_else(|e| panic!("{seed}: {query}: {e}"));
        assert_eq!(rows, expected, "seed {seed}: {query}");
    }
    checked
}

async fn run(context: &SessionContext, query: &str, enabled: bool) -> Result<(Rows, String)> {
    context.sql(&format!("SET similarity.enabled = {enabled}")).await?;
    let planned = match query.contains("FROM nearest(") {
        true => context.sql(query).await?,
        false => context.similarity_sql(query).await?,
    };
    let plan = planned.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    Ok((Rows::new(plan.schema(), batches), displayable(plan.as_ref()).indent(false).to_string()))
}

const POINTS: &str =
    "CREATE TABLE p AS VALUES (1, [0.0, 0.0]), (2, [1.0, 0.0]), (3, [0.0, 2.0]), (4, [9.0, 9.0]), (5, NULL)";

#[tokio::test]
async fn data_frames_have_it_too() {
    let context = session(8192, 2);
    context.sql(POINTS).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| async { context.table("p").await?.alias(name) });
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    let score = l2_distance(col("a.column2"), col("b.column2"));
    let nearest = Nearest {
        condition: Some(col("a.column1").not_eq(col("b.column1"))),
        then_by: vec![col("b.column1").sort(false, true)],
        ..Nearest::new(1, Direction::Distance, score.clone())
    };
    let joined = a.clone().nearest_join(b.clone(), JoinType::Left, nearest.clone()).unwrap();
    let batches = joined.select(vec![col("a.column1"), col("b.column1")]).unwrap().collect().await.unwrap();
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    assert_eq!(rows, ["1 | 2", "2 | 1", "3 | 1", "4 | 3", "5 | NULL"]);
    for (join_type, rows, hint) in [(JoinType::Full, 1, "not Full"), (JoinType::Inner, 0, "positive whole number")] {
        let joined = a.clone().nearest_join(b.clone(), join_type, Nearest { rows, ..nearest.clone() });
        let error = joined.unwrap().collect().await.unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[tokio::test]
async fn vectors_of_different_lengths_are_an_error_where_they_meet() {
    let context = session(8192, 1);
    context.sql(POINTS).await.unwrap();
    context.sql("CREATE TABLE q AS VALUES (1, [0.0, 0.0, 1.0]), (6, [1.0, 0.0])").await.unwrap();
    let query = "SELECT * FROM p JOIN q NEAREST 1 BY DISTANCE l2_distance(p.column2, q.column2)";
    for (on, fails) in [("", true), ("ON p.column1 = q.column1", true), ("ON p.column1 + 4 = q.column1", false)] {
        for enabled in [true, false] {
            let ran = run(&context, &format!("{query} {on}"), enabled).await;
            match ran {
                Ok(_) => assert!(!fails, "{on}"),
                Err(error) => assert!(fails && error.to_string().contains("l2_distance: the vectors have"), "{error}"),
            }
        }
    }
    // the side of which each row is searched for
    let query = "SELECT p.column1 FROM q JOIN p NEAREST 1 BY DISTANCE l2_distance(p.column2, q.column2)";
    for enabled in [true, false] {
        let (rows, _) = run(&context, &format!("{query} ON p.column1 + 4 = q.column1"), enabled).await.unwrap();
        assert_eq!(rows.texts(), ["2"]);
        assert!(run(&context, query, enabled).await.is_err());
    }
}

#[tokio::test]
async fn keys_that_cannot_be_evaluated_are_an_error_where_they_are_scored() {
    let context = session(8192, 1);
    context.sql("CREATE TABLE p AS VALUES (1, '07'), (2, 'x'), (3, '12'), (4, '71')").await.unwrap();
    let number = |side: &str| format!("CAST(CAST({side}.column2 AS INT) AS VARCHAR)");
    for (left, right, on, rows) in [
        (
            number("a"),
            "b.column2".to_string(),
            "a.column1 <> 2 AND a.column1 <> b.column1",
            Some(["1 | 2", "3 | 1", "4 | 1"]),
        ),
        ("a.column2".to_string(), number("b"), "b.column1 <> 2 AND a.column1 <> 2", Some(["1 | 1", "3 | 3", "4 | 4"])),
        (number("a"), "b.column2".to_string(), "a.column1 <> b.column1", None),
        ("a.column2".to_string(), number("b"), "a.column1 <> b.column1", None),
    ] {
        let query = format!(
            "SELECT a.column1, b.column1 FROM p a JOIN p b NEAREST 1 BY DISTANCE levenshtein({left}, {right}) ON {on}"
        );
        for enabled in [true, false] {
            match (run(&context, &query, enabled).await, rows) {
                (Ok((found, _)), Some(rows)) => assert_eq!(found.texts(), rows, "{query}"),
                (found, rows) => assert!(found.is_err() && rows.is_none(), "{query}"),
            }
        }
    }
}

#[test]
fn the_clause_as_text_for_the_stock_parser() {
    let options = SqlParserOptions::default();
    for (text, expected) in [
        (
            ", 'ü' -- x\nFROM a LEFT JOIN b AS n\n  nearest 3 /* rows */ BY distance abs(a.x - n.x) -- score\nWHERE true",
            ", 'ü' -- x\nFROM a LEFT JOIN b AS n\n  ON nearest_join_condition('distance', 3, (abs(a.x - n.x))) -- score\nWHERE true",
        ),
        (
            "FROM a JOIN b NEAREST 1 BY SIMILARITY similarity(a.s, b.s) THEN BY b.y DESC, b.z NULLS FIRST ON a.k = b.k WITH TIES, c",
            "FROM a JOIN b ON nearest_join_condition('similarity', 1, (similarity(a.s, b.s)), (b.y), 'desc nulls first', \
             (b.z), 'asc nulls first', (a.k = b.k), 'on', 'with ties'), c",
        ),
        (
            "FROM a JOIN b NEAREST 1 BY DISTANCE (SELECT max(d.x) FROM c JOIN d NEAREST 2 BY DISTANCE c.x WITH TIES) LEFT \
             SIMILARITY JOIN e ON p JOIN f NEAREST 4 BY DISTANCE h ON EXISTS (SELECT 1 FROM i SIMILARITY JOIN j ON q)",
            "FROM a JOIN b ON nearest_join_condition('distance', 1, ((SELECT max(d.x) FROM c JOIN d ON \
             nearest_join_condition('distance', 2, (c.x), 'with ties')))) LEFT  JOIN e ON similarity_join_condition((p)) JOIN f \
             ON nearest_join_condition('distance', 4, (h), (EXISTS (SELECT 1 FROM i  JOIN j ON similarity_join_condition((q)))), 'on')",
        ),
    ] {
        let text = format!("SELECT 1 {text}");
        let rewritten = sql::rewrite(&text, &options).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(rewritten, format!("SELECT 1 {expected}"));
        assert_eq!(sql::rewrite(&rewritten, &options).unwrap(), rewritten);
    }
    for info in Dialect::metadata() {
        let options = SqlParserOptions { dialect: info.dialect, ..options.clone() };
        let text = "SELECT 1 FROM a JOIN b NEAREST 3 BY DISTANCE a.x - b.x THEN BY b.y ON a.x = b.x WITH TIES";
        sql::check(text, &options).unwrap_or_else(|e| panic!("{}: {e}", info.canonical_name));
    }
}

/// Where the rows of a query are ranked, `plan` shows.
#[tokio::test]
async fn conditions_stay_on_their_side_of_the_ranking() {
    let context = session(8192, 2);
    context.sql(POINTS).await.unwrap();
    let query = "SELECT b.column1 FROM (SELECT a.column1 AS x, b.column1
                 FROM p a JOIN p b NEAREST 2 BY DISTANCE l2_distance(a.column2, b.column2)) b WHERE b.x > 2 AND b.column1 < 2";
    let (rows, plan) = run(&context, query, true).await.unwrap();
    assert_eq!(rows.texts(), ["1"], "{plan}");
    let below = plan.split("NearestJoinExec").nth(1).unwrap();
    assert!(below.contains("FilterExec: column1@0 > 2") && !below.contains("column1@0 < 2"), "{plan}");
}

/// The table function, in text for the stock parser.
#[tokio::test]
async fn the_table_function_is_planned_with_its_query() {
    let context = session(8192, 2);
    context.sql(POINTS).await.unwrap();
    let query = "SELECT a.column1, b.column1_right AS other FROM p a
        JOIN nearest('p x', 'p y', 2, 'DISTANCE l2_distance(x.column2, y.column2)') b ON a.column1 = b.column1
        WHERE b.column1 > 2 AND b.column1_right < 2";
    let stock = async |query: &str| {
        let plan = context.sql(query).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
        let rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
        Result::<_>::Ok((rows, displayable(plan.as_ref()).indent(false).to_string()))
    };
    let (rows, plan) = stock(query).await.unwrap();
    assert_eq!(rows, ["3 | 1"], "{plan}");
    let below = plan.split("NearestJoinExec").nth(1).unwrap();
    assert!(below.contains("FilterExec: column1@0 > 2") && !below.contains("column1@0 < 2"), "{plan}");
    let view = query.replacen("SELECT", "CREATE VIEW v AS SELECT", 1);
    context.sql(&view).await.unwrap().collect().await.unwrap();
    assert_eq!(stock("SELECT * FROM v").await.unwrap().0, ["3 | 1"]);
    let error = stock("SELECT * FROM nearest('p a', $1, 1, 'DISTANCE a.column1')").await.unwrap_err().to_string();
    assert!(error.contains("argument 2 of nearest (the right table) takes a constant text"), "{error}");
}

#[tokio::test]
async fn a_table_ranked_against_itself_is_read_once() {
    let context = session(8192, 2);
    let table = random_table(&mut StdRng::seed_from_u64(3), true, 50, 2, true);
    context.register_table("t", Arc::new(table)).unwrap();
    let plan = async |query: &str| run(&context, query, true).await.unwrap().1;
    let nearest = "NEAREST 2 BY DISTANCE l2_distance(a.v, b.v)";
    for own in [
        format!("SELECT a.id, b.id FROM t a JOIN t b {nearest}"),
        format!("SELECT a.id, b.k FROM t a JOIN t b {nearest} ON a.k = b.k AND a.id <> b.id WITH TIES"),
        format!("SELECT b.id FROM (SELECT * FROM t WHERE n > 1) a JOIN (SELECT * FROM t WHERE n > 1) b {nearest}"),
    ] {
        let plan = plan(&own).await;
        assert!(plan.contains("build=self-join (both sides are the same input)"), "{own}\n{plan}");
    }
    for two in [
        format!("SELECT a.id, b.id FROM t a LEFT JOIN t b {nearest}"),
        format!("SELECT a.id, b.id FROM (SELECT * FROM t WHERE n > 1) a JOIN t b {nearest}"),
        format!("SELECT a.id, b.id FROM t a JOIN t b {nearest} ON a.k = b.s"),
        "SELECT a.id, b.id FROM t a JOIN t b NEAREST 2 BY DISTANCE abs(a.x - b.x)".to_owned(),
    ] {
        assert!(!plan(&two).await.contains("self-join"), "{two}");
    }
}

/// A catalog that has to ask somebody else for a table.
#[derive(Debug)]
struct Remote;

#[async_trait]
impl SchemaProvider for Remote {
    fn table_names(&self) -> Vec<String> {
        vec!["far".to_owned()]
    }

    async fn table(&self, _name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        tokio::task::yield_now().await;
        let table = random_table(&mut StdRng::seed_from_u64(1), true, 7, 2, true);
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        name == "far"
    }
}

#[tokio::test]
async fn the_table_function_does_not_wait_for_a_catalog() {
    let context = session(8192, 1);
    let catalog = context.catalog("datafusion").unwrap();
    catalog.register_schema("remote", Arc::new(Remote)).unwrap();
    let query = |table: &str| format!("SELECT * FROM nearest('{table} a', '{table} b', 1, 'DISTANCE abs(a.x - b.x)')");
    let error = context.sql(&query("remote.far")).await.unwrap_err().to_string();
    assert!(error.contains("cannot wait for a catalog") && error.contains("view"), "{error}");
    context.sql("CREATE VIEW near AS SELECT * FROM remote.far").await.unwrap().collect().await.unwrap();
    context.sql(&query("near")).await.unwrap().collect().await.unwrap();
}

/// A query as NEAREST and as window functions say it.
struct Case {
    left_join: bool,
    /// Whether the left table is ranked against itself.
    own: bool,
    rows: usize,
    score: &'static str,
    similarity: bool,
    then_by: Vec<&'static str>,
    condition: Option<&'static str>,
    ties: bool,
}

impl Case {
    fn random(rng: &mut StdRng, scores: Scores) -> Self {
        let (score, similarity) = *scores.choose(rng).unwrap();
        let condition = *[
            None,
            None,
            Some("a.k = b.k"),
            Some("a.k IS NOT DISTINCT FROM b.k"),
            Some("b.k = a.k AND a.n <> b.n"),
            Some("a.n < b.n"),
            Some("a.n = b.n + 1 OR a.k = b.k"),
            Some("a.id < 20 AND b.x IS NOT NULL"),
            Some("b.n > 2 AND a.k = b.k AND a.n = b.n"),
            Some("levenshtein(a.s, b.s) <= 3"),
            Some("false"),
        ]
        .choose(rng)
        .unwrap();
        let ties = rng.random_bool(0.4);
        let orders: [&[&str]; 5] = [&[], &[], &["b.n"], &["b.k DESC", "b.x"], &["b.x DESC NULLS LAST", "b.n + 1 ASC"]];
        let mut then_by = orders.choose(rng).unwrap().to_vec();
        if !ties && !then_by.is_empty() {
            // what else is tied comes out at random
            then_by.extend(["b.x", "b.k", "b.n", "b.d", "b.s", "b.v"]);
        }
        let left_join = rng.random_bool(0.4);
        Self {
            left_join,
            own: rng.random_bool(0.4),
            rows: if rng.random_bool(0.1) { 500 } else { rng.random_range(1..6) },
            score,
            similarity,
            then_by,
            condition,
            ties,
        }
    }

    fn nearest(&self) -> String {
        let join = if self.left_join { "LEFT JOIN" } else { "JOIN" };
        let columns = COLUMNS.map(|column| format!("b.{column}")).join(", ");
        let right = self.right();
        format!("SELECT a.id, {columns} FROM l a {join} {right} b NEAREST {} BY {}", self.rows, self.ranking())
    }

    fn right(&self) -> &'static str {
        if self.own { "l" } else { "r" }
    }

    fn table_function(&self) -> String {
        let columns = COLUMNS.map(|column| format!("{column}_right")).join(", ");
        let join_type = if self.left_join { ", 'left'" } else { "" };
        let ranking = self.ranking().replace('\'', "''");
        let right = self.right();
        format!("SELECT id, {columns} FROM nearest('l a', '{right} AS b', {}, '{ranking}'{join_type})", self.rows)
    }

    fn ranking(&self) -> String {
        let direction = if self.similarity { "SIMILARITY" } else { "DISTANCE" };
        let then_by =
            if self.then_by.is_empty() { String::new() } else { format!("THEN BY {}", self.then_by.join(", ")) };
        let on = self.condition.map_or(String::new(), |condition| format!("ON {condition}"));
        let ties = if self.ties { "WITH TIES" } else { "" };
        format!("{direction} {} {then_by} {on} {ties}", self.score)
    }

    fn by_window_functions(&self) -> String {
        let columns = COLUMNS.map(|column| format!("b.{column}")).join(", ");
        let direction = if self.similarity { "DESC" } else { "ASC" };
        let then_by = match (self.then_by.is_empty(), self.ties) {
            (true, true) => String::new(),
            (true, false) if self.own => format!(", b.id, {columns}"),
            (true, false) => format!(", {columns}"),
            (false, _) => format!(", {}", self.then_by.join(", ")),
        };
        let place = if self.ties { "rank()" } else { "row_number()" };
        let ranked = format!(
            "SELECT a.id AS left_id, {columns}, {place} OVER (PARTITION BY a.id ORDER BY {score} {direction}{then_by}) AS place
             FROM l a JOIN {right} b ON {condition} WHERE {score} IS NOT NULL",
            right = self.right(),
            score = self.score,
            condition = self.condition.unwrap_or("true"),
        );
        let join = if self.left_join { "LEFT JOIN" } else { "JOIN" };
        format!(
            "SELECT a.id, {columns} FROM l a {join} (SELECT * FROM ({ranked}) WHERE place <= {}) b ON a.id = b.left_id",
            self.rows
        )
    }
}

/// Few words, some of them misspelt; sometimes none, or NULL.
fn random_text(rng: &mut StdRng) -> Option<String> {
    let count = [0, 1, 1, 1, 2, 2, 3, 5][rng.random_range(0..8)];
    let words = ["data", "date", "Dates", "fusion", "fuse", "é", "日本", "--"];
    let mut text: Vec<char> = (0..count).flat_map(|_| words.choose(rng).unwrap().chars().chain([' '])).collect();
    text.pop();
    while !text.is_empty() && rng.random_bool(0.4) {
        let at = rng.random_range(0..text.len());
        let put = Some('x').filter(|_| rng.random_bool(0.5));
        text.splice(at..=at, put);
    }
    (!rng.random_bool(0.1)).then(|| text.into_iter().collect())
}

/// A left table with an id, or a right one; then [`COLUMNS`]: few values, so that there are ties and rows that are
/// the same, and vectors, of a grid or not, with NULLs and what is no number among them.
fn random_table(rng: &mut StdRng, left: bool, rows: usize, dimensions: usize, grid: bool) -> MemTable {
    let floats = [Some(0.0), Some(-0.0), Some(1.5), Some(-2.0), Some(f64::NAN), Some(f64::INFINITY), None];
    let x: Float64Array = (0..rows).map(|_| *floats.choose(rng).unwrap()).collect();
    let keys: StringArray = (0..rows).map(|_| *[Some("x"), Some("y"), Some("z"), None].choose(rng).unwrap()).collect();
    let n: Int64Array = (0..rows).map(|_| Some(rng.random_range(0..5)).filter(|_| rng.random_bool(0.9))).collect();
    let decimals: Decimal128Array = (0..rows).map(|_| Some(rng.random_range(-200..200))).collect();
    let texts: StringArray = (0..rows).map(|_| random_text(rng)).collect();
    let mut vectors = ListBuilder::new(Float64Builder::new());
    let odd = if rng.random_bool(0.5) { 0.0 } else { 0.1 };
    for _ in 0..rows {
        let scale = if rng.random_bool(odd) { *[0.0, 1e-170, 1e200].choose(rng).unwrap() } else { 1.0 };
        for _ in 0..dimensions {
            let element = if grid { f64::from(rng.random_range(-1..3)) } else { rng.random_range(-1.0..1.0) };
            let element = match rng.random_bool(odd / dimensions as f64) {
                true => *[None, Some(f64::NAN), Some(f64::INFINITY), Some(-0.0)].choose(rng).unwrap(),
                false => Some(scale * element),
            };
            vectors.values().append_option(element);
        }
        vectors.append(!rng.random_bool(odd));
    }
    let element = |data_type| Arc::new(Field::new("item", data_type, true));
    let types = [
        DataType::List(element(DataType::Float64)),
        DataType::LargeList(element(DataType::Float32)),
        DataType::FixedSizeList(element(DataType::Float32), dimensions as i32),
        DataType::FixedSizeList(element(DataType::Float64), dimensions as i32),
    ];
    // a NULL list of a fixed size has to have elements
    let kind = if odd == 0.0 { types.choose(rng).unwrap() } else { &types[0] };
    let vectors = cast(&(Arc::new(vectors.finish()) as ArrayRef), kind).unwrap();
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64)), true),
        ("x", Arc::new(x), true),
        ("k", Arc::new(keys), true),
        ("n", Arc::new(n), true),
        ("d", Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()), true),
        ("s", Arc::new(texts), true),
        ("v", vectors, true),
    ];
    let mut batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    if !left {
        batch.remove_column(0);
        let repeated = (0..rows as u32).map(|row| if rng.random_bool(0.2) { rng.random_range(0..=row) } else { row });
        batch = take_record_batch(&batch, &UInt32Array::from_iter_values(repeated)).unwrap();
    }
    if rng.random_bool(0.4) {
        batch = with_few_keys(rng, batch);
    }
    let cut = rows / 3;
    MemTable::try_new(batch.schema(), vec![vec![batch.slice(0, cut)], vec![batch.slice(cut, rows - cut)]]).unwrap()
}

/// The same rows, but for vectors and texts of a few of them.
fn with_few_keys(rng: &mut StdRng, batch: RecordBatch) -> RecordBatch {
    let few = batch.num_rows().min(rng.random_range(1..6)) as u32;
    let mut columns = batch.columns().to_vec();
    for name in ["s", "v"] {
        let taken: UInt32Array = (0..batch.num_rows()).map(|_| Some(rng.random_range(0..few))).collect();
        let at = batch.schema().index_of(name).unwrap();
        columns[at] = take(&columns[at], &taken, None).unwrap();
    }
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}
