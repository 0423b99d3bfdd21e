//! The `unaccent` measure.
