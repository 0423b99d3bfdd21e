//! What the engines read of the atoms of a join of rules: how each is decided, what either side has for it, and what is
//! counted of them.

use std::sync::Arc;

use crate::error::Result;
use arrow::array::{ArrayRef, StringViewArray};
use arrow::buffer::BooleanBuffer;

use super::Pairs;
use super::equality::Codes;
use super::vectors::points::Vectors;
use crate::condition::Condition;
use crate::plan::AtomKind;

/// How an atom is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AtomCondition {
    /// Codes of both sides are equal.
    Equality,
    /// A measure of a key of each side.
    Similarity {
        /// Which key.
        key: usize,
        /// The measure and the accepted scores.
        condition: Condition,
    },
    /// The place of a build row lies among those that a probe row accepts.
    Band,
    /// A bit of one side.
    OneSided,
    /// A bit of either row.
    EitherSide,
    /// The driver decides.
    Pair,
}

impl AtomCondition {
    /// Whether a measure passes in one order of its keys where it passes in the other.
    pub(crate) fn is_symmetric(&self) -> bool {
        match self {
            Self::Similarity { condition, .. } => condition.is_symmetric(),
            Self::Equality | Self::Band | Self::OneSided | Self::EitherSide | Self::Pair => true,
        }
    }
}

impl From<&AtomCondition> for AtomKind {
    fn from(condition: &AtomCondition) -> Self {
        match *condition {
            AtomCondition::Equality => Self::Equality,
            AtomCondition::Similarity { condition, .. } => Self::Similarity(condition),
            AtomCondition::Band => Self::Band,
            AtomCondition::OneSided => Self::OneSided,
            AtomCondition::EitherSide => Self::EitherSide,
            AtomCondition::Pair => Self::Pair,
        }
    }
}

/// What one side has for an atom.
#[derive(Debug, Clone)]
pub enum AtomColumn {
    /// The values of an equality, to which an index gives codes.
    Values {
        /// One a row.
        values: ArrayRef,
        /// Whether two NULLs are equal.
        null_equals_null: bool,
    },
    /// Equal codes mean equal values; [`NO_GROUP`](super::NO_GROUP) equals nothing.
    Codes(Codes),
    /// The rows of one side in a band.
    Band(Arc<BandColumn>),
    /// Whether each row passes.
    Bits(BooleanBuffer),
    /// Whether each row passes whatever the other row is; the other one may pass, too.
    EitherBits(BooleanBuffer),
    /// No column: the atom does not ask this side, or asks it by a key.
    None,
}

impl AtomColumn {
    /// The values of an equality that has no codes yet, and whether two NULLs are equal.
    pub(super) fn values(&self) -> Option<(ArrayRef, bool)> {
        match self {
            Self::Values { values, null_equals_null } => Some((ArrayRef::clone(values), *null_equals_null)),
            Self::Codes(_) | Self::Band(_) | Self::Bits(_) | Self::EitherBits(_) | Self::None => None,
        }
    }
}

/// A stretch of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// First place of a build row, or first place that a probe row accepts.
    pub first: u32,
    /// Last place of a build row, or one past the last place that a probe row accepts.
    pub last: u32,
}

impl Span {
    /// Span of a row that no row of the other side meets.
    pub const NONE: Self = Self { first: u32::MAX, last: 0 };

    /// Span of a build row at one place.
    pub fn at(place: u32) -> Self {
        Self { first: place, last: place }
    }

    /// Whether a build row stands where a probe row accepts it.
    #[inline(always)]
    pub fn meets(self, probe: Self) -> bool {
        (self.first < probe.last) & (self.last >= probe.first)
    }
}

/// The rows of one side in a band.
#[derive(Debug, Clone, Default)]
pub struct BandColumn {
    /// Places where the rows stand, as rows of the build side.
    pub places: Vec<Span>,
    /// Places that the rows accept, as rows of the probe side. For a build side that is not its own probe side they are
    /// what it would accept of itself, or empty where that is not known.
    pub accepted: Vec<Span>,
}

