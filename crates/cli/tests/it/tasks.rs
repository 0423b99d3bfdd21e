//! `dedupe` and `link` as processes: output, report, errors, and what is left behind.

use std::collections::BTreeSet;
use std::fs;

use super::markdown::root;
use super::shell::{Run, Shell};

const RULES: &str = "-- people\nCREATE MATCHING RULE person ON t, s AS (t.soc_sec_id = s.soc_sec_id) OR \
     (t.date_of_birth = s.date_of_birth AND jaro_winkler_similarity(t.surname, s.surname) >= 0.85);";
const SCORE: &str = "coalesce(jaro_winkler_similarity(a.surname, b.surname), 0)";

fn data(name: &str) -> String {
    root().join("sql-examples/data").join(name).to_str().unwrap().to_owned()
}

fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("rules.sql", RULES);
    shell.write("few.csv", "key,name,zip\n1,Anna,0815\n2,Ana,4711\n3,Zoe,0815\n,Max,\n");
    shell.write("twice.csv", "key,name\n1,secret one\n1,secret two\n2,x\n2,y\n3,z\n");
    shell
}

/// The files of the folder, so that none is left over.
fn files(shell: &Shell) -> BTreeSet<String> {
    let names = fs::read_dir(shell.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[track_caller]
fn fails(shell: &Shell, arguments: &[&str], wanted: &str) {
    let before = files(shell);
    let run = shell.run(arguments);
    assert!(!run.succeeded && run.err.contains(wanted), "{run:?}");
    assert!(!run.err.contains("secret"), "{run:?}");
    assert_eq!(files(shell), before);
}

#[test]
fn people_get_clusters_and_a_report() {
    let shell = shell();
    let people = data("people.csv");
    let out = "it's \"a\" [file].csv";
    let mut arguments = vec!["dedupe", &people, "--id", "ID", "--rule", "rules.sql", "--out", out];
    let truth = data("people_truth.csv");
    arguments.extend(["--report", "report.html", "--charts", "charts", "--truth", &truth, "--score", SCORE]);
    arguments.extend(["--format", "csv"]);
    let run = shell.run(&arguments);
    assert!(run.succeeded, "{run:?}");
    let summary = "1,000 rows, 486 pairs, 514 clusters, 972 rows in clusters of more than one; ";
    assert!(run.err.starts_with(summary) && run.err.lines().count() == 1, "{run:?}");
    assert!(run.out.starts_with("tp,fp,fn,precision,recall,f1,pairs,") && run.out.contains("\n486,0,14,1.0,0.972,"));
    assert!(run.out.contains("\nrows,found_clusters,") && run.out.contains("\n1000,514,500,1.0,0.972,"), "{}", run.out);

    let table = fs::read_to_string(shell.path().join(out)).unwrap();
    let mut lines = table.lines();
    let header = lines.next().unwrap();
    assert!(header.starts_with("id,given_name,") && header.ends_with(",soc_sec_id,cluster_id"), "{header}");
    let clusters: Vec<&str> = lines.map(|line| line.rsplit_once(',').unwrap().1).collect();
    assert_eq!((clusters.len(), clusters.iter().collect::<BTreeSet<_>>().len()), (1000, 514));

    let report = fs::read_to_string(shell.path().join("report.html")).unwrap();
    for wanted in [
        "<h1>Duplicates in people.csv</h1>",
        "Pairs by clause of the rule",
        "Pairs by score",
        "Measures by threshold",
        "Clusters by number of rows",
        "The largest clusters",
        "Why pairs match",
        "<h3>Clause 1</h3>",
        "class=\"chart bar\"",
        "Rows without values",
        "(a.soc_sec_id = b.soc_sec_id)",
        "<td class=\"number\">450</td><td class=\"number\">450</td>",
    ] {
        assert!(report.contains(wanted), "{wanted} is missing in {report}");
    }
    assert!(!report.contains("waller") && !report.contains("tullaroop"), "cell values are shown");
    for chart in ["clauses", "groups", "scores", "thresholds"] {
        let file = |end: &str| fs::read_to_string(shell.path().join(format!("charts/{chart}{end}"))).unwrap();
        assert!(file(".svg").contains("</svg>"));
        let specification: serde_json::Value = serde_json::from_str(&file(".vl.json")).unwrap();
        assert!(specification["data"]["values"].as_array().is_some_and(|rows| !rows.is_empty()), "{specification}");
    }
    assert_eq!(files(&shell).len(), 6, "{:?}", files(&shell));

    // the same again
    arguments.extend(["--show-values", "-q"]);
    fails(&shell, &arguments, "exists; --overwrite replaces it");
    arguments.push("--overwrite");
    let run = shell.run(&arguments);
    assert!(run.succeeded && run.err.is_empty(), "{run:?}");
    let report = fs::read_to_string(shell.path().join("report.html")).unwrap();
    assert!(report.contains("<td>tullaroop street</td>"), "no cell values are shown");
    assert!(report.contains("<th scope=\"col\">right row</th>"), "{report}");
    assert_eq!(files(&shell).len(), 6, "{:?}", files(&shell));
}

/// An alternative in parentheses is one clause, as `matched_clause` counts them, OR within or not.
#[test]
fn clauses_of_the_report_are_those_of_the_rule() {
    let shell = shell();
    let people = data("people.csv");
    let on = "(a.soc_sec_id = b.soc_sec_id OR a.given_name = b.given_name AND a.surname = b.surname) \
              OR a.date_of_birth = b.date_of_birth";
    let run = shell.run(&["dedupe", &people, "--id", "id", "--on", on, "--report", "r.html", "--charts", "c"]);
    assert!(run.succeeded, "{run:?}");
    let text = fs::read_to_string(shell.path().join("c/clauses.vl.json")).unwrap();
    let chart: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = chart["data"]["values"].as_array().unwrap();
    let added = rows.iter().filter(|row| row["series"] == "added").map(|row| row["value"].as_f64().unwrap());
    assert_eq!(added.clone().count(), 2, "{chart}");
    assert!(run.err.contains(&format!(" {} pairs,", added.sum::<f64>())), "{run:?}: {chart}");
    let report = fs::read_to_string(shell.path().join("r.html")).unwrap();
    assert!(report.contains("(a.soc_sec_id = b.soc_sec_id OR a.given_name = b.given_name AND"), "{report}");
}

#[test]
fn a_report_without_a_score_counts_the_only_measure() {
    let shell = shell();
    let people = data("people.csv");
    let run = shell.run(&["-q", "dedupe", &people, "--id", "id", "--rule", "rules.sql", "--report", "one.html"]);
    assert!(run.succeeded && run.out.contains("| cluster_id |"), "{run:?}");
    let report = fs::read_to_string(shell.path().join("one.html")).unwrap();
    assert!(report.contains("Scores are <code>jaro_winkler_similarity(surname)</code>, from 0 to 1."), "{report}");
    let on = "jaro_similarity(a.surname, b.surname) > 0.8 AND levenshtein(a.suburb, b.suburb) <= 1";
    let run = shell.run(&["-q", "dedupe", &people, "--on", on, "--report", "many.html"]);
    assert!(run.succeeded, "{run:?}");
    let report = fs::read_to_string(shell.path().join("many.html")).unwrap();
    assert!(!report.contains("Pairs by score"), "{report}");
}

#[test]
fn values_are_shown_whatever_their_columns_are_called() {
    let shell = shell();
    shell.write("odd.csv", "id,place,Member,n,score,c0\n1,\"a <b>\",x,,1,2\n2,\"a <b>\",y,,1,2\n");
    let run = shell.run(&[
        "-q",
        "dedupe",
        "odd.csv",
        "--id",
        "id",
        "--on",
        "a.place = b.place",
        "--out",
        "o.csv",
        "--report",
        "o.html",
        "--show-values",
        "--score",
        "a.score + b.c0",
    ]);
    assert_eq!(run.clean(), "");
    let report = fs::read_to_string(shell.path().join("o.html")).unwrap();
    assert!(report.contains("<td>a &lt;b&gt;</td><td>x</td><td class=\"null\">NULL</td>"), "{report}");
}

/// The page shows what the commands print, but for the time.
#[test]
fn the_book_shows_real_summaries() {
    let page = fs::read_to_string(root().join("docs/src/guide/dedupe-command.md")).unwrap();
    let shell = shell();
    let rule = page.split("```sql ignore\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    shell.write("person.sql", rule);
    let mut commands = page.split("```console\n$ similarity-cli ").skip(1);
    for _ in 0..3 {
        let (text, _) = commands.next().unwrap().split_once("```").unwrap();
        // a line goes on after a backslash, or within quotes
        let (command, output) = match text.rsplit_once("; ") {
            Some((before, _)) => before.rsplit_once('\n').unwrap(),
            None => (text, ""),
        };
        let command = command.replace("\\\n", " ").replace("sql-examples/data/", &data(""));
        let mut arguments: Vec<&str> = Vec::new();
        for (at, piece) in command.split('\'').enumerate() {
            if at % 2 == 0 { arguments.extend(piece.split_whitespace()) } else { arguments.push(piece) }
        }
        let run = shell.run(&arguments);
        assert!(run.succeeded && run.err.starts_with(output), "{output}: {run:?}");
    }
}

#[test]
fn rows_without_an_id_are_numbered_and_texts_stay_as_they_are() {
    let shell = shell();
    let arguments = ["-q", "--format", "csv", "dedupe", "few.csv", "--on", "levenshtein(a.name, b.name) <= 1"];
    let wanted = "row_id,key,name,zip,cluster_id\n1,1,Anna,0815,1\n2,2,Ana,4711,1\n3,3,Zoe,0815,3\n4,,Max,,4\n";
    assert_eq!(shell.run(&arguments).clean(), wanted);
    for format in ["parquet", "json", "tsv"] {
        let file = format!("few out.{format}");
        let run = shell.run(&[&arguments[..], &["--out", &file]].concat());
        assert_eq!(run.clean(), "");
        let again = [&arguments[..4], &[&file, "--id", "row_id", "--on", "a.zip = b.zip"]].concat();
        fails(&shell, &again, "has a column cluster_id already");
    }
    shell.write("none.csv", "name,zip\n");
    let run =
        shell.run(&["-q", "dedupe", "none.csv", "--on", "a.name = b.name", "--out", "n.csv", "--report", "n.html"]);
    assert_eq!(run.clean(), "");
    assert_eq!(fs::read_to_string(shell.path().join("n.csv")).unwrap(), "row_id,name,zip,cluster_id\n");
}

#[test]
fn clusters_follow_the_method() {
    let shell = shell();
    shell.write("chain.csv", "id,x\n1,1\n2,2\n3,3\n4,4\n");
    let base = ["-q", "--format", "csv", "dedupe", "chain.csv", "--id", "id", "--on", "abs(a.x - b.x) <= 1"];
    let clusters = |more: &[&str]| {
        let out = shell.run(&[&base[..], more].concat()).clean();
        out.lines().skip(1).map(|line| line.rsplit_once(',').unwrap().1.to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(clusters(&[]), "1 1 1 1");
    let split = ["--method", "split", "--largest", "2"];
    let score = ["--score", "CASE WHEN a.x + b.x = 5 THEN 0.4 ELSE 0.5 END"];
    assert_eq!(clusters(&[&split[..], &score[..]].concat()), "1 1 3 3");
    assert_eq!(clusters(&["--score", "CASE WHEN a.x = 1 THEN NULL ELSE 1 END"]), "1 1 1 1");
    fails(&shell, &[&base[..], &["--largest", "2"]].concat(), "--largest is for --method split");
    fails(&shell, &[&base[..], &split[..]].concat(), "it needs a --score");
}

#[test]
fn a_truth_of_clusters_is_known_by_its_second_column() {
    let shell = shell();
    shell.write("chain.csv", "id,x\n001,1\n002,2\n003,3\n004,9\n");
    shell.write("clusters.csv", "id,Entity\n001,a\n002,a\n003,b\n004,c\n");
    shell.write("pairs.csv", "id,other\n001,002\n777,001\n");
    let base = ["--format", "csv", "dedupe", "chain.csv", "--id", "id", "--on", "abs(a.x - b.x) <= 1", "--truth"];
    let run = shell.run(&[&base[..], &["clusters.csv", "--out", "a.csv"]].concat());
    assert!(run.succeeded && run.out.contains("\n1,1,0,0.5,1.0,") && run.out.contains("\n4,2,3,"), "{run:?}");
    let run = shell.run(&[&base[..], &["pairs.csv", "--out", "b.csv"]].concat());
    assert!(run.succeeded && run.out.contains("\n1,1,1,0.5,0.5,"), "{run:?}");
    assert!(run.err.starts_with("1 id of the truth not found in column id of chain.csv\n"), "{run:?}");
}

#[test]
fn two_files_are_linked() {
    let shell = shell();
    shell.write("left.csv", "id,name\n1,Anna\n2,Annas\n3,Zoe\n");
    shell.write("right.tsv", "key\tname\nx\tAnna\ny\tAnnas\n");
    shell.write("truth.csv", "l,r\n1,x\n2,y\n3,y\n");
    let base = ["link", "left.csv", "right.tsv", "--left-id", "id", "--right-id", "key"];
    let on = ["--on", "levenshtein(a.name, b.name) <= 1", "--score", "levenshtein_similarity(a.name, b.name)"];
    let links = |which: &str| {
        let run = shell.run(&[&["-q", "--format", "csv"], &base[..], &on[..], &["--which", which]].concat());
        let out = run.clean();
        let pair = |line: &str| line.split(',').take(2).collect::<Vec<_>>().concat();
        assert!(out.starts_with("left_id,right_id,score,clause\n"), "{out}");
        out.lines().skip(1).map(pair).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(links("all"), "1x 1y 2y 2x");
    for which in ["best", "mutual", "one-to-one", "optimal"] {
        assert_eq!(links(which), "1x 2y", "{which}");
    }
    let more = ["--truth", "truth.csv", "--out", "l.json", "--report", "l.html", "--which", "best"];
    let run = shell.run(&[&base[..], &on[..], &more].concat());
    assert!(run.succeeded && run.err.starts_with("3 left rows, 2 right rows, 2 links, 2 left rows with a link; "));
    let first = fs::read_to_string(shell.path().join("l.json")).unwrap();
    assert!(first.starts_with("{\"left_id\":1,\"right_id\":\"x\",\"score\":1.0,\"clause\":1}\n"), "{first}");
    let report = fs::read_to_string(shell.path().join("l.html")).unwrap();
    assert!(report.contains("Left rows by number of links") && report.contains("Why pairs match"), "{report}");
}

#[test]
fn an_estimate_counts_and_writes_nothing() {
    let shell = shell();
    let before = files(&shell);
    let people = data("people.csv");
    let on = "a.date_of_birth = b.date_of_birth AND levenshtein(a.surname, b.surname) <= 1";
    let run = shell.run(&["--format", "csv", "dedupe", &people, "--id", "id", "--estimate", "--on", on]);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(run.succeeded && lines[1].starts_with("1,456,342,342,342,58,"), "{run:?}");
    let run = shell.run(&["--format", "csv", "link", &people, &people, "--estimate", "--on", "a.id = b.id"]);
    assert!(run.succeeded && run.out.lines().nth(1).unwrap().starts_with("1,1000,1000,1000,1000,0,0,"), "{run:?}");
    fails(&shell, &["dedupe", &people, "--on", on, "--estimate", "--out", "x.csv"], "cannot be used with");
    assert_eq!(files(&shell), before);
}

#[test]
fn what_cannot_be_used_is_named_before_the_work() {
    let shell = shell();
    fs::create_dir(shell.path().join("folder.csv")).unwrap();
    shell.write("empty.sql", "-- nothing\n").write("select.sql", "SELECT 1;");
    shell.write("two.sql", &format!("{RULES}\n{}", RULES.replace("person", "other")));
    shell.write("people.xlsx", "").write("nested.json", "{\"id\":1,\"names\":[\"a\"]}\n");
    let on = ["--on", "a.name = b.name"];
    let dedupe = |more: &[&str], wanted: &str| fails(&shell, &[&["dedupe"], more].concat(), wanted);
    dedupe(&[&["missing.csv"], &on[..]].concat(), "cannot read missing.csv: No such file");
    dedupe(&[&["folder.csv"], &on[..]].concat(), "cannot read folder.csv: is a directory");
    dedupe(&[&["people.xlsx"], &on[..]].concat(), "known are .csv, .tsv, .parquet and .json");
    dedupe(
        &[&["few.csv"], &on[..], &["--id", "code"]].concat(),
        "few.csv has no column code; its columns are key, name, zip",
    );
    dedupe(
        &[&["few.csv"], &on[..], &["--id", "key"]].concat(),
        "1 rows have NULL there, and 0 values stand in several rows",
    );
    dedupe(
        &[&["twice.csv"], &on[..], &["--id", "key"]].concat(),
        "0 rows have NULL there, and 2 values stand in several rows",
    );
    dedupe(&["few.csv", "--rule", "missing.sql"], "cannot read missing.sql");
    dedupe(&["few.csv", "--rule", "empty.sql"], "empty.sql makes no rule");
    dedupe(&["few.csv", "--rule", "select.sql"], "statement 1 of select.sql is not about matching rules");
    dedupe(&["few.csv", "--rule", "two.sql"], "several rules: other, person; choose one by --rule-name");
    dedupe(&["few.csv", "--rule", "two.sql", "--rule-name", "x"], "two.sql makes no rule x; it makes other, person");
    dedupe(&["few.csv", "--on", "a.name = "], "--on");
    dedupe(&["few.csv", "--on", "a.nam = b.nam"], "No field named");
    dedupe(&["few.csv", "--on", "true; DROP MATCHING RULE condition"], "--on takes one condition");
    dedupe(&[&["few.csv"], &on[..], &["--score", "a.key + "]].concat(), "--score is no expression");
    // outputs are looked at before inputs
    let out = |file: &str, wanted: &str| dedupe(&[&["missing.csv"], &on[..], &["--out", file]].concat(), wanted);
    out("few.csv", "few.csv exists; --overwrite replaces it");
    out("no/where.csv", "cannot write no/where.csv");
    out("x.xlsx", "the extension of x.xlsx says nothing");
    out("x.csv.gz", "x.csv.gz cannot be written compressed");
    let same = ["few.csv", "--on", "true", "--out", "x.csv", "--report", "x.csv"];
    dedupe(&same, "--out and --report name the same file");
    let nested = ["nested.json", "--id", "id", "--on", "a.names = b.names", "--out", "x.csv"];
    dedupe(&nested, "write parquet or json");
    fails(&shell, &[&["-f", "select.sql", "-q", "dedupe", "few.csv"], &on[..]].concat(), "-c and -f run statements");
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_behind() {
    let shell = shell();
    let rows: String = (0..20_000).map(|row| format!("{row},name number {row}\n")).collect();
    shell.write("many.csv", &format!("id,name\n{rows}"));
    let before = files(&shell);
    let on = "length(concat(a.name, b.name)) % 7 = 9";
    let arguments =
        ["dedupe", "many.csv", "--id", "id", "--on", on, "--out", "o.csv", "--report", "o.html", "--charts", "c"];
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let child = shell.command(&arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
        while files(&shell).len() < before.len() + 3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        let run = Run::of(output);
        assert!(run.err.contains("interrupted"), "{run:?}");
        assert_eq!(files(&shell), before);
    }
}
