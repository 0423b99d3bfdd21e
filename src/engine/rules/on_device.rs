//! What a device has of a build side, and the entries that it walks.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayData, ArrayRef};
use datafusion::common::Result;

use super::entry::{Access, EntryIndex};
use super::index::{PreparedEntry, PreparedRules, RuleIndex};
use crate::engine::atoms::{AtomTest, RuleRows, Tally};
use crate::engine::cpu::columns::{Columns, Tests};
use crate::engine::cpu::near::Allowance;
use crate::engine::cuda::Budget;
use crate::engine::cuda::rules::{
    Behind, ColumnsOnDevice, EntryOnDevice, Items, PlacedRows, RulesOnDevice, Walked, parts_of_entry, serves,
};
use crate::engine::parallel::in_turn;
use crate::engine::reason::Refused;
use crate::engine::{Cancel, Counts, Cursor, Pairs};
use crate::predicate::Test;

/// Brings what the build side has for the atoms that are `asked` to a device, and numbers the keys of some equalities.
fn bring(
    budget: &Budget,
    (tests, columns): (&Tests, &Columns),
    (asked, equalities): (Vec<bool>, &[Option<bool>]),
    printed: Option<usize>,
    threads: usize,
) -> Result<Result<RulesOnDevice, Refused>> {
    let allowance = |atom: usize| tests.allowance(atom).map_or(&[][..], Allowance::by_classes);
    let build = (columns as &dyn RuleRows, asked, equalities);
    RulesOnDevice::try_new(budget, &tests.kinds, allowance, build, printed, threads)
}

/// The atoms that are not equalities, where a plan will ask all atoms on a device: an entry by places is expected, and a device
/// decides everything.
fn asked_ahead(kinds: &[AtomTest], clauses: &[Vec<usize>]) -> Option<Vec<bool>> {
    let mut asked = vec![false; kinds.len()];
    clauses.iter().flatten().for_each(|&atom| asked[atom] = true);
    let asked_kinds = || kinds.iter().zip(&asked).filter(|(_, asked)| **asked).map(|(kind, _)| kind);
    let has_places = asked_kinds().any(|kind| matches!(kind, AtomTest::Equality | AtomTest::Band));
    if !has_places || !asked_kinds().all(serves) {
        return None;
    }
    asked.iter_mut().zip(kinds).for_each(|(asked, kind)| *asked &= *kind != AtomTest::Equality);
    Some(asked)
}

/// The keys of similarities whose strings are brought to a device that numbers the keys of equalities.
pub fn strings_ahead<'a>(kinds: &'a [AtomTest], clauses: &[Vec<usize>]) -> impl Iterator<Item = usize> + use<'a> {
    let asked = asked_ahead(kinds, clauses).unwrap_or_default();
    kinds.iter().zip(asked).filter(|(_, asked)| *asked).filter_map(|(kind, _)| match kind {
        AtomTest::Similarity { key, test: Test::Edit { .. } } => Some(*key),
        _ => None,
    })
}

/// Equalities over strings that an edit measure reads, too, so that one copy of these is brought to a device for both.
#[derive(Debug, Default)]
pub(super) struct SharedStrings {
    /// An equality, and the atom with which its strings are brought.
    pub(super) pairs: Vec<(usize, usize)>,
    /// By the latter, whether two NULLs are equal.
    null_equals_null: Vec<Option<bool>>,
}

impl SharedStrings {
    /// Those of rules whose similarities are brought ahead, given the values of `equalities` and the `keys` of similarities.
    pub(super) fn of(
        kinds: &[AtomTest],
        clauses: &[Vec<usize>],
        equalities: &[Option<(ArrayRef, bool)>],
        keys: &[ArrayRef],
    ) -> Self {
        let mut shared = Self { pairs: Vec::new(), null_equals_null: vec![None; kinds.len()] };
        let Some(asked) = asked_ahead(kinds, clauses) else { return shared };
        let keys: Vec<ArrayData> = keys.iter().map(|key| key.to_data()).collect();
        for (atom, equality) in equalities.iter().enumerate() {
            let Some((values, null_equals_null)) = equality else { continue };
            let values = values.to_data();
            let reads = |other: &usize| match kinds[*other] {
                AtomTest::Similarity { key, test: Test::Edit { .. } } => {
                    asked[*other] && keys.get(key).is_some_and(|key| key.ptr_eq(&values))
                }
                _ => false,
            };
            if let Some(other) = (0..kinds.len()).find(reads)
                && shared.null_equals_null[other].is_none()
            {
                shared.null_equals_null[other] = Some(*null_equals_null);
                shared.pairs.push((atom, other));
            }
        }
        shared
    }

    /// Whether an equality is among them.
    pub(super) fn has(&self, equality: usize) -> bool {
        self.pairs.iter().any(|(atom, _)| *atom == equality)
    }
}

