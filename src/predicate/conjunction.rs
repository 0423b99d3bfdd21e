//! A join condition taken apart into the conjuncts that the engines know and the rest.

use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

use super::{Atom, Band, Condition, Sides, antipodal, coordinates, implied, normal_form, recognise, truth};

/// `left = right`, or `left IS NOT DISTINCT FROM right`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EqualityKey {
    /// The key of the left input.
    pub left: Expr,
    /// The key of the right input.
    pub right: Expr,
    /// Whether two NULLs are equal.
    pub null_equals_null: bool,
}

/// A join condition, an AND of its parts.
#[derive(Debug, Clone, Default)]
pub struct Conjunction {
    /// Equalities between one expression of each side.
    pub keys: Vec<EqualityKey>,
    /// Similarity conditions; several bounds on one measure of the same keys are one atom.
    pub atoms: Vec<Atom>,
    /// Bands between both sides.
    pub bands: Vec<Band>,
    /// Everything else, as written.
    pub residual: Vec<Expr>,
    /// Conditions over a measure of both sides that no access path serves, and why.
    pub refused: Vec<Refusal>,
}

/// Why a condition cannot be accelerated.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The condition as the query states it.
    pub condition: Expr,
    /// What stands in the way.
    pub reason: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.condition.human_display(), self.reason)
    }
}

impl Conjunction {
    /// Takes `condition` apart. What is refused also stands in the residual.
    pub fn of(condition: &Expr, sides: Sides<'_>) -> Self {
        let mut parts = Self::default();
        for conjunct in truth::conjuncts(condition, sides) {
            for bound in split_between(conjunct.unalias()) {
                parts.add(bound, sides);
            }
        }
        parts.refuse_unselective(sides);
        parts.bands = Band::take(&mut parts.residual, sides);
        if parts.keys.is_empty() && parts.atoms.is_empty() {
            parts.atoms.extend(coordinates::chebyshev(&mut parts.bands, sides));
        }
        for atom in parts.atoms.iter().filter(|atom| atom.filters) {
            // several atoms may follow from one condition
            let conditions = split_conjunction(&atom.condition).into_iter();
            let others: Vec<_> = conditions.filter(|condition| !parts.residual.contains(condition)).cloned().collect();
            parts.residual.extend(others);
        }
        parts
    }

    /// Only bounds that exclude the least similar pairs let an access path skip any. Asked last, because of `x BETWEEN
    /// 1 AND 2` one bound alone excludes none. Vectors that are far apart are an entry where there is no better one,
    /// neither another condition nor those of an OR.
    fn refuse_unselective(&mut self, sides: Sides<'_>) {
        let (selective, others) =
            std::mem::take(&mut self.atoms).into_iter().partition(|a| a.similarity.is_selective());
        self.atoms = selective;
        let others: Vec<Atom> = others;
        let has_or = self.residual.iter().any(normal_form::is_or);
        for atom in others {
            let turned = antipodal::turned(&atom, sides).filter(|_| self.atoms.is_empty() && !has_or);
            match turned {
                Some(turned) => self.atoms.push(turned),
                None => self.refuse(atom),
            }
        }
    }

    fn refuse(&mut self, Atom { condition, similarity, .. }: Atom) {
        let reason = unselective(&similarity);
        self.refused.push(Refusal { condition: condition.clone(), reason });
        self.residual.insert(0, condition);
    }

    fn add(&mut self, conjunct: Expr, sides: Sides<'_>) {
        if let Some(key) = equality(&conjunct, sides) {
            self.keys.push(key);
            return;
        }
        match recognise::atom(&conjunct, sides) {
            Ok(Some(atom)) => self.add_atom(atom),
            Ok(None) => match coordinates::euclidean(&conjunct, sides) {
                Some(atom) => self.atoms.push(atom),
                None => self.residual.push(conjunct),
            },
            Err(reason) => self.add_implied(conjunct, reason, sides),
        }
    }

    /// What follows from a condition that is refused otherwise. An OR is taken apart into clauses instead.
    fn add_implied(&mut self, conjunct: Expr, reason: String, sides: Sides<'_>) {
        let is_or = normal_form::is_or(&conjunct);
        let implied = if is_or { Vec::new() } else { implied::atoms(&conjunct, sides) };
        let (selective, others): (Vec<_>, Vec<_>) =
            implied.into_iter().partition(|atom| atom.similarity.is_selective());
        if selective.is_empty() {
            let reason = others.first().map_or(reason, |atom| unselective(&atom.similarity));
            self.refused.push(Refusal { condition: conjunct.clone(), reason });
            self.residual.push(conjunct);
        }
        selective.into_iter().for_each(|atom| self.add_atom(atom));
    }

    fn add_atom(&mut self, atom: Atom) {
        for known in &mut self.atoms {
            if let Some(merged) = known.and(&atom) {
                *known = merged;
                return;
            }
        }
        self.atoms.push(atom);
    }
}

fn unselective(similarity: &Condition) -> String {
    format!("the bound ({}) accepts the least similar pairs too, so that nothing can be skipped", similarity.bounds())
}

/// `x BETWEEN a AND b` as its two comparisons; anything else as it is.
fn split_between(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::Between(Between { expr, negated: false, low, high }) => {
            vec![expr.clone().gt_eq(*low), expr.lt_eq(*high)]
        }
        other => vec![other],
    }
}

fn equality(expr: &Expr, sides: Sides<'_>) -> Option<EqualityKey> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let null_equals_null = match op {
        Operator::Eq => false,
        Operator::IsNotDistinctFrom => true,
        _ => return None,
    };
    let (left, right) = sides.order(left, right)?;
    Some(EqualityKey { left, right, null_equals_null })
}
