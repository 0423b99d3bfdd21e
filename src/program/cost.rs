//! What an evaluation of an atom costs: constants from the bench `measures`, versioned with the code, so that the same
//! data gives the same tree on every machine.

use crate::measure::{EditMeasure, SetMeasure};
use crate::predicate::Test;

/// Comparing two numbers of a column.
pub const EQUALITY: f64 = 2.0;
/// Looking at one bit of a row.
pub const ONE_SIDED: f64 = 2.0;
/// An expression that DataFusion evaluates, with the rows that it reads.
pub const EXPRESSION: f64 = 150.0;

/// Nanoseconds to decide `test` for keys of `length` characters or tokens on average.
///
/// Most pairs are decided by lengths and signatures before any measure is computed, at [`FILTERED`].
pub fn of_test(test: Test, length: f64) -> f64 {
    FILTERED
        + match test {
            Test::Set { measure, .. } => of_set(measure, length),
            Test::Edit { measure, .. } => 0.25 * of_edit(measure, length),
        }
}

/// Lengths and signatures of a pair, fetched and compared.
const FILTERED: f64 = 8.0;

fn of_set(_measure: SetMeasure, length: f64) -> f64 {
    2.0 * length
}

fn of_edit(measure: EditMeasure, length: f64) -> f64 {
    let words = (length / 64.0).ceil().max(1.0);
    match measure {
        EditMeasure::Hamming => 5.0 + length,
        EditMeasure::Jaro | EditMeasure::JaroWinkler => 20.0 + 4.0 * length * words,
        EditMeasure::DamerauLevenshtein => 20.0 + 1.3 * length * length,
        _ => 10.0 + 3.0 * length * words,
    }
}
