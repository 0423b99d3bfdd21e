//! A build side as a file, for the sessions that come after the one that has built it.
//!
//! ```text
//! SIMINDEX | format | length | checksum | version, table, expression, key, rows, files | batch | index
//!  8 bytes      4        8         8      \______ all of this has the length and the checksum _______/
//! ```
//!
//! Nothing is decoded before length and checksum are right. The checksum is that of the checksums of stretches, which
//! several threads compute. What follows then is compared with what the query asks for, and only then are the rows, an
//! Arrow IPC stream, and the index read. A file is written beside its place and moved there when it is whole, so that
//! others see either all of it or nothing.
//!
//! The name of a file has two hashes: one of the table and the expression, by which an index knows its own files, and
//! one of what the query asks for.

use std::fs::{self, File};
use std::io::{self, BufWriter, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::DATAFUSION_VERSION;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use similarity_engine::parallel::each_in_turn;
use similarity_engine::stored::{self, Sink, Source, Store, Stored};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::engine::EngineResult;
use super::same_rows::FileRows;

/// What every file begins with.
const MAGIC: &[u8; 8] = b"SIMINDEX";
/// The arrangement of a file. Whoever changes it counts on.
const FORMAT: u32 = 1;
/// Bytes ahead of those that the checksum is of.
const HEAD: usize = 8 + 4 + 8 + 8;
/// The end of the name of a file.
const EXTENSION: &str = "similarity";
/// The end of the name of a file that is being written.
const UNFINISHED: &str = "unfinished";
/// Bytes of a stretch that has a checksum of its own.
const STRETCH: usize = 1 << 22;

/// Files that this process has begun to write.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// What the bytes of a file depend on besides what it is about.
fn version() -> String {
    format!("{}, DataFusion {DATAFUSION_VERSION}", stored::version())
}

/// What a file is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    /// The table, with catalog and schema.
    pub table: String,
    /// The expression of the index.
    pub expression: String,
    /// What is made of the rows.
    pub key: String,
    /// The rows.
    pub rows: FileRows,
}

impl About {
    /// What the name of a file begins with that is about a table and an expression.
    fn own(table: &str, expression: &str) -> String {
        format!("{:016x}-", xxh3_64(format!("{table}\0{expression}").as_bytes()))
    }

    fn name(&self) -> String {
        let Self { table, expression, key, rows } = self;
        let asked = xxh3_64(format!("{key}\0{}", rows.read).as_bytes());
        format!("{}{asked:016x}.{EXTENSION}", Self::own(table, expression))
    }

    fn texts(&self) -> Vec<String> {
        let Self { table, expression, key, rows } = self;
        vec![table.clone(), expression.clone(), key.clone(), rows.read.clone()]
    }
}

