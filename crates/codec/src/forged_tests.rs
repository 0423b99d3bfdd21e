//! Plans that somebody has made up: none of them panics, neither when it is read nor when it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect, collect_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::{DefaultPhysicalProtoConverter, PhysicalExtensionCodec};
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{SimilarityPhysicalCodec, envelope};

const TABLE: &str = "CREATE TABLE t (id BIGINT, name VARCHAR, city VARCHAR, born INT, v DOUBLE[]) AS VALUES \
    (1, 'Anna Miller', 'Bonn', 1970, [0.0, 1.0]), (2, 'Ana Miller', 'Bonn', 1970, [0.0, 1.1]), \
    (3, 'Anna Mueller', 'Kiel', NULL, [3.0, 1.0]), (4, NULL, 'Kiel', 1990, NULL), (5, 'x', NULL, 1991, [9.0, 9.0])";

const QUERIES: [&str; 9] = [
    "SELECT a.id, b.name FROM t a SIMILARITY JOIN t b ON jaccard(qgrams(a.name, 2), qgrams(b.name, 2)) >= 0.5 \
     AND a.id < b.id",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON levenshtein(a.name, b.name) <= 2 AND a.city = b.city AND a.born < b.id",
    "SELECT a.id FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE jaro_winkler_similarity(a.name, b.name) >= 0.9 \
     AND b.born > 1970)",
    "SELECT a.id, b.id FROM t a JOIN t b ON l2_distance(a.v, b.v) <= 1.5",
    "SELECT a.id, b.id FROM t a JOIN t b ON (a.city = b.city AND levenshtein(a.name, b.name) <= 2) \
     OR (abs(a.born - b.born) <= 3 AND jaccard(a.name, b.name, 2) >= 0.3 AND a.id + b.id > 3) \
     OR (a.born BETWEEN b.born - 1 AND b.born AND a.city = 'Bonn' AND jaro_similarity(a.name, b.name) > 0.5)",
    "SELECT a.id, b.id FROM t a JOIN t b NEAREST 2 BY DISTANCE l2_distance(a.v, b.v) THEN BY b.name DESC, b.id",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b NEAREST 1 BY SIMILARITY jaro_similarity(a.name, b.name) \
     ON a.city = b.city AND a.id <> b.id",
    "SELECT a.id, b.id FROM t a JOIN t b NEAREST 2 BY SIMILARITY match_count(a.city = b.city, \
     b.born BETWEEN a.born - 5 AND a.born + 5)",
    "SELECT * FROM clusters('SELECT a.id, b.id FROM t a, t b WHERE a.city = b.city')",
];

/// Forgeries of each operator.
const FORGERIES: usize = 2000;

static PANICS: AtomicUsize = AtomicUsize::new(0);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_plan_does_not_panic() {
    let session = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
    session.enable_similarity().unwrap();
    session.sql(TABLE).await.unwrap().collect().await.unwrap();
    let (codec, converter) = (SimilarityPhysicalCodec::default(), DefaultPhysicalProtoConverter {});
    std::panic::set_hook(Box::new(|info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{info}");
    }));
    let mut random = StdRng::seed_from_u64(7);
    let (mut operators, mut refused, mut ran) = (0, 0, 0);
    let divided = "SET similarity.overrides = 'replicated=off'";
    let settings = ["SET similarity.independent_partitions = false", divided];
    for (setting, query) in settings.iter().flat_map(|setting| QUERIES.map(|query| (*setting, query))) {
        if setting == divided {
            session.sql("SET similarity.independent_partitions = true").await.unwrap();
        }
        session.sql(setting).await.unwrap();
        let plan = session.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
        for operator in operators_of(&plan).unwrap() {
            operators += 1;
            let mut bytes = Vec::new();
            codec.try_encode(Arc::clone(&operator), &mut bytes, &converter).unwrap();
            let mut rows = Vec::new();
            for input in operator.children() {
                // what has run below another operator runs once more
                let input = reset_plan_states(Arc::clone(input)).unwrap();
                let partitions = collect_partitioned(Arc::clone(&input), session.task_ctx()).await.unwrap();
                rows.push((partitions, input.schema()));
            }
            let content = envelope::content(&bytes).unwrap();
            for _ in 0..FORGERIES {
                let forged = forged(content, &mut random);
                let mut bytes = Vec::new();
                envelope::seal_bytes(&forged, &mut bytes);
                // an input runs once
                let inputs = rows.iter().map(|(partitions, schema)| {
                    MemorySourceConfig::try_new_exec(partitions, Arc::clone(schema), None).map(|input| input as _)
                });
                let inputs: Vec<Arc<dyn ExecutionPlan>> = inputs.collect::<Result<_>>().unwrap();
                match codec.try_decode(&bytes, &inputs, &session.task_ctx(), &converter) {
                    Err(_) => refused += 1,
                    Ok(read) => {
                        ran += 1;
                        // it may fail, and it may find other pairs
                        let rows = collect(read, session.task_ctx());
                        drop(tokio::time::timeout(Duration::from_secs(20), rows).await.expect("it does not end"));
                    }
                }
                assert_eq!(PANICS.load(Ordering::Relaxed), 0, "{query}\n{forged:?}");
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(operators > 4 * QUERIES.len() && refused > 1000 && ran > 100, "{operators} {refused} {ran}");
}

/// The operators of `plan` that the codec itself takes.
fn operators_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let mut found = Vec::new();
    plan.apply(|operator| {
        let ours = ["Similarity", "Epsilon", "Matching", "Nearest", "Links", "Gather", "Cells", "OneCell", "EitherWay"];
        if ours.iter().any(|name| operator.name().starts_with(name)) {
            found.push(Arc::clone(operator));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// `content` with a few bits turned, bytes taken out, or parts said twice.
fn forged(content: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut forged = content.to_vec();
    for _ in 0..random.random_range(1..4) {
        if forged.is_empty() {
            break;
        }
        let at = random.random_range(0..forged.len());
        match random.random_range(0..6) {
            0..4 => forged[at] ^= 1 << random.random_range(0..8),
            4 => {
                forged.remove(at);
            }
            _ => {
                let end = random.random_range(at..forged.len().min(at + 20));
                let part = forged[at..=end].to_vec();
                forged.splice(at..at, part);
            }
        }
    }
    forged
}
