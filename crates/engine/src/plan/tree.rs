//! The execution tree of some clauses, as the flat path that the engines walk.
//!
//! Source: HyperBlocker (PVLDB 2024), section 4: atoms in descending order of (1 - selectivity) / cost, clauses merged
//! by shared prefixes, edges scored by the probability of a witness, the tree walked depth first with checkpoints. That
//! order is best for each clause alone; atoms that several clauses share are then moved to where the whole tree costs
//! least.

use std::cmp::Ordering;

/// What is known of an atom before it is evaluated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtomEstimate {
    /// Nanoseconds an evaluation.
    pub cost: f64,
    /// Nanoseconds an evaluation at the root, where all candidates of a row are asked at once.
    pub first: f64,
    /// The share of pairs that pass.
    pub passes: f64,
    /// Whether it has to come after all others of a clause, because it may fail.
    pub last: bool,
    /// What has to be fetched before, where candidates are asked one by one; not part of the other costs.
    pub reads: Option<Reading>,
}

/// A key that is fetched once for a pair, whatever number of first steps compare it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The number of the key.
    pub key: usize,
    /// Nanoseconds a pair.
    pub cost: f64,
}

impl AtomEstimate {
    /// Estimate of an atom of which nothing is known.
    pub const UNKNOWN: Self = Self::uniform(100.0, 0.5);

    /// An atom that costs as much wherever it stands.
    pub const fn uniform(cost: f64, passes: f64) -> Self {
        Self { cost, first: cost, passes, last: false, reads: None }
    }

    /// Nanoseconds of an evaluation that finds nothing read.
    fn alone(&self) -> f64 {
        self.cost + self.reads.map_or(0.0, |reading| reading.cost)
    }
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
    /// The tree of `clauses`, each its number and its atoms, by the estimates of all atoms: the cheapest that is found.
    pub fn of(clauses: &[(usize, Vec<usize>)], estimates: &[AtomEstimate]) -> Self {
        Self::build(clauses, estimates, improved)
    }

    /// The tree of `clauses` by the rank of each atom alone: for clauses that are rarely asked.
    pub fn by_rank(clauses: &[(usize, Vec<usize>)], estimates: &[AtomEstimate]) -> Self {
        Self::build(clauses, estimates, |ordered, _| ordered)
    }

    fn build(
        clauses: &[(usize, Vec<usize>)],
        estimates: &[AtomEstimate],
        finish: fn(Vec<Clause>, &[AtomEstimate]) -> Vec<Clause>,
    ) -> Self {
        let ordered = ranked(clauses, estimates);
        if let Some((number, _)) = ordered.iter().find(|(_, atoms)| atoms.is_empty()) {
            return Self { steps: Vec::new(), certain: Some(*number) };
        }
        Self::merged(&finish(ordered, estimates), Some(estimates))
    }

    /// The tree of `clauses`, none of which is empty, with clauses and atoms in the order in which they stand: what
    /// [`of`](Self::of) is measured against.
    pub fn in_order(clauses: &[(usize, Vec<usize>)]) -> Self {
        Self::merged(clauses, None)
    }

    fn merged(clauses: &[(usize, Vec<usize>)], estimates: Option<&[AtomEstimate]>) -> Self {
        let mut tree = Self::default();
        tree.append(&first_steps(&borrowed(clauses), estimates), 0);
        tree
    }

