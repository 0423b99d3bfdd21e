//! Equality keys as dense group ids.

use std::hash::BuildHasher;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExprRef;
use hashbrown::HashTable;

use super::key_groups::KeyGroups;
use crate::engine::NO_GROUP;

/// The groups of the build side, by the values of its equality keys.
#[derive(Debug)]
pub(super) enum Groups {
    /// One key of a common type.
    Key(KeyGroups),
    /// Any keys.
    Rows(RowGroups),
}

impl Groups {
    /// The groups of `columns`, and the group of each row.
    pub(super) fn build(columns: &[ArrayRef], null_equals_null: Vec<bool>) -> Result<(Self, Vec<u32>)> {
        if let ([column], [null_equals_null]) = (columns, null_equals_null.as_slice())
            && KeyGroups::supports(column.data_type())
        {
            let (groups, ids) = KeyGroups::build(column, *null_equals_null)?;
            return Ok((Self::Key(groups), ids));
        }
        let (groups, ids) = RowGroups::build(columns, null_equals_null)?;
        Ok((Self::Rows(groups), ids))
    }

    /// The build side's group of each row, [`NO_GROUP`] where it has none.
    pub(super) fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        match (self, columns) {
            (Self::Key(groups), [column]) => groups.look_up(column),
            (Self::Key(_), _) => internal_err!("groups of one key were asked for {}", columns.len()),
            (Self::Rows(groups), _) => groups.look_up(columns),
        }
    }

    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Key(groups) => groups.memory(),
            Self::Rows(groups) => groups.memory(),
        }
    }
}

/// Groups by rows in Arrow's format.
///
/// Two rows are in one group exactly where Arrow's row format of their keys is equal, which for every type that
/// reaches it, zeros made positive, is where DataFusion's `=` holds.
#[derive(Debug)]
pub(super) struct RowGroups {
    converter: RowConverter,
    null_equals_null: Vec<bool>,
    /// One row a group.
    representatives: Rows,
    ids: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

impl RowGroups {
    /// The groups of `columns`, and the group of each row.
    fn build(columns: &[ArrayRef], null_equals_null: Vec<bool>) -> Result<(Self, Vec<u32>)> {
        let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
        let converter = RowConverter::new(fields)?;
        let rows = converter.convert_columns(columns)?;
        let mut groups = Self {
            representatives: converter.empty_rows(0, 0),
            converter,
            null_equals_null,
            ids: HashTable::new(),
            hasher: foldhash::fast::FixedState::default(),
        };
        let nulls = groups.unmatchable(columns);
        let ids = (0..rows.num_rows()).map(|i| if nulls(i) { NO_GROUP } else { groups.intern(&rows, i) }).collect();
        Ok((groups, ids))
    }

    /// The build side's group of each row, [`NO_GROUP`] where it has none.
    pub(super) fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        let rows = self.converter.convert_columns(columns)?;
        let nulls = self.unmatchable(columns);
        Ok((0..rows.num_rows()).map(|i| if nulls(i) { NO_GROUP } else { self.find(&rows, i) }).collect())
    }

    pub(super) fn memory(&self) -> usize {
        self.representatives.size() + self.ids.capacity() * size_of::<u32>()
    }

    fn intern(&mut self, rows: &Rows, row: usize) -> u32 {
        let key = rows.row(row);
        let hash = self.hasher.hash_one(key.as_ref());
        if let Some(&id) = self.ids.find(hash, |&id| self.representatives.row(id as usize) == key) {
            return id;
        }
        let id = self.representatives.num_rows() as u32;
        self.representatives.push(key);
        let (representatives, hasher) = (&self.representatives, &self.hasher);
        self.ids.insert_unique(hash, id, |&id| hasher.hash_one(representatives.row(id as usize).as_ref()));
        id
    }

    fn find(&self, rows: &Rows, row: usize) -> u32 {
        let key = rows.row(row);
        let hash = self.hasher.hash_one(key.as_ref());
        self.ids.find(hash, |&id| self.representatives.row(id as usize) == key).copied().unwrap_or(NO_GROUP)
    }

    /// Whether a row has a NULL in a key that equals nothing.
    fn unmatchable(&self, columns: &[ArrayRef]) -> impl Fn(usize) -> bool + 'static {
        let strict = columns.iter().zip(&self.null_equals_null).filter(|(_, equal)| !**equal);
        let nulls: Vec<_> = strict.filter_map(|(column, _)| column.logical_nulls()).collect();
        move |row| nulls.iter().any(|n| n.is_null(row))
    }
}

/// The values of `exprs` over `batch`, with -0.0 as 0.0.
pub(super) fn evaluate(exprs: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|e| Ok(normalize_float_zero(&e.evaluate(batch)?.into_array(batch.num_rows())?))).collect()
}
