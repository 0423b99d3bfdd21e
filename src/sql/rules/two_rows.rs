//! A condition over two rows `a` and `b`, as the table functions take it: a matching rule by name, or a text.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CaseWhen, Expr, Ident};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::blocking::Blocking;
use super::calls::{arguments, plain_arguments};
use super::catalog::RuleCatalog;
use super::clauses::{atoms, bare};
use super::expand::Calls;
use super::qualifiers;
use super::rule::Rule;
use super::scores::{score, threshold};
use crate::functions;
use crate::sql::error::syntax_error;
use crate::sql::statements::{dialect, tokenize};
use crate::sql::visit::visit_expr;

/// A condition over two rows `a` and `b`.
#[derive(Debug)]
pub struct TwoRows {
    rule: Rule,
    normalizer: IdentNormalizer,
}

/// One alternative of a condition, a clause as `matched_clause` counts them.
#[derive(Debug)]
pub struct ClauseText {
    /// The whole.
    pub sql: String,
    /// Columns that it reads of the row `a`.
    pub left: BTreeSet<String>,
    /// Columns that it reads of the row `b`.
    pub right: BTreeSet<String>,
    /// What has to hold together.
    pub parts: Vec<PartText>,
}

/// One part of an alternative.
#[derive(Debug)]
pub struct PartText {
    /// The part.
    pub sql: String,
    /// The measure that it compares with a constant.
    pub score: Option<String>,
    /// The constant.
    pub threshold: Option<String>,
    /// What it compares of either row.
    pub values: Option<(String, String)>,
}

impl TwoRows {
    /// Reads the name of a matching rule, or a condition.
    ///
    /// # Errors
    /// A text that is neither: a syntax error, or a column without `a` or `b` before it.
    pub fn read(text: &str, state: &SessionState) -> Result<Self> {
        let rules = RuleCatalog::of(state.config())?;
        let names = ["a", "b"].map(Ident::new);
        let options = &state.config_options().sql_parser;
        let condition = match rules.find(text.trim()) {
            Ok(rule) => rule.between(rule.condition(), &names[..1], &names[1..], Span::empty()),
            Err(_) => {
                let dialect = dialect(options)?;
                let tokens = tokenize(text, dialect.as_ref()).map_err(ParserError::from)?;
                let limit = options.recursion_limit.get();
                let mut parser =
                    Parser::new(dialect.as_ref()).with_recursion_limit(limit).with_tokens_with_locations(tokens);
                let mut condition = parser.parse_expr()?;
                if parser.peek_token_ref().token != Token::EOF {
                    let span = parser.peek_token_ref().span;
                    return Err(syntax_error("a condition ends before this", span));
                }
                visit_expr(&mut condition, &mut Calls::new(&rules, &HashMap::new(), None))?;
                condition
            }
        };
        let [a, b] = names;
        let normalizer = IdentNormalizer::new(options.enable_ident_normalization);
        Ok(Self { rule: Rule::try_new(a, b, condition, &normalizer)?, normalizer })
    }

    /// The condition.
    pub fn sql(&self) -> String {
        self.rule.condition().to_string()
    }

    /// The alternatives, in the order of the text.
    pub fn clauses(&self) -> Vec<ClauseText> {
        let part = |atom: &Expr| PartText {
            sql: atom.to_string(),
            score: score(atom, &self.rule).map(Expr::to_string),
            threshold: threshold(atom, &self.rule).map(Expr::to_string),
            values: compared(atom).map(|(left, right)| (left.to_string(), right.to_string())),
        };
        let clause = |clause: &Expr| ClauseText {
            sql: clause.to_string(),
            left: qualifiers::columns(clause, self.rule.left(), &self.normalizer),
            right: qualifiers::columns(clause, self.rule.right(), &self.normalizer),
            parts: atoms(clause).into_iter().map(part).collect(),
        };
        self.rule.clauses().into_iter().map(clause).collect()
    }

