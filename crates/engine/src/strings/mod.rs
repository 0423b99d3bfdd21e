//! What every engine's edit and Jaro joins may rely on: `predicate` says what two lengths allow, `features` why a
//! difference of signatures proves a difference of strings.

pub mod features;
pub mod predicate;

pub use predicate::EditPredicate;
