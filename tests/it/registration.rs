//! The three forms of registration, the options, and what is left to stock DataFusion.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{JoinType, Result};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{SessionConfig, SessionContext, col, lit};
use datafusion_similarity::functions::expr_fn::damerau_levenshtein;
use datafusion_similarity::functions::nearest::{Direction, Nearest};
use datafusion_similarity::{SimilarityContext, SimilarityDataFrame, register_all};

use crate::session;

async fn table(context: &SessionContext, query: &str) -> Result<String> {
    Ok(pretty_format_batches(&context.similarity_sql(query).await?.collect().await?)?.to_string())
}

async fn with_tables(context: SessionContext) -> SessionContext {
    for name in ["a", "b"] {
        let create = format!("CREATE TABLE {name} AS VALUES (1, 'data fusion'), (2, 'fusion data'), (3, NULL)");
        context.sql(&create).await.unwrap().collect().await.unwrap();
    }
    context
}

const JOIN: &str = "SELECT a.column1, b.column1 FROM a JOIN b
    ON jaccard(word_tokens(a.column2), word_tokens(b.column2)) >= 0.9";

#[tokio::test]
async fn functions_alone_need_only_a_registry() {
    let mut context = SessionContext::new();
    register_all(&mut context).unwrap();
    let context = with_tables(context).await;
    let plan = table(&context, &format!("EXPLAIN {JOIN}")).await.unwrap();
    assert!(plan.contains("NestedLoopJoinExec"), "{plan}");
    assert_eq!(context.sql(JOIN).await.unwrap().count().await.unwrap(), 4);
}

#[tokio::test]
async fn a_running_session_is_extended_in_place() {
    let context = with_tables(SessionContext::new_with_config(SessionConfig::new().with_batch_size(77))).await;
    let id = context.session_id();
    for _ in 0..2 {
        context.enable_similarity().unwrap();
    }
    assert_eq!((context.session_id(), context.copied_config().batch_size()), (id, 77));
    let plan = table(&context, &format!("EXPLAIN {JOIN}")).await.unwrap();
    assert!(plan.contains("SimilarityJoinExec"), "{plan}");
    assert_eq!(context.sql(JOIN).await.unwrap().count().await.unwrap(), 4);
    let nearest = "SELECT * FROM nearest('a', 'b', 1, 'DISTANCE abs(a.column1 - b.column1)')";
    assert_eq!(context.sql(nearest).await.unwrap().count().await.unwrap(), 3);
}

