//! Samples of a build side, drawn on a device and on the host.

use arrow::array::StringViewArray;

use super::*;
use crate::test_device::device;
use similarity_engine::atoms::SideColumns;
use similarity_engine::condition::{Bounds, Condition};
use similarity_engine::internals::{AtomDeciders, BuildAtoms, Detail, Fingerprints, SAMPLED, Sample, bound};
use similarity_engine::internals::{SharedStrings, bring_ahead};
use similarity_measures::EditMeasure;

/// A sample of some strings, drawn by a device if there is one.
fn sample(texts: &[Option<String>], budget: Option<&Budget>) -> Sample {
    let key: ArrayRef = Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>());
    let condition = Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(1.0, true) };
    let conditions = vec![AtomCondition::Equality, AtomCondition::Similarity { key: 0, condition }];
    let keys = vec![key];
    let atoms = vec![AtomColumn::Codes(vec![0; texts.len()].into()), AtomColumn::None];
    let side = SideColumns { rows: texts.len(), atoms, keys: keys.clone() };
    let cancel = Cancel::default();
    let (deciders, columns) =
        AtomDeciders::build(conditions, side, &BuildContext::new(2, &cancel, &|_| Ok(()))).unwrap();
    let atoms = BuildAtoms { deciders: &deciders, columns: &columns };
    let bring =
        |budget: &Budget| bring_ahead(budget, atoms, &[vec![0, 1]], &SharedStrings::default(), 2).unwrap().unwrap();
    if let Some(budget) = budget {
        // what a device draws are the rows that the host draws, or nothing
        let drawn = bring(budget).least_prints(texts.len(), SAMPLED, bound(texts.len(), SAMPLED)).unwrap();
        let on_host = Fingerprints::new(&columns, &deciders, &keys, Detail::Views).unwrap().least(SAMPLED, 2).unwrap();
        assert_eq!(drawn.as_ref().unwrap_or(&on_host), &on_host);
        let few = on_host.chunk_by(|one, other| one.0 == other.0).count() < 1000;
        assert!(drawn.is_some() || few && texts.len() > SAMPLED);
    }
    let mut device = budget.map(bring);
    let sample = Sample::of(atoms, &keys, device.as_mut(), 2).unwrap();
    assert_eq!((sample.rows.len(), sample.variates.len()), (SAMPLED.min(texts.len()), sample.rows.len()));
    sample
}

fn long(row: u32) -> Option<String> {
    Some(format!("a long string, {row:0>9}"))
}

#[test]
fn long_strings_are_read_where_views_do_not_tell_rows_apart() {
    let mixed = |row: u32| if row.is_multiple_of(10) { long(row) } else { Some(row.to_string()) };
    let detail =
        |rows: u32, text: &dyn Fn(u32) -> Option<String>| sample(&(0..rows).map(text).collect::<Vec<_>>(), None).detail;
    assert!(matches!(detail(20_000, &long), Detail::Strings));
    assert!(matches!(detail(20_000, &mixed), Detail::Views));
    assert!(matches!(detail(30, &long), Detail::Strings));
    assert!(matches!(detail(0, &long), Detail::Views));
}

#[test]
fn the_same_rows_are_drawn_in_any_order() {
    let budget = Budget::new(&device(), 0.5);
    let text = |row: u32| {
        let letters = (0..1 + row % 7).map(|n| char::from(b'a' + (row.wrapping_mul(n + 2_654_435_769) >> 27) as u8));
        (!row.is_multiple_of(50)).then(|| format!("{row}{}", letters.collect::<String>()))
    };
    let texts: Vec<_> = (0..30_000).map(text).collect();
    let backwards: Vec<_> = texts.iter().rev().cloned().collect();
    let last = texts.len() as u32 - 1;
    for device in [None, Some(&budget)] {
        let (one, other) = (sample(&texts, device), sample(&backwards, device));
        assert_eq!(one.variates, other.variates);
        let drawn = |rows: &mut dyn Iterator<Item = u32>| {
            let mut drawn: Vec<_> = rows.map(|row| texts[row as usize].as_deref()).collect();
            drawn.sort_unstable();
            drawn
        };
        let one = drawn(&mut one.rows.iter().copied());
        assert_eq!(one, drawn(&mut other.rows.iter().map(|row| last - row)));
        assert!(one.chunk_by(|one, other| one == other).count() > SAMPLED / 2);
    }
    // a device leaves to the host what has too few fingerprints, here one or a hundred
    for texts in [vec![Some("the same".to_owned()); 20_000], (0..20_000).map(|row| long(row % 100)).collect()] {
        assert_eq!(sample(&texts, Some(&budget)).rows, sample(&texts, None).rows);
    }
    assert_eq!(sample(&texts[1..40], Some(&budget)).rows.len(), 39);
}
