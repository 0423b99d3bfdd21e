//! What every engine's edit and Jaro joins may rely on: `predicate` says what two lengths allow, `features` why a difference
//! of signatures proves a difference of strings.

pub(in crate::engine) mod features;
#[cfg(test)]
pub(in crate::engine) mod nested_loop;
pub(in crate::engine) mod predicate;

pub use predicate::EditPredicate;
