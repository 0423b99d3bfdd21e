//! SIMILARITY JOIN as text: what is the keyword, what becomes of it, and where errors point.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::config::{Dialect, SqlParserOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion_similarity::functions::contract;
use datafusion_similarity::sql::{self, SimilarityAliasPlanner};

fn options() -> SqlParserOptions {
    SqlParserOptions::default()
}

fn rewrite(text: &str) -> String {
    sql::rewrite(text, &options()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    sql::rewrite(text, &options()).expect_err(text).strip_backtrace()
}

async fn session() -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_relation_planners(vec![std::sync::Arc::new(SimilarityAliasPlanner)])
        .build();
    let ctx = SessionContext::new_with_state(state);
    ctx.register_udf(contract::similarity_join_condition().as_ref().clone());
    for table in ["a", "b", "c", "similarity"] {
        let columns = "(id INT, x VARCHAR, similarity DOUBLE)";
        ctx.sql(&format!("CREATE TABLE {table} {columns}")).await.unwrap();
    }
    ctx
}

/// How many conditions of the plan of `text` are under the contract.
async fn contracts(ctx: &SessionContext, text: &str) -> Result<usize> {
    let plan = sql::logical_plan(&ctx.state(), text).await?;
    let mut count = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                count += usize::from(contract::marked(expr).is_some());
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(count)
}

const CONDITION: &str = "levenshtein(l.x, r.x) <= 1";

#[test]
fn every_join_type_keeps_its_words() {
    for (written, read) in [
        ("SIMILARITY JOIN", "JOIN"),
        ("INNER SIMILARITY JOIN", "INNER JOIN"),
        ("LEFT SIMILARITY JOIN", "LEFT JOIN"),
        ("left outer similarity join", "left outer join"),
        ("RIGHT SIMILARITY JOIN", "RIGHT JOIN"),
        ("RIGHT OUTER SIMILARITY JOIN", "RIGHT OUTER JOIN"),
        ("FULL SIMILARITY JOIN", "FULL JOIN"),
        ("FULL OUTER SIMILARITY JOIN", "FULL OUTER JOIN"),
        ("LEFT SEMI SIMILARITY JOIN", "LEFT SEMI JOIN"),
        ("LEFT ANTI SIMILARITY JOIN", "LEFT ANTI JOIN"),
        ("RIGHT SEMI SIMILARITY JOIN", "RIGHT SEMI JOIN"),
        ("RIGHT ANTI SIMILARITY JOIN", "RIGHT ANTI JOIN"),
        ("SEMI SIMILARITY JOIN", "LEFT SEMI JOIN"),
        ("ANTI SIMILARITY JOIN", "LEFT ANTI JOIN"),
    ] {
        let rewritten = rewrite(&format!("SELECT 1 FROM a AS l {written} b AS r ON {CONDITION}"));
        let words = rewritten.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, format!("SELECT 1 FROM a AS l {read} b AS r ON similarity_join_condition(({CONDITION}))"));
    }
}

#[test]
fn layout_and_comments_stay() {
    assert_eq!(
        rewrite(
            "SELECT 'ü' -- first\nFROM a\n  LEFT /* outer */ SIMILARITY JOIN b -- b\n ON a.x = b.x -- done\nLIMIT 1"
        ),
        "SELECT 'ü' -- first\nFROM a\n  LEFT /* outer */  JOIN b -- b\n ON similarity_join_condition((a.x = b.x)) -- done\nLIMIT 1"
    );
}

#[test]
fn text_without_the_keyword_stays_as_it_is() {
    for text in [
        "SELECT 'a SIMILARITY JOIN b' FROM a",
        "SELECT $$a SIMILARITY JOIN b$$ FROM a",
        "SELECT \"similarity\" FROM a -- SIMILARITY JOIN b",
        "SELECT 1 FROM similarity JOIN b ON similarity.x = b.x",
        "SELECT 1 FROM a AS similarity JOIN b ON similarity.x = b.x",
        "SELECT 1 FROM a AS similarity LEFT JOIN b ON similarity.x = b.x",
        "SELECT 1 FROM a JOIN b ON a.similarity = similarity JOIN c ON true",
        "SELECT 1 FROM a JOIN b ON similarity(a.x, b.x) > 0.3",
        "SELECT 1 FROM a GLOBAL LEFT JOIN b ON a.x = b.x",
        "SELECT 1 FROM a \"SIMILARITY\" JOIN b ON true",
        "",
        ";;",
        "-- nothing",
    ] {
        assert_eq!(rewrite(text), text);
    }
}

