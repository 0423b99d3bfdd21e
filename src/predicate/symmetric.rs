//! Proves that a condition over two rows of one table has the same value for both orders of the rows.

use std::iter::zip;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};

use super::Sides;
use super::sides::data_type;
use crate::functions;

/// Whether `condition` surely has one value for two rows in either order. Both sides have the same columns.
pub fn is_symmetric(condition: &Expr, sides: Sides<'_>) -> bool {
    symmetric_to(condition, condition, sides)
}

/// Whether `one` surely has the value for two rows that `other` has for them in the other order: they differ by no more
/// than the sides of their columns and the order of operands. Both sides have the same columns.
pub fn symmetric_to(one: &Expr, other: &Expr, sides: Sides<'_>) -> bool {
    !one.is_volatile() && Turned { sides }.same_value(one, other)
}

/// Compares expressions by their form, a column of one side with the same column of the other.
struct Turned<'a> {
    sides: Sides<'a>,
}

impl Turned<'_> {
    fn same_value(&self, one: &Expr, other: &Expr) -> bool {
        match (bare(one), bare(other)) {
            (Expr::Column(one), Expr::Column(other)) => {
                let Sides { left, right } = self.sides;
                let are_twins = |one: &Column, other: &Column| {
                    left.maybe_index_of_column(one).is_some_and(|at| right.maybe_index_of_column(other) == Some(at))
                };
                are_twins(one, other) || are_twins(other, one)
            }
            (one @ Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }), other) => {
                let mut others = split_binary(other, *op);
                let mut found = split_binary(one, *op).into_iter().map(|operand| {
                    let at = others.iter().position(|other| self.same_value(operand, other));
                    at.map(|at| others.swap_remove(at)).is_some()
                });
                found.all(|found| found) && others.is_empty()
            }
            (Expr::BinaryExpr(one), Expr::BinaryExpr(other)) => {
                one.op == other.op && self.same_operands(one, [&other.left, &other.right])
                    || turned(one.op) == Some(other.op) && self.same_operands(one, [&other.right, &other.left])
            }
            (Expr::ScalarFunction(one), Expr::ScalarFunction(other)) => {
                one.func == other.func && self.same_call(one, other)
            }
            (Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_), _) => false,
            (one, other) => frame(one) == frame(other) && self.same_values(&parts(one), &parts(other)),
        }
    }

    fn same_values(&self, ones: &[Expr], others: &[Expr]) -> bool {
        ones.len() == others.len() && zip(ones, others).all(|(one, other)| self.same_value(one, other))
    }

    fn same_operands(&self, binary: &BinaryExpr, [left, right]: [&Expr; 2]) -> bool {
        self.same_value(&binary.left, left) && self.same_value(&binary.right, right)
    }

    /// Whether two calls of one function have one value.
    fn same_call(&self, one: &ScalarFunction, other: &ScalarFunction) -> bool {
        self.same_values(&one.args, &other.args)
            || match (one.args.as_slice(), other.args.as_slice()) {
                ([first, second, rest @ ..], [other_first, other_second, other_rest @ ..]) => {
                    functions::is_symmetric(&one.func)
                        && self.same_value(first, other_second)
                        && self.same_value(second, other_first)
                        && self.same_values(rest, other_rest)
                }
                ([difference], [other]) if one.func.inner().is::<AbsFunc>() => {
                    match (self.signed_difference(difference), self.signed_difference(other)) {
                        (Some(one), Some(other)) => self.same_operands(one, [&other.right, &other.left]),
                        _ => false,
                    }
                }
                _ => false,
            }
    }

    /// `left - right`, of which an absolute value is the same for either order. Unsigned differences wrap around.
    fn signed_difference<'e>(&self, expr: &'e Expr) -> Option<&'e BinaryExpr> {
        let Expr::BinaryExpr(difference @ BinaryExpr { op: Operator::Minus, .. }) = bare(expr) else { return None };
        let is_unsigned = data_type(expr, self.sides)?.is_unsigned_integer();
        (!is_unsigned).then_some(difference)
    }
}

/// The operator that has the same value for operands in the other order.
fn turned(op: Operator) -> Option<Operator> {
    use Operator::{BitwiseAnd, BitwiseOr, BitwiseXor, Multiply, Plus};
    op.swap().or(matches!(op, Plus | Multiply | BitwiseAnd | BitwiseOr | BitwiseXor).then_some(op))
}

/// `expr` without the names that it is given.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// The expressions that `expr` is made of.
fn parts(expr: &Expr) -> Vec<Expr> {
    let mut parts = Vec::new();
    let visited = expr.apply_children(|part| {
        parts.push(part.clone());
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(visited.is_ok(), "nothing fails");
    parts
}

/// `expr` with the same constant for each of its parts.
fn frame(expr: &Expr) -> Option<Expr> {
    expr.clone().map_children(|_| Ok(Transformed::yes(lit(true)))).data().ok()
}
