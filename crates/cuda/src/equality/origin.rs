//! Numbers that the host gives to rows once more, as a device has given them that has failed since.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MAX_INLINE_VIEW_LEN, StringViewArray};
use similarity_engine::NO_GROUP;
use similarity_engine::equality::{Codes, Values};
use similarity_engine::error::{Result, internal_err};
use similarity_engine::hash::mix;

use super::sort_keys::{Joint, Span, Which};
use crate::kernels::NULL_STRING;

/// What the rows of a build side have their numbers by.
#[derive(Debug)]
pub(super) enum Origin {
    /// Values of a key.
    Values(ArrayRef, Which),
    /// Numbers that the rows have in one or two keys.
    Numbers { left: Arc<Origin>, right: Option<Arc<Origin>>, joint: Joint, which: Which },
    /// Codes that the host has given.
    Host(Codes),
}

impl Origin {
    /// The number of each row, [`NO_GROUP`] where it has none.
    ///
    /// # Errors
    /// Columns that the device would not have numbered.
    pub(super) fn numbers(&self) -> Result<Vec<u32>> {
        Ok(match self {
            Self::Values(column, which) => match Values::of(column)? {
                Values::Strings(strings) => {
                    let key = |row| if strings.is_null(row) { NULL_STRING } else { hash(&strings, row) >> 1 };
                    in_order((0..strings.len()).map(key), NULL_STRING, *which)
                }
                Values::Numbers(numbers) => {
                    let Some(Span { least, none }) = Span::of(&numbers) else {
                        return internal_err!("numbers too far from each other were on a device");
                    };
                    let above = |number: i64| (number as u64).wrapping_sub(least as u64);
                    in_order(numbers.iter().map(|number| number.map_or(none, above)), none, *which)
                }
            },
            Self::Numbers { left, right, joint: Joint { bits, none }, which } => {
                let left = left.numbers()?;
                let right = right.as_ref().map(|right| right.numbers()).transpose()?;
                let key = |row: usize| match (left[row], right.as_ref().map_or(0, |right| right[row])) {
                    (NO_GROUP, _) | (_, NO_GROUP) => *none,
                    (high, low) => u64::from(high) << bits | u64::from(low),
                };
                in_order((0..left.len()).map(key), *none, *which)
            }
            Self::Host(codes) => codes.on_host()?.to_vec(),
        })
    }
}

/// The hash of a string in `kernels/equality.cu`.
fn hash(strings: &StringViewArray, row: usize) -> u64 {
    let view = strings.views()[row];
    let hash = mix(0, view as u64);
    match view as u32 {
        ..=MAX_INLINE_VIEW_LEN => mix(hash, (view >> u64::BITS) as u64),
        // the view has the first four bytes
        _ => strings.value(row).as_bytes()[4..].chunks(8).fold(hash, |hash, bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            mix(hash, u64::from_le_bytes(word))
        }),
    }
}

/// The numbers of keys in their order, as far as rows with them have one; having no value is the key `none`.
fn in_order(keys: impl Iterator<Item = u64>, none: u64, which: Which) -> Vec<u32> {
    let mut records: Vec<(u64, u32)> = keys.zip(0..).collect();
    records.sort_unstable();
    let (mut numbers, mut next) = (vec![NO_GROUP; records.len()], 0);
    for rows in records.chunk_by(|one, other| one.0 == other.0) {
        let has_number = match which {
            Which::Valued => rows[0].0 != none,
            Which::All => true,
            Which::Paired => rows[0].0 != none && rows.len() > 1,
        };
        if has_number {
            rows.iter().for_each(|&(_, row)| numbers[row as usize] = next);
            next += 1;
        }
    }
    numbers
}
