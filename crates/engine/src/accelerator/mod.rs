//! The door to devices: what the engines ask of one, whoever makes it.
//!
//! A [`Platform`] is a kind of device. It says what its kernels serve before any device is opened, so that a plan can
//! be explained on a machine without one. An [`Accelerator`] is an open device with the memory that joins may use
//! there. What lies on a device has a trait of its own: [`equality`] for equality keys, [`rules`] for joins of rules,
//! [`prefetch`] for columns that are sent while the host still collects them, [`components`] for clusters.

pub mod components;
pub mod equality;
pub mod numbers;
pub mod prefetch;
pub mod rules;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};

use crate::access_path::AccessPaths;
use crate::atoms::AtomCondition;
use crate::condition::Condition;
use crate::equality::Codes;
use crate::error::Result;
use crate::metrics::MetricValue;
use crate::nearest::{NearestIndex, Wanted};
use crate::offered::Offered;
use crate::ranking::Ranking;
use crate::strings::EditPredicate;
use crate::{AnyBatch, BuildContext, Cancel, KeyColumn, PairIndex, Probe};
use components::DeviceComponents;
use equality::{DeviceKeys, GroupedRows};
use prefetch::LentViews;
use rules::{DeviceRules, RulesSide};

/// What joins may take of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceLimits {
    /// The share of its memory that all joins of the process may use together, above 0 and up to 1.
    pub memory_fraction: f64,
    /// After how many seconds the process gives up a device that does not answer; 0 is never. What was set last counts,
    /// for all devices.
    pub timeout: u64,
}

impl DeviceLimits {
    /// All memory, and all time.
    pub const NONE: Self = Self { memory_fraction: 1.0, timeout: 0 };
}

/// A kind of device, and what its kernels serve.
pub trait Platform: Debug + Send + Sync {
    /// Whether this machine has a driver, so that a device may be there.
    fn has_driver(&self) -> bool;

    /// How many devices this machine has.
    ///
    /// # Errors
    /// The reason why the driver cannot say, as a user reads it.
    fn devices(&self) -> Result<usize, String>;

    /// Whether this process has opened the device already, and it has not failed.
    fn is_open(&self, ordinal: usize) -> bool;

    /// Whether the device has failed in this process, so that it cannot be used any more.
    fn has_failed(&self, ordinal: usize) -> bool;

    /// Whether the device could not be opened when it was last tried.
    fn was_refused(&self, ordinal: usize) -> bool;

    /// Opens a device, of which all joins together may take what `limits` say, or says why it cannot be used.
    ///
    /// # Errors
    /// The reason, as a user reads it.
    fn open(&self, ordinal: usize, limits: DeviceLimits) -> Result<Arc<dyn Accelerator>, String>;

    /// Whether there are kernels for a condition.
    fn serves(&self, condition: Condition) -> bool;

    /// The access paths for a condition that is [served](Self::serves).
    fn access_paths(&self, condition: Condition) -> AccessPaths;

    /// The access paths for a ranking that there are kernels for.
    fn ranking_access_paths(&self, ranking: &Ranking) -> AccessPaths;

    /// Whether an atom of rules can be decided on a device.
    fn serves_atom(&self, atom: &AtomCondition) -> bool;

    /// Whether a device can refuse pairs for which an atom of rules does not hold, though it may let some of them pass.
    fn filters_atom(&self, atom: &AtomCondition) -> bool;

    /// Whether there are kernels for a ranking of so many rows.
    fn ranks_by(&self, ranking: &Ranking, wanted: Wanted) -> bool;

    /// Whether there are kernels for connected components.
    fn finds_components(&self) -> bool;

    /// Dimensions up to which the CPU compares near vectors only, so that a device pays later.
    fn few_dimensions(&self) -> usize;
}

/// The codes of rows, and the keys in which another side is looked up.
pub type NumberedKeys = (Codes, Option<Box<dyn DeviceKeys>>);

/// An open device, and the memory that joins may use there.
pub trait Accelerator: Debug + Send + Sync {
    /// The kind of device.
    fn platform(&self) -> &'static dyn Platform;

    /// The device as EXPLAIN ANALYZE names it.
    fn name(&self) -> String;

    /// The device as metrics name it: its kind and its ordinal.
    fn label(&self) -> String;

    /// Bytes of its memory that joins hold at the moment.
    fn held(&self) -> usize;

    /// Whether it has failed, so that this process cannot use it any more.
    fn has_failed(&self) -> bool;

    /// The device itself, for the platform that it is of.
    fn as_any(&self) -> &dyn Any;

    /// This device for one join, with metrics of its own.
    fn for_join(&self) -> Arc<dyn Accelerator>;

    /// What the join has done on the device.
    fn metrics(&self) -> Vec<MetricValue>;

