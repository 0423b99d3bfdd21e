//! What an evaluation of an atom costs: constants from the bench `measures`, versioned with the code, so that the same
//! data gives the same tree on every machine.

use super::{AtomEstimate, Reading};
use crate::condition::Condition;
use similarity_measures::EditScale;

/// Comparing two numbers of a column.
pub const EQUALITY: f64 = 2.0;
/// Comparing the places of two rows in a band.
pub const BAND: f64 = 3.0;
/// Looking at one bit of a row.
pub const ONE_SIDED: f64 = 2.0;
/// An expression that DataFusion evaluates, with the rows that it reads.
pub const EXPRESSION: f64 = 150.0;

/// Producing a pair of rows that agree in their equalities.
pub const PAIR: f64 = 1.0;
/// Handling a pair that an index of a similarity has found.
pub const FOUND: f64 = 100.0;
/// Sorting a row into a band and looking it up.
pub const SORTED_ROW: f64 = 200.0;
/// Building an index of a similarity and looking up one row.
const INDEXED_ROW: f64 = 1_000.0;

/// Nanoseconds a probe row to find the pairs of `condition` by an index, where it meets `partners` rows, and so many
/// rows have the `same` value: both sides are held to repeat alike.
pub fn of_index(condition: &Condition, partners: f64, same: f64) -> f64 {
    let pair = match *condition {
        Condition::Set { measure, .. } if measure.descriptor().is_count => 0.5,
        Condition::Set { bounds, .. } => by_threshold(bounds.lower().map_or(0.0, |b| b.value)),
        Condition::Edit { measure, bounds } => match measure.scale() {
            EditScale::Jaro { .. } => 4.0,
            EditScale::Share(_) => by_threshold(bounds.lower().map_or(0.0, |b| b.value)),
            EditScale::Distance(_) => match bounds.upper().map_or(f64::INFINITY, |b| b.value) {
                k if k < 2.0 => 0.05,
                k if k < 3.0 => 0.1,
                k if k < 4.0 => 0.3,
                _ => 1.0,
            },
        },
        Condition::Vector(_) => 0.2,
    };
    (INDEXED_ROW + partners / same * pair) / same
}

/// Cost of a pair by the threshold of a similarity in [0, 1].
fn by_threshold(threshold: f64) -> f64 {
    match threshold {
        t if t >= 0.9 => 0.1,
        t if t >= 0.8 => 0.15,
        t if t >= 0.7 => 0.25,
        t if t >= 0.6 => 0.4,
        t if t >= 0.5 => 0.6,
        _ => 1.5,
    }
}

/// What it costs to decide `condition` for keys of `length` characters or tokens on average, where it takes the measure
/// itself for a share of `open` pairs, and lengths and signatures for the others.
pub fn of_test(condition: Condition, length: f64, open: f64, passes: f64) -> AtomEstimate {
    let computed = of_measure(condition, length, length);
    let cost = FILTERED + open * computed;
    AtomEstimate { cost, first: SIDE_BY_SIDE + open * (FILTERED + computed), passes, last: false, reads: None }
}

/// What it costs to compute the measure of `condition` for keys of `length` characters or tokens, each compared with up
/// to `width` of the other key.
pub fn of_measure(condition: Condition, length: f64, width: f64) -> f64 {
    match condition {
        Condition::Set { .. } => 20.0 + 3.0 * length,
        Condition::Edit { measure, .. } => measure.descriptor().cost.nanoseconds(length, width),
        Condition::Vector(_) => 10.0 + length,
    }
}

/// The estimate where the candidates of a row are too few to be asked side by side; `key` is the number of what the
/// atom compares.
pub fn one_by_one(estimate: AtomEstimate, key: usize) -> AtomEstimate {
    let cost = estimate.cost - FETCHED;
    AtomEstimate { cost, first: cost, reads: Some(Reading { key, cost: FETCHED }), ..estimate }
}

/// Lengths and signatures of a pair, fetched and compared.
const FILTERED: f64 = 8.0;
/// Part of [`FILTERED`] that the fetching takes.
const FETCHED: f64 = 6.0;
/// Lengths and signatures of a pair among many of the same row.
const SIDE_BY_SIDE: f64 = 2.0;
