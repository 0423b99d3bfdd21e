//! The prompt.

use std::path::PathBuf;

use datafusion::common::{DataFusionError, Result};
use datafusion_similarity::sql;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use tokio::signal;

use crate::helper::ShellHelper;
use crate::script;
use crate::shell::{self, Next, Shell};

type Prompt = Editor<ShellHelper, FileHistory>;

/// Reads and runs until the user leaves. Ctrl-C ends a query or empties the line; Ctrl-D and `\q` leave.
pub async fn run(shell: &mut Shell) -> Result<()> {
    let mut prompt = Prompt::new().map_err(external)?;
    prompt.set_helper(Some(ShellHelper::new(shell.ctx.clone(), shell.print.color)));
    let history = history_file();
    if let Some(history) = &history {
        // the first time there is none
        let _ = prompt.load_history(history);
    }
    let left = talk(shell, &mut prompt).await;
    if let Some(history) = &history
        && let Err(error) = prompt.save_history(history)
    {
        eprintln!("the history is not saved: {error}");
    }
    left
}

async fn talk(shell: &mut Shell, prompt: &mut Prompt) -> Result<()> {
    loop {
        match prompt.readline("> ") {
            Ok(input) if input.trim().is_empty() => {}
            Ok(input) => {
                prompt.add_history_entry(input.trim_end()).map_err(external)?;
                if answer(shell, &input).await == Next::Quit {
                    return Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => println!("^C"),
            Err(ReadlineError::Eof) => {
                println!("\\q");
                return Ok(());
            }
            Err(error) => return Err(external(error)),
        }
        if let Some(helper) = prompt.helper_mut() {
            helper.refresh();
        }
    }
}

/// Runs one input, until Ctrl-C.
async fn answer(shell: &mut Shell, input: &str) -> Next {
    let progress = shell.progress.clone();
    tokio::select! {
        next = attempt(shell, input) => next.unwrap_or_else(|error| {
            shell::report(&error);
            Next::Continue
        }),
        _ = signal::ctrl_c() => {
            if let Some(progress) = progress {
                progress.clear();
            }
            println!("^C");
            Next::Continue
        }
    }
}

async fn attempt(shell: &mut Shell, input: &str) -> Result<Next> {
    if input.starts_with('\\') {
        return script::command(shell, input).await;
    }
    for statement in sql::split(input, &shell.parser_options())? {
        shell.run(statement).await?;
    }
    Ok(Next::Continue)
}

fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".similarity_cli_history"))
}

fn external(error: ReadlineError) -> DataFusionError {
    DataFusionError::External(Box::new(error)).context("reading the prompt")
}
