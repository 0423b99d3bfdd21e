//! Equality keys that a device numbers, against those of the CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, StringViewArray};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::memory::Budget;
use crate::test_device::device;
use similarity_engine::NO_GROUP;
use similarity_engine::accelerator::equality::{DeviceKeys, GroupedRows};
use similarity_engine::equality::{Codes, Groups, IdMap, Numberer};
use similarity_engine::hash::mix;

const BY: Numberer<'_> = Numberer { threads: 2, self_join: false, device: None };

/// Asserts that the host would give the rows the numbers that the device has given them.
fn assert_same_on_host(codes: &Codes) {
    let numbers = Arc::clone(codes.on_device().unwrap()).into_any().downcast::<NumbersOnDevice>().unwrap();
    assert_eq!(numbers.origin.as_ref().unwrap().numbers().unwrap(), codes.on_host().unwrap());
}

/// Asserts that the rows are told apart in the same way.
fn assert_same(found: &[u32], expected: &[u32]) {
    assert_eq!(found.len(), expected.len());
    let names: BTreeSet<_> = expected.iter().copied().zip(found.iter().copied()).collect();
    let by_expected: BTreeMap<u32, u32> = names.iter().copied().collect();
    let by_found: BTreeMap<u32, u32> = names.iter().map(|&(expected, found)| (found, expected)).collect();
    assert!(names.len() == by_expected.len() && names.len() == by_found.len());
    assert!(by_expected.get(&NO_GROUP).is_none_or(|&found| found == NO_GROUP));
    let dense = by_found.keys().filter(|&&found| found != NO_GROUP).copied();
    assert!(dense.eq(0..by_found.len() as u32 - u32::from(by_found.contains_key(&NO_GROUP))));
}

fn strings(rows: usize, values: u32, rng: &mut StdRng) -> ArrayRef {
    let text = |n: u32| match n % 5 {
        0 => format!("{n}"),
        // they agree in what a view holds of a long string, and in length
        1 => format!("long string {:0>20}", n),
        2 => format!("{:0>20} and more of it", n),
        3 => "\u{e9}\u{4e2d}".repeat(n as usize % 7),
        _ => format!("{n:0>12}"),
    };
    let value = |rng: &mut StdRng| (!rng.random_bool(0.1)).then(|| text(rng.random_range(0..values)));
    Arc::new((0..rows).map(|_| value(rng)).collect::<StringViewArray>())
}

fn integers(rows: usize, values: i64, rng: &mut StdRng) -> ArrayRef {
    let value = |rng: &mut StdRng| (!rng.random_bool(0.1)).then(|| rng.random_range(-values..values) / 2);
    Arc::new((0..rows).map(|_| value(rng)).collect::<Int64Array>())
}

#[test]
fn keys_are_told_apart_as_on_the_cpu() {
    let mut rng = StdRng::seed_from_u64(3);
    let budget = Budget::new(&device(), 0.5);
    for rows in [0, 1, 2, 255, 2048, 2049, 9000] {
        let columns = [
            strings(rows + 3, 2000, &mut rng),
            integers(rows + 3, 50, &mut rng),
            strings(rows + 3, 4, &mut rng),
            integers(rows + 3, i64::MAX / 2, &mut rng),
        ];
        // not from the first bit of the NULLs on
        let columns = columns.map(|column| column.slice(3, rows));
        for keys in [&columns[..1], &columns[1..2], &columns[2..3], &columns[3..], &columns[..2], &columns[1..4]] {
            for nulls in [[false; 3], [true; 3], [true, false, true]] {
                let nulls = &nulls[..keys.len()];
                let (_, expected) = Groups::build(keys, nulls.to_vec(), BY).unwrap();
                let (found, _) = codes(&budget, keys, nulls, false).unwrap().unwrap();
                assert_same_on_host(&found);
                // what it is told by NULLs alone
                let having_one = found.having_one().unwrap();
                let by_row = found.on_host().unwrap();
                assert_same(by_row, expected.on_host().unwrap());
                assert!(having_one.iter().eq(by_row.iter().map(|&code| code != NO_GROUP)));
            }
        }
    }
}

