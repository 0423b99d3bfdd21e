//! Joins whose equality keys leave few rows together: their pairs are decided one by one.
//!
//! ```text
//! groups of few rows --take--> rows side by side, group by group --pair test--> pairs
//! larger groups      --------> an index
//! ```
//!
//! An index has something to say about every group, which of a group of two rows is more than the rows themselves. Rows
//! of small groups have their keys made ready as rules have them, and a batch of pairs is decided at once; a pair that
//! is decided is the same pair by either way.
//!
//! Memory: the keys of those rows once more, as the pair test wants them, four bytes a row and four a group.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, internal_err};
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;

use super::columns::{AtomDeciders, Columns};
use super::kind::IndexKind;
use crate::atoms::{AtomColumn, AtomCondition, SideColumns};
use crate::condition::{Condition, VectorCondition};
use crate::stored::{Sink, Source, Store, Stored, store_some};
use crate::{
    AnyBatch, BuildContext, Cancel, ColumnPair, Counts, Cursor, DynPairIndex, Index, IndexInfo, KeyColumn, Limit,
    NO_GROUP, PairIndex, Pairs, PrepareContext, Prepared, Probe, RowPair,
};

/// Rows of the largest group whose pairs are decided one by one: what an index of groups of this size gains is what it
/// costs.
fn most_rows(condition: Condition) -> u32 {
    match condition {
        Condition::Vector(_) => 16,
        Condition::Set { .. } | Condition::Edit { .. } => 64,
    }
}

/// Pairs that are decided at once; their places take 16 bits.
const BLOCK: usize = 4096;

/// A build side whose small groups have no index.
#[derive(Debug)]
pub(super) struct SmallGroups {
    condition: Condition,
    deciders: AtomDeciders,
    /// The keys of `rows`.
    columns: Columns,
    /// The rows of small groups, group by group.
    rows: Vec<u32>,
    /// Where the rows of each group begin, and the end of the last one; a large group has none.
    starts: Vec<u32>,
    /// Group of each of `rows`; empty where the side does not probe itself.
    self_join_groups: Vec<u32>,
    large: Option<Large>,
    self_join: bool,
    info: IndexInfo,
}

/// Large groups, and their index.
#[derive(Debug)]
struct Large {
    index: Box<DynPairIndex>,
    /// The number of each group among them.
    ids: Vec<u32>,
}

impl Large {
    /// The keys of the rows of these groups; all others have no group.
    fn keys(ids: &[u32], values: &ArrayRef, groups: &[u32]) -> KeyColumn {
        let of_large = |&group: &u32| ids.get(group as usize).copied().unwrap_or(NO_GROUP);
        KeyColumn { values: Arc::clone(values), groups: Some(groups.iter().map(of_large).collect()) }
    }
}

/// The build side for `keys` that are mostly of small groups, `None` for any other; `index` makes an index of the rest.
///
/// # Errors
/// Keys that `condition` is not about, a refused reservation, and whatever `index` fails with.
pub(super) fn build(
    condition: Condition,
    keys: &KeyColumn,
    context: &BuildContext<'_>,
    index: impl FnOnce(KeyColumn) -> Result<Box<DynPairIndex>>,
) -> Result<Option<SmallGroups>> {
    let groups = keys.groups.as_ref().filter(|_| context.overrides.small_groups);
    let Some(groups) = groups else { return Ok(None) };
    (context.reserve)((3 + usize::from(context.self_join)) * (groups.len() + 1) * size_of::<u32>())?;
    let (sizes, most) = (sizes(groups), most_rows(condition));
    let all: usize = sizes.iter().map(|&size| size as usize).sum();
    let in_small: usize = sizes.iter().filter(|size| **size <= most).map(|&size| size as usize).sum();
    let in_large = all - in_small;
    if in_small <= in_large {
        return Ok(None);
    }
    let large = match in_large {
        0 => None,
        _ => {
            (context.reserve)((groups.len() + sizes.len()) * size_of::<u32>())?;
            let ids = numbered(&sizes, most);
            Some(Large { index: index(Large::keys(&ids, &keys.values, groups))?, ids })
        }
    };
    let of_large =
        large.as_ref().map_or(0, |large| large.index.info().unmatchable.saturating_sub(groups.len() - in_large));
    let without_group = groups.len() - all;
    let (rows, starts) = by_group(groups, &sizes, most);
    let self_join_groups =
        if context.self_join { rows.iter().map(|&row| groups[row as usize]).collect() } else { Vec::new() };
    let values = taken(&keys.values, &rows, context)?;
    let side = SideColumns { rows: rows.len(), atoms: vec![AtomColumn::None], keys: vec![values] };
    let conditions = vec![AtomCondition::Similarity { key: 0, condition }];
    let (deciders, columns) = AtomDeciders::build(conditions, side, context)?;
    columns.make_ready(context.threads);
    let unmatchable = without_group + columns.unmatchable(&[vec![0]], context.threads)? + of_large;
    let mut groups = SmallGroups {
        condition,
        deciders,
        columns,
        rows,
        starts,
        self_join_groups,
        large,
        self_join: context.self_join,
        info: IndexInfo::default(),
    };
    groups.info = groups.known(unmatchable);
    Ok(Some(groups))
}

