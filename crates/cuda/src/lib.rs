//! The CUDA engine: the same pairs as the CPU engine's, found by an NVIDIA GPU.
//!
//! ```text
//! accelerator     the door: what the engines ask of a device
//! device          a GPU that this process has opened, with what its joins share
//! context         which GPU it is, what it can do, how much of its memory is ours
//! wait            waits for what was launched, and gives up a device that does not answer
//! address         where values lie, as kernels are told
//! buffer          memory that somebody holds, counted by the device
//! memory          what a join may hold, and copies of it
//! metrics         what a join has done there
//! modules         the files of kernels, and when the driver reads them
//! compiled        the forms of a file: machine code for some devices, PTX for all others
//! exit_guard      what an exit of the process waits for
//! kernels         what the host decides of each launch, over functions that are generated from kernels/
//! transfers       copies to the device and from it; staging is the pinned memory that they come through
//! sort            records by a key
//! equality        equality keys, numbered there
//! prefetch        columns that are sent while the host puts their batches together, kept in sent_columns
//! arrow_strings   strings as Arrow has them
//! coded_strings   strings as codes of their characters
//! device_bounds   the scores of a condition, as kernels compare them
//! work_split      how comparisons are cut into tasks
//! scheduler       how much is compared at once, by what yield_estimate says of the last step
//! block_ranges    what is compared together: blocks of one side against ranges of blocks of the other
//! object_pool     a few things of one kind that threads take in turn
//! worker          a stream of launches, and the buffers that pairs come back through
//! host_verify     pairs that a device has only filtered, decided by the host
//! sorted_side     one side of a join in the order of its blocks
//! tiled_index     an index whose sides lie in blocks: what all families of keys have in common
//! sets            set similarity joins
//! strings         edit-distance and Jaro joins
//! nearest         rankings: rounds of comparisons, what all families of keys have in common
//! match_count     rankings by how many conditions hold
//! vectors         epsilon and nearest joins of vectors
//! rules           what entries of a join of rules pair
//! components      connected components of links
//! ```
//!
//! Nothing here needs CUDA at build time: the driver's library is opened when a session first asks for a device. The
//! kernels come with the crate as machine code for devices up to compute capability 9.0, and as PTX for later ones. The
//! driver compiles PTX (and remembers it) when an operator first needs it.

#![deny(missing_docs)]

mod accelerator;
mod address;
mod arrow_strings;
mod block_ranges;
mod buffer;
mod coded_strings;
mod compiled;
mod components;
mod context;
pub mod device;
mod device_bounds;
mod equality;
mod exit_guard;
mod fault;
mod host_verify;
mod kernels;
mod match_count;
mod memory;
mod metrics;
mod modules;
mod nearest;
mod object_pool;
mod prefetch;
mod replicate;
mod rules;
mod scheduler;
mod sent_columns;
mod sets;
mod sort;
mod sorted_side;
mod staging;
mod strings;
#[cfg(test)]
mod test_device;
#[cfg(test)]
mod test_oracle;
#[cfg(test)]
mod tests;
mod tiled_index;
mod transfers;
mod vectors;
mod wait;
mod work_split;
mod worker;
mod yield_estimate;

pub use accelerator::Cuda;
pub use device::Device;
