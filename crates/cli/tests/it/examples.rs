//! Every script of `sql-examples` runs as a newcomer runs it and prints what is written down beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("sql-examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "sql")).collect();
    scripts.sort();
    assert!(scripts.len() >= 6, "{scripts:?}");
    scripts
}

fn output_of(script: &Path) -> String {
    let shell = Command::new(env!("CARGO_BIN_EXE_similarity-cli"))
        .args(["-q", "-f"])
        .arg(script)
        .current_dir(root())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success() && error.is_empty(), "{}: {error}", script.display());
    String::from_utf8(shell.stdout).unwrap()
}

#[test]
fn scripts_print_what_is_expected() {
    for script in scripts() {
        let name = script.file_stem().unwrap().to_str().unwrap();
        if name == "08-explain" {
            continue;
        }
        let expected = root().join(format!("sql-examples/expected/{name}.txt"));
        let expected = fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{}: {e}", expected.display()));
        assert_eq!(output_of(&script), expected, "{name}");
    }
}

#[test]
fn explain_tells_what_a_user_wants_to_know() {
    let output = output_of(&root().join("sql-examples/08-explain.sql"));
    let wanted = [
        "jaccard(words) >= 0.8",
        "self-join",
        "engine=cpu",
        "access_path=",
        "build_time=",
        "probe_time=",
        "candidates=",
        "verified=",
        "matched=",
        "build_mem_used=",
        "build_unmatchable=",
        "similarity_join (declined)",
        "the bound (< 0.1) accepts the least similar pairs too",
    ];
    for wanted in wanted {
        assert!(output.contains(wanted), "{wanted} is missing in {output}");
    }
}

#[test]
fn the_readme_shows_the_output_of_its_first_command() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let output = fs::read_to_string(root().join("sql-examples/expected/01-first-join.txt")).unwrap();
    assert!(readme.contains(output.trim_end()), "README.md does not show\n{output}");
}
