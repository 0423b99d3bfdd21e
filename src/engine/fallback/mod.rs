//! Indexes on a device whose memory may run out while they are probed: what no longer fits runs on the CPU.

mod join;
mod nearest;

pub(super) use join::WithFallback;
pub(super) use nearest::NearestWithFallback;
