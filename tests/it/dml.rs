//! DELETE and UPDATE: the rows that the same condition selects, whatever it holds, and none while a plan is explained.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{MemTable, TableType};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::rows::{Rows, rows_of};
use crate::session;

const CONDITIONS: [&str; 26] = [
    "true",
    "false",
    "NULL",
    "id = 1 AND id = 2",
    "id > 3",
    "k IS NULL",
    "id IS NULL",
    "levenshtein(name, 'anna') <= 1 AND id > 2",
    "id IN (SELECT id FROM ok)",
    "id NOT IN (SELECT id FROM ok)",
    "k NOT IN (SELECT id FROM ok)",
    "id NOT IN (SELECT k FROM t)",
    "NOT (id IN (SELECT id FROM ok))",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id = t.id)",
    "NOT EXISTS (SELECT 1 FROM ok WHERE ok.id = t.k)",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id < t.k AND t.f > 0)",
    "EXISTS (SELECT 1 FROM ok WHERE ok.id = 100)",
    "NOT EXISTS (SELECT 1 FROM ok WHERE ok.id = 100)",
    "id > (SELECT avg(id) FROM t)",
    "k = (SELECT max(k) FROM t u WHERE u.name = t.name)",
    "id = 2 OR k IN (SELECT id FROM ok)",
    "f > 0 AND (name IS NULL OR name IN (SELECT name FROM t WHERE id < 4))",
    "id IN (SELECT b.id FROM t a JOIN t b ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id)",
    "id IN (SELECT b.id FROM t a SIMILARITY JOIN t b ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id)",
    "EXISTS (SELECT 1 FROM t a WHERE levenshtein(a.name, t.name) <= 1 AND a.id < t.id)",
    "(id < 3 AND id IN (SELECT id FROM ok)) OR f IN (SELECT f FROM t WHERE k = 1)",
];

/// Rows with NULLs, duplicates and both zeros, in some batches and partitions.
fn random_table(rng: &mut StdRng) -> MemTable {
    let mut partitions = Vec::new();
    for _ in 0..rng.random_range(1..3) {
        partitions.push((0..rng.random_range(0..3)).map(|_| random_batch(rng)).collect::<Vec<_>>());
    }
    let schema = random_batch(rng).schema();
    MemTable::try_new(schema, partitions).unwrap()
}

