//! What the statements of this crate have in common that the stock parser does not know: how they begin and end.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, plan_datafusion_err};
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{DdlStatement, DropFunction, LogicalPlan};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::error::syntax_error;

/// What a statement does to the objects of its kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    Create { replace: bool },
    Drop,
    Show,
}

/// Reads what follows the first words of a statement.
pub(super) struct Reader<'a> {
    pub parser: Parser<'a>,
}

impl<'a> Reader<'a> {
    /// What the first words of `tokens` announce, if they are about objects of the kind that two words name: the last
    /// one as CREATE and DROP have it, and as SHOW has it.
    pub(super) fn of(
        tokens: &[TokenWithSpan],
        (first, one, several): (&str, &str, &str),
        dialect: &'a dyn Dialect,
        recursion_limit: usize,
    ) -> Option<(Start, Self)> {
        let starts: [(&[&str], Start); 4] = [
            (&["CREATE", first, one], Start::Create { replace: false }),
            (&["CREATE", "OR", "REPLACE", first, one], Start::Create { replace: true }),
            (&["DROP", first, one], Start::Drop),
            (&["SHOW", first, several], Start::Show),
        ];
        let solid = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let found: Vec<_> = solid.take(5).map(|token| &token.token).collect();
        let begins = |words: &[&str]| {
            words.len() <= found.len()
                && words.iter().zip(&found).all(|(word, token)| match token {
                    Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
                    _ => false,
                })
        };
        let (words, start) = starts.into_iter().find(|(words, _)| begins(words))?;
        let parser = Parser::new(dialect).with_recursion_limit(recursion_limit);
        let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
        words.iter().for_each(|_| parser.advance_token());
        Some((start, Self { parser }))
    }

    /// Fails unless the statement ends here.
    pub(super) fn end(&mut self) -> Result<()> {
        while self.parser.consume_token(&Token::SemiColon) {}
        match self.parser.peek_token_ref().token {
            Token::EOF => Ok(()),
            _ => self.expected("the end of the statement"),
        }
    }

    /// The syntax error that something else was expected here.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        let found = self.parser.peek_token_ref();
        Err(syntax_error(&format!("expected {what}, found {}", found.token), found.span))
    }
}

/// Fails where `options` do not allow DDL. They tell what they allow only about plans, and our statements have none:
/// another DDL stands in.
pub(super) fn verify_ddl(options: &SQLOptions, statement: &str) -> Result<()> {
    let stand_in = DropFunction { name: String::new(), if_exists: true, schema: Arc::new(DFSchema::empty()) };
    let verified = options.verify_plan(&LogicalPlan::Ddl(DdlStatement::DropFunction(stand_in)));
    verified.map_err(|_| plan_datafusion_err!("DDL not supported: {statement}"))
}