/// How many rows each group has.
fn sizes(groups: &[u32]) -> Vec<u32> {
    let mut sizes = Vec::new();
    for &group in groups.iter().filter(|group| **group != NO_GROUP) {
        if group as usize >= sizes.len() {
            sizes.resize(group as usize + 1, 0);
        }
        sizes[group as usize] += 1;
    }
    sizes
}

/// Numbers for the groups of more than `most` rows.
fn numbered(sizes: &[u32], most: u32) -> Vec<u32> {
    let mut numbers = 0..;
    sizes.iter().map(|&size| if size <= most { NO_GROUP } else { numbers.next().unwrap_or(NO_GROUP) }).collect()
}

/// The rows of the groups of up to `most` rows, group by group, and where each group begins.
fn by_group(groups: &[u32], sizes: &[u32], most: u32) -> (Vec<u32>, Vec<u32>) {
    let mut starts = Vec::with_capacity(sizes.len() + 1);
    let mut end = 0;
    // one entry ahead, each start moves to its group's end, which is the next one's start
    starts.push(0);
    for &size in sizes {
        starts.push(end);
        end += if size <= most { size } else { 0 };
    }
    let mut rows = vec![0; end as usize];
    for (row, &group) in groups.iter().enumerate() {
        if group != NO_GROUP && sizes[group as usize] <= most {
            let at = &mut starts[group as usize + 1];
            rows[*at as usize] = row as u32;
            *at += 1;
        }
    }
    (rows, starts)
}

/// The values of `rows`.
fn taken(values: &ArrayRef, rows: &[u32], context: &BuildContext<'_>) -> Result<ArrayRef> {
    if is_all(rows, values.len()) {
        return Ok(Arc::clone(values));
    }
    let share = rows.len() as f64 / values.len().max(1) as f64;
    (context.reserve)((values.get_array_memory_size() as f64 * share) as usize)?;
    Ok(take(values, &UInt32Array::from_iter_values(rows.iter().copied()), None)?)
}

/// Whether `rows` are `0..len` in order.
fn is_all(rows: &[u32], len: usize) -> bool {
    rows.len() == len && rows.iter().enumerate().all(|(at, &row)| at == row as usize)
}

/// Rows that are probed, one a position.
#[derive(Clone, Copy)]
struct Side<'a> {
    columns: &'a Columns,
    rows: &'a [u32],
    groups: &'a [u32],
}

