//! Neighbours on a device against those of the CPU.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::kept::SetsOnDevice;
use crate::kernels::CounterRoom;
use crate::memory::Budget;
use crate::test_device::{budget_of, device, device_alone};
use crate::test_oracle::sets::{Values, WORDS, groups, key_column, measures, strings};
use crate::tests::nearest::{agree, agrees, found, metric, on_device, some_ranks};
use similarity_engine::accelerator::DynDeviceNearest;
use similarity_engine::access_path::AccessPath;
use similarity_engine::condition::{Bounds, Condition};
use similarity_engine::nearest::{Best, Wanted};
use similarity_engine::overrides::Overrides;
use similarity_engine::{BuildContext, Cancel, KeyColumn, PrepareContext, Probe};
use similarity_measures::{SetMeasure, Tokenizer};

fn condition(tokenizer: Tokenizer, measure: SetMeasure) -> Condition {
    Condition::Set { tokenizer, measure, bounds: Bounds::everything() }
}

/// Ranges of 16, 128 and 32,768 positions.
const ROOMS: [CounterRoom; 3] =
    [CounterRoom { word_bits: 2 }, CounterRoom { word_bits: 5 }, CounterRoom { word_bits: 13 }];

/// An index that is forced to take this path.
fn forced(
    budget: &Budget,
    (tokenizer, measure): (Tokenizer, SetMeasure),
    build: &KeyColumn,
    ranks: &[u32],
    (path, room): (AccessPath, CounterRoom),
) -> Box<DynDeviceNearest> {
    let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
    let overrides = Overrides { access_path: Some(path), ..Overrides::NONE };
    let context = BuildContext { overrides, ..BuildContext::new(2, &cancel, &reserve) };
    let sets = SetsOnDevice::try_new(&budget.of_join(), (tokenizer, measure), build, (ranks, room), &context);
    let index = super::erased(sets.unwrap().expect("there are tokens")).unwrap();
    assert!(index.info().path.starts_with(&format!("{path} (")), "{}", index.info().path);
    index
}

/// Both paths against the CPU: how many neighbours there are.
fn both_agree(
    budget: &Budget,
    by: (Tokenizer, SetMeasure),
    sides: (&KeyColumn, &KeyColumn),
    ranks: &[u32],
    (wanted, some): (Wanted, usize),
    room: CounterRoom,
) -> usize {
    let agree = |path| {
        let index = forced(budget, by, sides.0, ranks, (path, room));
        let neighbours = agrees(index.as_ref(), condition(by.0, by.1), sides, ranks, (wanted, some));
        assert!(path == AccessPath::InvertedIndex || metric(index.as_ref(), "device_postings") == 0);
        neighbours
    };
    agree(AccessPath::SignatureTiles);
    agree(AccessPath::InvertedIndex)
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
        let (room, by) = (ROOMS[case / 3 % 3], (tokenizer, measure));
        neighbours += both_agree(&budget, by, (&build, &probe), &ranks, (wanted, [37, 1000][case % 2]), room);
        if case % 4 == 0 {
            both_agree(&budget, by, (&build, &build), &ranks, (wanted, 1000), room);
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
            let (by, room) = ((WORDS, measure), ROOMS[paths.len() % 3]);
            both_agree(&budget, by, (&build, &probe), &ranks, (wanted, 1000), room);
            let tiles = forced(&budget, by, &build, &ranks, (AccessPath::SignatureTiles, room));
            paths.push(tiles.info().path.clone());
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
        let (ranks, by) = (some_ranks(3000, rng), (WORDS, measure));
        for path in [AccessPath::SignatureTiles, AccessPath::InvertedIndex] {
            let index = forced(&budget, by, &build, &ranks, (path, ROOMS[1]));
            agrees(index.as_ref(), condition(WORDS, measure), (&build, &probe), &ranks, (wanted, 1000));
            assert!(metric(index.as_ref(), "filter_survivors") < 3000 * 80 / 3, "{path} {measure:?}");
        }
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
    let by = (WORDS, SetMeasure::DICE);
    let index = forced(&budget, by, &build, &ranks, (AccessPath::SignatureTiles, CounterRoom::DEFAULT));
    agrees(index.as_ref(), condition(WORDS, SetMeasure::DICE), (&build, &probe), &ranks, (wanted, 1000));
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

#[test]
fn counters_are_as_wide_as_sets_are_large() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(11));
    let text = |rng: &mut StdRng, words: u32| -> String {
        let first = rng.random_range(0..50);
        (first..first + words).map(|word| format!("w{word} ")).collect()
    };
    // counters of 8, 16 and 32 bits
    let sizes = [1, 255, 256, 300, 66_000];
    let mut texts =
        |rows: usize| -> Values { (0..rows).map(|row| Some(text(rng, sizes[row % sizes.len()]))).collect() };
    let (build, probe) = (key_column(&texts(60), &None), key_column(&texts(10), &None));
    let ranks = vec![0; 60];
    for (room, ties) in ROOMS.into_iter().zip([false, true, false]) {
        for measure in [SetMeasure::OVERLAP_COUNT, SetMeasure::JACCARD] {
            let index = forced(&budget, (WORDS, measure), &build, &ranks, (AccessPath::InvertedIndex, room));
            let wanted = Wanted { rows: 7, ties };
            agrees(index.as_ref(), condition(WORDS, measure), (&build, &probe), &ranks, (wanted, 1000));
        }
    }
}

