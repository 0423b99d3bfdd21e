//! A build side ready for all clauses of a condition.

use std::sync::{Arc, Mutex};

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_plan::metrics::{Count, MetricValue};

use super::entry::{Access, Building, EntryIndex};
use super::grouping::Grouping;
use super::on_device::{SharedStrings, bring_ahead};
use super::places::ProbePlaces;
use super::statistics::{BuildStatistics, Sample};
use crate::engine::atoms::{AtomColumn, AtomTest, PairConditions, SideColumns, Tally};
use crate::engine::choice::Engine;
use crate::engine::cpu::columns::{Columns, Tests};
use crate::engine::cpu::rules::probing::{Candidates, EntryPaths, Memory, Probing};
use crate::engine::cpu::rules::walk::{Path, Walk};
use crate::engine::cuda::rules::{ColumnsOnDevice, EntryOnDevice, RulesOnDevice, read_ahead};
use crate::engine::cuda::{Budget, DeviceFull};
use crate::engine::keys::{Codes, Groups, NumberedBy};
use crate::engine::parallel::{both, each_in_turn, in_turn, threads_within};
use crate::engine::pays::RULES;
use crate::engine::reason::{CPU_FALLBACKS, Reason};
use crate::engine::{
    BuildContext, Cancel, Counts, Cursor, KeyColumn, Limit, Pairs, PrepareContext, PreparedProbe, Probe,
};
use crate::program::{AtomKind, Entry, EntryGroup, ExecutionTree, RulePlan};

/// What an index of rules is built for.
#[derive(Debug, Clone)]
pub struct RuleSource {
    /// How each atom is decided.
    pub tests: Vec<AtomTest>,
    /// What each atom is to the plan.
    pub kinds: Vec<AtomKind>,
    /// The atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
}

/// A build side with the entries of all clauses and their execution trees.
#[derive(Debug)]
pub struct RuleIndex {
    pub(super) tests: Tests,
    /// What a probe side is looked up in, for each atom that is an equality.
    groups: Vec<Option<Groups>>,
    pub(super) columns: Columns,
    /// Whether the build side is its own probe side.
    pub(super) own: bool,
    plan: RulePlan,
    pub(super) entries: Vec<EntryIndex>,
    clauses: Vec<Vec<usize>>,
    unmatchable: usize,
    /// What a device has counted that has grouped the rows.
    counted: Vec<MetricValue>,
    /// Where some entries are walked on a device.
    pub(super) device: Option<RulesOnDevice>,
    /// Why they are, or why not.
    reason: Reason,
    /// How often the CPU has taken over what a device has no room for: a probe batch, or a stretch of one.
    fallbacks: Count,
    scratch: Mutex<Vec<Memory>>,
}

/// A probe batch ready for all clauses.
pub struct PreparedRules {
    columns: Columns,
    /// The same on a device.
    pub(super) on_device: Option<ColumnsOnDevice>,
    pub(super) entries: Vec<PreparedEntry>,
    unmatchable: usize,
}

impl PreparedRules {
    /// Rows for which no clause can hold, whatever the build side has.
    pub fn unmatchable(&self) -> usize {
        self.unmatchable
    }
}

pub(super) enum PreparedEntry {
    Places(Box<ProbePlaces>),
    Index(Box<dyn PreparedProbe>),
}

