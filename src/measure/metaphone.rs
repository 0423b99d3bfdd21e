//! The `metaphone` measure.
