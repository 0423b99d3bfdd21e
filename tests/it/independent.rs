//! Joins whose output partitions run in processes of their own.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable, execute_stream_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::exec::{
    JoinExec, JoinStrategy, LinksExec, MatchingDependencyBlockExec, NearestJoinExec, RowNumbersExec, SimilarityJoinExec,
};
use datafusion_similarity::optimizer::Processes;
use datafusion_similarity::{SimilarityContext, SimilarityStateBuilder};
use futures::TryStreamExt;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::oracle::random_table;
use crate::rows::Rows;
use crate::session;

/// A join, whatever finds its pairs.
trait Join {
    fn needs_one_process(&self) -> Option<&'static str>;
    fn independent(&self) -> Arc<dyn ExecutionPlan>;
}

impl<M: JoinStrategy> Join for JoinExec<M> {
    fn needs_one_process(&self) -> Option<&'static str> {
        self.needs_one_process()
    }

    fn independent(&self) -> Arc<dyn ExecutionPlan> {
        let join = self.independent().unwrap();
        assert_eq!(join.needs_one_process(), None);
        Arc::new(join)
    }
}

/// The join in a plan.
fn join_in(plan: &Arc<dyn ExecutionPlan>) -> &dyn Join {
    if let Some(join) = plan.downcast_ref::<SimilarityJoinExec>() {
        return join;
    }
    if let Some(join) = plan.downcast_ref::<MatchingDependencyBlockExec>() {
        return join;
    }
    match plan.downcast_ref::<NearestJoinExec>() {
        Some(join) => join,
        None => join_in(plan.children()[0]),
    }
}

/// A copy of a plan that shares nothing with it.
fn copy_of(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let children: Vec<_> = plan.children().into_iter().map(copy_of).collect();
    match children.is_empty() {
        true => Arc::clone(plan),
        false => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(plan).replace_children(children, options).unwrap()
        }
    }
}

/// The rows of each partition of a plan that is made anew for each, as another process would make it.
async fn rows_by_process(context: &SessionContext, plan: impl Fn() -> Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    let partitions = plan().properties().partitioning.partition_count();
    for partition in 0..partitions {
        let mut streams = execute_stream_partitioned(plan(), context.task_ctx()).unwrap();
        batches.extend(streams.swap_remove(partition).try_collect::<Vec<_>>().await.unwrap());
    }
    batches
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn independent_partitions_have_the_same_rows() {
    let context = session(16, 4);
    let mut rng = StdRng::seed_from_u64(11);
    for name in ["l", "r"] {
        context.register_table(name, Arc::new(random_table(&mut rng, &[120]))).unwrap();
    }
    let similar = "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5";
    let rule = format!("(a.k = b.k AND levenshtein(a.s, b.s) <= 2 OR a.n = b.n AND {similar})");
    let joins = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "RIGHT ANTI JOIN"];
    let mut queries = Vec::new();
    for join in joins {
        queries.push(format!("SELECT * FROM l a {join} r b ON {similar}"));
        queries.push(format!("SELECT * FROM l a {join} r b ON {rule}"));
        queries.push(format!("SELECT * FROM l a {join} l b ON {similar} AND a.id < b.id"));
        queries.push(format!("SELECT * FROM l a {join} l b ON {rule} AND a.id <> b.id"));
    }
    queries.push("SELECT a.id, b.id FROM l a JOIN r b NEAREST 2 BY SIMILARITY jaro_similarity(a.s, b.s)".to_owned());
    queries.push("SELECT a.id, b.id FROM l a JOIN l b NEAREST 3 BY SIMILARITY overlap_count(a.l, b.l)".to_owned());
    let mut shared = 0;
    for query in &queries {
        let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
        let join = join_in(&plan);
        let whole = join.independent();
        let expected = Rows::new(whole.schema(), collect(copy_of(&whole), context.task_ctx()).await.unwrap());
        let stock = Rows::new(plan.schema(), collect(copy_of(&plan), context.task_ctx()).await.unwrap());
        if plan.schema() == whole.schema() {
            assert_eq!(expected, stock, "{query}");
        }
        let found = Rows::new(whole.schema(), rows_by_process(&context, || copy_of(&join.independent())).await);
        assert_eq!(found, expected, "{query}");
        shared += usize::from(join.needs_one_process().is_some());
    }
    assert!(shared > 8, "only {shared} of {} joins share anything", queries.len());
}

