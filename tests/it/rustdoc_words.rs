//! The words of the sources: summary lines that begin with their noun, lines of a common width.

use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::root;

/// A summary that begins so leans on the item before it, which a reader of rustdoc does not see.
const HEADLESS: [&str; 10] = ["The same", "Those", "That", "Of", "By", "Its", "As", "And", "It", "Themselves"];
const MOST_COLUMNS: usize = 120;

/// Files that are still to be rewritten; to be emptied, and never to grow.
const ALLOWED: [&str; 0] = [];

fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["src", "crates"] {
        visit(&root().join(folder), &mut paths);
    }
    assert!(paths.len() > 20, "the sources were not found");
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let read = paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap()));
    read.filter(|(name, _)| !ALLOWED.contains(&name.as_str())).collect()
}

fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The first line of each paragraph of `///` comments, with its number.
fn paragraphs(text: &str) -> Vec<(usize, &str)> {
    let mut within = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("///").map(str::trim);
        let words = comment.filter(|comment| !comment.is_empty() && !comment.starts_with("# "));
        if let Some(first) = words.filter(|_| !within) {
            found.push((at + 1, first));
        }
        within = words.is_some();
    }
    found
}

fn is_headless(first: &str) -> bool {
    HEADLESS.iter().any(|start| {
        first.strip_prefix(start).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[test]
fn paragraphs_begin_with_their_noun() {
    let mut headless = Vec::new();
    for (name, text) in sources() {
        let found = paragraphs(&text).into_iter().filter(|(_, first)| is_headless(first));
        headless.extend(found.map(|(line, first)| format!("{name}:{line}: {first}")));
    }
    assert!(headless.is_empty(), "{} paragraphs: {headless:#?}", headless.len());
}

/// Literals cannot be broken and are left out.
#[test]
fn sources_are_of_one_width() {
    let mut wide = Vec::new();
    for (name, text) in sources() {
        let long =
            text.lines().enumerate().filter(|(_, line)| line.chars().count() > MOST_COLUMNS && !has_literal(line));
        wide.extend(long.map(|(at, _)| format!("{name}:{}", at + 1)));
    }
    assert!(wide.is_empty(), "{} lines: {wide:#?}", wide.len());
}

fn has_literal(line: &str) -> bool {
    line.contains('"') && !line.trim_start().starts_with("//")
}

#[test]
fn a_paragraph_begins_behind_a_blank_line_or_a_heading() {
    let text = "/// Of two.\n/// By it.\nfn a() {}\n/// Offsets.\n///\n/// It is.\n///\n/// # Errors\n/// As `a`.\nfn b() {}\n";
    let headless: Vec<_> = paragraphs(text).into_iter().filter(|(_, first)| is_headless(first)).collect();
    assert_eq!(headless, [(1, "Of two."), (6, "It is."), (9, "As `a`.")]);
}
