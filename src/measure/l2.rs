//! The `l2` measure.