/// What a session plans that is told so: no operator whose partitions count on each other, and the same rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_plans_partitions_that_are_independent() {
    let context = session(16, 4);
    let mut rng = StdRng::seed_from_u64(13);
    context.register_table("l", Arc::new(random_table(&mut rng, &[120]))).unwrap();
    let similar = "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5";
    let pairs = format!("SELECT a.id, b.id FROM l a JOIN l b ON {similar} AND a.id < b.id");
    let queries = [
        pairs.clone(),
        format!("SELECT a.id, b.n FROM l a LEFT JOIN l b ON {similar} AND a.id < b.id"),
        format!("SELECT count(*), min(a.id) FROM l a FULL JOIN l b ON {similar} OR a.k = b.k AND a.n = b.n"),
        format!("SELECT * FROM clusters('{pairs}')"),
        "SELECT a.id, row_number() OVER (ORDER BY a.s, a.id) AS s, row_number() OVER (ORDER BY a.id) AS n FROM l a"
            .into(),
    ];
    let mut several = 0;
    for query in queries {
        let mut plans = Vec::new();
        for independent in [false, true] {
            context.sql(&format!("SET similarity.independent_partitions = {independent}")).await.unwrap();
            plans.push(context.similarity_sql(&query).await.unwrap().create_physical_plan().await.unwrap());
        }
        let [shared, independent] = plans.try_into().unwrap();
        independent
            .apply(|operator| {
                if let Some(join) = operator.downcast_ref::<SimilarityJoinExec>() {
                    assert_eq!(join.needs_one_process(), None, "{query}");
                } else if let Some(join) = operator.downcast_ref::<MatchingDependencyBlockExec>() {
                    assert_eq!(join.needs_one_process(), None, "{query}");
                }
                if operator.is::<LinksExec>() || operator.is::<RowNumbersExec>() {
                    let input = operator.children()[0].properties().partitioning.partition_count();
                    assert_eq!(input, 1, "{query}");
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
        let by_process = rows_by_process(&context, || copy_of(&independent)).await;
        let expected = Rows::new(shared.schema(), collect(copy_of(&shared), context.task_ctx()).await.unwrap());
        assert_eq!(Rows::new(independent.schema(), by_process), expected, "{query}");
        several += usize::from(independent.properties().partitioning.partition_count() > 1);
    }
    assert!(several > 0, "every plan has one partition");
}

/// Every division of a join among processes has the same rows: by equality keys, in a grid, in a triangle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn divided_joins_have_the_same_rows() {
    let mut rng = StdRng::seed_from_u64(17);
    let tables = ["l", "r"].map(|_| Arc::new(random_table(&mut rng, &[150])));
    let similar = "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5";
    let edits = "levenshtein(a.s, b.s) <= 2";
    let rule = format!("(a.k = b.k AND {edits} OR a.n = b.n AND {similar})");
    let mut queries = Vec::new();
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "RIGHT SEMI JOIN", "LEFT ANTI JOIN"]
    {
        for condition in [similar, edits, &rule, &format!("a.k = b.k AND {edits}"), &format!("a.k = b.k AND {rule}")] {
            queries.push(format!("SELECT * FROM l a {join} r b ON {condition}"));
            for order in ["a.id < b.id", "a.id <> b.id", "b.id > a.id AND a.n >= 0"] {
                queries.push(format!("SELECT * FROM l a {join} l b ON {condition} AND {order}"));
            }
        }
    }
    queries.push(format!("SELECT b.id, a.n FROM l a JOIN l b ON {similar} AND a.id < b.id"));
    queries.push(format!("SELECT a.id, b.id FROM l a JOIN l b ON {similar} AND a.id < b.id ORDER BY 1, 2"));
    queries.push(format!("SELECT a.id FROM (SELECT * FROM l ORDER BY id) a JOIN r b ON {edits}"));
    queries.push(format!("SELECT a.id, c.id FROM l a JOIN r b ON {edits} JOIN l c ON levenshtein(b.s, c.s) <= 1"));
    queries.push("SELECT a.id, b.id FROM l a JOIN r b NEAREST 2 BY SIMILARITY jaro_similarity(a.s, b.s)".to_owned());
    let mut shown = String::new();
    for (cores, processes) in [(2, 2), (3, 1), (8, 4), (7, 7)] {
        let config = SessionConfig::new().with_target_partitions(cores).with_extension(Arc::new(Processes(processes)));
        let state = SessionStateBuilder::new().with_config(config).with_default_features().with_similarity();
        let context = SessionContext::new_with_state(state.build());
        for (name, table) in ["l", "r"].into_iter().zip(&tables) {
            context.register_table(name, Arc::clone(table) as _).unwrap();
        }
        for query in &queries {
            context.sql("SET similarity.independent_partitions = false").await.unwrap();
            context.sql("SET similarity.overrides = DEFAULT").await.unwrap();
            let shared = context.similarity_sql(query).await.unwrap();
            let expected = Rows::new(shared.schema().inner().clone(), shared.collect().await.unwrap());
            context.sql("SET similarity.independent_partitions = true").await.unwrap();
            context.sql("SET similarity.overrides = 'replicated=off'").await.unwrap();
            let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
            let found = Rows::new(plan.schema(), rows_by_process(&context, || copy_of(&plan)).await);
            assert_eq!(found, expected, "{query} on {cores} cores of {processes} processes");
            shown += &displayable(plan.as_ref()).indent(true).to_string();
        }
    }
    for division in
        ["divided by the equality keys", "in a grid of 2 x", "of 4 slices of one input", "self-join of each"]
    {
        assert!(shown.contains(division), "no join is {division}");
    }
}

/// What the operator says of itself: a self-join that is decoded by each process has its rows several times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_join_in_several_processes_repeats_rows() {
    let context = session(16, 4);
    let mut rng = StdRng::seed_from_u64(12);
    context.register_table("l", Arc::new(random_table(&mut rng, &[120]))).unwrap();
    let query = "SELECT * FROM l a JOIN l b ON jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.5 AND a.id < b.id";
    let plan = context.similarity_sql(query).await.unwrap().create_physical_plan().await.unwrap();
    assert!(join_in(&plan).needs_one_process().is_some_and(|why| why.contains("self-join")));
    let copy = || copy_of(&plan);
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let expected = rows(&collect(copy(), context.task_ctx()).await.unwrap());
    assert!(expected > 0);
    assert!(rows(&rows_by_process(&context, copy).await) > expected);
}
