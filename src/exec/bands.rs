//! Bands as places: where each build row stands among the values of its side, and which of them a probe row accepts.
//!
//! Every band becomes two numbers a row on either side: a build row lies in the band of a probe row where it starts
//! before the probe row's end and ends no sooner than the probe row's start.
//!
//! ```text
//! build values, distinct and sorted    v0  v1  v2  v3  v4  v5     a build row: [its place, its place]
//! what a probe row accepts                  └───────┘             a probe row: [one past its last, its first]
//! ```
//!
//! Where the ends of the interval are on the build side, a build row has the place of its low end among all low ends
//! and that of its high end among all high ends; a probe row has how many low ends its value has reached, and how many
//! high ends it has passed.

use std::ops::Range;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{JoinSide, Result, exec_err, internal_err};
use datafusion::physical_expr::PhysicalExprRef;

use crate::predicate::Bounds;
use similarity_engine::atoms::{BandColumn, Span};
use similarity_engine::gallop::gallop;
use similarity_engine::parallel::{
    WORTH_A_THREAD, collect_in_parallel, each_in_parallel, joined_in_parallel, ranges, sort,
};

/// Bytes for each row while the columns of a build side are made: its key, the key beside the row to be sorted, the
/// distinct key, two forms of its place, and what the row accepts.
pub(super) const BUILD_BYTES: usize =
    2 * size_of::<i128>() + size_of::<(i128, u32)>() + size_of::<Option<u32>>() + 2 * size_of::<Span>();

/// A band in physical expressions.
#[derive(Debug, Clone)]
pub enum BandExprs {
    /// `left - right` within bounds.
    Difference {
        /// Expression over the left input.
        left: PhysicalExprRef,
        /// Expression over the right input.
        right: PhysicalExprRef,
        /// Bounds of the difference.
        bounds: Bounds,
        /// Whether whole numbers of any types are subtracted as such, where the difference of one type may wrap around.
        unlimited: bool,
    },
    /// `value` between `low` and `high`.
    Between {
        /// The side of the value; its ends are of the other one.
        value_side: JoinSide,
        /// The value.
        value: PhysicalExprRef,
        /// The low end, and whether it belongs to the interval.
        low: (PhysicalExprRef, bool),
        /// The high end, and whether it belongs to the interval.
        high: (PhysicalExprRef, bool),
    },
}

impl BandExprs {
    /// The expressions.
    pub(super) fn expressions(&self) -> Vec<&PhysicalExprRef> {
        match self {
            Self::Difference { left, right, .. } => vec![left, right],
            Self::Between { value, low, high, .. } => vec![value, &low.0, &high.0],
        }
    }

    /// All that the values of the build side depend on.
    pub(super) fn of_build(&self, side: JoinSide) -> String {
        match self {
            Self::Difference { left, right, bounds, unlimited } => {
                let key = if side == JoinSide::Left { left } else { right };
                format!("- {key:?} {bounds:?} {unlimited}")
            }
            Self::Between { value_side, value, low, high } if *value_side == side => {
                format!("between {value:?} {} {}", low.1, high.1)
            }
            Self::Between { low, high, .. } => format!("within {low:?} {high:?}"),
        }
    }

    /// The band over the build side `batch`: its values, and the column of its rows. Of a difference that column also
    /// says what each row accepts of its own side, which is also the probe side where it is its `self_join`.
    ///
    /// Memory for each row is [`BUILD_BYTES`] meanwhile.
    ///
    /// # Errors
    /// Errors of [`look_up`](Self::look_up), where the side is its own probe side.
    pub(super) fn build(
        &self,
        side: JoinSide,
        batch: &RecordBatch,
        self_join: bool,
        threads: usize,
    ) -> Result<(BandValues, BandColumn)> {
        let value = match self {
            Self::Difference { left, right, .. } => Some(if side == JoinSide::Left { left } else { right }),
            Self::Between { value_side, value, .. } => (*value_side == side).then_some(value),
        };
        let Some(value) = value else { return self.build_ends(batch) };
        let (sorted, places) = Sorted::of(&keys(value, batch)?);
        let places: Vec<Span> = places.into_iter().map(|place| place.map_or(Span::NONE, Span::at)).collect();
        let accepted = match self {
            Self::Difference { bounds, unlimited, .. } => {
                let difference = Difference::new(value, batch, *bounds, *unlimited)?;
                let accepted = difference.accepted_by_all(&sorted, &places, threads);
                // those of another probe side may fit where the differences of this one do not
                if self_join { accepted? } else { accepted.unwrap_or_default() }
            }
            Self::Between { .. } => Vec::new(),
        };
        Ok((BandValues::Values(sorted), BandColumn { places, accepted }))
    }

