//! Walks over the syntax tree of a statement, DataFusion's own kinds of statement included.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};

/// Shows `visitor` everything in `statement` that the parser below DataFusion read.
pub(super) fn visit<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => visit(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}
