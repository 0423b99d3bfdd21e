//! The threshold of a score under casts that round, as a number of the score's own type.
//!
//! `CAST(score AS DECIMAL(30, 15)) >= 0.8` holds from some score on, because a cast keeps the order of numbers. Which
//! score that is, the cast itself tells: it is tried on numbers half way between one that is accepted and one that is
//! not.

use std::cmp::Ordering;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Cast, Expr, Operator};

use super::interval::Interval;
use super::sides::data_type;
use super::{Bounds, Sides};

/// `expr` as what is cast and the types that it is cast to, one after the other.
pub(super) fn under_casts<'a>(expr: &'a Expr, sides: Sides<'_>) -> Option<(&'a Expr, Vec<DataType>)> {
    match expr {
        Expr::Alias(alias) => under_casts(&alias.expr, sides),
        Expr::Cast(Cast { expr: inner, field }) => {
            let numbers = data_type(inner, sides)?.is_numeric() && field.data_type().is_numeric();
            let (inner, mut types) = if numbers { under_casts(inner, sides) } else { None }?;
            types.push(field.data_type().clone());
            Some((inner, types))
        }
        other => Some((other, Vec::new())),
    }
}

/// A comparison of a number under casts with a constant.
pub(super) struct Threshold<'a> {
    /// The type of the number.
    pub data_type: &'a DataType,
    /// What it is cast to, one type after the other.
    pub casts: &'a [DataType],
    pub op: Operator,
    pub constant: &'a ScalarValue,
}