    fn build_ends(&self, batch: &RecordBatch) -> Result<(BandValues, BandColumn)> {
        let Self::Between { low, high, .. } = self else {
            return internal_err!("a difference has no ends of its own");
        };
        let [(lows, low), (highs, high)] = [Sorted::of(&keys(&low.0, batch)?), Sorted::of(&keys(&high.0, batch)?)];
        let spans = low.into_iter().zip(high).map(|ends| match ends {
            (Some(first), Some(last)) => Span { first, last },
            _ => Span::NONE,
        });
        let places = spans.collect();
        Ok((BandValues::Ends { lows, highs }, BandColumn { places, accepted: Vec::new() }))
    }

    /// The column of the probe side `batch`; `side` is the probe side.
    ///
    /// # Errors
    /// Differences beyond the type of their numbers, which stock DataFusion wraps around.
    pub(super) fn look_up(&self, values: &BandValues, side: JoinSide, batch: &RecordBatch) -> Result<BandColumn> {
        let accepted = match (self, values) {
            (Self::Difference { left, right, bounds, unlimited }, BandValues::Values(sorted)) => {
                let value = if side == JoinSide::Left { left } else { right };
                let difference = Difference::new(value, batch, *bounds, *unlimited)?;
                let anywhere = Span { first: 0, last: 0 };
                let accepted = |key| difference.accepted(sorted, key, side == JoinSide::Left, anywhere);
                keys(value, batch)?.into_iter().map(accepted).collect::<Result<_>>()?
            }
            (Self::Between { low, high, .. }, BandValues::Values(sorted)) => {
                let accepted = |(low_end, high_end): (i128, i128)| {
                    if low_end == NULL || high_end == NULL {
                        return Span::NONE;
                    }
                    let first = sorted.before(low_end, !low.1);
                    Span { first, last: sorted.before(high_end, high.1) }
                };
                keys(&low.0, batch)?.into_iter().zip(keys(&high.0, batch)?).map(accepted).collect()
            }
            (Self::Between { value, low, high, .. }, BandValues::Ends { lows, highs }) => {
                let accepted = |value: i128| match value {
                    NULL => Span::NONE,
                    value => Span { first: highs.before(value, !high.1), last: lows.before(value, low.1) },
                };
                keys(value, batch)?.into_iter().map(accepted).collect()
            }
            (Self::Difference { .. }, BandValues::Ends { .. }) => {
                return internal_err!("a difference has no ends of its own");
            }
        };
        Ok(BandColumn { places: Vec::new(), accepted })
    }
}

/// The values of a build side that a probe side is looked up in.
#[derive(Debug)]
pub(super) enum BandValues {
    Values(Sorted),
    Ends { lows: Sorted, highs: Sorted },
}

impl BandValues {
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Values(sorted) => sorted.memory(),
            Self::Ends { lows, highs } => lows.memory() + highs.memory(),
        }
    }
}

/// Distinct keys, ascending.
#[derive(Debug)]
pub(super) struct Sorted(Vec<i128>);

impl Sorted {
    /// The distinct keys of the rows of a side, and where that of each row stands, NULL nowhere.
    fn of(keys: &[i128]) -> (Self, Vec<Option<u32>>) {
        let rows = (0u32..).zip(keys).filter(|&(_, &key)| key != NULL);
        let mut rows: Vec<(i128, u32)> = rows.map(|(row, &key)| (key, row)).collect();
        sort(&mut rows, |(one, _), (other, _)| one.cmp(other));
        let mut places = vec![None; keys.len()];
        let mut distinct: Vec<i128> = Vec::new();
        for (key, row) in rows {
            if distinct.last() != Some(&key) {
                distinct.push(key);
            }
            places[row as usize] = Some(distinct.len() as u32 - 1);
        }
        distinct.shrink_to_fit();
        (Self(distinct), places)
    }

    /// How many keys are less than `key`, or equal to it where those count too.
    fn before(&self, key: i128, equal: bool) -> u32 {
        self.0.partition_point(|&known| known < key || (equal && known == key)) as u32
    }

    fn memory(&self) -> usize {
        self.0.capacity() * size_of::<i128>()
    }
}

/// No value has this key.
const NULL: i128 = i128::MIN;

