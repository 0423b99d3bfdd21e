//! Groups that a device has given.

use std::sync::OnceLock;

use crate::error::Result;
use arrow::array::ArrayRef;

use super::codes::{Codes, Names};
use super::joined::JoinedGroups;
use crate::cuda::keys::KnownKeys;

/// Groups that a device has given. Other rows are looked up there, or where its memory lacks in tables that are made
/// then.
#[derive(Debug)]
pub struct DeviceGroups {
    known: KnownKeys,
    /// The build side.
    columns: Vec<ArrayRef>,
    null_equals_null: Vec<bool>,
    codes: Codes,
    threads: usize,
    tables: OnceLock<(JoinedGroups, Names)>,
}

impl DeviceGroups {
    /// Groups of a build side by `columns`, whose rows have `codes`; up to `threads` threads may make tables.
    pub(super) fn new(
        known: KnownKeys,
        (columns, null_equals_null): (&[ArrayRef], Vec<bool>),
        codes: &Codes,
        threads: usize,
    ) -> Self {
        let (columns, codes, tables) = (columns.to_vec(), codes.clone(), OnceLock::new());
        Self { known, columns, null_equals_null, codes, threads, tables }
    }

    /// The build side's group of each row, on the host alone where the device has no memory for them.
    pub(super) fn look_up(&self, columns: &[ArrayRef]) -> Result<Codes> {
        match self.known.look_up(columns)? {
            Some(codes) => Ok(codes),
            None => self.look_up_in_tables(columns),
        }
    }

    fn look_up_in_tables(&self, columns: &[ArrayRef]) -> Result<Codes> {
        let (groups, names) = match self.tables.get() {
            Some(tables) => tables,
            None => {
                let (groups, ids) = JoinedGroups::build(&self.columns, &self.null_equals_null, self.threads)?;
                let names = Names::of(&ids, self.codes.on_host()?);
                self.tables.get_or_init(|| (groups, names))
            }
        };
        let mut ids = groups.look_up(columns)?;
        names.rename(&mut ids);
        Ok(ids.into())
    }

    pub(super) fn memory(&self) -> usize {
        self.codes.memory()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use crate::cuda::Budget;
    use crate::cuda::test_device::device;
    use crate::keys::{Groups, NumberedBy};

    use super::*;

    #[test]
    fn tables_find_what_the_device_finds() {
        let text = |row: i64| (row % 7 > 0).then(|| format!("a string that no view holds {}", row * row % 90));
        let number = |row: i64| (row % 5 > 0).then_some(row * 7919 % 40 - 20);
        let columns = |rows: i64| -> [ArrayRef; 2] {
            [
                Arc::new((0..rows).map(text).collect::<StringArray>()),
                Arc::new((0..rows).map(number).collect::<Int64Array>()),
            ]
        };
        let (build, probe, budget) = (columns(500), columns(3000), Budget::new(&device(), 0.5));
        for nulls in [[false; 2], [true, false], [true; 2]] {
            let by = NumberedBy { threads: 2, own: false, device: Some(&budget) };
            let (groups, codes) = Groups::build(&build, nulls.to_vec(), by).unwrap();
            let Groups::Device(groups) = groups else { panic!("a device has numbered them") };
            let found = groups.look_up(&probe).unwrap();
            assert!(found.on_device().is_some() && codes.on_device().is_some());
            let by_tables = groups.look_up_in_tables(&probe).unwrap();
            assert_eq!(by_tables.on_host().unwrap(), found.on_host().unwrap());
            assert_eq!(groups.look_up(&build).unwrap().on_host().unwrap(), codes.on_host().unwrap());
        }
    }
}
