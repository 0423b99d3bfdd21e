//! Nested loops on all cores: the plan, and the same rows as the stock nested loop.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;

use crate::session;

/// 1,500 left rows, 900 right ones with a NULL each seven, all of them in one partition.
const TABLES: [&str; 2] = [
    "CREATE TABLE l AS SELECT value AS id, value % 97 AS x, 'name ' || value AS s FROM generate_series(1, 1500)",
    "CREATE TABLE r AS SELECT value AS id, CASE WHEN value % 7 > 0 THEN value % 89 END AS x FROM generate_series(1, 900)",
];

async fn context(cores: usize) -> SessionContext {
    let context = session(8192, cores);
    for table in TABLES {
        run(&context, table).await;
    }
    context
}

async fn run(context: &SessionContext, query: &str) -> String {
    let batches = context.sql(query).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn plan(context: &SessionContext, query: &str) -> String {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The rows in any order.
fn sorted(table: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = table.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dealt_rows_have_the_same_partners() {
    let context = context(3).await;
    let joins = [
        "JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "RIGHT SEMI JOIN",
        "LEFT ANTI JOIN",
        "RIGHT ANTI JOIN",
    ];
    for join in joins {
        let columns = match join.split(' ').nth(1) {
            Some("SEMI" | "ANTI") if join.starts_with("LEFT") => "l.id, l.s",
            Some("SEMI" | "ANTI") => "r.id, r.x",
            _ => "l.id, l.s, r.id AS other, r.x",
        };
        let query = format!("SELECT {columns} FROM l {join} r ON (l.x * 31 + r.x * 17) % 1009 = 5");
        assert!(plan(&context, &query).await.contains("SmallBatchesExec: rows=128"), "{join}");
        let dealt = run(&context, &query).await;
        context.sql("SET similarity.enabled = false").await.unwrap();
        assert!(!plan(&context, &query).await.contains("SmallBatchesExec"), "{join}");
        let stock = run(&context, &query).await;
        context.sql("SET similarity.enabled = true").await.unwrap();
        assert!(stock.lines().count() > 10, "{join}");
        assert_eq!(sorted(&dealt), sorted(&stock), "{join}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_in_one_partition_is_joined_on_all_cores() {
    let context = context(4).await;
    let query = "SELECT count(*) FROM l JOIN r ON l.x * r.x % 11 = 3";
    let dealt = plan(&context, query).await;
    assert!(dealt.contains("RepartitionExec: partitioning=RoundRobinBatch(4)"), "{dealt}");
    assert_eq!(dealt.matches("SmallBatchesExec").count(), 1, "{dealt}");
    let ordered = "SELECT l.id FROM l JOIN r ON l.x * r.x % 11 = 3 ORDER BY l.id, r.id LIMIT 3";
    assert!(plan(&context, ordered).await.contains("SmallBatchesExec"));
    assert_eq!(run(&context, ordered).await.lines().count(), 7);
}

#[tokio::test]
async fn few_pairs_and_one_core_stay_as_they_are() {
    let few = "SELECT count(*) FROM l JOIN (SELECT * FROM r LIMIT 9) AS r ON l.x * r.x % 11 = 3";
    assert!(!plan(&context(4).await, few).await.contains("SmallBatchesExec"));
    let query = "SELECT count(*) FROM l JOIN r ON l.x * r.x % 11 = 3";
    assert!(!plan(&context(1).await, query).await.contains("SmallBatchesExec"));
    // processes of their own would each deal out all rows
    let context = context(4).await;
    context.sql("SET similarity.independent_partitions = true").await.unwrap();
    assert!(!plan(&context, query).await.contains("SmallBatchesExec"));
}
