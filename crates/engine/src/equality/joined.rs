//! Groups by the groups of each key: for keys of common types.

use crate::error::{Result, internal_err};
use arrow::array::ArrayRef;

use super::key::KeyGroups;
use crate::numbering::TupleNumbering;

/// Groups by the groups of each key.
#[derive(Debug)]
pub struct JoinedGroups {
    keys: Vec<KeyGroups>,
    /// Number of each tuple of the groups of all keys.
    joined: TupleNumbering,
}

impl JoinedGroups {
    pub(super) fn build(columns: &[ArrayRef], null_equals_null: &[bool], threads: usize) -> Result<(Self, Vec<u32>)> {
        let (mut groups, mut ids) = (Self { keys: Vec::new(), joined: TupleNumbering::default() }, Vec::new());
        for (column, &null_equals_null) in columns.iter().zip(null_equals_null) {
            let (key, self_join) = KeyGroups::build(column, null_equals_null, threads)?;
            ids = if groups.keys.is_empty() { self_join } else { groups.joined.extend(&ids, &self_join, threads) };
            groups.keys.push(key);
        }
        Ok((groups, ids))
    }

    pub(super) fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
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

    pub(super) fn memory(&self) -> usize {
        self.joined.memory() + self.keys.iter().map(KeyGroups::memory).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray};

    use super::*;
    use crate::NO_GROUP;
    use crate::equality::rows::RowGroups;

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
