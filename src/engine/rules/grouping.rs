//! Rows that agree in several equalities.

use std::borrow::Cow;
use std::ops::Range;

use datafusion::common::{Result, internal_err};

use crate::engine::NO_GROUP;
use crate::engine::atoms::{AtomColumn, AtomTest};
use crate::engine::cpu::columns::Columns;
use crate::engine::cuda::Budget;
use crate::engine::cuda::keys::RowsByGroup;
use crate::engine::numbering::TupleNumbering;

/// The rows of a build side by what they have in some equalities, as far as they satisfy some conditions of one side;
/// one group of all rows, where there are no equalities.
#[derive(Debug)]
pub(super) struct Grouping {
    equalities: Vec<usize>,
    conditions: Vec<usize>,
    /// From the codes of all equalities to a group; none where a device has grouped the rows of a self-join.
    joined: Option<TupleNumbering>,
    /// Where the rows of each group start; one entry more than groups.
    starts: Vec<u32>,
    /// Row numbers by group, ascending within one.
    rows: Vec<u32>,
    mean_partners: f64,
}

impl Grouping {
    /// The groups of the build side by `keys`, equalities and conditions of one side, and the group of each row, by up to
    /// `threads` threads, or by a device, which is given for self-joins alone.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn build(
        columns: &Columns,
        (tests, keys): (&[AtomTest], &[usize]),
        threads: usize,
        device: Option<&Budget>,
    ) -> Result<(Self, Vec<u32>)> {
        let (equalities, conditions): (Vec<usize>, Vec<usize>) =
            keys.iter().partition(|&&key| tests[key] == AtomTest::Equality);
        let first = first_codes(columns, &equalities, &conditions);
        let others: Vec<&[u32]> = equalities.iter().skip(1).map(|&key| codes(columns, key)).collect();
        let by_device = match device.filter(|_| !equalities.is_empty()) {
            Some(budget) => {
                let all: Vec<&[u32]> = std::iter::once(first.as_ref()).chain(others.iter().copied()).collect();
                RowsByGroup::of(budget, &all)?
            }
            None => None,
        };
        let (joined, RowsByGroup { groups, starts, rows }) = match by_device {
            Some(grouped) => (None, grouped),
            None => {
                let mut joined = TupleNumbering::default();
                let groups = others.iter().fold(first, |groups, codes| joined.extend(&groups, codes, threads).into());
                let behind = || groups.iter().filter(|&&group| group != NO_GROUP).max().map_or(0, |&most| most + 1);
                let (starts, rows) = by_group(&groups, joined.count().unwrap_or_else(behind));
                (Some(joined), RowsByGroup { groups: groups.into_owned(), starts, rows })
            }
        };
        let squares: f64 = starts.windows(2).map(|group| f64::from(group[1] - group[0]).powi(2)).sum();
        let mean_partners = squares / columns.rows.max(1) as f64;
        Ok((Self { equalities, conditions, joined, starts, rows, mean_partners }, groups))
    }

    /// The build side's group of each row of a probe side.
    ///
    /// # Errors
    /// Groups of a self-join.
    pub(super) fn look_up(&self, columns: &Columns) -> Result<Vec<u32>> {
        let Some(joined) = &self.joined else {
            return internal_err!("groups of a self-join were asked for those of another side");
        };
        let mut groups = first_codes(columns, &self.equalities, &self.conditions).into_owned();
        joined.look_up(&mut groups, self.equalities.iter().skip(1).map(|&key| codes(columns, key)));
        Ok(groups)
    }

    /// The rows that have a group, by group.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The rows of a group, as places in [`rows`](Self::rows).
    #[inline]
    pub(super) fn places(&self, group: u32) -> Range<usize> {
        match self.starts.get(group as usize..) {
            Some([start, end, ..]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }

    /// The places of each group.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<u32>> {
        self.starts.windows(2).map(|group| group[0]..group[1])
    }

    /// The end of the group of each place.
    pub(super) fn group_ends(&self) -> impl Iterator<Item = u32> {
        self.groups().flat_map(|group| std::iter::repeat_n(group.end, group.len()))
    }

    /// How many rows a row meets on average that shares its group, itself included.
    pub(super) fn mean_partners(&self) -> f64 {
        self.mean_partners
    }

    pub(super) fn memory(&self) -> usize {
        let joined = self.joined.as_ref().map_or(0, TupleNumbering::memory);
        joined + (self.starts.capacity() + self.rows.capacity()) * size_of::<u32>()
    }
}

