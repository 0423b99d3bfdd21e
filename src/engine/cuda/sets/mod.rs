//! Set similarity joins on a device.
//!
//! ```text
//! ranked tokens (engine::sets)
//!   columns   --> the sets of a side, packed for one upload
//!   arranged  --> on the device: signatures, positions by (group, size), blocks of 64
//!   index     --> windows of build blocks by group and size, filtered by signatures, verified
//! ```
//!
//! All pairs that sizes allow are compared by signatures: on binary tensor cores that is faster than an index in all but
//! extreme cases. What passes is decided by the exact overlap and the measure's own arithmetic, on the device: it
//! divides and takes roots in double precision as the host does, correctly rounded.

mod arranged;
mod columns;
mod index;
mod test;

pub(super) use index::SetIndex;
pub(super) use test::set_test;
