//! Which conditions cost next to nothing and cannot fail, so that they may be asked before all others.

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The conditions, comparisons of columns and constants first, otherwise in their order.
///
/// A condition with a function, a cast or arithmetic keeps its place among its like: it may fail for rows that those
/// before it exclude.
pub fn plain_first(conditions: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
    let (mut plain, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_plain);
    plain.extend(others);
    plain
}

fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => is_plain(&alias.expr),
        Expr::Not(of) | Expr::IsNull(of) | Expr::IsNotNull(of) => is_plain(of),
        Expr::IsTrue(of) | Expr::IsFalse(of) | Expr::IsNotTrue(of) | Expr::IsNotFalse(of) => is_plain(of),
        Expr::Between(between) => [&between.expr, &between.low, &between.high].into_iter().all(|part| is_plain(part)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
            let connects =
                matches!(op, And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
            connects && is_plain(left) && is_plain(right)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;
    use datafusion::functions::expr_fn::length;
    use datafusion::logical_expr::{cast, col, lit};

    use super::*;

    #[test]
    fn what_may_fail_keeps_its_order() {
        let failing = cast(col("a"), DataType::Int32).eq(lit(1));
        let divided = lit(1) / col("b");
        let long = length(col("c")).gt(lit(1));
        let plain = [col("a").not_eq(col("b")), col("b").is_null().or(col("b").between(lit(1), lit(2)))];
        let [one, other] = plain.clone();
        let sorted = plain_first([failing.clone(), one, divided.clone().eq(lit(1)), other, long.clone()]);
        assert_eq!(sorted, [&plain[..], &[failing, divided.eq(lit(1)), long]].concat());
    }
}
