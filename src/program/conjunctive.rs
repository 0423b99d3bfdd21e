//! A conjunction: one similarity condition enters it, the rest verifies.

use datafusion::logical_expr::Expr;

use crate::measure::EditMeasure;
use crate::predicate::{Atom, Conjunction, EqualityKey, Test};

/// A conjunction in the order in which it is evaluated.
///
/// The entry produces exact matches of one atom within the groups of the equality keys; the residual decides
/// the rest, further similarity conditions first and whatever may raise an error last.
#[derive(Debug, Clone)]
pub struct Program {
    /// Equality keys: rows of different groups never pair.
    pub keys: Vec<EqualityKey>,
    /// The similarity condition whose index produces the pairs.
    pub entry: Atom,
    /// What is left to check on those pairs, in order.
    pub residual: Vec<Expr>,
}

impl Program {
    /// Orders `conjunction`, or `None` where it has no similarity condition.
    pub fn compile(conjunction: Conjunction) -> Option<Self> {
        let Conjunction { keys, mut atoms, residual: rest, .. } = conjunction;
        let best = (0..atoms.len()).min_by_key(|&i| entry_rank(&atoms[i].test))?;
        let entry = atoms.remove(best);
        let residual = atoms.into_iter().map(|atom| atom.condition).chain(rest).collect();
        Some(Self { keys, entry, residual })
    }

    /// The residual as one expression.
    pub fn residual(&self) -> Option<Expr> {
        self.residual.iter().cloned().reduce(Expr::and)
    }
}

/// Which atom to enter by, lower first: small edit distances have the sharpest index, then sets, by how high the
/// threshold is, then the measures whose bounds are looser.
pub(super) fn entry_rank(test: &Test) -> u32 {
    match test {
        Test::Edit { measure: EditMeasure::Jaro | EditMeasure::JaroWinkler, .. } => 30,
        Test::Edit { measure: EditMeasure::LevenshteinSimilarity, bounds } => {
            10 + slack(bounds.lower().map(|b| b.value))
        }
        Test::Edit { bounds, .. } => bounds.upper().map_or(40, |k| if k.value <= 3.0 { 0 } else { 25 }),
        Test::Set { bounds, .. } => 5 + slack(bounds.lower().map(|b| b.value)),
    }
}

/// How far a threshold in [0, 1] lies below 1, in twentieths.
fn slack(threshold: Option<f64>) -> u32 {
    ((1.0 - threshold.unwrap_or(0.0)).clamp(0.0, 1.0) * 20.0) as u32
}
