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
use crate::engine::numbering::TupleNumbering;

/// The groups of the build side, by the values of its equality keys.
#[derive(Debug)]
pub(super) enum Groups {
    /// Keys of common types.
    Keys(JoinedGroups),
    /// Any keys.
    Rows(RowGroups),
}

impl Groups {
    /// The groups of `columns`, and the group of each row; those of keys of common types by up to `threads` threads.
    pub(super) fn build(columns: &[ArrayRef], null_equals_null: Vec<bool>, threads: usize) -> Result<(Self, Vec<u32>)> {
        if !columns.is_empty() && columns.iter().all(|column| KeyGroups::supports(column.data_type())) {
            let (groups, ids) = JoinedGroups::build(columns, &null_equals_null, threads)?;
            return Ok((Self::Keys(groups), ids));
        }
        let (groups, ids) = RowGroups::build(columns, null_equals_null)?;
        Ok((Self::Rows(groups), ids))
    }

    /// The build side's group of each row, [`NO_GROUP`] where it has none.
    pub(super) fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        match self {
            Self::Keys(groups) => groups.look_up(columns),
            Self::Rows(groups) => groups.look_up(columns),
        }
    }

    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Keys(groups) => groups.memory(),
            Self::Rows(groups) => groups.memory(),
        }
    }
}

/// Groups by the groups of each key.
#[derive(Debug)]
pub(super) struct JoinedGroups {
    keys: Vec<KeyGroups>,
    /// From the groups of all keys to one.
    joined: TupleNumbering,
}

impl JoinedGroups {
    fn build(columns: &[ArrayRef], null_equals_null: &[bool], threads: usize) -> Result<(Self, Vec<u32>)> {
        let (mut groups, mut ids) = (Self { keys: Vec::new(), joined: TupleNumbering::default() }, Vec::new());
        for (column, &null_equals_null) in columns.iter().zip(null_equals_null) {
            let (key, own) = KeyGroups::build(column, null_equals_null, threads)?;
            ids = if groups.keys.is_empty() { own } else { groups.joined.extend(&ids, &own, threads) };
            groups.keys.push(key);
        }
        Ok((groups, ids))
    }

    fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        if columns.len() != self.keys.len() {
            return internal_err!("groups of {} keys were asked for {}", self.keys.len(), columns.len());
        }
        let looked_up: Result<Vec<_>> =
            self.keys.iter().zip(columns).map(|(key, column)| key.look_up(column)).collect();
        let mut looked_up = looked_up?.into_iter();
        let mut ids = looked_up.next().unwrap_or_default();
        self.joined.look_up(&mut ids, looked_up);
        Ok(ids)
    }

    fn memory(&self) -> usize {
        self.joined.memory() + self.keys.iter().map(KeyGroups::memory).sum::<usize>()
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, StringArray};

    use super::*;

    fn columns(rows: usize, first: usize) -> Vec<ArrayRef> {
        let value = |row: usize, of: usize| (row * row + 7 * row) % of;
        let text = |row: usize| match value(row, 5) {
            0 => None,
            n => Some(["x", "a string that no view holds", "y", "another string that no view holds"][n - 1]),
        };
        let number = |row: usize| (value(row, 11) > 0).then(|| value(row, 11) as i32 * 1_000_000);
        let close = |row: usize| (value(row, 13) > 0).then(|| value(row, 3) as i32);
        let rows = || first..first + rows;
        vec![
            Arc::new(rows().map(text).collect::<StringArray>()),
            Arc::new(rows().map(number).collect::<Int32Array>()),
            Arc::new(rows().map(close).collect::<Int32Array>()),
        ]
    }

    #[test]
    fn keys_that_are_joined_group_as_rows_do() {
        let (build, probe) = (columns(70_000, 0), columns(2000, 31));
        for keys in 1..=3 {
            for null_equals_null in [[false; 3], [true; 3], [false, true, false]] {
                let (build, probe, nulls) = (&build[..keys], &probe[..keys], &null_equals_null[..keys]);
                let (joined, ids) = JoinedGroups::build(build, nulls, 3).unwrap();
                let (rows, expected) = RowGroups::build(build, nulls.to_vec()).unwrap();
                let renamed: BTreeSet<_> = expected.iter().copied().zip(ids).collect();
                let names: BTreeMap<u32, u32> = renamed.iter().copied().collect();
                let groups: BTreeSet<_> = names.values().collect();
                assert!(renamed.len() == names.len() && groups.len() == names.len());
                assert!(names.get(&NO_GROUP).is_none_or(|&id| id == NO_GROUP));
                let expected: Vec<_> = rows.look_up(probe).unwrap().iter().map(|id| names[id]).collect();
                assert_eq!(joined.look_up(probe).unwrap(), expected);
            }
        }
        let (joined, _) = JoinedGroups::build(&build[..2], &[false; 2], 1).unwrap();
        assert!(joined.look_up(&probe).is_err());
    }
}
