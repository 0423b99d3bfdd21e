//! The arguments of a call in a rule.

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// The first two arguments of a call.
pub(super) fn arguments(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Function(call) = expr else { return None };
    match plain_arguments(call)?.as_slice() {
        [left, right, ..] => Some((left, right)),
        _ => None,
    }
}

/// The arguments of a call that has nothing but arguments.
pub(super) fn plain_arguments(call: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let bare = call.filter.is_none() && call.over.is_none() && call.within_group.is_empty();
    let bare = bare && list.clauses.is_empty() && list.duplicate_treatment.is_none() && call.null_treatment.is_none();
    let argument = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(argument).collect::<Option<Vec<_>>>().filter(|_| bare)
}