fn random_batch(rng: &mut StdRng) -> RecordBatch {
    let rows = rng.random_range(0..8);
    let id: Int32Array = (0..rows).map(|_| Some(rng.random_range(1..7))).collect();
    let k: Int32Array = (0..rows).map(|_| rng.random_bool(0.7).then(|| rng.random_range(1..4))).collect();
    let names = [Some("Anna"), Some("Ana"), Some("anna"), Some("Hanna"), Some(""), None];
    let name: StringArray = (0..rows).map(|_| *names.choose(rng).unwrap()).collect();
    let floats = [Some(0.0), Some(-0.0), Some(1.5), Some(f64::NAN), None];
    let f: Float64Array = (0..rows).map(|_| *floats.choose(rng).unwrap()).collect();
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("id", Arc::new(id), true),
        ("k", Arc::new(k), true),
        ("name", Arc::new(name), true),
        ("f", Arc::new(f), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

async fn fresh(seed: u64) -> SessionContext {
    let mut rng = StdRng::seed_from_u64(seed);
    let ctx = session(4, 2);
    ctx.register_table("t", Arc::new(random_table(&mut rng))).unwrap();
    run(&ctx, "CREATE TABLE ok (id INT) AS VALUES (1), (3), (5)").await;
    ctx
}

async fn try_run(ctx: &SessionContext, sql: &str) -> Result<Rows> {
    let frame = ctx.similarity_sql(sql).await?;
    Ok(Rows::new(frame.schema().inner().clone(), frame.collect().await?))
}

async fn run(ctx: &SessionContext, sql: &str) -> Vec<String> {
    try_run(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).texts()
}

/// `all` without as many of each text as `some` holds.
fn without(mut all: Vec<String>, some: &[String]) -> Vec<String> {
    for text in some {
        all.remove(all.iter().position(|other| other == text).unwrap_or_else(|| panic!("{text} is selected")));
    }
    all
}

#[tokio::test]
async fn what_a_condition_selects_is_deleted() {
    for (condition, seed) in CONDITIONS.into_iter().flat_map(|condition| (0..4).map(move |seed| (condition, seed))) {
        let ctx = fresh(seed).await;
        let all = run(&ctx, "SELECT * FROM t").await;
        let selected = run(&ctx, &format!("SELECT * FROM t WHERE {condition}")).await;
        let statement = format!("DELETE FROM t WHERE {condition}");
        run(&ctx, &format!("EXPLAIN {statement}")).await;
        run(&ctx, &format!("EXPLAIN VERBOSE {statement}")).await;
        assert_eq!(run(&ctx, "SELECT * FROM t").await, all, "seed {seed}: EXPLAIN {statement}");
        assert_eq!(run(&ctx, &statement).await, [selected.len().to_string()], "seed {seed}: {statement}");
        assert_eq!(run(&ctx, "SELECT * FROM t").await, without(all, &selected), "seed {seed}: {statement}");
    }
}

/// New values with and without sub-queries, as they are selected.
#[tokio::test]
async fn what_a_condition_selects_is_updated() {
    let sets = [
        ("name = 'x'", "id, k, 'x', f"),
        ("k = id, id = k", "k, id, name, f"),
        ("id = (id + 1) * 2, k = (id + 1) * 3", "(id + 1) * 2, (id + 1) * 3, name, f"),
        ("name = (SELECT max(name) FROM t)", "id, k, (SELECT max(name) FROM t), f"),
        (
            "k = (SELECT max(u.id) FROM t u WHERE u.name = t.name), f = f + 1",
            "id, (SELECT max(u.id) FROM t u WHERE u.name = t.name), name, f + 1",
        ),
        (
            "k = 1 + (SELECT count(*) FROM ok WHERE ok.id = t.id)",
            "id, 1 + (SELECT count(*) FROM ok WHERE ok.id = t.id), name, f",
        ),
    ];
    for (condition, seed) in CONDITIONS.into_iter().zip(0..) {
        for (set, selected) in sets {
            let ctx = fresh(seed).await;
            let all = run(&ctx, "SELECT * FROM t").await;
            let old = run(&ctx, &format!("SELECT * FROM t WHERE {condition}")).await;
            let new = run(&ctx, &format!("SELECT {selected} FROM t WHERE {condition}")).await;
            let statement = format!("UPDATE t SET {set} WHERE {condition}");
            run(&ctx, &format!("EXPLAIN {statement}")).await;
            assert_eq!(run(&ctx, "SELECT * FROM t").await, all, "seed {seed}: EXPLAIN {statement}");
            assert_eq!(run(&ctx, &statement).await, [old.len().to_string()], "seed {seed}: {statement}");
            let mut expected = without(all, &old);
            expected.extend(new);
            expected.sort_unstable();
            assert_eq!(run(&ctx, "SELECT * FROM t").await, expected, "seed {seed}: {statement}");
        }
    }
}

/// The statements that DataFusion's own planner refuses, against those that say the same.
#[tokio::test]
async fn using_from_and_aliases_mean_what_they_do_in_postgresql() {
    for (statement, same) in [
        ("DELETE FROM t AS a WHERE a.id > 3", "DELETE FROM t WHERE id > 3"),
        ("DELETE FROM t USING ok WHERE ok.id = t.id", "DELETE FROM t WHERE id IN (SELECT id FROM ok)"),
        (
            "DELETE FROM t a USING t b, ok WHERE a.name = b.name AND b.id = ok.id",
            "DELETE FROM t WHERE name IN (SELECT t.name FROM t, ok WHERE ok.id = t.id)",
        ),
        (
            "UPDATE t SET k = ok.id + 1, name = 'x' FROM ok WHERE ok.id = t.id AND f > 0",
            "UPDATE t SET k = id + 1, name = 'x' WHERE id IN (SELECT id FROM ok) AND f > 0",
        ),
        (
            "UPDATE t AS a SET name = b.name FROM (SELECT name, max(id) AS id FROM t GROUP BY name) b
             WHERE b.id = a.id AND b.name = a.name",
            "UPDATE t SET name = name",
        ),
    ] {
        for seed in 0..4 {
            let (one, other) = (fresh(seed).await, fresh(seed).await);
            let (counted, expected) = (run(&one, statement).await, run(&other, same).await);
            let no_new_value = same.ends_with("name = name");
            assert!(counted == expected || no_new_value, "seed {seed}: {statement}");
            let rows = "SELECT * FROM t";
            assert_eq!(run(&one, rows).await, run(&other, rows).await, "seed {seed}: {statement}");
        }
    }
}

#[tokio::test]
async fn text_that_only_datafusion_reads_is_right_too() {
    let ctx = fresh(1).await;
    let all = run(&ctx, "SELECT * FROM t").await;
    let selected = run(&ctx, "SELECT * FROM t WHERE id IN (SELECT id FROM ok)").await;
    ctx.sql("DELETE FROM t WHERE id IN (SELECT id FROM ok)").await.unwrap().collect().await.unwrap();
    assert_eq!(run(&ctx, "SELECT * FROM t").await, without(all, &selected));
}

#[tokio::test]
async fn what_cannot_be_told_apart_is_refused_with_a_way() {
    let ctx = fresh(1).await;
    let all = run(&ctx, "SELECT * FROM t").await;
    for (statement, way) in [
        ("DELETE FROM t WHERE id > 0 LIMIT 1", "IN (SELECT id FROM t ORDER BY id LIMIT 10)"),
        ("DELETE FROM t WHERE random() < 2 OR id IN (SELECT id FROM ok)", "CREATE TABLE .. AS SELECT"),
        ("UPDATE t SET f = random() + (SELECT max(f) FROM t)", "CREATE TABLE .. AS SELECT"),
    ] {
        let error = try_run(&ctx, statement).await.unwrap_err().strip_backtrace();
        assert!(error.contains(way), "{statement}: {error}");
        assert_eq!(run(&ctx, "SELECT * FROM t").await, all, "{statement}");
    }
}

/// A table of somebody else's, which sees what it is asked.
#[derive(Debug)]
struct Asked {
    table: MemTable,
    filters: Mutex<Vec<String>>,
}

#[async_trait]
impl TableProvider for Asked {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }

    async fn delete_from(&self, state: &dyn Session, filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.filters.lock().unwrap().extend(filters.iter().map(ToString::to_string));
        self.table.delete_from(state, filters).await
    }
}

#[tokio::test]
async fn any_table_that_deletes_gets_filters_over_its_own_columns() {
    let ctx = session(8, 2);
    let id: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let batch = RecordBatch::try_from_iter([("id", id)]).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let table = Arc::new(Asked { table, filters: Mutex::new(vec![]) });
    ctx.register_table("t", Arc::clone(&table) as _).unwrap();
    let deleted = ctx
        .similarity_sql("DELETE FROM t WHERE id < 2 + 2 AND id IN (SELECT id + 1 FROM t)")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(deleted[0].column(0).as_ref(), &UInt64Array::from(vec![2]));
    assert_eq!(*table.filters.lock().unwrap(), ["id < Int32(4)", "row_value(id)"]);
    let left = ctx.sql("SELECT * FROM t").await.unwrap().collect().await.unwrap();
    assert_eq!(left.iter().flat_map(rows_of).collect::<Vec<_>>(), ["1", "4"]);
    let error = ctx.sql("UPDATE t SET id = 1").await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("UPDATE not supported"), "{error}");
}
