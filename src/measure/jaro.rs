//! The `jaro` measure.
