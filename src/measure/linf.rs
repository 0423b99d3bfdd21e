//! The `linf` measure.
