//! The reference of the book names every option, every item of EXPLAIN and every metric of EXPLAIN ANALYZE.

use std::collections::BTreeSet;
use std::fs;

use datafusion::common::config::ExtensionOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::{collect, displayable};
use datafusion_similarity::{SimilarityContext, SimilarityOptions};

use super::markdown::root;
use super::session;

/// One query for each operator and for each kind of item that it may have.
const QUERIES: [&str; 5] = [
    "SELECT a.id, b.id FROM t a JOIN t b
     ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5 AND a.k = b.k AND a.id < b.id",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON l2_distance([a.x], [b.x]) <= 1 AND a.id <> b.id",
    "SELECT a.id FROM t a JOIN t b ON (a.k = b.k AND levenshtein(a.s, b.s) <= 1) OR abs(a.id - b.id) <= 1",
    "SELECT a.id, b.s FROM t a JOIN t b
     NEAREST 1 BY DISTANCE l2_distance([a.x], [b.x]) THEN BY b.id ON a.k = b.k AND a.id <> b.id WITH TIES",
    "SELECT a.id FROM t a LEFT JOIN t b NEAREST 1 BY SIMILARITY length(a.s) * b.id",
];

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs/src").join(name)).unwrap()
}

/// Whether a table of the page has `name`, with `n` for numbers within it.
fn names(page: &str, name: &str) -> bool {
    let parts: Vec<&str> = name.split('_').map(|part| if part.parse::<u32>().is_ok() { "n" } else { part }).collect();
    page.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{}`", parts.join("_"))))
}

/// The items of EXPLAIN and the metrics of one plan's similarity joins.
async fn told(query: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let session = session(8192, 2);
    let table = "CREATE TABLE t (id INT, k INT, s VARCHAR, x DOUBLE) AS VALUES (1, 1, 'a b', 0.5), (2, 1, 'a c', 0.7)";
    session.sql(table).await.unwrap();
    let plan = session.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
    collect(plan.clone(), session.task_ctx()).await.unwrap();
    let (mut items, mut metrics) = (BTreeSet::new(), BTreeSet::new());
    plan.apply(|node| {
        if ["Similarity", "Epsilon", "Matching", "Nearest"].iter().any(|start| node.name().starts_with(start)) {
            items.extend(items_of(&displayable(node.as_ref()).one_line().to_string()));
            let names =
                node.metrics().unwrap().iter().map(|metric| metric.value().name().to_owned()).collect::<Vec<_>>();
            // EXPLAIN ANALYZE does not show these
            metrics.extend(names.into_iter().filter(|name| !name.ends_with("_timestamp")));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    assert!(items.len() > 3 && metrics.len() > 8, "{query} is no similarity join");
    (items, metrics)
}

/// The words before `=` at the start of an item.
fn items_of(line: &str) -> BTreeSet<String> {
    let items = line.split_once(": ").map_or("", |(_, items)| items);
    let heads = items.split(", ").filter_map(|item| item.split_once('=').map(|(head, _)| head));
    heads.filter(|head| head.chars().all(|c| c.is_ascii_lowercase() || c == '_')).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_item_and_metric_is_explained() {
    let (explain, metrics) = (page("reference/explain.md"), page("reference/metrics.md"));
    for query in QUERIES {
        let (items_told, metrics_told) = told(query).await;
        for item in items_told {
            assert!(names(&explain, &item), "reference/explain.md does not explain {item}, which has {query}");
        }
        for metric in metrics_told {
            assert!(names(&metrics, &metric), "reference/metrics.md does not explain {metric}, which has {query}");
        }
    }
}

#[test]
fn every_option_is_explained_with_its_default() {
    let options = page("sql/options.md");
    for entry in SimilarityOptions::default().entries() {
        let row = options.lines().find(|line| line.contains(&format!("| `{}` |", entry.key)));
        let row = row.unwrap_or_else(|| panic!("sql/options.md does not explain {}", entry.key));
        let default = entry.value.unwrap_or_else(|| "unlimited".into());
        let shown = row.split('|').nth(2).unwrap().trim().trim_matches('`');
        assert_eq!(shown, default, "{}", entry.key);
    }
}