impl RuleIndex {
    /// Plans the clauses over a build side and builds their entries.
    ///
    /// # Errors
    /// Keys of a type that their measure cannot read, a refused reservation, a cancelled build.
    pub fn try_new(source: RuleSource, side: SideColumns, engine: &Engine, context: &BuildContext<'_>) -> Result<Self> {
        let RuleSource { tests, kinds, clauses } = source;
        let all_threads = context.threads;
        let keys = side.keys.clone();
        let numbering = engine.budget_of_keys(side.rows, context);
        numbering.iter().for_each(|budget| read_ahead(budget, context.cancel));
        context.cancel.check()?;
        let equalities: Vec<Option<(ArrayRef, bool)>> = side.atoms.iter().map(AtomColumn::values).collect();
        let shared = match &numbering {
            Some(_) if context.own => SharedStrings::of(&tests, &clauses, &equalities, &keys),
            _ => SharedStrings::default(),
        };
        let (coded, brought) = both(
            || code(&equalities, |atom| !shared.has(atom), numbering.as_ref(), context),
            // what a device is brought for similarities asks for no codes
            || {
                let (tests, columns) = Tests::build(tests, side, context)?;
                let ahead = match &numbering {
                    Some(budget) => bring_ahead(budget, (&tests, &columns), &clauses, &shared, all_threads)?,
                    None => None,
                };
                Ok::<_, DataFusionError>((tests, columns, ahead))
            },
        );
        let (mut coded, (tests, mut columns, mut ahead)) = (coded?, brought?);
        for &(equality, atom) in &shared.pairs {
            if let Some(codes) = ahead.as_mut().and_then(|rules| rules.take_codes(atom)) {
                (context.reserve)(codes.memory())?;
                coded[equality] = Some((Groups::Own, codes));
            }
        }
        // the others ask for no column of a build side once more
        numbering.iter().for_each(Budget::forget_sent);
        // strings that were not brought, or that the device could not tell apart
        let is_missing = |atom: usize| shared.has(atom) && coded[atom].is_none();
        let missing = code(&equalities, is_missing, numbering.as_ref(), context)?;
        coded.iter_mut().zip(missing).for_each(|(coded, missing)| *coded = coded.take().or(missing));
        let mut groups = Vec::with_capacity(coded.len());
        for (column, coded) in columns.atoms.iter_mut().zip(coded) {
            let (of_atom, codes) = coded.unzip();
            groups.push(of_atom);
            codes.into_iter().for_each(|codes| *column = AtomColumn::Codes(codes));
        }
        context.cancel.check()?;
        (context.reserve)(clauses.len() * columns.rows * size_of::<u32>())?;
        let (unmatchable, planned) = both(
            || columns.unmatchable(&clauses, all_threads),
            || {
                let sample = || Sample::of((&columns, &tests), &keys, ahead.as_mut(), all_threads);
                let (build, device) = ((&columns, keys.as_slice()), numbering.as_ref());
                let statistics = BuildStatistics::new(&tests, build, sample, &clauses, device, context)?;
                let plan =
                    RulePlan::of(&kinds, &clauses, &statistics, |count, group| each_in_turn(count, all_threads, group));
                context.cancel.check()?;
                // entries side by side; one alone may use all threads
                let threads = if plan.groups.len() > 1 { 1 } else { context.threads };
                let context = BuildContext { threads, ..*context };
                let building =
                    Building { tests: &tests, columns: &columns, keys: &keys, statistics: &statistics, engine };
                let build = || in_turn(plan.groups.len(), all_threads, |at| building.entry(&plan.groups[at], &context));
                let walks = |group: &EntryGroup| !matches!(group.entry, Entry::Index { .. });
                let ahead = ahead.filter(|_| plan.groups.iter().any(walks));
                let built = match build() {
                    // an index needs the device's memory more than what is walked
                    Err(error) if ahead.is_some() && DeviceFull::is_cause_of(&error) => {
                        drop(ahead);
                        (build()?, None)
                    }
                    entries => (entries?, ahead),
                };
                Ok::<_, DataFusionError>((plan, built))
            },
        );
        let (unmatchable, (plan, (entries, ahead))) = (unmatchable?, planned?);
        let (device, fallbacks, scratch) = (None, Count::new(), Mutex::default());
        let counted = numbering.as_ref().map_or_else(Vec::new, Budget::metrics);
        let own = context.own;
        let mut index = Self {
            tests,
            groups,
            columns,
            own,
            plan,
            entries,
            clauses,
            unmatchable,
            counted,
            device,
            reason: Reason::default(),
            fallbacks,
            scratch,
        };
        // what has numbered the keys walks the rules
        let (walking, reason) = match numbering {
            Some(budget) => (Some(budget), Reason::default()),
            None => engine.budget(RULES, || Ok(index.work(context)))?,
        };
        index.reason = reason;
        if let Some(budget) = walking {
            read_ahead(&budget, context.cancel);
            context.cancel.check()?;
            let (device, refused) = index.bring_to_device(&budget, ahead, all_threads)?;
            index.device = device;
            if let Some(refused) = refused {
                index.reason = index.reason.but(refused, (index.columns.rows, index.unmatchable));
            }
        }
        context.cancel.check()?;
        if index.entries.iter().any(|entry| entry.device.is_none()) {
            index.columns.fetch_codes(all_threads)?;
            index.columns.make_ready(all_threads);
        }
        Ok(index)
    }

    /// About how many nanoseconds a core takes for the pairs of the entries that a device can walk.
    fn work(&self, context: &BuildContext<'_>) -> u64 {
        let rows = match context.own {
            true => self.columns.rows as f64 / 2.0,
            false => context.expected_probe_rows(self.columns.rows) as f64,
        };
        let of_entry = |(entry, group): (&EntryIndex, &EntryGroup)| match self.is_for_a_device(entry) {
            true => rows * group.partners * group.cost,
            false => 0.0,
        };
        self.entries.iter().zip(&self.plan.groups).map(of_entry).sum::<f64>() as u64
    }

    /// Verifies the candidates of an entry by another tree of the same clauses: what the chosen one is measured against.
    pub fn replace_tree(&mut self, entry: usize, tree: &ExecutionTree) {
        self.entries[entry].device = None;
        self.entries[entry].tree =
            Path::new(tree.clone(), self.tests.kinds.len()).with_filters(&self.tests, &self.columns);
        // what threads keep is of the other tree
        self.scratch = Mutex::default();
    }

    /// How the clauses are entered and verified.
    pub fn plan(&self) -> &RulePlan {
        &self.plan
    }

    /// What the index of each entry has chosen, or where its candidates are walked and why, where there is something to say.
    pub fn chosen(&self) -> Vec<String> {
        let chosen = |entry: &EntryIndex| match (&entry.access, &self.device, &entry.device) {
            (Access::Index { index, reason, .. }, ..) => format!("{}{reason}", index.describe()),
            (_, Some(rules), Some(_)) => format!("walked on {}{}", rules.device(), self.reason.weighed()),
            _ if self.is_for_a_device(entry) && !self.reason.to_string().is_empty() => {
                format!("walked on the cpu{}", self.reason)
            }
            (Access::Hash { .. } | Access::Band { .. }, ..) => String::new(),
        };
        self.entries.iter().map(chosen).collect()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let entries = self.entries.iter().map(|entry| match &entry.access {
            // as if the CPU had asked for the ends
            Access::Hash { grouping, .. } if self.own => grouping.memory() + grouping.len() * size_of::<u32>(),
            Access::Hash { grouping, .. } => grouping.memory(),
            Access::Band { order, ends, .. } => {
                order.grouping.memory() + order.memory() + ends.capacity() * size_of::<u32>()
            }
            Access::Index { index, grouping, .. } => {
                index.memory() + grouping.as_ref().map_or(0, |grouping| grouping.memory())
            }
        });
        let on_device = self.entries.iter().filter_map(|entry| entry.device.as_ref());
        let items: usize = on_device.map(EntryOnDevice::memory).sum();
        let groups: usize = self.groups.iter().flatten().map(Groups::memory).sum();
        self.tests.memory() + groups + self.columns.memory() + entries.sum::<usize>() + items
    }

