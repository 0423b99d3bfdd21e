//! Tables with the alias `similarity`, which may be a SIMILARITY JOIN that nobody read.

use std::collections::VecDeque;

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, TableAlias, TableFactor};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::edit::Edit;
use super::keyword::Keywords;
use super::visit::{Visitor, visit};

/// Refuses tables with the alias `similarity` where the text does not say AS.
///
/// `SessionContext::sql` reads `a SIMILARITY JOIN b` as the table `a` under the alias `similarity`, joined without
/// any contract. A silent change of meaning is worse than an error; whoever means an alias writes AS.
#[derive(Debug)]
pub struct SimilarityAliasPlanner;

impl RelationPlanner for SimilarityAliasPlanner {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if alias(&mut relation).is_some_and(|alias| is_implicit_similarity(alias)) {
            return plan_err!(
                "SIMILARITY JOIN is not known here: run the query through `similarity_sql`, or text from \
                 `sql::rewrite`; for a table alias write `AS similarity`"
            );
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// Gives AS to every alias `similarity`, which was looked at and is a name, except those at `unread`.
pub(super) fn make_explicit(statements: &mut VecDeque<Statement>, unread: Vec<Location>) -> Result<Vec<Edit>> {
    let mut aliases = Aliases { unread, edits: Vec::new() };
    statements.iter_mut().try_for_each(|statement| visit(statement, &mut aliases))?;
    Ok(aliases.edits)
}

/// Where a word `similarity` stands right before JOIN and is none of `keywords`.
pub(super) fn before_join(tokens: &[TokenWithSpan], keywords: &[Keywords]) -> Vec<Location> {
    let solid: Vec<_> = (0..tokens.len()).filter(|&i| !matches!(tokens[i].token, Token::Whitespace(_))).collect();
    let unread = solid.windows(2).filter(|pair| {
        is_word(&tokens[pair[0]], "similarity")
            && is_word(&tokens[pair[1]], "join")
            && keywords.binary_search_by_key(&pair[0], |keyword| keyword.similarity).is_err()
    });
    unread.map(|pair| tokens[pair[0]].span.start).collect()
}

fn is_word(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

struct Aliases {
    /// What the planner shall still refuse.
    unread: Vec<Location>,
    edits: Vec<Edit>,
}

impl Visitor for Aliases {
    fn before_relation(&mut self, relation: &mut TableFactor) -> Result<()> {
        if let Some(alias) = alias(relation).filter(|alias| is_implicit_similarity(alias)) {
            let start = alias.name.span.start;
            if !self.unread.contains(&start) {
                alias.explicit = true;
                self.edits.push(Edit::insert(start, "AS "));
            }
        }
        Ok(())
    }
}

fn is_implicit_similarity(alias: &TableAlias) -> bool {
    let Ident { value, quote_style, .. } = &alias.name;
    !alias.explicit && quote_style.is_none() && value.eq_ignore_ascii_case("similarity")
}

/// The alias of a relation.
pub(super) fn alias(relation: &mut TableFactor) -> Option<&mut TableAlias> {
    match relation {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::JsonTable { alias, .. }
        | TableFactor::OpenJsonTable { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::Pivot { alias, .. }
        | TableFactor::Unpivot { alias, .. }
        | TableFactor::MatchRecognize { alias, .. }
        | TableFactor::XmlTable { alias, .. }
        | TableFactor::SemanticView { alias, .. } => alias.as_mut(),
    }
}
