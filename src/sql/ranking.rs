//! Reads NEAREST clauses and writes them as ON conditions.
//!
//! ```text
//! NEAREST 3 BY DISTANCE  d(a.v, b.v)  THEN BY  b.id  DESC ON   a.k = b.k   WITH TIES
//! ON nearest_join_condition('distance', 3, (  ..  ), (  ..  ), 'desc nulls first', (  ..  ), 'on', 'with ties')
//! ```
//!
//! APPROXIMATE before and WITH RECALL behind the clause add `0.95, 'with recall'`.
//!
//! The parser itself finds where each expression ends. Expressions stay as they are, what lies between them is
//! replaced.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word};

use super::condition::trimmed;
use super::edit::{self, Edit};
use super::error::syntax_error;
use super::nearest::{Nearest, clause_of};
use super::recall::{Recall, recall_after, without_recalls};
use crate::functions::nearest::{NAME, ON, WITH_RECALL, WITH_TIES, order_name};

/// The tokens with each of `clauses` as an ON condition, and where the words JOIN at `joins` are now. Recalls of the
/// clauses are taken out of `recalls`.
///
/// # Errors
/// A syntax error where a clause cannot be read.
pub(crate) fn as_conditions(
    mut tokens: Vec<TokenWithSpan>,
    joins: Vec<usize>,
    clauses: &[Nearest],
    dialect: &dyn Dialect,
    recursion_limit: usize,
    (recalls, edits): (&mut Vec<Recall>, &mut Vec<Edit>),
) -> Result<(Vec<TokenWithSpan>, Vec<usize>)> {
    if clauses.is_empty() {
        return Ok((tokens, joins));
    }
    let places: Vec<Location> = joins.iter().map(|&join| tokens[join].span.start).collect();
    // a clause within a sub-query of another one comes after it and has to be gone before that one is read
    for clause in clauses.iter().rev() {
        let after = tokens[clause.by + 1..].to_vec();
        let parser = Parser::new(dialect).with_recursion_limit(recursion_limit).with_tokens_with_locations(after);
        let gaps = Reader { parser, tokens: &tokens, read: clause.by + 1, gaps: Vec::new() }.read(clause, recalls)?;
        tokens = replaced(tokens, gaps, dialect, edits)?;
    }
    let is_join = |token: &TokenWithSpan| {
        let is_word = matches!(&token.token, Token::Word(word) if word.keyword == Keyword::JOIN);
        is_word && places.binary_search(&token.span.start).is_ok()
    };
    let joins = (0..tokens.len()).filter(|&i| is_join(&tokens[i])).collect();
    Ok((tokens, joins))
}

/// `text`, which is a clause from DISTANCE or SIMILARITY on and nothing else, as an ON condition for `rows` rows. With
/// a recall at its end, neighbours may be missed.
///
/// # Errors
/// A syntax error where it cannot be read, or goes on after the clause.
pub(crate) fn as_condition(text: &str, rows: u64, dialect: &dyn Dialect, recursion_limit: usize) -> Result<String> {
    let tokens = Tokenizer::new(dialect, text).tokenize_with_location().map_err(ParserError::from)?;
    let (tokens, mut recalls) = without_recalls(tokens)?;
    let clause = clause_of(&tokens, rows, !recalls.is_empty())?;
    let parser = Parser::new(dialect)
        .with_recursion_limit(recursion_limit)
        .with_tokens_with_locations(tokens[clause.by + 1..].to_vec());
    let reader = Reader { parser, tokens: &tokens, read: clause.by + 1, gaps: Vec::new() };
    let gaps = reader.read(&clause, &mut recalls)?;
    let end = gaps.last().map_or(0, |gap| gap.tokens.end);
    if let Some(more) = tokens[end..].iter().find(|token| !matches!(token.token, Token::Whitespace(_))) {
        return Err(syntax_error(
            "a ranking ends before this, with THEN BY, ON, WITH TIES and WITH RECALL in this order",
            more.span,
        ));
    }
    let mut edits = Vec::new();
    replaced(tokens, gaps, dialect, &mut edits)?;
    Ok(edit::apply(text, edits))
}

/// Tokens between expressions, and what stands there instead.
struct Gap {
    tokens: Range<usize>,
    text: String,
    /// Where it ends, if not with its tokens.
    end: Option<Location>,
}

struct Reader<'a> {
    parser: Parser<'a>,
    tokens: &'a [TokenWithSpan],
    /// Where the tokens of the parser begin.
    read: usize,
    gaps: Vec<Gap>,
}

