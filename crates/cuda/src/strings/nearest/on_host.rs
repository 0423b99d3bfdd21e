//! Probe strings that are too long for the device: the host scores the build side for them.

use arrow::array::Array;

use super::kept::StringsOnDevice;
use crate::nearest::OnHost;
use crate::strings::long_strings::StringsOnHost;
use similarity_engine::Cancel;
use similarity_engine::nearest::{Best, Neighbour, float_key};

/// Rows whose strings are too long, and all strings of their side.
#[derive(Debug)]
pub(super) struct LongStrings {
    rows: Vec<u32>,
    host: StringsOnHost,
}

impl LongStrings {
    pub(super) fn new(rows: Vec<u32>, host: StringsOnHost) -> Self {
        Self { rows, host }
    }
}

impl OnHost for LongStrings {
    fn rows(&self) -> &[u32] {
        &self.rows
    }
}

/// Offers the build rows of the group of a row of `long`, and returns how many there are.
pub(super) fn rank(
    index: &StringsOnDevice,
    long: &LongStrings,
    at: usize,
    best: &mut Best<i64>,
    cancel: &Cancel,
) -> usize {
    let (row, values) = (long.rows[at] as usize, &index.side.values);
    let (text, group) = (long.host.values.value(row), long.host.groups.as_ref().map(|groups| groups[row]));
    let together = |other: &usize| index.groups.as_ref().map(|groups| groups[*other]) == group;
    let mut compared = 0;
    let others = (0..values.len()).filter(|&other| values.is_valid(other)).filter(together);
    for other in others.take_while(|_| !cancel.is_cancelled()) {
        compared += 1;
        if let Some(score) = index.measure.score(values.value(other), text) {
            let score = if index.measure.is_distance() { float_key(score) } else { !float_key(score) };
            best.offer(Neighbour { score, rank: index.ranks[other], row: other as u32 });
        }
    }
    compared
}
