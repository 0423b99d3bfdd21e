//! The clauses of a condition over one list of atoms.

use std::fmt;

use datafusion::logical_expr::utils::{disjunction, split_binary};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::predicate::{Atom, Band, Conjunction, EqualityKey, NormalForm, Side, Sides};

/// What a rule asks of a pair of rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleAtom {
    /// One expression of each side is equal.
    Equality(EqualityKey),
    /// Two keys are similar.
    Similarity(Atom),
    /// A value of one side lies between two of the other, or a difference between two constants.
    Band(Band),
    /// A condition that reads one side and fails for no row: it is decided once a row.
    OneSided {
        /// Whether that side is the left one.
        left: bool,
        /// The condition.
        condition: Expr,
    },
    /// Condition that either row has to satisfy by itself, in a self-join.
    BothSides {
        /// The condition over the left input.
        left: Expr,
        /// The condition over the right input.
        right: Expr,
    },
    /// A condition over the left row, or else one over the right row, that fail for no row: each is decided once a row.
    EitherSide {
        /// The condition over the left input.
        left: Expr,
        /// The condition over the right input.
        right: Expr,
    },
    /// Any other condition, decided pair by pair after everything else.
    Pair(Expr),
}

impl RuleAtom {
    /// The expressions of both sides that are compared with each other, where an index is about these.
    pub fn compared(&self) -> Option<(Expr, Expr)> {
        match self {
            Self::Equality(key) => Some((key.left.clone(), key.right.clone())),
            Self::Similarity(atom) => Some((atom.left.clone(), atom.right.clone())),
            Self::Band(_)
            | Self::OneSided { .. }
            | Self::BothSides { .. }
            | Self::EitherSide { .. }
            | Self::Pair(_) => None,
        }
    }
}

/// An OR of ANDs whose atoms are shared.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Every atom once.
    pub atoms: Vec<RuleAtom>,
    /// The atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
    /// What a pair has to satisfy besides, whichever clause holds.
    pub residual: Vec<Expr>,
}

impl Rules {
    /// The clauses of `form`, which has some. What all share by equality or similarity is part of each, so that each is
    /// entered by the best of its atoms.
    pub fn of(form: &NormalForm, sides: Sides<'_>) -> Self {
        let common = form.common.iter().cloned().reduce(Expr::and);
        let mut common = common.map(|common| Conjunction::of(&common, sides)).unwrap_or_default();
        let mut rules = Self { atoms: Vec::new(), clauses: Vec::new(), residual: std::mem::take(&mut common.residual) };
        let shared = RuleAtom::served(common);
        for clause in &form.clauses {
            let condition = clause.iter().cloned().reduce(Expr::and);
            let mut parts = condition.map(|condition| Conjunction::of(&condition, sides)).unwrap_or_default();
            let rest = std::mem::take(&mut parts.residual);
            let rest = rest.into_iter().map(|condition| RuleAtom::over(condition, sides));
            let own = RuleAtom::served(parts);
            rules.add(shared.iter().cloned().chain(own).chain(rest));
        }
        rules.absorb();
        rules
    }

    /// Forgets clauses that another one implies by the bounds of its atoms: `x <= 2 OR (x <= 1 AND y)` is `x <= 2`.
    fn absorb(&mut self) {
        let weaker = |wider: &[usize], clause: &[usize]| {
            wider.iter().all(|&weak| clause.iter().any(|&strong| self.atoms[strong].implies(&self.atoms[weak])))
        };
        let implied = |at: usize| {
            // of two clauses that imply each other the first stays
            (0..self.clauses.len()).any(|other| {
                let (wider, clause) = (&self.clauses[other], &self.clauses[at]);
                other != at && weaker(wider, clause) && (other < at || !weaker(clause, wider))
            })
        };
        let left: Vec<Vec<usize>> =
            (0..self.clauses.len()).filter(|&at| !implied(at)).map(|at| self.clauses[at].clone()).collect();
        let mut used: Vec<usize> = left.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        let renumbered = |atom: usize| used.partition_point(|&known| known < atom);
        self.clauses = left.iter().map(|clause| clause.iter().map(|&atom| renumbered(atom)).collect()).collect();
        self.atoms = used.iter().map(|&atom| self.atoms[atom].clone()).collect();
    }

    /// The single clause of an AND; what has no index is asked of a pair besides.
    pub fn of_one(mut parts: Conjunction) -> Self {
        let residual = std::mem::take(&mut parts.residual);
        let mut rules = Self { atoms: Vec::new(), clauses: Vec::new(), residual };
        rules.add(RuleAtom::served(parts));
        rules
    }

    /// Clauses of which one holds for each pair that satisfies `condition`, and maybe for others. There are none where
    /// they would be more than `most`, or where no index serves one of them.
    pub fn covering(condition: &Expr, sides: Sides<'_>, most: usize) -> Option<Self> {
        let form = NormalForm::of(condition, sides, most).ok()?;
        let rules = match form.clauses.is_empty() {
            true => Self::of_one(Conjunction::of(&form.common.iter().cloned().reduce(Expr::and)?, sides)),
            false => Self::of(&form, sides),
        };
        let all_have_entries = rules.without_entry().next().is_none();
        all_have_entries.then_some(rules)
    }

