//! Tables from files, each read once into memory.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::MemTable;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext};
use url::Url;

use super::query::{collect, column, count, query};

/// The column of rows that are numbered.
pub const ROW_ID: &str = "row_id";

/// What a file is, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines of values, the first with their names.
    Text {
        /// What stands between two values.
        delimiter: u8,
    },
    /// Parquet.
    Parquet,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// The format of `path`, and whether it is compressed.
    ///
    /// # Errors
    /// An unknown extension.
    pub fn of(path: &Path) -> Result<(Self, bool)> {
        let (name, compression) = uncompressed(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let format = match extension {
            "csv" => Self::Text { delimiter: b',' },
            "tsv" | "tab" => Self::Text { delimiter: b'\t' },
            "parquet" | "pq" => Self::Parquet,
            "json" | "ndjson" | "jsonl" => Self::Json,
            _ => {
                return plan_err!(
                    "the extension of {} says nothing about its format; known are .csv, .tsv, .parquet and .json",
                    path.display()
                );
            }
        };
        let compressed = compression != FileCompressionType::UNCOMPRESSED;
        if compressed && format == Self::Parquet {
            return plan_err!("{} is parquet, which is compressed by itself", path.display());
        }
        Ok((format, compressed))
    }
}

/// The name of a file in lower case without the extension of its compression.
fn uncompressed(path: &Path) -> (String, FileCompressionType) {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let known = [
        (".gz", FileCompressionType::GZIP),
        (".bz2", FileCompressionType::BZIP2),
        (".xz", FileCompressionType::XZ),
        (".zst", FileCompressionType::ZSTD),
    ];
    let found = known.into_iter().find_map(|(end, kind)| name.strip_suffix(end).map(|rest| (rest.to_owned(), kind)));
    found.unwrap_or((name, FileCompressionType::UNCOMPRESSED))
}

/// A table of the session that came from a file.
#[derive(Debug)]
pub struct Input {
    /// The table in SQL.
    pub table: &'static str,
    /// The file, as users know it.
    pub file: String,
    /// The name of the file without its folders.
    pub name: String,
    /// The id as it can stand behind an alias in SQL.
    pub id: String,
    /// The id as users know it.
    pub id_name: String,
    /// Rows of the table.
    pub rows: u64,
    /// The columns, with that of numbered rows.
    pub schema: SchemaRef,
}

impl Input {
    /// Reads a file into `table`. Without the name of its id column the rows are numbered.
    ///
    /// # Errors
    /// A file that cannot be read, and a column that is none, or no id: it has repeated values or NULL.
    pub async fn read(ctx: &SessionContext, path: &Path, table: &'static str, id: Option<&str>) -> Result<Self> {
        let file = path.display().to_string();
        let name = path.file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned());
        let (mut schema, mut batches) = read(ctx, path).await?;
        let id_name = match id {
            Some(id) => named(&schema, id, &file)?,
            None if schema.column_with_name(ROW_ID).is_some() => {
                return plan_err!(
                    "{file} has a column {ROW_ID} itself; if it is different in every row, name it as id"
                );
            }
            None => {
                (schema, batches) = numbered(&schema, &batches)?;
                ROW_ID.to_owned()
            }
        };
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        ctx.register_table(table, Arc::new(MemTable::try_new(Arc::clone(&schema), vec![batches])?))?;
        let input = Self { table, file, name, id: column(&id_name), id_name, rows, schema };
        if id.is_some() {
            input.check_id(ctx).await?;
        }
        Ok(input)
    }

    async fn check_id(&self, ctx: &SessionContext) -> Result<()> {
        let Self { table, file, id, id_name, .. } = self;
        let text = format!(
            "SELECT coalesce(sum(n) FILTER (WHERE id IS NULL), 0), count(*) FILTER (WHERE id IS NOT NULL AND n > 1) \
             FROM (SELECT {id} AS id, count(*) AS n FROM {table} GROUP BY {id})"
        );
        let rows = query(ctx, &text).await.map_err(|error| error.context(format!("column {id_name} of {file}")))?;
        let (nulls, repeated) = (rows.count(0, 0)?, rows.count(1, 0)?);
        if nulls + repeated > 0 {
            return exec_err!(
                "column {id_name} of {file} is no id: {nulls} rows have NULL there, and {repeated} values stand in \
                 several rows; leave the option out to number the rows"
            );
        }
        Ok(())
    }

    /// The type of the id.
    pub fn id_type(&self) -> Result<DataType> {
        Ok(self.schema.field_with_name(&self.id_name)?.data_type().clone())
    }
}

