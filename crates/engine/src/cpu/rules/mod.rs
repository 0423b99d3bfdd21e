//! Candidates of an entry of a join of rules, decided on the CPU.
//!
//! They are walked in blocks: a step of the tree is evaluated for all pairs of a block that reach it, so that a step
//! without pairs is skipped with everything below it. A pair that satisfies clauses of several entries comes out of the
//! first of them.

pub(crate) mod probing;
pub(crate) mod walk;
