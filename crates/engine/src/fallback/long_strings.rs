//! Strings that are too long for a device: where a build side has few of them, the CPU finds their pairs.

use std::fmt;

use crate::error::{Result, internal_err};
use crate::metrics::MetricValue;
use arrow::array::{Array, BooleanArray, StringViewArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;

use crate::condition::Test;
use crate::cuda::longest_string;
use crate::edits::EditPredicate;
use crate::edits::features::length_of;
use crate::edits::predicate::LONGEST_PREFIX;
use crate::views::string_views;
use crate::{
    BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PrepareContext, PreparedProbe, Probe, cpu,
    even_stretch,
};

/// One in so many strings of a build side may be long.
const SHARE: usize = 16;

/// A build side's strings, the long ones apart.
#[derive(Debug)]
pub(crate) struct LongStrings {
    predicate: EditPredicate,
    long: KeyColumn,
    others: KeyColumn,
    /// Lengths of the long strings in characters, each once, ascending.
    lengths: Vec<usize>,
    /// Number of long strings.
    count: usize,
}

/// The strings of some rows; NULL for all others.
fn only(values: &StringViewArray, groups: &Option<Vec<u32>>, rows: &BooleanBuffer) -> Result<KeyColumn> {
    Ok(KeyColumn { values: nullif(values, &BooleanArray::new(!rows, None))?, groups: groups.clone() })
}

/// What a row has beside its text once it is made ready to be compared.
const BYTES_OF_ROW: usize = 128;

/// About how many bytes strings take that are made ready.
fn bytes_of(keys: &KeyColumn) -> Result<usize> {
    let values = string_views(&keys.values)?;
    Ok(values.iter().flatten().map(|text| text.len() + BYTES_OF_ROW).sum())
}

impl LongStrings {
    /// Strings of a build side, divided; `None` where there are no long strings, or too many.
    ///
    /// # Errors
    /// Keys that are no strings.
    pub(crate) fn of(test: Test, keys: &KeyColumn) -> Result<Option<Self>> {
        let Test::Edit { measure, bounds } = test else { return Ok(None) };
        let (predicate, values) = (EditPredicate { measure, bounds }, string_views(&keys.values)?);
        let longest = longest_string(&predicate);
        // no character has less than a byte
        let is_long = |row: usize| {
            values.views()[row] as u32 as usize > longest
                && values.is_valid(row)
                && length_of(values.value(row)) > longest
        };
        let long = BooleanBuffer::collect_bool(values.len(), is_long);
        let count = long.count_set_bits();
        if count == 0 || count > values.len() / SHARE {
            return Ok(None);
        }
        let mut lengths: Vec<usize> = long.set_indices().map(|row| length_of(values.value(row))).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Ok(Some(Self {
            predicate,
            others: only(&values, &keys.groups, &!&long)?,
            long: only(&values, &keys.groups, &long)?,
            lengths,
            count,
        }))
    }

    /// All but the long ones, which are NULL among them.
    pub(crate) fn others(&self) -> &KeyColumn {
        &self.others
    }

    /// Keys that may match a long string by their lengths; all others are NULL.
    fn near(&self, keys: &KeyColumn) -> Result<KeyColumn> {
        let values = string_views(&keys.values)?;
        let is_near = |row: usize| {
            let length = length_of(values.value(row));
            let above = self.lengths.partition_point(|&long| long < length);
            let nearest = self.lengths[above.saturating_sub(1)..].iter().take(2);
            nearest.into_iter().any(|&long| self.predicate.is_possible(long, length, LONGEST_PREFIX))
        };
        let rows = BooleanBuffer::collect_bool(values.len(), |row| values.is_valid(row) && is_near(row));
        only(&values, &keys.groups, &rows)
    }
}

/// An index of the long strings of a build side, and one of all others.
#[derive(Debug)]
pub(crate) struct WithLongStrings {
    strings: LongStrings,
    others: Box<dyn Index>,
    long: Box<dyn Index>,
    own: Option<Own>,
}

/// What a self-join compares the long strings with.
struct Own {
    /// Index of the long strings themselves.
    long: Box<dyn Index>,
    /// All other strings, ready to be compared.
    others: Box<dyn PreparedProbe>,
    /// Bytes that `others` holds.
    bytes: usize,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("long", &self.long).finish_non_exhaustive()
    }
}