/// A column by its name, or by its name in another case if there is one of that.
fn named(schema: &Schema, name: &str, file: &str) -> Result<String> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let alike: Vec<&&str> = names.iter().filter(|known| known.eq_ignore_ascii_case(name)).collect();
    match alike[..] {
        [only] => Ok((*only).to_owned()),
        _ => plan_err!("{file} has no column {name}; its columns are {}", names.join(", ")),
    }
}

/// Puts a column of row numbers before the others.
fn numbered(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let id = Arc::new(Field::new(ROW_ID, DataType::Int64, false));
    let fields: Vec<_> = [id].into_iter().chain(schema.fields().iter().cloned()).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut next = 1_i64;
    let mut number = |batch: &RecordBatch| {
        let first = next;
        next += batch.num_rows() as i64;
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..next));
        let columns = [ids].into_iter().chain(batch.columns().iter().cloned()).collect();
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
    };
    let batches = batches.iter().map(&mut number).collect::<Result<_>>()?;
    Ok((schema, batches))
}

/// Reads the truth of `id_type` into `table`, as the columns `l` and `r`; returns whether `r` is a cluster.
///
/// # Errors
/// A file that cannot be read or has one column, and values that are no ids.
pub async fn read_truth(
    ctx: &SessionContext,
    path: &Path,
    table: &str,
    types: [DataType; 2],
    clusters: bool,
) -> Result<bool> {
    let file = path.display().to_string();
    let (schema, batches) = read(ctx, path).await?;
    let [first, second, ..] = &schema.fields()[..] else {
        return plan_err!("{file} has one column; a truth has two ids in a row, or an id and its cluster");
    };
    let names = ["cluster", "cluster_id", "entity", "entity_id"];
    let of_clusters = clusters && names.iter().any(|name| second.name().eq_ignore_ascii_case(name));
    let [left_type, right_type] = types;
    let right_type = if of_clusters { second.data_type().clone() } else { right_type };
    let fields = [("l", &left_type), ("r", &right_type)].map(|(name, kind)| Field::new(name, kind.clone(), true));
    let result = Arc::new(Schema::new(fields.to_vec()));
    let convert = |batch: &RecordBatch| -> Result<RecordBatch> {
        let columns =
            [(first, &left_type), (second, &right_type)].into_iter().enumerate().map(|(at, (field, kind))| {
                let values = batch.column(at);
                let cast = cast_with_options(values, kind, &CastOptions::default())?;
                match cast.null_count() - values.null_count() {
                    0 => Ok(cast),
                    lost => exec_err!(
                        "column {} of {file} has {lost} values that are no {kind}, which is the type of the id",
                        field.name()
                    ),
                }
            });
        Ok(RecordBatch::try_new(Arc::clone(&result), columns.collect::<Result<_>>()?)?)
    };
    let batches = batches.iter().map(convert).collect::<Result<Vec<_>>>()?;
    ctx.register_table(table, Arc::new(MemTable::try_new(Arc::clone(&result), vec![batches])?))?;
    Ok(of_clusters)
}

/// All rows of a file, in its order.
async fn read(ctx: &SessionContext, path: &Path) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let (format, _) = Format::of(path)?;
    File::open(path)
        .and_then(|file| file.metadata())
        .and_then(|data| if data.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) })
        .map_err(|error| failed("cannot read", path, error))?;
    let url = url(path)?;
    // one partition keeps the order of the rows
    let config = ctx.copied_config().with_target_partitions(1);
    let state = SessionStateBuilder::new_from_existing(ctx.state()).with_config(config).build();
    let one = SessionContext::new_with_state(state);
    read_as(&one, &url, format, uncompressed(path).1)
        .await
        .map_err(|error| error.context(format!("cannot read {}", path.display())))
}

async fn read_as(
    ctx: &SessionContext,
    url: &str,
    format: Format,
    compression: FileCompressionType,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let frame = match format {
        Format::Parquet => ctx.read_parquet(url, ParquetReadOptions::default().file_extension("")).await?,
        Format::Json => {
            let options = JsonReadOptions {
                file_extension: "",
                file_compression_type: compression,
                schema_infer_max_records: usize::MAX,
                ..JsonReadOptions::default()
            };
            ctx.read_json(url, options).await?
        }
        Format::Text { delimiter } => {
            let options = CsvReadOptions::new()
                .file_extension("")
                .file_compression_type(compression)
                .delimiter(delimiter)
                .newlines_in_values(true)
                .schema_infer_max_records(usize::MAX);
            let inferred = ctx.read_csv(url, options.clone()).await?.schema().inner().clone();
            let as_text = text_of_numbers(&inferred);
            let frame = ctx.read_csv(url, options.schema(&as_text)).await?;
            return with_numbers(&inferred, collect(frame).await?);
        }
    };
    let schema = frame.schema().inner().clone();
    Ok((schema, collect(frame).await?))
}

