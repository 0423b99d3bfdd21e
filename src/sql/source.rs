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
use super::recall::{Recall, recall_after, without_recalls};
use super::reset;
use super::rules::{Calls, RuleCatalog, Tables, call_ends};
use super::visit::visit;
use crate::functions::{WITH_RECALL, contract};

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
    let (tokens, mut recalls) = without_recalls(tokens)?;
    let keywords = similarity_joins(&tokens)?;
    let unread = alias::before_join(&tokens, &keywords);
    let call_ends = call_ends(&tokens);
    let mut edits = Vec::new();
    let tokens = reset::as_set(tokens, dialect, &mut edits)?;
    let (tokens, joins) = without_keyword(tokens, &keywords, &mut edits);
    let nearest = nearest_joins(&tokens, &joins)?;
    let found = (&mut recalls, &mut edits);
    let (tokens, joins) = as_conditions(tokens, joins, &nearest, dialect, recursion_limit, found)?;
    let conditions = if joins.is_empty() { vec![] } else { conditions(&tokens, &joins, dialect, recursion_limit) };
    let (tokens, missing) = marked(tokens, conditions, recalls, &mut edits);
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

/// The tokens with each condition under the mark, with its recall if it has one, and the first error among the
/// conditions.
///
/// The condition keeps parentheses of its own, or `x = y` would be a named argument in some dialects.
fn marked(
    tokens: Vec<TokenWithSpan>,
    conditions: Vec<Condition>,
    mut recalls: Vec<Recall>,
    edits: &mut Vec<Edit>,
) -> (Vec<TokenWithSpan>, Option<DataFusionError>) {
    let (mut marks, mut missing) = (Vec::new(), None);
    for condition in conditions {
        let condition = match condition {
            Condition::On(range) => range,
            Condition::Missing(error) => {
                missing = missing.or(Some(error));
                continue;
            }
        };
        let (start, end) = (tokens[condition.start].span.start, tokens[condition.end - 1].span.end);
        let recall = recall_after(&mut recalls, end);
        match &recall {
            None => edits.extend([Edit::insert(start, MARK_TEXT), Edit::insert(end, "))")]),
            Some(Recall { span, number, .. }) => {
                let after = format!("), {})))", number.token);
                edits.push(Edit::insert(start, RECALL_TEXT));
                edits.push(Edit { start: end, end: span.end, text: after.into() });
            }
        }
        marks.push(Mark {
            open: condition.start,
            close: condition.end - 1,
            recall: recall.map(|recall| recall.number),
        });
    }
    let unclaimed = recalls.first().and_then(|recall| recall.out_of_place::<()>().err());
    (with_marks(tokens, marks), unclaimed.or(missing))
}

const MARK_TEXT: &str = "similarity_join_condition((";
const RECALL_TEXT: &str = "similarity_join_condition((with_recall((";

/// Where a condition begins and ends.
struct Mark {
    open: usize,
    close: usize,
    recall: Option<TokenWithSpan>,
}

fn with_marks(tokens: Vec<TokenWithSpan>, mut marks: Vec<Mark>) -> Vec<TokenWithSpan> {
    // a join's condition may come after those of the joins nested in its right side
    marks.sort_unstable_by_key(|mark| mark.open);
    let mut marked = Vec::with_capacity(tokens.len() + 12 * marks.len());
    for (i, token) in tokens.into_iter().enumerate() {
        let Span { start, end } = token.span;
        for mark in marks.iter().filter(|mark| mark.open == i) {
            marked.extend(call(contract::NAME, start));
            if mark.recall.is_some() {
                marked.extend(call(WITH_RECALL, start));
            }
        }
        marked.push(token);
        for mark in marks.iter().filter(|mark| mark.close == i) {
            if let Some(number) = &mark.recall {
                marked.extend([at(Token::RParen, end), at(Token::Comma, end), number.clone(), at(Token::RParen, end)]);
            }
            marked.extend([at(Token::RParen, end), at(Token::RParen, end)]);
        }
    }
    marked
}

/// The beginning of a call whose argument has parentheses of its own.
fn call(name: &str, place: Location) -> [TokenWithSpan; 3] {
    [word(name, Keyword::NoKeyword, place), at(Token::LParen, place), at(Token::LParen, place)]
}

fn word(value: &str, keyword: Keyword, place: Location) -> TokenWithSpan {
    at(Token::Word(Word { value: value.into(), quote_style: None, keyword }), place)
}

fn at(token: Token, place: Location) -> TokenWithSpan {
    TokenWithSpan { token, span: Span::new(place, place) }
}
