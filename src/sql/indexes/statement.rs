//! Reads the statements about similarity indexes.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::reader::{Reader, Start};

/// A statement that makes, drops or lists similarity indexes.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexStatement {
    pub(super) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Create(Box<Create>),
    Drop { name: Ident, if_exists: bool },
    Show,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Create {
    pub name: Ident,
    pub replace: bool,
    pub if_not_exists: bool,
    pub table: ObjectName,
    pub expression: Expr,
    pub location: Option<String>,
}

/// The statement in `tokens`, if their first words say that it is about similarity indexes.
pub(in crate::sql) fn parse(
    tokens: &[TokenWithSpan],
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Option<Result<IndexStatement>> {
    let (start, mut reader) = Reader::of(tokens, ("SIMILARITY", "INDEX", "INDEXES"), dialect, recursion_limit)?;
    Some(action(start, &mut reader).and_then(|action| reader.end().map(|()| IndexStatement { action })))
}

fn action(start: Start, reader: &mut Reader<'_>) -> Result<Action> {
    match start {
        Start::Create { replace } => create(replace, reader),
        Start::Drop => {
            let if_exists = reader.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            Ok(Action::Drop { name: reader.parser.parse_identifier()?, if_exists })
        }
        Start::Show => Ok(Action::Show),
    }
}

fn create(replace: bool, reader: &mut Reader<'_>) -> Result<Action> {
    const FORM: &str = "CREATE SIMILARITY INDEX i ON t (name)";
    let if_not_exists = !replace && reader.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = reader.parser.parse_identifier()?;
    if !reader.parser.parse_keyword(Keyword::ON) {
        return reader.expected(&format!("ON and a table, as in {FORM}"));
    }
    let table = reader.parser.parse_object_name(false)?;
    if !reader.parser.consume_token(&Token::LParen) {
        return reader.expected(&format!("an expression in parentheses, as in {FORM}"));
    }
    let expression = reader.parser.parse_expr()?;
    if reader.parser.consume_token(&Token::Comma) {
        return reader.expected(&format!("one expression; make an index for each, as in {FORM}"));
    }
    if !reader.parser.consume_token(&Token::RParen) {
        return reader.expected("the closing parenthesis of the expression");
    }
    let location = match reader.parser.parse_keyword(Keyword::LOCATION) {
        true => Some(reader.parser.parse_literal_string()?),
        false => None,
    };
    Ok(Action::Create(Box::new(Create { name, replace, if_not_exists, table, expression, location })))
}
