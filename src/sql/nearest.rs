//! Finds the NEAREST clause of joins among the tokens of a text.
//!
//! sqlparser does not know the clause: it would take `NEAREST` for the alias of the table before it and stop at what
//! follows. The word is the keyword where an operand has just ended and a number of rows and BY follow, which no other
//! SQL has; everywhere else it is a name. So is APPROXIMATE, unless an operand ends before it and the keyword follows.

use datafusion::common::Result;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::error::syntax_error;
use super::keyword::Significant;
use crate::functions::nearest::Direction;

/// One NEAREST clause up to its score. The fields are positions in the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nearest {
    /// The word NEAREST, or APPROXIMATE before it.
    pub nearest: usize,
    /// Whether neighbours may be missed.
    pub approximate: bool,
    /// How many rows are asked for.
    pub rows: u64,
    /// The word DISTANCE or SIMILARITY, right before the score.
    pub by: usize,
    pub direction: Direction,
}

/// Every NEAREST clause in `tokens`, in order; the words SIMILARITY of the joins whose JOIN is at `similarity_joins`
/// are gone.
///
/// # Errors
/// A syntax error where the clause is out of place, or belongs to a join that it cannot rank.
pub(super) fn nearest_joins(tokens: &[TokenWithSpan], similarity_joins: &[usize]) -> Result<Vec<Nearest>> {
    let words = Significant::of(tokens);
    let found = (0..words.len()).filter(|&i| is(&words, i, "nearest") && words.operand_ends_before(i));
    found.filter_map(|i| clause_at(&words, i, similarity_joins).transpose()).collect()
}

/// The clause whose NEAREST is word `i`, or `None` where that word is a name.
fn clause_at(words: &Significant<'_>, i: usize, similarity_joins: &[usize]) -> Result<Option<Nearest>> {
    let Some(by) = by_after(words, i) else { return Ok(None) };
    check_join(words, i, similarity_joins)?;
    let rows = match (by - i, words.token(i + 1).map(|token| &token.token)) {
        (2, Some(Token::Number(number, _))) => number.parse().ok().filter(|&rows: &u64| rows > 0),
        _ => None,
    };
    let Some(rows) = rows else {
        return words.error(i + 1, "NEAREST takes a positive whole number of rows, as in NEAREST 3 BY DISTANCE");
    };
    let Some(direction) = direction_at(words, by + 1) else {
        let place = if by + 1 < words.len() { by + 1 } else { by };
        return words.error(place, NO_DIRECTION);
    };
    let approximate = i > 0 && is(words, i - 1, "approximate") && words.operand_ends_before(i - 1);
    let nearest = words.positions[i - usize::from(approximate)];
    Ok(Some(Nearest { nearest, approximate, rows, by: words.positions[by + 1], direction }))
}

/// The clause that `tokens` are, from DISTANCE or SIMILARITY on; neighbours may be missed where it is `approximate`.
///
/// # Errors
/// A syntax error where they begin with neither.
pub(super) fn clause_of(tokens: &[TokenWithSpan], rows: u64, approximate: bool) -> Result<Nearest> {
    let words = Significant::of(tokens);
    match (direction_at(&words, 0), words.positions.first()) {
        (Some(direction), Some(&by)) => Ok(Nearest { nearest: by, approximate, rows, by, direction }),
        (_, Some(_)) => words.error(0, NO_DIRECTION),
        (_, None) => Err(syntax_error(NO_DIRECTION, Span::empty())),
    }
}

const NO_DIRECTION: &str =
    "NEAREST .. BY takes DISTANCE, which ranks the smallest first, or SIMILARITY, which ranks the largest first";

fn direction_at(words: &Significant<'_>, i: usize) -> Option<Direction> {
    let direction = |word: &str| match word {
        "distance" => Some(Direction::Distance),
        "similarity" => Some(Direction::Similarity),
        _ => None,
    };
    direction(words.word(i)?.value.to_ascii_lowercase().as_str())
}

