//! Constant arguments of table functions, with errors that name them.

use std::fmt;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::Expr;

/// An argument by its place, from 1, and what it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument {
    /// The table function.
    pub function: &'static str,
    /// The place of the argument, from 1.
    pub place: usize,
    /// What the argument is, as in `the left table`.
    pub what: &'static str,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "argument {} of {} ({})", self.place, self.function, self.what)
    }
}

impl Argument {
    /// The text of a constant; `expected` says what it should be.
    ///
    /// # Errors
    /// An expression that is no constant text.
    pub fn text<'a>(&self, expr: &'a Expr, expected: &str) -> Result<&'a str> {
        match expr {
            Expr::Literal(value, _) => value.try_as_str().flatten(),
            _ => None,
        }
        .ok_or_else(|| plan_datafusion_err!("{self} takes a constant text: {expected}"))
    }

    /// The value of a constant that is a positive whole number.
    ///
    /// # Errors
    /// An expression that is none.
    pub fn positive(&self, expr: &Expr) -> Result<u64> {
        let number = match expr {
            Expr::Literal(value, _) if value.data_type().is_integer() => value.cast_to(&DataType::UInt64).ok(),
            _ => None,
        };
        match number {
            Some(ScalarValue::UInt64(Some(number))) if number > 0 => Ok(number),
            _ => plan_err!("{self} is a positive whole number, as in 3"),
        }
    }

    /// One of some words, in any case.
    ///
    /// # Errors
    /// Any other text, and an expression that is no constant text.
    pub fn one_of<T: Copy>(&self, expr: &Expr, words: &[(&str, T)]) -> Result<T> {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        let known = known.join(", ");
        let text = self.text(expr, &known)?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
        found.map(|(_, value)| *value).ok_or_else(|| plan_datafusion_err!("{self} is one of {known}"))
    }

    /// An error of what the argument says.
    pub fn blamed(&self, error: DataFusionError) -> DataFusionError {
        error.context(self.to_string())
    }
}
