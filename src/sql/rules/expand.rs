//! Puts rules in the place of the calls that name them.

use std::collections::HashMap;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, Value,
};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use super::RuleCatalog;
use super::rule::Rule;
use super::scores::scores;
use super::tables::Tables;
use crate::sql::edit::Edit;
use crate::sql::error::planning_error;
use crate::sql::visit::Visitor;

/// What a call asks of a rule.
#[derive(Debug, Clone, Copy)]
enum Question {
    Matches,
    Clause,
    Scores,
}

const QUESTIONS: [(&str, Question); 3] =
    [("match_rule", Question::Matches), ("matched_clause", Question::Clause), ("match_scores", Question::Scores)];

/// Where the calls that name rules begin and end, if there are any among `tokens`.
pub(in crate::sql) fn call_ends(tokens: &[TokenWithSpan]) -> HashMap<Location, Location> {
    let solid: Vec<_> = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let begins = |i: &usize| match &solid[*i].token {
        Token::Word(word) => is_question(&word.value) && solid.get(i + 1).is_some_and(|t| t.token == Token::LParen),
        _ => false,
    };
    let ends = (0..solid.len()).filter(begins).filter_map(|i| Some((solid[i].span.start, closing(&solid[i + 1..])?)));
    ends.collect()
}

/// The end of the parenthesis that closes the one at the front.
fn closing(tokens: &[&TokenWithSpan]) -> Option<Location> {
    let mut depth = 0_usize;
    for token in tokens {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(token.span.end),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_question(name: &str) -> bool {
    question(name).is_some()
}

fn question(name: &str) -> Option<Question> {
    QUESTIONS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, question)| *question)
}

/// Expands the calls of a statement.
pub(in crate::sql) struct Calls<'a> {
    rules: &'a RuleCatalog,
    ends: &'a HashMap<Location, Location>,
    /// The columns of a select list that bear the name of the call, as they would for a function.
    columns: HashMap<Location, Ident>,
    /// The names that tables have in the statement, `None` for a rule's own condition, which has none.
    tables: Option<Tables>,
    /// Changes to the text that make the same expansions.
    pub edits: Vec<Edit>,
}

impl<'a> Calls<'a> {
    pub fn new(rules: &'a RuleCatalog, ends: &'a HashMap<Location, Location>, tables: Option<Tables>) -> Self {
        Self { rules, ends, columns: HashMap::new(), tables, edits: Vec::new() }
    }

    fn expand(&mut self, expr: &mut Expr) -> Result<()> {
        let Some((call, question)) = call_of(expr) else { return Ok(()) };
        let place = name_of(call).map_or(Span::empty(), |name| name.span);
        let Arguments { rule, left, right } = arguments(call, place)?;
        for (which, argument) in [("second", left), ("third", right)] {
            if self.tables.as_ref().is_some_and(|tables| !tables.has(argument)) {
                let found = argument.iter().map(Ident::to_string).collect::<Vec<_>>().join(".");
                return Err(wrong(call, place, &format!("the {which} argument, {found}, is no table of this query")));
            }
        }
        let rule = self.rules.find(rule).map_err(|message| planning_error(&message, place))?;
        let expansion = answer(question, &rule, left, right, place);
        if let Some(&end) = self.ends.get(&place.start) {
            let name = self.columns.get(&place.start).map(|name| format!(" AS {name}")).unwrap_or_default();
            self.edits.push(Edit { start: place.start, end, text: format!("{expansion}{name}").into() });
        }
        *expr = expansion;
        Ok(())
    }
}

impl Visitor for Calls<'_> {
    fn before_select(&mut self, select: &mut Select) -> Result<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some((call, _)) = call_of(expr)
                && let Some(place) = name_of(call).map(|name| name.span.start)
            {
                let alias = Ident::with_quote('"', call.to_string());
                self.columns.insert(place, alias.clone());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<()> {
        self.expand(expr)
    }
}

fn call_of(expr: &Expr) -> Option<(&Function, Question)> {
    let Expr::Function(call) = expr else { return None };
    Some((call, question(&name_of(call)?.value)?))
}

/// The name of a function that is not in a schema.
fn name_of(call: &Function) -> Option<&Ident> {
    match call.name.0.as_slice() {
        [name] => name.as_ident(),
        _ => None,
    }
}

struct Arguments<'a> {
    rule: &'a str,
    left: &'a [Ident],
    right: &'a [Ident],
}

fn arguments(call: &Function, place: Span) -> Result<Arguments<'_>> {
    let wrong = |what: &str| wrong(call, place, what);
    let bare = call.filter.is_none() && call.over.is_none() && call.within_group.is_empty();
    let FunctionArguments::List(list) = &call.args else { return Err(wrong("it has no arguments")) };
    if !bare || call.null_treatment.is_some() || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Err(wrong("it takes no DISTINCT, ORDER BY, FILTER or OVER"));
    }
    let [rule, left, right] = list.args.as_slice() else {
        return Err(wrong(&format!("it has {} arguments", list.args.len())));
    };
    Ok(Arguments {
        rule: literal(rule).ok_or_else(|| wrong("the first argument has to be a string literal"))?,
        left: alias(left).ok_or_else(|| wrong("the second argument has to be a table alias"))?,
        right: alias(right).ok_or_else(|| wrong("the third argument has to be a table alias"))?,
    })
}

fn wrong(call: &Function, place: Span, what: &str) -> DataFusionError {
    let name = call.name.to_string().to_lowercase();
    let form = format!("{name} takes the name of a rule and two table aliases, as in {name}('rule', a, b)");
    planning_error(&format!("{form}; {what}"), place)
}

fn expression(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn literal(argument: &FunctionArg) -> Option<&str> {
    match expression(argument)? {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

fn alias(argument: &FunctionArg) -> Option<&[Ident]> {
    match expression(argument)? {
        Expr::Identifier(name) => Some(std::slice::from_ref(name)),
        // a table without an alias, in a schema
        Expr::CompoundIdentifier(names) => Some(names),
        _ => None,
    }
}

fn answer(question: Question, rule: &Rule, left: &[Ident], right: &[Ident], place: Span) -> Expr {
    let condition = |expr: &Expr| rule.between(expr, left, right, place);
    match question {
        Question::Matches => Expr::Nested(Box::new(condition(rule.condition()))),
        Question::Clause => first_that_holds(rule.clauses().into_iter().map(condition)),
        Question::Scores => scores(rule, condition),
    }
}

/// `CASE WHEN clause1 THEN 1 WHEN clause2 THEN 2 .. END`; integer literals are Int64.
fn first_that_holds(clauses: impl Iterator<Item = Expr>) -> Expr {
    let number = |n: usize| Expr::Value(Value::Number(n.to_string(), false).into());
    let conditions = clauses.zip(1..).map(|(condition, n)| CaseWhen { condition, result: number(n) }).collect();
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: None,
    }
}