/// The word BY of the clause whose NEAREST is word `i`: after nothing, a literal with or without a sign, or a name that
/// is not the first half of ORDER BY and its like.
fn by_after(words: &Significant<'_>, i: usize) -> Option<usize> {
    let signed = matches!(words.token(i + 1)?.token, Token::Minus | Token::Plus);
    let amount = i + 1 + usize::from(signed);
    let by = match &words.token(amount)?.token {
        Token::Word(word) if word.keyword == Keyword::BY && !signed => amount,
        Token::Word(word) if word.keyword != Keyword::NoKeyword => return None,
        Token::Word(_) | Token::Number(..) | Token::Placeholder(_) | Token::SingleQuotedString(_) => amount + 1,
        _ => return None,
    };
    (words.keyword(by) == Keyword::BY).then_some(by)
}

/// Fails unless the table before word `i` is the right side of a join that can be ranked.
fn check_join(words: &Significant<'_>, i: usize, similarity_joins: &[usize]) -> Result<()> {
    let Some(join) = join_before(words, i) else {
        return words.error(
            i,
            "NEAREST stands right after the table of a JOIN and before ON, as in a JOIN b NEAREST 3 BY DISTANCE ..",
        );
    };
    if similarity_joins.contains(&words.positions[join]) {
        return words.error(i, "NEAREST ranks the rows of a plain JOIN and takes no SIMILARITY JOIN");
    }
    if words.keyword(join + 1) == Keyword::LATERAL {
        return words.error(join + 1, "NEAREST ranks the rows of one table and takes no LATERAL");
    }
    let first = words.first_join_word(join).unwrap_or(join);
    let refused = (first..join).find(|&j| {
        use Keyword::{ANTI, CROSS, FULL, NATURAL, RIGHT, SEMI};
        matches!(words.keyword(j), ANTI | CROSS | FULL | NATURAL | RIGHT | SEMI)
    });
    match refused.and_then(|j| Some((j, words.word(j)?))) {
        Some((j, word)) => {
            let message = format!("NEAREST takes INNER JOIN or LEFT JOIN, not {}", word.value.to_uppercase());
            words.error(j, &message)
        }
        None => Ok(()),
    }
}

/// The word JOIN whose right side ends before word `i`.
fn join_before(words: &Significant<'_>, i: usize) -> Option<usize> {
    let mut depth = 0;
    for j in (0..i).rev() {
        match &words.token(j)?.token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LParen | Token::LBracket | Token::LBrace if depth == 0 => return None,
            Token::LParen | Token::LBracket | Token::LBrace => depth -= 1,
            _ if depth > 0 => {}
            Token::Comma | Token::SemiColon => return None,
            Token::Word(_) => match words.keyword(j) {
                _ if j > 0 && words.token(j - 1)?.token == Token::Period => {}
                Keyword::JOIN => return Some(j),
                Keyword::FROM | Keyword::ON | Keyword::USING | Keyword::WHERE | Keyword::SELECT => return None,
                _ => {}
            },
            _ => {}
        }
    }
    None
}

