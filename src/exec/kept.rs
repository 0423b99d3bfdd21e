//! Indexes that stay: what a join has built over the rows of a table, for the next one that asks the same of them.
//!
//! ```text
//! input of the build side --SameRows--> the rows that it would yield
//! strategy                --KeptKey---> what is made of them
//!        both known before? yes: batch and index as they are
//!                           no:  in a file? yes: read, keep    no: collect, index, keep, write
//! ```

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::{ResolvedTableReference, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use similarity_engine::choice::{Asked, EngineSpec};
use similarity_engine::stored::Store;

use super::index_file::{About, IndexFile, remove_files};
use super::same_rows::{FileRows, SameRows, table_of_files};

/// Sides that an index keeps at most; the one that was built first goes first.
const MOST: usize = 8;

/// Index over an expression of a table, and the build sides that have been made of it.
#[derive(Debug)]
pub struct SimilarityIndex {
    /// The name.
    pub name: String,
    /// The table.
    pub table: ResolvedTableReference,
    /// Expression over the columns of the table.
    pub expression: Expr,
    /// The folder of its files, where it has any.
    pub location: Option<PathBuf>,
    sides: Mutex<Vec<KeptSide>>,
}

/// An index, and the table that it finds under the name that it was made for.
#[derive(Debug, Clone)]
pub struct IndexedTable {
    /// The index.
    pub index: Arc<SimilarityIndex>,
    /// The table.
    pub provider: Arc<dyn TableProvider>,
}

/// What is said of a build side that is kept.
#[derive(Debug, Clone)]
pub struct KeptSummary {
    /// The conditions that it was built for.
    pub label: String,
    /// How many rows it has.
    pub rows: usize,
    /// Bytes that it holds.
    pub bytes: usize,
    /// How many queries have used it after the one that built it.
    pub uses: usize,
    /// The name of its file, where it has one.
    pub file: Option<String>,
}

/// What a strategy makes of rows, apart from the rows and the engine: equal texts make the same of the same rows.
#[derive(Debug, Clone)]
pub struct KeptKey {
    /// Everything on which the index depends.
    pub text: String,
    /// The conditions, for people.
    pub label: String,
    /// The functions on which the index depends, as far as they are not
    /// [built in](crate::functions::is_built_in).
    pub functions: Vec<ScalarUDF>,
}

/// The part of a build side that depends on its rows and its key alone.
pub type KeptPart = Arc<dyn KeptIndex>;

/// What a strategy has made of rows.
pub trait KeptIndex: Any + fmt::Debug + Send + Sync {
    /// What writes it to a file; `None` where no other process can have it.
    fn stored(&self) -> Option<&dyn Store>;
}

/// What was kept, if it is a `T`.
pub(super) fn kept_as<T: KeptIndex>(kept: Option<&KeptPart>) -> Option<Arc<T>> {
    (Arc::clone(kept?) as Arc<dyn Any + Send + Sync>).downcast().ok()
}

/// A build side that is kept.
struct KeptSide {
    key: KeptKey,
    rows: SameRows,
    batch: RecordBatch,
    part: KeptPart,
    uses: usize,
    file: Option<String>,
    reservation: MemoryReservation,
}

impl fmt::Debug for KeptSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} rows", self.key.label, self.batch.num_rows())
    }
}

impl SimilarityIndex {
    /// An index that keeps nothing yet, with files in a folder where one is given.
    pub fn new(name: String, table: ResolvedTableReference, expression: Expr, location: Option<PathBuf>) -> Self {
        Self { name, table, expression, location, sides: Mutex::default() }
    }

    /// Whether an index over a table can have files: a table of files, of which every process can tell whether they
    /// have changed.
    pub fn can_have_files(table: &dyn TableProvider) -> bool {
        table_of_files(table).is_some()
    }

