//! Expressions that nobody wrote.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName,
};

/// The call of a function.
pub(super) fn call(name: &str, arguments: impl IntoIterator<Item = Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// `operands`, each of them in need of no parentheses, with `operator` between them; `None` if there are none.
pub(super) fn chain(operator: BinaryOperator, operands: Vec<Expr>) -> Option<Expr> {
    operands.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: operator.clone(),
        right: Box::new(right),
    })
}
