//! The execution tree of some clauses, as the flat path that the engines walk.
//!
//! Source: HyperBlocker (PVLDB 2024), section 4: atoms in descending order of (1 - selectivity) / cost, clauses merged
//! by shared prefixes, edges scored by the probability of a witness, the tree walked depth first with checkpoints.

use std::cmp::Ordering;

/// What is known of an atom before it is evaluated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtomEstimate {
    /// Nanoseconds an evaluation.
    pub cost: f64,
    /// The share of pairs that pass.
    pub passes: f64,
    /// Whether it has to come after all others of a clause, because it may fail.
    pub last: bool,
}

impl AtomEstimate {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { cost: 100.0, passes: 0.5, last: false };
}

/// One atom on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The atom.
    pub atom: usize,
    /// How many steps stand above it; those that pass here are the input of the steps below.
    pub depth: usize,
    /// The step to go on with where none passes: the first that is not below this one.
    pub skip: usize,
    /// The clause of which this is the last atom.
    pub witness: Option<usize>,
}

/// The steps that decide which pairs satisfy one of some clauses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionTree {
    /// Depth first.
    pub steps: Vec<Step>,
    /// A clause without atoms, which every pair satisfies; then there are no steps.
    pub certain: Option<usize>,
}

impl ExecutionTree {
    /// The tree of `clauses`, each its number and its atoms, by the estimates of all atoms.
    pub fn of(clauses: &[(usize, Vec<usize>)], estimates: &[AtomEstimate]) -> Self {
        let ordered = clauses.iter().map(|(number, atoms)| {
            let mut atoms = atoms.clone();
            atoms.sort_by(|&a, &b| by_rank(&estimates[a], &estimates[b]).then(a.cmp(&b)));
            (*number, atoms)
        });
        let ordered: Vec<_> = ordered.collect();
        if let Some((number, _)) = ordered.iter().find(|(_, atoms)| atoms.is_empty()) {
            return Self { steps: Vec::new(), certain: Some(*number) };
        }
        Self::merged(&ordered, Some(estimates))
    }

    /// The tree of `clauses`, none of which is empty, with clauses and atoms in the order in which they stand: what
    /// [`of`](Self::of) is measured against.
    pub fn in_order(clauses: &[(usize, Vec<usize>)]) -> Self {
        Self::merged(clauses, None)
    }

    fn merged(clauses: &[(usize, Vec<usize>)], estimates: Option<&[AtomEstimate]>) -> Self {
        let borrowed: Vec<_> = clauses.iter().map(|(number, atoms)| (*number, atoms.as_slice())).collect();
        let mut tree = Self::default();
        tree.append(&siblings(&borrowed, estimates), 0);
        tree
    }

    /// Nanoseconds to decide one clause for a pair.
    pub fn expected_cost(atoms: &[usize], estimates: &[AtomEstimate]) -> f64 {
        let mut atoms: Vec<&AtomEstimate> = atoms.iter().map(|&atom| &estimates[atom]).collect();
        atoms.sort_by(|a, b| by_rank(a, b));
        let (cost, _) =
            atoms.iter().fold((0.0, 1.0), |(cost, reaching), e| (cost + reaching * e.cost, reaching * e.passes));
        cost
    }

    fn append(&mut self, nodes: &[Node], depth: usize) {
        for node in nodes {
            let at = self.steps.len();
            self.steps.push(Step { atom: node.atom, depth, skip: 0, witness: node.witness });
            self.append(&node.children, depth + 1);
            self.steps[at].skip = self.steps.len();
        }
    }

    /// The largest depth of a step, counted from 1.
    pub fn depth(&self) -> usize {
        self.steps.iter().map(|step| step.depth + 1).max().unwrap_or(0)
    }
}

struct Node {
    atom: usize,
    witness: Option<usize>,
    children: Vec<Node>,
    /// Nanoseconds for a pair that reaches the node.
    cost: f64,
    /// The share of those pairs for which a clause below holds.
    witnesses: f64,
}

/// Descending by (1 - passes) / cost.
fn by_rank(a: &AtomEstimate, b: &AtomEstimate) -> Ordering {
    let rank = |e: &AtomEstimate| (1.0 - e.passes) / e.cost;
    a.last.cmp(&b.last).then(rank(b).total_cmp(&rank(a)))
}

