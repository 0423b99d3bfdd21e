//! Matching rules: errors, rule files, and where the catalog of a session reaches.

use std::fs;

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::config::SqlParserOptions;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use datafusion_similarity::sql::{self, RuleCatalog};
use tempfile::TempDir;

use crate::session;

async fn with_people() -> SessionContext {
    let context = session(8192, 2);
    let people = "CREATE TABLE people AS SELECT column1 AS id, column2 AS name, column3 AS \"Home Town\" FROM
                  (VALUES (1, 'martha', 'Bonn'), (2, 'marhta', 'Bonn'), (3, 'martha', 'Kiel'), (4, NULL, 'Kiel'))";
    context.similarity_sql(people).await.unwrap();
    run(&context, "CREATE MATCHING RULE same ON t, s AS levenshtein(t.name, s.name) <= 2").await;
    context
}

async fn run(context: &SessionContext, statement: &str) -> String {
    table(context, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

async fn table(context: &SessionContext, statement: &str) -> Result<String> {
    Ok(pretty_format_batches(&context.similarity_sql(statement).await?.collect().await?)?.to_string())
}

async fn refusal(context: &SessionContext, statement: &str) -> String {
    table(context, statement).await.expect_err(statement).strip_backtrace()
}

#[tokio::test]
async fn statements_say_what_is_wrong_with_them() {
    let context = with_people().await;
    for (statement, hint) in [
        ("CREATE MATCHING RULE r AS t.x = s.x", "expected ON and the names of the two rows"),
        ("CREATE MATCHING RULE r ON t AS t.x = s.x", "expected a comma and the name of the second row"),
        ("CREATE MATCHING RULE r ON t, s", "expected AS and a condition, or FROM"),
        ("CREATE MATCHING RULE r ON t, s FROM rules", "in single quotes"),
        ("CREATE MATCHING RULE r ON t, t AS t.x = t.y", "need two names"),
        ("CREATE MATCHING RULE r ON people t, s AS t.x = s.x", "ON takes nothing but two names"),
        ("CREATE MATCHING RULE r ON t, s AS t.x = s.x x", "expected the end of the statement, found x at Line: 1"),
        ("CREATE MATCHING RULE r ON t, s AS t.x = ", "Expected: an expression"),
        ("CREATE MATCHING RULE r ON t, s AS t.x = s.x AND\n name = 'x'", "the column name of a matching rule"),
        (
            "CREATE MATCHING RULE r ON t, s AS t.x = s.x AND\n name = 'x'",
            "write t.name or s.name at Line: 2, Column: 2",
        ),
        ("CREATE MATCHING RULE r ON t, s AS t.x = a.x", "the column a.x of a matching rule"),
        ("CREATE MATCHING RULE r ON t, s AS t.x IN (SELECT 1)", "no sub-query"),
        ("CREATE MATCHING RULE same ON t, s AS t.x = s.x", "'same' exists already; CREATE OR REPLACE"),
        ("CREATE MATCHING RULE r ON t, s AS match_rule('other', t, s)", "no matching rule 'other'"),
        ("CREATE MATCHING RULE r ON t, s AS t.x = s.x; SELECT 1", "found SELECT"),
        ("DROP MATCHING RULE other", "no matching rule 'other'; CREATE MATCHING RULE makes one (known are 'same')"),
        ("DROP MATCHING RULE", "Expected: identifier"),
        ("SHOW MATCHING RULES LIKE 'x'", "expected the end of the statement, found LIKE"),
    ] {
        let error = refusal(&context, statement).await;
        assert!(error.contains(hint), "{statement}: {error}");
    }
    let rules = RuleCatalog::of(&context.copied_config()).unwrap();
    assert_eq!(rules.names(), ["same"]);
}

#[tokio::test]
async fn calls_say_what_is_wrong_with_them() {
    let context = with_people().await;
    for (call, hint) in [
        ("match_rule('sane', a, b)", "no matching rule 'sane'; did you mean 'same'? (known are 'same') at Line: 2"),
        ("match_rule('same', a)", "as in match_rule('rule', a, b); it has 2 arguments"),
        ("match_rule(same, a, b)", "the first argument has to be a string literal"),
        ("Match_Scores('same', 'a', b)", "as in match_scores('rule', a, b); the second argument has to be a table"),
        ("matched_clause('same', a, b + 1)", "the third argument has to be a table alias"),
        ("match_rule('same', DISTINCT a, b)", "Expected"),
        ("match_rule(DISTINCT 'same', a, b)", "it takes no DISTINCT"),
        ("match_rule('same', a, b) OVER ()", "it takes no DISTINCT, ORDER BY, FILTER or OVER"),
        ("match_rule('same', a, nobody)", "the third argument, nobody, is no table of this query at Line: 2"),
        ("match_rule('same', a.id, b.id)", "the second argument, a.id, is no table of this query"),
        ("match_rule()", "it has 0 arguments"),
    ] {
        let error = refusal(&context, &format!("SELECT 1 FROM people a, people b\nWHERE {call}")).await;
        assert!(error.contains(hint), "{call}: {error}");
    }
}

#[tokio::test]
async fn a_rule_is_an_ordinary_condition() {
    let context = with_people().await;
    let plan = run(&context, "EXPLAIN SELECT 1 FROM people a JOIN people b ON match_rule('same', a, b)").await;
    assert!(plan.contains("SimilarityJoinExec") && !plan.contains("match_rule"), "{plan}");
    let frame =
        context.similarity_sql("SELECT matched_clause('same', a, b) AS c FROM people a, people b").await.unwrap();
    assert_eq!(frame.schema().field(0).data_type(), &DataType::Int64);
    run(&context, "CREATE VIEW v AS SELECT a.id FROM people a JOIN people b ON match_rule('same', a, b)").await;
    let definition = run(&context, "SHOW CREATE TABLE v").await;
    assert!(definition.contains("ON match_rule('same', a, b)"), "{definition}");
    run(&context, "DROP MATCHING RULE same").await;
    assert_eq!(context.sql("SELECT * FROM v").await.unwrap().count().await.unwrap(), 9);
    let listing = context.similarity_sql("SHOW MATCHING RULES").await.unwrap();
    assert_eq!((listing.schema().fields().len(), listing.count().await.unwrap()), (5, 0));
}

#[tokio::test]
async fn explain_analyze_counts_by_clause_and_atom() {
    let context = with_people().await;
    let condition = "(a.\"Home Town\" = b.\"Home Town\" AND levenshtein(a.name, b.name) <= 2) OR a.name = b.name";
    let query = format!("EXPLAIN ANALYZE SELECT a.id FROM people a SIMILARITY JOIN people b ON {condition}");
    let plan = run(&context, &query).await;
    for counter in [
        "clause_1_candidates=8,",
        "clause_1_witnesses=5,",
        "clause_2_candidates=5,",
        // three of the five have come out by clause 1
        "clause_2_witnesses=2,",
        "atom_2_evaluated=8,",
        "atom_2_passed=5,",
        "candidates=13,",
        "matched=7,",
    ] {
        assert!(plan.contains(counter), "{counter} is missing: {plan}");
    }
}

#[tokio::test]
async fn explain_shows_the_whole_tree_in_a_box() {
    let context = with_people().await;
    let clause = |n: usize| format!("(a.\"Home Town\" = b.\"Home Town\" AND levenshtein(a.name, b.name) = {n})");
    let clauses: Vec<String> = (0..10).map(clause).collect();
    let condition = clauses.join(" OR ");
    let query = format!("EXPLAIN FORMAT TREE SELECT a.id FROM people a SIMILARITY JOIN people b ON {condition}");
    let plan = run(&context, &query).await;
    assert!(plan.contains("hash [#1]") && !plan.contains("..."), "{plan}");
    let unwrapped: String = plan.chars().filter(|c| !c.is_whitespace() && !"│|├──┐".contains(*c)).collect();
    assert!((1..=10).all(|clause| unwrapped.contains(&format!("#{}>{clause}", clause + 1))), "{plan}");
}

/// DataFusion's boxes cut text at a byte, which panics within a character.
#[tokio::test]
async fn boxes_take_any_character() {
    let context = session(8192, 2);
    context.sql("CREATE TABLE t AS SELECT 1 AS id, 'x' AS \"größenwahnsinnig großes maß\"").await.unwrap();
    let column = "\"größenwahnsinnig großes maß\"";
    for condition in [
        format!("levenshtein(a.{column}, b.{column}) <= 1 AND a.{column} <> 'ßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßß'"),
        format!("levenshtein(a.{column}, b.{column}) <= 1 OR a.{column} = b.{column}"),
    ] {
        let query = format!("EXPLAIN FORMAT TREE SELECT a.id FROM t a SIMILARITY JOIN t b ON {condition}");
        assert!(run(&context, &query).await.contains("Exec"), "{condition}");
    }
}

#[tokio::test]
async fn execution_trees_can_be_drawn() {
    let context = with_people().await;
    let condition = "(a.\"Home Town\" = b.\"Home Town\" AND levenshtein(a.name, b.name) <= 1) OR a.name = b.name";
    let query = format!("EXPLAIN FORMAT GRAPHVIZ SELECT a.id FROM people a SIMILARITY JOIN people b ON {condition}");
    let drawn = run(&context, &query).await;
    for line in [
        "digraph execution_trees {",
        r##"entry0 [shape=cds label="hash [#1 a.Home Town = b.Home Town] 1.00 partners a row"]"##,
        r##"step0_0 [label="#2 levenshtein(a.name, b.name) <= 1\n[12.1 ns, 2.00 %]"]"##,
        "entry0 -> step0_0",
        "step0_0 -> clause1",
        "entry1 -> clause2",
    ] {
        assert!(drawn.contains(line), "{line} is missing: {drawn}");
    }
}

#[tokio::test]
async fn text_for_other_consumers_holds_the_rule() {
    let context = with_people().await;
    let text = "SELECT match_rule('same', a, b), /* here */ 1 FROM people a SIMILARITY JOIN people b\n\
                ON match_rule('same', a, b) AND (a.id < b.id)";
    let statement = sql::split(text, &SqlParserOptions::default()).unwrap()[0];
    assert_eq!(
        statement.rewrite_for(&context.state()).unwrap(),
        "SELECT (levenshtein(a.name, b.name) <= 2) AS \"match_rule('same', a, b)\", /* here */ 1 FROM people a  JOIN \
         people b\nON similarity_join_condition(((levenshtein(a.name, b.name) <= 2) AND (a.id < b.id)))"
    );
    let plain = context.sql("SELECT match_rule('same', a, b) FROM people a, people b").await.unwrap_err();
    assert!(plain.strip_backtrace().contains("match_rule"), "{plain}");
    for statement in ["DROP MATCHING RULE same", "SHOW MATCHING RULES"] {
        let planned = sql::logical_plan(&context.state(), statement).await.unwrap_err().to_string();
        assert!(planned.contains("has no plan"), "{planned}");
    }
}

#[tokio::test]
async fn each_session_has_its_own_rules() {
    let (one, other) = (with_people().await, session(8192, 2));
    assert!(refusal(&other, "DROP MATCHING RULE same").await.contains("this session has none"));
    one.enable_similarity().unwrap();
    run(&one, "DROP MATCHING RULE same").await;
    let stock = SessionContext::new();
    assert!(refusal(&stock, "SHOW MATCHING RULES").await.contains("does not know matching rules"));
    let read_only = SQLOptions::new().with_allow_ddl(false);
    for ddl in ["CREATE MATCHING RULE", "DROP MATCHING RULE"] {
        let statement = if ddl.starts_with('C') { format!("{ddl} r ON t, s AS t.x = s.x") } else { format!("{ddl} r") };
        let error = sql::sql_with_options(&one, &statement, read_only).await.unwrap_err().to_string();
        assert!(error.contains(&format!("DDL not supported: {ddl}")), "{error}");
    }
    sql::sql_with_options(&one, "SHOW MATCHING RULES", read_only).await.unwrap();
}

/// A rule file over the columns id, name and "Home Town".
fn rule(equalities: &str, sim: &str, threshold: &str) -> String {
    let relations = "Preconditions:\n  Relations:\n    - [0, 0, 1, 2]\n    - [1, 0, 1, 2]\n";
    let lists = format!("  Equalities:\n    - [0, 1{equalities}]\n  Sim:\n    - [0, 1{sim}]\n");
    let end = "Conseq:\n  Option:\n    Equality\n  Equality:\n    [0, 1, 0, 0]\n";
    format!("{relations}{lists}  Threshold:\n    - [0, 1{threshold}]\n{end}")
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[tokio::test]
async fn rule_files_of_a_folder_are_clauses() {
    let context = with_people().await;
    let files = [
        ("1.yml", rule("", ", 1, 1", ", 0.97")),
        ("0.yaml", rule(", 2, 2", ", 1, 1", ", 0.96")),
        ("README.md", String::new()),
    ];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let path = folder.path().display();
    run(&context, &format!("CREATE MATCHING RULE files ON people t, people s FROM '{path}'")).await;
    let listing = run(&context, "SHOW MATCHING RULES").await;
    let expected = "| files | t    | s     | 2       | (t.\"Home Town\" = s.\"Home Town\" AND \
                    jaro_winkler_similarity(t.name, s.name) >= 0.96) OR \
                    (jaro_winkler_similarity(t.name, s.name) >= 0.97) |";
    assert!(listing.contains(expected), "{listing}");
    let pairs = "SELECT a.id, b.id AS other, matched_clause('files', a, b) AS clause FROM people a JOIN people b
                 ON match_rule('files', a, b) AND a.id < b.id ORDER BY 1, 2";
    let expected = "\
+----+-------+--------+
| id | other | clause |
+----+-------+--------+
| 1  | 2     | 1      |
| 1  | 3     | 2      |
+----+-------+--------+";
    assert_eq!(run(&context, pairs).await, expected);
    run(&context, &format!("CREATE OR REPLACE MATCHING RULE files ON people t, people s FROM '{path}/1.yml'")).await;
    assert!(run(&context, "SHOW MATCHING RULES").await.contains("| 1       | (jaro_winkler"));
}

#[tokio::test]
async fn rule_files_say_what_is_wrong_with_them() {
    let context = with_people().await;
    let head = "Preconditions:\n  Relations: [[0, 0], [1, 0]]\n";
    for (text, hint) in [
        (
            "Preconditions:\n  Relations:\n    - [0, zero]\n    - [1, 0]\n".to_owned(),
            "0.yaml:3: Relations takes two lists",
        ),
        (
            format!("{head}  Equality: [[0, 1, 1, 1]]\n"),
            "0.yaml:3: Preconditions has no such key; it takes Relations, ",
        ),
        (format!("{head}  Equalities: [[0, 1, 1]]\n"), "0.yaml:3: Equalities lists columns in pairs"),
        (format!("{head}  Equalities: [[0, 1, 1, 1], [0, 1, 2, 2]]\n"), "0.yaml:3: Equalities takes one list"),
        (format!("{head}  Equalities: [[1, 0, 1, 1]]\n"), "begins with the tables, as in - [0, 1, ..]"),
        (format!("{head}  Equalities: [[0, 1, name, name]]\n"), "0.yaml:3: a column in Equalities is its place"),
        (
            format!("{head}  Equalities: [[0, 1, 3, 1]]\n"),
            "0.yaml:3: there is no column 3: the table of t has 3 columns",
        ),
        (format!("{head}  Sim:\n    - [0, 1, 1, 1]\n"), "0.yaml:4: Threshold has to give each pair of Sim a threshold"),
        (format!("{head}  Sim: [[0, 1, 1, 1]]\n  Threshold: [[0, 1, high]]\n"), "0.yaml:4: a threshold is a number"),
        (head.to_owned(), "Preconditions compare no columns"),
        ("Conseq: {}\n".to_owned(), "0.yaml:1: the key Preconditions is missing"),
        ("- 1\n".to_owned(), "0.yaml:1: a rule file has to be a mapping with the keys Preconditions, Conseq"),
        (format!("{head}  Sim: [[0, 1\n"), "this is no YAML"),
        (String::new(), "0.yaml:1: a rule file holds one YAML document, this one holds 0"),
    ] {
        let folder = folder(&[("0.yaml", &text)]);
        let create = format!("CREATE MATCHING RULE r ON people t, people s FROM '{}'", folder.path().display());
        let error = refusal(&context, &create).await;
        assert!(error.contains(hint), "{text}{error}");
    }
    let empty = folder(&[("rule.txt", "")]);
    let path = empty.path().display().to_string();
    for (from, hint) in [
        (format!("ON people t, people s FROM '{path}'"), "holds no rule file; their names end in .yaml or .yml"),
        (format!("ON people t, people s FROM '{path}/none.yaml'"), "reading the rule file"),
        (format!("ON t, s FROM '{path}'"), "rule files count the columns of a table, and t is none"),
    ] {
        let error = refusal(&context, &format!("CREATE MATCHING RULE r {from}")).await;
        assert!(error.contains(hint), "{error}");
    }
}

/// No row of either side shares a group with another one: nothing is probed, and all rows are counted.
#[tokio::test]
async fn rows_of_a_self_join_count_though_all_are_alone() {
    let context = session(8192, 3);
    run(&context, "CREATE TABLE t AS SELECT value AS id, concat('n', value) AS s FROM generate_series(1, 500)").await;
    let query = "EXPLAIN ANALYZE SELECT count(*) FROM t a SIMILARITY JOIN t b
                 ON (a.id = b.id AND levenshtein(a.s, b.s) <= 1 OR a.id = b.id AND jaro_similarity(a.s, b.s) >= 0.9)
                 AND a.s < b.s";
    let plan = run(&context, query).await;
    assert!(plan.contains("build=self-join") && plan.contains("probe_rows=500"), "{plan}");
}