#[test]
fn an_alias_called_similarity_is_told_from_the_keyword() {
    assert_eq!(
        rewrite("SELECT similarity.id FROM a similarity SIMILARITY JOIN b ON similarity.x = b.x"),
        "SELECT similarity.id FROM a AS similarity  JOIN b ON similarity_join_condition((similarity.x = b.x))"
    );
    assert_eq!(
        rewrite("SELECT 1 FROM (SELECT 2) Similarity WHERE true"),
        "SELECT 1 FROM (SELECT 2) AS Similarity WHERE true"
    );
    assert_eq!(
        rewrite("COPY (SELECT 1 FROM a similarity) TO 'f.csv'"),
        "COPY (SELECT 1 FROM a AS similarity) TO 'f.csv'"
    );
}

#[test]
fn chained_and_nested_joins_get_their_own_condition() {
    let mark = |p: &str| format!("similarity_join_condition(({p}))");
    assert_eq!(
        rewrite("SELECT 1 FROM a SIMILARITY JOIN b ON p JOIN c ON q LEFT SIMILARITY JOIN d ON r"),
        format!("SELECT 1 FROM a  JOIN b ON {} JOIN c ON q LEFT  JOIN d ON {}", mark("p"), mark("r"))
    );
    assert_eq!(
        rewrite("SELECT 1 FROM a SIMILARITY JOIN (b SIMILARITY JOIN c ON p) ON q"),
        format!("SELECT 1 FROM a  JOIN (b  JOIN c ON {}) ON {}", mark("p"), mark("q"))
    );
    assert_eq!(
        rewrite("SELECT 1 FROM a SIMILARITY JOIN b ON a.x IN (SELECT x FROM c SIMILARITY JOIN d ON p)"),
        format!("SELECT 1 FROM a  JOIN b ON {}", mark(&format!("a.x IN (SELECT x FROM c  JOIN d ON {})", mark("p"))))
    );
}

#[test]
fn a_recall_goes_around_the_condition_before_it() {
    let mark = |p: &str, recall: &str| format!("similarity_join_condition((with_recall(({p}), {recall})))");
    for rest in ["", " WHERE a.x = 1", " JOIN c ON true", " ORDER BY 1"] {
        assert_eq!(
            rewrite(&format!("SELECT 1 FROM a SIMILARITY JOIN b ON a.x = b.x with /* */ recall .95{rest}")),
            format!("SELECT 1 FROM a  JOIN b ON {}{rest}", mark("a.x = b.x", ".95"))
        );
    }
    assert_eq!(
        rewrite("SELECT 1 FROM a SIMILARITY JOIN (b SIMILARITY JOIN c ON p WITH RECALL 0.5) ON q WITH RECALL 1"),
        format!("SELECT 1 FROM a  JOIN (b  JOIN c ON {}) ON {}", mark("p", "0.5"), mark("q", "1"))
    );
    let nested = "SELECT 1 FROM a SIMILARITY JOIN b ON a.x IN (SELECT x FROM c SIMILARITY JOIN d ON p WITH RECALL 0.5)";
    assert_eq!(
        rewrite(nested),
        format!(
            "SELECT 1 FROM a  JOIN b ON similarity_join_condition((a.x IN (SELECT x FROM c  JOIN d ON {})))",
            mark("p", "0.5")
        )
    );
}

#[test]
fn the_condition_ends_where_the_parser_says() {
    for condition in [
        "CASE WHEN a.x = b.x THEN true ELSE false END",
        "a.x BETWEEN b.x AND b.x OR NOT a.y",
        "(a.x = b.x)",
        "(a.x, a.y) = (b.x, b.y)",
        "a.x LIKE '%) SIMILARITY JOIN ('",
        "jaccard(qgrams(a.x, 3, '#'), qgrams(b.x, 3, '#')) >= 0.8 AND a.id < b.id",
        "EXISTS (SELECT 1 FROM c WHERE c.x = a.x)",
        "a.x::varchar = b.x",
        "true",
    ] {
        for rest in [
            "",
            " WHERE a.x = 1",
            " GROUP BY 1",
            ", c",
            " JOIN c ON a.x = c.x",
            " ORDER BY 1 LIMIT 3",
            " UNION ALL SELECT 1",
        ] {
            assert_eq!(
                rewrite(&format!("SELECT 1 FROM a SIMILARITY JOIN b ON {condition}{rest}")),
                format!("SELECT 1 FROM a  JOIN b ON similarity_join_condition(({condition})){rest}")
            );
        }
    }
}

