//! Statements that may say SIMILARITY JOIN, as syntax trees and as text for the stock parser.

use std::collections::VecDeque;

use datafusion::common::{Result, TableReference, plan_datafusion_err};
use datafusion::config::{self, SqlParserOptions};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError};

use super::edit::{self, Edit, Places};
use super::indexes;
use super::own_statement::OwnStatement;
use super::rules::{self, RuleCatalog};
use super::source::{self, Parsed};

/// Whether the parser can read every statement of `sql`, our own ones included.
///
/// # Errors
/// Syntax errors, with their line and column in `sql`.
pub fn check(sql: &str, options: &SqlParserOptions) -> Result<()> {
    for statement in split(sql, options)? {
        if statement.own_statement(options)?.is_none() {
            statement.parse(options)?;
        }
    }
    Ok(())
}

/// Parses `sql` into statements ready for `SessionState::statement_to_plan`, by the dialect and the recursion
/// limit of a session's `datafusion.sql_parser` options. Calls that name matching rules stay as they are.
///
/// # Errors
/// Syntax errors, with their line and column in `sql`.
pub fn parse(sql: &str, options: &SqlParserOptions) -> Result<VecDeque<Statement>> {
    StatementText::new(sql).parse(options)
}

/// `sql` in words that every DataFusion parser knows, comments and layout included: for consumers that take text.
///
/// The session that plans it needs the function
/// [`similarity_join_condition`](crate::functions::contract::similarity_join_condition) and our optimizer rule. Calls
/// that name matching rules stay as they are; [`StatementText::rewrite_for`] replaces them.
///
/// # Errors
/// Syntax errors, with their line and column in `sql`.
pub fn rewrite(sql: &str, options: &SqlParserOptions) -> Result<String> {
    StatementText::new(sql).rewrite(options)
}

/// The statements of a longer text, without their semicolons; empty ones are left out.
///
/// # Errors
/// A literal, a quoted name or a comment without an end.
pub fn split<'a>(sql: &'a str, options: &SqlParserOptions) -> Result<Vec<StatementText<'a>>> {
    split_below(sql, 0, options)
}

/// Statements of a text that begins `lines` lines into a longer one, which errors point into; see [`split`].
///
/// # Errors
/// Errors of [`split`].
pub fn split_below<'a>(sql: &'a str, lines: u64, options: &SqlParserOptions) -> Result<Vec<StatementText<'a>>> {
    let tokens = tokenize(sql, dialect(options)?.as_ref()).map_err(|error| below(error, lines))?;
    let mut places = Places::new(sql);
    let statements = tokens.split(|token| token.token == Token::SemiColon).filter_map(|tokens| {
        let mut solid = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let first = solid.next()?;
        let last = solid.next_back().unwrap_or(first);
        let start = places.offset(first.span.start);
        let Location { line, column } = first.span.start;
        let start_below = Location::new(line + lines, column);
        Some(StatementText { text: &sql[start..places.offset(last.span.end)], start: start_below })
    });
    Ok(statements.collect())
}

/// Whether `sql` ends with a semicolon outside literals and comments, so that no further line belongs to it.
pub fn is_complete(sql: &str, options: &SqlParserOptions) -> bool {
    let tokens = dialect(options).ok().and_then(|dialect| tokenize(sql, dialect.as_ref()).ok());
    tokens.is_some_and(|tokens| {
        let last = tokens.iter().rev().find(|token| !matches!(token.token, Token::Whitespace(_)));
        last.is_some_and(|token| token.token == Token::SemiColon)
    })
}

/// One statement of a longer text, which its errors point into.
#[derive(Debug, Clone, Copy)]
pub struct StatementText<'a> {
    text: &'a str,
    start: Location,
}