    /// Nanoseconds to decide some clauses, each its number and its atoms, for a candidate, by the rank of each atom
    /// alone.
    pub fn expected_cost(clauses: &[(usize, Vec<usize>)], estimates: &[AtomEstimate]) -> f64 {
        expected_cost(&ranked(clauses, estimates), estimates)
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

/// The clauses with their atoms by rank.
fn ranked(clauses: &[Clause], estimates: &[AtomEstimate]) -> Vec<Clause> {
    let of_clause = |(number, atoms): &Clause| {
        let mut atoms = atoms.clone();
        atoms.sort_by(|&a, &b| by_rank(&estimates[a], &estimates[b]).then(a.cmp(&b)));
        (*number, atoms)
    };
    clauses.iter().map(of_clause).collect()
}

/// Descending by (1 - passes) / cost.
fn by_rank(a: &AtomEstimate, b: &AtomEstimate) -> Ordering {
    let rank = |e: &AtomEstimate| (1.0 - e.passes) / e.alone();
    a.last.cmp(&b.last).then(rank(b).total_cmp(&rank(a)))
}

/// A clause, its number and its atoms.
type Clause = (usize, Vec<usize>);

fn borrowed(clauses: &[Clause]) -> Vec<(usize, &[usize])> {
    clauses.iter().map(|(number, atoms)| (*number, atoms.as_slice())).collect()
}

/// Trees that are looked at times clauses in each.
const LOOKED_AT: usize = 20_000;

/// The clauses with atoms moved, one atom in one clause or in all that have it, as long as the whole tree gets cheaper.
fn improved(mut clauses: Vec<Clause>, estimates: &[AtomEstimate]) -> Vec<Clause> {
    let mut left = LOOKED_AT / clauses.len().max(1);
    let mut cost = expected_cost(&clauses, estimates);
    let mut shared: Vec<usize> = clauses.iter().flat_map(|(_, atoms)| atoms.iter().copied()).collect();
    shared.sort_unstable();
    shared = shared.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0]).collect();
    let longest = clauses.iter().map(|(_, atoms)| atoms.len()).max().unwrap_or(0);
    loop {
        let before = cost;
        let mut keep_better = |clauses: &mut Vec<Clause>, changed: Vec<Clause>| {
            let changed_cost = expected_cost(&changed, estimates);
            if changed_cost < cost {
                (*clauses, cost) = (changed, changed_cost);
            }
        };
        for &atom in &shared {
            for to in 0..longest {
                if left == 0 {
                    return clauses;
                }
                left -= 1;
                let mut changed = clauses.clone();
                changed.iter_mut().for_each(|(_, atoms)| {
                    if let Some(from) = atoms.iter().position(|&a| a == atom) {
                        move_to(atoms, from, to, estimates);
                    }
                });
                keep_better(&mut clauses, changed);
            }
        }
        for clause in 0..clauses.len() {
            let len = clauses[clause].1.len();
            for (from, to) in (0..len).flat_map(|from| (0..len).map(move |to| (from, to))) {
                if left == 0 {
                    return clauses;
                }
                if from != to {
                    left -= 1;
                    let mut changed = clauses.clone();
                    move_to(&mut changed[clause].1, from, to, estimates);
                    keep_better(&mut clauses, changed);
                }
            }
        }
        // a gain of less than a thousandth is not worth another round
        if cost > 0.999 * before {
            return clauses;
        }
    }
}

/// Moves an atom unless that would bring one that has to come last before another that has not.
fn move_to(atoms: &mut Vec<usize>, from: usize, to: usize, estimates: &[AtomEstimate]) {
    let anywhere = atoms.iter().filter(|&&atom| !estimates[atom].last).count();
    if from < anywhere {
        let atom = atoms.remove(from);
        atoms.insert(to.min(anywhere - 1), atom);
    }
}

/// Nanoseconds a candidate.
fn expected_cost(clauses: &[Clause], estimates: &[AtomEstimate]) -> f64 {
    let nodes = first_steps(&borrowed(clauses), Some(estimates));
    let mut read: Vec<Reading> = nodes.iter().filter_map(|node| estimates[node.atom].reads).collect();
    read.sort_unstable_by_key(|reading| reading.key);
    read.dedup_by_key(|reading| reading.key);
    one_after_the_other(&nodes).0 + read.iter().map(|reading| reading.cost).sum::<f64>()
}

/// The nodes of the first steps, which read their keys for nearly all pairs.
fn first_steps(clauses: &[(usize, &[usize])], estimates: Option<&[AtomEstimate]>) -> Vec<Node> {
    let key = |atom: usize| estimates.and_then(|estimates| estimates[atom].reads).map(|reading| reading.key);
    let read: Vec<usize> = clauses.iter().filter_map(|(_, atoms)| key(*atoms.first()?)).collect();
    siblings(clauses, estimates, 0, &read)
}

/// What siblings cost a pair that reaches the first, and the share of pairs for which none has a witness.
fn one_after_the_other(nodes: &[Node]) -> (f64, f64) {
    nodes
        .iter()
        .fold((0.0, 1.0), |(cost, undecided), node| (cost + undecided * node.cost, undecided * (1.0 - node.witnesses)))
}

