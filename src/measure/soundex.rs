//! The `soundex` measure.
