//! The `normalize` measure.
