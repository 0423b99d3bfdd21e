//! A text on its way from tokens with our keywords to tokens that the stock parser reads.

use std::collections::{HashMap, VecDeque};

use datafusion::common::{DataFusionError, Result};
use datafusion::config::SqlParserOptions;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

use super::alias;
use super::condition::{Condition, conditions};
use super::edit::Edit;
use super::keyword::{Keywords, similarity_joins};
use super::nearest::nearest_joins;
use super::ranking::as_conditions;
use super::reset;
use super::rules::{Calls, RuleCatalog, Tables, call_ends};
use super::visit::visit;
use crate::functions::contract;

/// What the parser made of a text, and the same as changes to the text.
pub(super) struct Parsed {
    pub statements: VecDeque<Statement>,
    /// How many joins there are that only this crate knows.
    pub joins: usize,
    /// Whether calls that name a rule were replaced.
    pub rules: bool,
    pub edits: Vec<Edit>,
}

/// Parses tokens that may say SIMILARITY JOIN and NEAREST and call `rules`; without rules the calls stay as they are.
pub(super) fn parse(
    tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    options: &SqlParserOptions,
    rules: Option<&RuleCatalog>,
) -> Result<Parsed> {
    let recursion_limit = options.recursion_limit.get();
    let keywords = similarity_joins(&tokens)?;
    let unread = alias::before_join(&tokens, &keywords);
    let call_ends = call_ends(&tokens);
    let mut edits = Vec::new();
    let tokens = reset::as_set(tokens, dialect, &mut edits)?;
    let (tokens, joins) = without_keyword(tokens, &keywords, &mut edits);
    let nearest = nearest_joins(&tokens, &joins)?;
    let (tokens, joins) = as_conditions(tokens, joins, &nearest, dialect, recursion_limit, &mut edits)?;
    let conditions = if joins.is_empty() { vec![] } else { conditions(&tokens, &joins, dialect, recursion_limit) };
    let (tokens, missing) = marked(tokens, conditions, &mut edits);
    let mut statements = DFParserBuilder::new(tokens)
        .with_dialect(dialect)
        .with_recursion_limit(recursion_limit)
        .build()?
        .parse_statements()?;
    if let Some(error) = missing {
        return Err(error);
    }
    edits.extend(alias::make_explicit(&mut statements, unread)?);
    let expansions = rules.map_or(Ok(vec![]), |rules| expand(&mut statements, rules, call_ends))?;
    let rules = !expansions.is_empty();
    edits.extend(expansions);
    Ok(Parsed { statements, joins: joins.len() + nearest.len(), rules, edits })
}

/// Puts rules in the place of the calls that name them.
fn expand(
    statements: &mut VecDeque<Statement>,
    rules: &RuleCatalog,
    ends: HashMap<Location, Location>,
) -> Result<Vec<Edit>> {
    if ends.is_empty() {
        return Ok(vec![]);
    }
    let mut edits = Vec::new();
    for statement in statements {
        let mut calls = Calls::new(rules, &ends, Some(Tables::of(statement)?));
        visit(statement, &mut calls)?;
        edits.extend(calls.edits);
    }
    Ok(edits)
}

/// The tokens without the words SIMILARITY, with LEFT for bare SEMI and ANTI, and where the words JOIN are now.
fn without_keyword(
    tokens: Vec<TokenWithSpan>,
    keywords: &[Keywords],
    edits: &mut Vec<Edit>,
) -> (Vec<TokenWithSpan>, Vec<usize>) {
    let mut joins = Vec::with_capacity(keywords.len());
    let mut kept = Vec::with_capacity(tokens.len());
    let mut coming = keywords.iter().peekable();
    for (i, token) in tokens.into_iter().enumerate() {
        match coming.peek() {
            Some(next) if next.bare == Some(i) => {
                edits.push(Edit::insert(token.span.start, "LEFT "));
                kept.push(word("LEFT", Keyword::LEFT, token.span.start));
            }
            Some(next) if next.similarity == i => {
                edits.push(Edit { start: token.span.start, end: token.span.end, text: "".into() });
                continue;
            }
            Some(next) if next.join == i => {
                joins.push(kept.len());
                coming.next();
            }
            _ => {}
        }
        kept.push(token);
    }
    (kept, joins)
}

/// The tokens with each condition under the mark, and the first error among the conditions.
///
/// The condition keeps parentheses of its own, or `x = y` would be a named argument in some dialects.
fn marked(
    tokens: Vec<TokenWithSpan>,
    conditions: Vec<Condition>,
    edits: &mut Vec<Edit>,
) -> (Vec<TokenWithSpan>, Option<DataFusionError>) {
    let (mut opens, mut closes, mut missing) = (Vec::new(), Vec::new(), None);
    for condition in conditions {
        match condition {
            Condition::On(range) => {
                edits.push(Edit::insert(tokens[range.start].span.start, MARK_TEXT));
                edits.push(Edit::insert(tokens[range.end - 1].span.end, "))"));
                opens.push(range.start);
                closes.push(range.end - 1);
            }
            Condition::Missing(error) => missing = missing.or(Some(error)),
        }
    }
    // a join's condition may come after those of the joins nested in its right side
    opens.sort_unstable();
    closes.sort_unstable();
    (with_marks(tokens, &opens, &closes), missing)
}

const MARK_TEXT: &str = "similarity_join_condition((";

fn with_marks(tokens: Vec<TokenWithSpan>, opens: &[usize], closes: &[usize]) -> Vec<TokenWithSpan> {
    let (mut opens, mut closes) = (opens.iter().peekable(), closes.iter().peekable());
    let mut marked = Vec::with_capacity(tokens.len() + 5 * opens.len());
    for (i, token) in tokens.into_iter().enumerate() {
        let Span { start, end } = token.span;
        while opens.next_if_eq(&&i).is_some() {
            marked.push(word(contract::NAME, Keyword::NoKeyword, start));
            marked.extend([at(Token::LParen, start), at(Token::LParen, start)]);
        }
        marked.push(token);
        while closes.next_if_eq(&&i).is_some() {
            marked.extend([at(Token::RParen, end), at(Token::RParen, end)]);
        }
    }
    marked
}

fn word(value: &str, keyword: Keyword, place: Location) -> TokenWithSpan {
    at(Token::Word(Word { value: value.into(), quote_style: None, keyword }), place)
}

fn at(token: Token, place: Location) -> TokenWithSpan {
    TokenWithSpan { token, span: Span::new(place, place) }
}
