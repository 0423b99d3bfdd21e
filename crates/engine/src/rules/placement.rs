//! Where a stage of rules is: on the host, or on a device.

use std::sync::Arc;

use crate::accelerator::Accelerator;
use crate::accelerator::rules::DeviceRules;

/// Where a stage of rules is.
#[derive(Debug)]
pub(super) enum Placement<D> {
    /// On the host alone.
    OnHost,
    /// On a device, too, with what it has.
    OnDevice(D),
}

/// A device that has numbered the keys of equalities.
#[derive(Debug)]
pub(super) struct NumberingDevice {
    pub(super) device: Arc<dyn Accelerator>,
    /// Columns of similarities, where they were brought before there was a plan.
    pub(super) ahead: Option<Box<dyn DeviceRules>>,
}

impl Placement<NumberingDevice> {
    /// The device, and the columns that were brought ahead.
    pub(super) fn parts(&mut self) -> (Option<&dyn Accelerator>, Option<&mut Box<dyn DeviceRules>>) {
        match self {
            Self::OnHost => (None, None),
            Self::OnDevice(NumberingDevice { device, ahead }) => (Some(&**device), ahead.as_mut()),
        }
    }

    /// Whether columns of similarities were brought ahead.
    pub(super) fn has_ahead(&self) -> bool {
        matches!(self, Self::OnDevice(NumberingDevice { ahead: Some(_), .. }))
    }

    /// Gives back the memory of the columns that were brought ahead.
    pub(super) fn without_ahead(self) -> Self {
        match self {
            Self::OnHost => Self::OnHost,
            Self::OnDevice(numbering) => Self::OnDevice(NumberingDevice { ahead: None, ..numbering }),
        }
    }
}
