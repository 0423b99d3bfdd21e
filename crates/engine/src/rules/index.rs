//! A build side that is probed by all clauses of a condition.

use std::sync::Mutex;

use crate::error::Result;

use super::coded::{BuildSide, CodedRules};
use super::entered::EnteredRules;
use super::entry::{EntryTrees, PlacedEntry, ProbeSide};
use super::on_device::PAIRS_AT_ONCE;
use super::placed::PlacedRules;
use super::placement::Placement;
use super::planned::PlannedRules;
use super::prepared::{PreparedEntry, PreparedRules};
use super::source::RuleSource;
use crate::atoms::{AtomColumn, PairConditions, RuleCounters, SideColumns};
use crate::choice::Engine;
use crate::cpu::rules::probing::{Candidates, EntryPaths, Memory, Probing};
use crate::cpu::rules::walk::Walk;
use crate::devices::DEVICE_FAILURES;
use crate::equality::Groups;
use crate::metrics::{Count, MetricValue};
use crate::parallel::in_turn;
use crate::plan::RulePlan;
use crate::reason::CPU_FALLBACKS;
use crate::{BuildContext, Cancel, ColumnPair, Counts, Cursor, Limit, Pairs, PrepareContext};

/// A build side with the entries of all clauses and their execution trees.
#[derive(Debug)]
pub struct RuleIndex {
    pub(super) rules: PlacedRules,
    /// How often the CPU has taken over what a device has no room for: a probe batch, or a stretch of one.
    fallbacks: Count,
    /// Memory of probing threads, between their calls.
    pub(super) pool: Mutex<Vec<Memory>>,
}

/// What a probe needs besides its rows.
pub struct Run<'a> {
    /// Decides what the engine cannot.
    pub conditions: &'a dyn PairConditions,
    /// Stops the probe.
    pub cancel: &'a Cancel,
}

impl RuleIndex {
    /// Plans the clauses over a build side and builds their entries; anew where a device fails meanwhile, on those that
    /// have not failed or on the CPU.
    ///
    /// # Errors
    /// Keys of a type that their measure cannot read, a refused reservation, a cancelled build.
    pub fn try_new(
        mut source: RuleSource,
        side: SideColumns,
        engine: &Engine,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let (mut engine, failures) = (engine.clone(), Count::new());
        while !matches!(engine, Engine::Cpu) {
            match Self::build(source.clone(), side.clone(), &engine, context) {
                Err(error) if error.is_of_device() && !error.is_device_full() => {
                    // what was sent ahead may be on the device that has failed
                    source.sent = None;
                    engine = engine.without_failed();
                    failures.add(1);
                }
                built => return built.map(|built| built.after(failures)),
            }
        }
        Ok(Self::build(source, side, &engine, context)?.after(failures))
    }

    /// The index, with the devices that have failed before it was built among its metrics.
    fn after(mut self, failures: Count) -> Self {
        if failures.value() > 0 {
            self.rules.counted.push(MetricValue::Count { name: DEVICE_FAILURES.into(), count: failures });
        }
        self
    }

    fn build(source: RuleSource, side: SideColumns, engine: &Engine, context: &BuildContext<'_>) -> Result<Self> {
        let coded = CodedRules::of(source, side, engine, context)?;
        let planned = PlannedRules::of(coded, context)?;
        let entered = EnteredRules::of(planned, engine, context)?;
        let rules = PlacedRules::of(entered, engine, context)?;
        Ok(Self { rules, fallbacks: Count::new(), pool: Mutex::default() })
    }

    /// How the clauses are entered and verified.
    pub fn plan(&self) -> &RulePlan {
        &self.rules.plan
    }

    /// What the index of each entry has chosen, or where its candidates are walked and why, where there is something to
    /// say.
    pub fn chosen(&self) -> Vec<String> {
        self.rules.entries.iter().map(PlacedEntry::chosen).collect()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let PlacedRules { side, entries, .. } = &self.rules;
        side.memory() + entries.iter().map(|entry| entry.memory(side.self_join)).sum::<usize>()
    }

