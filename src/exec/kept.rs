//! Indexes that stay: what a join has built over the rows of a table, for the next one that asks the same of them.
//!
//! ```text
//! input of the build side --SameRows--> the rows that it would yield
//! strategy                --KeptKey---> what is made of them
//!        both known before? yes: batch and index as they are    no: collect, index, keep
//! ```

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::catalog::TableProvider;
use datafusion::common::ResolvedTableReference;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

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
}

/// What a strategy makes of rows, apart from the rows: equal texts make the same of the same rows.
#[derive(Debug, Clone)]
pub struct KeptKey {
    /// Everything on which the index depends.
    pub text: String,
    /// The conditions, for people.
    pub label: String,
}

/// The part of a build side that depends on its rows and its key alone.
pub type KeptPart = Arc<dyn Any + Send + Sync>;

/// A build side that is kept.
struct KeptSide {
    key: KeptKey,
    rows: SameRows,
    batch: RecordBatch,
    part: KeptPart,
    uses: usize,
    reservation: MemoryReservation,
}

impl fmt::Debug for KeptSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} rows", self.key.label, self.batch.num_rows())
    }
}

impl SimilarityIndex {
    /// An index that keeps nothing yet.
    pub fn new(name: String, table: ResolvedTableReference, expression: Expr) -> Self {
        Self { name, table, expression, sides: Mutex::default() }
    }

    /// What is kept.
    pub fn kept(&self) -> Vec<KeptSummary> {
        let summary = |side: &KeptSide| KeptSummary {
            label: side.key.label.clone(),
            rows: side.batch.num_rows(),
            bytes: side.reservation.size(),
            uses: side.uses,
        };
        self.lock().iter().map(summary).collect()
    }

    /// The rows and what was made of them; what was made of other rows is dropped.
    fn find(&self, key: &KeptKey, rows: &SameRows) -> Option<(RecordBatch, KeptPart)> {
        let mut sides = self.lock();
        let at = sides.iter().position(|side| side.key.text == key.text)?;
        if sides[at].rows != *rows {
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
}

impl Keeping {
    /// A build side of `input`, if its rows are known before it runs.
    pub(super) fn of(table: &IndexedTable, key: KeptKey, input: &dyn ExecutionPlan) -> Option<Self> {
        Some(Self { index: Arc::clone(&table.index), key, rows: SameRows::of(&table.provider, input)? })
    }

    /// The name of the index.
    pub(super) fn name(&self) -> &str {
        &self.index.name
    }

    /// The rows, and what was made of them.
    pub(super) fn find(&self) -> Option<(RecordBatch, KeptPart)> {
        self.index.find(&self.key, &self.rows)
    }

    /// Keeps a build side, whose memory is `reservation`.
    pub(super) fn keep(self, batch: RecordBatch, part: KeptPart, reservation: MemoryReservation) {
        let Self { index, key, rows } = self;
        let mut sides = index.lock();
        sides.retain(|side| side.key.text != key.text);
        if sides.len() >= MOST {
            sides.remove(0);
        }
        sides.push(KeptSide { key, rows, batch, part, uses: 0, reservation });
    }
}

/// The rows that an input yields, as far as that is known without running it.
#[derive(Debug)]
struct SameRows {
    /// The table: one that is made anew under the same name may read the same files in another way.
    provider: Weak<dyn TableProvider>,
    /// The operators, the columns and the conditions.
    operators: String,
    /// The columns of tables in memory.
    arrays: Vec<Weak<dyn Array>>,
    /// The files with their sizes, times of change and tags.
    files: Vec<String>,
}

impl PartialEq for SameRows {
    fn eq(&self, other: &Self) -> bool {
        // what is gone keeps its address for as long as somebody remembers it
        let same_arrays = || self.arrays.iter().zip(&other.arrays).all(|(one, other)| Weak::ptr_eq(one, other));
        Weak::ptr_eq(&self.provider, &other.provider)
            && self.operators == other.operators
            && self.files == other.files
            && self.arrays.len() == other.arrays.len()
            && same_arrays()
    }
}

impl SameRows {
    /// The rows of `plan`; `None` where they may be others the next time that it runs.
    fn of(provider: &Arc<dyn TableProvider>, plan: &dyn ExecutionPlan) -> Option<Self> {
        let provider = Arc::downgrade(provider);
        let mut rows = Self { provider, operators: String::new(), arrays: Vec::new(), files: Vec::new() };
        rows.add(plan)?;
        Some(rows)
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) -> Option<()> {
        let line = OneLine(plan).to_string();
        // conditions that another operator sets while it runs
        if line.contains("DynamicFilter") {
            return None;
        }
        self.operators.push_str(&line);
        self.operators.push('\n');
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            return self.add_source(source);
        }
        let repeats = plan.is::<CoalescePartitionsExec>()
            || plan.is::<RepartitionExec>()
            || plan.downcast_ref::<FilterExec>().is_some_and(|filter| !is_volatile(filter.predicate()))
            || plan
                .downcast_ref::<ProjectionExec>()
                .is_some_and(|projection| projection.expr().iter().all(|projected| !is_volatile(&projected.expr)));
        if !repeats {
            return None;
        }
        plan.children().into_iter().try_for_each(|child| self.add(child.as_ref()))
    }

    fn add_source(&mut self, source: &DataSourceExec) -> Option<()> {
        let source = source.data_source();
        if let Some(memory) = source.downcast_ref::<MemorySourceConfig>() {
            self.operators.push_str(&format!("{:?} of {:?}\n", memory.projection(), memory.original_schema()));
            for batch in memory.partitions().iter().flatten() {
                self.operators.push_str(&format!("{} rows\n", batch.num_rows()));
                self.arrays.extend(batch.columns().iter().map(Arc::downgrade));
            }
            return Some(());
        }
        let files = source.downcast_ref::<FileScanConfig>()?;
        for file in files.file_groups.iter().flat_map(|group| group.files()) {
            let meta = &file.object_meta;
            self.files.push(format!(
                "{}{} {:?} {} {} {:?} {:?}",
                files.object_store_url,
                meta.location,
                file.range,
                meta.size,
                meta.last_modified,
                meta.e_tag,
                meta.version
            ));
        }
        Some(())
    }
}

/// An operator without its inputs, as EXPLAIN shows it.
struct OneLine<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}
