//! The logical node of DELETE and UPDATE.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchemaRef, Result, TableReference, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

/// A DELETE or an UPDATE.
///
/// The input is the table, or what has to be evaluated first: the columns that tell the rows apart that are meant, then
/// the new values of some columns.
#[derive(Debug, Clone)]
pub struct DmlNode {
    pub(super) table: TableReference,
    pub(super) provider: Arc<dyn TableProvider>,
    /// Conditions over the table.
    pub(super) filters: Vec<Expr>,
    /// The new values of columns, over the table; `None` deletes.
    pub(super) assignments: Option<Vec<(String, Expr)>>,
    /// What the input yields, where it is evaluated.
    pub(super) evaluated: Option<EvaluatedColumns>,
    pub(super) input: LogicalPlan,
    pub(super) schema: DFSchemaRef,
}

/// The columns of an input that is evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct EvaluatedColumns {
    /// The columns of the table that tell rows apart.
    pub keys: Vec<String>,
    /// The columns of the table whose new values follow.
    pub assigned: Vec<String>,
}

impl UserDefinedLogicalNodeCore for DmlNode {
    fn name(&self) -> &str {
        "Dml"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let values = self.assignments.iter().flatten().map(|(_, value)| value);
        self.filters.iter().chain(values).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = if self.assignments.is_some() { "Update" } else { "Delete" };
        write!(f, "Dml: op=[{operation}] table=[{}]", self.table)?;
        for filter in &self.filters {
            write!(f, ", filter={filter}")?;
        }
        for (column, value) in self.assignments.iter().flatten() {
            write!(f, ", set={column} = {value}")?;
        }
        let Some(columns) = &self.evaluated else { return Ok(()) };
        write!(f, ", rows_by=[{}]", columns.keys.join(", "))?;
        match columns.assigned.is_empty() {
            true => Ok(()),
            false => write!(f, ", set_from_input=[{}]", columns.assigned.join(", ")),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        // simplification keeps the name of what it rewrites in an alias
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let Some(input) = inputs.pop() else { return plan_err!("a DELETE or an UPDATE has one input") };
        let filters = exprs.by_ref().take(self.filters.len()).collect();
        let assignments = self.assignments.as_ref().map(|assignments| {
            assignments.iter().zip(exprs).map(|((column, _), value)| (column.clone(), value)).collect()
        });
        Ok(Self { filters, assignments, input, ..self.clone() })
    }
}

/// What a node says.
type Parts<'a> =
    (&'a TableReference, &'a [Expr], &'a Option<Vec<(String, Expr)>>, &'a Option<EvaluatedColumns>, &'a LogicalPlan);

impl DmlNode {
    fn parts(&self) -> Parts<'_> {
        (&self.table, &self.filters, &self.assignments, &self.evaluated, &self.input)
    }
}

// Tables have no equality: two nodes are the same where they say the same of the same table.
impl PartialEq for DmlNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.provider, &other.provider) && self.parts() == other.parts()
    }
}

impl Eq for DmlNode {}

impl Hash for DmlNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

// Required by the trait; plans have no order.
impl PartialOrd for DmlNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}