    /// What its indexes, and what is walked on a device, have counted.
    pub fn metrics(&self) -> Vec<MetricValue> {
        let indexed = self.entries.iter().flat_map(|entry| match &entry.access {
            Access::Index { index, reason, .. } => index.metrics().into_iter().chain(reason.metric()).collect(),
            Access::Hash { .. } | Access::Band { .. } => Vec::new(),
        });
        let fallbacks = MetricValue::Count { name: CPU_FALLBACKS.into(), count: self.fallbacks.clone() };
        let walked = self.device.iter().flat_map(|rules| rules.metrics().into_iter().chain([fallbacks.clone()]));
        indexed.chain(walked).chain(self.reason.metric()).chain(self.counted.iter().cloned()).collect()
    }

    /// Whether a probe that takes more than one call is faster where several threads share what is left of it: unless all
    /// entries are walked on a device.
    pub fn is_shared(&self, probe: Option<&PreparedRules>) -> bool {
        let prepared = |entry: usize| match probe.map(|probe| &probe.entries[entry]) {
            Some(PreparedEntry::Index(prepared)) => Some(prepared.as_ref()),
            Some(PreparedEntry::Places(_)) | None => None,
        };
        (0..self.entries.len()).any(|entry| match &self.entries[entry].access {
            Access::Index { index, .. } => index.is_shared(prepared(entry)),
            Access::Hash { .. } | Access::Band { .. } => self.on_device(entry, probe).is_none(),
        })
    }

    /// How many rows of a probe side are best made ready at once.
    pub fn rows_at_once(&self) -> usize {
        let of_entry = |entry: &EntryIndex| match &entry.access {
            Access::Index { index, .. } => index.rows_at_once(),
            Access::Hash { .. } | Access::Band { .. } if entry.device.is_some() => ROWS_AT_ONCE,
            Access::Hash { .. } | Access::Band { .. } => 1,
        };
        self.entries.iter().map(of_entry).max().unwrap_or(1)
    }

    /// Rows of the build side for which no clause can hold, whatever the other side has.
    pub fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    /// Makes a batch of the probe side ready.
    ///
    /// # Errors
    /// Keys of a type that their measure cannot read.
    pub fn prepare(&self, mut side: SideColumns, context: &PrepareContext<'_>) -> Result<PreparedRules> {
        let threads = context.threads;
        let keys = side.keys.clone();
        let coded = in_turn(side.atoms.len(), threads, |atom| match (&self.groups[atom], side.atoms[atom].values()) {
            (Some(groups), Some((values, _))) => groups.look_up(&[values]).map(Some),
            _ => Ok(None),
        })?;
        for ((column, codes), groups) in side.atoms.iter_mut().zip(coded).zip(&self.groups) {
            let Some(codes) = codes else { continue };
            let by_tables = matches!(groups, Some(Groups::Device(_))) && codes.on_device().is_none();
            self.fallbacks.add(usize::from(by_tables));
            *column = AtomColumn::Codes(codes);
        }
        let columns = self.tests.prepare(side, context)?;
        let on_device = match &self.device {
            Some(rules) => {
                let prepared = rules.prepare(&columns, threads)?;
                self.fallbacks.add(usize::from(prepared.is_none()));
                prepared
            }
            None => None,
        };
        let walking = on_device.as_ref().and(self.device.as_ref());
        let entries = in_turn(self.entries.len(), threads, |at| {
            let entry = &self.entries[at];
            Ok(match (&entry.access, &self.plan.groups[at].entry) {
                (Access::Index { index, grouping, .. }, Entry::Index { atom, .. }) => {
                    let AtomTest::Similarity { key, .. } = self.tests.kinds[*atom] else {
                        return internal_err!("an entry without an index");
                    };
                    let found = |grouping: &Arc<Grouping>| grouping.look_up(&self.columns, &columns)?.into_vec();
                    let groups = grouping.as_ref().map(found).transpose()?;
                    PreparedEntry::Index(index.prepare(&KeyColumn { values: keys[key].clone(), groups }, context)?)
                }
                (Access::Hash { grouping, .. }, _) => {
                    let found = grouping.look_up(&self.columns, &columns)?;
                    PreparedEntry::Places(Box::new(ProbePlaces::of_groups(
                        grouping,
                        found,
                        walking.zip(entry.device.as_ref()),
                    )?))
                }
                (Access::Band { atom, order, .. }, _) => {
                    let AtomColumn::Band(column) = &columns.atoms[*atom] else {
                        return internal_err!("an entry without its band");
                    };
                    let found = order.grouping.look_up(&self.columns, &columns)?;
                    let rows = order.partners(&found.into_vec()?, column);
                    PreparedEntry::Places(Box::new(ProbePlaces::of_rows(rows, walking.zip(entry.device.as_ref()))?))
                }
                (Access::Index { .. }, _) => return internal_err!("an entry without an index"),
            })
        })?;
        // also for the CPU, if it has to take over
        columns.fetch_codes(threads)?;
        let unmatchable = columns.unmatchable(&self.clauses, threads)?;
        Ok(PreparedRules { columns, on_device, entries, unmatchable })
    }