#[test]
fn others_are_looked_up_as_on_the_cpu() {
    let mut rng = StdRng::seed_from_u64(5);
    let budget = Budget::new(&device(), 0.5);
    for (rows, others) in [(0, 5), (1, 700), (2049, 0), (3000, 5000)] {
        // some that the build side does not have, smaller and greater
        let [build, probe] = [(rows, 1), (others, 2)].map(|(rows, more)| {
            [
                strings(rows + 3, 1500 * more, &mut rng),
                integers(rows + 3, 400 * i64::from(more), &mut rng),
                strings(rows + 3, 4 * more, &mut rng),
                integers(rows + 3, i64::MAX / 4 * i64::from(more), &mut rng),
            ]
            .map(|column| column.slice(3, rows))
        });
        for keys in [0..1, 1..2, 2..3, 3..4, 0..2, 1..4] {
            for nulls in [[false; 3], [true; 3], [true, false, true]] {
                let (build, probe, nulls) = (&build[keys.clone()], &probe[keys.clone()], &nulls[..keys.len()]);
                let (groups, by_tables) = Groups::build(build, nulls.to_vec(), BY).unwrap();
                let (codes, known) = codes(&budget, build, nulls, true).unwrap().unwrap();
                let names = IdMap::of(by_tables.on_host().unwrap(), codes.on_host().unwrap());
                let mut expected = groups.look_up(probe).unwrap().into_vec().unwrap();
                names.rename(&mut expected);
                assert_eq!(known.unwrap().look_up(probe).unwrap().unwrap().on_host().unwrap(), expected);
            }
        }
    }
    let (_, known) = codes(&budget, &[integers(9, 5, &mut rng)], &[false], true).unwrap().unwrap();
    let known = known.unwrap();
    assert!(known.look_up(&[strings(9, 5, &mut rng)]).is_err() && known.look_up(&[]).is_err());
}

#[test]
fn whole_numbers_of_any_size_are_told_apart() {
    let budget = Budget::new(&device(), 0.5);
    let numbers = |column: &ArrayRef, null_equals_null| {
        let codes = codes(&budget, &[Arc::clone(column)], &[null_equals_null], false).unwrap();
        codes.map(|(codes, _)| codes)
    };
    let all: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(i64::MIN)]));
    assert!(numbers(&all, false).is_none());
    let most: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX - 2), Some(i64::MIN)]));
    assert_eq!(numbers(&most, false).unwrap().on_host().unwrap(), [0, NO_GROUP, 1, 0]);
    let none: ArrayRef = Arc::new(Int64Array::from(vec![None; 3]));
    assert_eq!(numbers(&none, false).unwrap().on_host().unwrap(), [NO_GROUP; 3]);
    assert_eq!(numbers(&none, true).unwrap().on_host().unwrap(), [0; 3]);
}

