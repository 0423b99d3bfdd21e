//! Rows that agree in several equalities.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

use crate::NO_GROUP;
use crate::atoms::{AtomColumn, AtomTest};
use crate::cpu::columns::Columns;
use crate::cuda::keys::{FoundNumbers, RowsByGroup};
use crate::keys::{Codes, Names, NumberedBy};
use crate::numbering::TupleNumbering;

/// The rows of a build side by what they have in some equalities, as far as they satisfy some conditions of one side;
/// one group of all rows, where there are no equalities. In a self-join a row that is alone in its group has no place.
#[derive(Debug)]
pub(super) struct Grouping {
    equalities: Vec<usize>,
    conditions: Vec<usize>,
    places: Places,
    mean_partners: f64,
}

#[derive(Debug)]
enum Places {
    OnHost {
        /// Group of each tuple of codes of all equalities.
        joined: TupleNumbering,
        /// Where the rows of each group start; one entry more than groups.
        starts: Vec<u32>,
        /// Row numbers by group, ascending within one.
        rows: Vec<u32>,
    },
    OnDevice {
        grouped: Arc<RowsByGroup>,
        /// Rows by group on the host, fetched when they are first asked for.
        rows: OnceLock<Vec<u32>>,
        /// What rows are looked up in where the device has no memory for them.
        tables: OnceLock<(TupleNumbering, Names)>,
    },
}

/// The build side's group of each row of a probe side.
#[derive(Debug)]
pub(super) enum FoundGroups {
    OnHost(Vec<u32>),
    OnDevice(FoundNumbers),
}

impl FoundGroups {
    /// [`NO_GROUP`] for rows that have none.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn into_vec(self) -> Result<Vec<u32>> {
        match self {
            Self::OnHost(groups) => Ok(groups),
            Self::OnDevice(found) => found.by_row(),
        }
    }
}

/// The group of each row.
#[derive(Debug)]
pub(super) enum GroupsByRow {
    OnHost(Vec<u32>),
    OnDevice(Arc<RowsByGroup>),
}

impl GroupsByRow {
    /// [`NO_GROUP`] for rows that have none, or in a self-join may have none if they are alone in it.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn all(&self) -> Result<Vec<u32>> {
        match self {
            Self::OnHost(groups) => Ok(groups.clone()),
            Self::OnDevice(grouped) => grouped.groups(),
        }
    }

    /// Groups of some rows.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn of(&self, rows: &[u32]) -> Result<Vec<u32>> {
        match self {
            Self::OnHost(groups) => Ok(rows.iter().map(|&row| groups[row as usize]).collect()),
            Self::OnDevice(grouped) => grouped.groups_of(rows),
        }
    }
}

