//! SIMILARITY JOIN, NEAREST and matching rules in SQL text.
//!
//! ```sql
//! [INNER | LEFT [OUTER] | RIGHT [OUTER] | FULL [OUTER] | [LEFT] SEMI | [LEFT] ANTI | RIGHT SEMI | RIGHT ANTI]
//!     SIMILARITY JOIN <table> ON <condition> [WITH RECALL <share>]
//! ```
//!
//! stands wherever a join may stand. The parser below DataFusion has no hook for a new join, so the keyword is
//! handled before it, in three steps:
//!
//! 1. `keyword` finds it among the tokens, by its place alone, and takes it out: what is left is a plain join.
//! 2. `condition` lets the parser itself find where the ON condition of that join ends and puts the condition
//!    under the mark of [`contract`](crate::functions::contract), which the optimizer rule looks for.
//!    `recall` has taken out the recall, which becomes [`with_recall`](crate::functions) around it.
//! 3. The stock parser reads the tokens. They keep the places they have in the user's text, so that its errors
//!    point there.
//!
//! ```sql
//! [INNER | LEFT [OUTER]] JOIN <table> [APPROXIMATE] NEAREST <rows> BY {DISTANCE | SIMILARITY} <score>
//!     [THEN BY <expression> [ASC | DESC] [NULLS FIRST | LAST], ...] [ON <condition>] [WITH TIES] [WITH RECALL <share>]
//! ```
//!
//! goes the same way: `nearest` finds the clause, `ranking` turns it into the ON condition
//! [`nearest_join_condition(..)`](crate::functions::nearest), which an analyzer rule looks for.
//!
//! [`NearestFunction`](crate::tables::NearestFunction) is the same join as a table function, for text that the stock
//! parser reads.
//!
//! Because the mark is an ordinary function call, nothing else has to know the syntax: views, EXPLAIN, COPY,
//! sub-queries and every dialect work, and [`rewrite`] can give the same as text to any other consumer.
//!
//! `dml` takes forms of DELETE and UPDATE that the stock planner refuses: USING, FROM and an alias.
//!
//! `reset` gives an option of ours its default again.
//!
//! In text that does not come through here, the keyword would silently become the alias of a table:
//! [`SimilarityAliasPlanner`] makes that an error.
//!
//! [`split`] and [`is_complete`] read scripts, where a keyword, a quote or a comment may hold a semicolon:
//!
//! ```
//! use datafusion::config::SqlParserOptions;
//! use datafusion_similarity::sql;
//!
//! let options = SqlParserOptions::default();
//! let script = "SELECT ';'; SELECT * FROM p a SIMILARITY JOIN p b ON levenshtein(a.s, b.s) <= 1;";
//! assert_eq!(sql::split(script, &options).unwrap().len(), 2);
//! assert!(!sql::is_complete("SELECT 'open;", &options));
//! ```
//!
//! Matching rules and similarity indexes have statements of their own, [`OwnStatement`], which are read before the
//! stock parser sees them.
//! Calls that name a rule are replaced in the syntax tree that the parser returns: `rules` says how they read.

mod alias;
mod condition;
mod dml;
mod edit;
mod error;
mod hints;
mod indexes;
mod keyword;
mod nearest;
mod own_statement;
mod plan;
mod ranking;
mod reader;
mod recall;
mod reset;
mod rules;
mod source;
mod statements;
mod visit;

pub use alias::SimilarityAliasPlanner;
pub use dml::is_dml;
pub(crate) use error::syntax_error;
pub use hints::with_hint;
pub use indexes::IndexStatement;
pub use own_statement::OwnStatement;
pub use plan::{logical_plan, sql, sql_with_options};
pub(crate) use ranking::as_condition;
pub use rules::{Blocking, ClauseText, PartText, RuleCatalog, RuleStatement, SetPart, TwoRows};
pub use statements::{StatementText, check, is_complete, parse, rewrite, split, split_below};
pub(crate) use statements::{dialect, tokenize};
