//! Rows that agree in several equalities.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Result, unless_failed};

use crate::NO_GROUP;
use crate::accelerator::equality::{FoundRows, GroupedRows};
use crate::atoms::{AtomColumn, AtomCondition};
use crate::cpu::columns::Columns;
use crate::equality::{Codes, IdMap, Numberer};
use crate::fetched::Fetched;
use crate::numbering::TupleNumbering;

/// The rows of a build side by what they have in some equalities, as far as they satisfy some conditions of one side;
/// one group of all rows, where there are no equalities. In a self-join a row that is alone in its group has no place.
#[derive(Debug)]
pub struct Grouping {
    equalities: Vec<usize>,
    one_sided: Vec<usize>,
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
        grouped: Arc<dyn GroupedRows>,
        /// Rows by group on the host, fetched when they are first asked for.
        rows: Fetched,
        /// What rows are looked up in where the device has no memory for them, or has failed.
        tables: OnceLock<(TupleNumbering, IdMap)>,
    },
}

/// The build side's group of each row of a probe side.
#[derive(Debug)]
pub enum FoundGroups {
    /// Groups that the host has found.
    OnHost(Vec<u32>),
    /// Groups that a device has found.
    OnDevice(Box<dyn FoundRows>),
}

impl FoundGroups {
    /// [`NO_GROUP`] for rows that have none.
    ///
    /// # Errors
    /// A device that fails.
    pub fn into_vec(self) -> Result<Vec<u32>> {
        match self {
            Self::OnHost(groups) => Ok(groups),
            Self::OnDevice(found) => found.by_row(),
        }
    }
}

/// The group of each row.
#[derive(Debug)]
pub enum GroupsByRow {
    /// Groups that the host has made.
    OnHost(Vec<u32>),
    /// Groups that a device has made.
    OnDevice(Arc<dyn GroupedRows>),
}

impl GroupsByRow {
    /// [`NO_GROUP`] for rows that have none, or in a self-join may have none if they are alone in it.
    ///
    /// # Errors
    /// A device that fails.
    pub fn all(&self) -> Result<Vec<u32>> {
        match self {
            Self::OnHost(groups) => Ok(groups.clone()),
            Self::OnDevice(grouped) => grouped.groups(),
        }
    }

    /// Groups of some rows.
    ///
    /// # Errors
    /// A device that fails.
    pub fn of(&self, rows: &[u32]) -> Result<Vec<u32>> {
        match self {
            Self::OnHost(groups) => Ok(rows.iter().map(|&row| groups[row as usize]).collect()),
            Self::OnDevice(grouped) => grouped.groups_of(rows),
        }
    }
}

/// Rows of a build side by some keys.
#[derive(Debug)]
pub(super) struct GroupedByKeys {
    /// Equalities and conditions of one side.
    pub(super) keys: Vec<usize>,
    pub(super) grouping: Arc<Grouping>,
    /// The group of each row.
    pub(super) groups: GroupsByRow,
}

impl Grouping {
    /// The groups of the build side by `keys`, equalities and conditions of one side, and the group of each row, as
    /// `by` says.
    ///
    /// # Errors
    /// A device that fails.
    pub fn build(
        columns: &Columns,
        conditions: &[AtomCondition],
        keys: &[usize],
        by: &Numberer<'_>,
    ) -> Result<(Self, GroupsByRow)> {
        let (equalities, one_sided): (Vec<usize>, Vec<usize>) =
            keys.iter().partition(|&&key| conditions[key] == AtomCondition::Equality);
        let first = first_codes(columns, &equalities, &one_sided)?;
        let others = other_codes(columns, &equalities);
        let by_device = match by.device.filter(|_| !equalities.is_empty()) {
            Some(budget) => budget.group_rows(&all_codes(&first, &others), by.self_join)?,
            None => None,
        };
        let (places, groups, alone) = match by_device {
            Some(grouped) => {
                let alone = grouped.alone();
                let groups = GroupsByRow::OnDevice(Arc::clone(&grouped));
                (Places::OnDevice { grouped, rows: Fetched::default(), tables: OnceLock::new() }, groups, alone)
            }
            None => {
                let (joined, groups) = join(&first, &others, by.threads)?;
                let behind = || groups.iter().filter(|&&group| group != NO_GROUP).max().map_or(0, |&most| most + 1);
                let count = joined.count().unwrap_or_else(behind);
                let (starts, rows, alone) = by_group(&groups, count, by.self_join);
                (Places::OnHost { joined, starts, rows }, GroupsByRow::OnHost(groups), alone)
            }
        };
        let mut grouping = Self { equalities, one_sided, places, mean_partners: 0.0 };
        // all rows are numbered by 32 bits, so that 64 hold the square of all of them
        let squares: u64 = grouping.groups().map(|group| (group.len() as u64).pow(2)).sum();
        grouping.mean_partners = (squares as f64 + alone as f64) / columns.rows.max(1) as f64;
        Ok((grouping, groups))
    }