/// The values of `expr` as integers in their order.
fn keys(expr: &PhysicalExprRef, batch: &RecordBatch) -> Result<Vec<i128>> {
    let values = normalize_float_zero(&expr.evaluate(batch)?.into_array(batch.num_rows())?);
    Ok(match values.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let values = cast(&values, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            values.iter().map(|v| v.map_or(NULL, |v| i128::from(float_key(v)))).collect()
        }
        DataType::UInt64 => values.as_primitive::<UInt64Type>().iter().map(|v| v.map_or(NULL, i128::from)).collect(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            let values = cast(&values, &DataType::Decimal128(*precision, *scale))?;
            values.as_primitive::<Decimal128Type>().iter().map(|v| v.unwrap_or(NULL)).collect()
        }
        _ => {
            let values = cast(&values, &DataType::Int64)?;
            values.as_primitive::<Int64Type>().iter().map(|v| v.map_or(NULL, i128::from)).collect()
        }
    })
}

/// An integer in the total order of floats.
fn float_key(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn float_of(key: i128) -> f64 {
    let key = key as i64;
    f64::from_bits((key ^ ((key >> 63) as u64 >> 1) as i64) as u64)
}

/// How the numbers of a type are subtracted.
#[derive(Debug, Clone, Copy)]
enum Arithmetic {
    /// Whole numbers up to the greatest one of the type.
    Integers {
        most: i128,
    },
    Singles,
    Doubles,
}

impl Arithmetic {
    /// Differences that do not wrap around.
    const UNLIMITED: Self = Self::Integers { most: i128::MAX };

    fn of(data_type: &DataType) -> Result<Self> {
        let integers = |bits: u32| Self::Integers { most: (1 << (bits - 1)) - 1 };
        Ok(match data_type {
            DataType::Int8 => integers(8),
            DataType::Int16 => integers(16),
            DataType::Int32 => integers(32),
            DataType::Int64 => integers(64),
            DataType::Float32 => Self::Singles,
            DataType::Float64 => Self::Doubles,
            other => return internal_err!("a band over a difference of {other}"),
        })
    }

    /// `left - right`, NaN where there is none.
    fn difference(self, left: i128, right: i128) -> f64 {
        // -0.0 compares as 0.0
        match self {
            // the shorter type has instructions for it
            Self::Integers { .. } => match i64::try_from(left - right) {
                Ok(short) => short as f64,
                Err(_) => (left - right) as f64,
            },
            Self::Singles => f64::from(float_of(left) as f32 - float_of(right) as f32) + 0.0,
            Self::Doubles => float_of(left) - float_of(right) + 0.0,
        }
    }
}

/// A difference within bounds.
struct Difference {
    arithmetic: Arithmetic,
    bounds: Bounds,
}

impl Difference {
    fn new(value: &PhysicalExprRef, batch: &RecordBatch, bounds: Bounds, unlimited: bool) -> Result<Self> {
        let arithmetic = match unlimited {
            true => Arithmetic::UNLIMITED,
            false => Arithmetic::of(&value.data_type(&batch.schema())?)?,
        };
        Ok(Self { arithmetic, bounds })
    }

    /// The places that a probe row accepts, none of them below `from`; `is_left` where the row is of the left side.
    fn accepted(&self, sorted: &Sorted, key: i128, is_left: bool, from: Span) -> Result<Span> {
        let numbers = self.numbers(sorted);
        let known = &sorted.0[..numbers.end];
        let (Some(&least), Some(&greatest)) = (known.get(numbers.start), known.last()) else {
            return Ok(Span::NONE);
        };
        match self.arithmetic {
            Arithmetic::Integers { .. } if key == NULL => return Ok(Span::NONE),
            Arithmetic::Integers { most } => {
                let fits = |number: i128| (key - number).abs() <= most;
                if !fits(least) || !fits(greatest) {
                    return exec_err!("a difference of two numbers does not fit their type");
                }
            }
            Arithmetic::Singles | Arithmetic::Doubles if !is_number(key) => return Ok(Span::NONE),
            Arithmetic::Singles | Arithmetic::Doubles => {}
        }
        // inf - inf is NaN, which lies in no band; it can only stand at either end of the numbers
        let (below, within): (&dyn Fn(i128) -> bool, &dyn Fn(i128) -> bool) = if is_left {
            // the greater the known number, the less the difference
            let difference = move |number| self.arithmetic.difference(key, number);
            (&move |n| !difference(n).is_nan() && !self.bounds.below_upper(difference(n)), &move |n| {
                !difference(n).is_nan() && self.bounds.above_lower(difference(n))
            })
        } else {
            let difference = move |number| self.arithmetic.difference(number, key);
            (&move |n| !difference(n).is_nan() && !self.bounds.above_lower(difference(n)), &move |n| {
                !difference(n).is_nan() && self.bounds.below_upper(difference(n))
            })
        };
        let place = |from: u32, below: &dyn Fn(i128) -> bool| {
            let from = numbers.start.max(from as usize);
            (from + gallop(&known[from..], |&key| below(key))) as u32
        };
        Ok(Span { first: place(from.first, below), last: place(from.last, within) })
    }

    /// What each row of the sorted side itself would accept as a probe row of the right side.
    fn accepted_by_all(&self, sorted: &Sorted, places: &[Span], threads: usize) -> Result<Vec<Span>> {
        let part = |part: Range<usize>| {
            let mut from = Span { first: 0, last: 0 };
            let by_place = sorted.0[part].iter().map(|&key| {
                let accepted = self.accepted(sorted, key, false, from)?;
                if accepted != Span::NONE {
                    from = accepted;
                }
                Ok(accepted)
            });
            by_place.collect::<Result<Vec<_>>>()
        };
        let parts = each_in_parallel(ranges(sorted.0.len(), threads, WORTH_A_THREAD), part);
        let by_place = joined_in_parallel(parts.into_iter().collect::<Result<_>>()?);
        Ok(collect_in_parallel(places.len(), threads, WORTH_A_THREAD, |row| {
            by_place.get(places[row].first as usize).copied().unwrap_or(Span::NONE)
        }))
    }

    /// The places that are no NaN.
    fn numbers(&self, sorted: &Sorted) -> Range<usize> {
        match self.arithmetic {
            Arithmetic::Integers { .. } => 0..sorted.0.len(),
            Arithmetic::Singles | Arithmetic::Doubles => {
                let [least, greatest] = [f64::NEG_INFINITY, f64::INFINITY].map(|v| i128::from(float_key(v)));
                sorted.before(least, false) as usize..sorted.before(greatest, true) as usize
            }
        }
    }
}

/// Whether the key of a float is that of a number.
fn is_number(key: i128) -> bool {
    key != NULL && !float_of(key).is_nan()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Float64Array, Int8Array};
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    fn batch(values: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("x", values, true)]).unwrap()
    }

    fn x() -> PhysicalExprRef {
        Arc::new(Column::new("x", 0))
    }

    /// The pairs that a difference accepts, build rows first, either side being the build side.
    fn pairs(values: ArrayRef, bounds: Bounds, side: JoinSide) -> Result<Vec<(usize, usize)>> {
        let batch = batch(values);
        let band = BandExprs::Difference { left: x(), right: x(), bounds, unlimited: false };
        let (known, build) = band.build(side, &batch, false, 2)?;
        let probe = band.look_up(&known, side.negate(), &batch)?;
        if side == JoinSide::Left && build.accepted != probe.accepted {
            return exec_err!("a side accepts other rows of itself");
        }
        let rows = 0..batch.num_rows();
        let all = rows.clone().flat_map(|b| rows.clone().map(move |p| (b, p)));
        Ok(all.filter(|&(b, p)| build.places[b].meets(probe.accepted[p])).collect())
    }

    #[test]
    fn differences_of_floats() {
        let values = [
            Some(1.0),
            Some(1.5),
            None,
            Some(-0.0),
            Some(0.0),
            Some(f64::NAN),
            Some(-f64::NAN),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(1e308),
            Some(-1e308),
            Some(2.5000000000000004),
            Some(2.5),
        ];
        for (low, high) in [(-1.0, 1.0), (0.0, 0.0), (-1.0, 1.5), (1.0, -1.0), (0.0, 1e308)] {
            for inclusive in [true, false] {
                let bounds = Bounds::at_least(low, inclusive).and(Bounds::at_most(high, inclusive));
                for side in [JoinSide::Left, JoinSide::Right] {
                    let found = pairs(Arc::new(Float64Array::from(values.to_vec())), bounds, side).unwrap();
                    let holds = |l: Option<f64>, r: Option<f64>| {
                        let difference = l.zip(r).map(|(l, r)| l - r + 0.0);
                        difference.is_some_and(|d| !d.is_nan() && bounds.contains(d))
                    };
                    let rows = 0..values.len();
                    let all = rows.clone().flat_map(|b| rows.clone().map(move |p| (b, p)));
                    let expected = all.filter(|&(b, p)| match side {
                        JoinSide::Left => holds(values[b], values[p]),
                        _ => holds(values[p], values[b]),
                    });
                    assert_eq!(found, expected.collect::<Vec<_>>(), "{low} {high} {inclusive} {side}");
                }
            }
        }
    }

    #[test]
    fn differences_that_wrap_around_are_left_to_stock() {
        let bounds = Bounds::at_least(-2.0, true).and(Bounds::at_most(2.0, true));
        let of = |values: Vec<i8>| pairs(Arc::new(Int8Array::from(values)), bounds, JoinSide::Right);
        assert_eq!(of(vec![100, 101, 104]).unwrap(), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]);
        assert!(of(vec![127, -2]).is_err());
    }
}
