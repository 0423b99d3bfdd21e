//! `RESET similarity.x`, which the session below takes as `SET similarity.x = DEFAULT`.
//!
//! DataFusion resets options under `datafusion.` alone.

use datafusion::common::Result;
use datafusion::common::config::ConfigExtension;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Word};

use super::edit::Edit;
use crate::config::SimilarityOptions;

/// The tokens of a statement, with SET and a value where they reset an option of ours.
pub(super) fn as_set(
    mut tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    edits: &mut Vec<Edit>,
) -> Result<Vec<TokenWithSpan>> {
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|&i| !matches!(tokens[i].token, Token::Whitespace(_) | Token::SemiColon)).collect();
    let [reset, namespace, period, option] = solid[..] else { return Ok(tokens) };
    let resets = word(&tokens[reset]).is_some_and(|word| word.keyword == Keyword::RESET)
        && word(&tokens[namespace]).is_some_and(|word| word.value.eq_ignore_ascii_case(SimilarityOptions::PREFIX))
        && tokens[period].token == Token::Period
        && word(&tokens[option]).is_some();
    if !resets {
        return Ok(tokens);
    }
    let (verb, end) = (tokens[reset].span, tokens[option].span.end);
    edits.push(Edit { start: verb.start, end: verb.end, text: "SET".into() });
    edits.push(Edit::insert(end, VALUE));
    let value = Tokenizer::new(dialect, VALUE).tokenize().map_err(ParserError::from)?;
    let value = value.into_iter().map(|token| TokenWithSpan { token, span: Span::new(end, end) });
    tokens.splice(option + 1..option + 1, value);
    tokens[reset].token = Token::make_keyword("SET");
    Ok(tokens)
}

const VALUE: &str = " = 'default'";

fn word(token: &TokenWithSpan) -> Option<&Word> {
    match &token.token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}
