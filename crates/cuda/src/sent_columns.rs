//! Columns that a device has been sent before a join asks for them.

use std::sync::{Mutex, PoisonError};

use arrow::buffer::ScalarBuffer;

use super::buffer::Buffer;

/// What has arrived of a build side, until it is asked for.
#[derive(Debug, Default)]
pub(super) struct SentColumns(Mutex<Vec<(ScalarBuffer<u128>, Buffer<u128>)>>);

impl SentColumns {
    /// Keeps the copy of a column's views, whose stream has come to an end.
    pub(super) fn add(&self, views: ScalarBuffer<u128>, on_device: Buffer<u128>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((views, on_device));
    }

    /// The copy of a column's views, if there is one, on a stream of its own that has come to an end.
    pub(super) fn take(&self, views: &ScalarBuffer<u128>) -> Option<Buffer<u128>> {
        let mut arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = arrived.iter().position(|(known, _)| known.inner().ptr_eq(views.inner()))?;
        Some(arrived.swap_remove(at).1)
    }

    /// Gives back what nobody has asked for.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
