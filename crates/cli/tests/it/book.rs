//! What README.md and the book show as output is what the shell prints.
//!
//! The blocks in `sql` of a page are one script, which runs at the top of the repository. A block in `text` that
//! follows one is its output: a table, or an error from its first line on. Other text, such as a plan with its times,
//! is an excerpt that is not compared; a block in `sql ignore` does not run. Pages for contributors hold sketches, and
//! are left out.

use std::fs;
use std::process::Command;

use super::markdown::{Page, Part, pages, parts, root};

/// A page's statements, and what they are to print.
#[derive(Default)]
struct Script {
    sql: String,
    tables: Vec<String>,
    errors: Vec<String>,
}

impl Script {
    fn of(page: &Page) -> Self {
        let mut script = Self::default();
        for part in parts(&page.text) {
            let Part::Code(code) = part else { continue };
            match code.info.as_str() {
                "sql" => script.sql.push_str(&terminated(&code.text)),
                "text" if code.text.starts_with("+-") => script.tables.push(code.text),
                "text" if code.text.starts_with("Error") => script.errors.push(code.text),
                _ => {}
            }
        }
        script
    }
}

fn terminated(sql: &str) -> String {
    let end = if sql.trim_end().ends_with(';') { "\n" } else { ";\n" };
    format!("{sql}{end}")
}

fn is_for_users(page: &Page) -> bool {
    !["architecture.md", "contributing/", "decisions/"]
        .iter()
        .any(|of| page.name.starts_with(&format!("docs/src/{of}")))
}

#[test]
fn outputs_are_real() {
    let folder = tempfile::tempdir().unwrap();
    for page in pages().into_iter().filter(is_for_users) {
        let script = Script::of(&page);
        if script.sql.is_empty() {
            continue;
        }
        let file = folder.path().join("page.sql");
        fs::write(&file, &script.sql).unwrap();
        let mut shell = Command::new(env!("CARGO_BIN_EXE_similarity-cli"));
        let output = shell.args(["-q", "-f"]).arg(&file).current_dir(root()).output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.success(), script.errors.is_empty(), "{}: {err}", page.name);
        in_order(&page.name, &out, &script.tables);
        in_order(&page.name, &joined(&err), &script.errors.iter().map(|error| joined(error)).collect::<Vec<_>>());
    }
}

/// Errors are wrapped on a page.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn in_order(page: &str, output: &str, wanted: &[String]) {
    let mut rest = output;
    for wanted in wanted {
        let at = rest.find(wanted.as_str());
        let at = at.unwrap_or_else(|| panic!("{page} shows\n{wanted}\nand the shell printed\n{output}"));
        rest = &rest[at + wanted.len()..];
    }
}