/// Brings all that are not equalities to a device, before there is a plan, where it will ask all atoms there; with the codes of those
/// equalities that share their strings.
pub(super) fn bring_ahead(
    budget: &Budget,
    (tests, columns): (&Tests, &Columns),
    clauses: &[Vec<usize>],
    shared: &SharedStrings,
    threads: usize,
) -> Result<Option<RulesOnDevice>> {
    match asked_ahead(&tests.kinds, clauses) {
        Some(asked) => {
            // fingerprints are those of the CPU engine where strings are all that it reads
            let is_read = |(kind, asked): (&AtomTest, &bool)| match kind {
                AtomTest::Equality => true,
                AtomTest::Similarity { test: Test::Edit { .. }, .. } => *asked,
                _ => false,
            };
            let printed = tests.kinds.iter().zip(&asked).all(is_read).then_some(columns.rows);
            Ok(bring(budget, (tests, columns), (asked, &shared.null_equals_null), printed, threads)?.ok())
        }
        None => Ok(None),
    }
}

impl RuleIndex {
    /// Whether a device can walk an entry.
    pub(super) fn is_for_a_device(&self, entry: &EntryIndex) -> bool {
        let has_places = matches!(entry.access, Access::Hash { .. } | Access::Band { .. });
        has_places && entry.atoms().all(|atom| serves(&self.tests.kinds[atom]))
    }

    /// Brings to a device what it can walk, and says why not all of it, where it has no memory for that or no kernels.
    pub(super) fn bring_to_device(
        &mut self,
        budget: &Budget,
        ahead: Option<RulesOnDevice>,
        threads: usize,
    ) -> Result<(Option<RulesOnDevice>, Option<Refused>)> {
        let served: Vec<bool> = self.entries.iter().map(|entry| self.is_for_a_device(entry)).collect();
        let mut asked = vec![false; self.tests.kinds.len()];
        for (entry, _) in self.entries.iter().zip(&served).filter(|(_, served)| **served) {
            entry.atoms().for_each(|atom| asked[atom] = true);
        }
        if !served.contains(&true) {
            return Ok((None, None));
        }
        let columns = (&self.tests, &self.columns);
        let rules = match ahead {
            Some(rules) => rules.with_codes(&self.columns, &asked)?,
            None => bring(budget, columns, (asked, &[]), None, threads)?,
        };
        let rules = match rules {
            Ok(rules) => rules,
            Err(why) => return Ok((None, Some(why))),
        };
        let parts = parts_of_entry(served.iter().filter(|served| **served).count());
        let entry = |at: usize| {
            let entry = &self.entries[at];
            let (rows, behind) = match &entry.access {
                Access::Hash { grouping, .. } if served[at] => match grouping.on_device() {
                    Some(grouped) => (PlacedRows::Grouped(Arc::clone(grouped)), Behind::InGroup(grouped)),
                    None => (PlacedRows::OnHost(grouping.rows()?), Behind::InGroupOnHost(grouping.starts())),
                },
                Access::Band { order, ends, .. } if served[at] => (PlacedRows::OnHost(&order.rows), Behind::UpTo(ends)),
                _ => return Ok(None),
            };
            let behind = self.own.then_some(behind);
            let (tree, earlier) = (entry.tree.tree(), entry.earlier.tree());
            let walked = Walked { rows, behind, parts, tree, earlier };
            EntryOnDevice::try_new(&rules, &walked).map(Some)
        };
        let brought = in_turn(self.entries.len(), threads, entry)?;
        let mut refused = None;
        for (entry, brought) in self.entries.iter_mut().zip(brought) {
            match brought {
                Some(Ok(on_device)) => entry.device = Some(on_device),
                Some(Err(why)) => refused = Some(why),
                None => {}
            }
        }
        Ok((Some(rules), refused))
    }

    /// The entry on the device, where its candidates with `probe` are walked there.
    pub(super) fn on_device<'a>(
        &'a self,
        entry: usize,
        probe: Option<&'a PreparedRules>,
    ) -> Option<WalkedOnDevice<'a>> {
        let (rules, on_device) = (self.device.as_ref()?, self.entries[entry].device.as_ref()?);
        let probe = match probe {
            None => None,
            Some(PreparedRules { on_device: Some(columns), entries, .. }) => match &entries[entry] {
                PreparedEntry::Places(places) => Some((columns, places.items()?)),
                PreparedEntry::Index(_) => return None,
            },
            Some(_) => return None,
        };
        Some(WalkedOnDevice { rules, entry: on_device, probe })
    }
}

/// An entry on a device, and what it is probed with.
pub(super) struct WalkedOnDevice<'a> {
    rules: &'a RulesOnDevice,
    entry: &'a EntryOnDevice,
    probe: Option<(&'a ColumnsOnDevice, &'a Items)>,
}

