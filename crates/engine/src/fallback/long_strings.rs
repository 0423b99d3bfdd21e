//! Strings that are too long for a device: where a build side has few of them, the CPU finds their pairs.

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
    AnyBatch, BuildContext, Cancel, Counts, Cursor, DynPairIndex, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs,
    PrepareContext, Prepared, Probe, cpu, even_stretch,
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
    others: Box<DynPairIndex>,
    long: Box<DynPairIndex>,
    self_join: Option<SelfJoin>,
    info: IndexInfo,
}

/// What a self-join compares the long strings with.
#[derive(Debug)]
struct SelfJoin {
    /// Index of the long strings themselves.
    long: Box<DynPairIndex>,
    /// All other strings, ready to be compared.
    others: Prepared<AnyBatch>,
    /// Bytes that `others` holds.
    bytes: usize,
}

/// A probe batch.
#[derive(Debug)]
pub struct Batch {
    others: Prepared<AnyBatch>,
    long: Prepared<AnyBatch>,
}

impl WithLongStrings {
    /// Index of the long strings, with that of the others.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    pub fn try_new(strings: LongStrings, others: Box<DynPairIndex>, context: &BuildContext<'_>) -> Result<Self> {
        let condition = Condition::Edit { measure: strings.predicate.measure, bounds: strings.predicate.bounds };
        let long = cpu::build(condition, strings.long.clone(), &BuildContext { self_join: false, ..*context })?;
        let by = PrepareContext { threads: context.threads, cancel: context.cancel };
        // views, and what has taken their place
        (context.reserve)(2 * strings.long.values.len() * size_of::<u128>())?;
        let self_join = match context.self_join {
            true => {
                let near = strings.near(&strings.others)?;
                let bytes = bytes_of(&near)?;
                (context.reserve)(bytes)?;
                let others = long.prepare(&near, &by)?;
                Some(SelfJoin { long: cpu::build(condition, strings.long.clone(), context)?, others, bytes })
            }
            false => None,
        };
        let info = known(&strings, others.info(), long.info(), self_join.as_ref());
        Ok(Self { strings, others, long, self_join, info })
    }
}

/// What is known of an index of `others` with that of the `long` strings beside it.
fn known(strings: &LongStrings, others: &IndexInfo, long: &IndexInfo, self_join: Option<&SelfJoin>) -> IndexInfo {
    let views = 2 * strings.long.values.len() * size_of::<u128>();
    let of_self_join = self_join.map_or(0, |self_join| self_join.long.info().bytes + self_join.bytes);
    let positions = |self_join: &SelfJoin| self_join.long.info().self_join_len + self_join.others.len;
    IndexInfo {
        path: format!("{}; cpu for {} strings of more than {} characters", others.path, strings.count, strings.longest),
        bytes: others.bytes + long.bytes + of_self_join + views,
        // to either all strings of the other one are NULL
        unmatchable: others.unmatchable + long.unmatchable - strings.others.values.len(),
        undecided: false,
        self_join_len: others.self_join_len + self_join.map_or(0, positions),
        rows_at_once: others.rows_at_once,
        shared: false,
    }
}

/// A range of positions: an index, and what it is probed with there.
struct Part<'a> {
    index: &'a DynPairIndex,
    probe: Probe<'a, AnyBatch>,
    len: usize,
}

impl<'a> Part<'a> {
    fn itself(index: &'a DynPairIndex) -> Self {
        Self { index, probe: Probe::SelfJoin, len: index.info().self_join_len }
    }

    fn of(index: &'a DynPairIndex, prepared: &'a Prepared<AnyBatch>) -> Self {
        Self { index, probe: Probe::Batch(&prepared.batch), len: prepared.len }
    }
}

/// Goes on in whichever range of positions `cursor` stands: each part has one, one after the other.
fn probe_one(
    parts: &[Part<'_>],
    cursor: &mut Cursor,
    limit: Limit,
    cancel: &Cancel,
    out: &mut Pairs,
) -> Result<Counts> {
    let mut start = 0;
    for part in parts {
        if cursor.next < start + part.len {
            let mut within = Cursor { next: cursor.next - start, end: cursor.end.min(start + part.len) - start };
            let counts = part.index.probe(part.probe, &mut within, limit, cancel, out)?;
            cursor.next = start + within.next;
            return Ok(counts);
        }
        start += part.len;
    }
    Ok(Counts::default())
}

impl Index for WithLongStrings {
    type Batch = Batch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.others.metrics()
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Batch>> {
        let others = self.others.prepare(keys, context)?;
        let long = self.long.prepare(&self.strings.near(keys)?, context)?;
        let (len, unmatchable) = (others.len + long.len, others.unmatchable);
        Ok(Prepared { shared: false, ..Prepared::new(Batch { others, long }, len, unmatchable) })
    }
}

impl PairIndex for WithLongStrings {
    fn self_join_stretch(&self, start: usize) -> usize {
        match start < self.others.info().self_join_len {
            true => self.others.self_join_stretch(start),
            false => even_stretch(start, self.info.self_join_len),
        }
    }

    fn probe(
        &self,
        probe: Probe<'_, Batch>,
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
                let parts =
                    [Part::itself(others), Part::itself(self_join.long.as_ref()), Part::of(long, &self_join.others)];
                probe_one(&parts, cursor, limit, cancel, out)
            }
            (Probe::Batch(batch), None) => {
                let parts = [Part::of(others, &batch.others), Part::of(long, &batch.long)];
                probe_one(&parts, cursor, limit, cancel, out)
            }
            _ => internal_err!("an edit index was built for the other kind of probe"),
        }
    }
}
