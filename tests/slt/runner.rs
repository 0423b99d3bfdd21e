//! Scripts as sqllogictest records, and what they are run with.
//!
//! `SIMILARITY_ENGINE` chooses the engine: with `cuda` the scripts run on a device. Records of the default have
//! `skipif engine` before them. Without it, and unless the command line asks for something, they run once more there,
//! on the emulated driver of `kernels/emulator` unless `SIMILARITY_REQUIRE_CUDA` asks for a device. Where the scripts
//! have been moved to, `SIMILARITY_SCRIPTS` says.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use sqllogictest::{AsyncDB, ColumnType, DBOutput, Normalizer, Record, Runner};

/// Runs the scripts of `folder` that the command line selects, each in a session of its own, and returns how many
/// failed. Records that say `skipif` with the `label` are left out.
///
/// # Errors
/// A folder without a script.
pub async fn run_all(
    folder: &Path,
    session: fn() -> Result<SessionContext>,
    label: Option<&str>,
) -> Result<usize, Box<dyn Error>> {
    let scripts = scripts(folder)?;
    if scripts.is_empty() {
        return Err("no script found".into());
    }
    let mut failed = 0;
    for script in &scripts {
        let name = script.file_name().unwrap_or_default().display();
        match run(script, session, label).await {
            Ok(records) => println!("{name}: {records} records"),
            Err(error) => {
                failed += 1;
                println!("{name}: FAILED\n{error}");
            }
        }
    }
    println!("{} of {} scripts passed", scripts.len() - failed, scripts.len());
    Ok(failed)
}

/// The scripts in a folder that the command line selects, by name.
fn scripts(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let selected: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = selected.is_empty() || selected.iter().any(|part| name.contains(part));
        if wanted && path.extension().is_some_and(|extension| extension == "slt") {
            scripts.push(path);
        }
    }
    scripts.sort();
    Ok(scripts)
}

/// Runs a script to its first difference; the number of its statements and queries.
async fn run(
    script: &Path,
    session: fn() -> Result<SessionContext>,
    label: Option<&str>,
) -> Result<usize, Box<dyn Error>> {
    let records = sqllogictest::parse_file::<Column>(script)?;
    let count = records.iter().filter(|record| matches!(record, Record::Statement { .. } | Record::Query { .. }));
    let count = count.count();
    if count == 0 {
        return Err("no record found".into());
    }
    let mut runner = Runner::new(|| async { session().map(Session) });
    if let Some(label) = label {
        runner.add_label(label);
    }
    runner.with_column_validator(sqllogictest::strict_column_validator);
    runner.with_normalizer(|line| line.trim_end().to_owned());
    runner.with_validator(same_rows);
    runner.run_multi_async(records).await?;
    Ok(count)
}

fn same_rows(normalize: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let actual: Vec<String> = actual.iter().map(|row| row.join(" ")).collect();
    let lines = actual.iter().flat_map(|row| row.trim_end_matches('\n').split('\n'));
    lines.map(|line| normalize(&line.to_owned())).eq(expected.iter().map(normalize))
}

struct Session(SessionContext);

#[async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = Column;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Column>> {
        let result = self.0.similarity_sql(sql).await?;
        let types: Vec<Column> = result.schema().fields().iter().map(|field| Column::of(field.data_type())).collect();
        let batches = result.collect().await?;
        if types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let rows = batches.iter().map(rows).collect::<Result<Vec<_>>>()?.concat();
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "datafusion-similarity"
    }
}

fn rows(batch: &RecordBatch) -> Result<Vec<Vec<String>>> {
    let row = |row| batch.columns().iter().map(|column| cell(column, row)).collect();
    (0..batch.num_rows()).map(row).collect()
}

fn cell(column: &ArrayRef, row: usize) -> Result<String> {
    if column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok("NULL".to_owned());
    }
    Ok(match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        _ => match array_value_to_string(column, row)? {
            empty if empty.is_empty() => "(empty)".to_owned(),
            text => text,
        },
    })
}

/// The type of a column, as a record's first line gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Text,
    Integer,
    Real,
    Boolean,
    Other,
}

impl Column {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Dictionary(_, value) => Self::of(value),
            string if string.is_string() => Self::Text,
            integer if integer.is_integer() => Self::Integer,
            float if float.is_floating() => Self::Real,
            DataType::Boolean => Self::Boolean,
            _ => Self::Other,
        }
    }
}

impl ColumnType for Column {
    fn from_char(value: char) -> Option<Self> {
        [Self::Text, Self::Integer, Self::Real, Self::Boolean, Self::Other].into_iter().find(|c| c.to_char() == value)
    }

    fn to_char(&self) -> char {
        match self {
            Self::Text => 'T',
            Self::Integer => 'I',
            Self::Real => 'R',
            Self::Boolean => 'B',
            Self::Other => '?',
        }
    }
}
