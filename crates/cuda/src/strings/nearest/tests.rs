//! Neighbours on a device against those of the CPU.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::ranks_by;
use crate::memory::Budget;
use crate::test_device::{budget_of, device, device_alone};
use crate::test_oracle::strings::{Values, key_column, strings};
use crate::tests::nearest::{agree, found, metric, on_device, some_groups, some_ranks};
use similarity_engine::condition::{Bounds, Condition};
use similarity_engine::nearest::Wanted;
use similarity_measures::EditMeasure;

fn condition(measure: EditMeasure) -> Condition {
    Condition::Edit { measure, bounds: Bounds::everything() }
}

fn measures() -> Vec<EditMeasure> {
    let weights = [[0.25, 0.0], [0.25, 0.7], [0.1, 0.0], [0.2, 0.5]];
    let raised = weights.map(|weights| EditMeasure::JARO_WINKLER.with(&weights).unwrap());
    let served = EditMeasure::ALL.iter().copied().filter(|&measure| ranks_by(measure));
    served.chain(raised).collect()
}

#[test]
fn every_measure_ranks_as_the_cpu_does() {
    let budget = Budget::new(&device(), 0.5);
    let mut neighbours = 0;
    for (case, measure) in measures().into_iter().cycle().take(60).enumerate() {
        let rng = &mut StdRng::seed_from_u64(case as u64);
        let (build, probe) = (strings([3, 70, 400][case % 3], rng), strings(130, rng));
        let of = [0, 0, 1, 3, 30][case % 5];
        let build = key_column(&build, &some_groups(build.len(), of, rng));
        let probe = key_column(&probe, &some_groups(probe.len(), of, rng));
        let ranks = some_ranks(build.values.len(), rng);
        let wanted = Wanted { rows: [1, 3, 10, 70, 600][rng.random_range(0..5)], ties: rng.random_bool(0.4) };
        neighbours += agree(&budget, condition(measure), (&build, &probe), &ranks, (wanted, [37, 1000][case % 2]));
        if case % 4 == 0 {
            agree(&budget, condition(measure), (&build, &build), &ranks, (wanted, 1000));
        }
    }
    assert!(neighbours > 10_000, "{neighbours}");
}

/// Strings of about one length.
fn alike(rows: usize, length: usize, rng: &mut StdRng) -> Values {
    let letter = |rng: &mut StdRng| char::from(b'a' + rng.random_range(0..6) as u8);
    (0..rows).map(|_| Some((0..length + rng.random_range(0..3)).map(|_| letter(rng)).collect())).collect()
}

/// Strings with a few copies each, of which a character differs.
fn copied(rows: usize, rng: &mut StdRng) -> Values {
    let letter = |rng: &mut StdRng| char::from(b'a' + rng.random_range(0..26) as u8);
    let mut original = Vec::new();
    let mut text = |row: usize| {
        if row.is_multiple_of(8) {
            original = (0..rng.random_range(16..24)).map(|_| letter(rng)).collect::<Vec<char>>();
        }
        let mut copy = original.clone();
        let at = rng.random_range(0..copy.len());
        copy[at] = letter(rng);
        Some(copy.into_iter().collect())
    };
    (0..rows).map(&mut text).collect()
}

/// So many blocks that samples of them come before the others.
#[test]
fn samples_bound_what_is_compared_with_all() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(7));
    let texts = copied(4000, rng);
    let (build, probe) = (key_column(&texts, &None), key_column(&texts[800..880].to_vec(), &None));
    let wanted = Wanted { rows: 5, ties: false };
    for measure in [EditMeasure::LEVENSHTEIN, EditMeasure::LEVENSHTEIN_SIMILARITY, EditMeasure::JARO_WINKLER] {
        let ranks = some_ranks(4000, rng);
        agree(&budget, condition(measure), (&build, &probe), &ranks, (wanted, 1000));
        let index = on_device(&budget, condition(measure), &build, &ranks, wanted).unwrap();
        found(index.as_ref(), &probe, wanted, 1000);
        let survivors = metric(index.as_ref(), "filter_survivors");
        assert!(survivors < 4000 * 80 / 10, "{measure:?}: {survivors}");
    }
}

#[test]
fn candidates_without_room_come_in_pieces() {
    let (device, rng) = (device_alone(), &mut StdRng::seed_from_u64(8));
    let (build, probe) = (key_column(&alike(3000, 7, rng), &None), key_column(&alike(700, 7, rng), &None));
    let ranks = some_ranks(3000, rng);
    // the room for candidates is a share of what is left
    let budget = budget_of(&device, 4 << 20);
    let wanted = Wanted { rows: 40, ties: false };
    agree(&budget, condition(EditMeasure::LEVENSHTEIN), (&build, &probe), &ranks, (wanted, 1000));
    let index = on_device(&budget, condition(EditMeasure::OSA), &build, &ranks, wanted).unwrap();
    found(index.as_ref(), &probe, wanted, 1000);
    assert!(metric(index.as_ref(), "device_retries") > 0, "all of them had room");
}

#[test]
fn long_strings_are_ranked_by_the_host() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(9));
    let wanted = Wanted { rows: 3, ties: true };
    let mut probe = strings(60, rng);
    for (at, length) in [(3, 1024), (4, 1025), (17, 5000)] {
        probe[at] = Some("abcd".repeat(length / 4) + &"x".repeat(length % 4));
    }
    let mut build = strings(150, rng);
    build[9] = Some("abcd".repeat(256));
    let (groups, of_probe) = (some_groups(150, 2, rng), some_groups(60, 2, rng));
    let (longer, probe) = (key_column(&probe, &None), key_column(&probe, &of_probe));
    let build = key_column(&build, &groups);
    for measure in measures() {
        let ranks = some_ranks(150, rng);
        agree(&budget, condition(measure), (&build, &probe), &ranks, (wanted, 1000));
        assert!(on_device(&budget, condition(measure), &longer, &[0; 60], wanted).is_none(), "it is the CPU's");
    }
}

#[test]
fn what_has_no_kernel_is_declined() {
    let budget = Budget::new(&device(), 0.5);
    let some = key_column(&vec![Some("a".into()), None], &None);
    let none = key_column(&vec![None, None], &None);
    let (few, many) = (Wanted { rows: 1, ties: false }, Wanted { rows: 961, ties: false });
    let offered = |measure, build, wanted| on_device(&budget, condition(measure), build, &[0, 0], wanted);
    assert!(offered(EditMeasure::LEVENSHTEIN, &some, few).is_some());
    assert!(offered(EditMeasure::LEVENSHTEIN, &some, many).is_none());
    assert!(offered(EditMeasure::LEVENSHTEIN, &none, few).is_none());
    assert!(offered(EditMeasure::DAMERAU_LEVENSHTEIN, &some, few).is_none());
}
