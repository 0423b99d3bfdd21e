//! The edit measures as one closed choice, for the parts that treat them alike.

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
