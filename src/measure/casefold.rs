//! The `casefold` measure.
