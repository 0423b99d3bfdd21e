//! Numbers that stand for the values of a key.

use std::sync::Arc;

use crate::error::Result;
use arrow::buffer::BooleanBuffer;

use crate::NO_GROUP;
use crate::accelerator::numbers::DeviceNumbers;
use crate::fetched::Fetched;

/// A number for each row: equal ones mean equal values, and [`NO_GROUP`] equals nothing.
#[derive(Debug, Clone)]
pub struct Codes {
    /// Codes by row on the host: given there, or fetched from the device when they are first asked for.
    by_row: Arc<Fetched>,
    /// Codes on the device that has given them.
    on_device: Option<Arc<dyn DeviceNumbers>>,
    /// Rows that have a code, where that is known without the codes.
    having_one: Option<BooleanBuffer>,
}

impl Codes {
    /// Codes that a device has given, and the rows that have one, as far as that is known.
    pub fn from_device(on_device: Arc<dyn DeviceNumbers>, having_one: Option<BooleanBuffer>) -> Self {
        Self { by_row: Arc::default(), on_device: Some(on_device), having_one }
    }

    /// Codes on the device that has given them.
    pub fn on_device(&self) -> Option<&Arc<dyn DeviceNumbers>> {
        self.on_device.as_ref()
    }

    /// Codes by row, fetched from the device if need be.
    ///
    /// # Errors
    /// A device that fails.
    pub fn on_host(&self) -> Result<&[u32]> {
        match &self.on_device {
            Some(on_device) => self.by_row.get_or_fetch(|| on_device.by_row()),
            None => Ok(self.fetched()),
        }
    }

    /// Codes by row, as a vector of their own.
    ///
    /// # Errors
    /// A device that fails.
    pub fn into_vec(self) -> Result<Vec<u32>> {
        self.on_host()?;
        match Arc::try_unwrap(self.by_row) {
            Ok(by_row) => Ok(by_row.into_vec()),
            Err(shared) => Ok(shared.get().unwrap_or_default().to_vec()),
        }
    }

    /// Codes by row, as far as somebody has asked for those of a device before.
    pub fn fetched(&self) -> &[u32] {
        self.by_row.get().unwrap_or_default()
    }

    /// Rows that have a code.
    ///
    /// # Errors
    /// A device that fails.
    pub fn having_one(&self) -> Result<BooleanBuffer> {
        if let Some(rows) = &self.having_one {
            return Ok(rows.clone());
        }
        let by_row = self.on_host()?;
        Ok(BooleanBuffer::collect_bool(by_row.len(), |row| by_row[row] != NO_GROUP))
    }

    /// Codes of some rows.
    ///
    /// # Errors
    /// A device that fails.
    pub fn at(&self, rows: &[u32]) -> Result<Vec<u32>> {
        match &self.on_device {
            Some(on_device) if self.by_row.get().is_none() => on_device.at(rows),
            _ => {
                let by_row = self.fetched();
                Ok(rows.iter().map(|&row| by_row[row as usize]).collect())
            }
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.on_device.as_ref().map_or(self.fetched().len(), |on_device| on_device.len())
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, as if all codes were on the host.
    pub fn memory(&self) -> usize {
        self.len() * size_of::<u32>()
    }
}

impl From<Vec<u32>> for Codes {
    fn from(by_row: Vec<u32>) -> Self {
        Self { by_row: Arc::new(by_row.into()), on_device: None, having_one: None }
    }
}

/// The numbers that one numbering gives instead of another one that tells the same rows apart.
#[derive(Debug)]
pub struct IdMap(Vec<u32>);

impl IdMap {
    /// Names from the numbers of rows to others of the same rows.
    pub fn of(numbers: &[u32], others: &[u32]) -> Self {
        let known = || numbers.iter().zip(others).filter(|(number, _)| **number != NO_GROUP);
        let mut names = vec![NO_GROUP; known().map(|(&number, _)| number as usize + 1).max().unwrap_or(0)];
        known().for_each(|(&number, &other)| names[number as usize] = other);
        Self(names)
    }

    /// Gives rows the other numbers, [`NO_GROUP`] where there is none.
    pub fn rename(&self, numbers: &mut [u32]) {
        let other = |number: u32| self.0.get(number as usize).copied().unwrap_or(NO_GROUP);
        numbers.iter_mut().for_each(|number| *number = other(*number));
    }
}
