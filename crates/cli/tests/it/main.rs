//! The shell as a process, one module a subject.

mod book;
mod examples;
#[allow(dead_code, reason = "the tests of words use the rest")]
#[path = "../../../../tests/it/markdown.rs"]
mod markdown;
mod rule_sets;
mod shell;
mod tasks;
