//! The `qgrams` measure.
