//! Decides a vector condition for any pair of rows.

use crate::error::Result;
use arrow::array::ArrayRef;

use super::decision::Decision;
use super::points::{Vectors, incomparable};
use crate::atoms::AtomRows;
use crate::condition::VectorCondition;
use crate::stored::stored;
use crate::{ColumnPair, Pairs};

/// The vectors of one side, by row.
#[derive(Debug)]
pub struct VectorColumn {
    vectors: Vectors,
    dimension: Option<usize>,
}

stored!(VectorColumn { vectors, dimension });

impl VectorColumn {
    /// The vectors in `keys`, all of one length.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of several lengths.
    pub fn try_new(keys: &ArrayRef) -> Result<Self> {
        let vectors = Vectors::try_new(keys, 1)?;
        match vectors.dimension() {
            Ok(dimension) => Ok(Self { vectors, dimension }),
            Err(lengths) => Err(incomparable(lengths)),
        }
    }

    /// The vectors in `keys`, of the length of those in `build`.
    ///
    /// # Errors
    /// Errors of [`try_new`](Self::try_new), and vectors of another length.
    pub fn probe(keys: &ArrayRef, build: Option<usize>) -> Result<Self> {
        let column = Self::try_new(keys)?;
        match (column.dimension, build) {
            (Some(self_join), Some(other)) if self_join != other => Err(incomparable([other, self_join])),
            _ => Ok(column),
        }
    }

    /// Elements a vector, where there is one.
    pub fn dimension(&self) -> Option<usize> {
        self.dimension
    }

    /// What another engine takes of it.
    pub fn rows(&self) -> AtomRows<'_> {
        AtomRows::Vectors { vectors: &self.vectors, dimension: self.dimension }
    }

    /// Whether a row is not NULL, nor one of its elements.
    pub fn can_match(&self, row: usize) -> bool {
        self.vectors.at(row).is_some()
    }

    /// The vector in a row.
    pub fn at(&self, row: u32) -> Option<&[f64]> {
        self.vectors.at(row as usize)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.vectors.memory()
    }
}

/// A test of pairs of rows.
#[derive(Debug)]
pub struct VectorDecider(Decision);

impl VectorDecider {
    /// Decides pairs of rows by `condition`.
    pub fn new(condition: VectorCondition) -> Self {
        Self(Decision::new(condition))
    }

    /// The places of `selected` whose pair in `block` matches, or is left to DataFusion, appended to `passed`.
    pub fn select(
        &self,
        columns: ColumnPair<'_, VectorColumn>,
        block: &Pairs,
        selected: &[u16],
        passed: &mut Vec<u16>,
    ) {
        let holds = |place: &&u16| {
            let pair = block.at(**place);
            let (Some(b), Some(p)) = (columns.build.at(pair.build), columns.probe.at(pair.probe)) else {
                return false;
            };
            self.0.may_hold(b, p)
        };
        passed.extend(selected.iter().filter(holds));
    }
}
