//! Probe strings that are too long for the device, compared with every build string on the host.

use arrow::array::{Array, StringViewArray};

use similarity_engine::strings::EditPredicate;
use similarity_engine::strings::features::length_of;
use similarity_engine::strings::predicate::LONGEST_PREFIX;
use similarity_engine::{Cancel, Counts, Pairs};

/// The strings of a side and their groups, by row; views of the key column's own buffers.
#[derive(Debug)]
pub(super) struct StringsOnHost {
    pub(super) values: StringViewArray,
    pub(super) groups: Option<Vec<u32>>,
}

/// Appends the rows of `build`, none of more than `longest` characters, that match a longer row of `probe`.
pub(super) fn compare(
    predicate: &EditPredicate,
    (build, longest): (&StringsOnHost, usize),
    (probe, row): (&StringsOnHost, u32),
    cancel: &Cancel,
    out: &mut Pairs,
) -> Counts {
    let mut counts = Counts::default();
    let text = probe.values.value(row as usize);
    let length = length_of(text);
    if !predicate.is_possible(longest, length, LONGEST_PREFIX) {
        return counts;
    }
    let group = probe.groups.as_ref().map(|groups| groups[row as usize]);
    let together = |b: usize| build.groups.as_ref().map(|groups| groups[b]) == group;
    for b in (0..build.values.len()).filter(|&b| build.values.is_valid(b) && together(b)) {
        if cancel.is_cancelled() {
            break;
        }
        let other = build.values.value(b);
        let other_length = length_of(other);
        counts.candidates += 1;
        if !predicate.is_possible(other_length, length, LONGEST_PREFIX) {
            continue;
        }
        counts.verified += 1;
        if predicate.matches(other, text, length, &|| cancel.is_cancelled()) {
            counts.matched += 1;
            out.push(b as u32, row);
        }
    }
    counts
}
