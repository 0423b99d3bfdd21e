//! Errors of the scheduler and of tasks, on their way to whoever has asked.
//!
//! Ballista sends an error as text, some of it as Rust's `Debug` gives it, within words about jobs and stages. What an
//! executor sends here stands between two marks, so that the client finds it again.

use datafusion::common::{DataFusionError, exec_datafusion_err, plan_datafusion_err, resources_datafusion_err};

const BEGIN: &str = "task failed: <<";
const END: &str = ">>";

/// What a scheduler says before an error of planning, and of a message that it cannot read.
const OF_SCHEDULER: &str = " failed: DataFusion error: ";
const OF_MESSAGE: (&str, &str) = ("message: \"Could not parse plan: ", "\", metadata: ");

/// An error of planning as `Debug` gives it, and as its user reads it.
const KINDS: [(&str, &str); 3] = [
    ("DataFusionError(Plan(\"", "Error during planning: "),
    ("DataFusionError(NotImplemented(\"", "This feature is not implemented: "),
    ("DataFusionError(Execution(\"", ""),
];

/// Rows that could not be fetched from an executor, as Ballista says it.
const OF_EXECUTOR: [&str; 5] = [
    "fetch partition error",
    "FetchFailed(",
    "GrpcConnectionError(",
    "Error connecting to Ballista scheduler or executor",
    "Ipc error: code: ",
];

/// A connection that has ended before its time, as the crates below Ballista say it.
const OF_CONNECTION: [&str; 4] = ["h2 protocol error", "transport error", "error reading a body", "BrokenPipe"];

/// What stands between the place of an error and the error.
const CAUSED_BY: &str = "\ncaused by\n";

/// The error of a task as it travels.
pub fn marked(error: &DataFusionError) -> DataFusionError {
    exec_datafusion_err!("{BEGIN}{}{END}", error.strip_backtrace())
}

/// The error of a query as its user reads it: what a session of one process would have said.
pub fn in_plain_words(error: DataFusionError) -> DataFusionError {
    let text = error.strip_backtrace();
    let says_one_of = |words: &[&str]| words.iter().any(|words| text.contains(words));
    if says_one_of(&OF_EXECUTOR) {
        return exec_datafusion_err!("an executor that has rows of the query cannot be reached; run it again");
    }
    let within = |begin: &str, end: &str| Some(unescaped(text.split_once(begin)?.1.rsplit_once(end)?.0));
    if let Some(said) = within(BEGIN, END).or_else(|| within(OF_MESSAGE.0, OF_MESSAGE.1)) {
        return of_text(&said);
    }
    if let Some((_, said)) = text.split_once(OF_SCHEDULER) {
        return of_text(said);
    }
    if let Some((kind, said)) = KINDS.iter().find_map(|(kind, prefix)| Some((prefix, within(kind, "\")")?))) {
        return of_text(&format!("{kind}{said}"));
    }
    if text.ends_with("Cancelled") || text.contains("all executors were lost") {
        return exec_datafusion_err!(
            "the cluster has stopped the query, since an executor was lost or somebody has cancelled it; run it again"
        );
    }
    if text.contains("tcp connect error") {
        return exec_datafusion_err!("the scheduler cannot be reached; see that it runs, and at which address");
    }
    if says_one_of(&OF_CONNECTION) {
        return exec_datafusion_err!("the connection to the scheduler or to an executor has ended; run it again");
    }
    error
}

/// The error of which DataFusion has said where it was.
pub fn without_context(mut error: DataFusionError) -> DataFusionError {
    while let DataFusionError::Context(_, inner) = error {
        error = *inner;
    }
    error
}

/// The error that has had this text.
fn of_text(text: &str) -> DataFusionError {
    let mut text = text.rsplit_once(CAUSED_BY).map_or(text, |(_, cause)| cause);
    while let Some(inner) = ["External error: ", "DataFusion error: "].iter().find_map(|name| text.strip_prefix(name)) {
        text = inner;
    }
    if let Some(text) = text.strip_prefix("Error during planning: ") {
        plan_datafusion_err!("{text}")
    } else if let Some(text) = text.strip_prefix("Resources exhausted: ") {
        resources_datafusion_err!("{text}")
    } else {
        exec_datafusion_err!("{}", text.strip_prefix("Execution error: ").unwrap_or(text))
    }
}

/// A text without what Rust's `Debug` has put before quotation marks, backslashes and line ends.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use ballista_core::error::BallistaError;

    use super::*;

    /// The words of an error that Ballista has wrapped.
    fn words(text: String) -> String {
        in_plain_words(DataFusionError::Execution(text)).strip_backtrace()
    }

    #[test]
    fn errors_of_tasks_are_those_of_one_process() {
        for said in [
            plan_datafusion_err!("no column \"x\"\nin 'a\\b'"),
            exec_datafusion_err!("vectors of 2 and of 3 elements"),
            resources_datafusion_err!("10 candidates"),
        ] {
            let words_of = said.strip_backtrace();
            let sent = marked(&DataFusionError::External(Box::new(said)));
            assert_eq!(words(format!("Job 1 failed: stage 1 failed: {sent:?}")), words_of);
        }
    }

    #[test]
    fn errors_of_the_scheduler_are_those_of_one_process() {
        let said = "Error during planning: no index serves this";
        assert_eq!(words(format!("Job 1 failed: DataFusion error: {said}")), said);
        assert_eq!(words(format!("Job 1 failed: DataFusion error: a_rule{CAUSED_BY}{said}")), said);
        let printed = BallistaError::DataFusionError(Box::new(plan_datafusion_err!("no index serves this")));
        assert_eq!(words(format!("Job 1 failed: Error planning job 1: {printed:?}")), said);
        let placed = plan_datafusion_err!("too large").context("at a place");
        assert_eq!(without_context(placed).strip_backtrace(), "Error during planning: too large");
        let status = format!(
            "Status {{ code: InvalidArgument, message: {:?}, metadata: x }}",
            format!("Could not parse plan: DataFusion error: {said}")
        );
        assert_eq!(words(status), said);
        for lost in [
            "Job 1 failed: Cancelled",
            "Shuffle fetch partition error from Executor 1, map_stage 3",
            "task failed: <<Execution error: Shuffle fetch partition error from Executor 1: tcp connect error>>",
            "GrpcConnectionError(\"Error connecting to Ballista scheduler or executor at http://b:1: tcp connect error\")",
            "task failed: <<Arrow error: Ipc error: code: 'Unknown error', message: \"h2 protocol error\">>",
            "Status { code: Unknown, message: \"h2 protocol error: error reading a body from connection\" }",
        ] {
            assert!(words(lost.into()).contains("run it again"), "{lost}");
        }
        let unreachable = "tonic::transport::Error(Transport, ConnectError(\"tcp connect error\", 127.0.0.1:9))";
        assert!(words(unreachable.into()).contains("the scheduler cannot be reached"), "{unreachable}");
        assert_eq!(words("connection refused".into()), "Execution error: connection refused");
    }
}