impl Grouping {
    /// The groups of the build side by `keys`, equalities and conditions of one side, and the group of each row, as
    /// `by` says.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn build(
        columns: &Columns,
        (tests, keys): (&[AtomTest], &[usize]),
        by: &NumberedBy<'_>,
    ) -> Result<(Self, GroupsByRow)> {
        let (equalities, conditions): (Vec<usize>, Vec<usize>) =
            keys.iter().partition(|&&key| tests[key] == AtomTest::Equality);
        let first = first_codes(columns, &equalities, &conditions)?;
        let others = other_codes(columns, &equalities);
        let by_device = match by.device.filter(|_| !equalities.is_empty()) {
            Some(budget) => RowsByGroup::of(budget, &all_codes(&first, &others), by.own)?,
            None => None,
        };
        let (places, groups, alone) = match by_device {
            Some(grouped) => {
                let (alone, grouped) = (grouped.alone, Arc::new(grouped));
                let groups = GroupsByRow::OnDevice(Arc::clone(&grouped));
                (Places::OnDevice { grouped, rows: OnceLock::new(), tables: OnceLock::new() }, groups, alone)
            }
            None => {
                let (joined, groups) = join(&first, &others, by.threads)?;
                let behind = || groups.iter().filter(|&&group| group != NO_GROUP).max().map_or(0, |&most| most + 1);
                let count = joined.count().unwrap_or_else(behind);
                let (starts, rows, alone) = by_group(&groups, count, by.own);
                (Places::OnHost { joined, starts, rows }, GroupsByRow::OnHost(groups), alone)
            }
        };
        let mut grouping = Self { equalities, conditions, places, mean_partners: 0.0 };
        // all rows are numbered by 32 bits, so that 64 hold the square of all of them
        let squares: u64 = grouping.groups().map(|group| (group.len() as u64).pow(2)).sum();
        grouping.mean_partners = (squares as f64 + alone as f64) / columns.rows.max(1) as f64;
        Ok((grouping, groups))
    }

    /// The build side's group of each row of a probe side; tables may be made of what the build side has.
    ///
    /// # Errors
    /// Groups of a self-join, a device that fails.
    pub(super) fn look_up(&self, build: &Columns, probe: &Columns) -> Result<FoundGroups> {
        let first = first_codes(probe, &self.equalities, &self.conditions)?;
        let others = other_codes(probe, &self.equalities);
        let look_up = |joined: &TupleNumbering| {
            let mut groups = first.on_host()?.to_vec();
            joined.look_up(&mut groups, on_host(&others)?.into_iter());
            Ok::<_, Error>(groups)
        };
        Ok(match &self.places {
            Places::OnHost { joined, .. } => FoundGroups::OnHost(look_up(joined)?),
            Places::OnDevice { grouped, tables, .. } => match grouped.look_up(&all_codes(&first, &others))? {
                Some(found) => FoundGroups::OnDevice(found),
                None => {
                    let (joined, names) = match tables.get() {
                        Some(tables) => tables,
                        None => {
                            let made = self.tables(build, &grouped.groups()?)?;
                            tables.get_or_init(|| made)
                        }
                    };
                    let mut groups = look_up(joined)?;
                    names.rename(&mut groups);
                    FoundGroups::OnHost(groups)
                }
            },
        })
    }

    /// What rows are looked up in on the host, given the group of each of the build side.
    fn tables(&self, build: &Columns, groups: &[u32]) -> Result<(TupleNumbering, Names)> {
        let first = first_codes(build, &self.equalities, &self.conditions)?;
        let (joined, numbers) = join(&first, &other_codes(build, &self.equalities), 1)?;
        Ok((joined, Names::of(&numbers, groups)))
    }

    /// How many rows have a place.
    pub(super) fn len(&self) -> usize {
        self.starts().last().map_or(0, |&end| end as usize)
    }

    /// The rows that have a place, by group.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn rows(&self) -> Result<&[u32]> {
        match &self.places {
            Places::OnHost { rows, .. } => Ok(rows),
            Places::OnDevice { grouped, rows, .. } => match rows.get() {
                Some(rows) => Ok(rows),
                None => {
                    let fetched = grouped.rows()?;
                    Ok(rows.get_or_init(|| fetched))
                }
            },
        }
    }

    /// The rows at some places.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn rows_at(&self, places: &[u32]) -> Result<Vec<u32>> {
        match &self.places {
            Places::OnHost { rows, .. } => Ok(places.iter().map(|&place| rows[place as usize]).collect()),
            Places::OnDevice { grouped, .. } => grouped.rows_at(places),
        }
    }

    /// The device's rows by group, where it has made them.
    pub(super) fn on_device(&self) -> Option<&Arc<RowsByGroup>> {
        match &self.places {
            Places::OnHost { .. } => None,
            Places::OnDevice { grouped, .. } => Some(grouped),
        }
    }

    /// The rows of a group, as places in [`rows`](Self::rows).
    #[inline]
    pub(super) fn places(&self, group: u32) -> Range<usize> {
        match self.starts().get(group as usize..) {
            Some([start, end, ..]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }

    /// Where the places of each group start, and where those of the last one end.
    pub(super) fn starts(&self) -> &[u32] {
        match &self.places {
            Places::OnHost { starts, .. } => starts,
            Places::OnDevice { grouped, .. } => grouped.starts(),
        }
    }

    /// The places of each group.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<u32>> {
        self.starts().windows(2).map(|group| group[0]..group[1])
    }

    /// The end of the group of each place.
    pub(super) fn group_ends(&self) -> Vec<u32> {
        let mut ends = vec![0; self.len()];
        self.groups().for_each(|group| ends[group.start as usize..group.end as usize].fill(group.end));
        ends
    }

    /// How many rows a row meets on average that shares its group, itself included.
    pub(super) fn mean_partners(&self) -> f64 {
        self.mean_partners
    }

    pub(super) fn memory(&self) -> usize {
        let (joined, rows) = match &self.places {
            Places::OnHost { joined, rows, .. } => (joined.memory(), rows.capacity()),
            // as if somebody had asked for them
            Places::OnDevice { .. } => (0, self.len()),
        };
        joined + (self.starts().len() + rows) * size_of::<u32>()
    }
}

