//! A build side ready for all clauses of a condition.

use std::sync::{Arc, Mutex};

use crate::error::{Error, Result, internal_err};
use crate::metrics::{Count, MetricValue};
use arrow::array::ArrayRef;

use super::entry::{Access, Building, EntryIndex};
use super::grouping::Grouping;
use super::on_device::{BroughtRules, SharedStrings, bring_ahead};
use super::places::ProbePlaces;
use super::statistics::{BuildStatistics, Sample};
use crate::accelerator::rules::{DeviceColumns, DeviceRules};
use crate::accelerator::{Accelerator, Platform};
use crate::atoms::{AtomColumn, AtomCondition, PairConditions, RuleCounters, SideColumns};
use crate::choice::Engine;
use crate::cpu::columns::{AtomDeciders, Columns};
use crate::cpu::rules::probing::{Candidates, EntryPaths, Memory, Probing};
use crate::cpu::rules::walk::{Path, Walk};
use crate::equality::{Codes, Groups, Numberer};
use crate::offload::RULES;
use crate::parallel::{both, each_in_turn, in_turn, threads_within};
use crate::placement::{CPU_FALLBACKS, Reason};
use crate::plan::{AtomKind, Entry, EntryGroup, ExecutionTree, RulePlan};
use crate::{AnyBatch, BuildContext, Cancel, Counts, Cursor, KeyColumn, Limit, Pairs, PrepareContext, Prepared, Probe};

/// What an index of rules is built for.
#[derive(Debug, Clone)]
pub struct RuleSource {
    /// How each atom is decided.
    pub tests: Vec<AtomCondition>,
    /// What each atom is to the plan.
    pub kinds: Vec<AtomKind>,
    /// The atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
}

/// A build side with the entries of all clauses and their execution trees.
#[derive(Debug)]
pub struct RuleIndex {
    /// Tests of the atoms.
    pub tests: AtomDeciders,
    /// What a probe side is looked up in, for each atom that is an equality.
    pub groups: Vec<Option<Groups>>,
    /// Columns of the build side.
    pub columns: Columns,
    /// Whether the build side is its own probe side.
    pub self_join: bool,
    /// The kind of device that may walk entries.
    pub platform: Option<&'static dyn Platform>,
    plan: RulePlan,
    /// Entries of the plan.
    pub entries: Vec<EntryIndex>,
    /// Atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
    unmatchable: usize,
    /// What a device has counted that has grouped the rows.
    counted: Vec<MetricValue>,
    /// Where some entries are walked on a device.
    pub device: Option<Box<dyn DeviceRules>>,
    /// Why they are, or why not.
    reason: Reason,
    /// How often the CPU has taken over what a device has no room for: a probe batch, or a stretch of one.
    fallbacks: Count,
    scratch: Mutex<Vec<Memory>>,
}

/// A probe batch ready for all clauses.
pub struct PreparedRules {
    columns: Columns,
    /// Columns on a device.
    pub on_device: Option<Box<dyn DeviceColumns>>,
    /// Entries, each made ready for this batch.
    pub entries: Vec<PreparedEntry>,
    unmatchable: usize,
}

impl PreparedRules {
    /// Rows for which no clause can hold, whatever the build side has.
    pub fn unmatchable(&self) -> usize {
        self.unmatchable
    }
}

/// Entry made ready for a probe batch.
pub enum PreparedEntry {
    /// Probe rows with the places of their partners.
    Places(Box<ProbePlaces>),
    /// Probe batch of an index.
    Index(Prepared<AnyBatch>),
}