/// A probe batch.
struct Batch {
    others: Box<dyn PreparedProbe>,
    long: Box<dyn PreparedProbe>,
}

impl WithLongStrings {
    /// Index of the long strings, with that of the others.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    pub(crate) fn try_new(strings: LongStrings, others: Box<dyn Index>, context: &BuildContext<'_>) -> Result<Self> {
        let test = Test::Edit { measure: strings.predicate.measure, bounds: strings.predicate.bounds };
        let long = cpu::build(test, &strings.long, &BuildContext { own: false, ..*context })?;
        let by = PrepareContext { threads: context.threads, cancel: context.cancel };
        // views, and what has taken their place
        (context.reserve)(2 * strings.long.values.len() * size_of::<u128>())?;
        let own = match context.own {
            true => {
                let near = strings.near(&strings.others)?;
                let bytes = bytes_of(&near)?;
                (context.reserve)(bytes)?;
                let others = long.prepare(&near, &by)?;
                Some(Own { long: cpu::build(test, &strings.long, context)?, others, bytes })
            }
            false => None,
        };
        Ok(Self { strings, others, long, own })
    }

    /// Goes on in whichever range of positions `cursor` stands: each part has one, one after the other.
    fn probe_one(
        &self,
        parts: &[(&dyn Index, Probe<'_>, usize)],
        cursor: &mut Cursor,
        (limit, cancel): (Limit, &Cancel),
        out: &mut Pairs,
    ) -> Result<Counts> {
        let mut start = 0;
        for &(index, probe, len) in parts {
            if cursor.next < start + len {
                let mut within = Cursor { next: cursor.next - start, end: cursor.end.min(start + len) - start };
                let counts = index.probe(probe, &mut within, limit, cancel, out)?;
                cursor.next = start + within.next;
                return Ok(counts);
            }
            start += len;
        }
        Ok(Counts::default())
    }
}

impl Index for WithLongStrings {
    fn describe(&self) -> String {
        format!(
            "{}; cpu for {} strings of more than {} characters",
            self.others.describe(),
            self.strings.count,
            longest_string(&self.strings.predicate)
        )
    }

    fn memory(&self) -> usize {
        let own = self.own.as_ref().map_or(0, |own| own.long.memory() + own.bytes);
        let views = 2 * self.strings.long.values.len() * size_of::<u128>();
        self.others.memory() + self.long.memory() + own + views
    }

    fn unmatchable(&self) -> usize {
        // to either all strings of the other one are NULL
        self.others.unmatchable() + self.long.unmatchable() - self.strings.others.values.len()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.others.metrics()
    }

    fn own_len(&self) -> usize {
        self.others.own_len() + self.own.as_ref().map_or(0, |own| own.long.own_len() + own.others.len())
    }

    fn own_stretch(&self, start: usize) -> usize {
        match start < self.others.own_len() {
            true => self.others.own_stretch(start),
            false => even_stretch(start, self.own_len()),
        }
    }

    fn rows_at_once(&self) -> usize {
        self.others.rows_at_once()
    }

    fn is_shared(&self, _: Option<&dyn PreparedProbe>) -> bool {
        false
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>> {
        let (others, long) =
            (self.others.prepare(keys, context)?, self.long.prepare(&self.strings.near(keys)?, context)?);
        Ok(Box::new(Batch { others, long }))
    }

    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        if cursor.is_done() {
            return Ok(Counts::default());
        }
        let (others, long) = (self.others.as_ref(), self.long.as_ref());
        match (probe, &self.own) {
            (Probe::Own, Some(own)) => {
                let parts = [
                    (others, Probe::Own, others.own_len()),
                    (own.long.as_ref(), Probe::Own, own.long.own_len()),
                    (long, Probe::Batch(own.others.as_ref()), own.others.len()),
                ];
                self.probe_one(&parts, cursor, (limit, cancel), out)
            }
            (Probe::Batch(batch), None) => {
                let batch: &Batch = batch.of()?;
                let parts = [
                    (others, Probe::Batch(batch.others.as_ref()), batch.others.len()),
                    (long, Probe::Batch(batch.long.as_ref()), batch.long.len()),
                ];
                self.probe_one(&parts, cursor, (limit, cancel), out)
            }
            _ => internal_err!("an edit index was built for the other kind of probe"),
        }
    }
}

impl PreparedProbe for Batch {
    fn len(&self) -> usize {
        self.others.len() + self.long.len()
    }

    fn unmatchable(&self) -> usize {
        self.others.unmatchable()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::NO_GROUP;
    use crate::choice::Engine;
    use crate::condition::Bounds;
    use crate::cuda::Budget;
    use crate::cuda::test_device::device;
    use crate::edits::nested_loop::*;
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
        use EditMeasure::{Hamming, Jaro, JaroWinkler, Levenshtein, LevenshteinSimilarity, Osa};
        let mut rng = StdRng::seed_from_u64(6);
        let engine = Engine::Cuda(Budget::new(&device(), 0.5));
        let grouped = Some((0..150).map(|row| if row % 50 == 27 { NO_GROUP } else { row / 75 }).collect());
        let (at_most, at_least) = (|k| Bounds::at_most(k, true), |t| Bounds::at_least(t, true));
        for (measure, bounds) in [
            (Levenshtein, at_most(3.0)),
            (Levenshtein, at_most(90.0)),
            (Osa, at_most(1.0)),
            (Hamming, at_most(40.0)),
            (LevenshteinSimilarity, at_least(0.8)),
            (Jaro, at_least(0.7)),
            (JaroWinkler, at_least(0.95)),
        ] {
            let (predicate, test) = (EditPredicate { measure, bounds }, Test::Edit { measure, bounds });
            let longest = longest_string(&predicate);
            let [build, probe] = sides(longest, &mut rng);
            for groups in [&None, &grouped] {
                let (build_keys, probe_keys) = (key_column(&build, groups), key_column(&probe, groups));
                let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
                let index = |is_own| {
                    let context = BuildContext { own: is_own, ..BuildContext::new(2, &cancel, &reserve) };
                    let (index, _) = engine.build(test, build_keys.clone(), &context).unwrap();
                    let expected = format!("; cpu for 4 strings of more than {longest} characters");
                    assert!(index.describe().ends_with(&expected));
                    assert_eq!(index.unmatchable(), cpu::build(test, &build_keys, &context).unwrap().unmatchable());
                    index
                };
                let expected = oracle(predicate, (&build, groups), (&build, groups), true);
                for range in [17, usize::MAX] {
                    assert_eq!(own(index(true).as_ref(), range), expected, "{predicate:?}");
                }
                let expected = oracle(predicate, (&build, groups), (&probe, groups), false);
                assert!(expected.iter().any(|(build, _)| [3, 77, 78, 100].contains(build)), "{predicate:?}");
                assert_eq!(batch(index(false).as_ref(), &probe_keys, 40), expected, "{predicate:?}");
            }
        }
    }

    #[test]
    fn without_long_strings_nothing_is_set_apart() {
        let test = Test::Edit { measure: EditMeasure::Jaro, bounds: Bounds::at_least(0.9, true) };
        let long = |count: usize| -> Values {
            (0..40).map(|row| Some("\u{e9}".repeat(if row < count { 1025 } else { 1024 }))).collect()
        };
        let of = |count| LongStrings::of(test, &key_column(&long(count), &None)).unwrap();
        assert!(of(0).is_none() && of(3).is_none());
        assert_eq!(of(2).map(|strings| strings.count), Some(2));
    }
}
