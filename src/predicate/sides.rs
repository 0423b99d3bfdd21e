//! Which input of a join an expression reads.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// The inputs of a join, as expressions see them.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// Schema of the left input.
    pub left: &'a DFSchema,
    /// Schema of the right input.
    pub right: &'a DFSchema,
}

/// The input that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// No column at all.
    Neither,
    /// Columns of the left input only.
    Left,
    /// Columns of the right input only.
    Right,
    /// Columns of both inputs.
    Both,
}

impl Sides<'_> {
    /// The input that `expr` reads, or `None` where a column belongs to neither (an outer reference).
    pub fn of(&self, expr: &Expr) -> Option<Side> {
        let mut side = Side::Neither;
        for column in expr.column_refs() {
            side = side.and(self.of_column(column)?);
        }
        Some(side)
    }

    fn of_column(&self, column: &Column) -> Option<Side> {
        match (self.left.has_column(column), self.right.has_column(column)) {
            (true, false) => Some(Side::Left),
            (false, true) => Some(Side::Right),
            _ => None,
        }
    }

    /// `a` and `b` in the order left key, right key, where each reads exactly one input and not the same.
    pub fn order(&self, a: &Expr, b: &Expr) -> Option<(Expr, Expr)> {
        match (self.of(a)?, self.of(b)?) {
            (Side::Left, Side::Right) => Some((a.clone(), b.clone())),
            (Side::Right, Side::Left) => Some((b.clone(), a.clone())),
            _ => None,
        }
    }
}

impl Side {
    /// The input that two expressions read together.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Neither, side) | (side, Self::Neither) => side,
            (a, b) if a == b => a,
            _ => Self::Both,
        }
    }
}

/// The type of `expr`, or `None` where a column belongs to neither input.
pub(super) fn data_type(expr: &Expr, sides: Sides<'_>) -> Option<DataType> {
    match sides.of(expr)? {
        Side::Left | Side::Neither => expr.get_type(sides.left).ok(),
        Side::Right => expr.get_type(sides.right).ok(),
        Side::Both => expr.get_type(&sides.left.join(sides.right).ok()?).ok(),
    }
}