#[test]
fn rows_that_are_offered_too_many_are_counted_again() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(12));
    let text = |rng: &mut StdRng| Some((0..4).map(|_| format!("w{} ", rng.random_range(0..9))).collect());
    let mut texts = |rows: usize| -> Values { (0..rows).map(|_| text(rng)).collect() };
    let (builds, probes) = (texts(3000), texts(70));
    let (build, probe) = (key_column(&builds, &None), key_column(&probes, &None));
    let ranks: Vec<u32> = (0..3000).map(|row| 3000 - row).collect();
    let by = (WORDS, SetMeasure::OVERLAP_COUNT);
    let index = forced(&budget, by, &build, &ranks, (AccessPath::InvertedIndex, CounterRoom::DEFAULT));
    let wanted = Wanted { rows: 3, ties: false };
    agrees(index.as_ref(), condition(by.0, by.1), (&build, &probe), &ranks, (wanted, 1000));
    // all are in one range
    let frequency = |texts: &Values, word: u32| {
        let word = format!("w{word} ");
        texts.iter().flatten().filter(|text| text.contains(&word)).count()
    };
    let once: usize = (0..9).map(|word| frequency(&builds, word) * frequency(&probes, word)).sum();
    let read = metric(index.as_ref(), "device_postings");
    assert!(read > once && once > 0, "{read} postings in place of {once}");
}

#[test]
fn the_index_is_taken_where_tokens_are_rare() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(13));
    let wanted = Wanted { rows: 3, ties: false };
    let texts = |rng: &mut StdRng, words: u32| -> Values {
        let mut text = |_| Some((0..12).map(|_| format!("w{} ", rng.random_range(0..words))).collect());
        (0..200).map(&mut text).collect()
    };
    let (rare, frequent) = (key_column(&texts(rng, 2000), &None), key_column(&texts(rng, 14), &None));
    let ranks = vec![0; 200];
    let path = |build| on_device(&budget, condition(WORDS, SetMeasure::DICE), build, &ranks, wanted).unwrap();
    let (by_rare, by_frequent) = (path(&rare), path(&frequent));
    assert!(by_rare.info().path.starts_with("inverted index or signature tiles ("), "{}", by_rare.info().path);
    assert!(by_frequent.info().path.starts_with("signature tiles ("), "{}", by_frequent.info().path);
    found(by_rare.as_ref(), &rare, wanted, 1000);
    assert!(metric(by_rare.as_ref(), "device_postings") > 0);
    // ten words that more than half of the sets have, and rows that ask for all ten
    let frequent = |rng: &mut StdRng, share: f64| -> String {
        (0..10).filter(|_| rng.random_bool(share)).map(|word| format!("f{word} ")).collect()
    };
    let mixed = key_column(&(0..200).map(|row| Some(frequent(rng, 0.6) + &format!("w{row}"))).collect(), &None);
    let asking = key_column(&(0..9).map(|_| Some(frequent(rng, 1.0))).collect(), &None);
    let by_mixed = path(&mixed);
    assert!(by_mixed.info().path.starts_with("inverted index or signature tiles ("), "{}", by_mixed.info().path);
    found(by_mixed.as_ref(), &asking, wanted, 1000);
    assert_eq!(metric(by_mixed.as_ref(), "device_postings"), 0);
}

#[test]
fn lists_without_room_leave_signatures() {
    let (device, rng) = (device_alone(), &mut StdRng::seed_from_u64(15));
    let keys = key_column(&sets(400, 20, rng), &None);
    let by = condition(WORDS, SetMeasure::JACCARD);
    let path = |bytes| {
        let (budget, wanted) = (budget_of(&device, bytes), Wanted { rows: 1, ties: false });
        on_device(&budget, by, &keys, &vec![0; 400], wanted).unwrap().info().path.clone()
    };
    assert!(path(64 << 20).starts_with("inverted index or signature tiles ("));
    assert!(path(400 << 10).starts_with("signature tiles ("));
}

#[test]
fn a_search_ends_when_it_is_cancelled() {
    let (budget, rng) = (Budget::new(&device(), 0.5), &mut StdRng::seed_from_u64(14));
    let keys = key_column(&sets(300, 12, rng), &None);
    let by = (WORDS, SetMeasure::JACCARD);
    let index = forced(&budget, by, &keys, &vec![0; 300], (AccessPath::InvertedIndex, ROOMS[0]));
    let cancel = Cancel::default();
    let prepared = index.prepare(&keys, &PrepareContext { threads: 1, cancel: &cancel }).unwrap();
    cancel.cancel();
    let mut best = vec![Best::new(Wanted { rows: 2, ties: false })];
    index.nearest(Probe::Batch(&prepared.batch), &[0], &mut best, &cancel).unwrap();
    assert_eq!(metric(index.as_ref(), "device_postings"), 0);
}
