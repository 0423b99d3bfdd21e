//! Proves that the atoms of a self-join hold for both orders of two rows or for none: each pair is looked for once.

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

/// `rules` with atoms that all hold both ways round where they hold one way, or `None` where some clause has another.
///
/// Two conditions of a clause that are each other's other way round become one: a [`RuleAtom::BothSides`] of two that
/// read one side each.
pub(super) fn symmetric_rules(rules: &Rules, sides: Sides<'_>) -> Option<Rules> {
    let mut symmetric = Rules { atoms: Vec::new(), clauses: Vec::new(), residual: rules.residual.clone() };
    for clause in &rules.clauses {
        let atoms = clause.iter().map(|&atom| &rules.atoms[atom]);
        symmetric.add(symmetric_clause(atoms, sides)?);
    }
    Some(symmetric)
}

fn symmetric_clause<'a>(atoms: impl Iterator<Item = &'a RuleAtom>, sides: Sides<'_>) -> Option<Vec<RuleAtom>> {
    let (mut symmetric, mut of_left, mut of_right, mut pairs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for atom in atoms {
        let holds = match atom {
            RuleAtom::Equality(key) => is_symmetric_key(key, sides),
            RuleAtom::Similarity(atom) => is_symmetric_atom(atom, sides),
            RuleAtom::Band(band) => is_symmetric_band(band, sides),
            RuleAtom::BothSides { .. } => true,
            RuleAtom::OneSided { left, condition } => {
                if *left { &mut of_left } else { &mut of_right }.push(condition);
                continue;
            }
            RuleAtom::Pair(condition) if is_symmetric(condition, sides) => true,
            RuleAtom::Pair(condition) => {
                pairs.push(condition);
                continue;
            }
        };
        if !holds {
            return None;
        }
        symmetric.push(atom.clone());
    }
    for left in of_left {
        let twin = of_right.iter().position(|right| symmetric_to(left, right, sides))?;
        symmetric.push(RuleAtom::BothSides { left: left.clone(), right: of_right.swap_remove(twin).clone() });
    }
    while let Some(pair) = pairs.pop() {
        let twin = pairs.iter().position(|other| symmetric_to(pair, other, sides))?;
        symmetric.push(RuleAtom::Pair(pairs.swap_remove(twin).clone().and(pair.clone())));
    }
    of_right.is_empty().then_some(symmetric)
}
