//! The set measures as one closed choice, for the parts that treat them alike.

use super::{dice, jaccard, overlap_coefficient, overlap_count, set_cosine, trigram};

/// A measure over two finite sets, determined by their sizes and the size of their intersection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetMeasure {
    /// `o / (r + s - o)`
    Jaccard,
    /// `2 o / (r + s)`
    Dice,
    /// `o / sqrt(r s)`
    Cosine,
    /// `o / min(r, s)`
    OverlapCoefficient,
    /// `o`
    OverlapCount,
    /// pg_trgm's `similarity`: Jaccard in single precision, widened when compared
    Trigram,
}

impl SetMeasure {
    /// The score of two sets of `left` and `right` distinct elements that share `overlap` of them.
    ///
    /// Either set empty scores 0. For fixed sizes the score never falls when `overlap` grows.
    #[inline]
    pub fn score(self, overlap: usize, left: usize, right: usize) -> f64 {
        match self {
            Self::Jaccard => jaccard::jaccard(overlap, left, right),
            Self::Dice => dice::dice(overlap, left, right),
            Self::Cosine => set_cosine::set_cosine(overlap, left, right),
            Self::OverlapCoefficient => overlap_coefficient::overlap_coefficient(overlap, left, right),
            Self::OverlapCount => overlap_count::overlap_count(overlap, left, right) as f64,
            Self::Trigram => f64::from(trigram::trigram_similarity(overlap, left, right)),
        }
    }

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jaccard => "jaccard",
            Self::Dice => "dice",
            Self::Cosine => "set_cosine",
            Self::OverlapCoefficient => "overlap_coefficient",
            Self::OverlapCount => "overlap_count",
            Self::Trigram => "similarity",
        }
    }
}
