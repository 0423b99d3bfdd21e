//! DELETE and UPDATE: the operator, and how a sub-query says which rows it means.

mod exec;
mod lookup;

pub use exec::{Changes, DmlExec, Evaluated};
