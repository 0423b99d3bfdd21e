//! The index of a build side, and the probe batches that it makes ready.

use datafusion::common::{Result, exec_err, internal_err};

use super::predicate::EditPredicate;
use super::texts::{Families, Texts};
use super::tiles::{Sides, Tested, Tiles, Work};
use crate::engine::{BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PreparedProbe, Probe};

/// A build side's strings, ready for probing with one predicate.
#[derive(Debug)]
pub struct EditIndex {
    predicate: EditPredicate,
    own: bool,
    texts: Texts,
    families: Families,
    tiles: Tiles,
}

/// From this mean length on, bigrams tell strings apart better than characters do.
const LONG_ENOUGH_FOR_BIGRAMS: usize = 12;

impl EditIndex {
    /// Copies the strings of `keys` in order and signs them.
    ///
    /// # Errors
    /// Keys that are no strings, a refused reservation, a cancelled build.
    pub fn try_new(predicate: EditPredicate, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Self> {
        let BuildContext { threads, own, cancel, reserve, .. } = *context;
        let texts = Texts::try_new(&predicate, keys, threads, cancel, reserve)?;
        if cancel.is_cancelled() {
            return exec_err!("the query was cancelled");
        }
        reserve(Tiles::size(texts.len()))?;
        let characters: usize = texts.lengths.iter().map(|&l| l as usize).sum();
        let long = characters >= LONG_ENOUGH_FOR_BIGRAMS * texts.len();
        let tested = if !predicate.is_jaro() && long { Tested::Bigrams } else { Tested::Characters };
        let (families, tiles) = (Families::of(&texts), Tiles::build(&texts, tested));
        Ok(Self { predicate, own, texts, families, tiles })
    }

    fn sides<'a>(&'a self, probe: Probe<'a>) -> Result<Sides<'a>> {
        let probe = match probe {
            Probe::Own if self.own => &self.texts,
            Probe::Batch(batch) if !self.own => match batch.as_any().downcast_ref::<PreparedTexts>() {
                Some(prepared) => &prepared.0,
                None => return internal_err!("an edit index was given a probe batch that it did not prepare"),
            },
            _ => return internal_err!("an edit index was built for the other kind of probe"),
        };
        let Self { predicate, texts, families, own, .. } = self;
        Ok(Sides { predicate, build: texts, families, probe, own: *own })
    }
}

impl Index for EditIndex {
    fn describe(&self) -> String {
        self.tiles.describe()
    }

    fn memory(&self) -> usize {
        self.texts.memory() + self.families.memory() + self.tiles.memory()
    }

    fn unmatchable(&self) -> usize {
        self.texts.unmatchable
    }

    fn own_len(&self) -> usize {
        self.texts.len()
    }

    fn prepare(&self, keys: &KeyColumn) -> Result<Box<dyn PreparedProbe>> {
        if self.own {
            return internal_err!("an edit index was built for a self-join and given another input");
        }
        let texts = Texts::try_new(&self.predicate, keys, 1, &Cancel::default(), &|_| Ok(()))?;
        Ok(Box::new(PreparedTexts(texts)))
    }

    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let sides = self.sides(probe)?;
        let mut work = Work::new(limit, cancel, out);
        self.tiles.probe(&sides, cursor, &mut work);
        Ok(Counts { matched: work.matched(), ..work.counts })
    }
}

/// A probe batch in the order of the index.
struct PreparedTexts(Texts);

impl PreparedProbe for PreparedTexts {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn unmatchable(&self) -> usize {
        self.0.unmatchable
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use datafusion::arrow::array::StringArray;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::NO_GROUP;
    use crate::measure::EditMeasure;
    use crate::predicate::Bounds;

    type Values = Vec<Option<String>>;
    type Groups = Option<Vec<u32>>;
    type Found = BTreeSet<(u32, u32)>;

    const UNLIMITED: Limit = Limit { pairs: usize::MAX, work: usize::MAX };

