//! A conjunction: one similarity condition enters it, the rest verifies.

use datafusion::logical_expr::Expr;

use crate::predicate::{Atom, Conjunction, EqualityKey};

/// A conjunction in the order in which it is evaluated.
///
/// The entry produces exact matches of one atom within the groups of the equality keys; the residual decides the rest
/// as written.
#[derive(Debug, Clone)]
pub struct ConjunctionPlan {
    /// Equality keys: rows of different groups never pair.
    pub keys: Vec<EqualityKey>,
    /// The similarity condition whose index produces the pairs.
    pub entry: Atom,
    /// What is left to check on those pairs, in order.
    pub residual: Vec<Expr>,
}

impl ConjunctionPlan {
    /// The program of a conjunction that has one similarity condition and no band.
    pub fn of(conjunction: Conjunction) -> Option<Self> {
        let Conjunction { keys, mut atoms, bands, residual, .. } = conjunction;
        let entry = atoms.pop().filter(|_| atoms.is_empty() && bands.is_empty())?;
        Some(Self { keys, entry, residual })
    }
}
