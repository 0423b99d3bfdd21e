//! Walks over the syntax tree of a statement, DataFusion's own kinds of statement included.
//!
//! The parser's own walk is generic over its visitor: some thousands of functions, compiled for each. Here it is
//! compiled for one, [`Walk`], behind which any [`Visitor`] stands.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, VisitMut, VisitorMut};

/// What looks at the parts of a syntax tree, changes some or refuses them: an error ends the walk.
pub(super) trait Visitor {
    /// A query, before its parts.
    fn before_query(&mut self, _: &mut Query) -> Result<()> {
        Ok(())
    }

    /// A SELECT, before its parts.
    fn before_select(&mut self, _: &mut Select) -> Result<()> {
        Ok(())
    }

    /// A relation of FROM, before its parts.
    fn before_relation(&mut self, _: &mut TableFactor) -> Result<()> {
        Ok(())
    }

    /// An expression, before its parts.
    fn before_expr(&mut self, _: &mut Expr) -> Result<()> {
        Ok(())
    }

    /// An expression, after its parts.
    fn after_expr(&mut self, _: &mut Expr) -> Result<()> {
        Ok(())
    }
}

/// Shows `visitor` everything in `statement` that the parser below DataFusion read.
pub(super) fn visit(statement: &mut Statement, visitor: &mut dyn Visitor) -> Result<()> {
    match statement {
        Statement::Statement(statement) => walk(statement.as_mut(), visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk(query.as_mut(), visitor),
            CopyToSource::Relation(_) => Ok(()),
        },
        Statement::Explain(explain) => visit(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => Ok(()),
    }
}

/// Shows `visitor` an expression and everything in it.
pub(super) fn visit_expr(expr: &mut Expr, visitor: &mut dyn Visitor) -> Result<()> {
    walk(expr, visitor)
}

/// Shows `each` an expression, before its parts, and every expression in it.
pub(super) fn for_each_expr(expr: &mut Expr, each: impl FnMut(&mut Expr)) {
    struct Each<F>(F);

    impl<F: FnMut(&mut Expr)> Visitor for Each<F> {
        fn before_expr(&mut self, expr: &mut Expr) -> Result<()> {
            (self.0)(expr);
            Ok(())
        }
    }

    // nothing is refused
    let _ = walk(expr, &mut Each(each));
}

fn walk(tree: &mut impl VisitMut, visitor: &mut dyn Visitor) -> Result<()> {
    match tree.visit(&mut Walk(visitor)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// The only visitor that the parser knows.
struct Walk<'a>(&'a mut dyn Visitor);

fn flow(seen: Result<()>) -> ControlFlow<Box<DataFusionError>> {
    seen.map_or_else(|error| ControlFlow::Break(Box::new(error)), ControlFlow::Continue)
}

impl VisitorMut for Walk<'_> {
    type Break = Box<DataFusionError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        flow(self.0.before_query(query))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        flow(self.0.before_select(select))
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Self::Break> {
        flow(self.0.before_relation(relation))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        flow(self.0.before_expr(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        flow(self.0.after_expr(expr))
    }
}
