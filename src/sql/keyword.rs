//! Finds SIMILARITY JOIN among the tokens of a text.
//!
//! sqlparser does not know the keyword and would take `SIMILARITY` for the alias of the table before it. Whether
//! the word is the keyword depends on its place alone: it stands right before JOIN, where an operand has just
//! ended. `FROM similarity JOIN b`, `FROM a AS similarity JOIN b` and `ON a.x = similarity JOIN c` name a table, an
//! alias and a column; quoted words, literals and comments are never the keyword, for they are other tokens.

use datafusion::common::Result;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::error::syntax_error;

/// One SIMILARITY JOIN. The fields are positions in the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keywords {
    /// The word SIMILARITY.
    pub similarity: usize,
    /// The word JOIN.
    pub join: usize,
    /// SEMI or ANTI without LEFT or RIGHT, which is short for LEFT SEMI and LEFT ANTI.
    pub bare: Option<usize>,
}

/// Every SIMILARITY JOIN in `tokens`, in order.
///
/// # Errors
/// A syntax error where the keyword is out of place, or meets a join that has no condition.
pub(super) fn similarity_joins(tokens: &[TokenWithSpan]) -> Result<Vec<Keywords>> {
    let words = Significant::of(tokens);
    (0..words.len()).filter(|&i| words.is_similarity(i)).filter_map(|i| words.join_at(i).transpose()).collect()
}

/// The tokens without white space and comments.
pub(super) struct Significant<'a> {
    tokens: &'a [TokenWithSpan],
    pub positions: Vec<usize>,
}

impl<'a> Significant<'a> {
    pub(super) fn of(tokens: &'a [TokenWithSpan]) -> Self {
        let positions = (0..tokens.len()).filter(|&i| !matches!(tokens[i].token, Token::Whitespace(_))).collect();
        Self { tokens, positions }
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn token(&self, i: usize) -> Option<&'a TokenWithSpan> {
        self.positions.get(i).map(|&position| &self.tokens[position])
    }

    pub(super) fn word(&self, i: usize) -> Option<&'a Word> {
        match &self.token(i)?.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word),
            _ => None,
        }
    }

    pub(super) fn keyword(&self, i: usize) -> Keyword {
        self.word(i).map_or(Keyword::NoKeyword, |word| word.keyword)
    }

    fn is_similarity(&self, i: usize) -> bool {
        self.word(i).is_some_and(|word| word.value.eq_ignore_ascii_case("similarity"))
    }

    /// The SIMILARITY JOIN whose SIMILARITY is word `i`, or `None` where that word is a name.
    fn join_at(&self, i: usize) -> Result<Option<Keywords>> {
        let join = (i + 1..self.len()).find(|&j| !is_join_word(self.keyword(j)));
        let Some(join) = join.filter(|&j| self.keyword(j) == Keyword::JOIN) else { return Ok(None) };
        let Some(first) = self.first_join_word(i) else { return Ok(None) };
        if join > i + 1 {
            return self.error(
                i,
                "SIMILARITY stands right before JOIN, as in LEFT SIMILARITY JOIN; an alias of that name takes AS",
            );
        }
        if let Some(j) = (first..i).find(|&j| matches!(self.keyword(j), Keyword::CROSS | Keyword::NATURAL)) {
            return self.error(j, "SIMILARITY JOIN takes an ON condition and is neither CROSS nor NATURAL");
        }
        let bare = matches!(self.keyword(first), Keyword::SEMI | Keyword::ANTI).then(|| self.positions[first]);
        Ok(Some(Keywords { similarity: self.positions[i], join: self.positions[join], bare }))
    }

    /// The first of the words before word `i` that belong to its join, `i` itself if there are none, or `None`
    /// where no join can begin.
    pub(super) fn first_join_word(&self, i: usize) -> Option<usize> {
        let first = (0..i).rev().take_while(|&j| is_join_word(self.keyword(j))).last().unwrap_or(i);
        // a name may be spelled like a join word, as in `ON a.left SIMILARITY JOIN b`
        (first..=i).find(|&j| j > first || self.operand_ends_before(j))
    }

    /// Whether an operand (a table, an expression) can end right before word `i`.
    pub(super) fn operand_ends_before(&self, i: usize) -> bool {
        let Some(before) = i.checked_sub(1).and_then(|j| self.token(j)) else { return false };
        match &before.token {
            Token::Word(word) => {
                let member = i >= 2 && self.token(i - 2).is_some_and(|t| t.token == Token::Period);
                member || word.quote_style.is_some() || !expects_operand(word.keyword)
            }
            token => ends_operand(token),
        }
    }

    pub(super) fn error<T>(&self, i: usize, message: &str) -> Result<T> {
        Err(syntax_error(message, self.tokens[self.positions[i]].span))
    }
}

