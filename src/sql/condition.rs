//! Finds the ON condition of each SIMILARITY JOIN.

use std::ops::Range;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::error::syntax_error;

/// What follows the word JOIN.
pub(super) enum Condition {
    /// The tokens of the ON condition.
    On(Range<usize>),
    /// Missing or unreadable condition: the error to report, unless the parser has a better one for the whole text.
    Missing(DataFusionError),
}

/// The conditions of the joins whose word JOIN stands at `joins`, in ascending order, among tokens that the parser
/// knows: the words SIMILARITY are gone.
pub(super) fn conditions(
    tokens: &[TokenWithSpan],
    joins: &[usize],
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Vec<Condition> {
    let mut parser =
        Parser::new(dialect).with_recursion_limit(recursion_limit).with_tokens_with_locations(tokens.to_vec());
    joins
        .iter()
        .map(|&join| {
            while parser.index() <= join {
                parser.advance_token();
            }
            condition(&mut parser, tokens, tokens[join].span)
        })
        .collect()
}

/// Reads a table and its condition, and leaves the parser where it was: conditions may nest.
fn condition(parser: &mut Parser<'_>, tokens: &[TokenWithSpan], join: Span) -> Condition {
    let mut found = Condition::Missing(syntax_error("the ON condition of SIMILARITY JOIN cannot be read", join));
    let _rewound: Result<(), ParserError> = parser.try_parse(|parser| {
        // the condition of a join that is not yet closed comes after the joins nested in its right side
        parser.parse_table_and_joins()?;
        if !parser.parse_keyword(Keyword::ON) {
            found = Condition::Missing(missing(parser.peek_token_ref()));
        } else {
            let start = parser.index();
            parser.parse_expr()?;
            found = Condition::On(trimmed(start..parser.index(), tokens));
        }
        Err(ParserError::ParserError(String::new()))
    });
    found
}

fn missing(next: &TokenWithSpan) -> DataFusionError {
    let message = match &next.token {
        Token::Word(word) if word.keyword == Keyword::USING => {
            "SIMILARITY JOIN takes ON with a similarity condition, not USING"
        }
        _ => "SIMILARITY JOIN needs ON with a similarity condition",
    };
    syntax_error(message, next.span)
}

/// The range without the white space at either end.
pub(super) fn trimmed(range: Range<usize>, tokens: &[TokenWithSpan]) -> Range<usize> {
    let solid = |&i: &usize| !matches!(tokens[i].token, Token::Whitespace(_));
    let range = range.start..range.end.min(tokens.len());
    let first = range.clone().find(solid).unwrap_or(range.start);
    let last = range.clone().rev().find(solid).unwrap_or(range.start);
    first..last + 1
}
