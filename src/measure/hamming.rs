//! The `hamming` measure.
