//! Strings that are too long for a device.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::memory::Budget;
use crate::test_device::device;
use crate::test_oracle::strings::*;
use similarity_engine::NO_GROUP;
use similarity_engine::condition::Bounds;
use similarity_engine::cpu;
use similarity_engine::internals::LongStrings;
use similarity_engine::strings::EditPredicate;
use similarity_measures::EditMeasure;

/// Strings of up to the `longest` that a device takes, some of them, and a few that are longer.
fn sides(longest: usize, rng: &mut StdRng) -> [Values; 2] {
    let mut build = strings(150, rng);
    for (row, more) in [(3, 1), (40, -4), (41, 0), (77, 76), (78, 76), (100, 476), (120, 0)] {
        let length = longest.saturating_add_signed(more);
        let letter = |at: usize| if at % 97 == row { '\u{e9}' } else { (b'a' + (at * at % 7) as u8) as char };
        build[row] = Some((0..length).map(letter).collect());
    }
    let mut probe = build.clone();
    for text in probe.iter_mut().flatten() {
        match rng.random_range(0..3) {
            0 => text.push('x'),
            1 => drop(text.pop()),
            _ => {}
        }
    }
    [build, probe]
}

#[test]
fn long_strings_are_compared_on_the_cpu() {
    let mut rng = StdRng::seed_from_u64(6);
    let engine = engine_of(Budget::new(&device(), 0.5));
    let grouped = Some((0..150).map(|row| if row % 50 == 27 { NO_GROUP } else { row / 75 }).collect());
    let (at_most, at_least) = (|k| Bounds::at_most(k, true), |t| Bounds::at_least(t, true));
    for (measure, bounds) in [
        (EditMeasure::LEVENSHTEIN, at_most(3.0)),
        (EditMeasure::LEVENSHTEIN, at_most(90.0)),
        (EditMeasure::OSA, at_most(1.0)),
        (EditMeasure::HAMMING, at_most(40.0)),
        (EditMeasure::LEVENSHTEIN_SIMILARITY, at_least(0.8)),
        (EditMeasure::JARO, at_least(0.7)),
        (EditMeasure::JARO_WINKLER, at_least(0.95)),
    ] {
        let (predicate, condition) = (EditPredicate { measure, bounds }, Condition::Edit { measure, bounds });
        let longest = crate::strings::longest_string(&predicate);
        let [build, probe] = sides(longest, &mut rng);
        for groups in [&None, &grouped] {
            let (build_keys, probe_keys) = (key_column(&build, groups), key_column(&probe, groups));
            let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
            let index = |is_self_join| {
                let context = BuildContext { self_join: is_self_join, ..BuildContext::new(2, &cancel, &reserve) };
                let (index, _) = engine.build(condition, build_keys.clone(), &context).unwrap();
                let expected = format!("; cpu for 4 strings of more than {longest} characters");
                assert!(index.info().path.ends_with(&expected));
                assert_eq!(
                    index.info().unmatchable,
                    cpu::build(condition, build_keys.clone(), &context).unwrap().info().unmatchable
                );
                index
            };
            let expected = oracle(predicate, (&build, groups), (&build, groups), true);
            for range in [17, usize::MAX] {
                assert_eq!(self_join_pairs(index(true).as_ref(), range), expected, "{predicate:?}");
            }
            let expected = oracle(predicate, (&build, groups), (&probe, groups), false);
            assert!(expected.iter().any(|(build, _)| [3, 77, 78, 100].contains(build)), "{predicate:?}");
            assert_eq!(batch(index(false).as_ref(), &probe_keys, 40), expected, "{predicate:?}");
        }
    }
}

#[test]
fn without_long_strings_nothing_is_set_apart() {
    let condition = Condition::Edit { measure: EditMeasure::JARO, bounds: Bounds::at_least(0.9, true) };
    let long = |count: usize| -> Values {
        (0..40).map(|row| Some("\u{e9}".repeat(if row < count { 1025 } else { 1024 }))).collect()
    };
    let of =
        |count| LongStrings::of(&Budget::new(&device(), 0.5), condition, &key_column(&long(count), &None)).unwrap();
    assert!(of(0).is_none() && of(3).is_none());
    assert_eq!(of(2).map(|strings| strings.count), Some(2));
}