/// The codes of the first equality, zeros where there is none, without those of rows that fail a condition of their
/// side.
fn first_codes<'a>(columns: &'a Columns, equalities: &[usize], conditions: &[usize]) -> Result<Cow<'a, Codes>> {
    let failing: Vec<_> = conditions
        .iter()
        .filter_map(|&condition| match &columns.atoms[condition] {
            AtomColumn::Bits(bits) => Some(bits),
            _ => None,
        })
        .collect();
    let first = equalities.first().and_then(|&first| codes(columns, first));
    Ok(match first {
        Some(first) if failing.is_empty() => Cow::Borrowed(first),
        first => {
            let mut codes = match first {
                Some(first) => first.on_host()?.to_vec(),
                None => vec![0; columns.rows],
            };
            for bits in failing {
                codes.iter_mut().zip(bits).filter(|(_, passes)| !passes).for_each(|(code, _)| *code = NO_GROUP);
            }
            Cow::Owned(codes.into())
        }
    })
}

/// The codes of the equalities behind the first one.
fn other_codes<'a>(columns: &'a Columns, equalities: &[usize]) -> Vec<&'a Codes> {
    equalities.iter().skip(1).filter_map(|&key| codes(columns, key)).collect()
}

fn all_codes<'a>(first: &'a Codes, others: &[&'a Codes]) -> Vec<&'a Codes> {
    std::iter::once(first).chain(others.iter().copied()).collect()
}

/// Numbers rows by all of their codes.
fn join(first: &Codes, others: &[&Codes], threads: usize) -> Result<(TupleNumbering, Vec<u32>)> {
    let (mut joined, mut numbers) = (TupleNumbering::default(), first.on_host()?.to_vec());
    for codes in on_host(others)? {
        numbers = joined.extend(&numbers, codes, threads);
    }
    Ok((joined, numbers))
}

fn on_host<'a>(codes: &[&'a Codes]) -> Result<Vec<&'a [u32]>> {
    codes.iter().map(|codes| codes.on_host()).collect()
}

/// The codes of an equality.
fn codes(columns: &Columns, atom: usize) -> Option<&Codes> {
    match &columns.atoms[atom] {
        AtomColumn::Codes(codes) => Some(codes),
        _ => None,
    }
}

/// Where the rows of each of `count` groups start, and these rows; of a self-join only where they are two at least, and
/// how many are not.
fn by_group(groups: &[u32], count: u32, own: bool) -> (Vec<u32>, Vec<u32>, usize) {
    let mut starts = vec![0u32; count as usize + 1];
    let known = || (0u32..).zip(groups).filter(|&(_, &group)| group != NO_GROUP);
    known().for_each(|(_, &group)| starts[group as usize + 1] += 1);
    let (mut before, mut alone) = (0, 0);
    for start in &mut starts[1..] {
        let is_alone = own && *start == 1;
        alone += usize::from(is_alone);
        before += if is_alone { 0 } else { *start };
        *start = before;
    }
    let mut next = starts.clone();
    let mut rows = vec![0; before as usize];
    for (row, &group) in known() {
        let (place, end) = (next[group as usize], starts[group as usize + 1]);
        if place < end {
            rows[place as usize] = row;
            next[group as usize] += 1;
        }
    }
    (starts, rows, alone)
}