impl Threshold<'_> {
    /// The numbers of `domain` that satisfy the comparison, bounded where not all of them do; `None` where that
    /// cannot be told, because a cast fails for some of them.
    pub(super) fn bounds(&self, domain: Interval) -> Option<Bounds> {
        match self.op {
            Operator::GtEq | Operator::Gt => self.lower(domain, self.op),
            Operator::LtEq | Operator::Lt => self.upper(domain, self.op),
            Operator::Eq => Some(self.lower(domain, Operator::GtEq)?.and(self.upper(domain, Operator::LtEq)?)),
            _ => None,
        }
    }

    fn lower(&self, domain: Interval, op: Operator) -> Option<Bounds> {
        let (low, high) = (self.place(domain.low)?, self.place(domain.high)?);
        if self.accepts(low, op)? {
            return Some(Bounds::everything());
        }
        if !self.accepts(high, op)? {
            return Some(Bounds::at_least(domain.high, false));
        }
        let (_, accepted) = self.border(low, high, op)?;
        Some(Bounds::at_least(self.number(accepted)?, true))
    }

    fn upper(&self, domain: Interval, op: Operator) -> Option<Bounds> {
        let (low, high) = (self.place(domain.low)?, self.place(domain.high)?);
        if self.accepts(high, op)? {
            return Some(Bounds::everything());
        }
        if !self.accepts(low, op)? {
            return Some(Bounds::at_most(domain.low, false));
        }
        let (accepted, _) = self.border(low, high, op)?;
        Some(Bounds::at_most(self.number(accepted)?, true))
    }

    /// Two neighbours between `low` and `high` of which one is accepted and the other is not, as `low` and `high` are.
    fn border(&self, mut low: i64, mut high: i64, op: Operator) -> Option<(i64, i64)> {
        let of_low = self.accepts(low, op)?;
        while i128::from(high) - i128::from(low) > 1 {
            let middle = i64::midpoint(low, high);
            if self.accepts(middle, op)? == of_low {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some((low, high))
    }

    fn accepts(&self, place: i64, op: Operator) -> Option<bool> {
        let mut value = self.value(place)?;
        for data_type in self.casts {
            value = value.cast_to(data_type).ok()?;
        }
        let order = value.partial_cmp(self.constant)?;
        Some(match op {
            Operator::GtEq => order != Ordering::Less,
            Operator::Gt => order == Ordering::Greater,
            Operator::LtEq => order != Ordering::Greater,
            _ => order == Ordering::Less,
        })
    }

    /// Where a number stands among those of its type.
    fn place(&self, number: f64) -> Option<i64> {
        Some(match self.data_type {
            DataType::Float64 => in_order(number.to_bits() as i64, i64::MAX),
            DataType::Float32 => in_order(i64::from((number as f32).to_bits() as i32), i64::from(i32::MAX)),
            integer if integer.is_integer() => number as i64,
            _ => return None,
        })
    }

    fn number(&self, place: i64) -> Option<f64> {
        Some(match self.data_type {
            DataType::Float64 => f64::from_bits(in_order(place, i64::MAX) as u64),
            DataType::Float32 => {
                let bits = in_order(place, i64::from(i32::MAX)) as i32;
                f64::from(f32::from_bits(bits as u32))
            }
            _ => place as f64,
        })
    }

    fn value(&self, place: i64) -> Option<ScalarValue> {
        Some(match self.data_type {
            DataType::Float64 => ScalarValue::Float64(Some(self.number(place)?)),
            DataType::Float32 => ScalarValue::Float32(Some(self.number(place)? as f32)),
            integer => ScalarValue::Int64(Some(place)).cast_to(integer).ok()?,
        })
    }
}

/// The bits of a floating-point number as an integer that is ordered as the numbers are, and back.
fn in_order(bits: i64, magnitude: i64) -> i64 {
    if bits < 0 { bits ^ magnitude } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Interval = Interval { low: 0.0, high: 1.0 };

    fn decimal(unscaled: i128, precision: u8, scale: i8) -> ScalarValue {
        ScalarValue::Decimal128(Some(unscaled), precision, scale)
    }

    fn bounds(data_type: &DataType, op: Operator, constant: &ScalarValue, domain: Interval) -> Bounds {
        let casts = [constant.data_type()];
        Threshold { data_type, casts: &casts, op, constant }.bounds(domain).unwrap()
    }

    #[test]
    fn a_decimal_threshold_is_where_the_cast_rounds_to_it() {
        let tenths = decimal(800_000_000_000_000, 30, 15);
        let lower = bounds(&DataType::Float64, Operator::GtEq, &tenths, UNIT).lower().unwrap();
        assert!(lower.inclusive && lower.value < 0.8 && lower.value > 0.8 - 1e-15, "{lower:?}");
        let upper = bounds(&DataType::Float64, Operator::LtEq, &tenths, UNIT).upper().unwrap();
        assert!(upper.inclusive && upper.value > 0.8 && upper.value < 0.8 + 1e-15, "{upper:?}");
        let equal = bounds(&DataType::Float64, Operator::Eq, &tenths, UNIT);
        assert!(equal.contains(0.8) && equal.contains(lower.value) && equal.contains(upper.value));
        assert!(!equal.contains(lower.value.next_down()) && !equal.contains(upper.value.next_up()));
        let single = bounds(&DataType::Float32, Operator::GtEq, &decimal(9_000_000, 14, 7), UNIT);
        assert!(single.contains(f64::from(0.9_f32)) && !single.contains(0.8999));
    }

    #[test]
    fn whole_numbers_and_thresholds_beyond_the_scores() {
        let domain = Interval { low: 0.0, high: 1e6 };
        let and_a_half = decimal(15, 11, 1);
        assert_eq!(bounds(&DataType::Int32, Operator::LtEq, &and_a_half, domain), Bounds::at_most(1.0, true));
        assert_eq!(bounds(&DataType::Int32, Operator::Gt, &and_a_half, domain), Bounds::at_least(2.0, true));
        let two = decimal(20, 3, 1);
        assert_eq!(bounds(&DataType::Float64, Operator::GtEq, &two, UNIT), Bounds::at_least(1.0, false));
        assert_eq!(bounds(&DataType::Float64, Operator::LtEq, &two, UNIT), Bounds::everything());
        let signed = Interval { low: -1.0, high: 1.0 };
        let zero = bounds(&DataType::Float64, Operator::GtEq, &decimal(0, 3, 1), signed).lower().unwrap();
        assert!(zero.value < -0.049 && zero.value > -0.051, "{zero:?}");
    }
}
