//! Clauses over atoms in physical expressions.

use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::{Expr, lit, when};

use super::physical::{Physical, equality};
use crate::exec::{AtomExprs, RuleStrategy};
use crate::predicate::{Atom, EqualityKey};
use crate::program::RuleAtom;
use similarity_engine::choice::EngineSpec;

/// The strategy of `clauses` over `atoms`, given the rows of the build side where statistics know them.
pub(super) fn rule_strategy(
    (atoms, clauses): (Vec<RuleAtom>, Vec<Vec<usize>>),
    build_rows: Option<usize>,
    physical: &Physical<'_>,
    engine: EngineSpec,
) -> Result<RuleStrategy> {
    let labels = atoms.iter().map(ToString::to_string).collect();
    let mut pairs: Vec<(Expr, Expr)> = Vec::new();
    let atoms = atoms.into_iter().map(|atom| atom_exprs(atom, &mut pairs, physical)).collect::<Result<_>>()?;
    let key = |(left, right): &(Expr, Expr)| {
        Ok([physical.expression(left, physical.sides.left)?, physical.expression(right, physical.sides.right)?])
    };
    let keys = pairs.iter().map(key).collect::<Result<_>>()?;
    Ok(RuleStrategy { atoms, labels, keys, clauses, build_rows, engine })
}

/// An atom in physical expressions; its key pair is one of `keys` from then on.
fn atom_exprs(atom: RuleAtom, keys: &mut Vec<(Expr, Expr)>, physical: &Physical<'_>) -> Result<AtomExprs> {
    let sides = physical.sides;
    Ok(match atom {
        RuleAtom::Equality(key) => equality_exprs(&key, physical)?,
        RuleAtom::Similarity(Atom { left, right, similarity, .. }) => {
            let pair = (left, right);
            let key = keys.iter().position(|known| *known == pair).unwrap_or_else(|| {
                keys.push(pair);
                keys.len() - 1
            });
            AtomExprs::Similarity { key, condition: similarity }
        }
        RuleAtom::Band(band) => AtomExprs::Band(physical.band(&band)?),
        RuleAtom::BothSides { left, right } => {
            let [left, right] = [left, right].map(where_true);
            equality_exprs(&EqualityKey { left: left?, right: right?, null_equals_null: false }, physical)?
        }
        RuleAtom::OneSided { left: true, condition } => {
            AtomExprs::OneSided { side: JoinSide::Left, condition: physical.expression(&condition, sides.left)? }
        }
        RuleAtom::OneSided { condition, .. } => {
            AtomExprs::OneSided { side: JoinSide::Right, condition: physical.expression(&condition, sides.right)? }
        }
        RuleAtom::EitherSide { left, right } => AtomExprs::EitherSide {
            left: physical.expression(&left, sides.left)?,
            right: physical.expression(&right, sides.right)?,
        },
        RuleAtom::Pair(condition) => AtomExprs::Pair(physical.filter(&condition)?),
    })
}

fn equality_exprs(key: &EqualityKey, physical: &Physical<'_>) -> Result<AtomExprs> {
    Ok(match physical.equality(key)? {
        Some(equality) => AtomExprs::Equality(equality),
        None => AtomExprs::Pair(physical.filter(&equality(key))?),
    })
}

/// TRUE where `condition` holds and NULL elsewhere, so that it equals itself for two rows for which it holds alone.
fn where_true(condition: Expr) -> Result<Expr> {
    when(condition, lit(true)).end()
}
