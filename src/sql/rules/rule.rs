//! One matching rule.

use datafusion::common::Result;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::clauses::clauses;
use super::qualifiers::{self, Sides};

/// A condition over two rows, by the names that it was written with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    left: Ident,
    right: Ident,
    /// Every column in it is qualified by exactly `left` or `right`.
    condition: Expr,
}

impl Rule {
    /// The rule `condition` of a rule's author.
    ///
    /// # Errors
    /// A planning error that names and points at a column without one of the two qualifiers, or a sub-query.
    pub fn try_new(left: Ident, right: Ident, mut condition: Expr, normalizer: &IdentNormalizer) -> Result<Self> {
        qualifiers::settle(&mut condition, &left, &right, normalizer)?;
        Ok(Self { left, right, condition })
    }

    pub fn left(&self) -> &Ident {
        &self.left
    }

    pub fn right(&self) -> &Ident {
        &self.right
    }

    pub fn condition(&self) -> &Expr {
        &self.condition
    }

    /// The operands of the outermost ORs, as written.
    pub fn clauses(&self) -> Vec<&Expr> {
        clauses(&self.condition)
    }

    /// `part`, some expression of this rule, for two tables whose columns have the names that the rule gives them.
    /// What goes wrong with it points at `place`.
    pub fn between(&self, part: &Expr, left: &[Ident], right: &[Ident], place: Span) -> Expr {
        let mut part = part.clone();
        qualifiers::replace(&mut part, [(&self.left, left), (&self.right, right)], place);
        part
    }

    /// Which of the two rows `part`, some expression of this rule, looks at.
    pub fn sides(&self, part: &Expr) -> Sides {
        qualifiers::sides(part, &self.left, &self.right)
    }
}
