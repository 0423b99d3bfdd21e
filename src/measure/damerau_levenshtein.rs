//! The `damerau_levenshtein` measure.