/// Removes the files in `folder` that are about a table and an expression, whatever is in them.
///
/// # Errors
/// A folder or a file that cannot be read or removed; where there is no folder there is nothing to do.
pub(super) fn remove_files(folder: &Path, table: &str, expression: &str) -> Result<()> {
    let failed = |path: &Path, error: io::Error| {
        let message = format!("the files of a similarity index in {} cannot be removed: {error}", path.display());
        DataFusionError::IoError(io::Error::new(error.kind(), message))
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| failed(folder, error))?,
    };
    let own = About::own(table, expression);
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_own = name.is_some_and(|name| name.starts_with(&own) && is_name(name));
        match is_own.then(|| fs::remove_file(&path)) {
            // another session may have done so
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(failed(folder, error)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a file has the name of one that is finished, or is being written.
fn is_name(name: &str) -> bool {
    let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.split('.');
    let hashes = parts.next().and_then(|hashes| hashes.split_once('-'));
    let is_ours = hashes.is_some_and(|(own, asked)| is_hash(own) && is_hash(asked)) && parts.next() == Some(EXTENSION);
    is_ours && matches!(parts.next_back(), None | Some(UNFINISHED))
}

/// The file of a build side, whether it is there or not.
#[derive(Debug)]
pub(super) struct IndexFile {
    /// The name of the index, for errors.
    index: String,
    path: PathBuf,
    about: About,
}

impl IndexFile {
    /// The file in `folder` for the index of this name.
    pub(super) fn of(index: String, folder: &Path, about: About) -> Self {
        Self { index, path: folder.join(about.name()), about }
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is there.
    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The error that the file cannot be used, as `problem` says.
    pub(super) fn error(&self, problem: impl std::fmt::Display) -> DataFusionError {
        let Self { index, path, .. } = self;
        let message = format!(
            "the file {} of the similarity index '{index}' {problem}; DROP SIMILARITY INDEX removes it, and CREATE OR \
             REPLACE SIMILARITY INDEX begins anew",
            path.display()
        );
        DataFusionError::IoError(io::Error::new(io::ErrorKind::InvalidData, message))
    }

    /// The bytes of the file, `None` where there is none. Room for them and for what they become is taken of
    /// `reservation` before.
    ///
    /// # Errors
    /// A refused reservation, a file that cannot be read.
    pub(super) fn read(&self, reservation: &MemoryReservation) -> Result<Option<Vec<u8>>> {
        let failed = |error: io::Error| self.error(format!("cannot be read: {error}"));
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let length = file.metadata().map_err(failed)?.len() as usize;
        reservation.try_grow(2 * length)?;
        let mut bytes = Vec::with_capacity(length);
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }

    /// The rows in the bytes of the file, and what follows them: the index.
    ///
    /// # Errors
    /// Bytes that are damaged, or of another version, table, condition or state of the table.
    pub(super) fn open<'a>(&self, bytes: &'a [u8], threads: usize) -> Result<(RecordBatch, Source<'a>)> {
        let mut source = Source::new(self.verified(bytes, threads)?, threads);
        let undecoded = |error: DataFusionError| self.error(format!("cannot be decoded: {error}"));
        let version = String::load(&mut source).or_datafusion().map_err(undecoded)?;
        if version != self::version() {
            return Err(self.error(format!("is of version {version}, and this is {}", self::version())));
        }
        let texts = <Vec<String>>::load(&mut source).or_datafusion().map_err(undecoded)?;
        let files = <Vec<String>>::load(&mut source).or_datafusion().map_err(undecoded)?;
        if texts != self.about.texts() {
            return Err(self.error("is about another table, expression or condition"));
        }
        if files != self.about.rows.files {
            return Err(self.error("is stale: the files of the table have changed since it was written"));
        }
        let mut rows = Cursor::new(source.take(source.left()).or_datafusion().map_err(undecoded)?);
        let batch = batch_of(&mut rows).map_err(undecoded)?;
        let batch = batch.ok_or_else(|| self.error("has no rows"))?;
        let end = rows.position() as usize;
        Ok((batch, Source::new(&rows.into_inner()[end..], threads)))
    }

    /// What the checksum is of, once it is right.
    fn verified<'a>(&self, bytes: &'a [u8], threads: usize) -> Result<&'a [u8]> {
        let Some((head, body)) = bytes.split_at_checked(HEAD).filter(|(head, _)| head.starts_with(MAGIC)) else {
            return Err(self.error("is no index file, or is cut short"));
        };
        let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let format = head[8..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if format != FORMAT {
            return Err(self.error(format!("has the format {format}, and this version reads {FORMAT}")));
        }
        let (length, checksum) = (number(12), number(20));
        if length != bytes.len() as u64 {
            return Err(self.error(format!("has {} bytes instead of {length}", bytes.len())));
        }
        let stretches: Vec<&[u8]> = body.chunks(STRETCH).collect();
        let sums = each_in_turn(stretches.len(), threads, |at| xxh3_64(stretches[at]));
        if checksum != sum_of(&sums) {
            return Err(self.error("is damaged: its checksum is that of other bytes"));
        }
        Ok(body)
    }

    /// Writes a build side. Where another session drops the index meanwhile, nothing is left of it.
    ///
    /// # Errors
    /// A folder or a file that cannot be written.
    pub(super) fn write(&self, batch: &RecordBatch, index: &dyn Store) -> Result<()> {
        let begun = BEGUN.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.path.with_extension(format!("{EXTENSION}.{}-{begun}.{UNFINISHED}", process::id()));
        let written = self.write_to(&unfinished, batch, index);
        if written.is_err() {
            // the first error tells more
            let _ = fs::remove_file(&unfinished);
        }
        written.map_err(|error| {
            let path = self.path.display();
            let message = format!(
                "the file {path} of the similarity index '{}' cannot be written: {error}; make room for it, or create \
                 the index without LOCATION",
                self.index
            );
            DataFusionError::IoError(io::Error::other(message))
        })
    }

    fn write_to(&self, unfinished: &Path, batch: &RecordBatch, index: &dyn Store) -> Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = BufWriter::new(File::create(unfinished)?);
        file.write_all(&[0; HEAD])?;
        let mut out = Summed { file, sums: Vec::new(), sum: Xxh3::new(), length: 0 };
        let mut sink = Sink::new(&mut out);
        version().store(&mut sink).or_datafusion()?;
        self.about.texts().store(&mut sink).or_datafusion()?;
        self.about.rows.files.store(&mut sink).or_datafusion()?;
        let mut rows = StreamWriter::try_new(&mut out, &batch.schema())?;
        rows.write(batch)?;
        rows.finish()?;
        drop(rows);
        index.store(&mut Sink::new(&mut out)).or_datafusion()?;
        let (length, checksum) = (HEAD + out.length, out.checksum());
        let mut file = out.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(MAGIC)?;
        file.write_all(&FORMAT.to_le_bytes())?;
        file.write_all(&(length as u64).to_le_bytes())?;
        file.write_all(&checksum.to_le_bytes())?;
        // what is moved into place is on the disk
        file.sync_all()?;
        match fs::rename(unfinished, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => Ok(moved?),
        }
    }
}

/// The batch of a stream of one, which is read to its end.
fn batch_of(rows: &mut Cursor<&[u8]>) -> Result<Option<RecordBatch>> {
    let mut reader = StreamReader::try_new(rows, None)?;
    let batch = reader.next().transpose()?;
    match reader.next() {
        None => Ok(batch),
        Some(_) => Ok(None),
    }
}

/// The checksum of those of all stretches.
fn sum_of(sums: &[u64]) -> u64 {
    xxh3_64(&sums.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>())
}

/// Counts and sums up what passes on its way to a file.
struct Summed {
    file: BufWriter<File>,
    /// The checksums of whole stretches.
    sums: Vec<u64>,
    /// Checksum of the last one so far.
    sum: Xxh3,
    length: usize,
}

impl Summed {
    fn checksum(&self) -> u64 {
        let begun = (!self.length.is_multiple_of(STRETCH)).then(|| self.sum.digest());
        sum_of(&self.sums.iter().copied().chain(begun).collect::<Vec<_>>())
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = STRETCH - self.length % STRETCH;
        let written = self.file.write(&bytes[..bytes.len().min(left)])?;
        self.sum.update(&bytes[..written]);
        self.length += written;
        if written == left {
            self.sums.push(self.sum.digest());
            self.sum.reset();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
