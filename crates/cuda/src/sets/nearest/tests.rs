//! Neighbours on a device against those of the CPU.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::memory::Budget;
use crate::test_device::{budget_of, device, device_alone};
use crate::test_oracle::sets::{Values, WORDS, groups, key_column, measures, strings};
use crate::tests::nearest::{agree, found, metric, on_device, some_ranks};
use similarity_engine::condition::{Bounds, Condition};
use similarity_engine::nearest::Wanted;
use similarity_measures::{SetMeasure, Tokenizer};

fn condition(tokenizer: Tokenizer, measure: SetMeasure) -> Condition {
    Condition::Set { tokenizer, measure, bounds: Bounds::everything() }
}

#[test]
fn every_measure_ranks_as_the_cpu_does() {
    let budget = Budget::new(&device(), 0.5);
    let measures: Vec<SetMeasure> = measures().collect();
    let grams = |q, pad| Tokenizer::QGrams { q, pad };
    let mut neighbours = 0;
    for (case, measure) in measures.into_iter().cycle().take(45).enumerate() {
        let (rng, seed) = (&mut StdRng::seed_from_u64(case as u64), case as u64);
        let tokenizer = [WORDS, grams(2, Some('#')), grams(3, None)][case % 3];
        let (rows, words) = ([4, 70, 260][rng.random_range(0..3)], [3, 14, 200][rng.random_range(0..3)]);
        let (build, probe) = (strings(rows, words, seed), strings(80, words + 1, seed + 1000));
        let count = [0, 0, 1, 3, 30][case % 5];
        let build = key_column(&build, &groups(rows, count, seed));
        let probe = key_column(&probe, &groups(80, count, seed + 7));
        let ranks = some_ranks(rows, rng);
        let wanted = Wanted { rows: [1, 3, 10, 70, 600][rng.random_range(0..5)], ties: rng.random_bool(0.4) };
        let condition = condition(tokenizer, measure);
        neighbours += agree(&budget, condition, (&build, &probe), &ranks, (wanted, [37, 1000][case % 2]));
        if case % 4 == 0 {
            agree(&budget, condition, (&build, &build), &ranks, (wanted, 1000));
        }
    }
    assert!(neighbours > 5_000, "{neighbours}");
}

/// Sets of up to `most` words, many of them like an earlier one.
fn sets(rows: usize, most: usize, rng: &mut StdRng) -> Values {
    let mut all: Vec<Vec<u32>> = Vec::new();
    for row in 0..rows {
        let mut set: Vec<u32> = match row % 3 {
            0 => (0..rng.random_range(1..=most)).map(|_| rng.random_range(0..3000)).collect(),
            _ => all[row - 1].clone(),
        };
        (0..rng.random_range(0..1 + most / 6)).for_each(|_| set.push(rng.random_range(0..3000)));
        all.push(set);
    }
    all.iter().map(|set| Some(set.iter().map(|word| format!("w{word} ")).collect())).collect()
}

#[test]
fn sets_of_all_sizes() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(3));
    let mut paths = Vec::new();
    for most in [3, 60, 120, 260, 500] {
        let (build, probe) = (key_column(&sets(200, most, rng), &None), key_column(&sets(90, most, rng), &None));
        let wanted = Wanted { rows: 5, ties: false };
        for measure in [SetMeasure::JACCARD, SetMeasure::SET_COSINE, SetMeasure::CONTAINMENT] {
            let ranks = some_ranks(200, rng);
            let condition = condition(WORDS, measure);
            agree(&budget, condition, (&build, &probe), &ranks, (wanted, 1000));
            paths.push(on_device(&budget, condition, &build, &ranks, wanted).unwrap().info().path.clone());
        }
    }
    for bits in [256, 512, 1024, 2048] {
        assert!(paths.iter().any(|path| path.contains(&format!("{bits} bits"))), "{bits}: {paths:?}");
    }
}

#[test]
fn samples_bound_what_is_compared_with_all() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(7));
    let (build, probe) = (key_column(&sets(3000, 12, rng), &None), key_column(&sets(80, 12, rng), &None));
    let wanted = Wanted { rows: 1, ties: false };
    for measure in [SetMeasure::JACCARD, SetMeasure::OVERLAP_COUNT, SetMeasure::OVERLAP_COEFFICIENT] {
        let (ranks, condition) = (some_ranks(3000, rng), condition(WORDS, measure));
        agree(&budget, condition, (&build, &probe), &ranks, (wanted, 1000));
        let index = on_device(&budget, condition, &build, &ranks, wanted).unwrap();
        found(index.as_ref(), &probe, wanted, 1000);
        assert!(metric(index.as_ref(), "filter_survivors") < 3000 * 80 / 3, "{measure:?}");
    }
}

#[test]
fn candidates_without_room_come_in_pieces() {
    let (device, rng) = (device_alone(), &mut StdRng::seed_from_u64(8));
    // few words, so that all rows share some
    let text = |rng: &mut StdRng| Some((0..4).map(|_| format!("w{} ", rng.random_range(0..9))).collect());
    let mut texts = |rows: usize| -> Values { (0..rows).map(|_| text(rng)).collect() };
    let (build, probe) = (key_column(&texts(2000), &None), key_column(&texts(500), &None));
    let ranks: Vec<u32> = (0..2000).map(|row| row * 7 % 3).collect();
    // the room for candidates is a share of what is left
    let (budget, wanted) = (budget_of(&device, 4 << 20), Wanted { rows: 300, ties: false });
    let condition = condition(WORDS, SetMeasure::DICE);
    agree(&budget, condition, (&build, &probe), &ranks, (wanted, 1000));
    let index = on_device(&budget, condition, &build, &ranks, wanted).unwrap();
    found(index.as_ref(), &probe, wanted, 1000);
    assert!(metric(index.as_ref(), "device_retries") > 0, "all of them had room");
}

#[test]
fn sets_without_tokens_are_declined() {
    let budget = Budget::new(&device(), 0.5);
    let blank = key_column(&vec![Some(" -- ".into()), None], &None);
    let some = key_column(&vec![Some("a".into()), None], &None);
    let wanted = Wanted { rows: 1, ties: false };
    let condition = condition(WORDS, SetMeasure::JACCARD);
    assert!(on_device(&budget, condition, &blank, &[0, 0], wanted).is_none());
    assert_eq!(agree(&budget, condition, (&some, &blank), &[0, 0], (wanted, 10)), 1, "a row that shares nothing");
    assert!(on_device(&budget, condition, &some, &[0, 0], Wanted { rows: 961, ..wanted }).is_none());
}
