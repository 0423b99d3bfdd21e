//! `clusters` and `duplicates` with `similarity.engine = 'cuda'`: the same rows as the CPU's, as in `cuda`.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use futures::StreamExt;
use similarity_cuda::Device;

use crate::cuda::{on_a_device, set_engine, set_memory};
use crate::session;

/// Links as queries of two or three columns.
const GRAPHS: [&str; 8] = [
    // a path, and the same links the other way round
    "SELECT value - 20000 AS a, value - 19999 AS b FROM generate_series(1, 40000)
     UNION ALL SELECT value - 19999, value - 20000 FROM generate_series(1, 40000, 3)",
    // stars, links that are NULL at one end or both, and ids that are linked with themselves
    "SELECT CASE WHEN value % 7 <> 0 THEN value % 50 END AS a, CASE WHEN value % 5 <> 0 THEN value END AS b
     FROM generate_series(1, 30000) UNION ALL SELECT value, value + 0 FROM generate_series(50000, 52000)",
    // a score that is NULL links nothing
    "SELECT value AS a, value + 1 AS b, CASE WHEN value % 10 <> 0 THEN 0.5 END AS score FROM generate_series(1, 20000)",
    // at random, over all numbers
    "SELECT value * 6700417 % 20011 * 461168601842738 AS a, value * 2147483647 % 20011 * 461168601842738 AS b
     FROM generate_series(1, 20000)",
    "SELECT arrow_cast(value % 250 - 125, 'Int8') AS a, arrow_cast(value * 31 % 250 - 125, 'Int8') AS b
     FROM generate_series(1, 300, 4)",
    // beyond all numbers with a sign
    "SELECT arrow_cast(arrow_cast(value, 'UInt64') * 18446744073709551, 'UInt64') AS a,
            arrow_cast(arrow_cast(value / 3, 'UInt64') * 18446744073709551, 'UInt64') AS b
     FROM generate_series(1, 1000)",
    "SELECT arrow_cast(arrow_cast(value % 900, 'Int32'), 'Date32') AS a,
            arrow_cast(arrow_cast(value / 2, 'Int32'), 'Date32') AS b FROM generate_series(1, 1000)",
    "SELECT value AS a, value AS b FROM generate_series(1, 0)",
];

fn clusters(links: &str) -> String {
    format!("SELECT id, cluster_id FROM clusters('{}') ORDER BY id", links.replace('\'', "''"))
}

/// The rows, and the plan as it is after that.
async fn rows_and_plan(context: &SessionContext, query: &str) -> (String, String) {
    let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    (pretty_format_batches(&batches).unwrap().to_string(), displayable(plan.as_ref()).indent(true).to_string())
}

async fn explained(context: &SessionContext, query: &str) -> String {
    let batches = context.similarity_sql(query).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_have_the_same_rows() {
    if !on_a_device("components::clusters_have_the_same_rows") {
        return;
    }
    let context = session(1000, 3);
    for links in GRAPHS {
        let query = clusters(links);
        set_engine(&context, "cpu").await;
        let (expected, plan) = rows_and_plan(&context, &query).await;
        assert!(plan.contains("LinksExec: task=clusters, method=components, engine=cpu\n"), "{plan}");
        set_engine(&context, "cuda").await;
        let (found, plan) = rows_and_plan(&context, &query).await;
        assert!(plan.contains("engine=cuda:0 ("), "{plan}");
        assert!(found == expected, "{links}");
        // with few bytes of memory, wherever they end
        for kilobytes in [0, 60, 250, 700, 1500] {
            set_memory(&context, kilobytes.max(1)).await;
            let (found, plan) = rows_and_plan(&context, &query).await;
            assert!(found == expected, "{links} in {kilobytes} kB: {plan}");
        }
        set_memory(&context, 1 << 20).await;
    }
    assert_eq!(Device::open(0).unwrap().reserved(), 0);
    let table = "CREATE TABLE t AS SELECT value AS id, md5(to_hex(value / 3)) AS s FROM generate_series(1, 3000)";
    context.similarity_sql(table).await.unwrap().collect().await.unwrap();
    let query = "SELECT id, cluster_id FROM duplicates('t', 'id', 'levenshtein(a.s, b.s) <= 1') ORDER BY id";
    set_engine(&context, "cuda").await;
    let (found, plan) = rows_and_plan(&context, query).await;
    assert!(plan.contains("task=clusters, method=components, engine=cuda:0 ("), "{plan}");
    set_engine(&context, "cpu").await;
    assert_eq!(found, rows_and_plan(&context, query).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_which_engine_finds_clusters() {
    if !on_a_device("components::explain_says_which_engine_finds_clusters") {
        return;
    }
    let context = session(1000, 2);
    let query = clusters(GRAPHS[0]);
    let texts = clusters("SELECT to_hex(value) AS a, to_hex(value + 1) AS b FROM generate_series(1, 100)");
    let star = "SELECT * FROM clusters('SELECT value AS a, value + 1 AS b FROM generate_series(1, 100)', 'star')";
    let explain = |query: &str| format!("EXPLAIN FORMAT INDENT {query}");
    let plan = explained(&context, &explain(&query)).await;
    assert!(plan.contains("LinksExec: task=clusters, method=components, engine=cuda:0 "), "{plan}");
    let plan = explained(&context, &explain(&texts)).await;
    assert!(plan.contains("engine=cpu (no kernels for this type, Utf8"), "{plan}");
    let plan = explained(&context, &explain(star)).await;
    assert!(plan.contains("method=star, engine=cpu "), "{plan}");
    let plan = explained(&context, &format!("EXPLAIN ANALYZE {query}")).await;
    for said in ["engine=cuda:0 (", "links=53.33 K", "device_bytes_in=853.3 K", "kernel_time=", "device_tasks="] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    set_memory(&context, 1).await;
    let plan = explained(&context, &format!("EXPLAIN ANALYZE {query}")).await;
    let said = "engine=cpu (the device has no memory left for it)";
    assert!(plan.contains(said) && plan.contains("cpu_fallbacks=1"), "{plan}");
    set_engine(&context, "auto").await;
    let plan = explained(&context, &explain(&query)).await;
    let said = "engine=cpu, or cuda:0 from 33554432 links on, 1048576 links once it is open";
    assert!(plan.contains(said), "{plan}");
    let plan = explained(&context, &format!("EXPLAIN ANALYZE {query}")).await;
    assert!(plan.contains("engine=cpu (about ") && plan.contains(" links, a device pays from "), "{plan}");
}

/// A query that nobody reads any more gives the device's memory back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_clusters_give_their_memory_back() {
    if !on_a_device("components::cancelled_clusters_give_their_memory_back") {
        return;
    }
    let context = session(8192, 2);
    let links = "SELECT value % 100003 AS a, value * 31 % 100003 AS b FROM generate_series(1, 300000000)";
    let frame = context.similarity_sql(&format!("SELECT count(*) FROM clusters('{links}')")).await.unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    let device = Device::open(0).unwrap();
    let begun = async {
        while device.reserved() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = stream.next() => panic!("so many links take longer"),
        () = begun => drop(stream),
    }
    for _ in 0..3000 {
        if device.reserved() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are left", device.reserved());
}
