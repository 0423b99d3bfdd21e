//! APPROXIMATE NEAREST: as many neighbours as were asked for, each with its own score, and what EXPLAIN ANALYZE says.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::JoinType;
use datafusion::prelude::{SessionContext, col};
use datafusion_similarity::functions::expr_fn::l2_distance;
use datafusion_similarity::functions::nearest::{Direction, Nearest, Recall};
use datafusion_similarity::{SimilarityContext, SimilarityDataFrame};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::session;

const DIMENSION: usize = 16;
const SCORE: &str = "DISTANCE l2_distance(a.v, b.v)";

/// The neighbours of each left row with their scores.
type Found = HashMap<i64, Vec<(i64, f64)>>;

/// Rows with a vector, some of them NULL, around centres that both tables share; `k` has three values.
fn table(rng: &mut StdRng, rows: usize) -> RecordBatch {
    let centre = |number: usize| {
        let mut rng = StdRng::seed_from_u64(number as u64);
        (0..DIMENSION).map(move |_| rng.random_range(-1.0..1.0)).collect::<Vec<f64>>()
    };
    let vector = |row: usize| {
        let centre = centre(row * 7 % 60);
        (row % 50 != 49).then(|| centre.iter().map(|x| Some(x + rng.random_range(-0.4..0.4))).collect::<Vec<_>>())
    };
    let vectors: Vec<_> = (0..rows).map(vector).collect();
    let column =
        |number: &dyn Fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..rows as i64).map(number))) as ArrayRef;
    let v: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(vectors, DIMENSION as i32));
    RecordBatch::try_from_iter([("id", column(&|id| id)), ("k", column(&|id| id % 3)), ("v", v)]).unwrap()
}

fn tables(seed: u64, partitions: usize) -> SessionContext {
    let context = session(8192, partitions);
    let mut rng = StdRng::seed_from_u64(seed);
    context.register_batch("l", table(&mut rng, 3000)).unwrap();
    context.register_batch("r", table(&mut rng, 14_000)).unwrap();
    context
}

async fn rows(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    context.similarity_sql(sql).await.unwrap().collect().await.unwrap()
}

fn found(batches: Vec<RecordBatch>) -> Found {
    let mut found = Found::new();
    for batch in batches {
        let [left, right] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>().clone());
        let scores = batch.column(2).as_primitive::<Float64Type>();
        for ((left, right), score) in left.iter().zip(&right).zip(scores) {
            let of_left = found.entry(left.unwrap()).or_default();
            of_left.extend(right.map(|right| (right, score.unwrap())));
        }
    }
    found
}

/// The approximate and the exact neighbours by a ranking that goes on with `rest`.
async fn both(context: &SessionContext, (left, join): (&str, &str), k: usize, rest: &str, recall: f64) -> [Found; 2] {
    let query = |word: &str, with: &str| {
        format!(
            "SELECT a.id, b.id, l2_distance(a.v, b.v) FROM {left} a {join} r b {word} NEAREST {k} BY {SCORE} {rest} {with}"
        )
    };
    let some = rows(context, &query("APPROXIMATE", &format!("WITH RECALL {recall}"))).await;
    let exact = rows(context, &query("", "")).await;
    [found(some), found(exact)]
}

