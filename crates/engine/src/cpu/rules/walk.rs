//! Walks an execution tree for a block of candidates.

use crate::error::Result;

use crate::atoms::{AtomCondition, PairConditions, RuleCounters};
use crate::cpu::columns::{AtomDeciders, Columns};
use crate::cpu::prefilter::MaxDifferences;
use crate::plan::{ExecutionTree, Step};
use crate::{Cancel, ColumnPair, Pairs};

/// The most candidates of a block.
pub(crate) const BLOCK: usize = 1024;

/// No clause holds.
pub(crate) const NO_WITNESS: u32 = u32::MAX;

/// Memory of one walking thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The places that have passed the steps above each depth.
    selections: Vec<Vec<u16>>,
    /// The places that a first step is asked of.
    marked: Vec<u16>,
    /// What is known of the atoms that stand in several places of the tree; one row of a block each.
    remembered: Vec<Vec<Known>>,
    unknown: Vec<u16>,
    passed: Vec<u16>,
    /// How many pairs the last step was evaluated for.
    evaluated: usize,
    /// The clause that holds for each place.
    pub(crate) witness: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    Fails,
    Passes,
}

/// A tree, and which of its atoms are worth remembering.
#[derive(Debug)]
pub struct Path {
    tree: ExecutionTree,
    /// Row of each atom among the remembered ones, where it occurs more than once.
    rows: Vec<Option<usize>>,
    remembered: usize,
    /// What can be asked of many candidates at once before the first steps: nothing, or something of each of them.
    pub(crate) filters: Vec<FirstFilter>,
}

/// A filter before those first steps of a path that compare the same keys.
#[derive(Debug)]
pub(crate) struct FirstFilter {
    /// The atoms of the steps.
    pub(crate) atoms: Vec<usize>,
    /// A bit for each of the steps, by their order in the path.
    pub(crate) bits: u64,
    /// What one of the atoms or another allows.
    pub(crate) allowance: MaxDifferences,
}

impl Path {
    pub(crate) fn new(tree: ExecutionTree, atoms: usize) -> Self {
        let mut times = vec![0usize; atoms];
        tree.steps.iter().for_each(|step| times[step.atom] += 1);
        let mut remembered = 0;
        let rows = times.into_iter().map(|times| {
            (times > 1).then(|| {
                remembered += 1;
                remembered - 1
            })
        });
        Self { rows: rows.collect(), tree, remembered, filters: Vec::new() }
    }

    /// The tree.
    pub(crate) fn tree(&self) -> &ExecutionTree {
        &self.tree
    }

    /// For candidates of which many are of one row.
    pub(crate) fn with_filters(self, deciders: &AtomDeciders, build: &Columns) -> Self {
        let filters = first_filters(&self.tree, deciders, build).unwrap_or_default();
        Self { filters, ..self }
    }
}

/// The filters, where each first step has one.
fn first_filters(tree: &ExecutionTree, deciders: &AtomDeciders, build: &Columns) -> Option<Vec<FirstFilter>> {
    let mut by_key: Vec<(Vec<usize>, u64)> = Vec::new();
    for (number, step) in (0..).zip(tree.steps.iter().filter(|step| step.depth == 0)) {
        let bit = 1u64.checked_shl(number)?;
        deciders.allowance(step.atom)?;
        match by_key.iter_mut().find(|(atoms, _)| build.share_key(atoms[0], step.atom)) {
            Some((atoms, bits)) => {
                atoms.push(step.atom);
                *bits |= bit;
            }
            None => by_key.push((vec![step.atom], bit)),
        }
    }
    let filter = |(atoms, bits): (Vec<usize>, u64)| {
        let allowance = MaxDifferences::any(atoms.iter().filter_map(|&atom| deciders.allowance(atom)));
        FirstFilter { atoms, bits, allowance }
    };
    Some(by_key.into_iter().map(filter).collect())
}

/// Candidates, and which first steps of a path each may pass.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) pairs: Pairs,
    /// A bit for each first step, for each pair; without any, a pair may pass all.
    pub(crate) marks: Vec<u64>,
}

impl Block {
    /// Appends the pairs of a probe row with those of `build` that have a mark.
    pub(crate) fn extend_marked(&mut self, build: &[u32], probe: u32, marks: &[u64]) {
        let first = self.pairs.len();
        let most = first + build.len();
        self.pairs.build.resize(most, 0);
        self.marks.resize(most, 0);
        let mut next = first;
        for (&build, &mark) in build.iter().zip(marks) {
            (self.pairs.build[next], self.marks[next]) = (build, mark);
            next += usize::from(mark != 0);
        }
        self.pairs.build.truncate(next);
        self.marks.truncate(next);
        self.pairs.probe.resize(next, probe);
    }

