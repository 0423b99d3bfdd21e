//! Functions that have no value for a pair of rows, and so none in a matching rule.

use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sql::error::planning_error;
use crate::sql::visit::{Visitor, visit_expr};

/// Fails where `condition` calls an aggregate, a window function or `unnest`.
pub(super) fn check(condition: &mut Expr, state: &SessionState) -> Result<()> {
    visit_expr(condition, &mut Calls(state))
}

struct Calls<'a>(&'a SessionState);

impl Visitor for Calls<'_> {
    fn before_expr(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(call) = expr else { return Ok(()) };
        let name = call.name.to_string().to_lowercase();
        let is_scalar = self.0.scalar_functions().contains_key(&name);
        let kind = match name.as_str() {
            _ if call.over.is_some() => "window function",
            _ if !is_scalar && self.0.aggregate_functions().contains_key(&name) => "aggregate",
            _ if !is_scalar && self.0.window_functions().contains_key(&name) => "window function",
            "unnest" => "function",
            _ => return Ok(()),
        };
        let place = call.name.0.first().and_then(|part| part.as_ident()).map_or(Span::empty(), |name| name.span);
        Err(planning_error(
            &format!(
                "a matching rule takes no {kind} ({name}), which has no value for a pair of rows; compute it as a \
                 column of the table first"
            ),
            place,
        ))
    }
}