    /// The build side's group of each row of a probe side, on the host alone where the device has no memory for them or
    /// fails.
    ///
    /// # Errors
    /// Groups of a self-join.
    pub fn look_up(&self, build: &Columns, probe: &Columns) -> Result<FoundGroups> {
        let found = match &self.places {
            Places::OnHost { .. } => None,
            Places::OnDevice { grouped, .. } => {
                let first = first_codes(probe, &self.equalities, &self.one_sided)?;
                unless_failed(grouped.look_up(&all_codes(&first, &other_codes(probe, &self.equalities))))?
            }
        };
        match found {
            Some(found) => Ok(FoundGroups::OnDevice(found)),
            None => self.look_up_in_tables(build, probe).map(FoundGroups::OnHost),
        }
    }

    /// The build side's group of each row of a probe side, found by the host alone; tables may be made of what the
    /// build side has.
    ///
    /// # Errors
    /// Groups of a self-join.
    pub(super) fn look_up_in_tables(&self, build: &Columns, probe: &Columns) -> Result<Vec<u32>> {
        let first = first_codes(probe, &self.equalities, &self.one_sided)?;
        let mut groups = first.on_host()?.to_vec();
        let others = on_host(&other_codes(probe, &self.equalities))?.into_iter();
        match &self.places {
            Places::OnHost { joined, .. } => joined.look_up(&mut groups, others),
            Places::OnDevice { grouped, tables, .. } => {
                let (joined, names) = match tables.get() {
                    Some(tables) => tables,
                    None => {
                        let made = self.tables(build, &grouped.groups()?)?;
                        tables.get_or_init(|| made)
                    }
                };
                joined.look_up(&mut groups, others);
                names.rename(&mut groups);
            }
        }
        Ok(groups)
    }

    /// What rows are looked up in on the host, given the group of each of the build side.
    pub fn tables(&self, build: &Columns, groups: &[u32]) -> Result<(TupleNumbering, IdMap)> {
        let first = first_codes(build, &self.equalities, &self.one_sided)?;
        let (joined, numbers) = join(&first, &other_codes(build, &self.equalities), 1)?;
        Ok((joined, IdMap::of(&numbers, groups)))
    }

    /// How many rows have a place.
    pub(super) fn len(&self) -> usize {
        self.starts().last().map_or(0, |&end| end as usize)
    }

    /// The rows that have a place, by group.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows(&self) -> Result<&[u32]> {
        match &self.places {
            Places::OnHost { rows, .. } => Ok(rows),
            Places::OnDevice { grouped, rows, .. } => rows.get_or_fetch(|| grouped.rows()),
        }
    }

    /// The rows at some places.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows_at(&self, places: &[u32]) -> Result<Vec<u32>> {
        match &self.places {
            Places::OnHost { rows, .. } => Ok(places.iter().map(|&place| rows[place as usize]).collect()),
            Places::OnDevice { grouped, .. } => grouped.rows_at(places),
        }
    }

    /// The device's rows by group, where it has made them.
    pub fn on_device(&self) -> Option<&Arc<dyn GroupedRows>> {
        match &self.places {
            Places::OnHost { .. } => None,
            Places::OnDevice { grouped, .. } => Some(grouped),
        }
    }

    /// The rows of a group, as places in [`rows`](Self::rows).
    #[inline]
    pub fn places(&self, group: u32) -> Range<usize> {
        match self.starts().get(group as usize..) {
            Some([start, end, ..]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }

    /// Where the places of each group start, and where those of the last one end.
    pub fn starts(&self) -> &[u32] {
        match &self.places {
            Places::OnHost { starts, .. } => starts,
            Places::OnDevice { grouped, .. } => grouped.starts(),
        }
    }

    /// The places of each group.
    pub fn groups(&self) -> impl Iterator<Item = Range<u32>> {
        self.starts().windows(2).map(|group| group[0]..group[1])
    }

    /// The end of the group of each place.
    pub fn group_ends(&self) -> Vec<u32> {
        let mut ends = vec![0; self.len()];
        self.groups().for_each(|group| ends[group.start as usize..group.end as usize].fill(group.end));
        ends
    }

    /// How many rows a row meets on average that shares its group, itself included.
    pub fn mean_partners(&self) -> f64 {
        self.mean_partners
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
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
fn first_codes<'a>(columns: &'a Columns, equalities: &[usize], one_sided: &[usize]) -> Result<Cow<'a, Codes>> {
    let failing: Vec<_> = one_sided
        .iter()
        .filter_map(|&atom| match &columns.atoms[atom] {
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
pub fn codes(columns: &Columns, atom: usize) -> Option<&Codes> {
    match &columns.atoms[atom] {
        AtomColumn::Codes(codes) => Some(codes),
        _ => None,
    }
}

/// Where the rows of each of `count` groups start, and these rows; of a self-join only where they are two at least, and
/// how many are not.
fn by_group(groups: &[u32], count: u32, self_join: bool) -> (Vec<u32>, Vec<u32>, usize) {
    let mut starts = vec![0u32; count as usize + 1];
    let known = || (0u32..).zip(groups).filter(|&(_, &group)| group != NO_GROUP);
    known().for_each(|(_, &group)| starts[group as usize + 1] += 1);
    let (mut before, mut alone) = (0, 0);
    for start in &mut starts[1..] {
        let is_alone = self_join && *start == 1;
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
