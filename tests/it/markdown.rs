//! The pages that a user reads, as the tests of words and of outputs take them apart.

use std::fs;
use std::path::{Path, PathBuf};

/// The top of the repository, from whichever of its crates.
pub fn root() -> &'static Path {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.into_iter().find(|folder| folder.join("docs/src").is_dir()).expect("the book lies in the repository")
}

/// A page by its path from the top of the repository.
pub struct Page {
    pub name: String,
    pub text: String,
}

/// README.md and every page of the book.
pub fn pages() -> Vec<Page> {
    let mut pages = vec![page(root().join("README.md"))];
    pages.extend(book());
    pages
}

/// Every page of the book.
pub fn book() -> Vec<Page> {
    let mut paths = Vec::new();
    visit(&root().join("docs/src"), &mut paths);
    paths.sort();
    assert!(paths.len() > 10, "the pages of the book were not found");
    paths.into_iter().map(page).collect()
}

fn page(path: PathBuf) -> Page {
    let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    Page { name, text: fs::read_to_string(path).unwrap() }
}

fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

/// A fenced block of code: the words behind its opening fence, and its lines.
pub struct Code {
    pub info: String,
    pub text: String,
}

/// A part of a page.
pub enum Part {
    /// A line outside code.
    Line(String),
    /// A fenced block.
    Code(Code),
}

/// The parts of a page, in order.
pub fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.trim_start().strip_prefix("```") {
            Some(info) => {
                let code: Vec<_> = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
                parts.push(Part::Code(Code { info: info.trim().to_owned(), text: code.join("\n") }));
            }
            None => parts.push(Part::Line(line.to_owned())),
        }
    }
    parts
}

/// The paragraphs and list items of a page, each on one line: no code, tables, headings or list markers.
pub fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for part in parts(text) {
        let Part::Line(line) = part else {
            paragraphs.push(String::new());
            continue;
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '|', '<']) {
            paragraphs.push(String::new());
            continue;
        }
        let (marked, line) = unmarked(line);
        if marked {
            paragraphs.push(String::new());
        }
        if let Some(last) = paragraphs.last_mut() {
            last.push_str(line);
            last.push(' ');
        }
    }
    paragraphs.retain(|paragraph| !paragraph.trim().is_empty());
    paragraphs
}

/// A line without its list marker, and whether it had one.
fn unmarked(line: &str) -> (bool, &str) {
    let after = ["- ", "* ", "> "].iter().find_map(|marker| line.strip_prefix(marker));
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = (number.len() < line.len()).then(|| number.strip_prefix(". ")).flatten();
    match after.or(numbered) {
        Some(rest) => (true, rest),
        None => (false, line),
    }
}

/// A paragraph as it is read: each code span is one word, and of a link only the text is left.
pub fn plain(paragraph: &str) -> String {
    let mut plain = String::new();
    for (at, piece) in paragraph.split('`').enumerate() {
        plain.push_str(if at % 2 == 0 { piece } else { "code" });
    }
    let mut text = String::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.replace(['*', '[', ']', '!'], "")
}

/// The targets of the links of a page, outside code.
pub fn links(text: &str) -> Vec<String> {
    let lines = parts(text).into_iter().filter_map(|part| match part {
        Part::Line(line) => Some(line),
        Part::Code(_) => None,
    });
    let targets = |line: String| {
        let after = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        after.map(|(target, _)| target.to_owned()).collect::<Vec<_>>()
    };
    lines.flat_map(targets).collect()
}
