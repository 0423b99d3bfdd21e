//! Groups by rows in Arrow's format: for keys of any type.

use std::hash::BuildHasher;

use crate::error::Result;
use arrow::array::{Array, ArrayRef};
use arrow::row::{RowConverter, Rows, SortField};
use hashbrown::HashTable;

use crate::NO_GROUP;

/// Groups by rows in Arrow's format.
///
/// Two rows are in one group exactly where Arrow's row format of their keys is equal, which for every type that
/// reaches it, zeros made positive, is where DataFusion's `=` holds.
#[derive(Debug)]
pub struct RowGroups {
    converter: RowConverter,
    null_equals_null: Vec<bool>,
    /// One row a group.
    representatives: Rows,
    ids: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

impl RowGroups {
    /// The groups of `columns`, and the group of each row.
    pub(super) fn build(columns: &[ArrayRef], null_equals_null: Vec<bool>) -> Result<(Self, Vec<u32>)> {
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
