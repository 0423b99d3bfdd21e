//! The `jaro_winkler` measure.
