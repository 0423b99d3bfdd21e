//! Walks an execution tree for a block of candidates.

use datafusion::common::Result;

use super::columns::{AtomTest, Columns, Tests};
use crate::engine::{Cancel, Pairs};
use crate::program::ExecutionTree;

/// The most candidates of a block.
pub(super) const BLOCK: usize = 1024;

/// Decides the conditions that only the driver can evaluate.
pub trait PairConditions {
    /// Those of `pairs` that satisfy the condition of `atom`, as ascending places.
    ///
    /// # Errors
    /// Whatever the evaluation of the condition fails with.
    fn select(&self, atom: usize, pairs: &Pairs) -> Result<Vec<u16>>;
}

/// What a walk has done, for EXPLAIN ANALYZE.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// For each atom, the pairs for which it was evaluated.
    pub evaluated: Vec<usize>,
    /// For each atom, those of them that passed.
    pub passed: Vec<usize>,
    /// For each clause, the candidates of its entry.
    pub candidates: Vec<usize>,
    /// For each clause, the pairs that reached its last atom.
    pub verified: Vec<usize>,
    /// For each clause, the pairs whose witness it was.
    pub witnesses: Vec<usize>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(atoms: usize, clauses: usize) -> Self {
        Self {
            evaluated: vec![0; atoms],
            passed: vec![0; atoms],
            candidates: vec![0; clauses],
            verified: vec![0; clauses],
            witnesses: vec![0; clauses],
        }
    }
}

/// No clause holds.
pub(super) const NO_WITNESS: u32 = u32::MAX;

/// Memory of one walking thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The places that have passed the steps above each depth.
    selections: Vec<Vec<u16>>,
    /// What is known of the atoms that stand in several places of the tree; one row of a block each.
    remembered: Vec<Vec<Known>>,
    unknown: Vec<u16>,
    passed: Vec<u16>,
    /// The clause that holds for each place.
    pub(super) witness: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    Fails,
    Passes,
}

/// A tree, and which of its atoms are worth remembering.
#[derive(Debug)]
pub(super) struct Path {
    tree: ExecutionTree,
    /// For each atom that occurs more than once its row among the remembered ones.
    rows: Vec<Option<usize>>,
    remembered: usize,
}

impl Path {
    pub(super) fn new(tree: ExecutionTree, atoms: usize) -> Self {
        let mut times = vec![0usize; atoms];
        tree.steps.iter().for_each(|step| times[step.atom] += 1);
        let mut remembered = 0;
        let rows = times.into_iter().map(|times| {
            (times > 1).then(|| {
                remembered += 1;
                remembered - 1
            })
        });
        let rows = rows.collect();
        Self { tree, rows, remembered }
    }
}

/// What a walk reads.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) tests: &'a Tests,
    pub(super) build: &'a Columns,
    pub(super) probe: &'a Columns,
    pub(super) conditions: &'a dyn PairConditions,
    pub(super) cancel: &'a Cancel,
}

impl Walk<'_> {
    /// Finds the witness of each pair of `block`, which has at most [`BLOCK`].
    pub(super) fn block(&self, path: &Path, block: &Pairs, scratch: &mut Scratch, tally: &mut Tally) -> Result<()> {
        let Path { tree, remembered, .. } = path;
        scratch.witness.clear();
        scratch.witness.resize(block.len(), NO_WITNESS);
        if let Some(clause) = tree.certain {
            scratch.witness.fill(clause as u32);
            tally.verified[clause] += block.len();
            tally.witnesses[clause] += block.len();
            return Ok(());
        }
        scratch.selections.resize_with((tree.depth() + 1).max(scratch.selections.len()), Vec::new);
        scratch.remembered.resize_with((*remembered).max(scratch.remembered.len()), Vec::new);
        for row in scratch.remembered.iter_mut().take(*remembered) {
            row.clear();
            row.resize(block.len(), Known::Nothing);
        }
        scratch.selections[0].clear();
        scratch.selections[0].extend(0..block.len() as u16);
        let (mut at, mut witnessed) = (0, false);
        while let Some(step) = tree.steps.get(at) {
            if witnessed {
                let Scratch { selections, witness, .. } = scratch;
                selections[step.depth].retain(|&place| witness[place as usize] == NO_WITNESS);
            }
            if scratch.selections[step.depth].is_empty() {
                at = step.skip;
                continue;
            }
            let passed = self.step(path, step.atom, step.depth, block, scratch, tally)?;
            if let Some(clause) = step.witness {
                tally.verified[clause] += scratch.selections[step.depth].len();
                tally.witnesses[clause] += passed;
                witnessed |= passed > 0;
                let Scratch { selections, witness, .. } = scratch;
                for &place in &selections[step.depth + 1] {
                    witness[place as usize] = clause as u32;
                }
            }
            at = if passed == 0 { step.skip } else { at + 1 };
        }
        Ok(())
    }

    /// Those of the selection at `depth` that pass `atom` become the selection below; returns how many.
    fn step(
        &self,
        path: &Path,
        atom: usize,
        depth: usize,
        block: &Pairs,
        scratch: &mut Scratch,
        tally: &mut Tally,
    ) -> Result<usize> {
        let Scratch { selections, remembered, unknown, passed, .. } = scratch;
        let [selected, below] = &mut selections[depth..depth + 2] else { return Ok(0) };
        below.clear();
        let Some(known) = path.rows[atom].map(|row| &mut remembered[row]) else {
            self.select(atom, block, selected, below)?;
            tally.evaluated[atom] += selected.len();
            tally.passed[atom] += below.len();
            return Ok(below.len());
        };
        unknown.clear();
        unknown.extend(selected.iter().filter(|&&place| known[place as usize] == Known::Nothing));
        passed.clear();
        self.select(atom, block, unknown, passed)?;
        tally.evaluated[atom] += unknown.len();
        tally.passed[atom] += passed.len();
        unknown.iter().for_each(|&place| known[place as usize] = Known::Fails);
        passed.iter().for_each(|&place| known[place as usize] = Known::Passes);
        below.extend(selected.iter().filter(|&&place| known[place as usize] == Known::Passes));
        Ok(below.len())
    }

    fn select(&self, atom: usize, block: &Pairs, selected: &[u16], passed: &mut Vec<u16>) -> Result<()> {
        if self.tests.kinds[atom] == AtomTest::Pair {
            if selected.is_empty() {
                return Ok(());
            }
            let pairs = Pairs {
                build: selected.iter().map(|&place| block.build[place as usize]).collect(),
                probe: selected.iter().map(|&place| block.probe[place as usize]).collect(),
            };
            passed.extend(self.conditions.select(atom, &pairs)?.into_iter().map(|at| selected[at as usize]));
        } else {
            let stop = || self.cancel.is_cancelled();
            self.tests.select(atom, (self.build, self.probe), block, selected, &stop, passed);
        }
        Ok(())
    }
}