impl SmallGroups {
    fn group(&self, group: u32) -> Range<usize> {
        match self.starts.get(group as usize..) {
            Some([start, end, ..]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }

    /// The positions that a probe position may pair with, in a self-join those behind it.
    fn partners(&self, side: Side<'_>, position: usize) -> Range<usize> {
        let group = self.group(side.groups[position]);
        if self.self_join { position + 1..group.end } else { group }
    }

    /// The pairs of the positions from the cursor on.
    fn pair(&self, side: Side<'_>, cursor: &mut Cursor, limit: Limit, cancel: &Cancel, out: &mut Pairs) -> Counts {
        let (mut block, mut passed, mut counts, before) = (Pairs::default(), Vec::new(), Counts::default(), out.len());
        let places: Vec<u16> = (0..BLOCK as u16 + most_rows(self.condition) as u16).collect();
        let is_enough = |tested: usize, found: usize| {
            tested >= limit.work || found - before >= limit.pairs || cancel.is_cancelled()
        };
        while !cursor.is_done() && !is_enough(counts.candidates, out.len()) {
            block.clear();
            let most = BLOCK.min(limit.work.saturating_sub(counts.candidates)).max(1);
            while !cursor.is_done() && block.len() < most {
                let partners = self.partners(side, cursor.next);
                partners.for_each(|partner| block.push(partner as u32, cursor.next as u32));
                cursor.next += 1;
            }
            passed.clear();
            let columns = ColumnPair { build: &self.columns, probe: side.columns };
            self.deciders.select(0, columns, &block, &places[..block.len()], &|| cancel.is_cancelled(), &mut passed);
            counts.candidates += block.len();
            for &place in &passed {
                let RowPair { build, probe } = block.at(place);
                out.push(self.rows[build as usize], side.rows[probe as usize]);
            }
        }
        Counts { verified: counts.candidates, matched: out.len() - before, ..counts }
    }
}

impl SmallGroups {
    /// What is known of the index, of whose rows so many match nothing.
    fn known(&self, unmatchable: usize) -> IndexInfo {
        let (most, rows) = (most_rows(self.condition), self.rows.len());
        let small = format!("pair by pair over {rows} rows in groups of up to {most}");
        let large = self.large.as_ref().map(|large| large.index.info());
        let numbers = self.rows.capacity() + self.starts.capacity() + self.self_join_groups.capacity();
        let ids = self.large.as_ref().map_or(0, |large| large.ids.capacity());
        // the pair test leaves to DataFusion what is DataFusion's alone to decide
        let undecided = matches!(self.condition, Condition::Vector(VectorCondition { undecided_from: Some(_), .. }));
        IndexInfo {
            path: large.map_or_else(|| small.clone(), |large| format!("{small}; {}", large.path)),
            bytes: self.deciders.memory()
                + self.columns.memory()
                + (numbers + ids) * size_of::<u32>()
                + large.map_or(0, |large| large.bytes),
            unmatchable,
            undecided: undecided || large.is_some_and(|large| large.undecided),
            self_join_len: rows + large.map_or(0, |large| large.self_join_len),
            rows_at_once: large.map_or(1, |large| large.rows_at_once),
            ..IndexInfo::default()
        }
    }
}

impl Index for SmallGroups {
    type Batch = PreparedGroups;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn stored(&self) -> Option<&dyn Store> {
        match &self.large {
            Some(large) => large.index.stored().map(|_| self as &dyn Store),
            None => Some(self),
        }
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedGroups>> {
        let Some(all) = &keys.groups else {
            return internal_err!("an index of groups was given a probe batch without");
        };
        let has_some = |row: &u32| !self.group(all[*row as usize]).is_empty();
        let rows: Vec<u32> = (0..all.len() as u32).filter(has_some).collect();
        let groups = rows.iter().map(|&row| all[row as usize]).collect();
        let values = match is_all(&rows, keys.values.len()) {
            true => Arc::clone(&keys.values),
            false => take(&keys.values, &UInt32Array::from_iter_values(rows.iter().copied()), None)?,
        };
        let side = SideColumns { rows: rows.len(), atoms: vec![AtomColumn::None], keys: vec![values] };
        let columns = self.deciders.prepare(side, context)?;
        let large =
            self.large.as_ref().map(|large| large.index.prepare(&Large::keys(&large.ids, &keys.values, all), context));
        let large = large.transpose()?;
        let unmatchable = match &large {
            Some(large) => large.unmatchable.saturating_sub(rows.len()),
            None => all.len() - rows.len(),
        };
        let unmatchable = unmatchable + columns.unmatchable(&[vec![0]], context.threads)?;
        let len = rows.len() + large.as_ref().map_or(0, |large| large.len);
        let undecided = large.as_ref().is_some_and(|large| large.undecided);
        let large = large.map(|large| large.batch);
        Ok(Prepared { undecided, ..Prepared::new(PreparedGroups { columns, rows, groups, large }, len, unmatchable) })
    }
}

impl Store for SmallGroups {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::SmallGroups.store(sink)?;
        let Self { deciders, columns, rows, starts, self_join_groups, large, info, .. } = self;
        deciders.store_only(columns, sink)?;
        rows.store(sink)?;
        starts.store(sink)?;
        self_join_groups.store(sink)?;
        info.store(sink)?;
        large.is_some().store(sink)?;
        large.iter().try_for_each(|Large { index, ids }| {
            ids.store(sink)?;
            store_some(index.stored(), sink)
        })
    }
}

impl SmallGroups {
    /// Reads the build side of the same condition; `index` reads the index of large groups.
    ///
    /// # Errors
    /// Bytes that are no such build side.
    pub(super) fn load(
        condition: Condition,
        source: &mut Source<'_>,
        context: &BuildContext<'_>,
        index: impl FnOnce(&mut Source<'_>) -> Result<Box<DynPairIndex>>,
    ) -> Result<Self> {
        let (deciders, columns) = AtomDeciders::load_only(condition, source, context.threads)?;
        columns.make_ready(context.threads);
        Ok(Self {
            condition,
            deciders,
            columns,
            rows: Stored::load(source)?,
            starts: Stored::load(source)?,
            self_join_groups: Stored::load(source)?,
            self_join: context.self_join,
            info: Stored::load(source)?,
            large: match bool::load(source)? {
                true => Some(Large { ids: Stored::load(source)?, index: index(source)? }),
                false => None,
            },
        })
    }
}

impl PairIndex for SmallGroups {
    fn probe(
        &self,
        probe: Probe<'_, PreparedGroups>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let self_join = Side { columns: &self.columns, rows: &self.rows, groups: &self.self_join_groups };
        let (side, rest) = match probe {
            Probe::SelfJoin if self.self_join => (self_join, Some(Probe::SelfJoin)),
            Probe::Batch(batch) if !self.self_join => {
                let PreparedGroups { columns, rows, groups, large } = batch;
                (Side { columns, rows, groups }, large.as_ref().map(Probe::Batch))
            }
            _ => return internal_err!("an index of groups was built for the other kind of probe"),
        };
        let small = side.rows.len();
        if cursor.next < small {
            let mut positions = Cursor { next: cursor.next, end: cursor.end.min(small) };
            let counts = self.pair(side, &mut positions, limit, cancel, out);
            cursor.next = positions.next;
            return Ok(counts);
        }
        let (Some(large), Some(rest)) = (&self.large, rest) else {
            cursor.next = cursor.end;
            return Ok(Counts::default());
        };
        let mut positions = Cursor { next: cursor.next - small, end: cursor.end - small };
        let counts = large.index.probe(rest, &mut positions, limit, cancel, out)?;
        cursor.next = positions.next + small;
        Ok(counts)
    }
}

/// A probe batch.
pub(super) struct PreparedGroups {
    /// The keys of `rows`.
    columns: Columns,
    /// Rows whose groups are small.
    rows: Vec<u32>,
    /// The group of each of them.
    groups: Vec<u32>,
    /// The batch as the index of the large groups wants it.
    large: Option<AnyBatch>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::{ListArray, StringArray};
    use arrow::datatypes::Float64Type;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::condition::Bounds;
    use crate::cpu;
    use similarity_measures::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};

    type Found = BTreeSet<(u32, u32)>;

    fn tests() -> [Condition; 4] {
        let vector = |undecided_from| VectorCondition {
            measure: VectorMeasure::L2,
            bounds: Bounds::at_most(0.3, true),
            undecided_from,
        };
        [
            Condition::Set {
                tokenizer: Tokenizer::Words,
                measure: SetMeasure::JACCARD,
                bounds: Bounds::at_least(0.5, true),
            },
            Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(3.0, true) },
            Condition::Vector(vector(None)),
            Condition::Vector(vector(Some(465))),
        ]
    }

    /// Values, NULLs among them, in groups of which most are small, or have only one row.
    fn keys(condition: Condition, rows: usize, rng: &mut StdRng) -> KeyColumn {
        let values: ArrayRef = match condition {
            Condition::Vector(_) => {
                let mut vector = || (0..2).map(|_| Some(rng.random_range(0.0..1.0))).collect::<Vec<_>>();
                let vectors: Vec<_> = (0..rows).map(|row| (row % 7 > 0).then(&mut vector)).collect();
                Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vectors))
            }
            _ => {
                let mut words = || (0..3).map(|_| format!("w{} ", rng.random_range(0..5))).collect::<String>();
                Arc::new((0..rows).map(|row| (row % 7 > 0).then(&mut words)).collect::<StringArray>())
            }
        };
        let mut group = || match rng.random_range(0..12) {
            0 => NO_GROUP,
            1..5 => 0,
            _ => rng.random_range(1..150),
        };
        KeyColumn { values, groups: Some((0..rows).map(|_| group()).collect()) }
    }

    fn run<I: PairIndex + ?Sized>(
        index: &I,
        probe: Probe<'_, I::Batch>,
        len: usize,
        range: usize,
        limit: Limit,
    ) -> Found {
        let mut found = Found::new();
        for next in (0..len).step_by(range) {
            let mut cursor = Cursor { next, end: len.min(next + range) };
            while !cursor.is_done() {
                let (before, mut pairs) = (cursor.next, Pairs::default());
                let counts = index.probe(probe, &mut cursor, limit, &Cancel::default(), &mut pairs).unwrap();
                assert!(cursor.next > before && counts.matched == pairs.len());
                for (&b, &p) in pairs.build.iter().zip(&pairs.probe) {
                    let pair = if matches!(probe, Probe::SelfJoin) { (b.min(p), b.max(p)) } else { (b, p) };
                    assert!(found.insert(pair), "{pair:?} came twice");
                }
            }
        }
        found
    }

    #[test]
    fn finds_what_an_index_finds() {
        let mut rng = StdRng::seed_from_u64(5);
        for case in 0..80 {
            let condition = tests()[case % 4];
            let (build, probe) = (keys(condition, 400, &mut rng), keys(condition, 300, &mut rng));
            let (range, limit) = match case % 3 {
                0 => (usize::MAX, Limit { pairs: usize::MAX, work: usize::MAX }),
                n => (7, Limit { pairs: n, work: 5 }),
            };
            let cancel = Cancel::default();
            for self_join in [false, true] {
                let context = BuildContext { self_join, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
                let plain = cpu::index(condition, build.clone(), &context).unwrap();
                let groups = super::build(condition, &build, &context, |keys| cpu::index(condition, keys, &context));
                let groups = groups.unwrap().expect("most groups are small");
                assert!(groups.large.is_some() && groups.info().unmatchable == plain.info().unmatchable);
                if self_join {
                    let expected = run(plain.as_ref(), Probe::SelfJoin, plain.info().self_join_len, usize::MAX, limit);
                    assert_eq!(
                        run(&groups, Probe::SelfJoin, groups.info().self_join_len, range, limit),
                        expected,
                        "{condition}"
                    );
                    assert!(!expected.is_empty());
                    continue;
                }
                let prepared = plain.prepare(&probe, &PrepareContext::by(1)).unwrap();
                let expected = run(plain.as_ref(), Probe::Batch(&prepared.batch), prepared.len, usize::MAX, limit);
                let prepared = groups.prepare(&probe, &PrepareContext::by(1)).unwrap();
                let found = run(&groups, Probe::Batch(&prepared.batch), prepared.len, range, limit);
                assert_eq!(found, expected, "{condition}");
                assert!(!expected.is_empty());
            }
        }
    }

    #[test]
    fn large_groups_are_left_to_an_index() {
        let cancel = Cancel::default();
        let context = BuildContext::new(1, &cancel, &|_| Ok(()));
        let condition = tests()[1];
        let mut keys = keys(condition, 100, &mut StdRng::seed_from_u64(1));
        let groups =
            |keys: &KeyColumn| super::build(condition, keys, &context, |keys| cpu::index(condition, keys, &context));
        keys.groups = Some(vec![0; 100]);
        assert!(groups(&keys).unwrap().is_none());
        keys.groups = Some(vec![NO_GROUP; 100]);
        assert!(groups(&keys).unwrap().is_none());
        keys.groups = None;
        assert!(groups(&keys).unwrap().is_none());
    }
}