impl RuleIndex {
    /// Plans the clauses over a build side and builds their entries.
    ///
    /// # Errors
    /// Keys of a type that their measure cannot read, a refused reservation, a cancelled build.
    pub fn try_new(source: RuleSource, side: SideColumns, engine: &Engine, context: &BuildContext<'_>) -> Result<Self> {
        let RuleSource { tests, kinds, clauses } = source;
        if context.self_join && !tests.iter().all(AtomCondition::is_symmetric) {
            return internal_err!("a rule has a measure that is not symmetric: a self-join reads both of its sides");
        }
        let all_threads = context.threads;
        let keys = side.keys.clone();
        let numbering = engine.device_of_keys(side.rows, context);
        numbering.iter().for_each(|device| device.read_rules_ahead(context.cancel));
        context.cancel.check()?;
        let equalities: Vec<Option<(ArrayRef, bool)>> = side.atoms.iter().map(AtomColumn::values).collect();
        let shared = match &numbering {
            Some(device) if context.self_join => {
                SharedStrings::of(device.platform(), &tests, &clauses, &equalities, &keys)
            }
            _ => SharedStrings::default(),
        };
        let (coded, brought) = both(
            || code(&equalities, |atom| !shared.has(atom), numbering.as_deref(), context),
            // what a device is brought for similarities asks for no codes
            || {
                let (tests, columns) = AtomDeciders::build(tests, side, context)?;
                let ahead = match &numbering {
                    Some(budget) => bring_ahead(budget.as_ref(), (&tests, &columns), &clauses, &shared, all_threads)?,
                    None => None,
                };
                Ok::<_, Error>((tests, columns, ahead))
            },
        );
        let (mut coded, (tests, mut columns, mut ahead)) = (coded?, brought?);
        for &(equality, atom) in &shared.pairs {
            if let Some(codes) = ahead.as_mut().and_then(|rules| rules.take_codes(atom)) {
                (context.reserve)(codes.memory())?;
                coded[equality] = Some((Groups::SelfJoin, codes));
            }
        }
        // the others ask for no column of a build side once more
        numbering.iter().for_each(|device| device.forget_prefetched());
        // strings that were not brought, or that the device could not tell apart
        let is_missing = |atom: usize| shared.has(atom) && coded[atom].is_none();
        let missing = code(&equalities, is_missing, numbering.as_deref(), context)?;
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
                let (build, device) = ((&columns, keys.as_slice()), numbering.as_deref());
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
                    Err(error) if ahead.is_some() && error.is_device_full() => {
                        drop(ahead);
                        (build()?, None)
                    }
                    entries => (entries?, ahead),
                };
                Ok::<_, Error>((plan, built))
            },
        );
        let (unmatchable, (plan, (entries, ahead))) = (unmatchable?, planned?);
        let (device, fallbacks, scratch) = (None, Count::new(), Mutex::default());
        let counted = numbering.as_ref().map_or_else(Vec::new, |device| device.metrics());
        let self_join = context.self_join;
        let mut index = Self {
            tests,
            groups,
            columns,
            self_join,
            platform: engine.platform(),
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
            None => engine.device(RULES, || Ok(index.work(context)))?,
        };
        index.reason = reason;
        if let Some(device) = walking {
            device.read_rules_ahead(context.cancel);
            context.cancel.check()?;
            let BroughtRules { rules, declined } = index.bring_to_device(device.as_ref(), ahead, all_threads)?;
            index.device = rules;
            if let Some(declined) = declined {
                index.reason = index.reason.but(declined, index.columns.rows, index.unmatchable);
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
        let rows = match context.self_join {
            true => self.columns.rows as f64 / 2.0,
            false => context.expected_probe_rows(self.columns.rows) as f64,
        };
        let of_entry = |(entry, group): (&EntryIndex, &EntryGroup)| match self.is_for_a_device(entry) {
            true => rows * group.partners * group.cost,
            false => 0.0,
        };
        self.entries.iter().zip(&self.plan.groups).map(of_entry).sum::<f64>() as u64
    }

    /// Verifies the candidates of an entry by another tree of the same clauses: what the chosen one is measured
    /// against.
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

    /// What the index of each entry has chosen, or where its candidates are walked and why, where there is something to
    /// say.
    pub fn chosen(&self) -> Vec<String> {
        let chosen = |entry: &EntryIndex| match (&entry.access, &self.device, &entry.device) {
            (Access::Index { index, reason, .. }, ..) => format!("{}{reason}", index.info().path),
            (_, Some(rules), Some(_)) => format!("walked on {}{}", rules.name(), self.reason.weighed()),
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
            Access::Hash { grouping, .. } if self.self_join => grouping.memory() + grouping.len() * size_of::<u32>(),
            Access::Hash { grouping, .. } => grouping.memory(),
            Access::Band { order, ends, .. } => {
                order.grouping.memory() + order.memory() + ends.capacity() * size_of::<u32>()
            }
            Access::Index { index, grouping, .. } => {
                index.info().bytes + grouping.as_ref().map_or(0, |grouping| grouping.memory())
            }
        });
        let on_device = self.entries.iter().filter_map(|entry| entry.device.as_ref());
        let items: usize = on_device.map(|entry| entry.memory()).sum();
        let groups: usize = self.groups.iter().flatten().map(Groups::memory).sum();
        self.tests.memory() + groups + self.columns.memory() + entries.sum::<usize>() + items
    }

    /// What its indexes, and what is walked on a device, have counted.
    pub fn metrics(&self) -> Vec<MetricValue> {
        let indexed = self.entries.iter().flat_map(|entry| match &entry.access {
            Access::Index { index, reason, .. } => index.metrics().into_iter().chain(reason.metric()).collect(),
            Access::Hash { .. } | Access::Band { .. } => Vec::new(),
        });
        let fallbacks = MetricValue::Count { name: CPU_FALLBACKS, count: self.fallbacks.clone() };
        let walked = self.device.iter().flat_map(|rules| rules.metrics().into_iter().chain([fallbacks.clone()]));
        indexed.chain(walked).chain(self.reason.metric()).chain(self.counted.iter().cloned()).collect()
    }

    /// Whether a probe that takes more than one call is faster where several threads share what is left of it: unless
    /// all entries are walked on a device.
    pub fn is_shared(&self, probe: Option<&PreparedRules>) -> bool {
        (0..self.entries.len()).any(|entry| match &self.entries[entry].access {
            Access::Index { index, .. } => match probe.map(|probe| &probe.entries[entry]) {
                Some(PreparedEntry::Index(prepared)) => prepared.shared,
                Some(PreparedEntry::Places(_)) | None => index.info().shared,
            },
            Access::Hash { .. } | Access::Band { .. } => self.on_device(entry, probe).is_none(),
        })
    }

    /// How many rows of a probe side are best made ready at once.
    pub fn rows_at_once(&self) -> usize {
        let of_entry = |entry: &EntryIndex| match &entry.access {
            Access::Index { index, .. } => index.info().rows_at_once,
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
        let walking = on_device.as_ref().and(self.device.as_deref());
        let entries = in_turn(self.entries.len(), threads, |at| {
            let entry = &self.entries[at];
            Ok(match (&entry.access, &self.plan.groups[at].entry) {
                (Access::Index { index, grouping, .. }, Entry::Index { atom, .. }) => {
                    let AtomCondition::Similarity { key, .. } = self.tests.kinds[*atom] else {
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
                        walking.zip(entry.device.as_deref()),
                    )?))
                }
                (Access::Band { atom, order, .. }, _) => {
                    let AtomColumn::Band(column) = &columns.atoms[*atom] else {
                        return internal_err!("an entry without its band");
                    };
                    let found = order.grouping.look_up(&self.columns, &columns)?;
                    let rows = order.partners(&found.into_vec()?, column);
                    PreparedEntry::Places(Box::new(ProbePlaces::of_rows(rows, walking.zip(entry.device.as_deref()))?))
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
    pub fn self_join_stretch(&self, start: usize) -> usize {
        let mut first = 0;
        for (entry, EntryIndex { access, device, .. }) in self.entries.iter().enumerate() {
            let len = self.entry_len(entry, None);
            if start < first + len {
                if let Some(device) = device {
                    return first + device.self_join_stretch(start - first);
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
            (Some(PreparedEntry::Index(prepared)), _) => prepared.len,
            (None, Access::Hash { grouping, .. }) => grouping.len(),
            (None, Access::Band { order, .. }) => order.rows.len(),
            (None, Access::Index { index, .. }) => index.info().self_join_len,
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
        counters: &mut RuleCounters,
    ) -> Result<Counts> {
        let pooled = self.scratch.lock().ok().and_then(|mut pool| pool.pop());
        let walk = Walk {
            tests: &self.tests,
            build: &self.columns,
            probe: probe.map_or(&self.columns, |probe| &probe.columns),
            conditions: run.conditions,
            cancel: run.cancel,
        };
        let mut probing =
            Probing { walk, memory: pooled.unwrap_or_default(), out, counters, counts: Counts::default() };
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
                let to = (&mut *probing.out, &mut *probing.counters);
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
                    Candidates::Index(index.as_ref(), Probe::Batch(&prepared.batch))
                }
                (Access::Index { index, .. }, _) => Candidates::Index(index.as_ref(), Probe::SelfJoin),
                (Access::Hash { grouping, .. }, Some(PreparedEntry::Places(places))) => {
                    Candidates::Batch(grouping.rows()?, places.rows(grouping)?)
                }
                (Access::Hash { grouping, ends }, _) => {
                    Candidates::SelfJoin(grouping.rows()?, ends.get_or_init(|| grouping.group_ends()))
                }
                (Access::Band { order, .. }, Some(PreparedEntry::Places(places))) => {
                    Candidates::Batch(&order.rows, places.rows(&order.grouping)?)
                }
                (Access::Band { order, ends, .. }, _) => Candidates::SelfJoin(&order.rows, ends),
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
/// Longest stretch of a self-join, in places of an entry.
const LONGEST_STRETCH: usize = 4096;
/// Pairs of a stretch of a self-join, for an entry by hash.
const PAIRS_A_STRETCH: usize = 1 << 20;

/// What a probe needs besides its rows.
pub struct Run<'a> {
    /// Decides what the engine cannot.
    pub conditions: &'a dyn PairConditions,
    /// Stops the probe.
    pub cancel: &'a Cancel,
}

/// The groups and the codes of the values of the equalities that are `asked`, by so many threads as `context` says, or
/// by a device.
fn code(
    equalities: &[Option<(ArrayRef, bool)>],
    asked: impl Fn(usize) -> bool + Sync,
    device: Option<&dyn Accelerator>,
    context: &BuildContext<'_>,
) -> Result<Vec<Option<(Groups, Codes)>>> {
    let count = (0..equalities.len()).filter(|&atom| equalities[atom].is_some() && asked(atom)).count();
    let threads = threads_within(count, context.threads);
    in_turn(equalities.len(), if count > 0 { context.threads } else { 1 }, |atom| {
        let Some((values, null_equals_null)) = equalities[atom].as_ref().filter(|_| asked(atom)) else {
            return Ok(None);
        };
        (context.reserve)(values.len() * size_of::<u32>())?;
        let by = Numberer { threads, self_join: context.self_join, device };
        let (groups, codes) = Groups::build(&[Arc::clone(values)], vec![*null_equals_null], by)?;
        (context.reserve)(groups.memory())?;
        Ok(Some((groups, codes)))
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;
    use crate::condition::{Bounds, Condition};
    use similarity_measures::EditMeasure;

    /// A tenth of the rows in one group: no stretch of a self-join has much more pairs than any.
    #[test]
    fn one_large_group_is_cut_into_stretches() {
        let rows = 50_000;
        let codes: Vec<u32> = (0..rows).map(|row| if row % 10 == 0 { 0 } else { 1 + row % 977 }).collect();
        let source = RuleSource {
            tests: vec![AtomCondition::Equality],
            kinds: vec![AtomKind::Equality],
            clauses: vec![vec![0]],
        };
        let side = SideColumns { rows: rows as usize, atoms: vec![AtomColumn::Codes(codes.into())], keys: Vec::new() };
        let cancel = Cancel::default();
        let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
        let index = RuleIndex::try_new(source, side, &Engine::Cpu, &context).unwrap();
        let ends = index.entries[0].access.ends().unwrap();
        let (mut start, mut stretches, mut most) = (0, 0, 0);
        while start < index.len(None) {
            let end = index.self_join_stretch(start);
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

    /// Whoever waits for it can look up in time, and others can help.
    #[test]
    fn an_index_that_finds_nothing_stops_once_its_work_is_done() {
        let condition = Condition::Edit { measure: EditMeasure::JaroWinkler, bounds: Bounds::at_least(0.85, true) };
        let tests = vec![AtomCondition::Similarity { key: 0, condition }];
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
        let (mut pairs, mut counters) = (Pairs::default(), RuleCounters::new(1, 1));
        let run = Run { conditions: &NoConditions, cancel: &cancel };
        let (mut cursor, mut calls) = (Cursor { next: 0, end: index.len(Some(&probe)) }, 0);
        while !cursor.is_done() {
            let limit = Limit { pairs: usize::MAX, work: 1000 };
            index.probe(Some(&probe), &mut cursor, limit, &run, &mut pairs, &mut counters).unwrap();
            calls += 1;
        }
        assert!(pairs.is_empty() && calls > 20, "{} pairs by {calls} calls", pairs.len());
    }
}
