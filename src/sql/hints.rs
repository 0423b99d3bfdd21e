//! What an error of DataFusion's should have said about our words.

use datafusion::common::{DataFusionError, SchemaError, TableReference};

use crate::functions;
use similarity_measures::osa::osa_distance;

/// `error`, in better words where it is about the keyword SIMILARITY or a measure that has another name here.
pub fn with_hint(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Diagnostic(diagnostic, error) => {
            DataFusionError::Diagnostic(diagnostic, Box::new(with_hint(*error)))
        }
        DataFusionError::Plan(message) => DataFusionError::Plan(with_our_function(&message).unwrap_or(message)),
        DataFusionError::SchemaError(error, backtrace) => {
            let is_keyword = names_keyword(&error);
            let error = DataFusionError::SchemaError(error, backtrace);
            if is_keyword { error.context(KEYWORD) } else { error }
        }
        other => other,
    }
}

const KEYWORD: &str = "the word SIMILARITY before JOIN is the keyword of SIMILARITY JOIN; for a table alias of that \
                       name write AS similarity";

/// Whether a column is not found because its table would be called `similarity`, and no table is.
fn names_keyword(error: &SchemaError) -> bool {
    let SchemaError::FieldNotFound { field, valid_fields } = error else { return false };
    let is_keyword = |table: &TableReference| table.table().eq_ignore_ascii_case("similarity");
    let mut known = valid_fields.iter().filter_map(|field| field.relation.as_ref());
    field.relation.as_ref().is_some_and(is_keyword) && !known.any(is_keyword)
}

/// The message about an unknown function with the nearest of ours, if one is near.
fn with_our_function(message: &str) -> Option<String> {
    const UNKNOWN: &str = "Invalid function '";
    let name = message.strip_prefix(UNKNOWN)?.split('\'').next()?;
    Some(format!("{UNKNOWN}{name}'.\nDid you mean '{}'?", nearest(name)?))
}

/// Names that other systems give to functions of ours, where the words do not lead there.
const ELSEWHERE: [(&str, &str); 14] = [
    ("editdist", "levenshtein"),
    ("lev", "levenshtein"),
    ("euclidean", "l2_distance"),
    ("manhattan", "l1_distance"),
    ("taxicab", "l1_distance"),
    ("chebyshev", "linf_distance"),
    ("minkowski", "lp_distance"),
    ("tanimoto", "jaccard"),
    ("sorensen", "dice"),
    ("ngram", "qgrams"),
    ("tokenize", "word_tokens"),
    ("stripaccents", "unaccent"),
    ("removeaccents", "unaccent"),
    ("doublemetaphone", "dmetaphone"),
];

/// The function of ours, or the measure of DataFusion's, whose name is nearest to `name`, if any is near.
fn nearest(name: &str) -> Option<String> {
    let plain = bare(name);
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| plain.starts_with(theirs)) {
        return Some((*ours).to_owned());
    }
    let mut names = functions::documented();
    names.sort_by_key(|known| (rank(&plain, &bare(known)), known.len()));
    names.into_iter().find(|known| rank(&plain, &bare(known)).is_some())
}

/// How far a known name is from a wrong one, `None` where they have nothing in common.
fn rank(wrong: &str, known: &str) -> Option<usize> {
    if wrong.is_empty() {
        return None;
    }
    let common = wrong.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
    let starts = common >= 4 && (common == wrong.len() || common == known.len());
    let distance = osa_distance(wrong, known);
    match starts {
        true => Some(0),
        false => (distance <= 1 + wrong.len() / 5).then_some(distance),
    }
}

fn bare(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_leads_to_the_nearest_of_ours() {
        for (wrong, right) in [
            ("jaro_winkler", "jaro_winkler_similarity"),
            ("jarowinkler", "jaro_winkler_similarity"),
            ("jaro", "jaro_similarity"),
            ("jaccard_index", "jaccard"),
            ("jacard", "jaccard"),
            ("levenstein", "levenshtein"),
            ("levenshtein_distance", "levenshtein"),
            ("edit_distance", "levenshtein"),
            ("editdist3", "levenshtein"),
            ("damerau_levenstein", "damerau_levenshtein"),
            ("hamming_distance", "hamming"),
            ("dice_coefficient", "dice"),
            ("euclidean_distance", "l2_distance"),
            ("cosine_sim", "cosine_similarity"),
            ("similarty", "similarity"),
            ("unacent", "unaccent"),
            ("ngrams", "qgrams"),
            ("L2_Distanc", "l2_distance"),
        ] {
            assert_eq!(nearest(wrong).as_deref(), Some(right), "{wrong}");
        }
        for other in ["nosuch", "to_json", "x", "_"] {
            assert_eq!(nearest(other), None, "{other}");
        }
    }
}
