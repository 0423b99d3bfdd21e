//! Descriptor of an edit measure: what SQL functions, engines and kernels ask of it.

use crate::{FunctionDoc, Parameter};

/// Descriptor of an edit measure.
#[derive(Debug)]
pub struct EditDescriptor {
    /// Name of the SQL function.
    pub name: &'static str,
    /// Documentation of the SQL function; `None` where the function is DataFusion's own.
    pub doc: Option<FunctionDoc>,
    /// Constants that may follow the two strings, which a measure takes as its [`Weights`](crate::Weights).
    pub parameters: &'static [Parameter],
    /// What the score is made of.
    pub scale: EditScale,
    /// Time that one score takes.
    pub cost: EditCost,
    /// Kernel that decides the measure. Without one, kernels count plain edits, and the CPU decides what passes.
    pub kernel: Option<EditKernel>,
}

/// What a score is made of, which says how engines bound it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditScale {
    /// A number of edits: a distance.
    Distance(EditOperations),
    /// 1 less the share of the longer length that is edited: a similarity.
    Share(EditOperations),
    /// Jaro's similarity of common characters in order.
    Jaro {
        /// Whether a common prefix raises the score.
        is_raised: bool,
    },
}

/// What one edit may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditOperations {
    /// Bigrams of either string that one edit changes at most.
    pub torn_bigrams: usize,
    /// Characters between neighbouring segments of a string so that `k` edits change no more than `k` segments: 1 where
    /// characters may be transposed.
    pub gap: usize,
    /// Whether an edit may shift what follows. Without shifts, strings of different lengths have no score.
    pub shifts: bool,
    /// Insertions, deletions and substitutions that do what one edit does, at most.
    pub plain_edits: usize,
}

impl EditOperations {
    /// Insertions, deletions and substitutions.
    pub(crate) const PLAIN: Self = Self { torn_bigrams: 2, gap: 0, shifts: true, plain_edits: 1 };
}

/// Kernel that computes a measure. Measures that share one differ in what they make of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditKernel {
    /// Insertions, deletions and substitutions.
    Levenshtein,
    /// Optimal string alignment.
    Osa,
    /// Differing positions.
    Hamming,
    /// Jaro, with or without the prefix.
    Jaro,
}

/// Time that one score takes, from the bench `measures`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EditCost {
    /// Nanoseconds for any two strings.
    pub fixed: f64,
    /// Nanoseconds for each step.
    pub step: f64,
    /// Number of steps.
    pub steps: EditSteps,
}

/// Number of steps of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditSteps {
    /// One for each character.
    Characters,
    /// One for each character and 64 characters of the other string.
    Words,
    /// One for each pair of characters.
    Cells,
}

impl EditCost {
    /// Nanoseconds for strings of `length` characters, each compared with up to `width` of the other string.
    pub fn nanoseconds(self, length: f64, width: f64) -> f64 {
        let columns = match self.steps {
            EditSteps::Characters => 1.0,
            EditSteps::Words => (width / 64.0).ceil().max(1.0),
            EditSteps::Cells => width,
        };
        self.fixed + self.step * length * columns
    }
}

/// What is needed of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditLimit {
    /// Number of edits above which there need not be a score.
    pub edits: usize,
    /// Characters of the longer string.
    pub longest: usize,
}
