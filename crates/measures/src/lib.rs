//! The measures: pure functions from two values to a score.
//!
//! What stands here is the definition that every engine meets bit for bit. Nothing in this layer knows
//! Arrow, SQL or a plan: strings are `&str` or symbol slices, sets are counts, vectors are slices.
//! A NULL never reaches a measure.

#![deny(missing_docs)]

pub mod casefold;
pub mod containment;
pub mod cosine;
pub mod daitch_mokotoff;
pub mod damerau_levenshtein;
pub mod dice;
pub mod double_metaphone;
pub mod e2lsh;
pub mod hamming;
pub mod jaccard;
pub mod jaro;
pub mod jaro_winkler;
pub mod l1;
pub mod l2;
pub mod levenshtein;
pub mod levenshtein_similarity;
pub mod linf;
pub mod lp;
pub mod metaphone;
pub mod minhash;
pub mod normalize;
pub mod osa;
pub mod overlap_coefficient;
pub mod overlap_count;
pub mod qgrams;
pub mod random;
pub mod random_binning;
pub mod set_cosine;
pub mod simhash;
pub mod soundex;
pub mod token_sort_ratio;
pub mod trigram;
pub mod tversky;
pub mod unaccent;
pub mod word_tokens;

mod edit_descriptor;
mod edit_matrix;
mod edit_measure;
mod function_doc;
mod parameter;
mod set_descriptor;
mod set_measure;
mod symbols;
mod tokenizer;
mod typography;
mod vector_measure;

#[cfg(test)]
mod test_strings;

pub use edit_descriptor::{EditCost, EditDescriptor, EditKernel, EditLimit, EditOperations, EditScale, EditSteps};
pub use edit_measure::EditMeasure;
pub use function_doc::FunctionDoc;
pub use parameter::{Parameter, Weights};
pub use set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};
pub use set_measure::SetMeasure;
pub use tokenizer::Tokenizer;
pub use vector_measure::{Power, VectorMeasure};