    /// Strings and noisy copies of them: empty, short, long, non-ASCII, NULL.
    fn strings(rows: usize, rng: &mut StdRng) -> Values {
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

    fn predicates() -> Vec<EditPredicate> {
        use EditMeasure::{DamerauLevenshtein, Hamming, Jaro, JaroWinkler, Levenshtein, LevenshteinSimilarity, Osa};
        let mut made = Vec::new();
        for measure in [Levenshtein, Osa, DamerauLevenshtein, Hamming] {
            for k in [-1.0, 0.0, 1.0, 2.0, 3.5, 6.0, 200.0] {
                made.push(EditPredicate { measure, bounds: Bounds::at_most(k, true) });
            }
            made.push(EditPredicate { measure, bounds: Bounds::at_most(3.0, false).and(Bounds::at_least(1.0, true)) });
        }
        for measure in [LevenshteinSimilarity, Jaro, JaroWinkler] {
            for t in [1e-9, 0.3, 0.5, 2.0 / 3.0, 0.7, 0.75, 0.8, 0.9, 0.95, 1.0, 1.5] {
                made.push(EditPredicate { measure, bounds: Bounds::at_least(t, true) });
                made.push(EditPredicate { measure, bounds: Bounds::at_least(t, false) });
            }
        }
        made
    }

    fn oracle(predicate: EditPredicate, build: (&Values, &Groups), probe: (&Values, &Groups), own: bool) -> Found {
        let mut found = Found::new();
        for (b, left) in build.0.iter().enumerate() {
            for (p, right) in probe.0.iter().enumerate() {
                let (Some(left), Some(right)) = (left, right) else { continue };
                let together = match (build.1, probe.1) {
                    (Some(l), Some(r)) => l[b] != NO_GROUP && l[b] == r[p],
                    _ => true,
                };
                let held = predicate.measure.score(left, right).is_some_and(|score| predicate.bounds.contains(score));
                if together && held && (!own || b < p) {
                    found.insert((b as u32, p as u32));
                }
            }
        }
        found
    }

    fn index(predicate: EditPredicate, keys: &KeyColumn, own: bool) -> EditIndex {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { threads: 2, own, probe_rows: None, cancel: &cancel, reserve: &reserve };
        EditIndex::try_new(predicate, keys, &context).unwrap()
    }

    fn run(index: &EditIndex, probe: Probe<'_>, len: usize, range: usize, limit: Limit) -> Found {
        let mut found = Found::new();
        for next in (0..len).step_by(range) {
            let mut cursor = Cursor { next, end: len.min(next + range) };
            while !cursor.is_done() {
                let (before, mut pairs) = (cursor.next, Pairs::default());
                index.probe(probe, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
                assert!(cursor.next > before);
                for (&b, &p) in pairs.build.iter().zip(&pairs.probe) {
                    let pair = if matches!(probe, Probe::Own) { (b.min(p), b.max(p)) } else { (b, p) };
                    assert!(found.insert(pair), "{pair:?} came twice");
                }
            }
        }
        found
    }

    fn keys(values: &Values, groups: &Groups) -> KeyColumn {
        KeyColumn { values: Arc::new(StringArray::from(values.clone())), groups: groups.clone() }
    }

    #[test]
    fn every_predicate_finds_what_a_nested_loop_finds() {
        for (case, predicate) in predicates().into_iter().enumerate() {
            let mut rng = StdRng::seed_from_u64(case as u64);
            let (build, probe) = (strings(90, &mut rng), strings(60, &mut rng));
            let mut groups = |rows: usize| -> Groups {
                let some = case % 2 == 1;
                some.then(|| (0..rows).map(|_| [0, 1, 2, NO_GROUP][rng.random_range(0..4)]).collect())
            };
            let (of_build, of_probe) = (groups(90), groups(60));
            let (build_keys, probe_keys) = (keys(&build, &of_build), keys(&probe, &of_probe));
            let limit = Limit { pairs: 1 + case % 3, work: 50 };

            let own = index(predicate, &build_keys, true);
            let expected = oracle(predicate, (&build, &of_build), (&build, &of_build), true);
            assert_eq!(run(&own, Probe::Own, own.own_len(), usize::MAX, UNLIMITED), expected, "{predicate:?}");
            assert_eq!(run(&own, Probe::Own, own.own_len(), 7, limit), expected, "{predicate:?}");

            let both = index(predicate, &build_keys, false);
            let prepared = both.prepare(&probe_keys).unwrap();
            let expected = oracle(predicate, (&build, &of_build), (&probe, &of_probe), false);
            let batch = Probe::Batch(prepared.as_ref());
            assert_eq!(run(&both, batch, prepared.len(), usize::MAX, UNLIMITED), expected, "{predicate:?}");
            assert_eq!(run(&both, batch, prepared.len(), 9, limit), expected, "{predicate:?}");
        }
    }

    #[test]
    fn identical_strings_stop_at_the_limit() {
        let values: Values = vec![Some("the same string again".into()); 100_000];
        let predicate = EditPredicate { measure: EditMeasure::Levenshtein, bounds: Bounds::at_most(2.0, true) };
        let index = index(predicate, &keys(&values, &None), true);
        let mut cursor = Cursor { next: 60_000, end: 100_000 };
        let mut pairs = Pairs::default();
        let limit = Limit { pairs: 10, work: usize::MAX };
        index.probe(Probe::Own, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
        assert!(pairs.len() >= 10 && pairs.len() < 400_000, "{}", pairs.len());
    }
}
