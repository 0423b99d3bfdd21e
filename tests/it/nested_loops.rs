//! Nested loops on all cores: the plan, and the same rows as the stock nested loop.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{collect, displayable};
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
        let [dealt, stock] = on_and_off(&context, &query).await;
        assert!(stock.lines().count() > 10, "{join}");
        assert_eq!(sorted(&dealt), sorted(&stock), "{join}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_in_one_partition_is_joined_on_all_cores() {
    let context = context(4).await;
    let query = "SELECT count(*) FROM l JOIN r ON l.x * r.x % 11 = 3";
    let dealt = plan(&context, query).await;
    assert!(dealt.contains("DealtLoopExec: partitions="), "{dealt}");
    assert!(dealt.contains("RepartitionExec: partitioning=RoundRobinBatch(4)"), "{dealt}");
    assert_eq!(dealt.matches("SmallBatchesExec").count(), 1, "{dealt}");
    let ordered = "SELECT l.id FROM l JOIN r ON l.x * r.x % 11 = 3 ORDER BY l.id, r.id LIMIT 3";
    assert!(plan(&context, ordered).await.contains("SmallBatchesExec"));
    assert_eq!(run(&context, ordered).await.lines().count(), 7);
}

/// Queries above whose nested loop an operator counts on how the right rows are divided, by values or at all.
const DIVIDED: [&str; 7] = [
    "SELECT k, count(*), min(c), max(c) FROM (SELECT k, sum(1) OVER (ORDER BY k) AS c FROM (SELECT 1 AS k, v FROM big
     UNION ALL SELECT 2 AS k, v FROM big UNION ALL SELECT 3 AS k, v FROM big UNION ALL SELECT 4 AS k, v FROM big) u
     WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.id <= 60 AND (l.id * u.v) % 1000 = 7)) GROUP BY k",
    "SELECT k, count(*) FROM (SELECT g.k FROM numbered g WHERE EXISTS (SELECT 1 FROM l WHERE (l.x + g.v + g.s) % 977 = 3))
     GROUP BY k",
    "SELECT DISTINCT k FROM numbered g WHERE v = 3 OR EXISTS (SELECT 1 FROM l WHERE (l.x + g.v + g.s) % 977 = 3)",
    "SELECT k, count(*) FROM l RIGHT JOIN numbered g ON l.x = g.v + 100000 - g.s * 3 OR l.x * g.v = -1 GROUP BY k",
    "SELECT k, max(n) FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM l JOIN numbered g
     ON (l.x + g.v * g.s) % 9973 = 3) GROUP BY k",
    "SELECT c.k, count(*) FROM (SELECT g.k FROM l JOIN (SELECT k, sum(v) AS s FROM big GROUP BY k) g ON l.x < g.s) j
     JOIN (SELECT k, count(*) AS m FROM big GROUP BY k) c ON j.k = c.k GROUP BY c.k",
    "WITH RECURSIVE steps(n) AS (SELECT 1 UNION ALL SELECT steps.n + 1 FROM steps JOIN r ON r.id * 2 < steps.n * 5 - r.id
     AND r.id = 1 AND steps.n < 20) SELECT n, count(*) FROM steps GROUP BY n",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_above_find_their_rows_divided_as_planned() {
    let context = context(4).await;
    run(&context, "CREATE TABLE big AS SELECT value % 10 AS k, value AS v FROM generate_series(1, 20000)").await;
    run(&context, "CREATE VIEW numbered AS SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS s FROM big")
        .await;
    run(&context, "SET datafusion.optimizer.hash_join_single_partition_threshold = 0").await;
    run(&context, "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0").await;
    for query in DIVIDED {
        let [on, off] = on_and_off(&context, query).await;
        assert!(off.lines().count() > 5, "{query}");
        assert_eq!(sorted(&on), sorted(&off), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_above_loops_are_dealt_too() {
    let context = context(3).await;
    let query = "SELECT l.id, r.id AS other, m.id AS third FROM l JOIN r ON (l.x * 31 + r.x * 17) % 1009 = 5
                 JOIN l m ON (l.id + m.id * r.id) % 99991 = 7";
    assert_eq!(plan(&context, query).await.matches("DealtLoopExec").count(), 2);
    let [on, off] = on_and_off(&context, query).await;
    assert!(off.lines().count() > 5);
    assert_eq!(sorted(&on), sorted(&off));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_with_a_limit_runs_the_stock_loop() {
    let context = context(4).await;
    let query = "SELECT l.id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE (l.x * 31 + r.x * 17) % 1009 = 5)";
    let whole = run(&context, query).await;
    run(&context, "SET datafusion.runtime.memory_limit = '40M'").await;
    assert!(plan(&context, query).await.contains("DealtLoopExec"));
    let physical = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&physical), context.task_ctx()).await.unwrap();
    assert_eq!(sorted(&pretty_format_batches(&batches).unwrap().to_string()), sorted(&whole));
    // what runs is the loop without dealt rows, whose operators count nothing
    let text = DisplayableExecutionPlan::with_metrics(physical.as_ref()).indent(false).to_string();
    let cut = text.lines().find(|line| line.contains("NestedLoopJoinExec")).unwrap();
    assert!(!cut.contains("output_rows="), "{text}");
}

/// What `query` returns, and what stock DataFusion does.
async fn on_and_off(context: &SessionContext, query: &str) -> [String; 2] {
    let on = run(context, query).await;
    run(context, "SET similarity.enabled = false").await;
    let off = run(context, query).await;
    run(context, "SET similarity.enabled = true").await;
    [on, off]
}

#[tokio::test]
async fn few_pairs_and_one_core_stay_as_they_are() {
    let few = "SELECT count(*) FROM l JOIN (SELECT * FROM r LIMIT 9) AS r ON l.x * r.x % 11 = 3";
    assert!(!plan(&context(4).await, few).await.contains("SmallBatchesExec"));
    let query = "SELECT count(*) FROM l JOIN r ON l.x * r.x % 11 = 3";
    assert!(!plan(&context(1).await, query).await.contains("SmallBatchesExec"));
    // processes of their own would each deal out all rows
    let context = context(4).await;
    for (option, value, default) in [("independent_partitions", true, false), ("enabled", false, true)] {
        run(&context, &format!("SET similarity.{option} = {value}")).await;
        assert!(!plan(&context, query).await.contains("SmallBatchesExec"), "{option}");
        run(&context, &format!("SET similarity.{option} = {default}")).await;
    }
    run(&context, "SET datafusion.optimizer.enable_round_robin_repartition = false").await;
    assert!(!plan(&context, query).await.contains("SmallBatchesExec"));
}