/// Whole numbers are read as text first, and columns without a value stay text.
fn text_of_numbers(schema: &Schema) -> Schema {
    let text = |field: &Arc<Field>| match field.data_type() {
        DataType::Int64 | DataType::Null => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone(),
    };
    Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>())
}

/// Makes those columns whole numbers whose values are written as numbers are. So a postal code keeps its leading zero.
fn with_numbers(inferred: &Schema, batches: Vec<RecordBatch>) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let mut columns: Vec<Vec<ArrayRef>> = Vec::new();
    let mut fields = Vec::new();
    for (at, field) in inferred.fields().iter().enumerate() {
        let mut values: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
        let mut kind = field.data_type().clone();
        if kind == DataType::Null {
            kind = DataType::Utf8;
        } else if kind == DataType::Int64 {
            let numbers = values.iter().map(same_numbers).collect::<Result<Option<Vec<_>>>>()?;
            match numbers {
                Some(numbers) => values = numbers,
                None => kind = DataType::Utf8,
            }
        }
        fields.push(Field::new(field.name(), kind, true));
        columns.push(values);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = |at: usize| {
        let columns = columns.iter().map(|values| Arc::clone(&values[at])).collect();
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
    };
    let batches = (0..batches.len()).map(batch).collect::<Result<_>>()?;
    Ok((schema, batches))
}

/// The numbers that texts are, `None` where one of them would be written in another way.
fn same_numbers(texts: &ArrayRef) -> Result<Option<ArrayRef>> {
    let numbers = cast_with_options(texts, &DataType::Int64, &CastOptions::default())?;
    let again = cast_with_options(&numbers, texts.data_type(), &CastOptions::default())?;
    Ok((again.as_ref() == texts.as_ref()).then_some(numbers))
}

/// A file in words that leave no room for patterns.
pub fn url(path: &Path) -> Result<String> {
    let absolute = path.canonicalize().map_err(|error| failed("cannot read", path, error))?;
    let url = Url::from_file_path(&absolute);
    url.map(String::from).map_err(|()| plan_datafusion_err!("{} is no path of a file", path.display()))
}

/// An error of the file system that names the file.
pub fn failed(what: &str, path: &Path, error: impl Display) -> DataFusionError {
    exec_datafusion_err!("{what} {}: {error}", path.display())
}

/// How many ids in these columns of the truth no row has.
pub async fn unknown_ids(ctx: &SessionContext, truth: &str, columns: &[&str], input: &Input) -> Result<u64> {
    let Input { table, id, .. } = input;
    let ids: Vec<String> = columns.iter().map(|column| format!("SELECT {column} AS id FROM {truth}")).collect();
    let text = format!(
        "SELECT count(DISTINCT id) FROM ({}) AS ids WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.{id} = ids.id)",
        ids.join(" UNION ALL ")
    );
    count(ctx, &text).await
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringArray;

    use super::*;

    #[test]
    fn formats_are_known_by_extension() {
        let of = |path: &str| Format::of(Path::new(path)).ok();
        let comma = Format::Text { delimiter: b',' };
        assert_eq!(of("a b/people.CSV"), Some((comma, false)));
        assert_eq!(of("people.csv.gz"), Some((comma, true)));
        assert_eq!(of("x.y.tsv"), Some((Format::Text { delimiter: b'\t' }, false)));
        assert_eq!(of("x.parquet"), Some((Format::Parquet, false)));
        assert_eq!(of("x.jsonl"), Some((Format::Json, false)));
        for unknown in ["people.xlsx", "people", "csv", "x.gz", "x.parquet.gz", "/"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_what_is_written_as_a_number_is_one() {
        let numbers = |texts: &[Option<&str>]| {
            let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
            same_numbers(&texts).unwrap().is_some()
        };
        assert!(numbers(&[Some("1"), None, Some("-20")]));
        for other in ["007", "+5", "12345678901234567890", " 1", "1.0"] {
            assert!(!numbers(&[Some("1"), Some(other)]), "{other}");
        }
    }
}