    /// Adds a clause of `atoms`, of which others may have some.
    pub fn add(&mut self, atoms: impl IntoIterator<Item = RuleAtom>) {
        let mut clause: Vec<usize> = atoms.into_iter().map(|atom| self.number(atom)).collect();
        clause.sort_unstable();
        clause.dedup();
        self.clauses.push(clause);
    }

    fn number(&mut self, atom: RuleAtom) -> usize {
        self.atoms.iter().position(|known| known.implies(&atom) && atom.implies(known)).unwrap_or_else(|| {
            self.atoms.push(atom);
            self.atoms.len() - 1
        })
    }

    /// The clauses that no index can enter.
    pub fn without_entry(&self) -> impl Iterator<Item = usize> {
        let served = |&atom: &usize| {
            use RuleAtom::{EitherSide, OneSided, Pair};
            !matches!(self.atoms[atom], OneSided { .. } | EitherSide { .. } | Pair(_))
        };
        (0..self.clauses.len()).filter(move |&clause| !self.clauses[clause].iter().any(served))
    }

    /// Whether an index can enter some clause.
    pub fn has_entry(&self) -> bool {
        self.without_entry().count() < self.clauses.len()
    }

    /// Whether some clause asks more of all pairs than conditions of one side each, whose rows all pair.
    pub fn verifies_all_pairs(&self) -> bool {
        let one_sided = |&atom: &usize| matches!(self.atoms[atom], RuleAtom::OneSided { .. });
        self.without_entry().any(|clause| !self.clauses[clause].iter().all(one_sided))
    }

    /// A clause as the query states it.
    pub fn describe(&self, clause: usize) -> String {
        self.clauses[clause].iter().map(|&atom| self.atoms[atom].to_string()).collect::<Vec<_>>().join(" AND ")
    }
}

impl RuleAtom {
    /// Parts of a conjunction that an index serves.
    fn served(Conjunction { keys, atoms, bands, .. }: Conjunction) -> Vec<Self> {
        let similar = atoms.into_iter().flat_map(|atom| {
            // a vector that is not finite passes the test, and DataFusion says what the condition is for it
            let asked = atom.leaves_undecided().then(|| Self::Pair(atom.condition.clone()));
            [Self::Similarity(atom)].into_iter().chain(asked)
        });
        keys.into_iter().map(Self::Equality).chain(similar).chain(bands.into_iter().map(Self::Band)).collect()
    }

    /// Whether a pair that satisfies this one satisfies `other`, as far as their form tells.
    fn implies(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Similarity(one), Self::Similarity(other)) => {
                one.left == other.left && one.right == other.right && other.similarity.accepts_all_of(&one.similarity)
            }
            (Self::Band(one), Self::Band(other)) => one.form == other.form,
            (one, other) => one == other,
        }
    }

    fn over(condition: Expr, sides: Sides<'_>) -> Self {
        match sides.of(&condition) {
            Some(side @ (Side::Left | Side::Right)) if never_fails(&condition) => {
                Self::OneSided { left: side == Side::Left, condition }
            }
            _ => match either_side(&condition, sides) {
                Some([left, right]) => Self::EitherSide { left, right },
                None => Self::Pair(condition),
            },
        }
    }
}

/// What an OR asks of the left and of the right row, where each of its conditions reads one of them and never fails.
fn either_side(condition: &Expr, sides: Sides<'_>) -> Option<[Expr; 2]> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for part in split_binary(condition, Operator::Or) {
        match sides.of(part)? {
            Side::Left => left.push(part.clone()),
            Side::Right => right.push(part.clone()),
            _ => return None,
        }
    }
    never_fails(condition).then_some([disjunction(left)?, disjunction(right)?])
}

/// Whether `expr` has a value for every row: comparisons of columns and constants.
fn never_fails(expr: &Expr) -> bool {
    use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => never_fails(&alias.expr),
        Expr::Not(e)
        | Expr::IsNull(e)
        | Expr::IsNotNull(e)
        | Expr::IsTrue(e)
        | Expr::IsFalse(e)
        | Expr::IsUnknown(e)
        | Expr::IsNotTrue(e)
        | Expr::IsNotFalse(e)
        | Expr::IsNotUnknown(e) => never_fails(e),
        Expr::InList(list) => never_fails(&list.expr) && list.list.iter().all(never_fails),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            matches!(op, And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
                && never_fails(left)
                && never_fails(right)
        }
        _ => false,
    }
}

impl fmt::Display for RuleAtom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equality(EqualityKey { left, right, null_equals_null }) => {
                let op = if *null_equals_null { "IS NOT DISTINCT FROM" } else { "=" };
                write!(f, "{} {op} {}", left.human_display(), right.human_display())
            }
            Self::Band(band) => write!(f, "{band}"),
            Self::Similarity(Atom { left, right, similarity, filters: true, .. }) => {
                write!(f, "{similarity} of ({}, {})", left.human_display(), right.human_display())
            }
            Self::Similarity(atom) => write!(f, "{}", atom.condition.human_display()),
            Self::BothSides { left, right } => write!(f, "{} AND {}", left.human_display(), right.human_display()),
            Self::EitherSide { left, right } => write!(f, "({} OR {})", left.human_display(), right.human_display()),
            Self::OneSided { condition, .. } | Self::Pair(condition) => write!(f, "{}", condition.human_display()),
        }
    }
}
