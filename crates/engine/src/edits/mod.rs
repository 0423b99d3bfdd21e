//! What every engine's edit and Jaro joins may rely on: `predicate` says what two lengths allow, `features` why a
//! difference of signatures proves a difference of strings.

pub(crate) mod features;
#[cfg(test)]
pub(crate) mod nested_loop;
pub(crate) mod predicate;

pub use predicate::EditPredicate;
