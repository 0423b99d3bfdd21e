//! What edit joins are tested against: a nested loop over the measure itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::StringArray;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::engine::condition::Bounds;
use super::engine::strings::EditPredicate;
use super::engine::{Cancel, Cursor, KeyColumn, Limit, NO_GROUP, PairIndex, Pairs, PrepareContext, Probe};
use similarity_measures::EditMeasure;

pub type Values = Vec<Option<String>>;
pub type Groups = Option<Vec<u32>>;
pub type Found = BTreeSet<(u32, u32)>;

pub const UNLIMITED: Limit = Limit { pairs: usize::MAX, work: usize::MAX };

/// Strings and noisy copies of them: empty, short, long, non-ASCII, NULL.
pub fn strings(rows: usize, rng: &mut StdRng) -> Values {
    let alphabets: [&[char]; 3] =
        [&['a', 'b', 'c', 'd'], &['m', 'n', 'o', 'p', 'r', 's', ' ', 'e'], &['é', 'e', '日', '本']];
    let mut made: Values = Vec::new();
    for row in 0..rows {
        if rng.random_bool(0.05) {
            made.push(None);
            continue;
        }
        let earlier = if row > 0 && rng.random_bool(0.5) { made[rng.random_range(0..row)].clone() } else { None };
        let alphabet = alphabets[rng.random_range(0..3)];
        let mut text: Vec<char> = match earlier {
            Some(text) => text.chars().collect(),
            None => {
                let length = [0, 1, 2, 5, 9, 14, 30, 66, 90][rng.random_range(0..9)];
                (0..length).map(|_| alphabet[rng.random_range(0..alphabet.len())]).collect()
            }
        };
        for _ in 0..rng.random_range(0..4) {
            let at = rng.random_range(0..=text.len());
            match rng.random_range(0..4) {
                0 => text.insert(at, alphabet[0]),
                1 if at < text.len() => drop(text.remove(at)),
                2 if at < text.len() => text[at] = alphabet[1],
                _ if at > 1 => text.swap(at - 1, at - 2),
                _ => {}
            }
        }
        made.push(Some(text.into_iter().collect()));
    }
    made
}

pub fn predicates() -> Vec<EditPredicate> {
    let mut made = Vec::new();
    for &measure in EditMeasure::ALL.iter().filter(|measure| measure.is_distance()) {
        for k in [-1.0, 0.0, 1.0, 2.0, 3.5, 6.0, 200.0] {
            made.push(EditPredicate { measure, bounds: Bounds::at_most(k, true) });
        }
        made.push(EditPredicate { measure, bounds: Bounds::at_most(3.0, false).and(Bounds::at_least(1.0, true)) });
    }
    for &measure in EditMeasure::ALL.iter().filter(|measure| !measure.is_distance()) {
        for t in [1e-9, 0.3, 0.5, 2.0 / 3.0, 0.7, 0.75, 0.8, 0.9, 0.95, 1.0, 1.5] {
            made.push(EditPredicate { measure, bounds: Bounds::at_least(t, true) });
            made.push(EditPredicate { measure, bounds: Bounds::at_least(t, false) });
        }
    }
    for weights in [[0.25, 0.0], [0.1, 0.0], [0.25, 0.7], [0.2, 0.5], [0.0, 0.5], [0.25 - 1e-12, 0.3], [0.1, 1.0]] {
        let measure = EditMeasure::JARO_WINKLER.with(&weights).unwrap();
        for t in [0.3, 0.5, 2.0 / 3.0, 0.9, 1.0] {
            made.push(EditPredicate { measure, bounds: Bounds::at_least(t, true) });
        }
    }
    made
}

pub fn oracle(
    predicate: EditPredicate,
    build: (&Values, &Groups),
    probe: (&Values, &Groups),
    self_join: bool,
) -> Found {
    let mut found = Found::new();
    for (b, left) in build.0.iter().enumerate() {
        for (p, right) in probe.0.iter().enumerate() {
            let (Some(left), Some(right)) = (left, right) else { continue };
            let together = match (build.1, probe.1) {
                (Some(l), Some(r)) => l[b] != NO_GROUP && l[b] == r[p],
                _ => true,
            };
            let held = predicate.measure.score(left, right).is_some_and(|score| predicate.bounds.contains(score));
            if together && held && (!self_join || b < p) {
                found.insert((b as u32, p as u32));
            }
        }
    }
    found
}

pub fn run<I: PairIndex + ?Sized>(
    index: &I,
    probe: Probe<'_, I::Batch>,
    len: usize,
    range: usize,
    limit: Limit,
) -> Found {
    let (mut none, mut pairs) = (Cursor { next: len, end: len }, Pairs::default());
    index.probe(probe, &mut none, limit, &Cancel::default(), &mut pairs).unwrap();
    assert!(none.is_done() && pairs.is_empty());
    let mut found = Found::new();
    for next in (0..len).step_by(range) {
        let mut cursor = Cursor { next, end: len.min(next + range) };
        while !cursor.is_done() {
            let (before, mut pairs) = (cursor.next, Pairs::default());
            index.probe(probe, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
            assert!(cursor.next > before);
            for (&b, &p) in pairs.build.iter().zip(&pairs.probe) {
                let pair = if matches!(probe, Probe::SelfJoin) { (b.min(p), b.max(p)) } else { (b, p) };
                assert!(found.insert(pair), "{pair:?} came twice");
            }
        }
    }
    found
}

#[allow(dead_code, reason = "not every engine's tests use it")]
pub fn self_join_pairs<I: PairIndex + ?Sized>(index: &I, range: usize) -> Found {
    run(index, Probe::SelfJoin, index.info().self_join_len, range, UNLIMITED)
}

#[allow(dead_code, reason = "not every engine's tests use it")]
pub fn batch<I: PairIndex + ?Sized>(index: &I, keys: &KeyColumn, range: usize) -> Found {
    let prepared = index.prepare(keys, &PrepareContext { threads: 2, cancel: &Cancel::default() }).unwrap();
    run(index, Probe::Batch(&prepared.batch), prepared.len, range, UNLIMITED)
}

pub fn key_column(values: &Values, groups: &Groups) -> KeyColumn {
    KeyColumn { values: Arc::new(StringArray::from(values.clone())), groups: groups.clone() }
}

/// Many strings that differ in few places, so that runs are worth an index.
pub fn numbered(rows: usize) -> Values {
    let mut rng = StdRng::seed_from_u64(1);
    let mut text = |n: usize| {
        let mut text: Vec<u8> = (0..28 + n % 3).map(|_| rng.random_range(b'a'..=b'z')).collect();
        text[0] = b'0' + (n % 10) as u8;
        String::from_utf8(text).unwrap()
    };
    let originals: Vec<String> = (0..rows / 2).map(&mut text).collect();
    let copies = originals.iter().map(|text| format!("{}{}", &text[..9], &text[10..]));
    originals.iter().cloned().chain(copies).map(Some).collect()
}
