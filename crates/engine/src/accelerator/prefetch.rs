//! Columns of strings that a device is sent while the host puts their batches together.

use std::fmt::Debug;
use std::mem::MaybeUninit;

use arrow::buffer::ScalarBuffer;

/// Memory of a device's driver that the views of a column are put together in.
pub trait LentViews: Debug + Send {
    /// The first `rows` places, as many as there are at most.
    fn places(&mut self, rows: usize) -> &mut [MaybeUninit<u128>];

    /// The views that were written.
    ///
    /// # Safety
    /// So many places have been written, from the first one on.
    unsafe fn into_views(self: Box<Self>, rows: usize) -> ScalarBuffer<u128>;
}

/// Memory that the views of a column are put together in.
#[derive(Debug)]
pub enum ViewBuffer {
    /// The host's own, with room for so many.
    Host(Vec<u128>),
    /// Lent by a device.
    Lent(Box<dyn LentViews>),
}

impl ViewBuffer {
    /// The first `rows` places, as many as there are at most.
    pub fn places(&mut self, rows: usize) -> &mut [MaybeUninit<u128>] {
        match self {
            Self::Host(views) => &mut views.spare_capacity_mut()[..rows],
            Self::Lent(views) => views.places(rows),
        }
    }

    /// The views that were written.
    ///
    /// # Safety
    /// So many places have been written, from the first one on.
    pub unsafe fn into_views(self, rows: usize) -> ScalarBuffer<u128> {
        match self {
            Self::Host(mut views) => {
                // SAFETY: as the caller says.
                unsafe { views.set_len(rows) };
                views.into()
            }
            // SAFETY: as the caller says.
            Self::Lent(views) => unsafe { views.into_views(rows) },
        }
    }
}
