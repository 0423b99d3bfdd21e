//! An execution tree as launches: one a step, in the order of the tree.

use crate::kernels::{NONE, RuleStep};
use similarity_engine::atoms::RuleCounters;
use similarity_engine::plan::ExecutionTree;

/// Steps that a pair may have passed.
const DEEPEST: usize = 250;

/// Atoms that are remembered at most.
const MOST_REMEMBERED: u32 = 32;

/// Numbers that a step counts.
const NUMBERS: usize = 3;

/// Answer of a step for pairs with a row whose value no kernel takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unknown {
    Pass,
    Fail,
}

/// A tree as its steps are launched.
#[derive(Debug, Clone)]
pub(super) struct TreeLaunches {
    pub(super) steps: Vec<RuleStep>,
    /// Atom of each step.
    pub(super) atoms: Vec<usize>,
    /// A clause that every pair satisfies, or [`NONE`].
    pub(super) certain: u32,
    /// Whether some atom is remembered.
    pub(super) remembers: bool,
}

impl TreeLaunches {
    /// Launches by which pairs with an `unknown` row pass their step or do not. `None` where a tree is deeper than a
    /// device walks, or has clauses of higher numbers.
    pub(super) fn new(tree: &ExecutionTree, unknown: Unknown) -> Option<Self> {
        let clauses = tree.steps.iter().filter_map(|step| step.witness).chain(tree.certain);
        if tree.depth() > DEEPEST || clauses.max().is_some_and(|clause| clause > u16::MAX.into()) {
            return None;
        }
        let atoms: Vec<usize> = tree.steps.iter().map(|step| step.atom).collect();
        let mut several: Vec<usize> = atoms.clone();
        several.sort_unstable();
        several = several.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0]).collect();
        let bit = |atom| several.iter().position(|&known| known == atom).map_or(NONE, |at| at as u32);
        let steps = tree.steps.iter().enumerate().map(|(number, step)| RuleStep {
            depth: step.depth as u32,
            witness: step.witness.map_or(NONE, |clause| clause as u32),
            remembered: Some(bit(step.atom)).filter(|&bit| bit < MOST_REMEMBERED).unwrap_or(NONE),
            number: number as u32,
            unknown: (unknown == Unknown::Pass).into(),
        });
        Some(Self {
            steps: steps.collect(),
            atoms,
            certain: tree.certain.map_or(NONE, |clause| clause as u32),
            remembers: !several.is_empty(),
        })
    }

    /// How many numbers its steps count.
    pub(super) fn numbers(&self) -> usize {
        NUMBERS * self.steps.len()
    }

    /// Adds what its steps have counted of so many pairs.
    pub(super) fn add(&self, numbers: &[u64], pairs: usize, counters: &mut RuleCounters) {
        if self.certain != NONE {
            counters.verified[self.certain as usize] += pairs;
        }
        for ((step, &atom), numbers) in self.steps.iter().zip(&self.atoms).zip(numbers.chunks_exact(NUMBERS)) {
            let [asked, evaluated, passed] = [0, 1, 2].map(|at| numbers[at] as usize);
            counters.evaluated[atom] += evaluated;
            counters.passed[atom] += passed;
            if step.witness != NONE {
                counters.verified[step.witness as usize] += asked;
            }
        }
    }
}
