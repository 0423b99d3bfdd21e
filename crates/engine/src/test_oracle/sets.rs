//! What set joins are tested against: a nested loop over the measure itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::StringArray;

use super::engine::condition::Bounds;
use super::engine::sets::SetPredicate;
use super::engine::{Cancel, Cursor, KeyColumn, Limit, NO_GROUP, PairIndex, Pairs, PrepareContext, Probe};
use similarity_measures::{Overlap, SetMeasure, Tokenizer, qgrams, word_tokens};

/// Every measure, with some constants, those that are not symmetric in both orders.
pub fn measures() -> impl Iterator<Item = SetMeasure> {
    let weights = [[0.8, 0.2], [0.0, 0.0], [1e-16, 1e-11]];
    let with = move |measure: &SetMeasure| {
        let (measure, count) = (*measure, measure.descriptor().parameters.len());
        let weights = if count == 0 { &weights[..1] } else { &weights[..] };
        weights.iter().filter_map(move |weights| measure.with(&weights[..count])).collect::<Vec<_>>()
    };
    let reversed = |measure: SetMeasure| Some(measure.reversed()).filter(|reversed| *reversed != measure);
    SetMeasure::ALL
        .iter()
        .flat_map(with)
        .flat_map(move |measure| [Some(measure), reversed(measure)].into_iter().flatten())
}

/// Whether an index may probe itself by `predicate`, each pair in one order only.
pub fn serves_self_joins(predicate: &SetPredicate) -> bool {
    predicate.measure.descriptor().is_symmetric
}

pub const WORDS: Tokenizer = Tokenizer::Words;
pub const UNLIMITED: Limit = Limit { pairs: usize::MAX, work: usize::MAX };

pub type Values = Vec<Option<String>>;
pub type Found = BTreeSet<(u32, u32)>;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Strings of skewed words: NULL, blank, repeated and non-ASCII ones among them.
pub fn strings(n: usize, words: u64, seed: u64) -> Values {
    let mut random = Random(seed);
    let mut all: Values = Vec::new();
    for _ in 0..n {
        let value = match random.below(12) {
            0 => None,
            1 => Some(" -- ".to_string()),
            2 if !all.is_empty() => all[random.below(all.len() as u64) as usize].clone(),
            _ => {
                let word = |r: &mut Random| {
                    let high = 1 + r.below(words);
                    format!("{}{}", ["w", "É", "a longer "][high as usize % 3], r.below(high))
                };
                let count = 1 + random.below(9);
                Some((0..count).map(|_| word(&mut random)).collect::<Vec<_>>().join(" "))
            }
        };
        all.push(value);
    }
    all
}

pub fn groups(n: usize, count: u64, seed: u64) -> Option<Vec<u32>> {
    let mut random = Random(seed);
    let mut group = |_| if random.below(9) == 0 { NO_GROUP } else { random.below(count) as u32 };
    (count > 0).then(|| (0..n).map(&mut group).collect())
}

pub fn token_set(tokenizer: Tokenizer, value: &str) -> BTreeSet<String> {
    let (mut set, mut scratch) = (BTreeSet::new(), String::new());
    let add = |t: &str| {
        set.insert(t.to_string());
    };
    match tokenizer {
        Tokenizer::Words => word_tokens::word_tokens(value, &mut scratch, add),
        Tokenizer::QGrams { q, pad } => qgrams::qgrams(value, q, pad, &mut scratch, add),
        _ => unreachable!("not under test"),
    }
    set
}

/// What a nested loop over the measure finds, as (build, probe); for a self-join each pair once, smaller row first.
pub fn oracle(
    tokenizer: Tokenizer,
    predicate: SetPredicate,
    build: (&Values, &Option<Vec<u32>>),
    probe: Option<(&Values, &Option<Vec<u32>>)>,
) -> Found {
    let sets = |values: &Values| -> Vec<Option<BTreeSet<String>>> {
        values.iter().map(|v| v.as_ref().map(|v| token_set(tokenizer, v))).collect()
    };
    let left = sets(build.0);
    let right = probe.map_or_else(|| left.clone(), |(values, _)| sets(values));
    let probe_groups = probe.map_or(build.1, |(_, groups)| groups);
    let mut found = Found::new();
    for (b, left) in left.iter().enumerate() {
        for (p, right) in right.iter().enumerate() {
            let (Some(left), Some(right)) = (left, right) else { continue };
            let together = match (build.1, probe_groups) {
                (Some(l), Some(r)) => l[b] != NO_GROUP && l[b] == r[p],
                _ => true,
            };
            let overlap = left.intersection(right).count();
            let overlap = Overlap { common: overlap, left: left.len(), right: right.len() };
            let score = predicate.measure.score(overlap);
            if together && predicate.bounds.contains(score) && (probe.is_some() || b < p) {
                found.insert((b as u32, p as u32));
            }
        }
    }
    found
}

pub fn key_column(values: &Values, groups: &Option<Vec<u32>>) -> KeyColumn {
    KeyColumn { values: Arc::new(StringArray::from(values.clone())), groups: groups.clone() }
}

/// Runs a probe to its end in ranges of `range` positions, checks that no pair comes twice.
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
    for next in (0..len).step_by(range.max(1)) {
        let mut cursor = Cursor { next, end: len.min(next + range) };
        while !cursor.is_done() {
            let (before, mut pairs) = (cursor.next, Pairs::default());
            let counts = index.probe(probe, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
            assert!(cursor.next > before && counts.matched == pairs.len());
            assert!(counts.matched <= counts.verified && counts.verified <= counts.candidates);
            for (&b, &p) in pairs.build.iter().zip(&pairs.probe) {
                let pair = if matches!(probe, Probe::SelfJoin) { (b.min(p), b.max(p)) } else { (b, p) };
                assert!(found.insert(pair), "{pair:?} came twice");
            }
        }
    }
    found
}

pub fn self_join_pairs<I: PairIndex + ?Sized>(index: &I, range: usize, limit: Limit) -> Found {
    run(index, Probe::SelfJoin, index.info().self_join_len, range, limit)
}

pub fn batch<I: PairIndex + ?Sized>(index: &I, keys: &KeyColumn, range: usize, limit: Limit) -> Found {
    let prepared = index.prepare(keys, &PrepareContext { threads: 1, cancel: &Cancel::default() }).unwrap();
    run(index, Probe::Batch(&prepared.batch), prepared.len, range, limit)
}

pub fn predicates() -> Vec<SetPredicate> {
    let mut all = Vec::new();
    for measure in measures() {
        for t in [1.0 / 9.0, 0.25, 1.0 / 3.0, 0.5, 2.0 / 3.0, 0.75, 0.8, 1.0, 2.0, 3.0] {
            for inclusive in [true, false] {
                all.push(SetPredicate { measure, bounds: Bounds::at_least(t, inclusive) });
            }
        }
        let between = Bounds::at_least(0.3, true).and(Bounds::at_most(0.5, false));
        all.push(SetPredicate { measure, bounds: between });
        all.push(SetPredicate { measure, bounds: Bounds::exactly(0.5) });
        all.push(SetPredicate { measure, bounds: Bounds::at_least(0.0, false) });
        all.push(SetPredicate { measure, bounds: Bounds::at_least(f64::NAN, true) });
    }
    all
}
