//! Tables that only the session of a client can read: their rows travel with each query that reads them.

use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ballista_core::serde::BallistaLogicalExtensionCodec;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{ViewTable, provider_as_source, source_as_provider};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Extension, LogicalPlan, LogicalPlanBuilder, TableScan, TableSource, col};
use datafusion::physical_plan::collect;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use xxhash_rust::xxh3::xxh3_128;

/// What stands before the rows of a table.
const MARK: &[u8; 8] = b"dfmemtbl";

/// The most bytes of a table that travel with a query.
pub const MOST_BYTES: usize = 64 << 20;

/// `plan` with the rows of tables that nobody else can read, such as a series of numbers or the session's settings, and
/// with the columns of relations without rows.
///
/// # Errors
/// Where a table cannot be read.
pub async fn with_rows(plan: &LogicalPlan, session: &dyn Session) -> Result<LogicalPlan> {
    let mut tables: Vec<(Arc<dyn TableSource>, Arc<dyn TableSource>)> = Vec::new();
    let mut unread = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && is_only_here(scan)?
            && !unread.iter().any(|known| Arc::ptr_eq(known, &scan.source))
        {
            unread.push(Arc::clone(&scan.source));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    for source in unread {
        let provider = source_as_provider(&source)?;
        let rows = provider.scan(session, None, &[], None).await?;
        let schema = provider.schema();
        let batches = collect(rows, session.task_ctx()).await?;
        let table = MemTable::try_new(schema, vec![batches])?;
        tables.push((source, provider_as_source(Arc::new(table))));
    }
    let with_rows = plan.clone().transform_up_with_subqueries(|node| match node {
        // DataFusion's message of it has no columns
        LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row && !empty.schema.fields().is_empty() => {
            Ok(Transformed::yes(without_rows(&empty.schema)?))
        }
        LogicalPlan::TableScan(mut scan) => {
            let Some((_, table)) = tables.iter().find(|(source, _)| Arc::ptr_eq(source, &scan.source)) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            scan.source = Arc::clone(table);
            // a table in memory leaves filters to the plan above it
            let filters = std::mem::take(&mut scan.filters);
            let scanned = LogicalPlan::TableScan(scan);
            Ok(Transformed::yes(match conjunction(filters) {
                Some(filter) => LogicalPlanBuilder::from(scanned).filter(filter)?.build()?,
                None => scanned,
            }))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(with_rows.data)
}

/// A plan of these columns and no row.
fn without_rows(schema: &DFSchema) -> Result<LogicalPlan> {
    let table = MemTable::try_new(Arc::new(numbered(schema)), vec![Vec::new()])?;
    let scan = LogicalPlanBuilder::scan("empty", provider_as_source(Arc::new(table)), None)?;
    let columns = schema.iter().enumerate().map(|(place, (qualifier, field))| {
        col(format!("empty.c{place}")).alias_qualified(qualifier.cloned(), field.name())
    });
    scan.project(columns)?.build()
}

/// The columns of `schema` under names that differ.
fn numbered(schema: &DFSchema) -> Schema {
    let field = |(place, field): (usize, &Arc<Field>)| field.as_ref().clone().with_name(format!("c{place}"));
    Schema::new(schema.fields().iter().enumerate().map(field).collect::<Vec<_>>())
}

/// Whether the table of a scan is one that has no message.
fn is_only_here(scan: &TableScan) -> Result<bool> {
    let provider = source_as_provider(&scan.source)?;
    Ok(!(provider.is::<ListingTable>()
        || provider.is::<ViewTable>()
        || provider.is::<CteWorkTable>()
        || provider.is::<EmptyTable>()
        || provider.is::<MemTable>()))
}

/// Tables in memory as Arrow IPC streams, one for each partition, and whatever Ballista takes; functions are not among
/// that.
#[derive(Debug, Default)]
pub struct MemoryTableCodec {
    others: BallistaLogicalExtensionCodec,
    /// The table that was read last, by a hash of its bytes: both sides of a self-join are one table.
    last: Mutex<Option<(u128, Weak<MemTable>)>>,
}

impl LogicalExtensionCodec for MemoryTableCodec {
    fn try_decode(&self, buf: &[u8], inputs: &[LogicalPlan], ctx: &TaskContext) -> Result<Extension> {
        self.others.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.others.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table_ref: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match buf.strip_prefix(MARK) {
            Some(rows) => {
                let hash = xxh3_128(rows);
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                let known = last.as_ref().filter(|(known, _)| *known == hash).and_then(|(_, table)| table.upgrade());
                if let Some(known) = known.filter(|table| table.schema() == schema) {
                    return Ok(known);
                }
                let table = Arc::new(table_of(rows, schema)?);
                *last = Some((hash, Arc::downgrade(&table)));
                Ok(table)
            }
            None => self.others.try_decode_table_provider(buf, table_ref, schema, ctx),
        }
    }

    fn try_encode_table_provider(
        &self,
        table_ref: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(table) = node.downcast_ref::<MemTable>() else {
            return self.others.try_encode_table_provider(table_ref, node, buf);
        };
        let mut partitions = Vec::with_capacity(table.batches.len());
        for partition in &table.batches {
            let Ok(batches) = partition.try_read() else {
                return plan_err!("the table {table_ref} is being written; run the query again when that is done");
            };
            partitions.push(batches.clone());
        }
        let bytes: usize = partitions.iter().flatten().map(RecordBatch::get_array_memory_size).sum();
        if bytes > MOST_BYTES {
            return plan_err!(
                "the table {table_ref} has {} MB in the memory of this session, and up to {} MB travel to a cluster; \
                 write it to files that all machines read (COPY .. TO) and create an external table of these",
                bytes >> 20,
                MOST_BYTES >> 20
            );
        }
        buf.extend_from_slice(MARK);
        for batches in &partitions {
            let mut writer = StreamWriter::try_new(Vec::new(), &table.schema())?;
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            let bytes = writer.into_inner()?;
            buf.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            buf.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn try_decode_file_format(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.others.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(&self, buf: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.others.try_encode_file_format(buf, node)
    }
}

/// The table whose partitions these bytes are.
fn table_of(mut bytes: &[u8], schema: SchemaRef) -> Result<MemTable> {
    let mut partitions = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let Some((partition, rest)) = length.and_then(|length| rest.split_at_checked(length)) else {
            return plan_err!("a table in memory has arrived damaged; run the query again");
        };
        let batches = StreamReader::try_new(Cursor::new(partition), None)?;
        partitions.push(batches.collect::<Result<Vec<_>, _>>()?);
        bytes = rest;
    }
    MemTable::try_new(schema, partitions)
}