#[cfg(test)]
mod tests {
    use arrow::buffer::BooleanBuffer;

    use super::*;
    use crate::cuda::Budget;
    use crate::cuda::test_device::device;

    fn columns(codes: &[&[u32]]) -> Columns {
        let atoms = codes.iter().map(|c| AtomColumn::Codes(c.to_vec().into())).collect();
        Columns::of_codes(codes.first().map_or(3, |c| c.len()), atoms)
    }

    const BY: NumberedBy<'_> = NumberedBy { threads: 1, own: false, device: None };

    #[test]
    fn groups_of_several_equalities() {
        let build = columns(&[&[0, 1, 0, 0, NO_GROUP], &[5, 5, 5, 6, 5]]);
        let budget = Budget::new(&device(), 0.5);
        for device in [None, Some(&budget)] {
            let by = NumberedBy { device, ..BY };
            let (grouping, groups) = Grouping::build(&build, (&[AtomTest::Equality; 2], &[0, 1]), &by).unwrap();
            // a device numbers them by their codes
            let [first, second, third] = if device.is_some() { [0, 2, 1] } else { [0, 1, 2] };
            assert_eq!(groups.all().unwrap(), [first, second, first, third, NO_GROUP]);
            assert_eq!(grouping.places(first), 0..2);
            assert_eq!(grouping.rows_at(&[grouping.places(third).start as u32]).unwrap(), [3]);
            assert_eq!(grouping.group_ends(), [2, 2, 3, 4]);
            assert_eq!(grouping.mean_partners(), 6.0 / 5.0);
            // a code that no build row has may have more bits than those that they have
            let probe = columns(&[&[0, 1, NO_GROUP, 0, 0], &[6, 6, 5, 100, 8]]);
            let found = grouping.look_up(&build, &probe).unwrap();
            assert_eq!(matches!(found, FoundGroups::OnDevice(_)), device.is_some());
            assert_eq!(found.into_vec().unwrap(), [third, NO_GROUP, NO_GROUP, NO_GROUP, NO_GROUP]);
            assert_eq!(grouping.places(NO_GROUP), 0..0);
        }
    }

    #[test]
    fn of_a_self_join_only_pairs_have_places() {
        let build = columns(&[&[3, 1, 3, 0, NO_GROUP, 1, 2]]);
        let budget = Budget::new(&device(), 0.5);
        for device in [None, Some(&budget)] {
            let by = NumberedBy { own: true, device, ..BY };
            let (grouping, groups) = Grouping::build(&build, (&[AtomTest::Equality], &[0]), &by).unwrap();
            assert_eq!(grouping.rows().unwrap(), [1, 5, 0, 2]);
            assert_eq!(grouping.rows_at(&[3, 0]).unwrap(), [2, 1]);
            let groups = groups.of(&[0, 1, 3, 4]).unwrap();
            let places = [0, 1, 2, 3].map(|at| grouping.places(groups[at]));
            assert_eq!(places, [2..4, 0..2, places[2].clone(), 0..0]);
            assert!(places[2].is_empty() && groups[3] == NO_GROUP);
            assert_eq!(grouping.mean_partners(), 10.0 / 7.0);
            assert_eq!(grouping.look_up(&build, &build).is_err(), device.is_some());
        }
    }

