//! The shell as a process, one module a subject.

mod examples;
mod rule_sets;
mod shell;
