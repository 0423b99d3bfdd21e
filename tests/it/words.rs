//! The words of README.md and the book: short sentences, lines of a common width, links that lead somewhere.

use std::path::Path;

use super::markdown::{Page, Part, book, pages, paragraphs, parts, plain, root};

/// Words of a sentence, on average over README.md and over the book.
const MEAN_WORDS: f64 = 20.0;
/// Words of the longest sentence of the book.
const MOST_WORDS: usize = 40;
/// Words of the longest sentence of README.md, which is read first.
const MOST_WORDS_OF_README: usize = 30;
const MOST_COLUMNS: usize = 120;
const LINES_OF_README: usize = 130;

/// The sentences of a page, in plain words.
fn sentences(text: &str) -> Vec<String> {
    paragraphs(text).iter().flat_map(|paragraph| split(&plain(paragraph))).collect()
}

/// Sentences end at a full stop, a question mark or a colon that a space follows.
fn split(paragraph: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    let mut characters = paragraph.chars().peekable();
    while let Some(character) = characters.next() {
        let is_end = matches!(character, '.' | '?') && characters.peek().is_none_or(|next| next.is_whitespace());
        let last = sentences.len() - 1;
        sentences[last].push(character);
        let abbreviated = [" e.g.", " i.e.", " vs."].iter().any(|short| sentences[last].ends_with(short));
        if is_end && !abbreviated {
            sentences.push(String::new());
        }
    }
    sentences.retain(|sentence| words(sentence) > 0);
    sentences
}

fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

fn mean_words(pages: &[&Page]) -> f64 {
    let lengths: Vec<usize> = pages.iter().flat_map(|page| sentences(&page.text)).map(|s| words(&s)).collect();
    lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64
}

#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    for page in pages() {
        let most = if page.name == "README.md" { MOST_WORDS_OF_README } else { MOST_WORDS };
        let too_long = sentences(&page.text).into_iter().filter(|sentence| words(sentence) > most);
        long.extend(too_long.map(|sentence| format!("{}, {} words: {sentence}", page.name, words(&sentence))));
    }
    assert!(long.is_empty(), "{long:#?}");
    let pages = pages();
    let (readme, book): (Vec<_>, Vec<_>) = pages.iter().partition(|page| page.name == "README.md");
    for (what, mean) in [("README.md", mean_words(&readme)), ("docs/src", mean_words(&book))] {
        println!("{what}: {mean:.1} words a sentence");
        assert!(mean < MEAN_WORDS, "{what}: {mean:.1} words a sentence");
    }
}

#[test]
fn a_sentence_is_what_a_reader_takes_for_one() {
    let text = "# Not this\n\nOne, two `a b c` [three four](x.md). Five\nsix 0.5, seven?\n\n- Eight.\n- Nine\n| ten |";
    let counted: Vec<_> = sentences(text).iter().map(|sentence| words(sentence)).collect();
    assert_eq!(counted, [5, 4, 1, 1]);
}

/// Tables, code and the entries of the summary cannot be broken and are left out.
#[test]
fn lines_are_of_one_width() {
    let mut wide = Vec::new();
    for page in pages().into_iter().filter(|page| !page.name.ends_with("SUMMARY.md")) {
        for part in parts(&page.text) {
            let Part::Line(line) = part else { continue };
            if line.chars().count() > MOST_COLUMNS && !line.trim_start().starts_with('|') {
                wide.push(format!("{}: {line}", page.name));
            }
        }
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn the_readme_is_short() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme.lines().count();
    assert!(lines <= LINES_OF_README, "README.md has {lines} lines");
}

#[test]
fn links_lead_somewhere() {
    let mut lost = Vec::new();
    for page in pages() {
        let folder = Path::new(&page.name).parent().unwrap();
        for link in super::markdown::links(&page.text) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let is_lost = match (link.contains("://"), path) {
                (true, _) | (false, "") => false,
                (false, path) => !leads(&root().join(folder).join(path), heading),
            };
            if is_lost {
                lost.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Whether there is a file with such a heading; any will do where none is asked for.
fn leads(path: &Path, heading: &str) -> bool {
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    match heading {
        "" => path.exists(),
        heading => std::fs::read_to_string(path)
            .is_ok_and(|text| text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading)),
    }
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = std::fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    let is_missing = |name: &String| !summary.contains(&format!("({})", name.trim_start_matches("docs/src/")));
    let pages = book().into_iter().map(|page| page.name).filter(|name| !name.ends_with("SUMMARY.md"));
    let missing: Vec<_> = pages.filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