/// The clauses merged by their first atoms; given estimates, the likeliest witness for the least cost first.
fn siblings(clauses: &[(usize, &[usize])], estimates: Option<&[AtomEstimate]>) -> Vec<Node> {
    let mut firsts: Vec<usize> = Vec::new();
    for (_, atoms) in clauses {
        if let [first, ..] = atoms
            && !firsts.contains(first)
        {
            firsts.push(*first);
        }
    }
    let mut nodes: Vec<Node> = firsts.into_iter().map(|atom| node(atom, clauses, estimates)).collect();
    if estimates.is_some() {
        nodes.sort_by(|a, b| (b.witnesses / b.cost).total_cmp(&(a.witnesses / a.cost)));
    }
    nodes
}

fn node(atom: usize, clauses: &[(usize, &[usize])], estimates: Option<&[AtomEstimate]>) -> Node {
    let below = clauses.iter().filter_map(|(number, atoms)| match atoms {
        [first, rest @ ..] if *first == atom => Some((*number, rest)),
        _ => None,
    });
    let below: Vec<_> = below.collect();
    let witness = below.iter().filter(|(_, rest)| rest.is_empty()).map(|(number, _)| *number).min();
    // a clause that ends here makes the longer ones needless
    let children = if witness.is_some() { Vec::new() } else { siblings(&below, estimates) };
    let AtomEstimate { cost, passes, .. } = estimates.map_or(AtomEstimate::UNKNOWN, |estimates| estimates[atom]);
    let (mut below_cost, mut undecided) = (0.0, 1.0);
    for child in &children {
        below_cost += undecided * child.cost;
        undecided *= 1.0 - child.witnesses;
    }
    let witnesses = if witness.is_some() { passes } else { passes * (1.0 - undecided) };
    Node { atom, witness, children, cost: cost + passes * below_cost, witnesses }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(cost: f64, passes: f64) -> AtomEstimate {
        AtomEstimate { cost, passes, last: false }
    }

    /// HyperBlocker, examples 6 to 8: sname, price, pname, color, description, address; phi 1, phi 2, phi 3.
    #[test]
    fn cheap_and_selective_atoms_come_first_and_prefixes_are_shared() {
        let estimates = [
            estimate(0.1, 0.4),
            estimate(0.15, 0.3),
            estimate(0.6, 0.4),
            estimate(0.1, 1.0),
            estimate(0.9, 0.2),
            estimate(1.0, 0.15),
        ];
        let tree = ExecutionTree::of(&[(0, vec![3, 1, 0, 2]), (1, vec![0, 4]), (2, vec![5, 4])], &estimates);
        let step = |atom, depth, skip, witness| Step { atom, depth, skip, witness };
        let expected = [
            step(0, 0, 5, None),
            step(1, 1, 4, None),
            step(2, 2, 4, None),
            step(3, 3, 4, Some(0)),
            step(4, 1, 5, Some(1)),
            step(4, 0, 7, None),
            step(5, 1, 7, Some(2)),
        ];
        assert_eq!(tree.steps, expected);
        assert_eq!((tree.depth(), tree.certain), (4, None));
    }

    #[test]
    fn a_clause_that_ends_early_absorbs_those_below() {
        let estimates = [estimate(1.0, 0.1), estimate(5.0, 0.5)];
        let tree = ExecutionTree::of(&[(0, vec![0, 1]), (1, vec![0])], &estimates);
        assert_eq!(tree.steps, [Step { atom: 0, depth: 0, skip: 1, witness: Some(1) }]);
        let certain = ExecutionTree::of(&[(4, vec![]), (1, vec![0])], &estimates);
        assert_eq!((certain.steps.len(), certain.certain), (0, Some(4)));
    }

    #[test]
    fn what_may_fail_comes_last() {
        let estimates = [AtomEstimate { cost: 0.1, passes: 0.0, last: true }, estimate(500.0, 0.9)];
        let tree = ExecutionTree::of(&[(0, vec![0, 1])], &estimates);
        assert_eq!(tree.steps.iter().map(|s| s.atom).collect::<Vec<_>>(), [1, 0]);
    }
}