fn is(words: &Significant<'_>, i: usize, text: &str) -> bool {
    words.word(i).is_some_and(|word| word.value.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn joins(sql: &str) -> Result<Vec<Nearest>> {
        nearest_joins(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap(), &[])
    }

    #[test]
    fn the_clause_is_found_after_the_table_of_a_join() {
        for sql in [
            "FROM a JOIN b NEAREST 3 BY DISTANCE x",
            "from a left outer join b as c nearest 3 by similarity x",
            "FROM a JOIN b c NEAREST /* nearest 1 by distance */ 10 BY DISTANCE x",
            "FROM a JOIN (SELECT * FROM b, c) AS d (x, y) NEAREST 1 BY DISTANCE x",
            "FROM a JOIN nearest NEAREST 1 BY DISTANCE x",
            "FROM a JOIN b nearest NEAREST 1 BY DISTANCE x",
            "FROM a JOIN s.\"join\" NEAREST 1 BY DISTANCE x",
            "FROM a JOIN b ON a.x = b.x JOIN c NEAREST 1 BY DISTANCE x",
        ] {
            assert_eq!(joins(sql).unwrap().len(), 1, "{sql}");
        }
        let [found] = joins("FROM a JOIN b NEAREST 3 BY SIMILARITY x").unwrap()[..] else { panic!("one clause") };
        let expected = Nearest { nearest: 8, approximate: false, rows: 3, by: 14, direction: Direction::Similarity };
        assert_eq!(found, expected);
    }

    #[test]
    fn approximate_is_a_keyword_before_the_clause_alone() {
        for (sql, approximate) in [
            ("FROM a JOIN b APPROXIMATE NEAREST 3 BY DISTANCE x", true),
            ("FROM a JOIN b AS approximate approximate nearest 3 by similarity x", true),
            ("FROM a JOIN approximate NEAREST 3 BY DISTANCE x", false),
            ("FROM a JOIN b AS approximate NEAREST 3 BY DISTANCE x", false),
            ("FROM a JOIN b \"approximate\" NEAREST 3 BY DISTANCE x", false),
        ] {
            let [found] = joins(sql).unwrap()[..] else { panic!("one clause: {sql}") };
            assert_eq!(found.approximate, approximate, "{sql}");
        }
    }

    #[test]
    fn names_are_not_the_keyword() {
        for sql in [
            "FROM nearest JOIN b ON x",
            "FROM a JOIN b nearest ON x",
            "FROM a JOIN b AS nearest ORDER BY distance",
            "FROM a JOIN b nearest ORDER BY distance",
            "FROM a JOIN b nearest GROUP BY similarity",
            "SELECT nearest FROM t LIMIT nearest - 3",
            "SELECT 1 nearest UNION BY NAME SELECT 2",
            "SELECT a.nearest, 'NEAREST 3 BY DISTANCE', \"NEAREST\" -- JOIN b NEAREST 3 BY DISTANCE",
        ] {
            assert_eq!(joins(sql).unwrap(), [], "{sql}");
        }
    }

    #[test]
    fn a_clause_out_of_place_is_an_error() {
        for (sql, hint) in [
            ("FROM a JOIN b NEAREST 0 BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST -1 BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST 1.5 BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST '1' BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST $1 BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST k BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST BY DISTANCE x", "positive whole number"),
            ("FROM a JOIN b NEAREST 1 BY x", "DISTANCE"),
            ("FROM a JOIN b NEAREST 1 BY", "DISTANCE"),
            ("FROM a, b NEAREST 1 BY DISTANCE x", "JOIN"),
            ("FROM b NEAREST 1 BY DISTANCE x", "JOIN"),
            ("FROM a JOIN b ON x NEAREST 1 BY DISTANCE x", "before ON"),
            ("FROM a RIGHT JOIN b NEAREST 1 BY DISTANCE x", "not RIGHT"),
            ("FROM a FULL OUTER JOIN b NEAREST 1 BY DISTANCE x", "not FULL"),
            ("FROM a LEFT SEMI JOIN b NEAREST 1 BY DISTANCE x", "not SEMI"),
            ("FROM a LEFT ANTI JOIN b NEAREST 1 BY DISTANCE x", "not ANTI"),
            ("FROM a CROSS JOIN b NEAREST 1 BY DISTANCE x", "not CROSS"),
            ("FROM a NATURAL JOIN b NEAREST 1 BY DISTANCE x", "not NATURAL"),
            ("FROM a JOIN LATERAL (SELECT 1) b NEAREST 1 BY DISTANCE x", "LATERAL"),
        ] {
            let error = joins(sql).unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("NEAREST"), "{sql}: {error}");
        }
    }
}