#[test]
fn all_dialects_read_the_keyword() {
    for info in Dialect::metadata() {
        let options = SqlParserOptions { dialect: info.dialect, ..options() };
        for join in
            ["SIMILARITY JOIN", "LEFT SIMILARITY JOIN", "FULL OUTER SIMILARITY JOIN", "RIGHT ANTI SIMILARITY JOIN"]
        {
            let text = format!("SELECT 1 FROM a AS l {join} b AS r ON l.x = r.x");
            let statements = sql::parse(&text, &options).unwrap_or_else(|e| panic!("{}: {e}", info.canonical_name));
            let printed = statements[0].to_string();
            assert!(
                printed.ends_with("ON similarity_join_condition((l.x = r.x))"),
                "{}: {printed}",
                info.canonical_name
            );
        }
    }
}

#[test]
fn a_join_without_on_is_refused_at_its_place() {
    let error = refusal("SELECT 1\nFROM a SIMILARITY JOIN b\nWHERE true");
    assert!(error.contains("SIMILARITY JOIN needs ON") && error.contains("Line: 3, Column: 1"), "{error}");
    let error = refusal("SELECT 1 FROM a SIMILARITY JOIN b USING (x)");
    assert!(error.contains("not USING") && error.contains("Line: 1, Column: 35"), "{error}");
    let error = refusal("SELECT 1 FROM a CROSS SIMILARITY JOIN b");
    assert!(error.contains("neither CROSS nor NATURAL") && error.contains("Line: 1, Column: 17"), "{error}");
    let error = refusal("SELECT 1 FROM a NATURAL LEFT SIMILARITY JOIN b");
    assert!(error.contains("neither CROSS nor NATURAL") && error.contains("Line: 1, Column: 17"), "{error}");
    let error = refusal("SELECT 1 FROM a SIMILARITY JOIN b JOIN c ON a.x = c.x");
    assert!(error.contains("SIMILARITY JOIN needs ON"), "{error}");
}

#[test]
fn the_keyword_before_other_join_words_is_refused() {
    for join in ["SIMILARITY LEFT JOIN", "SIMILARITY INNER JOIN", "LEFT SIMILARITY ANTI JOIN", "SIMILARITY CROSS JOIN"]
    {
        let error = refusal(&format!("SELECT 1 FROM a {join} b ON a.x = b.x"));
        assert!(error.contains("right before JOIN"), "{error}");
    }
}

#[test]
fn errors_point_into_the_users_text() {
    for (text, place) in [
        ("SELECT 1 FROM a LEFT SIMILARITY JOIN b ON a.x = = b.x", "Line: 1, Column: 49"),
        ("SELECT 1 FROM a SIMILARITY JOIN b ON a.x = b.x WHERE )", "Line: 1, Column: 54"),
        ("SELECT 'ä\nö' FROM a\n SIMILARITY JOIN b ON (a.x = b.x WHERE", "Line: 3, Column: 34"),
        ("SELECT 1 FROM a SEMI SIMILARITY JOIN b ON a.x = b.x nonsense here", "Line: 1, Column: 53"),
        ("SELECT 1 FORM a SIMILARITY JOIN b ON true", "Line: 1, Column: 15"),
        ("SELECT 1 FROM a SIMILARITY JOIN b ON a.x = 'open", "Line: 1, Column: 44"),
    ] {
        let error = refusal(text);
        assert!(error.contains(place), "{text}: {error}");
    }
}

#[test]
fn the_first_error_wins() {
    let error = refusal("SELECT 1 FROM a SIMILARITY JOIN b; SELECT , FROM");
    assert!(error.contains("Column: 43") || error.contains("Column: 44"), "{error}");
}

