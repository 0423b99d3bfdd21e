//! A condition over two rows `a` and `b`, as the table functions take it: a matching rule by name, or a text.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::blocking::Blocking;
use super::calls::arguments;
use super::catalog::RuleCatalog;
use super::clauses::{atoms, bare};
use super::expand::Calls;
use super::qualifiers;
use super::rule::Rule;
use super::scores::{score, threshold};
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
