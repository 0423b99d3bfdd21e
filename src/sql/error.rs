//! Errors that point into the text.

use datafusion::common::{DataFusionError, Diagnostic, Span};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer;

/// An error that points at `span`, in the form of the parser's own.
pub(crate) fn syntax_error(message: &str, span: tokenizer::Span) -> DataFusionError {
    let diagnostic = Diagnostic::new_error(message, Span::try_from_sqlparser_span(span));
    DataFusionError::from(ParserError::ParserError(format!("{message}{}", span.start))).with_diagnostic(diagnostic)
}

/// An error of planning, rather than of syntax, that points at `span`.
pub(super) fn planning_error(message: &str, span: tokenizer::Span) -> DataFusionError {
    let diagnostic = Diagnostic::new_error(message, Span::try_from_sqlparser_span(span));
    DataFusionError::Plan(format!("{message}{}", span.start)).with_diagnostic(diagnostic)
}