#[test]
fn errors_in_a_script_point_into_the_script() {
    let script = "SELECT 1;\n\n  SELECT 2 FROM a\n  SIMILARITY JOIN b;";
    let statements = sql::split(script, &options()).unwrap();
    assert_eq!(
        statements.iter().map(|s| s.text()).collect::<Vec<_>>(),
        ["SELECT 1", "SELECT 2 FROM a\n  SIMILARITY JOIN b"]
    );
    let error = statements[1].rewrite(&options()).unwrap_err().strip_backtrace();
    assert!(error.contains("needs ON"), "{error}");
    let script = "SELECT 1; SELECT 'é'; SELECT 2 FROM a SIMILARITY JOIN b USING (x)";
    let error = sql::split(script, &options()).unwrap()[2].rewrite(&options()).unwrap_err().strip_backtrace();
    assert!(error.contains("Line: 1, Column: 57"), "{error}");
    let script = "SELECT 1;\n  SELECT 2 FROM a SIMILARITY JOIN b ON x";
    let rewritten = sql::split(script, &options()).unwrap()[1].rewrite(&options()).unwrap();
    assert_eq!(rewritten, "SELECT 2 FROM a  JOIN b ON similarity_join_condition((x))");
}

#[test]
fn scripts_split_at_semicolons_that_are_tokens() {
    let script = "-- a; b\nSELECT ';', \";\", $$;$$ /* ; */; ;\nSELECT 2 -- ;\n;";
    let statements = sql::split(script, &options()).unwrap();
    let texts: Vec<_> = statements.iter().map(|s| s.text()).collect();
    assert_eq!(texts, ["SELECT ';', \";\", $$;$$", "SELECT 2"]);
}