/// The codes of the first equality, zeros where there is none, without those of rows that fail a condition of their side.
fn first_codes<'a>(columns: &'a Columns, equalities: &[usize], conditions: &[usize]) -> Cow<'a, [u32]> {
    let mut first = match equalities {
        [] => Cow::Owned(vec![0; columns.rows]),
        [first, ..] => Cow::Borrowed(codes(columns, *first)),
    };
    for &condition in conditions {
        if let AtomColumn::Bits(bits) = &columns.atoms[condition] {
            let failing = first.to_mut().iter_mut().zip(bits).filter(|(_, passes)| !passes);
            failing.for_each(|(code, _)| *code = NO_GROUP);
        }
    }
    first
}

fn codes(columns: &Columns, atom: usize) -> &[u32] {
    match &columns.atoms[atom] {
        AtomColumn::Codes(codes) => codes,
        _ => &[],
    }
}

fn by_group(groups: &[u32], count: u32) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; count as usize + 1];
    let known = || (0u32..).zip(groups).filter(|&(_, &group)| group != NO_GROUP);
    known().for_each(|(_, &group)| starts[group as usize + 1] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut next = starts.clone();
    let mut rows = vec![0; starts.last().copied().unwrap_or(0) as usize];
    for (row, &group) in known() {
        let place = &mut next[group as usize];
        rows[*place as usize] = row;
        *place += 1;
    }
    (starts, rows)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::buffer::BooleanBuffer;

    use super::*;

    fn columns(codes: &[&[u32]]) -> Columns {
        let atoms = codes.iter().map(|c| AtomColumn::Codes(c.to_vec())).collect();
        Columns::of_codes(codes.first().map_or(3, |c| c.len()), atoms)
    }

    #[test]
    fn groups_of_several_equalities() {
        let build = columns(&[&[0, 1, 0, 0, NO_GROUP], &[5, 5, 5, 6, 5]]);
        let (grouping, groups) = Grouping::build(&build, (&[AtomTest::Equality; 2], &[0, 1]), 1, None).unwrap();
        assert_eq!(groups, [0, 1, 0, 2, NO_GROUP]);
        assert_eq!(grouping.rows(), [0, 2, 1, 3]);
        assert_eq!(grouping.places(0), 0..2);
        assert_eq!(grouping.group_ends().collect::<Vec<_>>(), [2, 2, 3, 4]);
        let probe = columns(&[&[0, 1, NO_GROUP], &[6, 6, 5]]);
        assert_eq!(grouping.look_up(&probe).unwrap(), [2, NO_GROUP, NO_GROUP]);
        assert_eq!(grouping.places(NO_GROUP), 0..0);
    }

    #[test]
    fn rows_that_fail_a_condition_have_no_group() {
        let bits = AtomColumn::Bits(BooleanBuffer::from(vec![true, false, true]));
        let build = Columns::of_codes(3, vec![AtomColumn::Codes(vec![0, 0, 1]), bits.clone(), AtomColumn::None]);
        let tests = [AtomTest::Equality, AtomTest::OneSided, AtomTest::OneSided];
        let (grouping, groups) = Grouping::build(&build, (&tests, &[0, 1, 2]), 1, None).unwrap();
        assert_eq!((groups.as_slice(), grouping.rows()), (&[0, NO_GROUP, 1][..], &[0, 2][..]));
        let probe = Columns::of_codes(3, vec![AtomColumn::Codes(vec![1, 1, 0]), AtomColumn::None, bits]);
        assert_eq!(grouping.look_up(&probe).unwrap(), [1, NO_GROUP, 0]);
    }

    #[test]
    fn without_equalities_all_rows_are_one_group() {
        let (grouping, groups) = Grouping::build(&columns(&[]), (&[], &[]), 1, None).unwrap();
        assert_eq!((groups.as_slice(), grouping.rows(), grouping.places(0)), (&[0, 0, 0][..], &[0, 1, 2][..], 0..3));
    }
}