fn is_join_word(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::INNER
            | Keyword::LEFT
            | Keyword::RIGHT
            | Keyword::FULL
            | Keyword::OUTER
            | Keyword::SEMI
            | Keyword::ANTI
            | Keyword::CROSS
            | Keyword::NATURAL
    )
}

/// Keywords after which a table or an expression has to follow, so that the next word is a name.
fn expects_operand(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::ALL
            | Keyword::AND
            | Keyword::AS
            | Keyword::BETWEEN
            | Keyword::BY
            | Keyword::CASE
            | Keyword::DISTINCT
            | Keyword::DIV
            | Keyword::ELSE
            | Keyword::EXISTS
            | Keyword::FROM
            | Keyword::HAVING
            | Keyword::ILIKE
            | Keyword::IN
            | Keyword::INTO
            | Keyword::JOIN
            | Keyword::LATERAL
            | Keyword::LIKE
            | Keyword::NOT
            | Keyword::ON
            | Keyword::ONLY
            | Keyword::OR
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::SELECT
            | Keyword::STRAIGHT_JOIN
            | Keyword::THEN
            | Keyword::TO
            | Keyword::UPDATE
            | Keyword::USING
            | Keyword::WHEN
            | Keyword::WHERE
            | Keyword::XOR
    )
}

/// Whether a token other than a word ends an operand: it closes a bracket or is a literal.
fn ends_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::RParen
            | Token::RBracket
            | Token::RBrace
            | Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
    )
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn joins(sql: &str) -> Result<Vec<Keywords>> {
        similarity_joins(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap())
    }

    #[test]
    fn the_keyword_is_found_where_a_join_may_begin() {
        for sql in [
            "FROM a SIMILARITY JOIN b",
            "from a similarity join b",
            "FROM a l LEFT OUTER SIMILARITY JOIN b",
            "FROM similarity SIMILARITY JOIN similarity AS similarity ON",
            "FROM a similarity SIMILARITY JOIN b",
            "FROM (SELECT 1) SIMILARITY JOIN b",
            "FROM \"from\" SIMILARITY JOIN b",
            "JOIN b ON a.left SIMILARITY JOIN c",
            "JOIN b ON a.x IN (1) SIMILARITY JOIN c",
            "JOIN b ON a.x = 'SIMILARITY JOIN' SIMILARITY /* JOIN x */ JOIN c",
            "JOIN b ON a.x IS NOT NULL FULL SIMILARITY -- \n JOIN c",
            "FROM a.from SIMILARITY JOIN b",
        ] {
            assert_eq!(joins(sql).unwrap().len(), 1, "{sql}");
        }
    }

    #[test]
    fn names_are_not_the_keyword() {
        for sql in [
            "FROM similarity JOIN b",
            "FROM a AS similarity JOIN b",
            "FROM a, similarity LEFT JOIN b",
            "ON a.x = similarity JOIN c",
            "ON NOT similarity JOIN c",
            "ON a.similarity JOIN c",
            "ON a.x \"similarity\" JOIN c",
            "SELECT similarity FROM t",
            "SELECT similarity(a, b) FROM t JOIN u",
            "SELECT 'SIMILARITY JOIN', $$ a SIMILARITY JOIN b $$, \"SIMILARITY JOIN\" -- a SIMILARITY JOIN b",
            "FROM a similarity WHERE x",
            "FROM a similarity, b JOIN c",
        ] {
            assert_eq!(joins(sql).unwrap(), [], "{sql}");
        }
    }

    #[test]
    fn a_keyword_out_of_place_is_an_error() {
        for sql in [
            "FROM a SIMILARITY LEFT JOIN b",
            "FROM a LEFT SIMILARITY SEMI JOIN b",
            "FROM a CROSS SIMILARITY JOIN b",
            "FROM a NATURAL LEFT SIMILARITY JOIN b",
        ] {
            assert!(joins(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn semi_and_anti_without_a_side_are_noted() {
        assert!(joins("FROM a SEMI SIMILARITY JOIN b").unwrap()[0].bare.is_some());
        assert!(joins("FROM a ANTI SIMILARITY JOIN b").unwrap()[0].bare.is_some());
        assert!(joins("FROM a RIGHT ANTI SIMILARITY JOIN b").unwrap()[0].bare.is_none());
    }
}
