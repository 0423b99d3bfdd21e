//! Strings that are too long for a device: where a build side has few of them, the CPU finds their pairs.

use std::fmt;

use crate::error::{Result, internal_err};
use crate::metrics::MetricValue;
use arrow::array::{Array, BooleanArray, StringViewArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;

use crate::accelerator::Accelerator;
use crate::condition::Condition;
use crate::strings::EditPredicate;
use crate::strings::features::length_of;
use crate::strings::predicate::LONGEST_PREFIX;
use crate::views::string_views;
use crate::{
    BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PrepareContext, PreparedProbe, Probe, cpu,
    even_stretch,
};

/// One in so many strings of a build side may be long.
const SHARE: usize = 16;

/// A build side's strings, the long ones apart.
#[derive(Debug)]
pub struct LongStrings {
    predicate: EditPredicate,
    /// Characters of the longest string that the device compares.
    longest: usize,
    long: KeyColumn,
    others: KeyColumn,
    /// Lengths of the long strings in characters, each once, ascending.
    lengths: Vec<usize>,
    /// Number of long strings.
    pub count: usize,
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
    pub fn of(device: &dyn Accelerator, condition: Condition, keys: &KeyColumn) -> Result<Option<Self>> {
        let Condition::Edit { measure, bounds } = condition else { return Ok(None) };
        let (predicate, values) = (EditPredicate { measure, bounds }, string_views(&keys.values)?);
        let longest = device.longest_string(&predicate);
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
            longest,
            others: only(&values, &keys.groups, &!&long)?,
            long: only(&values, &keys.groups, &long)?,
            lengths,
            count,
        }))
    }

    /// All but the long ones, which are NULL among them.
    pub fn others(&self) -> &KeyColumn {
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
pub struct WithLongStrings {
    strings: LongStrings,
    others: Box<dyn Index>,
    long: Box<dyn Index>,
    self_join: Option<SelfJoin>,
}

/// What a self-join compares the long strings with.
struct SelfJoin {
    /// Index of the long strings themselves.
    long: Box<dyn Index>,
    /// All other strings, ready to be compared.
    others: Box<dyn PreparedProbe>,
    /// Bytes that `others` holds.
    bytes: usize,
}

impl fmt::Debug for SelfJoin {
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
    pub fn try_new(strings: LongStrings, others: Box<dyn Index>, context: &BuildContext<'_>) -> Result<Self> {
        let condition = Condition::Edit { measure: strings.predicate.measure, bounds: strings.predicate.bounds };
        let long = cpu::build(condition, &strings.long, &BuildContext { self_join: false, ..*context })?;
        let by = PrepareContext { threads: context.threads, cancel: context.cancel };
        // views, and what has taken their place
        (context.reserve)(2 * strings.long.values.len() * size_of::<u128>())?;
        let self_join = match context.self_join {
            true => {
                let near = strings.near(&strings.others)?;
                let bytes = bytes_of(&near)?;
                (context.reserve)(bytes)?;
                let others = long.prepare(&near, &by)?;
                Some(SelfJoin { long: cpu::build(condition, &strings.long, context)?, others, bytes })
            }
            false => None,
        };
        Ok(Self { strings, others, long, self_join })
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
            self.strings.longest
        )
    }

    fn memory(&self) -> usize {
        let self_join = self.self_join.as_ref().map_or(0, |self_join| self_join.long.memory() + self_join.bytes);
        let views = 2 * self.strings.long.values.len() * size_of::<u128>();
        self.others.memory() + self.long.memory() + self_join + views
    }

    fn unmatchable(&self) -> usize {
        // to either all strings of the other one are NULL
        self.others.unmatchable() + self.long.unmatchable() - self.strings.others.values.len()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.others.metrics()
    }

    fn self_join_len(&self) -> usize {
        self.others.self_join_len()
            + self.self_join.as_ref().map_or(0, |self_join| self_join.long.self_join_len() + self_join.others.len())
    }

    fn self_join_stretch(&self, start: usize) -> usize {
        match start < self.others.self_join_len() {
            true => self.others.self_join_stretch(start),
            false => even_stretch(start, self.self_join_len()),
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
        match (probe, &self.self_join) {
            (Probe::SelfJoin, Some(self_join)) => {
                let parts = [
                    (others, Probe::SelfJoin, others.self_join_len()),
                    (self_join.long.as_ref(), Probe::SelfJoin, self_join.long.self_join_len()),
                    (long, Probe::Batch(self_join.others.as_ref()), self_join.others.len()),
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
