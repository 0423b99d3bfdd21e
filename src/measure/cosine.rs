//! The `cosine` measure.
