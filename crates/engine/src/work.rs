//! Amounts of work, and from which amount on a device pays.

use std::fmt::{Display, Formatter};

/// Work from which on a device pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffloadThreshold {
    /// Amount from which on a device pays that is open.
    pub(super) open: u64,
    /// Amount from which on a device pays that has yet to be opened, the time of opening included.
    pub(super) closed: u64,
    pub(super) unit: Unit,
}

/// Unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    PairsOfRows,
    PairsOfNumbers,
    Links,
    /// Nanoseconds of one core.
    Nanoseconds,
}

impl Display for OffloadThreshold {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let [closed, open] = [self.closed, self.open].map(|amount| Amount(amount, self.unit));
        write!(f, "from {closed} on, {open} once it is open")
    }
}

/// Amount of work, in a unit.
struct Amount(u64, Unit);

impl Display for Amount {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match (self.1, self.0) {
            (Unit::PairsOfRows, amount) => write!(f, "{amount} pairs of rows"),
            (Unit::PairsOfNumbers, amount) => write!(f, "{amount} pairs of numbers"),
            (Unit::Links, amount) => write!(f, "{amount} links"),
            (Unit::Nanoseconds, amount) => {
                let tenths = |unit: u64| ((10 * u128::from(amount)) / u128::from(unit)) as f64 / 10.0;
                match amount {
                    1_000_000_000.. => write!(f, "{} s of a core's work", tenths(1_000_000_000)),
                    _ => write!(f, "{} ms of a core's work", tenths(1_000_000)),
                }
            }
        }
    }
}

/// The work of a join beside that from which on a device pays.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkEstimate {
    work: u64,
    enough: u64,
    unit: Unit,
}

impl WorkEstimate {
    /// `work` in the unit of `pays`, with the device as it is.
    pub(super) fn new(work: u64, pays: OffloadThreshold, is_open: bool) -> Self {
        Self { work, enough: if is_open { pays.open } else { pays.closed }, unit: pays.unit }
    }

    /// Whether a device pays.
    pub(super) fn is_enough(&self) -> bool {
        self.work >= self.enough
    }
}

impl Display for WorkEstimate {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let [work, enough] = [self.work, self.enough].map(|amount| Amount(amount, self.unit));
        write!(f, "about {work}, a device pays from {enough} on")
    }
}
