//! Ten rules for each of eight data sets: every script of `sql-examples/rules` finds the pairs that are written down.
//!
//! The data lies outside the project; without it the test is skipped, unless `SIMILARITY_REQUIRE_DATA=1`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Expected {
    name: &'static str,
    pairs: u64,
    true_positives: u64,
    bar: Bar,
}

/// What the rules have to be good for, whatever the exact pairs.
struct Bar {
    recall: f64,
    f1: f64,
    cssr: f64,
}

const NONE: Bar = Bar { recall: 0.0, f1: 0.0, cssr: 1.0 };

const fn set(name: &'static str, pairs: u64, true_positives: u64, bar: Bar) -> Expected {
    Expected { name, pairs, true_positives, bar }
}

const SETS: [Expected; 8] = [
    set("abt_buy", 1_066, 936, NONE),
    set("cddb", 325, 290, NONE),
    set("dblp_acm", 2_264, 2_212, Bar { recall: 0.94, f1: 0.94, ..NONE }),
    set("dblp_scholar", 5_466, 5_029, Bar { recall: 0.93, ..NONE }),
    set("febrl4", 4_996, 4_996, NONE),
    set("fodors_zagat", 117, 112, Bar { recall: 1.0, cssr: 15e-4, ..NONE }),
    set("imdb_dbpedia_movies", 14_620, 12_899, NONE),
    set("listed_companies", 48_893, 43_941, NONE),
];

fn scripts() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("sql-examples/rules")
}

fn data() -> PathBuf {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    env::var_os("SIMILARITY_DATA").map_or_else(|| beside.into(), PathBuf::from)
}

fn is_there(name: &str) -> bool {
    let file = data().join(name).join("truth.parquet");
    if !file.exists() {
        let required = env::var_os("SIMILARITY_REQUIRE_DATA").is_some_and(|v| v == "1");
        assert!(!required, "{} is missing", file.display());
    }
    file.exists()
}

/// The only row that the script prints, by column.
fn figures(name: &str) -> BTreeMap<String, f64> {
    let shell = Command::new(env!("CARGO_BIN_EXE_similarity-cli"))
        .args(["-q", "--format", "csv", "-f"])
        .arg(scripts().join(format!("{name}.sql")))
        .current_dir(data())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success() && error.is_empty(), "{name}: {error}");
    let output = String::from_utf8(shell.stdout).unwrap();
    let [columns, row] = output.lines().collect::<Vec<_>>()[..] else { panic!("{name}: {output}") };
    columns.split(',').map(str::to_owned).zip(row.split(',').map(|value| value.parse().unwrap())).collect()
}

#[test]
fn the_rules_find_the_recorded_pairs() {
    let readme = fs::read_to_string(scripts().join("README.md")).unwrap();
    let (there, missing): (Vec<Expected>, Vec<Expected>) = SETS.into_iter().partition(|set| is_there(set.name));
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|set| set.name).collect();
        skipped_tests::skip(&format!("SIMILARITY_DATA has no {}", names.join(", ")));
    }
    for Expected { name, pairs, true_positives, bar } in there {
        let found = figures(name);
        assert_eq!((found["pairs"], found["true_positives"]), (pairs as f64, true_positives as f64), "{name}");
        assert!(found["recall"] >= bar.recall, "{name}: {found:?}");
        assert!(found["f1"] >= bar.f1, "{name}: {found:?}");
        assert!(found["cssr"] <= bar.cssr, "{name}: {found:?}");

        let [recall, precision, f1] = ["recall", "precision", "f1"].map(|figure| found[figure]);
        let row = format!("| {recall:.4} | {precision:.4} | {f1:.4} | {:.2e} |", found["cssr"]);
        let link = format!("({name}.sql)");
        let documented = readme.lines().any(|line| line.contains(&link) && line.ends_with(&row));
        assert!(documented, "README.md does not show for {name} {row}");
    }
}

#[test]
fn every_script_is_tested() {
    let files = fs::read_dir(scripts()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|e| e == "sql"));
    let mut names: Vec<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, SETS.map(|set| set.name));
}
