//! Which side the settled rows are from.

use crate::exec::emission::{Emission, Rows};

/// The side whose rows a partner settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Settles {
    Build,
    Probe,
}

impl Settles {
    /// None where pairs come out, or rows of both sides.
    pub(in crate::exec) fn of(emission: Emission) -> Option<Self> {
        match emission {
            Emission { pairs: false, build: Rows::None, .. } => Some(Self::Probe),
            Emission { pairs: false, probe: Rows::None, .. } => Some(Self::Build),
            _ => None,
        }
    }
}
