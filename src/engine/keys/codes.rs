//! Numbers that stand for the values of a key.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::NO_GROUP;
use crate::engine::cuda::keys::NumbersOnDevice;

/// A number for each row: equal ones mean equal values, and [`NO_GROUP`] equals nothing.
#[derive(Debug, Clone)]
pub struct Codes {
    by_row: Arc<Vec<u32>>,
    /// The same on the device that has given them.
    on_device: Option<Arc<NumbersOnDevice>>,
}

impl Codes {
    /// Those that a device has given.
    pub(in crate::engine) fn from_device(by_row: Vec<u32>, on_device: NumbersOnDevice) -> Self {
        Self { by_row: Arc::new(by_row), on_device: Some(Arc::new(on_device)) }
    }

    /// The same on the device that has given them.
    pub(in crate::engine) fn on_device(&self) -> Option<&Arc<NumbersOnDevice>> {
        self.on_device.as_ref()
    }

    /// The numbers alone.
    pub fn into_vec(self) -> Vec<u32> {
        Arc::unwrap_or_clone(self.by_row)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.by_row.capacity() * size_of::<u32>()
    }
}

impl From<Vec<u32>> for Codes {
    fn from(by_row: Vec<u32>) -> Self {
        Self { by_row: Arc::new(by_row), on_device: None }
    }
}

impl AsRef<[u32]> for Codes {
    fn as_ref(&self) -> &[u32] {
        &self.by_row
    }
}

impl Deref for Codes {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.by_row
    }
}

/// The numbers that one numbering gives instead of another one that tells the same rows apart.
#[derive(Debug)]
pub struct Names(Vec<u32>);

impl Names {
    /// From the numbers of rows to others of the same rows.
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
