//! The names before the columns of a rule: checked when the rule is made, replaced when it is used.

use std::collections::BTreeSet;

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Ident, ObjectNamePart, Query};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sql::error::planning_error;
use crate::sql::visit::{Visitor, for_each_expr, visit_expr};

/// Makes sure that every column of `condition` belongs to `left` or `right`, and spells these names alike everywhere.
pub(super) fn settle(condition: &mut Expr, left: &Ident, right: &Ident, normalizer: &IdentNormalizer) -> Result<()> {
    let mut columns = Columns { sides: [left, right], normalizer, parameters: Vec::new() };
    visit_expr(condition, &mut columns)
}

/// Puts other names in the place of qualifiers, and `place` in that of every place that an error may point at.
pub(super) fn replace(condition: &mut Expr, qualifiers: [(&Ident, &[Ident]); 2], place: Span) {
    for_each_expr(condition, |expr| match expr {
        Expr::CompoundIdentifier(parts) => {
            let new = qualifiers.iter().find(|(qualifier, _)| parts.first() == Some(qualifier));
            if let Some((_, names)) = new {
                parts.splice(..1, names.iter().cloned());
            }
            parts.iter_mut().for_each(|part| part.span = place);
        }
        Expr::Function(function) => {
            for part in &mut function.name.0 {
                if let ObjectNamePart::Identifier(name) = part {
                    name.span = place;
                }
            }
        }
        _ => {}
    });
}

/// The rows whose columns an expression names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sides {
    left: bool,
    right: bool,
}

impl Sides {
    pub const NONE: Self = Self { left: false, right: false };
    pub const LEFT: Self = Self { left: true, right: false };
    pub const RIGHT: Self = Self { left: false, right: true };
    pub const BOTH: Self = Self { left: true, right: true };
}

/// The rows whose columns a settled expression names.
pub(super) fn sides(expr: &Expr, left: &Ident, right: &Ident) -> Sides {
    let mut sides = Sides::NONE;
    for_each_expr(&mut expr.clone(), |expr| {
        if let Expr::CompoundIdentifier(parts) = expr {
            sides.left |= parts.first() == Some(left);
            sides.right |= parts.first() == Some(right);
        }
    });
    sides
}

/// The columns of a row that a settled expression names, as they are called after `normalizer`.
pub(super) fn columns(expr: &Expr, row: &Ident, normalizer: &IdentNormalizer) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    for_each_expr(&mut expr.clone(), |expr| match expr {
        Expr::CompoundIdentifier(parts) if parts.first() == Some(row) => {
            columns.extend(parts.get(1).map(|column| normalizer.normalize(column.clone())));
        }
        _ => {}
    });
    columns
}

struct Columns<'a> {
    sides: [&'a Ident; 2],
    normalizer: &'a IdentNormalizer,
    /// The parameters of the lambda functions around the current expression; each of them is one group.
    parameters: Vec<Vec<Ident>>,
}

impl Columns<'_> {
    fn is_parameter(&self, name: &Ident) -> bool {
        self.parameters.iter().flatten().any(|parameter| self.same(parameter, name))
    }

    fn same(&self, one: &Ident, other: &Ident) -> bool {
        self.normalizer.normalize(one.clone()) == self.normalizer.normalize(other.clone())
    }

    fn unqualified(&self, column: &str, found: &Ident) -> DataFusionError {
        let [left, right] = self.sides;
        planning_error(
            &format!(
                "the column {column} of a matching rule has to say to which of the two rows it belongs: write \
                 {left}.{name} or {right}.{name}",
                name = column.rsplit('.').next().unwrap_or(column),
            ),
            found.span,
        )
    }

    fn column(&self, parts: &mut [Ident]) -> Result<()> {
        let Some(first) = parts.first().filter(|first| !self.is_parameter(first)) else {
            return Ok(());
        };
        let side = self.sides.into_iter().find(|side| parts.len() > 1 && self.same(side, first));
        let Some(side) = side else {
            let written = parts.iter().map(Ident::to_string).collect::<Vec<_>>().join(".");
            return Err(self.unqualified(&written, first));
        };
        parts[0] = Ident { span: first.span, ..side.clone() };
        Ok(())
    }
}

impl Visitor for Columns<'_> {
    fn before_query(&mut self, _: &mut Query) -> Result<()> {
        plan_err!("a matching rule compares the columns of two rows and takes no sub-query")
    }

    fn before_expr(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Lambda(lambda) => {
                self.parameters.push(lambda.params.iter().map(|parameter| parameter.name.clone()).collect());
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                gather(root, access_chain);
                Ok(())
            }
            Expr::Identifier(name) => self.column(std::slice::from_mut(name)),
            Expr::CompoundIdentifier(parts) => self.column(parts),
            _ => Ok(()),
        }
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<()> {
        if matches!(expr, Expr::Lambda(_)) {
            self.parameters.pop();
        }
        Ok(())
    }
}

/// Takes the column of `t.x[1]` together, which the parser reads as `x` and `1` of a column `t`.
fn gather(root: &mut Expr, chain: &mut Vec<AccessExpr>) {
    let Expr::Identifier(first) = root else { return };
    let dots = chain.iter().map_while(|access| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
        _ => None,
    });
    let parts: Vec<_> = std::iter::once(first.clone()).chain(dots).collect();
    if parts.len() > 1 {
        chain.drain(..parts.len() - 1);
        *root = Expr::CompoundIdentifier(parts);
    }
}