    /// The length of the cursor over `probe`, or over the build side itself: all entries, one after the other.
    pub fn len(&self, probe: Option<&PreparedRules>) -> usize {
        (0..self.entries.len()).map(|entry| self.entry_len(entry, probe)).sum()
    }

    /// The end of a stretch of a self-join's cursor from `start` on: within one entry, and about as much work as any.
    pub fn own_stretch(&self, start: usize) -> usize {
        let mut first = 0;
        for (entry, EntryIndex { access, device, .. }) in self.entries.iter().enumerate() {
            let len = self.entry_len(entry, None);
            if start < first + len {
                if let Some(device) = device {
                    return first + device.own_stretch(start - first);
                }
                let most = len.min(start - first + (len / 128).clamp(16, LONGEST_STRETCH));
                let Some(ends) = access.ends() else { return first + most };
                let mut pairs = 0;
                let full = (start - first..most).find(|&place| {
                    pairs += ends[place] as usize - place;
                    pairs >= PAIRS_A_STRETCH
                });
                return first + full.map_or(most, |place| place + 1);
            }
            first += len;
        }
        first
    }

    fn entry_len(&self, entry: usize, probe: Option<&PreparedRules>) -> usize {
        match (probe.map(|probe| &probe.entries[entry]), &self.entries[entry].access) {
            (Some(PreparedEntry::Places(places)), _) => places.len(),
            (Some(PreparedEntry::Index(prepared)), _) => prepared.len(),
            (None, Access::Hash { grouping, .. }) => grouping.len(),
            (None, Access::Band { order, .. }) => order.rows.len(),
            (None, Access::Index { index, .. }) => index.own_len(),
        }
    }

    /// Appends the pairs of which some clause holds, each once over the whole cursor, until it is done, `limit` is
    /// reached, or an index has returned before its end.
    ///
    /// # Errors
    /// Whatever a condition of the driver fails with.
    pub fn probe(
        &self,
        probe: Option<&PreparedRules>,
        cursor: &mut Cursor,
        limit: Limit,
        run: &Run<'_>,
        out: &mut Pairs,
        tally: &mut Tally,
    ) -> Result<Counts> {
        let pooled = self.scratch.lock().ok().and_then(|mut pool| pool.pop());
        let walk = Walk {
            tests: &self.tests,
            build: &self.columns,
            probe: probe.map_or(&self.columns, |probe| &probe.columns),
            conditions: run.conditions,
            cancel: run.cancel,
        };
        let mut probing = Probing { walk, memory: pooled.unwrap_or_default(), out, tally, counts: Counts::default() };
        let (mut entry, mut start) = (0, 0);
        while !cursor.is_done() && !run.cancel.is_cancelled() && probing.counts.matched < limit.pairs {
            let end = loop {
                let end = start + self.entry_len(entry, probe);
                if cursor.next < end {
                    break end;
                }
                (entry, start) = (entry + 1, end);
            };
            let mut within = Cursor { next: cursor.next - start, end: cursor.end.min(end) - start };
            let left = Limit {
                pairs: limit.pairs - probing.counts.matched,
                work: limit.work.saturating_sub(probing.counts.candidates),
            };
            let clauses = &self.plan.groups[entry].clauses;
            if let Some(walked) = self.on_device(entry, probe) {
                let to = (&mut *probing.out, &mut *probing.tally);
                if let Some(counts) = walked.walk(&mut within, run.cancel, to)? {
                    probing.add(clauses, &counts);
                    cursor.next = start + within.next;
                    if probing.counts.candidates >= limit.work {
                        break;
                    }
                    continue;
                }
                self.fallbacks.add(1);
            }
            // nothing to do but for the first stretch that a device leaves; those of a probe side are there
            self.columns.fetch_codes(1)?;
            let candidates = match (&self.entries[entry].access, probe.map(|probe| &probe.entries[entry])) {
                (Access::Index { index, .. }, Some(PreparedEntry::Index(prepared))) => {
                    Candidates::Index(index.as_ref(), Probe::Batch(prepared.as_ref()))
                }
                (Access::Index { index, .. }, _) => Candidates::Index(index.as_ref(), Probe::Own),
                (Access::Hash { grouping, .. }, Some(PreparedEntry::Places(places))) => {
                    Candidates::Batch(grouping.rows()?, places.rows(grouping)?)
                }
                (Access::Hash { grouping, ends }, _) => {
                    Candidates::Own(grouping.rows()?, ends.get_or_init(|| grouping.group_ends()))
                }
                (Access::Band { order, .. }, Some(PreparedEntry::Places(places))) => {
                    Candidates::Batch(&order.rows, places.rows(&order.grouping)?)
                }
                (Access::Band { order, ends, .. }, _) => Candidates::Own(&order.rows, ends),
            };
            let EntryIndex { tree, earlier, .. } = &self.entries[entry];
            let by_index = matches!(candidates, Candidates::Index(..));
            probing.entry(&EntryPaths { number: entry, tree, earlier, clauses }, candidates, &mut within, left)?;
            cursor.next = start + within.next;
            // an index has done its work with fewer candidates than pairs that it has tested
            if probing.counts.candidates >= limit.work || by_index && !within.is_done() {
                break;
            }
        }
        let Probing { memory, counts, .. } = probing;
        if let Ok(mut pool) = self.scratch.lock() {
            pool.push(memory);
        }
        Ok(counts)
    }
}

