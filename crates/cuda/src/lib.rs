//! The CUDA engine: the same pairs as the CPU engine's, found by an NVIDIA GPU.
//!
//! ```text
//! accelerator  the door: what the engines ask of a device
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

#![deny(missing_docs)]

mod accelerator;
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
mod keys;
mod memory;
mod metrics;
mod modules;
mod pool;
mod rules;
mod sets;
mod sort;
mod staging;
mod steps;
mod strings;
mod tasks;
#[cfg(test)]
mod test_device;
#[cfg(test)]
mod test_oracle;
#[cfg(test)]
mod tests;
mod texts;
mod vectors;
mod worker;

pub use accelerator::Cuda;
pub use device::Device;