    /// Removes its files, whoever has written them.
    ///
    /// # Errors
    /// A folder or a file that cannot be read or removed.
    pub fn remove_files(&self) -> Result<()> {
        match &self.location {
            Some(folder) => remove_files(folder, &self.table.to_string(), &self.expression.to_string()),
            None => Ok(()),
        }
    }

    /// What is kept.
    pub fn kept(&self) -> Vec<KeptSummary> {
        let summary = |side: &KeptSide| KeptSummary {
            label: side.key.label.clone(),
            rows: side.batch.num_rows(),
            bytes: side.reservation.size(),
            uses: side.uses,
            file: side.file.clone(),
        };
        self.lock().iter().map(summary).collect()
    }

    /// The rows and what was made of them; what was made of other rows is dropped.
    fn find(&self, key: &KeptKey, rows: &SameRows) -> Option<(RecordBatch, KeptPart)> {
        let mut sides = self.lock();
        let at = sides.iter().position(|side| side.key.text == key.text)?;
        if sides[at].rows != *rows || sides[at].key.functions != key.functions {
            sides.remove(at);
            return None;
        }
        sides[at].uses += 1;
        Some((sides[at].batch.clone(), Arc::clone(&sides[at].part)))
    }

    // every change is a single insertion or removal, so what a panic left behind is whole
    fn lock(&self) -> MutexGuard<'_, Vec<KeptSide>> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A build side that an index may have, or is to keep.
#[derive(Debug)]
pub(super) struct Keeping {
    index: Arc<SimilarityIndex>,
    key: KeptKey,
    rows: SameRows,
    file: Option<IndexFile>,
}

impl Keeping {
    /// A build side of `input` by an engine, if its rows are known before it runs. It may have a file where the index
    /// has a folder, unless it is to be on a device or another process may compute something else.
    pub(super) fn of(
        table: &IndexedTable,
        key: KeptKey,
        engine: EngineSpec,
        input: &dyn ExecutionPlan,
    ) -> Option<Self> {
        let IndexedTable { index, provider } = table;
        let rows = SameRows::of(provider, input)?;
        let folder = index.location.as_ref().filter(|_| key.functions.is_empty() && engine.asked != Asked::Cuda);
        let file = folder.and_then(|folder| {
            let rows = FileRows::of(provider.as_ref(), input)?;
            let (table, expression) = (index.table.to_string(), index.expression.to_string());
            let about = About { table, expression, key: key.text.clone(), rows };
            Some(IndexFile::of(index.name.clone(), folder, about))
        });
        // a file is of the host, whichever engine was asked for
        let key = KeptKey { text: format!("{}, by {engine:?}", key.text), ..key };
        Some(Self { index: Arc::clone(index), key, rows, file })
    }

    /// The name of the index.
    pub(super) fn name(&self) -> &str {
        &self.index.name
    }

    /// The rows, and what was made of them.
    pub(super) fn find(&self) -> Option<(RecordBatch, KeptPart)> {
        self.index.find(&self.key, &self.rows)
    }

    /// The file, where the build side may have one.
    pub(super) fn file(&self) -> Option<&IndexFile> {
        self.file.as_ref()
    }

    /// Keeps a build side, whose memory is `reservation` and which is in its file if `has_file` says so. `uses` queries
    /// have used it so far.
    pub(super) fn keep(
        self,
        side: (RecordBatch, KeptPart),
        reservation: MemoryReservation,
        has_file: bool,
        uses: usize,
    ) {
        let Self { index, key, rows, file } = self;
        let (batch, part) = side;
        let name = file.as_ref().filter(|_| has_file).and_then(|file| file.path().file_name());
        let file = name.map(|name| name.to_string_lossy().into_owned());
        let mut sides = index.lock();
        sides.retain(|side| side.key.text != key.text);
        if sides.len() >= MOST {
            sides.remove(0);
        }
        sides.push(KeptSide { key, rows, batch, part, uses, file, reservation });
    }
}
