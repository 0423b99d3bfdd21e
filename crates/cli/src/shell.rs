//! One statement or backslash command at a time.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::instant::Instant;
use datafusion::common::{DataFusionError, Result};
use datafusion::config::SqlParserOptions;
use datafusion::dataframe::DataFrame;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use datafusion_cli::{DATAFUSION_CLI_VERSION, exec};
use datafusion_similarity::sql::{self, StatementText};

use crate::progress::Progress;

/// A session and how its results are printed.
pub struct Shell {
    pub ctx: SessionContext,
    pub print: PrintOptions,
    /// `None` where nobody would see it.
    pub progress: Option<Progress>,
}

/// What a backslash command means for the rest of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    Quit,
    /// The rest follows these statements.
    Include(PathBuf),
}

impl Shell {
    /// Says what answers.
    pub fn greet(&self) {
        if !self.print.quiet {
            let version = env!("CARGO_PKG_VERSION");
            // whoever reads only part of the output has closed it on purpose
            let _ = writeln!(io::stdout(), "similarity-cli v{version} (DataFusion CLI v{DATAFUSION_CLI_VERSION})");
        }
    }

    /// How the session parses now; a SET may change it between two statements.
    pub fn parser_options(&self) -> SqlParserOptions {
        parser_options(&self.ctx)
    }

    /// Runs one statement and prints its result.
    pub async fn run(&self, statement: StatementText<'_>) -> Result<()> {
        let options = self.parser_options();
        let start = Instant::now();
        if let Some(own) = statement.own_statement(&options)? {
            return self.print(own.run(&self.ctx).await?, start).await;
        }
        let parsed = statement.parse(&options)?;
        if parsed.front().is_some_and(|statement| is_view(statement) || sql::is_dml(statement)) {
            // SHOW CREATE TABLE repeats the words of a view; DELETE and UPDATE take more than text can say
            return self.print(sql::sql(&self.ctx, statement.text()).await?, start).await;
        }
        let text = statement.rewrite_for(&self.ctx.state())?;
        exec::exec_from_commands(&self.ctx, vec![text], &self.print_options()).await.map_err(sql::with_hint)
    }

    /// Only a table, which somebody looks at, is cut to a number of rows; what is read by another program is whole.
    fn print_options(&self) -> PrintOptions {
        let mut print = self.print.clone();
        if !matches!(print.format, PrintFormat::Automatic | PrintFormat::Table) {
            print.maxrows = MaxRows::Unlimited;
        }
        print
    }

    async fn print(&self, frame: DataFrame, start: Instant) -> Result<()> {
        let schema = frame.schema().inner().clone();
        let batches = frame.collect().await?;
        self.print_batches(self.print_options(), schema, &batches, start)
    }

    /// Prints rows, and nothing about them.
    pub fn show(&self, schema: SchemaRef, batches: &[RecordBatch]) -> Result<()> {
        self.print_batches(PrintOptions { quiet: true, ..self.print_options() }, schema, batches, Instant::now())
    }

    fn print_batches(
        &self,
        mut print: PrintOptions,
        schema: SchemaRef,
        batches: &[RecordBatch],
        start: Instant,
    ) -> Result<()> {
        if print.format == PrintFormat::Automatic {
            print.format = PrintFormat::Table;
        }
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        print.print_batches(schema, batches, start, rows, &self.ctx.state().config_options().format)
    }

    /// Runs a line that begins with a backslash.
    pub async fn command(&mut self, line: &str) -> Result<Next> {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match words.trim_start_matches('\\').parse() {
            Ok(Command::Quit) => return Ok(Next::Quit),
            Ok(Command::OutputFormat(setting)) => self.output_format(setting.as_deref())?,
            Ok(Command::Include(Some(file))) => return Ok(Next::Include(file.into())),
            Ok(command) => command.execute(&self.ctx, &mut self.print).await?,
            Err(()) => return Err(unknown(line)),
        }
        Ok(Next::Continue)
    }

    fn output_format(&mut self, setting: Option<&str>) -> Result<()> {
        match setting.map(str::parse::<OutputFormat>) {
            None => println!("Output format is {:?}.", self.print.format),
            Some(Ok(change)) => change.execute(&mut self.print)?,
            Some(Err(())) => return Err(unknown("\\pset")),
        }
        Ok(())
    }
}

/// How the session of `ctx` parses.
pub fn parser_options(ctx: &SessionContext) -> SqlParserOptions {
    ctx.state_ref().read().config_options().sql_parser.clone()
}

/// Tells the user, not the output, about an error. That nobody reads the output any more is no news.
pub fn report(error: &DataFusionError) {
    if !is_closed_pipe(error) {
        eprintln!("{}", error.strip_backtrace());
    }
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    let closed = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    closed || error.source().is_some_and(is_closed_pipe)
}

fn is_view(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(s) if matches!(s.as_ref(), ast::Statement::CreateView(_)))
}

fn unknown(command: &str) -> DataFusionError {
    DataFusionError::Execution(format!("{} is no command; \\? lists them", command.trim()))
}
