//! `match_scores`: how near two rows come to each atom of a rule.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::build::call;
use super::clauses::{atoms, bare};
use super::qualifiers::Sides;
use super::rule::Rule;

/// `named_struct(name1, value1, ..)` with a field for each distinct value, in the order of the rule; `placed` gives
/// each part of the rule the names of the query.
pub(super) fn scores(rule: &Rule, placed: impl Fn(&Expr) -> Expr) -> Expr {
    let mut values: Vec<&Expr> = Vec::new();
    for atom in atoms(rule.condition()) {
        let value = score(atom, rule).unwrap_or(atom);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let mut names: Vec<String> = Vec::with_capacity(values.len());
    for value in &values {
        let short = short_name(value, rule).filter(|name| !names.contains(name));
        names.push(short.unwrap_or_else(|| value.to_string()));
    }
    let fields = names.into_iter().zip(values);
    call("named_struct", fields.flat_map(|(name, value)| [text(name), placed(value)]))
}

/// The call whose value an atom compares with a constant, if it looks at both rows.
pub(super) fn score<'a>(atom: &'a Expr, rule: &Rule) -> Option<&'a Expr> {
    let (compared, bounds) = match atom {
        Expr::BinaryOp { left, op, right } if compares(op) => match (bare(left), bare(right)) {
            (call @ Expr::Function(_), bound) | (bound, call @ Expr::Function(_)) => (call, vec![bound]),
            _ => return None,
        },
        Expr::Between { expr, low, high, .. } => (bare(expr), vec![low.as_ref(), high.as_ref()]),
        _ => return None,
    };
    let constant = bounds.into_iter().all(|bound| rule.sides(bound) == Sides::NONE);
    let measures = matches!(compared, Expr::Function(_)) && rule.sides(compared) == Sides::BOTH;
    (constant && measures).then_some(compared)
}

/// The constant that an atom compares the value of such a call with, if it is one.
pub(super) fn threshold<'a>(atom: &'a Expr, rule: &Rule) -> Option<&'a Expr> {
    let call = score(atom, rule)?;
    match atom {
        Expr::BinaryOp { left, right, .. } => [bare(left), bare(right)].into_iter().find(|side| *side != call),
        _ => None,
    }
}

fn compares(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq};
    matches!(operator, Eq | Gt | GtEq | Lt | LtEq)
}

/// What is the same on both sides is named once: `levenshtein(name)`, `city =`.
fn short_name(value: &Expr, rule: &Rule) -> Option<String> {
    match value {
        Expr::Function(call) => {
            let FunctionArguments::List(list) = &call.args else { return None };
            let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
                parameters @ ..,
            ] = list.args.as_slice()
            else {
                return None;
            };
            let arguments = [common_name(left, right, rule)?].into_iter();
            let arguments: Vec<_> = arguments.chain(parameters.iter().map(FunctionArg::to_string)).collect();
            Some(format!("{}({})", call.name, arguments.join(", ")))
        }
        Expr::BinaryOp { left, op, right } => Some(format!("{} {op}", common_name(left, right, rule)?)),
        _ => None,
    }
}

/// The text of two expressions that do the same to a column of either row, without qualifiers.
fn common_name(left: &Expr, right: &Expr, rule: &Rule) -> Option<String> {
    let opposite =
        matches!((rule.sides(left), rule.sides(right)), (Sides::LEFT, Sides::RIGHT) | (Sides::RIGHT, Sides::LEFT));
    let unqualified = |expr| rule.between(expr, &[], &[], Span::empty()).to_string();
    let name = unqualified(left);
    (opposite && name == unqualified(right)).then_some(name)
}

fn text(value: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(value).into())
}