#[test]
fn rows_of_a_group_lie_side_by_side() {
    let mut rng = StdRng::seed_from_u64(4);
    let budget = Budget::new(&device(), 0.5);
    for (rows, most) in [(0, 1), (1, 1), (700, 3), (5000, 1 << 31), (4097, 200)] {
        let mut code = |_| if rng.random_bool(0.1) { NO_GROUP } else { rng.random_range(0..most) / 3 * 3 };
        let columns: [Codes; 3] = std::array::from_fn(|_| (0..rows).map(&mut code).collect::<Vec<u32>>().into());
        for keys in 1..=3 {
            let asked: Vec<&Codes> = columns[..keys].iter().collect();
            let grouped = RowsByGroup::of(&budget, &asked, true).unwrap().unwrap();
            assert!(grouped.is_same_on_host(), "{rows} rows, {keys} keys");
            assert!(RowsByGroup::of(&budget, &asked, false).unwrap().unwrap().is_same_on_host());
            let (groups, rows_of_groups, starts) =
                (grouped.groups().unwrap(), grouped.rows().unwrap(), grouped.starts());
            let tuple = |row: usize| asked.iter().map(|codes| codes.fetched()[row]).collect::<Vec<_>>();
            let expected = |row: usize| (!tuple(row).contains(&NO_GROUP)).then(|| tuple(row));
            let mut by_tuple: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
            for row in 0..rows {
                if let Some(tuple) = expected(row) {
                    by_tuple.entry(tuple).or_default().push(row as u32);
                }
            }
            let alone = by_tuple.extract_if(.., |_, group| group.len() == 1).count();
            assert_eq!(grouped.alone, alone);
            let in_groups = by_tuple.values().flatten().count();
            assert_eq!(groups.iter().filter(|&&group| group != NO_GROUP).count(), in_groups);
            assert_eq!(starts.len(), by_tuple.len() + 1);
            let (first, last) = (starts[0] as usize, starts[by_tuple.len()] as usize);
            assert_eq!((first, last), (0, rows_of_groups.len()));
            let some: Vec<u32> = (0..rows as u32).step_by(3).collect();
            let of_some: Vec<u32> = some.iter().map(|&row| groups[row as usize]).collect();
            assert_eq!(grouped.groups_of(&some).unwrap(), of_some);
            let places: Vec<u32> = (0..grouped.len() as u32).rev().collect();
            assert!(grouped.rows_at(&places).unwrap().iter().eq(rows_of_groups.iter().rev()));
            for group in by_tuple.values() {
                let number = groups[group[0] as usize] as usize;
                let places = starts[number] as usize..starts[number + 1] as usize;
                assert_eq!(&rows_of_groups[places], group);
                assert!(group.iter().all(|&row| groups[row as usize] as usize == number));
            }
        }
    }
}

#[test]
fn strings_of_equal_hashes_are_left_to_the_cpu() {
    // twelve bytes are two words of a view, of which the second cancels what the first ones differ in
    let first = |text: &[u8; 4]| mix(0, 12 | u64::from(u32::from_le_bytes(*text)) << 32);
    let ascii = 0x7f7f_7f7f_7f7f_7f7f_u64;
    let others =
        (0..5000u32).map(|n| [b'a' + (n % 26) as u8, b'a' + (n / 26 % 26) as u8, b'a' + (n / 676) as u8, b'x']);
    let (other, cancels) =
        others.map(|other| (other, first(b"same") ^ first(&other))).find(|(_, cancels)| cancels & !ascii == 0).unwrap();
    let text = |start: &[u8], end: u64| String::from_utf8([start, &end.to_le_bytes()].concat()).unwrap();
    let end = u64::from_le_bytes(*b"12345678");
    let texts = [text(b"same", end), text(&other, end ^ cancels)];
    let rows = |numbers: [usize; 4]| {
        Arc::new(numbers.map(|n| texts[n].as_str()).into_iter().map(Some).collect::<StringViewArray>())
    };
    let budget = Budget::new(&device(), 0.5);
    let numbers =
        |column: &ArrayRef| codes(&budget, &[Arc::clone(column)], &[false], false).unwrap().map(|(codes, _)| codes);
    let same: ArrayRef = rows([0, 0, 0, 0]);
    assert_eq!(numbers(&same).unwrap().on_host().unwrap(), [0; 4]);
    let both: ArrayRef = rows([0, 1, 0, 1]);
    assert!(numbers(&both).is_none());
    let (groups, ids) = Groups::build(&[both], vec![false], Numberer { device: Some(&budget), ..BY }).unwrap();
    assert!(matches!(groups, Groups::Keys(_)));
    assert_eq!(ids.on_host().unwrap(), [0, 1, 0, 1]);
}

#[test]
fn without_memory_nothing_is_numbered() {
    let budget = Budget::new(&device(), 0.0);
    let column = strings(3000, 100, &mut StdRng::seed_from_u64(1));
    assert!(codes(&budget, &[column], &[false], true).unwrap().is_none());
    assert!(RowsByGroup::of(&budget, &[&vec![1; 3000].into()], true).unwrap().is_none());
}