#[tokio::test]
async fn options_are_set_shown_and_explained() {
    let context = session(8192, 2);
    let settings = table(
        &context,
        "SELECT name, value, length(description) > 20 AS explained FROM information_schema.df_settings
         WHERE name LIKE 'similarity.%' AND name <> 'similarity.engine' ORDER BY name",
    );
    let expected = "\
+-----------------------------------+--------------+-----------+
| name                              | value        | explained |
+-----------------------------------+--------------+-----------+
| similarity.device                 | 0            | true      |
| similarity.device_memory_fraction | 0.8          | true      |
| similarity.device_timeout         | 60           | true      |
| similarity.enabled                | true         | true      |
| similarity.independent_partitions | false        | true      |
| similarity.max_candidates         | unlimited    | true      |
| similarity.max_clauses            | 256          | true      |
| similarity.max_nested_loop_pairs  | 100000000000 | true      |
| similarity.verify                 | off          | true      |
+-----------------------------------+--------------+-----------+";
    assert_eq!(settings.await.unwrap(), expected);
    context.sql("SET similarity.verify = 'sample'").await.unwrap();
    assert!(table(&context, "SHOW similarity.verify").await.unwrap().contains("sample"));
    for (setting, hint) in [
        ("similarity.engine = 'quantum'", "similarity.engine takes one of: auto, cpu, cuda"),
        ("similarity.verify = 'maybe'", "similarity.verify takes one of: off, sample, full"),
        ("similarity.enabled = 'perhaps'", "similarity.enabled takes true or false"),
        ("similarity.device_timeout = -1", "similarity.device_timeout takes a whole number of seconds, 0 for no end"),
        ("similarity.nothing = 1", "not found"),
    ] {
        let error = context.sql(&format!("SET {setting}")).await.unwrap_err().to_string();
        assert!(error.contains(hint), "{setting}: {error}");
    }
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_an_error() {
    let context = with_tables(session(8192, 2)).await;
    context.sql("SET similarity.engine = 'cuda'").await.unwrap();
    context.sql("SET similarity.device = 63").await.unwrap();
    let error = table(&context, JOIN).await.unwrap_err().to_string();
    assert!(error.contains("similarity.engine = 'cuda' with similarity.device = '63'"), "{error}");
    let error = context.sql("SET similarity.device_memory_fraction = 1.5").await.unwrap_err().to_string();
    assert!(error.contains("similarity.device_memory_fraction takes a number above 0"), "{error}");
}

#[tokio::test]
async fn output_is_checked_where_a_session_asks_for_it() {
    let context = with_tables(session(1, 2)).await;
    for verify in ["sample", "full"] {
        context.sql(&format!("SET similarity.verify = '{verify}'")).await.unwrap();
        assert_eq!(context.sql(JOIN).await.unwrap().count().await.unwrap(), 4);
    }
}

#[tokio::test]
async fn what_is_declined_says_why() {
    let context = with_tables(session(8192, 2)).await;
    let similar = "jaccard(word_tokens(a.column2), word_tokens(b.column2))";
    let pairs: Vec<_> =
        (0..9).map(|n| format!("(a.column1 = b.column1 + {n} OR a.column2 = concat(b.column2, '{n}'))")).collect();
    let many = pairs.join(" AND ");
    let cases = [
        (format!("SELECT 1 FROM a JOIN b ON {similar} >= 0"), "accepts the least similar pairs too"),
        (format!("SELECT 1 FROM a JOIN b ON {similar} > random()"), "volatile"),
        (format!("SELECT 1 FROM a JOIN b ON {similar} >= 0.5 OR {many}"), "similarity.max_clauses = 256"),
        (format!("SELECT 1 FROM a JOIN b ON {similar} >= a.column1"), "compares a measure with a constant"),
        (
            format!("SELECT 1 FROM a WHERE a.column1 = 7 OR EXISTS (SELECT 1 FROM b WHERE {similar} >= 0.5)"),
            "mark join",
        ),
        (format!("SELECT 1 FROM a WHERE a.column1 NOT IN (SELECT b.column1 FROM b WHERE {similar} >= 0.5)"), "NOT IN"),
    ];
    for (query, reason) in cases {
        let plan = table(&context, &format!("EXPLAIN VERBOSE {query}")).await.unwrap();
        assert!(!plan.contains("SimilarityJoinExec"), "{query}\n{plan}");
        let told = plan.lines().any(|line| line.contains("similarity_join (declined)") && line.contains(reason));
        assert!(told, "{query}: {reason} is missing in\n{plan}");
    }
}

#[tokio::test]
async fn the_contract_names_the_condition_in_the_way() {
    let context = with_tables(session(8192, 2)).await;
    for condition in ["a.column1 = b.column1", "jaccard(a.column2, b.column2) < 0.5", "true", "a.column1 > 1"] {
        let query = format!("SELECT 1 FROM a SIMILARITY JOIN b ON {condition}");
        let error = table(&context, &query).await.unwrap_err().to_string();
        assert!(error.contains("SIMILARITY JOIN cannot be accelerated"), "{condition}: {error}");
        context.sql("SET similarity.enabled = false").await.unwrap();
        table(&context, &query).await.unwrap();
        context.sql("SET similarity.enabled = true").await.unwrap();
    }
    let query = "SELECT 1 FROM a SIMILARITY JOIN b ON jaccard(a.column2, b.column2) >= 0.5 OR a.column1 > 1";
    let error = table(&context, query).await.unwrap_err().to_string();
    assert!(error.contains("clause 2, a.column1 > 1"), "{error}");
    table(&context, &query.replace("SIMILARITY", "")).await.unwrap();
}

/// What the text says in words, a data frame says in expressions: an aggregate is named all the same.
#[tokio::test]
async fn data_frames_name_an_aggregate_in_a_condition() {
    let ctx = session(8192, 2);
    let table = || async { ctx.sql("SELECT 'a' AS id").await.unwrap() };
    let (left, right) = (table().await.alias("l").unwrap(), table().await.alias("r").unwrap());
    let condition = damerau_levenshtein(col("l.id"), col("r.id")).lt_eq(lit(1)).and(count(col("l.id")).gt(lit(1)));
    let joined = left.similarity_join(right, JoinType::Inner, condition).unwrap();
    let error = joined.collect().await.unwrap_err().strip_backtrace();
    assert!(error.contains("SIMILARITY JOIN takes no aggregate (count)"), "{error}");
    let (left, right) = (table().await.alias("l").unwrap(), table().await.alias("r").unwrap());
    let nearest = Nearest::new(1, Direction::Distance, count(col("r.id")));
    let joined = left.nearest_join(right, JoinType::Inner, nearest).unwrap();
    let error = joined.collect().await.unwrap_err().strip_backtrace();
    assert!(error.contains("NEAREST takes no aggregate (count)"), "{error}");
}
