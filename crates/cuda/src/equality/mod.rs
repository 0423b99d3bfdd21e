//! Equality keys numbered on a device.
//!
//! Where the CPU hashes values into tables, a device sorts them (by a hash, if they are strings) and numbers what then
//! lies side by side. Strings of one hash are compared; where two of them differ, the keys are left to the CPU. Where
//! the device fails later on, the host gives the rows of a build side the same numbers once more.

mod codes;
mod groups;
mod known;
mod numbers;
mod origin;
mod records;
mod sort_keys;
#[cfg(test)]
mod tests;

pub use self::codes::codes;
pub(super) use self::codes::codes_of_strings;
pub use self::groups::RowsByGroup;
pub use self::known::FoundNumbers;
pub use self::numbers::NumbersOnDevice;
