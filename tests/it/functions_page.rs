//! The function reference of the book is what the functions say of themselves.
//!
//! `SIMILARITY_UPDATE_DOCS=1 cargo test functions_page` writes it anew.

use std::fmt::Write;
use std::fs;

use datafusion::arrow::util::display::array_value_to_string;
use datafusion::logical_expr::Documentation;
use datafusion_similarity::functions;

use super::markdown::root;
use super::session;

const PAGE: &str = "docs/src/reference/functions.md";

const INTRODUCTION: &str = "# Functions

<!-- Generated: SIMILARITY_UPDATE_DOCS=1 cargo test functions_page -->

Strings are compared case-sensitively, character by character (Unicode scalar values). A NULL argument gives NULL.
A function whose name ends in `_similarity` gives 1 for equal arguments; one that ends in `_distance` gives 0.
`SHOW FUNCTIONS` lists the same functions in a session.

Four measures of DataFusion itself are accelerated as well, and keep its results: `levenshtein`,
`array_distance` (also called `list_distance`), `cosine_distance` and `inner_product` (also called `dot_product`).
";

/// The functions by the heading that they stand under, in the order of the page.
const FAMILIES: [(&str, &[&str]); 11] = [
    (
        "Edit distances",
        &[
            "levenshtein_less_equal",
            "levenshtein_similarity",
            "osa_distance",
            "damerau_levenshtein",
            "hamming",
            "jaro_similarity",
            "jaro_winkler_similarity",
            "token_sort_ratio",
        ],
    ),
    (
        "Measures of sets",
        &["jaccard", "dice", "set_cosine", "overlap_coefficient", "overlap_count", "containment", "tversky"],
    ),
    ("Tokens", &["word_tokens", "qgrams", "multiset_qgrams"]),
    ("Trigrams as in PostgreSQL", &["similarity", "word_similarity", "strict_word_similarity", "show_trgm"]),
    ("Phonetic codes", &["soundex", "difference", "metaphone", "dmetaphone", "dmetaphone_alt", "daitch_mokotoff"]),
    ("Sorted neighbourhood", &["neighbors"]),
    ("Several attributes", &["weighted_similarity", "match_count"]),
    ("Joins that may miss pairs", &["with_recall"]),
    ("Signatures", &["minhash", "minhash_similarity", "simhash", "e2lsh", "random_binning", "bit_hamming"]),
    ("Text normalisation", &["unaccent", "normalize", "casefold"]),
    ("Distances of vectors", &["l1_distance", "l2_distance", "linf_distance", "lp_distance", "cosine_similarity"]),
];

fn documented() -> Vec<(String, Documentation)> {
    let stock = functions::stock_measures();
    let all = functions::all().into_iter();
    let ours = all.filter(|function| !stock.iter().any(|stock| stock.name() == function.name()));
    ours.filter_map(|function| Some((function.name().to_owned(), function.documentation()?.clone()))).collect()
}

fn rendered() -> String {
    let documented = documented();
    let mut page = INTRODUCTION.to_owned();
    for (family, names) in FAMILIES {
        let _ = write!(page, "\n## {family}\n");
        for name in names {
            let (_, documentation) =
                documented.iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("{name} is not documented"));
            page.push_str(&entry(name, documentation));
        }
    }
    page
}

fn entry(name: &str, documentation: &Documentation) -> String {
    let mut entry = format!("\n### {name}\n\n```text\n{}\n```\n\n", documentation.syntax_example);
    let _ = writeln!(entry, "{}", wrapped(&documentation.description));
    let arguments = documentation.arguments.as_deref().unwrap_or_default();
    if !arguments.is_empty() {
        entry.push_str("\n| argument | meaning |\n|---|---|\n");
    }
    for same in arguments.chunk_by(|(_, one), (_, other)| one == other) {
        let names: Vec<_> = same.iter().map(|(name, _)| format!("`{name}`")).collect();
        let _ = writeln!(entry, "| {} | {} |", names.join(", "), same[0].1);
    }
    if let Some(example) = &documentation.sql_example {
        // an excerpt of a session and no statement to be run
        let _ = write!(entry, "\n{}\n", example.replace("```sql", "```text"));
    }
    entry
}

/// A text in lines of up to 120 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() > 120) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[test]
fn the_page_is_what_the_functions_say() {
    let (path, page) = (root().join(PAGE), rendered());
    if std::env::var_os("SIMILARITY_UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{PAGE} is not what the functions say; SIMILARITY_UPDATE_DOCS=1 writes it anew");
}

#[test]
fn every_function_has_its_place() {
    let placed: Vec<&str> = FAMILIES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let names = documented().into_iter().map(|(name, _)| name);
    let missing: Vec<_> = names.filter(|name| !placed.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?} are in no family of tests/it/functions_page.rs");
}

/// The statement of a documented example, and what it is said to give.
fn example(documentation: &Documentation) -> (String, String) {
    let text = documentation.sql_example.as_deref().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("```")).collect();
    let [statement, result] = lines.as_slice() else { panic!("one statement and its result, not {text}") };
    (statement.trim_start_matches("> ").to_owned(), (*result).to_owned())
}

#[tokio::test]
async fn examples_give_what_they_say() {
    let session = session(8192, 1);
    for (name, documentation) in documented() {
        let (statement, result) = example(&documentation);
        let batches = session.sql(&statement).await.unwrap().collect().await.unwrap();
        assert_eq!(array_value_to_string(batches[0].column(0), 0).unwrap(), result, "{name}: {statement}");
    }
}
