//! The `lp` measure.