impl WalkedOnDevice<'_> {
    pub(super) fn walk(
        &self,
        cursor: &mut Cursor,
        cancel: &Cancel,
        to: (&mut Pairs, &mut Tally),
    ) -> Result<Option<Counts>> {
        self.entry.walk(self.rules, self.probe, cursor, cancel, to)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringArray;

    use super::*;
    use crate::engine::atoms::{AtomColumn, PairConditions, SideColumns};
    use crate::engine::choice::Engine;
    use crate::engine::cuda::test_device::{budget_of, device, device_alone};
    use crate::engine::rules::{RuleSource, Run};
    use crate::engine::{BuildContext, Limit};
    use crate::measure::EditMeasure;
    use crate::predicate::Bounds;
    use crate::program::AtomKind;

    struct NoConditions;

    impl PairConditions for NoConditions {
        fn select(&self, _: usize, _: &Pairs) -> Result<Vec<u16>> {
            unreachable!("no atom is a condition")
        }
    }

    /// The pairs of a self-join by two clauses, each an equality and an edit distance, with how many rows have no partner, and the bytes
    /// that went to the device.
    fn join(engine: &Engine, equalities: [&ArrayRef; 2], key: &ArrayRef) -> ((Vec<(u32, u32)>, usize), usize) {
        let edit = |k| Test::Edit { measure: EditMeasure::Levenshtein, bounds: Bounds::at_most(k, true) };
        let tests = vec![
            AtomTest::Equality,
            AtomTest::Equality,
            AtomTest::Similarity { key: 0, test: edit(1.0) },
            AtomTest::Similarity { key: 0, test: edit(2.0) },
        ];
        let kinds = tests.iter().map(AtomKind::from).collect();
        let source = RuleSource { tests, kinds, clauses: vec![vec![0, 2], vec![1, 3]] };
        let values = |values: &ArrayRef| AtomColumn::Values { values: Arc::clone(values), null_equals_null: false };
        let atoms = vec![values(equalities[0]), values(equalities[1]), AtomColumn::None, AtomColumn::None];
        let side = SideColumns { rows: key.len(), atoms, keys: vec![Arc::clone(key)] };
        let cancel = Cancel::default();
        let context = BuildContext { own: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
        let index = RuleIndex::try_new(source, side, engine, &context).unwrap();
        let (mut cursor, mut pairs) = (Cursor { next: 0, end: index.len(None) }, Pairs::default());
        let (limit, run) =
            (Limit { pairs: 1 << 20, work: 1 << 30 }, Run { conditions: &NoConditions, cancel: &cancel });
        while !cursor.is_done() {
            index.probe(None, &mut cursor, limit, &run, &mut pairs, &mut Tally::new(4, 2)).unwrap();
        }
        let mut pairs: Vec<_> = pairs.build.into_iter().zip(pairs.probe).map(|(a, b)| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        let metrics = index.metrics();
        let bytes = metrics.iter().filter(|metric| metric.name() == "device_bytes_in").map(|metric| metric.as_usize());
        ((pairs, index.unmatchable()), bytes.sum())
    }

    #[test]
    fn strings_of_an_equality_and_an_edit_measure_are_brought_once() {
        let on_device = Engine::Cuda(Budget::new(&device(), 0.5));
        let text =
            |row: u32| (!row.is_multiple_of(11)).then(|| format!("a name of many letters, {}", row * 7919 % 500));
        let names = || Arc::new((0..3000).map(text).collect::<StringArray>()) as ArrayRef;
        let city = |row: u32| Some(format!("city {}", row % 40));
        let (shared, copy, cities) =
            (names(), names(), Arc::new((0..3000).map(city).collect::<StringArray>()) as ArrayRef);
        let (expected, _) = join(&Engine::Cpu, [&shared, &cities], &shared);
        let (once, few) = join(&on_device, [&shared, &cities], &shared);
        let (twice, many) = join(&on_device, [&copy, &cities], &shared);
        assert!(expected.0.len() > 5000 && expected.1 > 200 && once == expected && twice == expected);
        // a view and the letters of each row
        assert!(many - few >= 3000 * (16 + 20), "{many} {few}");
        // only one of two equalities can be brought with the measure
        let (expected, _) = join(&Engine::Cpu, [&shared, &shared], &shared);
        assert_eq!(join(&on_device, [&shared, &shared], &shared).0, expected);
    }

    #[test]
    fn where_memory_lacks_for_them_the_keys_are_numbered_all_the_same() {
        let long = |row: u32| Some(if row == 7 { "x".repeat(5000) } else { format!("name {}", row % 300) });
        let names = Arc::new((0..2000).map(long).collect::<StringArray>()) as ArrayRef;
        let expected = join(&Engine::Cpu, [&names, &names], &names).0;
        // the string is too long for the measure there
        let on_device = Engine::Cuda(Budget::new(&device(), 0.5));
        assert_eq!(join(&on_device, [&names, &names], &names).0, expected);
        let device = device_alone();
        for bytes in (10..26).map(|bits| 1usize << bits) {
            let budget = budget_of(&device, bytes);
            assert_eq!(join(&Engine::Cuda(budget), [&names, &names], &names).0, expected, "{bytes} bytes");
        }
    }
}