    /// What its indexes, and what is walked on a device, have counted.
    pub fn metrics(&self) -> Vec<MetricValue> {
        let PlacedRules { entries, on, reason, counted, .. } = &self.rules;
        let mut metrics: Vec<MetricValue> = entries.iter().flat_map(PlacedEntry::metrics).collect();
        if let Placement::OnDevice(rules) = on {
            metrics.extend(rules.metrics());
            metrics.push(MetricValue::Count { name: CPU_FALLBACKS.into(), count: self.fallbacks.clone() });
        }
        metrics.extend(reason.metric());
        metrics.extend_from_slice(counted);
        metrics
    }

    /// Whether a probe that takes more than one call is faster where several threads share what is left of it: unless
    /// all entries are walked on a device.
    pub fn is_shared(&self, probe: Option<&PreparedRules>) -> bool {
        let is_shared = |(at, entry): (_, &PlacedEntry)| entry.is_shared(probe.map(|probe| probe.entry(at)));
        self.rules.entries.iter().enumerate().any(is_shared)
    }

    /// How many rows of a probe side are best made ready at once.
    pub fn rows_at_once(&self) -> usize {
        self.rules.entries.iter().map(PlacedEntry::rows_at_once).max().unwrap_or(1)
    }

    /// Rows of the build side for which no clause can hold, whatever the other side has.
    pub fn unmatchable(&self) -> usize {
        self.rules.unmatchable
    }

    /// Makes a batch of the probe side ready; anew where a device fails that has some of it already.
    ///
    /// # Errors
    /// Keys of a type that their measure cannot read.
    pub fn prepare(&self, side: SideColumns, context: &PrepareContext<'_>) -> Result<PreparedRules> {
        match self.prepare_once(side.clone(), context) {
            Err(error) if error.is_of_device() && !error.is_device_full() => self.prepare_once(side, context),
            prepared => prepared,
        }
    }

    fn prepare_once(&self, side: SideColumns, context: &PrepareContext<'_>) -> Result<PreparedRules> {
        let PlacedRules { side: build, plan, entries, on, .. } = &self.rules;
        let threads = context.threads;
        let keys = side.keys.clone();
        let columns = build.deciders.prepare(self.look_up(side, threads)?, context)?;
        let on_device = match on {
            Placement::OnDevice(rules) => {
                let prepared = rules.prepare(&columns, columns.rows, threads)?;
                self.fallbacks.add(usize::from(prepared.is_none()));
                prepared
            }
            Placement::OnHost => None,
        };
        let probe = ProbeSide { columns: &columns, keys: &keys, on_device: on_device.as_ref() };
        let impossible = build.columns.impossible(&columns);
        let is_possible = |clause: &usize| !build.clauses[*clause].iter().any(|&atom| impossible[atom]);
        let entries = in_turn(entries.len(), threads, |at| match plan.groups[at].clauses.iter().any(is_possible) {
            true => entries[at].prepare(build, probe, context),
            false => Ok(PreparedEntry::Nothing),
        })?;
        // also for the CPU, if it has to take over
        columns.fetch_codes(threads)?;
        let unmatchable = columns.unmatchable(&build.clauses, threads)?;
        Ok(PreparedRules { columns, on_device, entries, unmatchable })
    }

    /// The columns of a probe side, with the build side's codes of the values of equalities.
    fn look_up(&self, mut side: SideColumns, threads: usize) -> Result<SideColumns> {
        let groups = &self.rules.side.groups;
        let coded = in_turn(side.atoms.len(), threads, |atom| match (&groups[atom], side.atoms[atom].values()) {
            (Some(groups), Some((values, _))) => groups.look_up(&[values]).map(Some),
            _ => Ok(None),
        })?;
        for ((column, codes), groups) in side.atoms.iter_mut().zip(coded).zip(groups) {
            let Some(codes) = codes else { continue };
            let by_tables = matches!(groups, Some(Groups::Device(_))) && codes.on_device().is_none();
            self.fallbacks.add(usize::from(by_tables));
            *column = AtomColumn::Codes(codes);
        }
        Ok(side)
    }

    /// The length of the cursor over `probe`, or over the build side itself: all entries, one after the other.
    pub fn len(&self, probe: Option<&PreparedRules>) -> usize {
        (0..self.rules.entries.len()).map(|entry| self.entry_len(entry, probe)).sum()
    }

