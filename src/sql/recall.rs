//! Takes `WITH RECALL 0.95` out of a text, to be put around the condition or into the ranking before it.
//!
//! A number cannot follow a name of that kind elsewhere: in `WITH recall AS (..)` it is a common table expression.

use datafusion::common::Result;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use super::error::syntax_error;
use super::keyword::Significant;

/// A recall that was taken out.
#[derive(Debug)]
pub(super) struct Recall {
    /// Where what stands before it ends.
    pub after: Location,
    /// The words and the number.
    pub span: Span,
    pub number: TokenWithSpan,
}

impl Recall {
    /// The error for one that follows neither a condition of SIMILARITY JOIN nor a ranking.
    pub fn out_of_place<T>(&self) -> Result<T> {
        Err(syntax_error(
            "WITH RECALL follows the ON condition of SIMILARITY JOIN, or is the end of APPROXIMATE NEAREST; a plain JOIN \
             takes with_recall(condition, recall)",
            self.span,
        ))
    }

    /// The error for one that ends a ranking without the word APPROXIMATE.
    pub(super) fn of_exact_ranking<T>(&self) -> Result<T> {
        Err(syntax_error(
            "NEAREST misses nothing and takes no WITH RECALL; write APPROXIMATE before NEAREST, as in JOIN b APPROXIMATE \
             NEAREST 3 BY DISTANCE .. WITH RECALL 0.95",
            self.span,
        ))
    }
}

/// The recall that stands right behind `end`, which is taken out of `recalls`.
pub(super) fn recall_after(recalls: &mut Vec<Recall>, end: Location) -> Option<Recall> {
    recalls.iter().position(|recall| recall.after == end).map(|at| recalls.swap_remove(at))
}

/// The tokens without any recall, and what was taken out.
///
/// # Errors
/// A syntax error where the words stand without a number.
pub(super) fn without_recalls(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Vec<Recall>)> {
    let words = Significant::of(&tokens);
    let (mut recalls, mut taken) = (Vec::new(), Vec::new());
    for i in 0..words.len() {
        let is_recall = words.word(i + 1).is_some_and(|word| word.value.eq_ignore_ascii_case("recall"));
        if words.keyword(i) != Keyword::WITH || !is_recall {
            continue;
        }
        match words.token(i + 2) {
            Some(number) if matches!(number.token, Token::Number(..)) => {
                let start = words.token(i).map_or(number.span.start, |with| with.span.start);
                let after =
                    i.checked_sub(1).and_then(|before| words.token(before)).map_or(start, |token| token.span.end);
                recalls.push(Recall { after, span: Span::new(start, number.span.end), number: number.clone() });
                taken.push(words.positions[i]..=words.positions[i + 2]);
            }
            Some(token) if is_common_table(&token.token) => {}
            _ => return words.error(i + 1, "WITH RECALL takes a number above 0 and at most 1, as in WITH RECALL 0.95"),
        }
    }
    if recalls.is_empty() {
        return Ok((tokens, recalls));
    }
    let mut taken = taken.into_iter().peekable();
    let mut kept = Vec::with_capacity(tokens.len());
    for (i, token) in tokens.into_iter().enumerate() {
        match taken.peek() {
            Some(recall) if recall.contains(&i) => {
                if *recall.end() == i {
                    taken.next();
                }
            }
            _ => kept.push(token),
        }
    }
    Ok((kept, recalls))
}

/// What follows the name of a common table expression.
fn is_common_table(token: &Token) -> bool {
    match token {
        Token::LParen => true,
        Token::Word(word) => word.keyword == Keyword::AS,
        _ => false,
    }
}
