//! Queries that a task puts together, and what it reads from their results.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Float64Type, Schema, UInt64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::MemTable;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::prelude::SessionContext;
use datafusion_similarity::sql;
use tokio::task::JoinError;

/// The result of a small query.
#[derive(Debug)]
pub struct Rows(RecordBatch);

impl Rows {
    /// The rows of some batches of one schema.
    pub fn of(batches: &[RecordBatch]) -> Result<Self> {
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Ok(Self(concat_batches(&schema, batches)?))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// A number that is not negative, 0 for NULL.
    pub fn count(&self, column: usize, row: usize) -> Result<u64> {
        let values = cast(self.0.column(column), &DataType::UInt64)?;
        Ok(if values.is_null(row) { 0 } else { values.as_primitive::<UInt64Type>().value(row) })
    }

    /// A number, NaN for NULL.
    pub fn number(&self, column: usize, row: usize) -> Result<f64> {
        let values = cast(self.0.column(column), &DataType::Float64)?;
        Ok(if values.is_null(row) { f64::NAN } else { values.as_primitive::<Float64Type>().value(row) })
    }

    /// Whether the values of a column have decimals.
    pub fn is_fraction(&self, column: usize) -> bool {
        self.0.column(column).data_type().is_floating()
    }

    /// A value as text, `None` for NULL and where there is no such row.
    pub fn text(&self, column: usize, row: usize) -> Result<Option<String>> {
        let values = self.0.column(column);
        if row >= values.len() || values.data_type().is_null() || values.is_null(row) {
            return Ok(None);
        }
        let options = FormatOptions::default();
        Ok(Some(ArrayFormatter::try_new(values.as_ref(), &options)?.value(row).try_to_string()?))
    }
}

/// Plans a query that may use matching rules.
pub async fn frame(ctx: &SessionContext, text: &str) -> Result<DataFrame> {
    sql::sql(ctx, text).await
}

/// Runs a query on another thread, so that this one hears of Ctrl-C however long a step of a plan takes.
pub async fn collect(frame: DataFrame) -> Result<Vec<RecordBatch>> {
    SpawnedTask::spawn(frame.collect()).join_unwind().await.map_err(external)?
}

/// Runs a query whose result is small.
pub async fn query(ctx: &SessionContext, text: &str) -> Result<Rows> {
    let frame = frame(ctx, text).await?;
    let schema = frame.schema().inner().clone();
    Ok(Rows(concat_batches(&schema, &collect(frame).await?)?))
}

/// The only number of a query.
pub async fn count(ctx: &SessionContext, text: &str) -> Result<u64> {
    let rows = query(ctx, text).await?;
    if rows.len() == 0 { Err(exec_datafusion_err!("a count has one row")) } else { rows.count(0, 0) }
}

/// Keeps the result of a query as a table of the session.
pub async fn keep(ctx: &SessionContext, table: &str, frame: DataFrame) -> Result<()> {
    let schema = frame.schema().inner().clone();
    let partitions = SpawnedTask::spawn(frame.collect_partitioned()).join_unwind().await.map_err(external)??;
    ctx.register_table(table, Arc::new(MemTable::try_new(schema, partitions)?))?;
    Ok(())
}

/// A column as it can stand in SQL.
pub fn column(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a constant of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn external(error: JoinError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