    /// The end of a stretch of a self-join's cursor from `start` on: within one entry, and about as much work as any.
    pub fn self_join_stretch(&self, start: usize) -> usize {
        let mut first = 0;
        for entry in &self.rules.entries {
            let len = entry.self_join_len();
            if start < first + len {
                return first + entry.self_join_stretch(start - first);
            }
            first += len;
        }
        first
    }

    fn entry_len(&self, entry: usize, probe: Option<&PreparedRules>) -> usize {
        match probe {
            Some(probe) => probe.entry(entry).len(),
            None => self.rules.entries[entry].self_join_len(),
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
        let PlacedRules { side: BuildSide { deciders, columns, .. }, plan, entries, .. } = &self.rules;
        let pooled = self.pool.lock().ok().and_then(|mut pool| pool.pop());
        let sides = ColumnPair { build: columns, probe: probe.map_or(columns, |probe| &probe.columns) };
        let walk =
            Walk { deciders, build: sides.build, probe: sides.probe, conditions: run.conditions, cancel: run.cancel };
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
            let placed = &entries[entry];
            let EntryTrees { own, earlier, .. } = placed.trees();
            let paths = EntryPaths { number: entry, tree: own, earlier, clauses: &plan.groups[entry].clauses };
            let of_entry = probe.map(|probe| probe.entry(entry));
            let walk = placed.on_device(of_entry);
            let on_device = walk.as_ref().map(|walk| (walk, placed.needs_host() || walk.has_unknown()));
            if let (Some((walk, leaves)), true) = (on_device, placed.is_on_device()) {
                let walked =
                    |out: &mut Pairs, counters: &mut RuleCounters| walk.walk(&mut within, run.cancel, out, counters);
                if let Some(candidates) = self.on_device(&mut probing, &paths, leaves, walked)? {
                    probing.add_candidates(&paths, candidates);
                    cursor.next = start + within.next;
                    if probing.counts.candidates >= limit.work {
                        break;
                    }
                    continue;
                }
            }
            // nothing to do but for the first stretch that a device leaves
            if placed.is_on_device() {
                columns.make_ready(1);
            }
            let candidates = placed.candidates(of_entry, sides)?;
            let by_index = match (candidates, on_device) {
                (Candidates::Index { index, probe }, Some((walk, leaves))) => {
                    let left = Limit { pairs: left.pairs.max(PAIRS_AT_ONCE), ..left };
                    let found = probing.find(&paths, (index, probe), &mut within, left)?;
                    let decide =
                        |out: &mut Pairs, counters: &mut RuleCounters| walk.decide(&found, run.cancel, out, counters);
                    let is_worth = found.len() >= walk.walk.fewest_found;
                    let is_done = is_worth && self.on_device(&mut probing, &paths, leaves, decide)?.is_some();
                    if !is_done && !found.is_empty() {
                        columns.fetch_codes(1)?;
                        probing.verify(&paths, &found)?;
                    }
                    true
                }
                (candidates, _) => {
                    // those of a probe side are there
                    columns.fetch_codes(1)?;
                    probing.entry(&paths, candidates, &mut within, left)?;
                    matches!(candidates, Candidates::Index { .. })
                }
            };
            cursor.next = start + within.next;
            // an index has done its work with fewer candidates than pairs that it has tested
            if probing.counts.candidates >= limit.work || by_index && !within.is_done() {
                break;
            }
        }
        let Probing { memory, counts, .. } = probing;
        if let Ok(mut pool) = self.pool.lock() {
            pool.push(memory);
        }
        Ok(counts)
    }

