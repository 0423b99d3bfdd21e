//! The `osa` measure.
