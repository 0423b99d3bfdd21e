//! Statements about similarity indexes.
//!
//! ```sql
//! CREATE [OR REPLACE] SIMILARITY INDEX [IF NOT EXISTS] <name> ON <table> (<expression>) [LOCATION '<folder>']
//! DROP SIMILARITY INDEX [IF EXISTS] <name>
//! SHOW SIMILARITY INDEXES
//! ```
//!
//! `statement` reads them before the stock parser sees them, and `run` executes them on the session's
//! [`IndexCatalog`](crate::optimizer::IndexCatalog).

mod run;
mod statement;

pub use statement::IndexStatement;
pub(super) use statement::parse;