impl Reader<'_> {
    fn read(mut self, clause: &Nearest, recalls: &mut Vec<Recall>) -> Result<Vec<Gap>> {
        let head = format!("ON {NAME}('{}', {}, (", clause.direction, clause.rows);
        let mut end = self.expression(clause.nearest, head)?;
        let mut close = String::from(")");
        if self.parser.parse_keywords(&[Keyword::THEN, Keyword::BY]) {
            loop {
                end = self.expression(end, format!("{close}, ("))?;
                close = format!("), '{}'", self.order()?);
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
        }
        if self.parser.parse_keyword(Keyword::ON) {
            end = self.expression(end, format!("{close}, ("))?;
            close = format!("), '{ON}'");
        }
        let ties = self.parser.parse_keywords(&[Keyword::WITH, Keyword::TIES]);
        let consumed = trimmed(end - 1..self.place(), self.tokens).end.max(end);
        let recall = self.recall(clause, recalls, self.tokens[consumed - 1].span.end)?;
        if let Some(Recall { number, .. }) = &recall {
            close += &format!(", {}, '{WITH_RECALL}'", number.token);
        }
        if ties {
            close += &format!(", '{WITH_TIES}'");
        }
        self.gaps.push(Gap { tokens: end..consumed, text: close + ")", end: recall.map(|recall| recall.span.end) });
        Ok(self.gaps)
    }

    /// The recall of a clause that ends at `end`: an approximate one has one, and no other.
    fn recall(&self, clause: &Nearest, recalls: &mut Vec<Recall>, end: Location) -> Result<Option<Recall>> {
        match recall_after(recalls, end) {
            Some(recall) if !clause.approximate => recall.of_exact_ranking(),
            None if clause.approximate => Err(syntax_error(
                "an approximate ranking ends with WITH RECALL and the share of the neighbours that it finds, as in \
                 APPROXIMATE NEAREST 3 BY DISTANCE .. WITH RECALL 0.95; WITH RECALL comes last, behind WITH TIES",
                self.tokens[clause.nearest].span,
            )),
            recall => Ok(recall),
        }
    }

    /// Reads an expression, before which the tokens from `gap` on become `text`, and returns where it ends.
    fn expression(&mut self, gap: usize, text: String) -> Result<usize, ParserError> {
        let start = self.place();
        let next = self.parser.peek_token();
        // names elsewhere, but not where the clause goes on with them
        let goes_on = |word: &Word| matches!(word.keyword, Keyword::THEN | Keyword::ON | Keyword::WITH);
        if matches!(&next.token, Token::Word(word) if goes_on(word)) {
            return self.parser.expected("an expression", next);
        }
        self.parser.parse_expr()?;
        let range = trimmed(start..self.place(), self.tokens);
        self.gaps.push(Gap { tokens: gap..range.start, text, end: None });
        Ok(range.end)
    }

    /// Reads what may follow an expression of THEN BY.
    fn order(&mut self) -> Result<&'static str, ParserError> {
        let ascending = self.parser.parse_keyword(Keyword::ASC) || !self.parser.parse_keyword(Keyword::DESC);
        let nulls_first = if self.parser.parse_keyword(Keyword::NULLS) {
            self.parser.expect_one_of_keywords(&[Keyword::FIRST, Keyword::LAST])? == Keyword::FIRST
        } else {
            !ascending
        };
        Ok(order_name(ascending, nulls_first))
    }

    fn place(&self) -> usize {
        self.read + self.parser.index()
    }
}

/// The tokens with each of `gaps` replaced, in the text too.
fn replaced(
    tokens: Vec<TokenWithSpan>,
    gaps: Vec<Gap>,
    dialect: &dyn Dialect,
    edits: &mut Vec<Edit>,
) -> Result<Vec<TokenWithSpan>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut done = 0;
    for Gap { tokens: Range { start, end }, text, end: given } in gaps {
        kept.extend_from_slice(&tokens[done..start]);
        // the first gap begins with NEAREST, the others right after an expression
        let from = if done == 0 { tokens[start].span.start } else { tokens[start - 1].span.end };
        let to = match tokens.get(end) {
            _ if start == end => from,
            Some(next) if !is_last(&text) => next.span.start,
            _ => tokens[end - 1].span.end,
        };
        let to = given.unwrap_or(to);
        let words = Tokenizer::new(dialect, &text).tokenize().map_err(ParserError::from)?;
        kept.extend(words.into_iter().map(|token| TokenWithSpan { token, span: Span::new(from, from) }));
        edits.push(Edit { start: from, end: to, text: text.into() });
        done = end;
    }
    kept.extend_from_slice(&tokens[done..]);
    Ok(kept)
}

/// Whether a gap is the end of its clause rather than followed by an expression.
fn is_last(text: &str) -> bool {
    !text.ends_with('(')
}
