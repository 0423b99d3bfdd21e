//! Reads the statements about matching rules.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::reader::{Reader, Start};

/// A statement that makes, drops or lists matching rules.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleStatement {
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
    pub left: Side,
    pub right: Side,
    pub body: Body,
}

/// What a rule says, or where that is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    Condition(Box<Expr>),
    Files(String),
}

/// One of the two rows of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Side {
    /// The table whose columns rule files count.
    pub table: ObjectName,
    pub name: Ident,
}

/// The statement in `tokens`, if their first words say that it is about matching rules.
pub(in crate::sql) fn parse(
    tokens: &[TokenWithSpan],
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Option<Result<RuleStatement>> {
    let (start, reader) = Reader::of(tokens, ("MATCHING", "RULE", "RULES"), dialect, recursion_limit)?;
    let mut reader = RuleReader(reader);
    Some(reader.action(start).and_then(|action| reader.0.end().map(|()| RuleStatement { action })))
}

struct RuleReader<'a>(Reader<'a>);

impl RuleReader<'_> {
    fn action(&mut self, start: Start) -> Result<Action> {
        match start {
            Start::Create { replace } => self.create(replace),
            Start::Drop => {
                let if_exists = self.0.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
                Ok(Action::Drop { name: self.0.parser.parse_identifier()?, if_exists })
            }
            Start::Show => Ok(Action::Show),
        }
    }

    fn create(&mut self, replace: bool) -> Result<Action> {
        const FORM: &str = "CREATE MATCHING RULE r ON t, s AS t.name = s.name";
        let name = self.0.parser.parse_identifier()?;
        if !self.0.parser.parse_keyword(Keyword::ON) {
            return self.0.expected(&format!("ON and the names of the two rows, as in {FORM}"));
        }
        let left = self.side()?;
        if !self.0.parser.consume_token(&Token::Comma) {
            return self.0.expected(&format!("a comma and the name of the second row, as in {FORM}"));
        }
        let right = self.side()?;
        let body = if self.0.parser.parse_keyword(Keyword::AS) {
            Body::Condition(Box::new(self.0.parser.parse_expr()?))
        } else if self.0.parser.parse_keyword(Keyword::FROM) {
            Body::Files(self.path()?)
        } else {
            return self.0.expected("AS and a condition, or FROM and the path of a rule file or a folder");
        };
        Ok(Action::Create(Box::new(Create { name, replace, left, right, body })))
    }

    /// `name`, `table` or `table name`.
    fn side(&mut self) -> Result<Side> {
        let table = self.0.parser.parse_object_name(false)?;
        let named = matches!(
            &self.0.parser.peek_token_ref().token,
            Token::Word(word) if !matches!(word.keyword, Keyword::AS | Keyword::FROM)
        );
        let name = if named {
            Some(self.0.parser.parse_identifier()?)
        } else {
            table.0.last().and_then(|part| part.as_ident().cloned())
        };
        match name {
            Some(name) => Ok(Side { table, name }),
            None => self.0.expected("the name of a row"),
        }
    }

    fn path(&mut self) -> Result<String> {
        match &self.0.parser.peek_token_ref().token {
            Token::SingleQuotedString(path) => {
                let path = path.clone();
                self.0.parser.advance_token();
                Ok(path)
            }
            _ => self.0.expected("the path of a rule file or a folder in single quotes"),
        }
    }
}
