//! Statements from files, pipes and arguments.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion_similarity::sql;

use crate::shell::{self, Next, Shell};

/// Runs an argument of `-c`: statements up to the first that fails, or one backslash command.
pub async fn run_command(shell: &mut Shell, text: &str) -> Result<()> {
    if text.starts_with('\\') {
        return command(shell, text).await.map(|_| ());
    }
    let statements = sql::split(text, &shell.parser_options())?;
    if statements.is_empty() {
        return plan_err!("the command holds no SQL statement");
    }
    for statement in statements {
        shell.run(statement).await?;
    }
    Ok(())
}

/// Runs a line that begins with a backslash, and the file that it names.
pub async fn command(shell: &mut Shell, line: &str) -> Result<Next> {
    match shell.command(line).await? {
        Next::Include(file) => {
            // a file may include files
            Box::pin(run_files(shell, &[file])).await?;
            Ok(Next::Continue)
        }
        next => Ok(next),
    }
}

/// Runs all statements of `files`, in order, and returns whether all succeeded.
pub async fn run_files(shell: &mut Shell, files: &[PathBuf]) -> Result<bool> {
    let mut succeeded = true;
    for path in files {
        let file = File::open(path)
            .map_err(DataFusionError::from)
            .map_err(|error| error.context(path.display().to_string()))?;
        succeeded &= run_lines(shell, &mut BufReader::new(file), &path.display().to_string()).await?;
    }
    Ok(succeeded)
}

/// Runs statements and backslash commands as their last line is read. Errors are told and do not end the run;
/// returns whether there were none.
///
/// # Errors
/// Where `name`, which the lines come from, cannot be read or is no text.
pub async fn run_lines(shell: &mut Shell, lines: &mut impl BufRead, name: &str) -> Result<bool> {
    let mut succeeded = true;
    let mut text = String::new();
    let (mut lines_before, mut lines_read) = (0, 0);
    loop {
        let line_start = text.len();
        lines_read += 1;
        let at_end = !read_line(lines, &mut text, name, lines_read)?;
        let (before, line) = text.split_at(line_start);
        let done = if before.trim().is_empty() && is_directive(line) {
            run_directive(shell, line).await
        } else if at_end || (line.contains(';') && sql::is_complete(&text, &shell.parser_options())) {
            run_text(shell, &text, lines_before).await.map(|()| Next::Continue)
        } else {
            continue;
        };
        match done {
            Ok(Next::Quit) => return Ok(succeeded),
            Ok(Next::Continue | Next::Include(_)) => {}
            Err(Told) => succeeded = false,
        }
        if at_end {
            return Ok(succeeded);
        }
        text.clear();
        lines_before = lines_read;
    }
}

/// Appends the next line, which is number `number` of `name`; returns whether there is one.
fn read_line(lines: &mut impl BufRead, text: &mut String, name: &str, number: u64) -> Result<bool> {
    let mut bytes = Vec::new();
    lines
        .read_until(b'\n', &mut bytes)
        .map_err(DataFusionError::from)
        .map_err(|error| error.context(name.to_owned()))?;
    match std::str::from_utf8(&bytes) {
        // some editors begin a file with a mark of its encoding
        Ok(line) => text.push_str(if number == 1 { line.trim_start_matches('\u{feff}') } else { line }),
        Err(error) => {
            return exec_err!(
                "{name} is not UTF-8 in line {number}, after {} bytes of it; convert it, as iconv -t UTF-8 does",
                error.valid_up_to()
            );
        }
    }
    Ok(!bytes.is_empty())
}

/// Something failed, and the user knows.
struct Told;

impl From<DataFusionError> for Told {
    fn from(error: DataFusionError) -> Self {
        shell::report(&error);
        Self
    }
}

fn is_directive(line: &str) -> bool {
    line.starts_with('\\') || line.starts_with("#!")
}

/// A line outside statements: a backslash command, or `#!` and the name of an interpreter.
async fn run_directive(shell: &mut Shell, line: &str) -> Result<Next, Told> {
    if line.starts_with('#') {
        return Ok(Next::Continue);
    }
    Ok(command(shell, line).await?)
}

/// Runs the statements of `text`, which is that many lines into its file, also those after one that fails.
async fn run_text(shell: &Shell, text: &str, lines_before: u64) -> Result<(), Told> {
    let mut outcome = Ok(());
    for statement in sql::split_below(text, lines_before, &shell.parser_options())? {
        if let Err(error) = shell.run(statement).await {
            outcome = Err(Told::from(error));
        }
    }
    outcome
}
