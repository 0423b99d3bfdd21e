//! The parts of a rule: clauses joined by OR, of atoms joined by AND.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use super::calls::plain_arguments;
use crate::functions::WITH_RECALL;

/// The operands of the outermost ORs of `condition`, in the order of the text.
///
/// Parentheses around the whole are looked through; those around an operand keep it one clause, OR within or not.
pub(super) fn clauses(condition: &Expr) -> Vec<&Expr> {
    operands(bare(condition), &BinaryOperator::Or)
}

/// Everything between the ANDs and ORs of `condition`, at any depth, in the order of the text.
pub(super) fn atoms(condition: &Expr) -> Vec<&Expr> {
    let mut atoms = Vec::new();
    let mut ahead = vec![condition];
    while let Some(expr) = ahead.pop() {
        match bare(expr) {
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                ahead.extend([right.as_ref(), left.as_ref()])
            }
            atom => atoms.push(atom),
        }
    }
    atoms
}

/// `expr` without parentheses or a recall around it.
pub(super) fn bare(mut expr: &Expr) -> &Expr {
    loop {
        expr = match expr {
            Expr::Nested(inner) => inner,
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case(WITH_RECALL) => {
                match plain_arguments(call).as_deref() {
                    Some([condition, _]) => condition,
                    _ => return expr,
                }
            }
            other => return other,
        }
    }
}

/// The operands of a chain of `operator`, which leans to the left: a long one shall not cost stack.
pub(super) fn operands<'a>(mut expr: &'a Expr, operator: &BinaryOperator) -> Vec<&'a Expr> {
    let mut operands = Vec::new();
    while let Expr::BinaryOp { left, op, right } = expr
        && op == operator
    {
        operands.push(right.as_ref());
        expr = left;
    }
    operands.push(expr);
    operands.reverse();
    operands
}
