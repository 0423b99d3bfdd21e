//! What a device takes and what it declines.

use std::fmt::{Display, Formatter};

use crate::error::Result;

/// Answer of a device to keys, or whatever else it was offered.
#[derive(Debug)]
pub enum Offered<T> {
    /// The device has it.
    Taken(T),
    /// The CPU is left to take it.
    Declined(Declined),
}

impl<T> Offered<T> {
    /// Changes what is on the device.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Offered<U> {
        match self {
            Self::Taken(taken) => Offered::Taken(form(taken)),
            Self::Declined(why) => Offered::Declined(why),
        }
    }

    /// [`map`](Self::map) for what may fail.
    ///
    /// # Errors
    /// Errors of `form`.
    pub(crate) fn try_map<U>(self, form: impl FnOnce(T) -> Result<U>) -> Result<Offered<U>> {
        Ok(match self {
            Self::Taken(taken) => Offered::Taken(form(taken)?),
            Self::Declined(why) => Offered::Declined(why),
        })
    }

    /// What is on the device, if anything is.
    pub fn taken(self) -> Option<T> {
        match self {
            Self::Taken(taken) => Some(taken),
            Self::Declined(_) => None,
        }
    }
}

/// Why a device does not have what it was to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// Memory of the device that is ours is used up.
    Memory,
    /// Kernels for such keys do not exist.
    Keys,
    /// Device that cannot be used, and why.
    Device(String),
}

impl Display for Declined {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("the device has no memory left for it"),
            Self::Keys => f.write_str("there are no kernels for such values"),
            Self::Device(reason) => f.write_str(reason),
        }
    }
}
