//! The `word_tokens` measure.