    pub(crate) fn clear(&mut self) {
        self.pairs.clear();
        self.marks.clear();
    }
}

/// What a walk reads.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) deciders: &'a AtomDeciders,
    pub(crate) build: &'a Columns,
    pub(crate) probe: &'a Columns,
    pub(crate) conditions: &'a dyn PairConditions,
    pub(crate) cancel: &'a Cancel,
}

impl Walk<'_> {
    /// Finds the witness of each pair of `block`, which has at most [`BLOCK`].
    pub(crate) fn block(
        &self,
        path: &Path,
        block: &Block,
        scratch: &mut Scratch,
        counters: &mut RuleCounters,
    ) -> Result<()> {
        let Path { tree, remembered, .. } = path;
        let len = block.pairs.len();
        scratch.witness.clear();
        scratch.witness.resize(len, NO_WITNESS);
        if let Some(clause) = tree.certain {
            scratch.witness.fill(clause as u32);
            counters.verified[clause] += len;
            return Ok(());
        }
        scratch.selections.resize_with((tree.depth() + 1).max(scratch.selections.len()), Vec::new);
        scratch.remembered.resize_with((*remembered).max(scratch.remembered.len()), Vec::new);
        for row in scratch.remembered.iter_mut().take(*remembered) {
            row.clear();
            row.resize(len, Known::Nothing);
        }
        scratch.selections[0].clear();
        scratch.selections[0].extend(0..len as u16);
        let (mut at, mut first, mut witnessed) = (0, 0, false);
        while let Some(step) = tree.steps.get(at) {
            let Scratch { selections, marked, witness, .. } = &mut *scratch;
            let above = &mut selections[step.depth];
            if witnessed {
                above.retain(|&place| witness[place as usize] == NO_WITNESS);
            }
            let is_marked = step.depth == 0 && !block.marks.is_empty();
            if is_marked {
                marked.clear();
                marked.extend(above.iter().filter(|&&place| block.marks[place as usize] >> first & 1 == 1));
            }
            first += usize::from(step.depth == 0);
            let asked = if is_marked { marked.len() } else { above.len() };
            self.step(path, step, block, is_marked, scratch)?;
            let Scratch { selections, witness, evaluated, .. } = &mut *scratch;
            let passed = &selections[step.depth + 1];
            counters.evaluated[step.atom] += *evaluated;
            counters.passed[step.atom] += passed.len();
            if let Some(clause) = step.witness {
                counters.verified[clause] += asked;
                passed.iter().for_each(|&place| witness[place as usize] = clause as u32);
                witnessed |= !passed.is_empty();
            }
            at = if passed.is_empty() { step.skip } else { at + 1 };
        }
        Ok(())
    }

    /// Selects for the step below `step` the pairs that pass: of the selection above it, or of the marked pairs.
    fn step(&self, path: &Path, step: &Step, block: &Block, is_marked: bool, scratch: &mut Scratch) -> Result<()> {
        let Scratch { selections, marked, remembered, unknown, passed, evaluated, .. } = scratch;
        let [above, below] = &mut selections[step.depth..step.depth + 2] else { return Ok(()) };
        let asked = if is_marked { marked } else { &*above };
        below.clear();
        let Some(known) = path.rows[step.atom].map(|row| &mut remembered[row]) else {
            *evaluated = asked.len();
            return self.select(step.atom, &block.pairs, asked, below);
        };
        unknown.clear();
        unknown.extend(asked.iter().filter(|&&place| known[place as usize] == Known::Nothing));
        *evaluated = unknown.len();
        passed.clear();
        self.select(step.atom, &block.pairs, unknown, passed)?;
        // what is not marked would fail
        let failed = if is_marked { &*above } else { &*unknown };
        for &place in failed {
            let known = &mut known[place as usize];
            if *known == Known::Nothing {
                *known = Known::Fails;
            }
        }
        passed.iter().for_each(|&place| known[place as usize] = Known::Passes);
        below.extend(asked.iter().filter(|&&place| known[place as usize] == Known::Passes));
        Ok(())
    }

    fn select(&self, atom: usize, block: &Pairs, selected: &[u16], passed: &mut Vec<u16>) -> Result<()> {
        if selected.is_empty() {
            return Ok(());
        }
        if self.deciders.conditions[atom] == AtomCondition::Pair {
            let pairs = Pairs {
                build: selected.iter().map(|&place| block.build[place as usize]).collect(),
                probe: selected.iter().map(|&place| block.probe[place as usize]).collect(),
            };
            passed.extend(self.conditions.select(atom, &pairs)?.into_iter().map(|at| selected[at as usize]));
        } else {
            let stop = || self.cancel.is_cancelled();
            let columns = ColumnPair { build: self.build, probe: self.probe };
            self.deciders.select(atom, columns, block, selected, &stop, passed);
        }
        Ok(())
    }
}
