//! Reads the statements about matching rules.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::error::syntax_error;

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
    let (start, words) = start(tokens)?;
    let parser = Parser::new(dialect).with_recursion_limit(recursion_limit);
    let mut reader = Reader(parser.with_tokens_with_locations(tokens.to_vec()));
    for _ in 0..words {
        reader.0.advance_token();
    }
    Some(reader.action(start).and_then(|action| reader.end().map(|()| RuleStatement { action })))
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Create { replace: bool },
    Drop,
    Show,
}

/// What the first words announce, and how many they are.
fn start(tokens: &[TokenWithSpan]) -> Option<(Start, usize)> {
    let starts: [(&[&str], Start); 4] = [
        (&["CREATE", "MATCHING", "RULE"], Start::Create { replace: false }),
        (&["CREATE", "OR", "REPLACE", "MATCHING", "RULE"], Start::Create { replace: true }),
        (&["DROP", "MATCHING", "RULE"], Start::Drop),
        (&["SHOW", "MATCHING", "RULES"], Start::Show),
    ];
    let mut solid = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let first: Vec<_> = solid.by_ref().take(5).map(|token| &token.token).collect();
    let begins = |words: &[&str]| {
        words.len() <= first.len()
            && words.iter().zip(&first).all(|(word, token)| match token {
                Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
                _ => false,
            })
    };
    starts.into_iter().find(|(words, _)| begins(words)).map(|(words, start)| (start, words.len()))
}

struct Reader<'a>(Parser<'a>);

impl Reader<'_> {
    fn action(&mut self, start: Start) -> Result<Action> {
        match start {
            Start::Create { replace } => self.create(replace),
            Start::Drop => {
                let if_exists = self.0.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
                Ok(Action::Drop { name: self.0.parse_identifier()?, if_exists })
            }
            Start::Show => Ok(Action::Show),
        }
    }

    fn create(&mut self, replace: bool) -> Result<Action> {
        const FORM: &str = "CREATE MATCHING RULE r ON t, s AS t.name = s.name";
        let name = self.0.parse_identifier()?;
        if !self.0.parse_keyword(Keyword::ON) {
            return self.expected(&format!("ON and the names of the two rows, as in {FORM}"));
        }
        let left = self.side()?;
        if !self.0.consume_token(&Token::Comma) {
            return self.expected(&format!("a comma and the name of the second row, as in {FORM}"));
        }
        let right = self.side()?;
        let body = if self.0.parse_keyword(Keyword::AS) {
            Body::Condition(Box::new(self.0.parse_expr()?))
        } else if self.0.parse_keyword(Keyword::FROM) {
            Body::Files(self.path()?)
        } else {
            return self.expected("AS and a condition, or FROM and the path of a rule file or a folder");
        };
        Ok(Action::Create(Box::new(Create { name, replace, left, right, body })))
    }

    /// `name`, `table` or `table name`.
    fn side(&mut self) -> Result<Side> {
        let table = self.0.parse_object_name(false)?;
        let named = matches!(
            &self.0.peek_token_ref().token,
            Token::Word(word) if !matches!(word.keyword, Keyword::AS | Keyword::FROM)
        );
        let name = if named {
            Some(self.0.parse_identifier()?)
        } else {
            table.0.last().and_then(|part| part.as_ident().cloned())
        };
        match name {
            Some(name) => Ok(Side { table, name }),
            None => self.expected("the name of a row"),
        }
    }

    fn path(&mut self) -> Result<String> {
        match &self.0.peek_token_ref().token {
            Token::SingleQuotedString(path) => {
                let path = path.clone();
                self.0.advance_token();
                Ok(path)
            }
            _ => self.expected("the path of a rule file or a folder in single quotes"),
        }
    }

    fn end(&mut self) -> Result<()> {
        while self.0.consume_token(&Token::SemiColon) {}
        match self.0.peek_token_ref().token {
            Token::EOF => Ok(()),
            _ => self.expected("the end of the statement"),
        }
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = self.0.peek_token_ref();
        Err(syntax_error(&format!("expected {what}, found {}", found.token), found.span))
    }
}