    /// Makes the keys of a build side ready for `condition`, or says why not.
    ///
    /// # Errors
    /// Keys that `condition` is not about, a refused reservation, a cancelled build, a device that fails,
    /// [`Error::DeviceFull`](crate::Error::DeviceFull) where the caller divides the keys.
    fn build(
        &self,
        condition: Condition,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Offered<Box<DynDeviceIndex>>>;

    /// Makes the keys of a build side, each row with a rank, ready for `ranking`, or says why not.
    ///
    /// # Errors
    /// Keys that are not ranked so, a refused reservation, a cancelled build, a device that fails.
    fn build_nearest(
        &self,
        ranking: &Ranking,
        keys: &KeyColumn,
        ranks: &[u32],
        wanted: Wanted,
        context: &BuildContext<'_>,
    ) -> Result<Offered<Box<DynDeviceNearest>>>;

    /// Characters of the longest string that the device compares by an edit measure.
    fn longest_string(&self, predicate: &EditPredicate) -> usize;

    /// Numbers rows by what they have in all of `columns`, with the keys for looking up another side where that
    /// `is_known`. `None` where memory lacks, or the device cannot tell two values apart.
    ///
    /// # Errors
    /// Columns of types that have no [values](crate::equality::Values::supports), a device that fails.
    fn number_keys(
        &self,
        columns: &[ArrayRef],
        null_equals_null: &[bool],
        is_known: bool,
    ) -> Result<Option<NumberedKeys>>;

    /// Groups rows by their codes in several columns; in a `self_join` only rows that share theirs with
    /// another. `None` where memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    fn group_rows(&self, columns: &[&Codes], self_join: bool) -> Result<Option<Arc<dyn GroupedRows>>>;

    /// Begins to send `rows` rows of some columns; `None` where that does not pay or memory lacks.
    fn prefetch(&self, columns: &[usize], rows: usize) -> Option<Box<dyn ColumnPrefetch>>;

    /// Gives back what was sent ahead and nobody has asked for.
    fn forget_prefetched(&self);

    /// Has the driver read the kernels of rules, and waits for that as long as nobody cancels.
    fn read_rules_ahead(&self, cancel: &Cancel);

    /// Brings the build side of rules to the device, or says why not.
    ///
    /// # Errors
    /// A device that fails.
    fn bring_rules(&self, side: RulesSide<'_>) -> Result<Offered<Box<dyn DeviceRules>>>;

    /// A copy of rules that are on another device of the platform, or the reason why not.
    ///
    /// # Errors
    /// A device that fails, rules of another platform.
    fn copy_rules(&self, rules: &dyn DeviceRules) -> Result<Offered<Box<dyn DeviceRules>>>;

    /// Components without a link yet, between ids that have a sign or not. Declined where memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    fn components(&self, signed: bool) -> Result<Offered<Box<dyn DeviceComponents>>>;
}

/// A build side on a device.
pub trait DeviceIndex: PairIndex {
    /// The rows at some positions of a prepared batch, or of the build side itself, as far as the device compares
    /// these. In a self-join a pair comes out at the lower one of its positions.
    ///
    /// # Errors
    /// A device that fails.
    fn rows(&self, probe: Probe<'_, Self::Batch>, positions: Range<usize>) -> Result<Vec<u32>>;

    /// A copy on another device of the platform, with the same rows at the same positions, or the reason why not.
    ///
    /// # Errors
    /// A device that fails, a device of another platform.
    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceIndex>>>;
}

/// A build side on a device, of whichever kind.
pub type DynDeviceIndex = dyn DeviceIndex<Batch = AnyBatch>;

/// A build side on a device that ranks its rows.
pub trait DeviceNearest: NearestIndex {
    /// A copy on another device of the platform, with the same rows in the same order, or the reason why not.
    ///
    /// # Errors
    /// A device that fails, a device of another platform.
    fn replicate(&self, to: &dyn Accelerator) -> Result<Offered<Box<DynDeviceNearest>>>;
}

/// A build side on a device that ranks its rows, of whichever kind.
pub type DynDeviceNearest = dyn DeviceNearest<Batch = AnyBatch>;

/// Some columns on their way to a device.
pub trait ColumnPrefetch: Debug + Send + Sync {
    /// Memory for the views of a column that is sent, for the first one who asks.
    fn room(&self, column: usize) -> Option<Box<dyn LentViews>>;

    /// Sends views of a column that are written, so many from a row on.
    fn send(&self, column: usize, stretch: (usize, usize));

    /// The device of the join, which has been sent the columns of `whole`.
    fn arrived(self: Box<Self>, whole: &RecordBatch) -> Arc<dyn Accelerator>;
}
