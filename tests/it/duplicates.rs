//! `duplicates` and `extend_duplicates` against clusters of the nested loop's pairs, over random histories.

use std::collections::BTreeMap;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use crate::{cases, session};

const CONDITIONS: [&str; 4] = [
    "levenshtein(a.name, b.name) <= 1",
    "a.k = b.k AND jaro_winkler_similarity(a.name, b.name) >= 0.8",
    "containment(a.name, b.name, 2) = 1 AND length(a.name) < length(b.name)",
    "(a.k = b.k AND levenshtein(a.name, b.name) <= 2) OR jaccard(a.name, b.name, 2) >= 0.6",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_of_new_rows_are_those_of_all_rows_at_once() {
    for seed in 0..cases(50) as u64 {
        history(seed).await;
    }
}

async fn history(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let condition = *CONDITIONS.choose(&mut rng).unwrap();
    let context = session(64, 2);
    let mut ids: Vec<i64> = (1..=rng.random_range(2..40)).collect();
    ids.shuffle(&mut rng);
    let parts = rng.random_range(1..4);
    let rows: Vec<String> = ids.iter().map(|id| row(&mut rng, *id, parts)).collect();
    run(&context, &format!("CREATE TABLE t (id BIGINT, name VARCHAR, k INT, part INT) AS VALUES {}", rows.join(", ")))
        .await;
    let part = |n: usize| format!("SELECT id, name, k FROM t WHERE part = {n}");
    let quoted = condition.replace('\'', "''");
    run(&context, &format!("CREATE TABLE c0 AS SELECT * FROM duplicates('{}', 'id', '{quoted}')", part(0))).await;
    let mut last = clusters(&context, "SELECT id, cluster_id, cluster_id AS other FROM c0").await;
    for n in 1..parts {
        let old = n - 1;
        let extended = format!("extend_duplicates('c{old}', '{}', 'id', '{quoted}')", part(n));
        let found = clusters(&context, &format!("SELECT id, cluster_id, previous_cluster_id FROM {extended}")).await;
        for (id, (_, previous)) in &found {
            assert_eq!(*previous, last.get(id).map(|(cluster, _)| *cluster), "seed {seed}, id {id}");
        }
        for members in by_cluster(&found).values() {
            let previous = members.iter().filter_map(|id| found[id].1).min();
            let name = previous.unwrap_or_else(|| *members.iter().min().unwrap());
            assert!(members.iter().all(|id| found[id].0 == name), "seed {seed}: {members:?} should be {name}");
        }
        let columns = "id, name, k, cluster_id";
        run(&context, &format!("CREATE TABLE c{n} AS SELECT {columns} FROM {extended}")).await;
        last = found;
    }
    let all = format!(
        "SELECT id, cluster_id, cluster_id AS other FROM duplicates('SELECT id, name, k FROM t', 'id', '{quoted}')"
    );
    let at_once = clusters(&context, &all).await;
    assert_eq!(at_once.len(), ids.len());
    let sets = |of: &BTreeMap<i64, (i64, Option<i64>)>| {
        let mut sets: Vec<Vec<i64>> = by_cluster(of).into_values().collect();
        sets.sort();
        sets
    };
    assert_eq!(sets(&last), sets(&at_once), "seed {seed}, {condition}");
    run(&context, "SET similarity.enabled = false").await;
    let pairs =
        clusters(&context, &format!("SELECT a.id * 1000 + b.id, a.id, b.id FROM t a JOIN t b ON {condition}")).await;
    let mut expected: BTreeMap<i64, i64> = ids.iter().map(|id| (*id, *id)).collect();
    for _ in 0..ids.len() {
        for (left, right) in pairs.values().map(|(left, right)| (*left, right.unwrap())) {
            let least = expected[&left].min(expected[&right]);
            expected.extend([(left, least), (right, least)]);
        }
    }
    let at_once: BTreeMap<i64, i64> = at_once.into_iter().map(|(id, (cluster, _))| (id, cluster)).collect();
    assert_eq!(at_once, expected, "seed {seed}, {condition}");
}

fn row(rng: &mut StdRng, id: i64, parts: usize) -> String {
    let length = rng.random_range(0..6);
    let name: String = (0..length).map(|_| *['a', 'b', 'c'].choose(rng).unwrap()).collect();
    let name = if rng.random_bool(0.1) { "NULL".into() } else { format!("'{name}'") };
    format!("({id}, {name}, {}, {})", rng.random_range(0..3), rng.random_range(0..parts))
}

async fn run(context: &SessionContext, sql: &str) {
    context.similarity_sql(sql).await.unwrap().collect().await.unwrap();
}

/// The first column with the two others.
async fn clusters(context: &SessionContext, sql: &str) -> BTreeMap<i64, (i64, Option<i64>)> {
    let mut found = BTreeMap::new();
    for batch in context.similarity_sql(sql).await.unwrap().collect().await.unwrap() {
        let columns: Vec<_> = batch.columns().iter().map(|c| cast(c, &DataType::Int64).unwrap()).collect();
        let [id, cluster, previous] = [0, 1, 2].map(|at| columns[at].as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let previous = previous.is_valid(row).then(|| previous.value(row));
            assert!(found.insert(id.value(row), (cluster.value(row), previous)).is_none(), "{sql}");
        }
    }
    found
}

fn by_cluster(clusters: &BTreeMap<i64, (i64, Option<i64>)>) -> BTreeMap<i64, Vec<i64>> {
    let mut members: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (id, (cluster, _)) in clusters {
        members.entry(*cluster).or_default().push(*id);
    }
    members
}
