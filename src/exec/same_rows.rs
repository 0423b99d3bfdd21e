//! Whether an input yields the same rows as before, told without running it.
//!
//! [`SameRows`] compares within a process: a table in memory is its arrays, and any table is itself. [`FileRows`]
//! compares between processes, for tables of files only: a file is its place, its size, its time of change and its tag,
//! and a table is how it reads its files.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::arrow::array::Array;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use crate::functions::is_built_in;

/// The rows that an input yields, as far as that is known without running it.
#[derive(Debug)]
pub(super) struct SameRows {
    /// The table: one that is made anew under the same name may read the same files in another way.
    provider: Weak<dyn TableProvider>,
    /// The operators, the columns and the conditions.
    operators: String,
    /// The columns of tables in memory.
    arrays: Vec<Weak<dyn Array>>,
    /// The files with their sizes, times of change and tags.
    files: Vec<String>,
    /// The functions of the conditions and columns that are not built in.
    functions: Vec<ScalarUDF>,
}

impl PartialEq for SameRows {
    fn eq(&self, other: &Self) -> bool {
        // what is gone keeps its address for as long as somebody remembers it
        let same_arrays = || self.arrays.iter().zip(&other.arrays).all(|(one, other)| Weak::ptr_eq(one, other));
        Weak::ptr_eq(&self.provider, &other.provider)
            && self.operators == other.operators
            && self.files == other.files
            && self.functions == other.functions
            && self.arrays.len() == other.arrays.len()
            && same_arrays()
    }
}

impl SameRows {
    /// The rows of `plan`; `None` where they may be others the next time that it runs.
    pub(super) fn of(provider: &Arc<dyn TableProvider>, plan: &dyn ExecutionPlan) -> Option<Self> {
        let provider = Arc::downgrade(provider);
        let expressions = expressions_of(plan);
        if expressions.iter().any(is_volatile) {
            return None;
        }
        let (operators, functions) = (String::new(), own_functions(expressions.iter()));
        let mut rows = Self { provider, operators, arrays: Vec::new(), files: Vec::new(), functions };
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
        if !(moves_rows(plan) || plan.is::<FilterExec>() || plan.is::<ProjectionExec>()) {
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

/// Whether an operator only hands rows on, between however many partitions.
fn moves_rows(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CoalescePartitionsExec>() || plan.is::<RepartitionExec>()
}

/// The conditions and columns that `plan` and its inputs compute.
fn expressions_of(plan: &dyn ExecutionPlan) -> Vec<PhysicalExprRef> {
    let mut all = Vec::new();
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        all.push(Arc::clone(filter.predicate()));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        all.extend(projection.expr().iter().map(|projected| Arc::clone(&projected.expr)));
    }
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>().and_then(|source| source.data_source().downcast_ref()) {
        let scan: &FileScanConfig = scan;
        all.extend(scan.file_source().filter());
        let projection = scan.file_source().projection().into_iter().flatten();
        all.extend(projection.map(|projected| Arc::clone(&projected.expr)));
    }
    all.extend(plan.children().into_iter().flat_map(|child| expressions_of(child.as_ref())));
    all
}

/// The functions of some expressions that are not [built in](is_built_in): later, another one may have the name.
pub(super) fn own_functions<'a>(expressions: impl Iterator<Item = &'a PhysicalExprRef>) -> Vec<ScalarUDF> {
    let mut own = Vec::new();
    for expression in expressions {
        // the closure never fails
        let _ = expression.apply(|part| {
            let call = part.downcast_ref::<ScalarFunctionExpr>().filter(|call| !is_built_in(call.fun()));
            own.extend(call.map(|call| call.fun().clone()));
            Ok(TreeNodeRecursion::Continue)
        });
    }
    own
}

/// The table of files that a provider is.
pub(super) fn table_of_files(provider: &dyn TableProvider) -> Option<&ListingTable> {
    let provider: &dyn Any = provider;
    provider.downcast_ref()
}

/// The rows that an input yields of a table of files, in words that every process has for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileRows {
    /// How the table reads its files, the columns and the conditions, whatever the partitions.
    pub read: String,
    /// The files with their sizes, times of change and tags, in order.
    pub files: Vec<String>,
}

impl FileRows {
    /// The rows of `plan`, which has [`SameRows`]; `None` for other tables, for parts of files, and where a function of
    /// somebody's own computes them.
    pub(super) fn of(provider: &dyn TableProvider, plan: &dyn ExecutionPlan) -> Option<Self> {
        let table = table_of_files(provider)?;
        let schema = provider.schema();
        let columns = schema.fields().iter().map(|field| (field.name(), field.data_type(), field.is_nullable()));
        let mut read = format!("{:?}\n", columns.collect::<Vec<_>>());
        // what the session says about reading Parquet changes no rows but by their types
        let format = &table.options().format;
        if format.get_ext() != "parquet" {
            read.push_str(&format!("{format:?}\n"));
        }
        if !own_functions(expressions_of(plan).iter()).is_empty() {
            return None;
        }
        let mut rows = Self { read, files: Vec::new() };
        rows.add(plan)?;
        rows.files.sort_unstable();
        Some(rows)
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) -> Option<()> {
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            return self.add_files(source.data_source().downcast_ref()?);
        }
        if !moves_rows(plan) {
            self.read.push_str(&format!("{}\n", OneLine(plan)));
        }
        plan.children().into_iter().try_for_each(|child| self.add(child.as_ref()))
    }

    fn add_files(&mut self, scan: &FileScanConfig) -> Option<()> {
        // which partition reads which file is left out
        let mut scanning = scan.clone();
        scanning.file_groups.clear();
        self.read.push_str(&format!("{}\n", OneLine(DataSourceExec::from_data_source(scanning).as_ref())));
        // of each file, what is left to be read
        let mut left: BTreeMap<String, u64> = BTreeMap::new();
        for file in scan.file_groups.iter().flat_map(|group| group.files()) {
            let meta = &file.object_meta;
            let own = format!(
                "{}{} {} {} {:?} {:?}",
                scan.object_store_url, meta.location, meta.size, meta.last_modified, meta.e_tag, meta.version
            );
            let read = file.range.as_ref().map_or(meta.size, |range| range.end.abs_diff(range.start));
            let left = left.entry(own).or_insert(meta.size);
            *left = left.checked_sub(read)?;
        }
        if left.values().any(|&left| left > 0) {
            return None;
        }
        self.files.extend(left.into_keys());
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
