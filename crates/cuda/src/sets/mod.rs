//! Set similarity joins on a device, and rankings by these measures.
//!
//! ```text
//! ranked tokens (engine::sets)
//!   build_side --> the sets of a build side by ranks
//!   columns   --> the sets of a side, packed for one upload
//!   sorted    --> on the device: signatures, positions by (group, size), blocks of 64
//!   access    --> windows of build blocks by group and size, whose signatures are compared, or
//!   prefixes  --> positions by their rarest tokens, where these leave less to do
//!   posting_lists --> the positions of each token, for these and for rankings
//!   index     --> what the filter lets pass, verified
//!   nearest   --> how many tokens all share with a row, counted, or signatures of all; each row has a bound of its own
//!                 that tightens from round to round
//! ```
//!
//! All pairs that sizes allow are compared by signatures: on binary tensor cores that is faster than an index but for
//! many rows with rare tokens. What passes is decided by the exact overlap and the measure's own arithmetic, on the
//! device: it divides and takes roots in double precision as the host does, correctly rounded.

mod access;
mod build_side;
mod columns;
mod condition;
mod index;
mod nearest;
mod posting_lists;
mod prefixes;
mod sorted;

pub(super) use condition::set_test;
pub(super) use index::SetIndex;
pub(super) use nearest::build_nearest;
