//! Matching rules: conditions over two rows that have a name.
//!
//! ```sql
//! CREATE [OR REPLACE] MATCHING RULE <name> ON <left>, <right> AS <condition>
//! CREATE [OR REPLACE] MATCHING RULE <name> ON [<table>] <left>, [<table>] <right> FROM '<file or folder>'
//! DROP MATCHING RULE [IF EXISTS] <name>
//! SHOW MATCHING RULES
//! ```
//!
//! `left` and `right` stand for the two rows; every column of the condition is qualified by one of them. The
//! operands of the condition's outermost ORs are the clauses of the rule. In queries a rule is used by three calls,
//! whose last two arguments are table aliases:
//!
//! | call | value |
//! |---|---|
//! | `match_rule('r', a, b)` | the condition |
//! | `matched_clause('r', a, b)` | Int64: the number of the first clause, as written, that holds; NULL if none does |
//! | `match_scores('r', a, b)` | a struct with one field for each distinct atom, in the order of the rule |
//!
//! They are no functions: `expand` puts the rule in their place before the statement is planned, so that a plan
//! shows, and the optimizer sees, nothing but ordinary expressions. What was expanded stays as it was when the rule
//! is replaced later: views and prepared statements keep the rule they were made with.
//!
//! `two_rows` reads a condition for the table functions, which take a rule or a text. `blocking` says what its clauses
//! ask of two rows before they compute a measure.
//!
//! `catalog` holds the rules of a session, `statement` reads the statements above, `run` executes them, `import`
//! and `yaml` read rules in files.

mod blocking;
mod build;
mod calls;
mod catalog;
mod clauses;
mod expand;
mod import;
mod pair_value;
mod qualifiers;
mod rule;
mod run;
mod scores;
mod statement;
mod tables;
mod two_rows;
mod yaml;

pub use blocking::{Blocking, SetPart};
pub use catalog::RuleCatalog;
pub use statement::RuleStatement;

pub use two_rows::{ClauseText, PartText, TwoRows};

pub(super) use expand::{Calls, call_ends};
pub(super) use statement::parse;
pub(super) use tables::Tables;