    /// Appends what `walk` finds on a device, of which the host decides what it `leaves`, if it leaves anything. The
    /// number of candidates; `None` where the CPU has to take over.
    fn on_device(
        &self,
        probing: &mut Probing<'_>,
        paths: &EntryPaths<'_>,
        leaves: bool,
        walk: impl FnOnce(&mut Pairs, &mut RuleCounters) -> Result<Option<Counts>>,
    ) -> Result<Option<usize>> {
        let candidates = match leaves {
            false => probing.decided(walk)?,
            true => {
                self.rules.side.columns.fetch_codes(1)?;
                probing.prefiltered(paths, walk)?
            }
        };
        self.fallbacks.add(usize::from(candidates.is_none()));
        Ok(candidates)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow::buffer::BooleanBuffer;

    use super::*;
    use crate::atoms::AtomCondition;
    use crate::condition::{Bounds, Condition};
    use crate::error::internal_err;
    use crate::rules::entry::PAIRS_A_STRETCH;
    use similarity_measures::EditMeasure;

    /// A tenth of the rows in one group: no stretch of a self-join has much more pairs than any.
    #[test]
    fn one_large_group_is_cut_into_stretches() {
        let rows = 50_000;
        let codes: Vec<u32> = (0..rows).map(|row| if row % 10 == 0 { 0 } else { 1 + row % 977 }).collect();
        let source = RuleSource::new(vec![AtomCondition::Equality], vec![vec![0]]);
        let side = SideColumns { rows: rows as usize, atoms: vec![AtomColumn::Codes(codes.into())], keys: Vec::new() };
        let cancel = Cancel::default();
        let context = BuildContext { self_join: true, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
        let index = RuleIndex::try_new(source, side, &Engine::Cpu, &context).unwrap();
        let columns = &index.rules.side.columns;
        let sides = ColumnPair { build: columns, probe: columns };
        let Candidates::SelfJoin { ends, .. } = index.rules.entries[0].candidates(None, sides).unwrap() else {
            panic!("an equality is entered by places");
        };
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

    /// A clause that no row passes costs nothing: in a self-join it has no entry, and of a batch no row is made ready.
    #[test]
    fn a_clause_that_asks_for_what_no_row_has_is_left_out() {
        let bits = |set: bool| AtomColumn::EitherBits(BooleanBuffer::collect_bool(4, |_| set));
        let side = |set: bool| {
            let codes = [0, 1, 0, 1].to_vec().into();
            SideColumns { rows: 4, atoms: vec![AtomColumn::Codes(codes), bits(set)], keys: Vec::new() }
        };
        let source = RuleSource::new(vec![AtomCondition::Equality, AtomCondition::EitherSide], vec![vec![0, 1]]);
        let pairs = |build: bool, probe: Option<bool>| {
            let cancel = Cancel::default();
            let context = BuildContext { self_join: probe.is_none(), ..BuildContext::new(1, &cancel, &|_| Ok(())) };
            let index = RuleIndex::try_new(source.clone(), side(build), &Engine::Cpu, &context).unwrap();
            let preparing = PrepareContext { threads: 1, cancel: &cancel };
            let probe = probe.map(|set| index.prepare(side(set), &preparing).unwrap());
            let len = index.len(probe.as_ref());
            let (mut out, mut counters) = (Pairs::default(), RuleCounters::new(2, 1));
            let run = Run { conditions: &NoConditions, cancel: &cancel };
            let all = Limit { pairs: usize::MAX, work: usize::MAX };
            let mut cursor = Cursor { next: 0, end: len };
            index.probe(probe.as_ref(), &mut cursor, all, &run, &mut out, &mut counters).unwrap();
            (len > 0, out.len(), index.plan().groups.len())
        };
        assert_eq!(pairs(true, None), (true, 2, 1));
        assert_eq!(pairs(false, None), (false, 0, 0));
        for (build, probe) in [(true, false), (false, true)] {
            assert_eq!(pairs(build, Some(probe)), (true, 8, 1));
        }
        assert_eq!(pairs(false, Some(false)), (false, 0, 1));
    }

    /// Whoever waits for it can look up in time, and others can help.
    #[test]
    fn an_index_that_finds_nothing_stops_once_its_work_is_done() {
        let condition = Condition::Edit { measure: EditMeasure::JARO_WINKLER, bounds: Bounds::at_least(0.85, true) };
        let conditions = vec![AtomCondition::Similarity { key: 0, condition }];
        let source = RuleSource::new(conditions, vec![vec![0]]);
        let side = |letter: &str| {
            let text = |row: usize| Some(letter.repeat(10 + row));
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
