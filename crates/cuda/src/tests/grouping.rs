//! Rows by several equalities, on a device and on the host.

use arrow::buffer::BooleanBuffer;

use super::*;
use crate::memory::Budget;
use crate::test_device::device;
use similarity_engine::accelerator::Accelerator;
use similarity_engine::internals::{Columns, FoundGroups, Grouping, GroupsByRow, codes};

fn columns(codes: &[&[u32]]) -> Columns {
    let atoms = codes.iter().map(|c| AtomColumn::Codes(c.to_vec().into())).collect();
    Columns::of_codes(codes.first().map_or(3, |c| c.len()), atoms)
}

const BY: Numberer<'_> = Numberer { threads: 1, self_join: false, device: None };

#[test]
fn groups_of_several_equalities() {
    let build = columns(&[&[0, 1, 0, 0, NO_GROUP], &[5, 5, 5, 6, 5]]);
    let budget = Budget::new(&device(), 0.5);
    for device in [None, Some(&budget as &dyn Accelerator)] {
        let by = Numberer { device, ..BY };
        let (grouping, groups) = Grouping::build(&build, &[AtomCondition::Equality; 2], &[0, 1], &by).unwrap();
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
    for device in [None, Some(&budget as &dyn Accelerator)] {
        let by = Numberer { self_join: true, device, ..BY };
        let (grouping, groups) = Grouping::build(&build, &[AtomCondition::Equality], &[0], &by).unwrap();
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
    let conditions = [AtomCondition::Equality, AtomCondition::OneSided, AtomCondition::OneSided];
    let probe = Columns::of_codes(3, vec![AtomColumn::Codes(vec![1, 1, 0].into()), AtomColumn::None, bits]);
    let budget = Budget::new(&device(), 0.5);
    for device in [None, Some(&budget as &dyn Accelerator)] {
        let by = Numberer { device, ..BY };
        let (grouping, groups) = Grouping::build(&build, &conditions, &[0, 1, 2], &by).unwrap();
        assert_eq!(groups.all().unwrap(), [0, NO_GROUP, 1]);
        assert_eq!(grouping.rows().unwrap(), [0, 2]);
        assert_eq!(grouping.look_up(&build, &probe).unwrap().into_vec().unwrap(), [1, NO_GROUP, 0]);
    }
}

#[test]
fn without_equalities_all_rows_are_one_group() {
    let (grouping, groups) = Grouping::build(&columns(&[]), &[], &[], &BY).unwrap();
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
    let (conditions, budget) = ([AtomCondition::Equality; 3], Budget::new(&device(), 0.5));
    for asked in [&[0][..], &[1, 2], &[0, 1, 2]] {
        let by = Numberer { device: Some(&budget), ..BY };
        let (grouping, groups) = Grouping::build(&build, &conditions, asked, &by).unwrap();
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
    let (conditions, budget) = ([AtomCondition::Equality, AtomCondition::OneSided], Budget::new(&device(), 0.5));
    let by = Numberer { device: Some(&budget), ..BY };
    let (grouping, groups) = Grouping::build(&build, &conditions, &[0, 1], &by).unwrap();
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
