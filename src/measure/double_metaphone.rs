//! The `double_metaphone` measure.