    /// What each alternative asks before it computes a measure, in the order of the text.
    pub fn blocking(&self, state: &SessionState) -> Vec<Blocking> {
        self.rule.clauses().into_iter().map(|clause| Blocking::of(clause, &self.rule, state)).collect()
    }

    /// Whether the condition surely holds for two rows the other way round where it holds one way.
    pub fn is_symmetric(&self, state: &SessionState) -> bool {
        let (a, b) = (std::slice::from_ref(self.rule.left()), std::slice::from_ref(self.rule.right()));
        let turned = self.rule.between(self.rule.condition(), b, a, Span::empty());
        canonical(self.rule.condition(), state) == canonical(&turned, state)
    }
}

/// The two expressions that a part compares, by a measure or an operator.
fn compared(atom: &Expr) -> Option<(&Expr, &Expr)> {
    match bare(atom) {
        Expr::BinaryOp { left, right, .. } => {
            [left, right].into_iter().find_map(|side| arguments(bare(side))).or(Some((left, right)))
        }
        Expr::Between { expr, .. } => arguments(bare(expr)),
        call => arguments(call),
    }
}

/// A text that two expressions share only where they have one value. What it does not look into stays as it is.
fn canonical(expr: &Expr, state: &SessionState) -> String {
    let of = |expr: &Expr| canonical(expr, state);
    let pair = |op: &dyn std::fmt::Display, mut sides: [String; 2], sorted: bool| {
        if sorted {
            sides.sort();
        }
        format!("{op}({}, {})", sides[0], sides[1])
    };
    match bare(expr) {
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
            let mut operands = Vec::new();
            flatten(expr, op, &mut operands);
            let mut operands: Vec<String> = operands.into_iter().map(of).collect();
            operands.sort();
            format!("{op}({})", operands.join(", "))
        }
        Expr::BinaryOp { left, op, right } => {
            use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, Multiply, NotEq, Plus};
            match op {
                Eq | NotEq | Plus | Multiply => pair(op, [of(left), of(right)], true),
                Gt => pair(&Lt, [of(right), of(left)], false),
                GtEq => pair(&LtEq, [of(right), of(left)], false),
                _ => pair(op, [of(left), of(right)], false),
            }
        }
        Expr::Between { expr, negated, low, high } => {
            format!("between({negated}, {}, {}, {})", of(expr), of(low), of(high))
        }
        Expr::Case { operand: None, conditions, else_result, .. } => {
            let branch = |branch: &CaseWhen| format!("{} -> {}", of(&branch.condition), of(&branch.result));
            let branches: Vec<String> = conditions.iter().map(branch).collect();
            let rest = else_result.as_deref().map(of).unwrap_or_default();
            format!("case({}; {rest})", branches.join(", "))
        }
        Expr::IsNull(inner) => format!("is_null({})", of(inner)),
        Expr::IsNotNull(inner) => format!("is_not_null({})", of(inner)),
        Expr::UnaryOp { op, expr } => format!("{op}({})", of(expr)),
        Expr::Function(call) => match plain_arguments(call) {
            Some(arguments) => {
                let name = call.name.to_string().to_lowercase();
                if let ("abs", [difference]) = (name.as_str(), arguments.as_slice())
                    && let Expr::BinaryOp { left, op: BinaryOperator::Minus, right } = bare(difference)
                {
                    return pair(&"distance", [of(left), of(right)], true);
                }
                let mut texts: Vec<String> = arguments.into_iter().map(of).collect();
                let known = state.scalar_functions().get(&name);
                if texts.len() >= 2 && known.is_some_and(|function| functions::is_symmetric(function)) {
                    texts[..2].sort();
                }
                format!("{name}({})", texts.join(", "))
            }
            None => expr.to_string(),
        },
        other => other.to_string(),
    }
}

/// The operands of a chain of one operator.
fn flatten<'a>(expr: &'a Expr, of: &BinaryOperator, operands: &mut Vec<&'a Expr>) {
    match bare(expr) {
        Expr::BinaryOp { left, op, right } if op == of => {
            flatten(left, of, operands);
            flatten(right, of, operands);
        }
        other => operands.push(other),
    }
}