/// The columns of a side as the driver evaluates them. A copy shares what they hold.
#[derive(Debug, Clone)]
pub struct SideColumns {
    /// How many rows there are.
    pub rows: usize,
    /// One an atom.
    pub atoms: Vec<AtomColumn>,
    /// The keys that similarity atoms name by number.
    pub keys: Vec<ArrayRef>,
}

/// What one side has for an atom, as an engine other than the CPU takes it.
#[derive(Debug)]
pub enum AtomRows<'a> {
    /// Codes of an equality, see [`AtomColumn::Codes`].
    Codes(&'a Codes),
    /// Places of a band, see [`AtomColumn::Band`].
    Band(&'a BandColumn),
    /// Whether each row passes, see [`AtomColumn::Bits`].
    Bits(&'a BooleanBuffer),
    /// Whether each row passes whatever the other one is, see [`AtomColumn::EitherBits`].
    EitherBits(&'a BooleanBuffer),
    /// The strings of a similarity.
    Strings {
        /// The strings by row.
        values: &'a StringViewArray,
    },
    /// The sets of a similarity.
    Sets {
        /// What the first filter reads of them.
        near: PrefilterRows,
        /// Where the ranks of each row start; one more than rows.
        starts: Vec<u64>,
        /// Ranks of tokens, ascending within a row.
        ranks: &'a [u32],
        /// Distinct elements, those included that match nothing.
        sizes: Vec<u32>,
    },
    /// The vectors of a similarity.
    Vectors {
        /// The vectors by row.
        vectors: &'a Vectors,
        /// Numbers a vector, where there is one.
        dimension: Option<usize>,
    },
    /// No rows: the atom does not ask this side.
    None,
}

/// What the first filter of a pair reads of each row: its signature and the class of its size.
#[derive(Debug, Default)]
pub struct PrefilterRows {
    /// A bit for each element, several elements a bit.
    pub signatures: Vec<u64>,
    /// Classes by the size of the row; rows that match nothing have the last class.
    pub classes: Vec<u8>,
}

/// A side as far as an engine other than the CPU takes it.
pub trait RuleRows: Sync {
    /// What it has for an atom.
    fn of(&self, atom: usize) -> AtomRows<'_>;

    /// The first atom that reads the same key.
    fn first_of_key(&self, atom: usize) -> usize;
}

/// Decides the conditions that only the driver can evaluate.
pub trait PairConditions {
    /// Places of the `pairs` that satisfy the condition of `atom`, ascending.
    ///
    /// # Errors
    /// Whatever the evaluation of the condition fails with.
    fn select(&self, atom: usize, pairs: &Pairs) -> Result<Vec<u16>>;
}

/// What a walk has done, for EXPLAIN ANALYZE.
#[derive(Debug, Clone, Default)]
pub struct RuleCounters {
    /// Pairs for which each atom was evaluated.
    pub evaluated: Vec<usize>,
    /// Pairs that passed each atom.
    pub passed: Vec<usize>,
    /// Candidates of the entry of each clause.
    pub candidates: Vec<usize>,
    /// Pairs that reached the last atom of each clause.
    pub verified: Vec<usize>,
    /// Pairs that came out because of each clause.
    pub witnesses: Vec<usize>,
}

impl RuleCounters {
    /// Counters of zeros.
    pub fn new(atoms: usize, clauses: usize) -> Self {
        Self {
            evaluated: vec![0; atoms],
            passed: vec![0; atoms],
            candidates: vec![0; clauses],
            verified: vec![0; clauses],
            witnesses: vec![0; clauses],
        }
    }

    /// Room for as many atoms and clauses as `other` has.
    pub(super) fn resize(&mut self, other: &Self) {
        let (atoms, clauses) = (other.evaluated.len(), other.candidates.len());
        for numbers in [&mut self.evaluated, &mut self.passed] {
            numbers.resize(atoms, 0);
        }
        for numbers in [&mut self.candidates, &mut self.verified, &mut self.witnesses] {
            numbers.resize(clauses, 0);
        }
    }
}