    #[test]
    fn rows_that_fail_a_condition_have_no_group() {
        let bits = AtomColumn::Bits(BooleanBuffer::from(vec![true, false, true]));
        let build = Columns::of_codes(3, vec![AtomColumn::Codes(vec![0, 0, 1].into()), bits.clone(), AtomColumn::None]);
        let tests = [AtomTest::Equality, AtomTest::OneSided, AtomTest::OneSided];
        let probe = Columns::of_codes(3, vec![AtomColumn::Codes(vec![1, 1, 0].into()), AtomColumn::None, bits]);
        let budget = Budget::new(&device(), 0.5);
        for device in [None, Some(&budget)] {
            let by = NumberedBy { device, ..BY };
            let (grouping, groups) = Grouping::build(&build, (&tests, &[0, 1, 2]), &by).unwrap();
            assert_eq!(groups.all().unwrap(), [0, NO_GROUP, 1]);
            assert_eq!(grouping.rows().unwrap(), [0, 2]);
            assert_eq!(grouping.look_up(&build, &probe).unwrap().into_vec().unwrap(), [1, NO_GROUP, 0]);
        }
    }

    #[test]
    fn without_equalities_all_rows_are_one_group() {
        let (grouping, groups) = Grouping::build(&columns(&[]), (&[], &[]), &BY).unwrap();
        assert_eq!(
            (groups.all().unwrap().as_slice(), grouping.rows().unwrap(), grouping.places(0)),
            (&[0, 0, 0][..], &[0, 1, 2][..], 0..3)
        );
    }

    #[test]
    fn tables_find_the_groups_that_a_device_has_given() {
        let codes = |row: u32, of: u32| if row.is_multiple_of(13) { NO_GROUP } else { row * row % of };
        let keys = |rows: u32| [7, 50, 3].map(|of| (0..rows).map(|row| codes(row, of)).collect::<Vec<_>>());
        let (build, probe) = (keys(3000), keys(700));
        let [build, probe] = [&build, &probe].map(|keys| columns(&[&keys[0], &keys[1], &keys[2]]));
        let (tests, budget) = ([AtomTest::Equality; 3], Budget::new(&device(), 0.5));
        for asked in [&[0][..], &[1, 2], &[0, 1, 2]] {
            let by = NumberedBy { device: Some(&budget), ..BY };
            let (grouping, groups) = Grouping::build(&build, (&tests, asked), &by).unwrap();
            let found = grouping.look_up(&build, &probe).unwrap();
            assert!(matches!(found, FoundGroups::OnDevice(_)));
            assert_eq!(found.into_vec().unwrap(), by_tables(&grouping, &groups, &build, &probe, asked));
        }
    }

    /// Codes of which a condition leaves no build row are unknown, also those beyond all others.
    #[test]
    fn tables_know_no_codes_whose_rows_fail_a_condition() {
        let bits = AtomColumn::Bits(BooleanBuffer::from(vec![true, false, true, false]));
        let build = Columns::of_codes(4, vec![AtomColumn::Codes(vec![0, 1, 2, 9].into()), bits]);
        let probe = Columns::of_codes(5, vec![AtomColumn::Codes(vec![9, 2, 1, NO_GROUP, 0].into()), AtomColumn::None]);
        let (tests, budget) = ([AtomTest::Equality, AtomTest::OneSided], Budget::new(&device(), 0.5));
        let by = NumberedBy { device: Some(&budget), ..BY };
        let (grouping, groups) = Grouping::build(&build, (&tests, &[0, 1]), &by).unwrap();
        let found = grouping.look_up(&build, &probe).unwrap().into_vec().unwrap();
        assert_eq!(found, [NO_GROUP, 1, NO_GROUP, NO_GROUP, 0]);
        assert_eq!(by_tables(&grouping, &groups, &build, &probe, &[0]), found);
    }

    /// The groups of a probe side that tables find.
    fn by_tables(
        grouping: &Grouping,
        groups: &GroupsByRow,
        build: &Columns,
        probe: &Columns,
        equalities: &[usize],
    ) -> Vec<u32> {
        let (joined, names) = grouping.tables(build, &groups.all().unwrap()).unwrap();
        let mut found = probe_codes(probe, equalities[0]);
        joined.look_up(&mut found, equalities[1..].iter().map(|&atom| probe_codes(probe, atom)));
        names.rename(&mut found);
        found
    }

    fn probe_codes(probe: &Columns, atom: usize) -> Vec<u32> {
        codes(probe, atom).unwrap().on_host().unwrap().to_vec()
    }
}
