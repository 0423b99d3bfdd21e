//! Builders of calls, for queries made in Rust.
//!
//! ```
//! use datafusion::prelude::{col, lit};
//! use datafusion_similarity::functions::expr_fn::{jaccard, word_tokens};
//!
//! let alike = jaccard(word_tokens(col("a.name")), word_tokens(col("b.name"))).gt_eq(lit(0.8));
//! ```

use datafusion::logical_expr::{Expr, lit};

use super::named;

macro_rules! builders {
    ($($(#[$doc:meta])+ $name:ident($($argument:ident),+);)+) => {
        $($(#[$doc])+
        pub fn $name($($argument: Expr),+) -> Expr {
            named(stringify!($name)).call(vec![$($argument),+])
        })+
    };
}

builders! {
    /// The Levenshtein distance.
    levenshtein(a, b);
    /// `1 - levenshtein / max(length)`.
    levenshtein_similarity(a, b);
    /// The Levenshtein distance, or `k + 1` where it exceeds the constant `k`.
    levenshtein_less_equal(a, b, k);
    /// Levenshtein with adjacent transpositions, no substring edited twice.
    osa_distance(a, b);
    /// Unrestricted Damerau-Levenshtein.
    damerau_levenshtein(a, b);
    /// Differing positions; NULL for unequal lengths.
    hamming(a, b);
    /// Jaro.
    jaro_similarity(a, b);
    /// Jaro-Winkler.
    jaro_winkler_similarity(a, b);
    /// The share of the union that both sets hold.
    jaccard(a, b);
    /// Twice the overlap over the sum of the sizes.
    dice(a, b);
    /// The overlap over the geometric mean of the sizes.
    set_cosine(a, b);
    /// The overlap over the smaller size.
    overlap_coefficient(a, b);
    /// The size of the overlap.
    overlap_count(a, b);
    /// The share of `a` that `b` holds.
    containment(a, b);
    /// The overlap against what only `a` and what only `b` holds, weighted by the constants `alpha` and `beta`.
    tversky(a, b, alpha, beta);
    /// The condition, of which a join may miss pairs: it finds at least the share `recall`.
    with_recall(condition, recall);
    /// The lower-cased words.
    word_tokens(s);
    /// pg_trgm's `similarity`.
    similarity(a, b);
    /// pg_trgm's `word_similarity`.
    word_similarity(a, b);
    /// pg_trgm's `strict_word_similarity`.
    strict_word_similarity(a, b);
    /// The distinct trigrams.
    show_trgm(s);
    /// The Soundex code.
    soundex(s);
    /// How many places of the Soundex codes agree, 0 to 4.
    difference(a, b);
    /// The Metaphone code.
    metaphone(s);
    /// The primary Double Metaphone code.
    dmetaphone(s);
    /// The alternate Double Metaphone code.
    dmetaphone_alt(s);
    /// The Daitch-Mokotoff codes.
    daitch_mokotoff(s);
    /// RapidFuzz's `token_sort_ratio`, from 0 to 100.
    token_sort_ratio(a, b);
    /// Whether two whole numbers are less than the constant `window` apart.
    neighbors(a, b, window);
    /// The string without accents.
    unaccent(s);
    /// The string in NFC, NFD, NFKC or NFKD, by the constant `form`.
    normalize(s, form);
    /// The case-folded string.
    casefold(s);
    /// The sum of the absolute differences.
    l1_distance(a, b);
    /// The Euclidean distance.
    l2_distance(a, b);
    /// The greatest absolute difference.
    linf_distance(a, b);
    /// The distance of order `p`.
    lp_distance(a, b, p);
    /// The cosine of the angle.
    cosine_similarity(a, b);
}

/// The average of similarities by weight: a similarity, its threshold and its weight for each attribute, and what a
/// similarity that is NULL counts as, 'zero' or 'skip'.
pub fn weighted_similarity(attributes: Vec<(Expr, f64, f64)>, mode: &str) -> Expr {
    let constants = |(similarity, threshold, weight)| [similarity, lit(threshold), lit(weight)];
    let attributes = attributes.into_iter().flat_map(constants);
    named("weighted_similarity").call(attributes.chain([lit(mode)]).collect())
}

/// The number of conditions that hold.
pub fn match_count(conditions: Vec<Expr>) -> Expr {
    named("match_count").call(conditions)
}

/// The q-grams of a string, with `q - 1` copies of `pad` on each side where there is one.
pub fn qgrams(s: Expr, q: i64, pad: Option<char>) -> Expr {
    named("qgrams").call(grams(s, q, pad))
}

/// The q-grams of a string as [`qgrams`], each occurrence by itself: the second one of `an` is `an2`.
pub fn multiset_qgrams(s: Expr, q: i64, pad: Option<char>) -> Expr {
    named("multiset_qgrams").call(grams(s, q, pad))
}

fn grams(s: Expr, q: i64, pad: Option<char>) -> Vec<Expr> {
    let mut arguments = vec![s, lit(q)];
    arguments.extend(pad.map(|pad| lit(pad.to_string())));
    arguments
}