/// The clauses merged by their first atoms; given estimates, the likeliest witness for the least cost first.
fn siblings(
    clauses: &[(usize, &[usize])],
    estimates: Option<&[AtomEstimate]>,
    depth: usize,
    read: &[usize],
) -> Vec<Node> {
    let mut firsts: Vec<usize> = Vec::new();
    for (_, atoms) in clauses {
        if let [first, ..] = atoms
            && !firsts.contains(first)
        {
            firsts.push(*first);
        }
    }
    let mut nodes: Vec<Node> = firsts.into_iter().map(|atom| node(atom, clauses, estimates, depth, read)).collect();
    if estimates.is_some() {
        nodes.sort_by(|a, b| (b.witnesses / b.cost).total_cmp(&(a.witnesses / a.cost)));
    }
    nodes
}

fn node(
    atom: usize,
    clauses: &[(usize, &[usize])],
    estimates: Option<&[AtomEstimate]>,
    depth: usize,
    read: &[usize],
) -> Node {
    let below = clauses.iter().filter_map(|(number, atoms)| match atoms {
        [first, rest @ ..] if *first == atom => Some((*number, rest)),
        _ => None,
    });
    let below: Vec<_> = below.collect();
    let witness = below.iter().filter(|(_, rest)| rest.is_empty()).map(|(number, _)| *number).min();
    // a clause that ends here makes the longer ones needless
    let children = if witness.is_some() { Vec::new() } else { siblings(&below, estimates, depth + 1, read) };
    let estimate = estimates.map_or(AtomEstimate::UNKNOWN, |estimates| estimates[atom]);
    let AtomEstimate { cost, first, passes, reads, .. } = estimate;
    let (below_cost, undecided) = one_after_the_other(&children);
    let cost = match reads {
        _ if depth == 0 => first,
        Some(Reading { key, .. }) if read.contains(&key) => cost,
        _ => estimate.alone(),
    };
    let witnesses = if witness.is_some() { passes } else { passes * (1.0 - undecided) };
    Node { atom, witness, children, cost: cost + passes * below_cost, witnesses }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(cost: f64, passes: f64) -> AtomEstimate {
        AtomEstimate::uniform(cost, passes)
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
        let tree = ExecutionTree::by_rank(&[(0, vec![3, 1, 0, 2]), (1, vec![0, 4]), (2, vec![5, 4])], &estimates);
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
    fn what_clauses_share_comes_first_where_the_whole_gets_cheaper() {
        // alone, the cheaper atom of each clause would come first, and the shared one be asked twice
        let estimates = [estimate(10.0, 0.2), estimate(8.0, 0.2), estimate(8.0, 0.2)];
        let clauses = [(0, vec![0, 1]), (1, vec![0, 2])];
        let atoms = |tree: ExecutionTree| tree.steps.iter().map(|step| step.atom).collect::<Vec<_>>();
        assert_eq!(atoms(ExecutionTree::by_rank(&clauses, &estimates)), [1, 0, 2, 0]);
        assert_eq!(atoms(ExecutionTree::of(&clauses, &estimates)), [0, 1, 2]);
    }

    #[test]
    fn first_steps_share_what_they_read() {
        let reading =
            |key, cost, passes| AtomEstimate { reads: Some(Reading { key, cost: 6.0 }), ..estimate(cost, passes) };
        // the third reads another key than the first, and is a little cheaper than the second, which does not
        let estimates = [reading(0, 2.0, 0.01), reading(0, 4.0, 0.05), reading(1, 3.0, 0.05)];
        let firsts = |clauses: &[(usize, Vec<usize>)]| {
            let tree = ExecutionTree::of(clauses, &estimates);
            tree.steps.iter().filter(|step| step.depth == 0).map(|step| step.atom).collect::<Vec<_>>()
        };
        assert_eq!(firsts(&[(1, vec![1, 2])]), [2]);
        let mut both = firsts(&[(0, vec![0]), (1, vec![1, 2])]);
        both.sort_unstable();
        assert_eq!(both, [0, 1]);
    }

    #[test]
    fn what_may_fail_comes_last() {
        let estimates = [AtomEstimate { last: true, ..estimate(0.1, 0.0) }, estimate(500.0, 0.9)];
        let tree = ExecutionTree::of(&[(0, vec![0, 1])], &estimates);
        assert_eq!(tree.steps.iter().map(|s| s.atom).collect::<Vec<_>>(), [1, 0]);
    }
}
