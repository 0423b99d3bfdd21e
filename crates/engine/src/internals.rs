//! Parts of the engines that tests on devices and benches look into. They are no interface.

#![allow(missing_docs)]

pub use crate::cpu::columns::{AtomDeciders, BuildAtoms, Columns};
pub use crate::cpu::fingerprints::{Detail, Fingerprints, bound};
pub use crate::equality::DeviceGroups;
pub use crate::fallback::LongStrings;
pub use crate::offload::ROWS_OF_RULES;
pub use crate::rules::internals::*;
