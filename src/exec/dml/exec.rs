//! The operator of DELETE and UPDATE.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, TableReference, internal_err};
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, ident};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use futures::TryStreamExt;

use super::lookup::{RowNumbers, row_value};

/// What a statement asks of its table, in expressions over the columns of the table.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The name of the table in the statement.
    pub table: TableReference,
    /// The table.
    pub provider: Arc<dyn TableProvider>,
    /// Conditions, all of which a row has to meet.
    pub filters: Vec<Expr>,
    /// The new values of columns; `None` deletes.
    pub assignments: Option<Vec<(String, Expr)>>,
}

/// What has to be evaluated first: for each row that is meant, columns of the table, then new values.
#[derive(Debug, Clone)]
pub struct Evaluated {
    /// Yields the rows.
    pub input: Arc<dyn ExecutionPlan>,
    /// The columns that tell rows apart.
    pub keys: Vec<String>,
    /// The columns whose new values follow.
    pub assigned: Vec<String>,
}

/// Deletes or updates rows of a table, when it is executed and not before.
///
/// 1. `input`, if there is one, says which rows are meant, as the values of some of their columns.
/// 2. The table is asked to change what meets the filters and is among these rows.
///
/// What step 1 yields is kept in memory until the table is changed, and counts against the memory pool.
#[derive(Debug)]
pub struct DmlExec {
    changes: Changes,
    evaluated: Option<Evaluated>,
    session: Arc<SessionState>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl DmlExec {
    /// Plans `changes`; `schema` is that of the count of rows.
    pub fn new(changes: Changes, evaluated: Option<Evaluated>, session: Arc<SessionState>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { changes, evaluated, session, schema, properties: Arc::new(properties) }
    }
}

impl DisplayAs for DmlExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Changes { table, filters, assignments, .. } = &self.changes;
        let mut items = vec![("table", table.to_string())];
        items.extend(filters.iter().map(|filter| ("filter", filter.human_display().to_string())));
        let assigned = assignments.iter().flatten();
        items.extend(assigned.map(|(column, value)| ("set", format!("{column} = {}", value.human_display()))));
        if let Some(Evaluated { keys, assigned, .. }) = &self.evaluated {
            items.push(("rows_by", format!("[{}]", keys.join(", "))));
            items.extend(assigned.iter().map(|column| ("set", format!("{column} = (from the input)"))));
        }
        let items: Vec<_> = items.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        match t {
            DisplayFormatType::TreeRender => items.iter().try_for_each(|item| writeln!(f, "{item}")),
            _ => write!(f, "{}: op={}, {}", self.name(), self.changes.operation(), items.join(", ")),
        }
    }
}

impl ExecutionPlan for DmlExec {
    fn name(&self) -> &str {
        "DmlExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.evaluated.iter().map(|evaluated| &evaluated.input).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let evaluated = match (&self.evaluated, children.pop(), children.pop()) {
            (None, None, None) => None,
            (Some(evaluated), Some(input), None) => Some(Evaluated { input, ..evaluated.clone() }),
            _ => return internal_err!("DmlExec has one input where a sub-query is evaluated, and else none"),
        };
        let (session, schema) = (Arc::clone(&self.session), Arc::clone(&self.schema));
        Ok(Arc::new(Self::new(self.changes.clone(), evaluated, session, schema)))
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (changes, evaluated) = (self.changes.clone(), self.evaluated.clone());
        let session = Arc::clone(&self.session);
        let counts = async move {
            let changes = match evaluated {
                Some(evaluated) => evaluated.narrow(changes, &context).await?,
                None => changes,
            };
            execute_stream(changes.plan(&session).await?, context)
        };
        let counts = futures::stream::once(counts).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), counts)))
    }
}

impl Changes {
    fn operation(&self) -> &'static str {
        if self.assignments.is_some() { "UPDATE" } else { "DELETE" }
    }

    /// The plan of the table itself, some of which have no more to do.
    async fn plan(self, session: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
        let operation = self.operation();
        let Self { table, provider, filters, assignments } = self;
        let plan = match assignments {
            Some(assignments) => provider.update(session, assignments, filters).await,
            None => provider.delete_from(session, filters).await,
        };
        let plan = plan.map_err(|error| {
            let way = match error {
                DataFusionError::NotImplemented(_) => {
                    "; a table in memory takes it: CREATE TABLE .. AS SELECT makes one"
                }
                _ => "",
            };
            error.context(format!("{operation} operation on table '{table}'{way}"))
        })?;
        DefaultPhysicalPlanner::default().optimize_physical_plan(plan, session, |_, _| {})
    }
}

impl Evaluated {
    /// `changes` for the rows that the input yields alone, with the values that it yields.
    async fn narrow(self, mut changes: Changes, context: &Arc<TaskContext>) -> Result<Changes> {
        let types: Vec<DataType> = self.input.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        let reservation = MemoryConsumer::new("DmlExec").register(context.memory_pool());
        let mut columns: Vec<Vec<ArrayRef>> = Vec::new();
        let mut batches = execute_stream(Arc::clone(&self.input), Arc::clone(context))?;
        while let Some(batch) = batches.try_next().await? {
            reservation.try_grow(batch.get_array_memory_size())?;
            columns.push(RecordBatch::columns(&batch).to_vec());
        }
        let (key_types, value_types) = types.split_at(self.keys.len());
        let (keys, values): (Vec<_>, Vec<_>) = columns
            .into_iter()
            .map(|mut columns| (columns.drain(..self.keys.len()).collect::<Vec<_>>(), columns))
            .unzip();
        let rows = Arc::new(RowNumbers::of(key_types, &keys, reservation)?);
        let lookup =
            |values: &[ArrayRef], of: &DataType| row_value(&rows, self.keys.iter().map(ident).collect(), values, of);
        let meant: Vec<ArrayRef> = keys
            .iter()
            .map(|keys| Arc::new(BooleanArray::from(vec![true; keys.first().map_or(0, |key| key.len())])) as _)
            .collect();
        changes.filters.push(lookup(&meant, &DataType::Boolean)?);
        for (i, (column, of)) in self.assigned.iter().zip(value_types).enumerate() {
            let values: Vec<ArrayRef> = values.iter().map(|columns| Arc::clone(&columns[i])).collect();
            changes.assignments.get_or_insert_default().push((column.clone(), lookup(&values, of)?));
        }
        Ok(changes)
    }
}
