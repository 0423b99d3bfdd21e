//! A similarity condition between one expression of each side.

use datafusion::logical_expr::Expr;

use super::{Condition, VectorCondition};

/// A similarity condition: `similarity` over `left` (columns of the left input) and `right` (of the right input).
///
/// Either key NULL makes the condition NULL, so that the pair does not match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Atom {
    /// The key of the left input.
    pub left: Expr,
    /// The key of the right input.
    pub right: Expr,
    /// What is computed and accepted.
    pub similarity: Condition,
    /// The condition as the query states it.
    pub condition: Expr,
    /// Whether the similarity only filters: it holds wherever the condition does, which is still to be asked.
    pub filters: bool,
}

impl Atom {
    /// Whether some pairs that have the similarity may fail the condition, which stands nowhere else.
    pub fn leaves_undecided(&self) -> bool {
        !self.filters && matches!(self.similarity, Condition::Vector(VectorCondition { undecided_from: Some(_), .. }))
    }

    /// Both atoms as one, where they bound the same measure of the same keys.
    pub fn and(&self, other: &Self) -> Option<Self> {
        if self.left != other.left || self.right != other.right || self.filters != other.filters {
            return None;
        }
        let similarity = self.similarity.and(other.similarity)?;
        Some(Self { similarity, condition: self.condition.clone().and(other.condition.clone()), ..self.clone() })
    }
}
