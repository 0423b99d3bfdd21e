//! How much of a join a device takes at a time, where several have it.

/// Positions of a stretch of a self-join are a multiple of these, so that no block of a device is compared by two.
const BLOCK: usize = 64;

/// Rows of a probe side that are made ready at once for so many devices, where one would take `rows`: several batches
/// for each, so that none is idle while others have work.
pub(super) fn rows_at_once(rows: usize, devices: usize) -> usize {
    if devices == 1 { rows } else { rows.div_ceil(2 * devices) }
}

/// The end of a stretch of a self-join that so many devices share, where one would take positions up to `end`.
pub(super) fn stretch(start: usize, end: usize, devices: usize) -> usize {
    end.min(start + (end - start).div_ceil(devices).next_multiple_of(BLOCK))
}
