//! The shell as a process: arguments, output, standard error, exit status.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The shell in an empty directory that is also its home, so that nobody's settings leak in.
pub(super) struct Shell {
    directory: TempDir,
}

impl Shell {
    pub(super) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.path().join(name), text).unwrap();
        self
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_similarity-cli"));
        command.args(arguments).current_dir(self.path()).env("HOME", self.path()).env_remove("RUST_BACKTRACE");
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Results only, as CSV.
    fn csv(&self, sql: &str) -> Run {
        self.run(&["-q", "--format", "csv", "-c", sql])
    }

    fn pipe(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Run::of(child.wait_with_output().unwrap())
    }
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) succeeded: bool,
    pub(super) out: String,
    pub(super) err: String,
}

impl Run {
    pub(super) fn of(output: Output) -> Self {
        Self {
            succeeded: output.status.success(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The output of a run without errors.
    #[track_caller]
    pub(super) fn clean(self) -> String {
        assert!(self.succeeded && self.err.is_empty(), "{self:?}");
        self.out
    }
}

#[test]
fn a_device_is_used_where_the_shell_is_told() {
    let shell = Shell::new();
    let sql = "SET similarity.engine = 'cuda';
               CREATE TABLE t AS SELECT value AS id, concat('name ', value / 2) AS s FROM generate_series(0, 99);
               SELECT count(*) FROM t a SIMILARITY JOIN t b ON levenshtein(a.s, b.s) <= 0 AND a.id < b.id;
               EXPLAIN SELECT count(*) FROM t a SIMILARITY JOIN t b ON levenshtein(a.s, b.s) <= 0 AND a.id < b.id";
    let mut command = shell.command(&["-q", "--format", "csv", "-c", sql]);
    let is_on_a_device = std::env::var("SIMILARITY_ENGINE").is_ok_and(|engine| engine == "cuda");
    if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none() && !is_on_a_device {
        command.env("LD_LIBRARY_PATH", emulated_cuda::folder());
    }
    let run = Run::of(command.stdin(Stdio::null()).output().unwrap());
    assert!(run.succeeded, "{run:?}");
    assert!(run.out.contains("\n50\n") && run.out.contains("cuda:0"), "{run:?}");
}

#[test]
fn statements_of_an_argument_run_in_order() {
    let shell = Shell::new();
    assert_eq!(shell.csv("SELECT 1 AS a; SELECT ';' AS b;").clean(), "a\n1\nb\n;\n");
    assert_eq!(shell.run(&["-q", "--format", "csv", "-c", "SELECT 1 AS a", "SELECT 2 AS a"]).clean(), "a\n1\na\n2\n");
}

#[test]
fn a_failing_statement_ends_the_arguments() {
    let run = Shell::new().csv("SELECT 1 AS a; SELECT nope; SELECT 2 AS b");
    assert!(!run.succeeded && run.err.contains("nope"), "{run:?}");
    assert_eq!(run.out, "a\n1\n");
    assert!(!Shell::new().csv("").succeeded);
    assert!(!Shell::new().csv("-- nothing").succeeded);
}

#[test]
fn a_file_runs_to_its_end_and_fails_if_a_statement_did() {
    let shell = Shell::new();
    shell.write(
        "good.sql",
        "#!/usr/bin/env similarity-cli\n-- one; two\nSELECT 1 AS a;\nSELECT\n  2 AS b -- ;\n;SELECT 3 AS c",
    );
    shell.write("bad.sql", "SELECT 1 AS a;\nSELECT\n  = 2;\nSELECT 3 AS c;");
    assert_eq!(shell.run(&["-q", "--format", "csv", "-f", "good.sql"]).clean(), "a\n1\nb\n2\nc\n3\n");
    let run = shell.run(&["-q", "--format", "csv", "-f", "bad.sql"]);
    assert!(!run.succeeded && run.err.contains("Line: 3, Column: 3"), "{run:?}");
    assert_eq!(run.out, "a\n1\nc\n3\n");
    assert!(!shell.run(&["-f", "missing.sql"]).succeeded);
}

#[test]
fn a_pipe_takes_statements_and_commands() {
    let shell = Shell::new();
    shell.write("included.sql", "SELECT 'included' AS x;");
    let input = "SELECT\n1 AS a;\n\\pset format csv\nSELECT 2 AS b; SELECT 3 AS c;\n\\i included.sql\n\\q\nSELECT 4;";
    let out = shell.pipe(&["-q", "--format", "json"], input).clean();
    assert_eq!(out, "[{\"a\":1}]\nOutput format is Csv.\nb\n2\nc\n3\nx\nincluded\n");
    let run = shell.pipe(&["-q", "--format", "csv"], "SELECT nope;\nSELECT 1 AS a;\n\\nope\n");
    assert!(!run.succeeded && run.err.contains("nope") && run.err.contains("\\?"), "{run:?}");
    assert_eq!(run.out, "a\n1\n");
    assert!(!shell.pipe(&["-q"], "SELECT 'open;\n").succeeded);
}

#[test]
fn matching_rules_are_made_and_used() {
    let shell = Shell::new();
    shell.write("wrong.sql", "SELECT 1 AS a;\nSELECT match_rule('nope', a, b)\nFROM a, b;\n");
    let input = "CREATE MATCHING RULE r ON t, s AS t.x = s.x;\nSELECT match_rule('r', a, b) AS m -- here\n\
                 FROM (SELECT 1 AS x) a, (SELECT 1 AS x) b; SHOW MATCHING RULES;\n";
    let out = shell.pipe(&["-q", "--format", "csv"], input).clean();
    assert_eq!(out, "m\ntrue\nname,left,right,clauses,definition\nr,t,s,1,t.x = s.x\n");
    let table = shell.run(&["-q", "-c", "CREATE MATCHING RULE r ON t, s AS t.x = s.x; SHOW MATCHING RULES"]).clean();
    assert!(table.contains("| r    | t    | s     | 1       | t.x = s.x  |"), "{table}");
    let run = shell.run(&["-q", "--format", "csv", "-f", "wrong.sql"]);
    assert!(!run.succeeded && run.err.contains("no matching rule 'nope'") && run.err.contains("Line: 2"), "{run:?}");
}

#[test]
fn tables_and_functions_are_described() {
    let shell = Shell::new();
    let input = "CREATE TABLE city (name VARCHAR, people BIGINT);\n\\d\n\\d city\n\\h\n\\?\n";
    let out = shell.pipe(&["-q"], input).clean();
    for word in ["city", "people", "BASE TABLE", "quiet", "CREATE TABLE"] {
        assert!(out.contains(word), "{word}: {out}");
    }
}

#[test]
fn formats_are_those_of_datafusion_cli() {
    let shell = Shell::new();
    let of = |format: &str| shell.run(&["-q", "--format", format, "-c", "SELECT 1 AS a, NULL AS b"]).clean();
    assert_eq!(of("csv"), "a,b\n1,\n");
    assert_eq!(of("tsv"), "a\tb\n1\t\n");
    assert_eq!(of("json"), "[{\"a\":1}]\n");
    assert_eq!(of("nd-json"), "{\"a\":1}\n");
    assert_eq!(of("table"), "+---+------+\n| a | b    |\n+---+------+\n| 1 | NULL |\n+---+------+\n");
    assert_eq!(of("automatic"), of("table"));
}

#[test]
fn only_tables_are_cut_to_a_number_of_rows() {
    let query = "SELECT value FROM generate_series(1, 50000)";
    let lines = |format: &str| Shell::new().run(&["-q", "--format", format, "-c", query]).clean().lines().count();
    assert_eq!((lines("csv"), lines("nd-json")), (50_001, 50_000));
    assert!(lines("table") < 60);
}

#[test]
fn without_quiet_the_shell_tells_more() {
    let out = Shell::new().run(&["-c", "SELECT 1"]).clean();
    assert!(out.starts_with("similarity-cli v") && out.contains("1 row(s) fetched"), "{out}");
}

#[test]
fn settings_reach_the_session() {
    let shell = Shell::new();
    let settings = ["-q", "--format", "csv", "-b", "123", "--maxrows", "inf"];
    let query = [
        "-c",
        "SHOW datafusion.execution.batch_size; SET datafusion.execution.batch_size = 7; SHOW datafusion.execution.batch_size",
    ];
    let out = shell.run(&[&settings[..], &query].concat()).clean();
    assert!(out.contains("batch_size,123") && out.contains("batch_size,7"), "{out}");
    let rows = "SELECT * FROM generate_series(1, 100)";
    let shown = |maxrows: &str| shell.run(&["-q", "--maxrows", maxrows, "-c", rows]).clean().lines().count();
    assert_eq!(shown("inf"), 104);
    assert!(shown("3") < 20);
}

#[test]
fn memory_is_limited() {
    let shell = Shell::new();
    let query =
        "SELECT count(*) FROM generate_series(1, 500000) a JOIN generate_series(1, 500000) b ON a.value = b.value";
    for pool in ["greedy", "fair"] {
        let run = shell.run(&["-q", "-m", "1m", "--mem-pool-type", pool, "-c", query]);
        assert!(!run.succeeded && run.err.contains("Resources exhausted"), "{run:?}");
    }
}

#[test]
fn external_tables_come_in_every_format() {
    let shell = Shell::new();
    shell.write("city.csv", "id,name\n1,Köln\n2,Bonn\n").write("city.json", "{\"id\":1,\"name\":\"Köln\"}\n");
    let out = shell
        .csv(
            "COPY (SELECT 1 AS id, 'Köln' AS name) TO 'city.parquet' STORED AS PARQUET;
             CREATE EXTERNAL TABLE c STORED AS CSV LOCATION 'city.csv' OPTIONS ('format.has_header' 'true');
             CREATE EXTERNAL TABLE j STORED AS JSON LOCATION 'city.json';
             CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION 'city.parquet';
             SELECT c.id, j.name, p.name AS also FROM c JOIN j ON c.name = j.name JOIN p ON p.name = c.name;
             SELECT count(*) AS n FROM 'city.csv'",
        )
        .clean();
    assert!(out.ends_with("id,name,also\n1,Köln,Köln\nn\n2\n"), "{out}");
}

#[test]
fn relative_paths_start_from_the_data_path() {
    let shell = Shell::new();
    fs::create_dir(shell.path().join("data")).unwrap();
    shell.write("data/t.csv", "x\n1\n");
    let out = shell.run(&["-q", "--format", "csv", "-p", "data", "-c", "SELECT * FROM 't.csv'"]).clean();
    assert_eq!(out, "x\n1\n");
    assert!(!shell.run(&["-p", "nowhere", "-c", "SELECT 1"]).succeeded);
}

#[test]
fn startup_files_run_before_piped_statements() {
    let shell = Shell::new();
    shell
        .write(".datafusionrc", "CREATE TABLE t AS SELECT 'home' AS x;")
        .write("rc.sql", "CREATE TABLE t AS SELECT 'rc' AS x;");
    let select = |arguments: &[&str]| shell.pipe(arguments, "SELECT x FROM t;").clean();
    assert!(select(&["-q", "--format", "csv"]).ends_with("x\nhome\n"));
    assert!(select(&["-q", "--format", "csv", "--rc", "rc.sql"]).ends_with("x\nrc\n"));
}

/// Two lists of names; ids 1 and 2 have a similar partner, 3 has none.
const NAMES: &str = "CREATE TABLE a AS VALUES (1, 'Deutsche Bank AG'), (2, 'Siemens Energy'), (3, 'Linde'); \
                     CREATE TABLE b AS VALUES (1, 'deutsche bank'), (2, 'Energy Siemens');";
const SIMILAR: &str = "ON jaccard(word_tokens(a.column2), word_tokens(b.column2)) >= 0.6";

#[test]
fn similarity_joins_run_wherever_a_join_may_stand() {
    let shell = Shell::new();
    for (statements, expected) in [
        ("SELECT a.column1 AS id FROM a SIMILARITY JOIN b {on} ORDER BY 1", "id\n1\n2\n"),
        ("SELECT column1 AS id FROM a ANTI SIMILARITY JOIN b {on}", "id\n3\n"),
        ("SELECT column1 AS id FROM b RIGHT SEMI SIMILARITY JOIN a {on} ORDER BY 1", "id\n1\n2\n"),
        ("SELECT count(b.column1) AS n, count(*) AS m FROM a LEFT SIMILARITY JOIN b {on}", "n,m\n2,3\n"),
        ("WITH t AS (SELECT a.column1 AS id FROM a SIMILARITY JOIN b {on}) SELECT max(id) AS id FROM t", "id\n2\n"),
        (
            "CREATE VIEW v AS SELECT a.column1 AS id FROM a SIMILARITY JOIN b {on}; SELECT max(id) AS id FROM v",
            "id\n2\n",
        ),
        (
            "CREATE TABLE t AS SELECT a.column1 AS id FROM a SIMILARITY JOIN b {on}; SELECT max(id) AS id FROM t",
            "id\n2\n",
        ),
        (
            "INSERT INTO b SELECT a.* FROM a ANTI SIMILARITY JOIN b {on}; SELECT max(column1) AS id FROM b",
            "count\n1\nid\n3\n",
        ),
        (
            "COPY (SELECT a.column1 AS id FROM a SIMILARITY JOIN b {on}) TO 't.parquet'; SELECT max(id) AS id FROM 't.parquet'",
            "count\n2\nid\n2\n",
        ),
        (
            "SELECT count(*) AS n FROM a AS similarity SIMILARITY JOIN b ON similarity.column1 = b.column1 AND jaccard(similarity.column2, b.column2) > 0.1",
            "n\n2\n",
        ),
    ] {
        let statements = statements.replace("{on}", SIMILAR);
        assert_eq!(shell.csv(&format!("{NAMES} {statements}")).clean(), expected, "{statements}");
    }
}

#[test]
fn a_script_may_join_by_similarity() {
    let shell = Shell::new();
    shell.write("join.sql", &format!("{NAMES}\n-- the pairs\nSELECT a.column1 AS id\n  FROM a\n  SIMILARITY JOIN b\n    {SIMILAR}\n  ORDER BY 1;\n"));
    assert_eq!(shell.run(&["-q", "--format", "csv", "-f", "join.sql"]).clean(), "id\n1\n2\n");
}

#[test]
fn a_view_keeps_the_users_words() {
    let view = format!("CREATE VIEW v AS SELECT a.column1 FROM a SIMILARITY JOIN b {SIMILAR}");
    let out = Shell::new().csv(&format!("{NAMES} {view}; SHOW CREATE TABLE v")).clean();
    assert!(out.contains(&view), "{out}");
}

#[test]
fn explain_shows_the_operator_and_nothing_of_the_shell() {
    let explain = format!("EXPLAIN FORMAT INDENT SELECT * FROM a SIMILARITY JOIN b {SIMILAR}");
    let out = Shell::new().csv(&format!("{NAMES} {explain}")).clean();
    assert!(out.contains("SimilarityJoinExec") && !out.contains("WatchExec"), "{out}");
    assert!(!out.contains("similarity_join_condition"), "{out}");
}

#[test]
fn a_join_that_cannot_be_accelerated_is_refused() {
    let run = Shell::new().csv(&format!("{NAMES} SELECT * FROM a SIMILARITY JOIN b ON a.column1 < b.column1"));
    assert!(!run.succeeded && run.err.contains("SIMILARITY JOIN"), "{run:?}");
    let plain = format!(
        "{NAMES} SET similarity.enabled = false; SELECT a.column1 AS id FROM a SIMILARITY JOIN b ON a.column1 < b.column1"
    );
    assert_eq!(Shell::new().csv(&plain).clean(), "id\n1\n");
}

#[test]
fn errors_of_similarity_join_point_into_the_text() {
    let shell = Shell::new();
    let run = shell.csv("SELECT 1;\nSELECT * FROM a SIMILARITY JOIN b USING (x)");
    assert!(run.err.contains("not USING") && run.err.contains("Line: 2, Column: 35"), "{run:?}");
}

#[test]
fn a_closed_pipe_ends_the_shell_quietly() {
    let shell = Shell::new();
    let mut command = shell.command(&["-q", "--maxrows", "inf", "-c", "SELECT * FROM generate_series(1, 200000)"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!(run.err, "");
}

/// The catalogs of the shell look names up elsewhere too; what they do not find is named all the same.
#[test]
fn errors_name_what_is_wrong_in_our_words() {
    let shell = Shell::new();
    let tables = "CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna');";
    for (sql, words) in [
        (
            "SELECT * FROM nearest('nope', 'p d', 1, 'DISTANCE abs(nope.id - d.id)')",
            "finds no table nope in the session",
        ),
        ("SELECT 1 FROM p similarity JOIN p b ON similarity.id = b.id", "write AS similarity"),
        ("SELECT jaro_winkler(name, name) FROM p", "Did you mean 'jaro_winkler_similarity'?"),
    ] {
        let run = shell.csv(&format!("{tables} {sql}"));
        assert!(!run.succeeded && run.err.contains(words), "{sql}: {run:?}");
    }
}

#[test]
fn duplicates_are_deleted_and_options_set_back() {
    let shell = Shell::new();
    let out = shell
        .csv(
            "CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna'), (2, 'Ana'), (3, 'Hanna'), (6, 'anna');
             DELETE FROM p WHERE id IN
                 (SELECT b.id FROM p a JOIN p b ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id);
             SELECT id FROM p ORDER BY id;
             DELETE FROM p a USING p b WHERE a.id < b.id;
             SET similarity.max_clauses = 7;
             RESET similarity.max_clauses;
             SHOW similarity.max_clauses",
        )
        .clean();
    assert_eq!(out, "count\n2\nid\n1\n3\ncount\n1\nname,value\nsimilarity.max_clauses,256\n");
}

#[test]
fn an_error_of_a_script_names_its_line() {
    let shell = Shell::new();
    shell.write("open.sql", "SELECT 1;\n\nSELECT 2;\nSELECT 'open\n;\n");
    shell.write("comment.sql", "SELECT 1;\nSELECT 2; SELECT /* open\n;\n");
    shell.write("dollar.sql", "\n\nSELECT $$open;\n");
    for (file, place) in [("open.sql", "Line: 4, Column: 8"), ("comment.sql", "Line: "), ("dollar.sql", "Line: ")] {
        let run = shell.run(&["-q", "-f", file]);
        assert!(!run.succeeded && run.err.contains(place) && !run.err.contains("Line: 1,"), "{file}: {run:?}");
    }
    let run = shell.pipe(&["-q"], "SELECT 1;\n\nSELECT 2;\nSELECT \"open");
    assert!(run.err.contains("Line: 4, Column: 8"), "{run:?}");
}

#[test]
fn input_that_is_not_utf_8_is_named_with_its_line() {
    let shell = Shell::new();
    fs::write(shell.path().join("latin.sql"), b"SELECT 1;\nSELECT 2;\nSELECT 'M\xfcller';\n").unwrap();
    let run = shell.run(&["-q", "--format", "csv", "-f", "latin.sql"]);
    assert!(!run.succeeded && run.err.contains("latin.sql is not UTF-8 in line 3, after 9 bytes"), "{run:?}");
    assert!(run.out.contains('2'), "{run:?}");
    shell.write("include.sql", "\\i latin.sql\n");
    let run = shell.run(&["-q", "-f", "include.sql"]);
    assert!(run.err.contains("latin.sql is not UTF-8 in line 3"), "{run:?}");
    fs::write(shell.path().join("r.yaml"), b"Preconditions:\n  # M\xfcller\n").unwrap();
    let rule = "CREATE TABLE p (id INT) AS VALUES (1); CREATE MATCHING RULE r ON p a, p b FROM 'r.yaml'";
    let run = shell.csv(rule);
    assert!(run.err.contains("r.yaml") && run.err.contains("line 2 is not"), "{run:?}");
    shell.write("mark.sql", "\u{feff}SELECT 7 AS x;\n");
    assert_eq!(shell.run(&["-q", "--format", "csv", "-f", "mark.sql"]).clean(), "x\n7\n");
}
