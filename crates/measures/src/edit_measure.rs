//! The edit measures as one closed choice, for the parts that treat them alike.

use super::{damerau_levenshtein, hamming, jaro, jaro_winkler, levenshtein, osa};

/// A measure over two strings, counted in Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EditMeasure {
    /// Insertions, deletions, substitutions.
    Levenshtein,
    /// `1 - levenshtein / max(len)`; 1 for two empty strings.
    LevenshteinSimilarity,
    /// Optimal string alignment: adjacent transpositions, no substring edited twice.
    Osa,
    /// Unrestricted Damerau-Levenshtein.
    DamerauLevenshtein,
    /// Differing positions of two strings of equal length; undefined (NULL) for unequal lengths.
    Hamming,
    /// Jaro.
    Jaro,
    /// Jaro-Winkler.
    JaroWinkler,
}

impl EditMeasure {
    /// Every measure.
    pub const ALL: [Self; 7] = [
        Self::Levenshtein,
        Self::LevenshteinSimilarity,
        Self::Osa,
        Self::DamerauLevenshtein,
        Self::Hamming,
        Self::Jaro,
        Self::JaroWinkler,
    ];

    /// The measure of the SQL function with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name)
    }

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Levenshtein => "levenshtein",
            Self::LevenshteinSimilarity => "levenshtein_similarity",
            Self::Osa => "osa_distance",
            Self::DamerauLevenshtein => "damerau_levenshtein",
            Self::Hamming => "hamming",
            Self::Jaro => "jaro_similarity",
            Self::JaroWinkler => "jaro_winkler_similarity",
        }
    }

    /// Whether smaller means closer.
    pub fn is_distance(self) -> bool {
        matches!(self, Self::Levenshtein | Self::Osa | Self::DamerauLevenshtein | Self::Hamming)
    }

    /// The score or distance, `None` where the SQL function is NULL.
    pub fn score(self, a: &str, b: &str) -> Option<f64> {
        Some(match self {
            Self::Levenshtein => levenshtein::levenshtein(a, b) as f64,
            Self::LevenshteinSimilarity => levenshtein::levenshtein_similarity(a, b),
            Self::Osa => osa::osa_distance(a, b) as f64,
            Self::DamerauLevenshtein => damerau_levenshtein::damerau_levenshtein(a, b) as f64,
            Self::Hamming => return hamming::hamming(a, b).map(|d| d as f64),
            Self::Jaro => jaro::jaro_similarity(a, b),
            Self::JaroWinkler => jaro_winkler::jaro_winkler_similarity(a, b),
        })
    }
}
