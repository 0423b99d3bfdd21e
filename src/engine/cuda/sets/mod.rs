//! Set similarity joins on a device.
//!
//! ```text
//! ranked tokens (engine::sets)
//!   columns   --> the sets of a side, packed for one upload
//!   arranged  --> on the device: signatures, positions by (group, size), blocks of 64
//!   tasks     --> runs of probe blocks against the build blocks that group and size allow
//!   worker    --> filter by signatures, verify, bring the pairs back
//! ```
//!
//! All pairs that sizes allow are compared by signatures: on binary tensor cores that is faster than an index in all but
//! extreme cases. What passes is decided by the exact overlap and the measure's own arithmetic, on the device: it
//! divides and takes roots in double precision as the host does, correctly rounded.

mod arranged;
mod columns;
mod index;
mod tasks;
mod test;
mod worker;

pub(super) use index::SetIndex;
