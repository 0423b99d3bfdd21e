//! The CUDA engine: the same pairs as the CPU engine's, found by an NVIDIA GPU.
//!
//! ```text
//! device     which GPU there is, what it can do, how much of its memory is ours
//! memory     buffers on it, counted against the budget
//! metrics    what a join has done there
//! modules    the files of kernels, and when the driver reads them
//! compiler   what the driver does then, and what an exit waits for
//! kernels    one typed function for each kernel of kernels/: all that is launched is launched here
//! sort       records by a key
//! keys       equality keys, numbered there
//! ahead      columns that are sent while the host puts their batches together
//! strings    strings as Arrow has them
//! texts      the same as codes of their characters
//! accepted   the scores of a condition, as kernels compare them
//! steps      how much is compared at once; density says how much that yields
//! tasks      what is compared together: blocks of one side against ranges of blocks of the other
//! pool       a few things of one kind that threads take in turn
//! worker     a stream of launches, and the buffers that pairs come back through
//! staging    memory of the host that they come through
//! copies     to the device, and from it
//! blocks     an index whose sides lie in blocks: what is the same for all kinds of keys
//! sets       set similarity joins
//! vectors    epsilon and nearest joins of vectors
//! edits      edit-distance and Jaro joins
//! rules      what entries of a join of rules pair
//! ```
//!
//! Nothing here needs CUDA at build time: the driver's library is opened when a session first asks for a device, and
//! the kernels come with the crate as PTX, which the driver compiles (and remembers) when an operator first needs them.

mod accepted;
mod ahead;
mod blocks;
mod compiler;
mod copies;
mod density;
pub mod device;
mod edits;
mod fault;
mod kernels;
pub mod keys;
mod memory;
mod metrics;
mod modules;
mod pool;
pub mod rules;
mod sets;
mod sort;
mod staging;
mod steps;
mod strings;
mod tasks;
#[cfg(test)]
pub(crate) mod test_device;
mod texts;
mod vectors;
mod worker;

use std::ops::Range;

use crate::error::Result;

pub use ahead::{SendingAhead, ViewRoom};
pub use device::Device;
pub use memory::Budget;

use super::edits::EditPredicate;
use super::nearest::{NearestIndex, Wanted};
use super::reason::Refused;
use super::sets::SetPredicate;
use super::{BuildContext, Index, KeyColumn, Probe};
use crate::condition::Test;
use edits::EditIndex;
use fault::Fault;
use modules::Module;
use sets::SetIndex;
use vectors::{VectorIndex, has_kernels};

/// Characters of the longest string that a device compares by an edit measure.
pub fn longest_string(predicate: &EditPredicate) -> usize {
    edits::longest_string(predicate)
}

pub use vectors::{FEW_DIMENSIONS, ranks_by};

/// Whether there are kernels for a condition.
pub fn serves(test: Test) -> bool {
    match test {
        Test::Set { .. } | Test::Edit { .. } => true,
        Test::Vector(test) => has_kernels(test.measure),
    }
}

/// A build side on a device.
pub trait DeviceIndex: Index {
    /// The rows at some positions of a prepared batch, or of the build side itself, as far as the device compares
    /// these. In a self-join a pair comes out at the lower one of its positions.
    ///
    /// # Errors
    /// A device that fails, a batch that the index did not prepare.
    fn rows(&self, probe: Probe<'_>, positions: Range<usize>) -> Result<Vec<u32>>;
}

/// Makes the keys of a build side ready for `test` on a device, or says why not: there are no kernels for them, or its
/// memory does not hold them and the caller does not divide them.
///
/// # Errors
/// Keys that `test` is not about, a refused reservation, a cancelled build, a device that fails, [`Error::DeviceFull`](crate::Error::DeviceFull) where the caller
/// divides the keys.
pub(crate) fn build(
    budget: &Budget,
    test: Test,
    keys: &KeyColumn,
    context: &BuildContext<'_>,
) -> Result<Result<Box<dyn DeviceIndex>, Refused>> {
    if !serves(test) {
        return Ok(Err(Refused::Keys));
    }
    let budget = &budget.of_join();
    let module = match test {
        Test::Set { .. } => Module::Sets,
        Test::Edit { .. } => Module::Edits,
        Test::Vector(_) => Module::Vectors,
    };
    budget.device.read_ahead(&[module], context.cancel);
    context.cancel.check()?;
    let index = match test {
        Test::Set { tokenizer, measure, bounds } => {
            let predicate = SetPredicate { measure, bounds };
            SetIndex::try_new(budget, tokenizer, predicate, keys, context).map(|index| Some(boxed(index)))
        }
        Test::Edit { measure, bounds } => {
            EditIndex::try_new(budget, EditPredicate { measure, bounds }, keys, context).map(|index| index.map(boxed))
        }
        Test::Vector(test) => VectorIndex::try_new(budget, test, keys, context).map(|index| index.map(boxed)),
    };
    match index {
        Err(Fault::Memory) if context.divides => Err(Fault::Memory.into()),
        index => refused(index),
    }
}

/// What a device has been brought, or why it has not: nothing for keys that it has no kernels for.
fn refused<T>(brought: Result<Option<T>, Fault>) -> Result<Result<T, Refused>> {
    match brought {
        Err(Fault::Memory) => Ok(Err(Refused::Memory)),
        brought => Ok(brought?.ok_or(Refused::Keys)),
    }
}

/// Makes the keys of a build side, each row with a rank, ready for being ranked by the score of `test` on a device, or
/// says why not: there are no kernels for that, or its memory does not hold a part of them that is worth a search.
///
/// # Errors
/// Keys that have no such score, a refused reservation, a cancelled build, a device that fails.
pub(crate) fn build_nearest(
    budget: &Budget,
    test: Test,
    keys: &KeyColumn,
    ranking: (&[u32], Wanted),
    context: &BuildContext<'_>,
) -> Result<Result<Box<dyn NearestIndex>, Refused>> {
    let Test::Vector(test) = test else { return Ok(Err(Refused::Keys)) };
    budget.device.read_ahead(&[Module::Vectors, Module::Nearest], context.cancel);
    context.cancel.check()?;
    refused(vectors::build_nearest(&budget.of_join(), test.measure, keys, ranking, context))
}

fn boxed<I: DeviceIndex + 'static>(index: I) -> Box<dyn DeviceIndex> {
    Box::new(index)
}
