//! The `levenshtein` measure.
