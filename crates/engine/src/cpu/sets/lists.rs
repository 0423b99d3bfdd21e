//! An inverted index: the positions of the sets that have each token.

use std::ops::Range;

use crate::error::Result;
use crate::gallop::gallop;

use super::sorted::SortedSets;
use crate::BuildContext;
use crate::stored::stored;

/// Positions of each token's sets, ascending. Positions are ordered by group and size, so that the partners which
/// both allow are one stretch of every list.
#[derive(Debug)]
pub(super) struct TokenLists {
    /// Where each token's list starts; one entry more than tokens.
    starts: Vec<u32>,
    positions: Vec<u32>,
}

stored!(TokenLists { starts, positions });

impl TokenLists {
    /// Lists of so many tokens, each of which some set has.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    pub(super) fn build(sets: &SortedSets, tokens: usize, context: &BuildContext<'_>) -> Result<Self> {
        (context.reserve)((tokens + 2) * size_of::<u32>())?;
        let mut starts = vec![0u32; tokens + 2];
        for position in 0..sets.len() {
            check(position, context)?;
            sets.tokens(position).iter().for_each(|&token| starts[token as usize + 2] += 1);
        }
        (2..starts.len()).for_each(|token| starts[token] += starts[token - 1]);
        // One entry ahead, each start moves to its list's end, which is the next list's start.
        let count = starts.last().copied().unwrap_or(0) as usize;
        (context.reserve)(count * size_of::<u32>())?;
        let mut positions = vec![0; count];
        for position in 0..sets.len() {
            check(position, context)?;
            for &token in sets.tokens(position) {
                let at = &mut starts[token as usize + 1];
                positions[*at as usize] = position as u32;
                *at += 1;
            }
        }
        starts.pop();
        Ok(Self { starts, positions })
    }

    /// The whole list of a token.
    #[inline]
    pub(super) fn list(&self, token: u32) -> &[u32] {
        &self.positions[self.starts[token as usize] as usize..self.starts[token as usize + 1] as usize]
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        (self.starts.capacity() + self.positions.capacity()) * size_of::<u32>()
    }
}

/// Fails from time to time where the build is cancelled.
#[inline]
fn check(position: usize, context: &BuildContext<'_>) -> Result<()> {
    if position.is_multiple_of(1 << 16) { context.cancel.check() } else { Ok(()) }
}

/// The part of an ascending list that lies within `positions`.
pub(super) fn within(list: &[u32], positions: &Range<usize>) -> Range<usize> {
    let start = list.partition_point(|&position| (position as usize) < positions.start);
    start..start + list[start..].partition_point(|&position| (position as usize) < positions.end)
}

/// How many positions at the start of an ascending list are below `bound`, in time that grows with the logarithm of
/// that number.
#[inline]
pub(super) fn first_below(list: &[u32], bound: usize) -> usize {
    gallop(list, |&position| (position as usize) < bound)
}

/// How many positions at the end of an ascending list are at least `bound`, in time that grows with the logarithm of
/// that number.
#[inline]
pub(super) fn last_from(list: &[u32], bound: usize) -> usize {
    let mut step = 1;
    while step <= list.len() && list[list.len() - step] as usize >= bound {
        step *= 2;
    }
    let low = list.len() - list.len().min(step);
    let high = list.len() - step / 2;
    let start = low + list[low..high].partition_point(|&position| (position as usize) < bound);
    list.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_found() {
        for len in 0..40u32 {
            let list: Vec<u32> = (0..len).map(|at| 3 * at + at % 2).collect();
            for bound in 0..130 {
                let below = list.iter().filter(|&&position| (position as usize) < bound).count();
                assert_eq!(first_below(&list, bound), below);
                assert_eq!(last_from(&list, bound), list.len() - below);
                assert_eq!(within(&list, &(bound..bound + 9)).start, below);
            }
        }
    }
}