#[test]
fn hostile_texts_end_in_time() {
    let chain = " SIMILARITY JOIN b ON a.x = b.x".repeat(2_000);
    let rewritten = rewrite(&format!("SELECT 1 FROM a{chain}"));
    assert_eq!(rewritten.matches("similarity_join_condition((").count(), 2_000);
    let words = "SIMILARITY ".repeat(50_000);
    assert!(sql::rewrite(&words, &options()).is_err());
    let deep = format!("SELECT 1 FROM a SIMILARITY JOIN b ON {}x{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(refusal(&deep).contains("RecursionLimit"));
    // deeper nesting of tables in parentheses than this overflows the stack of the stock parser as well
    let unclosed = "SELECT 1 FROM a".to_string() + &" SIMILARITY JOIN (b".repeat(8);
    assert!(sql::rewrite(&unclosed, &options()).is_err());
    assert!(sql::rewrite("\u{0}\u{feff}SIMILARITY JOIN", &options()).is_err());
}

#[test]
fn the_recursion_limit_of_the_session_holds() {
    let options = SqlParserOptions {
        recursion_limit: datafusion::common::config::ConfigNonZeroUsize::try_new(10).unwrap(),
        ..options()
    };
    let text = format!("SELECT 1 FROM a SIMILARITY JOIN b ON {}x{}", "(".repeat(20), ")".repeat(20));
    assert!(sql::parse(&text, &options).unwrap_err().to_string().contains("RecursionLimit"));
    assert!(sql::rewrite(&text, &self::options()).is_ok());
}

#[tokio::test]
async fn the_contract_reaches_the_plan_from_everywhere() {
    let ctx = session().await;
    let join = "a SIMILARITY JOIN b ON levenshtein(a.x, b.x) <= 1";
    for text in [
        format!("SELECT * FROM {join}"),
        format!("SELECT count(*) FROM (SELECT a.id FROM {join}) t"),
        format!("WITH t AS (SELECT a.id FROM {join}) SELECT * FROM t"),
        format!("SELECT 1 WHERE EXISTS (SELECT 1 FROM {join})"),
        format!("SELECT id FROM c WHERE id IN (SELECT a.id FROM {join})"),
        format!("SELECT (SELECT count(*) FROM {join})"),
        format!("CREATE VIEW v AS SELECT a.id FROM {join}"),
        format!("CREATE TABLE t AS SELECT a.id FROM {join}"),
        format!("INSERT INTO c SELECT a.id, a.x, 1.0 FROM {join}"),
        format!("COPY (SELECT a.id FROM {join}) TO 'nowhere.csv'"),
        format!("EXPLAIN SELECT * FROM {join}"),
        format!("EXPLAIN ANALYZE VERBOSE SELECT * FROM {join}"),
        format!("SELECT 1 UNION ALL SELECT a.id FROM {join}"),
        format!("PREPARE p AS SELECT * FROM {join}"),
        "SELECT * FROM a AS l LEFT SIMILARITY JOIN a AS r ON levenshtein(l.x, r.x) <= 1".into(),
        "SELECT * FROM similarity SIMILARITY JOIN b ON levenshtein(similarity.x, b.x) <= 1".into(),
        "SELECT similarity.similarity FROM a similarity SIMILARITY JOIN b ON similarity.x = b.x".into(),
        "SELECT * FROM a SEMI SIMILARITY JOIN b ON a.x = b.x".into(),
        "SELECT * FROM a SIMILARITY JOIN b ON true".into(),
        "SELECT * FROM a SIMILARITY JOIN b ON NULL".into(),
    ] {
        assert_eq!(contracts(&ctx, &text).await.unwrap_or_else(|e| panic!("{text}: {e}")), 1, "{text}");
    }
    let chain =
        format!("SELECT * FROM {join} JOIN c ON c.id = a.id LEFT SIMILARITY JOIN c AS d ON levenshtein(c.x, d.x) <= 1");
    assert_eq!(contracts(&ctx, &chain).await.unwrap(), 2);
}

#[tokio::test]
async fn a_view_is_defined_in_the_users_words() {
    let ctx = session().await;
    let text = "CREATE VIEW v AS SELECT a.id FROM a SIMILARITY JOIN b ON a.x = b.x";
    let LogicalPlan::Ddl(DdlStatement::CreateView(view)) =
        sql::logical_plan(&ctx.state(), &format!(" {text} ;")).await.unwrap()
    else {
        panic!("not a view");
    };
    assert_eq!(view.definition.as_deref(), Some(text));
}

#[tokio::test]
async fn a_condition_that_is_no_boolean_is_refused_in_our_words() {
    let ctx = session().await;
    let frame = sql::sql(&ctx, "SELECT * FROM a SIMILARITY JOIN b ON a.id").await.unwrap();
    let error = frame.into_optimized_plan().unwrap_err().strip_backtrace();
    assert!(error.contains("SIMILARITY JOIN has to be boolean"), "{error}");
}

#[tokio::test]
async fn plain_sql_refuses_the_keyword() {
    let ctx = session().await;
    for text in [
        "SELECT * FROM a SIMILARITY JOIN b ON a.x = b.x",
        "SELECT * FROM (SELECT 1) SIMILARITY JOIN b ON true",
        "WITH t AS (SELECT * FROM a SIMILARITY JOIN b ON true) SELECT * FROM t",
        "SELECT * FROM a similarity",
    ] {
        let error = ctx.sql(text).await.unwrap_err().strip_backtrace();
        assert!(error.contains("similarity_sql") && error.contains("AS similarity"), "{text}: {error}");
    }
    ctx.sql("SELECT similarity.id FROM a AS similarity JOIN b ON similarity.x = b.x").await.unwrap();
    sql::sql(&ctx, "SELECT similarity.id FROM a similarity").await.unwrap();
}

#[tokio::test]
async fn sql_behaves_as_the_sessions_own() {
    let ctx = session().await;
    let error = sql::sql(&ctx, "SELECT 1; SELECT 2").await.unwrap_err().to_string();
    assert!(error.contains("one by one"), "{error}");
    assert!(sql::sql(&ctx, " -- nothing").await.unwrap_err().to_string().contains("no SQL statement"));
    let read_only = SQLOptions::new().with_allow_ddl(false);
    let error = sql::sql_with_options(&ctx, "CREATE TABLE z (x INT)", read_only).await.unwrap_err().to_string();
    assert!(error.contains("DDL not supported"), "{error}");
    sql::sql(&ctx, "SET datafusion.sql_parser.dialect = 'mysql'").await.unwrap();
    sql::sql(&ctx, "SELECT `id` FROM a AS l SIMILARITY JOIN (SELECT x AS y FROM b) r ON l.x = r.y").await.unwrap();
}

#[tokio::test]
async fn a_session_without_the_extension_says_so() {
    let ctx = SessionContext::new();
    let error = sql::sql(&ctx, "SELECT 1 FROM a SIMILARITY JOIN b ON true").await.unwrap_err().strip_backtrace();
    assert!(error.contains("does not know SIMILARITY JOIN"), "{error}");
}
