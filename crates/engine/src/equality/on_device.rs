//! Groups that a device has given.

use std::sync::OnceLock;

use crate::error::{Result, unless_failed};
use arrow::array::ArrayRef;

use super::codes::{Codes, IdMap};
use super::joined::JoinedGroups;
use crate::accelerator::equality::DeviceKeys;

/// Groups that a device has given. Other rows are looked up there, or where its memory lacks or it fails in tables that
/// are made then.
#[derive(Debug)]
pub struct DeviceGroups {
    known: Box<dyn DeviceKeys>,
    /// The build side.
    columns: Vec<ArrayRef>,
    null_equals_null: Vec<bool>,
    codes: Codes,
    threads: usize,
    tables: OnceLock<(JoinedGroups, IdMap)>,
}

impl DeviceGroups {
    /// Groups of a build side by `columns`, whose rows have `codes`; up to `threads` threads may make tables.
    pub(super) fn new(
        known: Box<dyn DeviceKeys>,
        columns: &[ArrayRef],
        null_equals_null: Vec<bool>,
        codes: &Codes,
        threads: usize,
    ) -> Self {
        let (columns, codes, tables) = (columns.to_vec(), codes.clone(), OnceLock::new());
        Self { known, columns, null_equals_null, codes, threads, tables }
    }

    /// The build side's group of each row, on the host alone where the device has no memory for them or fails.
    pub fn look_up(&self, columns: &[ArrayRef]) -> Result<Codes> {
        match unless_failed(self.known.look_up(columns))? {
            Some(codes) => Ok(codes),
            None => self.look_up_in_tables(columns),
        }
    }

    /// Codes of another side, found by the host alone.
    pub fn look_up_in_tables(&self, columns: &[ArrayRef]) -> Result<Codes> {
        let (groups, names) = match self.tables.get() {
            Some(tables) => tables,
            None => {
                let (groups, ids) = JoinedGroups::build(&self.columns, &self.null_equals_null, self.threads)?;
                let names = IdMap::of(&ids, self.codes.on_host()?);
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