impl<'a> StatementText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, start: Location::new(1, 1) }
    }

    /// The statement as the user wrote it.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Syntax trees of the statement, as [`parse`](self::parse) makes them.
    ///
    /// # Errors
    /// Syntax errors, with their line and column in the longer text.
    pub fn parse(&self, options: &SqlParserOptions) -> Result<VecDeque<Statement>> {
        Ok(self.parsed(options, None)?.statements)
    }

    /// The statement about matching rules or similarity indexes that this is, if it is one.
    ///
    /// # Errors
    /// Syntax errors, with their line and column in the longer text.
    pub fn own_statement(&self, options: &SqlParserOptions) -> Result<Option<OwnStatement>> {
        let dialect = dialect(options)?;
        let tokens = self.tokens(dialect.as_ref())?;
        let (dialect, limit) = (dialect.as_ref(), options.recursion_limit.get());
        if let Some(rule) = rules::parse(&tokens, dialect, limit) {
            return Ok(Some(OwnStatement::Rule(rule?)));
        }
        indexes::parse(&tokens, dialect, limit).map(|index| index.map(OwnStatement::Index)).transpose()
    }

    /// Text for the stock parser, as [`rewrite`](self::rewrite) makes it.
    ///
    /// # Errors
    /// Syntax errors, with their line and column in the longer text.
    pub fn rewrite(&self, options: &SqlParserOptions) -> Result<String> {
        Ok(self.edited(self.parsed(options, None)?.edits))
    }

    /// Text for the stock parser, by the options of a session, as [`rewrite`](Self::rewrite) makes it. The session's
    /// matching rules take the place of the calls that name them.
    ///
    /// # Errors
    /// Syntax errors and unknown rules, with their line and column in the longer text.
    pub fn rewrite_for(&self, state: &SessionState) -> Result<String> {
        Ok(self.edited(self.parsed_for(state)?.edits))
    }

    /// The statement by the options of a session, with its matching rules in the place of the calls that name them.
    pub(super) fn parsed_for(&self, state: &SessionState) -> Result<Parsed> {
        let rules = state.config().get_extension::<RuleCatalog>();
        self.parsed(&state.config_options().sql_parser, rules.as_deref())
    }

    /// The tables that the statement reads; none where it cannot be parsed.
    pub(crate) fn tables(&self, state: &SessionState) -> Vec<TableReference> {
        let parsed = self.parsed_for(state).ok().and_then(|mut parsed| parsed.statements.pop_front());
        parsed.and_then(|statement| state.resolve_table_references(&statement).ok()).unwrap_or_default()
    }

    fn parsed(&self, options: &SqlParserOptions, rules: Option<&RuleCatalog>) -> Result<Parsed> {
        let dialect = dialect(options)?;
        source::parse(self.tokens(dialect.as_ref())?, dialect.as_ref(), options, rules)
    }

    fn tokens(&self, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>> {
        let mut tokens = tokenize(self.text, dialect).map_err(|mut error| {
            error.location = self.to_global(error.location);
            ParserError::from(error)
        })?;
        for TokenWithSpan { span, .. } in &mut tokens {
            *span = Span::new(self.to_global(span.start), self.to_global(span.end));
        }
        Ok(tokens)
    }

    fn edited(&self, mut edits: Vec<Edit>) -> String {
        edits.iter_mut().for_each(|edit| {
            edit.start = self.to_local(edit.start);
            edit.end = self.to_local(edit.end);
        });
        edit::apply(self.text, edits)
    }

    fn to_global(self, local: Location) -> Location {
        let column = if local.line == 1 { local.column + self.start.column - 1 } else { local.column };
        Location::new(local.line + self.start.line - 1, column)
    }

    fn to_local(self, global: Location) -> Location {
        let line = global.line - (self.start.line - 1);
        Location::new(line, if line == 1 { global.column - (self.start.column - 1) } else { global.column })
    }
}

pub(crate) fn tokenize(sql: &str, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    Tokenizer::new(dialect, sql).tokenize_with_location()
}

/// The error of a text that begins `lines` lines into a longer one.
fn below(mut error: TokenizerError, lines: u64) -> ParserError {
    error.location.line += lines;
    error.into()
}

pub(crate) fn dialect(options: &SqlParserOptions) -> Result<Box<dyn Dialect>> {
    dialect_from_str(options.dialect).ok_or_else(|| {
        plan_datafusion_err!(
            "datafusion.sql_parser.dialect {} is not known to the parser; choose one of {}",
            options.dialect,
            config::Dialect::available()
        )
    })
}