/// Probe rows that are made ready at once for a device.
const ROWS_AT_ONCE: usize = 1 << 20;
/// Of a self-join, in places of an entry.
const LONGEST_STRETCH: usize = 4096;
/// Of a self-join, in pairs of an entry by hash.
const PAIRS_A_STRETCH: usize = 1 << 20;

/// What a probe needs besides its rows.
pub struct Run<'a> {
    /// Decides what the engine cannot.
    pub conditions: &'a dyn PairConditions,
    /// Stops the probe.
    pub cancel: &'a Cancel,
}

/// The groups and the codes of the values of the equalities that are `asked`, by so many threads as `context` says, or by a device.
fn code(
    equalities: &[Option<(ArrayRef, bool)>],
    asked: impl Fn(usize) -> bool + Sync,
    device: Option<&Budget>,
    context: &BuildContext<'_>,
) -> Result<Vec<Option<(Groups, Codes)>>> {
    let count = (0..equalities.len()).filter(|&atom| equalities[atom].is_some() && asked(atom)).count();
    let threads = threads_within(count, context.threads);
    in_turn(equalities.len(), if count > 0 { context.threads } else { 1 }, |atom| {
        let Some((values, null_equals_null)) = equalities[atom].as_ref().filter(|_| asked(atom)) else {
            return Ok(None);
        };
        (context.reserve)(values.len() * size_of::<u32>())?;
        let by = NumberedBy { threads, own: context.own, device };
        let (groups, codes) = Groups::build(&[Arc::clone(values)], vec![*null_equals_null], by)?;
        (context.reserve)(groups.memory())?;
        Ok(Some((groups, codes)))
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListArray, StringArray};
    use datafusion::arrow::buffer::BooleanBuffer;
    use datafusion::arrow::datatypes::Float64Type;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::NO_GROUP;
    use crate::engine::atoms::{BandColumn, Span};
    use crate::engine::cuda::test_device::{budget_of, device, device_alone};
    use crate::measure::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};
    use crate::predicate::{Bounds, Test, VectorTest};

    /// A tenth of the rows in one group: no stretch of a self-join has much more pairs than any.
    #[test]
    fn one_large_group_is_cut_into_stretches() {
        let rows = 50_000;
        let codes: Vec<u32> = (0..rows).map(|row| if row % 10 == 0 { 0 } else { 1 + row % 977 }).collect();
        let source =
            RuleSource { tests: vec![AtomTest::Equality], kinds: vec![AtomKind::Equality], clauses: vec![vec![0]] };
        let side = SideColumns { rows: rows as usize, atoms: vec![AtomColumn::Codes(codes.into())], keys: Vec::new() };
        let cancel = Cancel::default();
        let context = BuildContext { own: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
        let index = RuleIndex::try_new(source, side, &Engine::Cpu, &context).unwrap();
        let ends = index.entries[0].access.ends().unwrap();
        let (mut start, mut stretches, mut most) = (0, 0, 0);
        while start < index.len(None) {
            let end = index.own_stretch(start);
            most = most.max((start..end).map(|place| ends[place] as usize - place - 1).sum());
            (start, stretches) = (end, stretches + 1);
        }
        let whole: usize = ends.iter().enumerate().map(|(place, &end)| end as usize - place - 1).sum();
        assert!(whole > 12_000_000 && stretches > 12, "{whole} pairs in {stretches} stretches");
        assert!(most < PAIRS_A_STRETCH + 5_000, "{most} pairs in one stretch");
    }

    struct NoConditions;

    impl PairConditions for NoConditions {
        fn select(&self, _: usize, _: &Pairs) -> Result<Vec<u16>> {
            internal_err!("no atom is a condition")
        }
    }

    /// Two equalities, a band, a condition of one side and similarities, some of the same key.
    fn kinds() -> Vec<AtomTest> {
        let edit = |key, measure, bounds| AtomTest::Similarity { key, test: Test::Edit { measure, bounds } };
        let words = Tokenizer::Words;
        let near = VectorTest { bounds: Bounds::at_most(0.5, true), ..VectorTest::every_score(VectorMeasure::L2) };
        let set = Test::Set { tokenizer: words, measure: SetMeasure::Jaccard, bounds: Bounds::at_least(0.5, true) };
        vec![
            AtomTest::Equality,
            AtomTest::Equality,
            AtomTest::Band,
            AtomTest::OneSided,
            edit(0, EditMeasure::Levenshtein, Bounds::at_most(2.0, true)),
            edit(0, EditMeasure::JaroWinkler, Bounds::at_least(0.85, true)),
            AtomTest::Similarity { key: 1, test: set },
            edit(1, EditMeasure::Osa, Bounds::at_most(3.0, true)),
            AtomTest::Similarity { key: 2, test: Test::Vector(near) },
        ]
    }

    fn side(rows: usize, is_build: bool, rng: &mut StdRng) -> SideColumns {
        let codes = |values: u32, rng: &mut StdRng| {
            let code = |rng: &mut StdRng| if rng.random_bool(0.05) { NO_GROUP } else { rng.random_range(0..values) };
            AtomColumn::Codes((0..rows).map(|_| code(rng)).collect::<Vec<u32>>().into())
        };
        let places: Vec<u32> = (0..rows).map(|_| rng.random_range(1..30)).collect();
        let span = |first: u32, last: u32| Span { first, last };
        let band = BandColumn {
            places: places.iter().map(|&place| span(place, place)).collect(),
            accepted: places.iter().map(|&place| span(place - 1, place + 2)).collect(),
        };
        let bits = BooleanBuffer::collect_bool(rows, |_| rng.random_bool(0.7));
        let mut atoms = vec![codes(4, rng), codes(12, rng), AtomColumn::Band(band)];
        atoms.push(if is_build { AtomColumn::Bits(bits) } else { AtomColumn::None });
        atoms.extend((0..5).map(|_| AtomColumn::None));
        let text = |rng: &mut StdRng| {
            let words = ["anna", "anne", "hanna", "otto", "ott\u{f6}", "a", "bernd bert", "x y z", "anna lena otto"];
            (!rng.random_bool(0.05)).then(|| {
                let count = rng.random_range(0..4);
                (0..count).map(|_| *words.choose(rng).unwrap()).collect::<Vec<_>>().join(" ")
            })
        };
        let mut keys: Vec<ArrayRef> =
            (0..2).map(|_| Arc::new((0..rows).map(|_| text(rng)).collect::<StringArray>()) as ArrayRef).collect();
        let vector = |rng: &mut StdRng| {
            let element = |rng: &mut StdRng| (!rng.random_bool(0.01)).then(|| f64::from(rng.random_range(-2..3)) / 4.0);
            (!rng.random_bool(0.05)).then(|| (0..3).map(|_| element(rng)).collect::<Vec<_>>())
        };
        let vectors: Vec<_> = (0..rows).map(|_| vector(rng)).collect();
        keys.push(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vectors)));
        SideColumns { rows, atoms, keys }
    }

    fn same(side: &SideColumns) -> SideColumns {
        SideColumns { rows: side.rows, atoms: side.atoms.clone(), keys: side.keys.clone() }
    }

    /// All pairs, ascending, and what was counted of them on the way.
    fn run(index: &RuleIndex, probe: Option<&PreparedRules>, step: usize) -> (Vec<(u32, u32)>, Tally) {
        let mut tally = Tally::new(index.tests.kinds.len(), index.clauses.len());
        let (mut pairs, cancel) = (Pairs::default(), Cancel::default());
        let run = Run { conditions: &NoConditions, cancel: &cancel };
        let all = index.len(probe);
        for start in (0..all).step_by(step) {
            let mut cursor = Cursor { next: start, end: all.min(start.saturating_add(step)) };
            while !cursor.is_done() {
                let limit = Limit { pairs: 500, work: 5000 };
                index.probe(probe, &mut cursor, limit, &run, &mut pairs, &mut tally).unwrap();
            }
        }
        let mut pairs: Vec<_> = pairs.build.into_iter().zip(pairs.probe).collect();
        if probe.is_none() {
            pairs.iter_mut().for_each(|(one, other)| (*one, *other) = ((*one).min(*other), (*one).max(*other)));
        }
        pairs.sort_unstable();
        (pairs, tally)
    }

    /// Whoever waits for it can look up in time, and others can help.
    #[test]
    fn an_index_that_finds_nothing_stops_once_its_work_is_done() {
        let test = Test::Edit { measure: EditMeasure::JaroWinkler, bounds: Bounds::at_least(0.85, true) };
        let tests = vec![AtomTest::Similarity { key: 0, test }];
        let source = RuleSource { kinds: tests.iter().map(AtomKind::from).collect(), tests, clauses: vec![vec![0]] };
        let side = |letter: &str| {
            let text = |row: usize| Some(letter.repeat(10 + row % 20));
            let key: ArrayRef = Arc::new((0..300).map(text).collect::<StringArray>());
            SideColumns { rows: 300, atoms: vec![AtomColumn::None], keys: vec![key] }
        };
        let cancel = Cancel::default();
        let context = BuildContext::new(1, &cancel, &|_| Ok(()));
        let index = RuleIndex::try_new(source, side("x"), &Engine::Cpu, &context).unwrap();
        let probe = index.prepare(side("y"), &PrepareContext { threads: 1, cancel: &cancel }).unwrap();
        let (mut pairs, mut tally) = (Pairs::default(), Tally::new(1, 1));
        let run = Run { conditions: &NoConditions, cancel: &cancel };
        let (mut cursor, mut calls) = (Cursor { next: 0, end: index.len(Some(&probe)) }, 0);
        while !cursor.is_done() {
            let limit = Limit { pairs: usize::MAX, work: 1000 };
            index.probe(Some(&probe), &mut cursor, limit, &run, &mut pairs, &mut tally).unwrap();
            calls += 1;
        }
        assert!(pairs.is_empty() && calls > 20, "{} pairs by {calls} calls", pairs.len());
    }

    #[test]
    fn a_device_walks_as_the_cpu_does() {
        let mut rng = StdRng::seed_from_u64(7);
        let on_device = Engine::Cuda(Budget::new(&device(), 0.5));
        let mut walked = 0;
        for case in 0..60 {
            let own = case % 3 == 0;
            let mut clauses: Vec<Vec<usize>> = Vec::new();
            for _ in 0..rng.random_range(1..6) {
                // a condition of one side leaves no self-join
                let entry = rng.random_range(0..3);
                let atoms = (1..9).filter(|&atom| (!own || atom != 3) && rng.random_bool(0.35));
                clauses.push(std::iter::once(entry).chain(atoms).collect());
            }
            clauses.iter_mut().for_each(|clause| {
                clause.sort_unstable();
                clause.dedup();
            });
            let kinds = kinds();
            let source = RuleSource {
                kinds: kinds.iter().map(AtomKind::from).collect(),
                tests: kinds,
                clauses: clauses.clone(),
            };
            let mut build = side([0, 1, 40, 300][case % 4], true, &mut rng);
            if own {
                build.atoms[3] = AtomColumn::None;
            }
            let probe = side(200, false, &mut rng);
            let cancel = Cancel::default();
            let context = BuildContext { own, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
            let [cpu, cuda] = [&Engine::Cpu, &on_device]
                .map(|engine| RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap());
            walked += cuda.entries.iter().filter(|entry| entry.device.is_some()).count();
            let (expected, found) = match own {
                true => (run(&cpu, None, usize::MAX), run(&cuda, None, 1 + case * 7)),
                false => {
                    let [by_cpu, by_cuda] = [&cpu, &cuda].map(|index| {
                        index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap()
                    });
                    (run(&cpu, Some(&by_cpu), usize::MAX), run(&cuda, Some(&by_cuda), 1 + case * 7))
                }
            };
            assert_eq!(found.0, expected.0, "case {case}: {clauses:?}");
            assert_eq!(found.1.candidates, expected.1.candidates, "case {case}: {clauses:?}");
            assert_eq!(found.1.passed, expected.1.passed, "case {case}: {clauses:?}");
            assert_eq!(found.1.witnesses, expected.1.witnesses, "case {case}: {clauses:?}");
        }
        assert!(walked > 60, "{walked}");
    }

    /// The kernels' warps come back for a second share of a launch.
    #[test]
    fn a_device_walks_launches_of_many_pairs() {
        let mut rng = StdRng::seed_from_u64(9);
        let mut build = side(1700, true, &mut rng);
        build.atoms[0] = AtomColumn::Codes(vec![0; 1700].into());
        build.atoms[3] = AtomColumn::None;
        let clauses = vec![vec![0, 1, 4, 6], vec![0, 5, 7], vec![0, 4, 8]];
        let source = RuleSource { kinds: kinds().iter().map(AtomKind::from).collect(), tests: kinds(), clauses };
        let cancel = Cancel::default();
        let context = BuildContext { own: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
        let [expected, found] = [Engine::Cpu, Engine::Cuda(Budget::new(&device(), 0.5))].map(|engine| {
            let index = RuleIndex::try_new(source.clone(), same(&build), &engine, &context).unwrap();
            let is_walked_there = matches!(engine, Engine::Cuda(_));
            assert!(index.entries.iter().all(|entry| entry.device.is_some() == is_walked_there));
            run(&index, None, usize::MAX)
        });
        assert!(expected.0.len() > 20_000);
        assert_eq!(found.0, expected.0);
        assert_eq!((found.1.passed, found.1.witnesses), (expected.1.passed, expected.1.witnesses));
    }

    /// Groups of four strings, of a few symbols or of many, less than seven edits from each other.
    fn side_of_texts(first: char, symbols: u32, rng: &mut StdRng) -> SideColumns {
        let symbol = |at: u32| char::from_u32(first as u32 + at % symbols).unwrap();
        let base = |at: usize| [0, 1, 4, 17, 31, 32, 33, 64, 65, 150][at % 10];
        let text = |row: usize, rng: &mut StdRng| {
            let mut text: Vec<char> = (0..base(row)).map(|at| symbol(row as u32 % 10 * 41 + at * at)).collect();
            for _ in 0..rng.random_range(0..4) {
                let (at, other) = (rng.random_range(0..=text.len()), symbol(rng.random_range(0..symbols)));
                match rng.random_range(0..4) {
                    0 => text.insert(at, other),
                    1 if at < text.len() => drop(text.remove(at)),
                    2 if at + 1 < text.len() => text.swap(at, at + 1),
                    _ if at < text.len() => text[at] = other,
                    _ => {}
                }
            }
            text.into_iter().collect::<String>()
        };
        let codes: Vec<u32> = (0..240).map(|row| row % 60).collect();
        let texts = (0..240).map(|row| (!rng.random_bool(0.02)).then(|| text(row, rng)));
        let key: ArrayRef = Arc::new(texts.collect::<StringArray>());
        SideColumns { rows: 240, atoms: vec![AtomColumn::Codes(codes.into()), AtomColumn::None], keys: vec![key] }
    }

    #[test]
    fn a_device_decides_strings_of_few_and_of_many_symbols() {
        let (far, near) = (Bounds::at_most(3.0, true), Bounds::at_least(0.85, true));
        let measures = [
            (EditMeasure::Levenshtein, far),
            (EditMeasure::LevenshteinSimilarity, near),
            (EditMeasure::Osa, far),
            (EditMeasure::DamerauLevenshtein, far),
            (EditMeasure::Hamming, far),
            (EditMeasure::Jaro, near),
            (EditMeasure::JaroWinkler, near),
        ];
        let mut rng = StdRng::seed_from_u64(10);
        let on_device = Engine::Cuda(Budget::new(&device(), 0.5));
        for (first, symbols) in [('a', 26), ('\u{4e00}', 600)] {
            for (measure, bounds) in measures {
                let test = Test::Edit { measure, bounds };
                let tests = vec![AtomTest::Equality, AtomTest::Similarity { key: 0, test }];
                let kinds = tests.iter().map(AtomKind::from).collect();
                let source = RuleSource { kinds, tests, clauses: vec![vec![0, 1]] };
                let build = side_of_texts(first, symbols, &mut rng);
                // some of its symbols are unknown to the build side
                let probe = side_of_texts(char::from_u32(first as u32 + 5).unwrap(), symbols, &mut rng);
                let cancel = Cancel::default();
                for own in [true, false] {
                    let context = BuildContext { own, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
                    let [expected, found] = [&Engine::Cpu, &on_device].map(|engine| {
                        let index = RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap();
                        let has_kernels = measure != EditMeasure::DamerauLevenshtein;
                        let is_walked_there = has_kernels && matches!(engine, Engine::Cuda(_));
                        assert!(
                            index.entries.iter().all(|entry| entry.device.is_some() == is_walked_there),
                            "{measure:?} {own} {is_walked_there}"
                        );
                        let prepared = (!own).then(|| {
                            index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap()
                        });
                        run(&index, prepared.as_ref(), usize::MAX)
                    });
                    assert!(expected.0.len() > 30, "{measure:?} of {symbols} symbols: {} pairs", expected.0.len());
                    assert_eq!(found.0, expected.0, "{measure:?} of {symbols} symbols, own: {own}");
                    assert_eq!(found.1.passed, expected.1.passed, "{measure:?} of {symbols} symbols, own: {own}");
                }
            }
        }
    }

    #[test]
    fn whatever_does_not_fit_on_a_device_is_walked_on_the_cpu() {
        let mut rng = StdRng::seed_from_u64(8);
        let clauses = vec![vec![1, 4], vec![0, 6]];
        let source = RuleSource { kinds: kinds().iter().map(AtomKind::from).collect(), tests: kinds(), clauses };
        let cancel = Cancel::default();
        let context = BuildContext { own: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
        let side = side(300, true, &mut rng);
        let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&side), engine, &context).unwrap();
        let expected = run(&index(&Engine::Cpu), None, 100);
        let device = device_alone();
        let mut walked = Vec::new();
        // up to all of the emulated device's memory
        for bytes in (10..30).map(|bits| 1usize << bits) {
            let budget = budget_of(&device, bytes);
            let index = index(&Engine::Cuda(budget));
            let found = run(&index, None, 100);
            assert_eq!(
                (found.0, found.1.witnesses),
                (expected.0.clone(), expected.1.witnesses.clone()),
                "{bytes} bytes"
            );
            walked.push(index.entries.iter().any(|entry| entry.device.is_some()));
        }
        assert!(walked.contains(&true));
    }

    /// The same side with values for codes, of which a device makes others.
    fn with_values(mut side: SideColumns) -> SideColumns {
        for (atom, column) in side.atoms.iter_mut().enumerate() {
            if let AtomColumn::Codes(codes) = column {
                let known = |&code: &u32| (code != NO_GROUP).then_some(code);
                let values: ArrayRef = match atom {
                    0 => Arc::new(
                        codes.fetched().iter().map(|code| Some(known(code)? as i64 * 7 - 9)).collect::<Int64Array>(),
                    ),
                    _ => {
                        let text = |code: u32| format!("a value that no view holds, {code}");
                        Arc::new(codes.fetched().iter().map(|code| known(code).map(text)).collect::<StringArray>())
                    }
                };
                *column = AtomColumn::Values { values, null_equals_null: atom == 1 };
            }
        }
        side
    }

    #[test]
    fn a_device_looks_up_another_side_as_the_cpu_does() {
        let mut rng = StdRng::seed_from_u64(9);
        let clauses = vec![vec![0, 1, 4], vec![1, 6], vec![0, 3, 5], vec![0, 2, 7]];
        let source = RuleSource { kinds: kinds().iter().map(AtomKind::from).collect(), tests: kinds(), clauses };
        let (build, probe) = (with_values(side(400, true, &mut rng)), with_values(side(300, false, &mut rng)));
        let (cancel, device) = (Cancel::default(), device_alone());
        let context = BuildContext::new(2, &cancel, &|_| Ok(()));
        let index = |engine: &Engine| RuleIndex::try_new(source.clone(), same(&build), engine, &context).unwrap();
        let prepare =
            |index: &RuleIndex| index.prepare(same(&probe), &PrepareContext { threads: 2, cancel: &cancel }).unwrap();
        let by_cpu = index(&Engine::Cpu);
        let expected = run(&by_cpu, Some(&prepare(&by_cpu)), 100);
        assert!(expected.0.len() > 500);
        let mut by_device = index(&Engine::Cuda(Budget::new(&device, 0.5)));
        assert!(by_device.groups.iter().flatten().all(|groups| matches!(groups, Groups::Device(_))));
        let prepared = prepare(&by_device);
        let walked = prepared.entries.iter().filter(|entry| match entry {
            PreparedEntry::Places(places) => places.items().is_some(),
            PreparedEntry::Index(_) => false,
        });
        assert!(walked.count() >= 2);
        let found = run(&by_device, Some(&prepared), 100);
        assert_eq!((&found.0, found.1.witnesses), (&expected.0, expected.1.witnesses.clone()));
        assert_eq!(by_device.unmatchable(), by_cpu.unmatchable());
        assert_eq!(prepared.unmatchable(), prepare(&by_cpu).unmatchable());
        // of what was made ready for the device the CPU walks the same rows
        by_device.device = None;
        let found = run(&by_device, Some(&prepared), 100);
        assert_eq!((&found.0, found.1.witnesses), (&expected.0, expected.1.witnesses.clone()));
        for bytes in (10..30).map(|bits| 1usize << bits) {
            let budget = budget_of(&device, bytes);
            let index = index(&Engine::Cuda(budget));
            let found = run(&index, Some(&prepare(&index)), 100);
            assert_eq!(
                (found.0, found.1.witnesses),
                (expected.0.clone(), expected.1.witnesses.clone()),
                "{bytes} bytes"
            );
        }
    }
}
