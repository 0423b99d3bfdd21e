//! Groups that a device has given, against tables of the host.

use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};

use crate::memory::Budget;
use crate::test_device::device;
use similarity_engine::equality::{Groups, Numberer};

use super::*;

#[test]
fn tables_find_what_the_device_finds() {
    let text = |row: i64| (row % 7 > 0).then(|| format!("a string that no view holds {}", row * row % 90));
    let number = |row: i64| (row % 5 > 0).then_some(row * 7919 % 40 - 20);
    let columns = |rows: i64| -> [ArrayRef; 2] {
        [
            Arc::new((0..rows).map(text).collect::<StringArray>()),
            Arc::new((0..rows).map(number).collect::<Int64Array>()),
        ]
    };
    let (build, probe, budget) = (columns(500), columns(3000), Budget::new(&device(), 0.5));
    for nulls in [[false; 2], [true, false], [true; 2]] {
        let by = Numberer { threads: 2, self_join: false, device: Some(&budget) };
        let (groups, codes) = Groups::build(&build, nulls.to_vec(), by).unwrap();
        let Groups::Device(groups) = groups else { panic!("a device has numbered them") };
        let found = groups.look_up(&probe).unwrap();
        assert!(found.on_device().is_some() && codes.on_device().is_some());
        let by_tables = groups.look_up_in_tables(&probe).unwrap();
        assert_eq!(by_tables.on_host().unwrap(), found.on_host().unwrap());
        assert_eq!(groups.look_up(&build).unwrap().on_host().unwrap(), codes.on_host().unwrap());
    }
}
