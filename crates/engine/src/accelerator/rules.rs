//! A join of rules on a device: the columns of its atoms, and the entries whose trees are walked there.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::equality::{FoundRows, GroupedRows};
use crate::atoms::{AtomCondition, RuleCounters, RuleRows};
use crate::equality::Codes;
use crate::error::Result;
use crate::metrics::MetricValue;
use crate::offered::Offered;
use crate::plan::ExecutionTree;
use crate::{Cancel, Counts, Cursor, Pairs};

/// A build side of rules that is brought to a device.
pub struct RulesSide<'a> {
    /// How each atom is decided.
    pub conditions: &'a [AtomCondition],
    /// What the first filter of an atom allows, by the classes of a probe and a build row.
    pub allowances: &'a (dyn Fn(usize) -> &'a [i8] + Sync),
    /// The rows.
    pub rows: &'a dyn RuleRows,
    /// Which atoms are asked on the device.
    pub asked: Vec<bool>,
    /// Equalities over the strings of some atoms, by atom: whether two NULLs are equal.
    pub equalities: &'a [Option<bool>],
    /// How many rows are given a fingerprint, by all atoms that are asked; these read strings then.
    pub printed: Option<usize>,
    /// Threads that bring columns.
    pub threads: usize,
}

/// A join of rules on a device: the conditions of its atoms and the columns of its build side.
pub trait DeviceRules: Debug + Send + Sync {
    /// The device as EXPLAIN ANALYZE names it.
    fn name(&self) -> String;

    /// What the join has done on the device.
    fn metrics(&self) -> Vec<MetricValue>;

    /// Whether some build rows have a value for `atom` that no kernel takes, as a very long string. Where a tree asks
    /// the atom, pairs with them pass the tree of their entry and fail that of the entries before: the host decides.
    fn has_unknown(&self, atom: usize) -> bool;

    /// The codes of an equality over the strings of an atom, where these were asked for and the device can tell them
    /// apart.
    fn take_codes(&mut self, atom: usize) -> Option<Codes>;

    /// Adds the codes of those atoms that are `asked` and are equalities, or says that memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    fn add_codes(&mut self, build: &dyn RuleRows, asked: &[bool]) -> Result<Offered<()>>;

    /// The `count` rows with the least fingerprints of `rows` rows, with these; of equal ones the first rows. `None`
    /// where no fingerprints were made, where many rows have the same ones, or where memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    fn least_prints(&mut self, rows: usize, count: usize, bound: u64) -> Result<Option<Vec<(u64, u32)>>>;

    /// Brings a probe side to the device; `None` where it does not fit or has values without kernels.
    ///
    /// # Errors
    /// A device that fails.
    fn prepare(&self, probe: &dyn RuleRows, threads: usize) -> Result<Option<Box<dyn DeviceColumns>>>;

    /// Parts that a self-join of each of so many entries is cut into.
    fn parts_of_entry(&self, entries: usize) -> u64;

    /// Brings an entry to the device, or says why not.
    ///
    /// # Errors
    /// A device that fails.
    fn entry(&self, entry: &WalkedEntry<'_>) -> Result<Offered<Box<dyn DeviceEntry>>>;

    /// Brings the trees of an entry whose candidates an index finds, as [`WalkedEntry::trees`] has them, or says why
    /// not.
    ///
    /// # Errors
    /// A device that fails.
    fn trees(&self, trees: [&ExecutionTree; 2]) -> Result<Offered<Box<dyn DeviceTrees>>>;

    /// The rules themselves, for the device that has them.
    fn as_any(&self) -> &dyn Any;
}

/// The columns of a probe side on a device.
pub trait DeviceColumns: Debug + Send + Sync {
    /// Whether some rows have a value that no kernel takes, see [`DeviceRules::has_unknown`].
    fn has_unknown(&self) -> bool;

    /// The columns themselves, for the device that has them.
    fn as_any(&self) -> &dyn Any;
}

/// The rows of a probe batch that have partners, on a device.
pub trait DeviceItems: Debug + Send + Sync {
    /// How many rows there are: the length of the cursor.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows themselves, for the device that has them.
    fn as_any(&self) -> &dyn Any;
}

/// An entry by equalities or by a band whose candidates are walked on a device.
pub trait DeviceEntry: Debug + Send + Sync {
    /// Brings the probe rows that have partners; `None` where memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    fn prepare(&self, rules: &dyn DeviceRules, rows: &ProbeRows<'_>) -> Result<Option<Box<dyn DeviceItems>>>;

    /// A copy for the copy of its rules on another device, or the reason why not.
    ///
    /// # Errors
    /// A device that fails, rules of another platform.
    fn replicate(&self, to: &dyn DeviceRules) -> Result<Offered<Box<dyn DeviceEntry>>>;

    /// The end of a stretch of a self-join from `start` on.
    fn self_join_stretch(&self, start: usize) -> usize;

    /// Bytes held on the host.
    fn memory(&self) -> usize;

    /// Appends the matches among some of the candidates from `cursor` on: of a probe batch, or of the build side
    /// itself. `None` where memory lacks; what was appended and counted then is the caller's to take back, as after an
    /// error.
    ///
    /// # Errors
    /// A device that fails.
    fn walk(
        &self,
        rules: &dyn DeviceRules,
        probe: Option<(&dyn DeviceColumns, &dyn DeviceItems)>,
        cursor: &mut Cursor,
        cancel: &Cancel,
        to: (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>>;
}

/// The trees of an entry on a device, where an index finds its candidates.
pub trait DeviceTrees: Debug + Send + Sync {
    /// A copy for the copy of its rules on another device, or the reason why not.
    ///
    /// # Errors
    /// A device that fails, rules of another platform.
    fn replicate(&self, to: &dyn DeviceRules) -> Result<Offered<Box<dyn DeviceTrees>>>;

    /// Appends the matches among pairs that were `found`: with rows of a probe batch, or within the build side. `None`
    /// where memory lacks; what was appended and counted then is the caller's to take back, as after an error.
    ///
    /// # Errors
    /// A device that fails.
    fn decide(
        &self,
        rules: &dyn DeviceRules,
        probe: Option<&dyn DeviceColumns>,
        found: &Pairs,
        cancel: &Cancel,
        to: (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>>;
}

/// What an entry is made of.
pub struct WalkedEntry<'a> {
    /// Build rows by place.
    pub rows: PlacedRows<'a>,
    /// In a self-join the partners of each place.
    pub behind: Option<PartnerEnds<'a>>,
    /// Parts that a self-join is cut into, where each is little work.
    pub parts: u64,
    /// The tree that decides the candidates, and that of the entries before this one.
    pub trees: [&'a ExecutionTree; 2],
}

/// Build rows by place, and where they are.
pub enum PlacedRows<'a> {
    /// On the host.
    OnHost(&'a [u32]),
    /// On the device, by group.
    Grouped(Arc<dyn GroupedRows>),
}

/// In a self-join, the places that each place is paired with: those behind it up to an end.
pub enum PartnerEnds<'a> {
    /// The end of its group, of groups that are on the device.
    InGroup(&'a Arc<dyn GroupedRows>),
    /// The end of its group; where groups start, and where the last one ends.
    InGroupOnHost(&'a [u32]),
    /// An end of its own.
    UpTo(&'a [u32]),
}

/// The rows of a probe batch that have partners.
pub enum ProbeRows<'a> {
    /// Each row with the places of its partners.
    Placed(&'a [(u32, Range<u32>)]),
    /// Rows by group.
    Grouped(&'a dyn FoundRows, &'a dyn GroupedRows),
}
