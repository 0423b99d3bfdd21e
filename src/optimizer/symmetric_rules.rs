//! Proves that the atoms of a self-join hold for both orders of two rows or for none: each pair is looked for once.

use datafusion::logical_expr::Expr;

use super::same_input::same_expr;
use crate::predicate::{Atom, Band, BandForm, EqualityKey, Sides, is_symmetric, symmetric_to};
use crate::program::{RuleAtom, Rules};

/// Whether both sides of an equality are the same expression.
pub(super) fn is_symmetric_key(key: &EqualityKey, sides: Sides<'_>) -> bool {
    same_expr(&key.left, sides.left, &key.right, sides.right)
}

/// Whether a similarity condition holds both ways round where it holds one way.
pub(super) fn is_symmetric_atom(atom: &Atom, sides: Sides<'_>) -> bool {
    atom.similarity.is_symmetric() && same_expr(&atom.left, sides.left, &atom.right, sides.right)
}

/// Whether a band holds both ways round where it holds one way.
fn is_symmetric_band(band: &Band, sides: Sides<'_>) -> bool {
    let BandForm::Difference { left, right, bounds, .. } = &band.form else { return false };
    same_expr(left, sides.left, right, sides.right) && bounds.is_symmetric()
}

/// `rules` in a form in which each clause holds both ways round where it holds one way, or `None` where one does not.
///
/// Two conditions of a clause that read one side each, and are each other's other way round, become a
/// [`RuleAtom::BothSides`]. All other atoms stay in their order, as one may guard the next.
pub(super) fn symmetric_rules(rules: &Rules, sides: Sides<'_>) -> Option<Rules> {
    let mut symmetric = Rules { atoms: Vec::new(), clauses: Vec::new(), residual: rules.residual.clone() };
    for clause in &rules.clauses {
        let atoms = clause.iter().map(|&atom| &rules.atoms[atom]);
        symmetric.add(symmetric_clause(atoms, sides)?);
    }
    Some(symmetric)
}

fn symmetric_clause<'a>(atoms: impl Iterator<Item = &'a RuleAtom>, sides: Sides<'_>) -> Option<Vec<RuleAtom>> {
    let mut symmetric = Vec::new();
    // conditions whose other way round is yet to come
    let mut of_one_side: Vec<(bool, &Expr)> = Vec::new();
    let (mut of_either, mut of_pairs): (Vec<(&Expr, &Expr)>, Vec<&Expr>) = (Vec::new(), Vec::new());
    for atom in atoms {
        let holds = match atom {
            RuleAtom::Equality(key) => is_symmetric_key(key, sides),
            RuleAtom::Similarity(atom) => is_symmetric_atom(atom, sides),
            RuleAtom::Band(band) => is_symmetric_band(band, sides),
            RuleAtom::BothSides { .. } => true,
            RuleAtom::EitherSide { left, right } => {
                if symmetric_to(left, right, sides) {
                    symmetric.push(atom.clone());
                    continue;
                }
                let is_twin = |(other_left, other_right): &(&Expr, &Expr)| {
                    symmetric_to(left, other_right, sides) && symmetric_to(other_left, right, sides)
                };
                match of_either.iter().position(is_twin) {
                    Some(at) => _ = of_either.swap_remove(at),
                    None => of_either.push((left, right)),
                }
                // a self-join has one bit a row for both sides: two conditions are decided pair by pair
                symmetric.push(RuleAtom::Pair(left.clone().or(right.clone())));
                continue;
            }
            RuleAtom::OneSided { left, condition } => {
                let is_twin = |other: &(bool, &Expr)| other.0 != *left && symmetric_to(condition, other.1, sides);
                match of_one_side.iter().position(is_twin) {
                    Some(at) => {
                        let twin = of_one_side.swap_remove(at).1;
                        let (left, right) = if *left { (condition, twin) } else { (twin, condition) };
                        symmetric.push(RuleAtom::BothSides { left: left.clone(), right: right.clone() });
                    }
                    None => of_one_side.push((*left, condition)),
                }
                continue;
            }
            RuleAtom::Pair(condition) => {
                if !is_symmetric(condition, sides) {
                    match of_pairs.iter().position(|other| symmetric_to(condition, other, sides)) {
                        Some(at) => _ = of_pairs.swap_remove(at),
                        None => of_pairs.push(condition),
                    }
                }
                true
            }
        };
        if !holds {
            return None;
        }
        symmetric.push(atom.clone());
    }
    (of_one_side.is_empty() && of_either.is_empty() && of_pairs.is_empty()).then_some(symmetric)
}
