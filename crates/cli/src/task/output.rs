//! Files that appear whole or not at all.
//!
//! A file is made in a hidden folder beside its place before the work starts, so that a folder which cannot be written
//! to is known at once. It moves to its place when it is complete. Whatever ends the run before that removes the hidden
//! folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::config::TableParquetOptions;
use datafusion::dataframe::{DataFrame, DataFrameWriteOptions};
use futures::StreamExt;
use tempfile::{NamedTempFile, TempDir};

use super::input::{Format, failed, url};

/// A file that is being made.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    file: NamedTempFile,
    /// The folder with the file, and with whatever a writer puts beside it.
    _hidden: TempDir,
    overwrite: bool,
}

impl NewFile {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// A file that exists, unless `overwrite`; a folder that cannot be written to.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        if path.is_dir() {
            return exec_err!("{} is a folder, not a file to write", path.display());
        }
        if path.exists() && !overwrite {
            return exec_err!("{} exists; --overwrite replaces it", path.display());
        }
        let hidden = hidden_in(folder_of(path)).map_err(|error| failed("cannot write", path, error))?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(hidden.path()).map_err(|error| failed("cannot write", path, error))?;
        Ok(Self { path: path.to_owned(), file, _hidden: hidden, overwrite })
    }

    /// The file to write to.
    pub fn as_file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Writes all of a text.
    pub fn write(&mut self, text: &str) -> Result<()> {
        self.file.write_all(text.as_bytes()).map_err(|error| failed("cannot write", &self.path, error))
    }

    /// Gives the file its name.
    pub fn keep(self) -> Result<()> {
        let kept = if self.overwrite { self.file.persist(&self.path) } else { self.file.persist_noclobber(&self.path) };
        kept.map(|_| ()).map_err(|error| failed("cannot write", &self.path, error.error))
    }
}

/// A folder that is being filled.
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
    files: TempDir,
}

impl NewFolder {
    /// Begins to fill the folder `path`, which may exist.
    ///
    /// # Errors
    /// A folder with files in it, unless `overwrite`; a folder that cannot be written to.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let exists = path.exists();
        if exists {
            let mut entries = fs::read_dir(path).map_err(|error| failed("cannot write to", path, error))?;
            if entries.next().is_some() && !overwrite {
                return exec_err!("{} has files in it; --overwrite replaces those of the same names", path.display());
            }
        }
        let beside = if exists { path } else { folder_of(path) };
        let files = hidden_in(beside).map_err(|error| failed("cannot write to", path, error))?;
        Ok(Self { path: path.to_owned(), files })
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let file = self.files.path().join(name);
        fs::write(&file, text).map_err(|error| failed("cannot write to", &self.path, error))
    }

    /// Moves the files to where they belong.
    pub fn keep(self) -> Result<()> {
        self.moved().map_err(|error| failed("cannot write to", &self.path, error))
    }

    fn moved(&self) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        for entry in fs::read_dir(self.files.path())? {
            let entry = entry?;
            fs::rename(entry.path(), self.path.join(entry.file_name()))?;
        }
        Ok(())
    }
}

/// A folder that nobody looks at, in another one.
fn hidden_in(folder: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(".similarity-").suffix(".partial").tempdir_in(folder)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How Parquet is compressed: by the fastest level.
const COMPRESSION: &str = "zstd(1)";

/// A table on its way to a file.
#[derive(Debug)]
pub struct TableFile {
    file: NewFile,
    format: Format,
}

impl TableFile {
    /// Begins a file of the format that its extension names.
    ///
    /// # Errors
    /// An unknown extension, and as [`NewFile::create`].
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let (format, compressed) = Format::of(path)?;
        if compressed {
            return plan_err!("{} cannot be written compressed; parquet is compressed by itself", path.display());
        }
        Ok(Self { file: NewFile::create(path, overwrite)?, format })
    }

    /// Fails for a table that the format cannot hold.
    ///
    /// # Errors
    /// Lists, structs and maps in a text table.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        let Format::Text { .. } = self.format else { return Ok(()) };
        match schema.fields().iter().find(|field| field.data_type().is_nested()) {
            Some(field) => plan_err!(
                "column {} is of type {}, which {} cannot hold; write parquet or json",
                field.name(),
                field.data_type(),
                self.file.path.display()
            ),
            None => Ok(()),
        }
    }

    /// Writes all rows of `table` and gives the file its name.
    pub async fn write(mut self, table: DataFrame) -> Result<()> {
        self.check(table.schema().as_arrow())?;
        match self.format {
            Format::Text { delimiter } => {
                let schema = table.schema().inner().clone();
                let mut batches = table.execute_stream().await?;
                let file = BufWriter::new(self.file.as_file());
                let mut writer = WriterBuilder::new().with_delimiter(delimiter).with_header(true).build(file);
                // a table without rows has a header all the same
                writer.write(&RecordBatch::new_empty(schema))?;
                while let Some(batch) = batches.next().await {
                    writer.write(&batch?)?;
                }
                writer.into_inner().flush().map_err(DataFusionError::from)?;
            }
            Format::Json => {
                let mut batches = table.execute_stream().await?;
                let mut writer = LineDelimitedWriter::new(BufWriter::new(self.file.as_file()));
                while let Some(batch) = batches.next().await {
                    writer.write(&batch?)?;
                }
                writer.finish()?;
                writer.into_inner().flush().map_err(DataFusionError::from)?;
            }
            Format::Parquet => {
                let mut properties = TableParquetOptions::default();
                properties.global.compression = Some(COMPRESSION.to_owned());
                let one_file = DataFrameWriteOptions::new().with_single_file_output(true);
                // all threads compress
                table.write_parquet(&url(self.file.file.path())?, one_file, Some(properties)).await?;
            }
        }
        self.file.keep()
    }
}
