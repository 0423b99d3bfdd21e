//! The `l1` measure.
