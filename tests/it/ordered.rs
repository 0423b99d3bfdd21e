//! Joins keep the order of a probe side that has one: no sort is planned, the rows are stock's, and they are in order.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use datafusion::arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::SortExpr;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::rows::rows_of;
use crate::{session, session_of};

/// g (a few values and NULL), id (with duplicates and gaps), s (near duplicates and NULL), x, y.
fn table(rng: &mut StdRng, rows: usize) -> RecordBatch {
    let groups = ["u", "v", "w"];
    let g: StringArray = (0..rows).map(|_| groups.choose(rng).copied().filter(|_| rng.random_bool(0.9))).collect();
    let ids: Int64Array = (0..rows).map(|_| Some(rng.random_range(0..rows as i64))).collect();
    let mut text = || (0..rng.random_range(0..6)).map(|_| *['a', 'b', 'é'].choose(rng).unwrap()).collect::<String>();
    let s: StringArray = (0..rows).map(|row| Some(text()).filter(|_| row % 11 != 5)).collect();
    let [x, y] = [0, 1].map(|_| (0..rows).map(|_| f64::from(rng.random_range(0..40))).collect::<Vec<_>>());
    let columns = [
        ("g", Arc::new(g) as ArrayRef),
        ("id", Arc::new(ids)),
        ("s", Arc::new(s)),
        ("x", Arc::new(Float64Array::from(x))),
        ("y", Arc::new(Float64Array::from(y))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The rows in so many partitions, every one of them in the declared order.
///
/// A table in memory whose batches DataFusion can spread over more partitions loses its declared order by that.
fn register(context: &SessionContext, name: &str, rows: &RecordBatch, partitions: usize, order: &[SortExpr]) {
    let by = order.iter().map(|sort| {
        let column = sort.expr.try_as_col().unwrap().name();
        let options = datafusion::arrow::compute::SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
        SortColumn { values: Arc::clone(rows.column_by_name(column).unwrap()), options: Some(options) }
    });
    let sorted = match order {
        [] => rows.clone(),
        _ => take_record_batch(rows, &lexsort_to_indices(&by.collect::<Vec<_>>(), None).unwrap()).unwrap(),
    };
    let part = |part: usize| {
        let rows: UInt32Array = (part as u32..sorted.num_rows() as u32).step_by(partitions).map(Some).collect();
        let rows = take_record_batch(&sorted, &rows).unwrap();
        let half = if partitions < context.state().config().target_partitions() { 0 } else { rows.num_rows() / 2 };
        vec![rows.slice(0, half), rows.slice(half, rows.num_rows() - half)][usize::from(half == 0)..].to_vec()
    };
    let table = MemTable::try_new(rows.schema(), (0..partitions).map(part).collect()).unwrap();
    let table = table.with_sort_order(if order.is_empty() { Vec::new() } else { vec![order.to_vec()] });
    context.register_table(name, Arc::new(table) as Arc<dyn TableProvider>).unwrap();
}

/// The rows, and the plan.
async fn run(context: &SessionContext, query: &str) -> (RecordBatch, String) {
    let frame = context.similarity_sql(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let plan = frame.create_physical_plan().await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
    let batches = batches.unwrap_or_else(|error| panic!("{query}: {error}\n{text}"));
    (concat_batches(&plan.schema(), &batches).unwrap(), text)
}

async fn set(context: &SessionContext, option: &str) {
    context.sql(&format!("SET {option}")).await.unwrap().collect().await.unwrap();
}

/// Queries over a large table `a` and a small one `b`, both in the order of `id`, and whether they need no sort.
const QUERIES: [(&str, bool); 26] = [
    ("SELECT a.id, a.s, b.id, b.s FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 ORDER BY a.id", true),
    ("SELECT b.id AS t, b.s, a.id, a.s FROM b JOIN a ON levenshtein(a.s, b.s) <= 1 ORDER BY a.id", true),
    ("SELECT a.id, b.id FROM b JOIN a ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g AND a.x < b.y ORDER BY a.id", true),
    ("SELECT a.id, b.id FROM a JOIN b ON jaccard(a.s, b.s, 2) >= 0.5 OR (a.g = b.g AND a.x = b.x) ORDER BY a.id", true),
    ("SELECT a.id, b.id FROM a JOIN b ON abs(a.x - b.x) <= 1 AND abs(a.y - b.y) <= 1 ORDER BY a.id", true),
    ("SELECT a.id, a.s, b.s FROM a LEFT JOIN b ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g ORDER BY a.id", true),
    ("SELECT a.id, a.s, b.s FROM b RIGHT JOIN a ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g ORDER BY a.id", true),
    ("SELECT a.id, a.s FROM a WHERE EXISTS (SELECT 1 FROM b WHERE levenshtein(a.s, b.s) <= 1) ORDER BY a.id", true),
    ("SELECT a.id, a.s FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE levenshtein(a.s, b.s) <= 1) ORDER BY a.id", true),
    ("SELECT b.id, b.s FROM b WHERE EXISTS (SELECT 1 FROM a WHERE levenshtein(a.s, b.s) < 1) ORDER BY b.id", true),
    ("SELECT b.id, b.s FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE levenshtein(a.s, b.s) < 1) ORDER BY b.id", true),
    (
        "SELECT b.id, b.s FROM b WHERE EXISTS (SELECT 1 FROM b AS c WHERE levenshtein(b.s, c.s) < 1 AND b.id < c.id) ORDER BY b.id",
        true,
    ),
    // the last column is what the rows are in the order of, whatever else comes out
    ("SELECT b.s, a.id FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 ORDER BY a.id", true),
    ("SELECT x.id FROM (SELECT a.s, a.id, b.s AS t FROM a JOIN b ON levenshtein(a.s, b.s) <= 1) x ORDER BY x.id", true),
    ("SELECT a.id, row_number() OVER (ORDER BY a.id) FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 ORDER BY a.id", true),
    ("SELECT a.id FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 WHERE a.g = 'u' AND b.g = 'u' ORDER BY a.g, a.id", true),
    ("SELECT a.id FROM a JOIN b NEAREST 3 BY DISTANCE l2_distance([a.x, a.y], [b.x, b.y]) ORDER BY a.id", true),
    ("SELECT a.id, b.s FROM a LEFT JOIN b NEAREST 2 BY SIMILARITY jaccard(a.s, b.s, 2) ORDER BY a.id", true),
    // sorted after all
    ("SELECT b.id FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 ORDER BY b.id", false),
    ("SELECT a.s FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g ORDER BY a.s", false),
    ("SELECT a.id, b.id FROM a FULL JOIN b ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g ORDER BY a.id", false),
    ("SELECT b.id, a.id FROM b LEFT JOIN a ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g ORDER BY b.id", false),
    ("SELECT a.id FROM b RIGHT SEMI JOIN a ON levenshtein(a.s, b.s) < 1 ORDER BY a.id", false),
    ("SELECT a.s, a.id FROM b RIGHT ANTI JOIN a ON levenshtein(a.s, b.s) < 1 ORDER BY a.s", false),
    ("SELECT a.id, b.x FROM a JOIN b ON levenshtein(a.s, b.s) <= 1 ORDER BY a.id, b.x", false),
    ("SELECT a.id, c.id FROM a JOIN a AS c ON levenshtein(a.s, c.s) <= 1 AND a.id < c.id ORDER BY a.id", false),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_stock_in_order() {
    let mut rng = StdRng::seed_from_u64(41);
    let (a, b) = (table(&mut rng, 300), table(&mut rng, 90));
    let by_id = [col("id").sort(true, false)];
    let stock = session(8192, 1);
    set(&stock, "similarity.enabled = false").await;
    register(&stock, "a", &a, 1, &[]);
    register(&stock, "b", &b, 1, &[]);
    for (batch_size, partitions, parts) in [(1, 1, 1), (7, 3, 1), (64, 2, 3), (8192, 1, 1), (8192, 2, 2)] {
        let context = session(batch_size, partitions);
        register(&context, "a", &a, parts, &by_id);
        register(&context, "b", &b, parts, &by_id);
        for (query, unsorted) in QUERIES {
            let label = format!("{query} in batches of {batch_size}, {partitions} partitions");
            let (found, plan) = run(&context, query).await;
            assert!(plan.contains(", engine="), "{label}\n{plan}");
            // several partitions of a side that is collected are not merged in order
            let unsorted = unsorted && (parts == 1 || !query.starts_with("SELECT b.id, b.s FROM b WHERE"));
            assert_eq!(!plan.contains("SortExec"), unsorted, "{label}\n{plan}");
            if unsorted {
                assert!(plan.contains("order=kept"), "{label}\n{plan}");
            }
            let (expected, _) = run(&stock, query).await;
            let keys = |rows: &RecordBatch| {
                let schema = rows.schema();
                let last = query.rsplit([' ', '.']).next().unwrap();
                rows_of(&rows.project(&[schema.index_of(last).unwrap()]).unwrap())
            };
            assert_eq!(keys(&found), keys(&expected), "{label}\n{plan}");
            let sorted = |rows: &RecordBatch| {
                let mut rows = rows_of(rows);
                rows.sort_unstable();
                rows
            };
            if !query.contains("row_number") {
                assert_eq!(sorted(&found), sorted(&expected), "{label}\n{plan}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_several_columns() {
    let mut rng = StdRng::seed_from_u64(42);
    let (a, b) = (table(&mut rng, 200), table(&mut rng, 50));
    for order in [
        [col("g").sort(false, true), col("id").sort(true, false)],
        [col("x").sort(true, true), col("g").sort(true, true)],
    ] {
        let (context, stock) = (session(16, 2), session(8192, 1));
        set(&stock, "similarity.enabled = false").await;
        for (context, order) in [(&context, order.as_slice()), (&stock, &[])] {
            register(context, "a", &a, 1, order);
            register(context, "b", &b, 1, &[]);
        }
        let by: Vec<_> =
            order.iter().map(|sort| format!("a.{}", sort.to_string().replace("NULLS", " NULLS"))).collect();
        let columns: Vec<_> = order.iter().map(|sort| format!("a.{}", sort.expr)).collect();
        let query = format!(
            "SELECT {} FROM a LEFT JOIN b ON levenshtein(a.s, b.s) <= 1 AND a.g = b.g ORDER BY {}",
            columns.join(", "),
            by.join(", ")
        );
        let ((found, plan), (expected, _)) = (run(&context, &query).await, run(&stock, &query).await);
        assert!(!plan.contains("SortExec") && plan.contains("order=kept (left)"), "{query}\n{plan}");
        assert_eq!(rows_of(&found), rows_of(&expected), "{query}\n{plan}");
    }
}

/// Nothing is claimed of a column that is not there any more, nor of an input without an order.
#[tokio::test]
async fn no_order_is_claimed_beyond_what_is_known() {
    let mut rng = StdRng::seed_from_u64(43);
    let (a, b) = (table(&mut rng, 60), table(&mut rng, 20));
    let context = session(8192, 1);
    register(&context, "a", &a, 1, &[col("id").sort(true, false)]);
    register(&context, "b", &b, 1, &[col("id").sort(true, false)]);
    register(&context, "c", &a, 1, &[]);
    let claimed = async |query: &str| {
        let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
        let text = displayable(plan.as_ref()).indent(false).to_string();
        (plan.properties().output_ordering().map(ToString::to_string), text.contains("order="))
    };
    let join = "a JOIN b ON levenshtein(a.s, b.s) <= 1 AND a.id <> b.id";
    assert_eq!(claimed(&format!("SELECT b.s, a.id FROM {join}")).await, (Some("id@1 ASC NULLS LAST".into()), true));
    assert_eq!(claimed(&format!("SELECT b.s, a.s FROM {join}")).await, (None, true));
    assert_eq!(claimed(&format!("SELECT b.id FROM {join}")).await, (None, true));
    assert_eq!(claimed("SELECT c.id FROM c JOIN b ON levenshtein(c.s, b.s) <= 1").await, (None, false));
    // the other side has one value of g, but NULLs stand beside it (stock overlooks them, so it is no oracle here)
    let query = "SELECT c.g, a.id FROM a LEFT JOIN (SELECT * FROM b WHERE g = 'u') c ON levenshtein(a.s, c.s) <= 1 \
                 ORDER BY c.g, a.id";
    let (found, plan) = run(&context, query).await;
    let alone: Vec<bool> = (0..found.num_rows()).map(|row| found.column(0).is_null(row)).collect();
    assert!(alone.is_sorted() && alone.contains(&true) && !alone[0] && plan.contains("order=kept"), "{plan}");
    // the rows are still in the order that the query asks for
    let query = format!("SELECT b.s, a.s FROM {join} ORDER BY a.id");
    let plan = run(&context, &query).await.1;
    assert!(!plan.contains("SortExec") && plan.contains("order=kept"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_come_nearest_first() {
    let mut rng = StdRng::seed_from_u64(44);
    let (a, b) = (table(&mut rng, 500), table(&mut rng, 700));
    let context = session(32, 3);
    let rows: Int64Array = (0..a.num_rows() as i64).map(Some).collect();
    let columns = [("row", Arc::new(rows) as ArrayRef), ("x", Arc::clone(a.column(3))), ("y", Arc::clone(a.column(4)))];
    register(&context, "a", &RecordBatch::try_from_iter(columns).unwrap(), 1, &[col("row").sort(true, false)]);
    register(&context, "b", &b, 1, &[]);
    for condition in ["", " ON b.x < a.x + 1"] {
        let score = "l2_distance([a.x, a.y], [b.x, b.y])";
        let query = format!(
            "SELECT a.row, {score} AS d FROM a LEFT JOIN b NEAREST 4 BY DISTANCE {score}{condition} ORDER BY a.row"
        );
        let (found, plan) = run(&context, &query).await;
        assert!(!plan.contains("SortExec"), "{plan}");
        let rows = datafusion::common::cast::as_int64_array(found.column(0)).unwrap();
        let distances = datafusion::common::cast::as_float64_array(found.column(1)).unwrap();
        let keys: Vec<_> = rows.values().iter().zip(distances.values()).collect();
        assert!(keys.is_sorted_by(|a, b| a <= b), "{plan}");
        assert!(found.num_rows() >= 500);
    }
}

/// More pairs than are held at once, and more than the pool grants: fewer rows are probed together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pairs() {
    let rows = |count: i64| {
        let id = Int64Array::from_iter_values(0..count);
        let s = StringArray::from_iter_values((0..count).map(|_| "same"));
        RecordBatch::try_from_iter([("id", Arc::new(id) as ArrayRef), ("s", Arc::new(s))]).unwrap()
    };
    for (bytes, a, b) in [(1 << 30, 2500, 2000), (2 << 20, 1000, 600), (400 << 10, 40, 35)] {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes))).build_arc();
        let config = SessionConfig::new().with_target_partitions(1);
        let context = session_of(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime.unwrap()));
        set(&context, &format!("similarity.max_candidates = {}", a * b * 9 / 4)).await;
        register(&context, "a", &rows(a), 1, &[col("id").sort(true, false)]);
        register(&context, "b", &rows(b), 1, &[]);
        for join in ["JOIN", "LEFT JOIN"] {
            let query = format!("SELECT a.id FROM a {join} b ON levenshtein(a.s, b.s) <= 1 ORDER BY a.id");
            let (found, plan) = run(&context, &query).await;
            assert!(!plan.contains("SortExec"), "{plan}");
            let ids = datafusion::common::cast::as_int64_array(found.column(0)).unwrap();
            assert_eq!(ids.len() as i64, a * b);
            assert!(ids.values().is_sorted());
            let first = format!("{query} LIMIT 3");
            assert_eq!(rows_of(&run(&context, &first).await.0), ["0", "0", "0"]);
        }
    }
}