/// The mean share of the exact neighbours that were found, none of them with another score than its own.
fn share([some, exact]: &[Found; 2]) -> f64 {
    let mut shares = Vec::new();
    for (left, exact) in exact.iter().filter(|(_, exact)| !exact.is_empty()) {
        let some = some.get(left).map_or(&[][..], Vec::as_slice);
        let among = exact.iter().filter(|neighbour| some.contains(neighbour)).count();
        assert!(some.len() >= exact.len().min(1));
        shares.push(among as f64 / exact.len() as f64);
    }
    shares.iter().sum::<f64>() / shares.len() as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enough_neighbours_are_found() {
    let mut missed = 0;
    for (seed, partitions) in [(1, 1), (2, 2)] {
        let context = tables(seed, partitions);
        for (source, k, rest, recall) in [
            (("l", "JOIN"), 10, "", 0.9),
            (("l", "LEFT JOIN"), 3, "", 0.8),
            (("l", "JOIN"), 5, "THEN BY b.k DESC, b.id WITH TIES", 0.7),
            (("l", "LEFT JOIN"), 5, "ON a.k = b.k", 0.8),
            (("r", "JOIN"), 7, "", 0.95),
            (("r", "JOIN"), 7, "ON a.id <> b.id", 0.9),
            (("r", "LEFT JOIN"), 1, "ON a.k = b.k AND b.id <> a.id", 0.8),
            (("l", "JOIN"), 20, "ON a.id <> b.id / 5", 0.8),
        ] {
            let both = both(&context, source, k, rest, recall).await;
            let share = share(&both);
            assert!(share >= recall, "{share} of {recall}: {source:?} {k} {rest}");
            missed += usize::from(both[0] != both[1]);
            assert_eq!(both[0].len(), both[1].len(), "a row that has a neighbour gets one");
        }
    }
    assert!(missed >= 14, "{missed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_sets_and_a_recall_of_one_miss_nothing() {
    let context = tables(3, 2);
    for (rest, recall) in [
        ("ON a.id < b.id", 0.5),
        ("ON a.k = b.k AND b.id % 2 = a.id % 2", 0.5),
        // many rows have one value, or any number of rows may tie
        ("ON a.k <> b.k", 0.5),
        ("ON a.id <> b.id WITH TIES", 0.5),
        ("ON CASE WHEN a.id > 5 THEN a.id END <> b.id", 1.0),
        ("", 1.0),
    ] {
        let [some, exact] = both(&context, ("l", "JOIN"), 4, rest, recall).await;
        assert!(some == exact, "{rest}");
    }
    let texts = |word: &str, with: &str| {
        format!(
            "SELECT a.id, b.id, 0.0 FROM l a JOIN r b {word} NEAREST 2 BY SIMILARITY \
             jaccard(CAST(a.id AS VARCHAR), CAST(b.id AS VARCHAR), 2) ON a.id < 200 {with}"
        )
    };
    let some = rows(&context, &texts("APPROXIMATE", "WITH RECALL 0.5")).await;
    assert!(found(some) == found(rows(&context, &texts("", "")).await));
    context.sql("SET similarity.enabled = false").await.unwrap();
    let [some, exact] = both(&context, ("l", "JOIN"), 4, "ON a.id < 20", 0.5).await;
    assert!(some == exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recall_is_stated_and_measured() {
    let context = tables(4, 2);
    context.sql("SET similarity.engine = 'cpu'").await.unwrap();
    context.sql("SET datafusion.explain.format = 'indent'").await.unwrap();
    let query = |rest: &str| {
        format!("SELECT a.id, b.id FROM l a JOIN r b APPROXIMATE NEAREST 5 BY {SCORE} {rest} WITH RECALL 0.9")
    };
    let text = async |sql: String| {
        let batches = rows(&context, &sql).await;
        datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
    };
    let plan = text(format!("EXPLAIN {}", query(""))).await;
    assert!(plan.contains("recall=0.9") && plan.contains("recall=at least 0.9 of the neighbours"), "{plan}");
    assert!(plan.contains("clustered blocks"), "{plan}");
    let exact = text(format!("EXPLAIN {}", query("ON a.id < b.id"))).await;
    assert!(!exact.contains("of the neighbours") && !exact.contains("clustered blocks"), "{exact}");
    let others = text(format!("EXPLAIN ANALYZE {}", query("ON a.id <> b.id"))).await;
    assert!(others.contains("clustered blocks of"), "{others}");
    let analyzed = text(format!("EXPLAIN ANALYZE {}", query(""))).await;
    let count = |name: &str| {
        let at = analyzed.find(name).unwrap_or_else(|| panic!("{name} in {analyzed}")) + name.len() + 1;
        let digits: String = analyzed[at..].chars().take_while(|c| c.is_ascii_digit()).collect();
        digits.parse::<usize>().unwrap()
    };
    let (pairs, found, shown) =
        (count("recall_sample_pairs"), count("recall_sample_found"), count("recall_sample_shown"));
    assert!(shown <= found && found <= pairs && shown * 100 >= pairs * 89, "{shown} {found} {pairs}");
    assert!(count("clusters_visited") >= count("clustered_rows"), "{analyzed}");
    assert!(analyzed.contains("clustered blocks of"), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_frames_and_the_table_function_take_a_recall() {
    let context = tables(5, 1);
    let [left, right] = ["l", "r"].map(|name| context.table(name));
    let (left, right) = (left.await.unwrap().alias("a").unwrap(), right.await.unwrap().alias("b").unwrap());
    let nearest = Nearest {
        recall: Recall::new(0.8),
        ..Nearest::new(6, Direction::Distance, l2_distance(col("a.v"), col("b.v")))
    };
    let score = l2_distance(col("a.v"), col("b.v"));
    let frame = left.nearest_join(right, JoinType::Inner, nearest).unwrap();
    let frame = frame.select(vec![col("a.id"), col("b.id").alias("other"), score]).unwrap();
    let by_frame = found(frame.collect().await.unwrap());
    let [some, exact] = both(&context, ("l", "JOIN"), 6, "", 0.8).await;
    let function = format!(
        "SELECT id, id_right, l2_distance(v, v_right) FROM nearest('l a', 'r b', 6, '{SCORE} WITH RECALL 0.8')"
    );
    let by_function = found(context.sql(&function).await.unwrap().collect().await.unwrap());
    assert!(by_frame == some && by_function == some && some != exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_stays_keeps_what_each_query_asks_for() {
    let context = tables(6, 2);
    rows(&context, "CREATE SIMILARITY INDEX i ON r (v)").await;
    for (k, rest, recall) in [
        (1, "", 0.5),
        (10, "", 0.9),
        (1, "ON a.id <> b.id", 0.5),
        (1, "ON a.id <> b.id / 10", 0.9),
        (10, "ON a.id <> b.id / 10", 0.9),
        (10, "", 0.95),
    ] {
        for _ in 0..2 {
            let share = share(&both(&context, ("l", "JOIN"), k, rest, recall).await);
            assert!(share >= recall, "{share} of {recall}: {k} {rest}");
        }
    }
}
