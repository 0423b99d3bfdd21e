//! Sets of ranked tokens from key columns: where every engine's set joins begin.
//!
//! ```text
//! key column --tokenise--> sets of ids, a dictionary per thread (of short grams, `grams` knows the ids by a table)
//!            --ranks-----> one dictionary, ids by rising frequency
//! ```
//!
//! What the engines do with the ranks is their own; `predicate` says what any of them may rely on.

pub mod dictionary;
mod elements;
mod grams;
pub mod memory;
mod numbers;
pub mod predicate;
pub mod ranks;
pub mod rows_by_rank;
mod string_column;
pub mod tokenise;

pub use dictionary::Dictionary;
pub use predicate::SetPredicate;
