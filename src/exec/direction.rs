//! Which way round the pairs of a self-join count, where its condition says so by one column: each pair is looked at
//! once.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrowNativeTypeOp, PrimitiveArray, RecordBatch, UInt32Array, downcast_primitive_array,
};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::residual::RowPairs;
use similarity_engine::cache::fetch;

/// A condition that one column of the left row is less than the same one of the right row, or greater.
#[derive(Debug)]
pub(super) struct Direction {
    column: usize,
    /// Whether the left row is the one with less.
    is_less: bool,
    /// What else the pairs of the join have to satisfy.
    pub rest: Vec<JoinFilter>,
}

impl Direction {
    /// The first of some conditions that is one, on whole numbers, decimals, dates, times or durations.
    pub(super) fn among(conditions: &[JoinFilter]) -> Option<Self> {
        let found = conditions.iter().enumerate().find_map(|(at, condition)| Some((at, of(condition)?)));
        found.map(|(at, (column, is_less))| {
            let mut rest = conditions.to_vec();
            rest.remove(at);
            Self { column, is_less, rest }
        })
    }

    /// Pairs of rows of `batch`, the way round that the condition holds for; without those for which it holds neither
    /// way.
    ///
    /// # Errors
    /// A column of another type than the condition has.
    pub(super) fn turn(&self, batch: &RecordBatch, one: &[u32], other: &[u32]) -> Result<RowPairs> {
        let values = batch.column(self.column);
        let (less, more) = downcast_primitive_array!(
            values => by_value(values, one, other),
            other => return internal_err!("the condition of a self-join has changed to {other}"),
        );
        let (left, right) = if self.is_less { (less, more) } else { (more, less) };
        Ok(RowPairs { left: UInt32Array::from(left), right: UInt32Array::from(right) })
    }
}

/// The column of a condition, and whether it asks for less of it on the left.
fn of(condition: &JoinFilter) -> Option<(usize, bool)> {
    let comparison = condition.expression().downcast_ref::<BinaryExpr>()?;
    let column = |expression: &Arc<dyn PhysicalExpr>| {
        let column = expression.downcast_ref::<Column>()?;
        // the zeros of floats are equal, which their total order says not
        let is_compared = |data_type: &DataType| {
            data_type.is_primitive() && !data_type.is_floating() && !matches!(data_type, DataType::Interval(_))
        };
        is_compared(condition.schema().field(column.index()).data_type())
            .then(|| condition.column_indices()[column.index()].clone())
    };
    let (first, second) = (column(comparison.left())?, column(comparison.right())?);
    let is_less = match comparison.op() {
        Operator::Lt => first.side == JoinSide::Left,
        Operator::Gt => first.side == JoinSide::Right,
        _ => return None,
    };
    (first.index == second.index && first.side == second.side.negate()).then_some((first.index, is_less))
}

/// Pairs whose values are on their way while those of one are compared: rows near each other in what is joined lie
/// anywhere.
const AHEAD: usize = 48;

/// The row of each pair with less of what is compared, and the one with more, where they differ and neither has NULL.
fn by_value<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, one: &[u32], other: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (nulls, values) = (values.nulls().filter(|nulls| nulls.null_count() > 0), values.values());
    let (mut less, mut more, mut count) = (vec![0; one.len()], vec![0; one.len()], 0);
    for (at, (&first, &second)) in one.iter().zip(other).enumerate() {
        if let (Some(&one), Some(&other)) = (one.get(at + AHEAD), other.get(at + AHEAD)) {
            fetch(values, one as usize);
            fetch(values, other as usize);
        }
        let (x, y) = (values[first as usize], values[second as usize]);
        let is_first = x.is_lt(y);
        (less[count], more[count]) = if is_first { (first, second) } else { (second, first) };
        let is_known = nulls.is_none_or(|nulls| nulls.is_valid(first as usize) && nulls.is_valid(second as usize));
        // without a branch: which row has more is anybody's guess
        count += usize::from((is_first | y.is_lt(x)) & is_known);
    }
    less.truncate(count);
    more.truncate(count);
    (less, more)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray, TimestampSecondArray,
        UInt64Array,
    };
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_plan::joins::utils::ColumnIndex;

    use super::*;
    use crate::exec::residual::satisfying;

    /// `left.x op right.y`, or the other way round, of columns by these numbers.
    fn comparison(values: &ArrayRef, op: Operator, [first, second]: [(JoinSide, usize); 2]) -> JoinFilter {
        let field = |name: &str| Field::new(name, values.data_type().clone(), true);
        let schema = Schema::new(vec![field("first"), field("second")]);
        let column = |name: &str, at: usize| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
        let expression = Arc::new(BinaryExpr::new(column("first", 0), op, column("second", 1)));
        let indices = [first, second].map(|(side, index)| ColumnIndex { side, index }).to_vec();
        JoinFilter::new(expression, indices, Arc::new(schema))
    }

    const LEFT_FIRST: [(JoinSide, usize); 2] = [(JoinSide::Left, 0), (JoinSide::Right, 0)];
    const RIGHT_FIRST: [(JoinSide, usize); 2] = [(JoinSide::Right, 0), (JoinSide::Left, 0)];

    #[test]
    fn pairs_count_the_way_round_that_the_condition_says() {
        let numbers: Vec<Option<i64>> = vec![Some(3), None, Some(-1), Some(3), Some(i64::MIN), None, Some(7)];
        let decimals = [0, -5, i128::MIN, 100, i128::MAX, 7, 7];
        let sliced = Int64Array::from([vec![None, Some(9)], numbers.clone()].concat()).slice(2, 7);
        let columns: [ArrayRef; 6] = [
            Arc::new(sliced),
            Arc::new(UInt64Array::from(vec![0, u64::MAX, 1 << 63, 5, 5, (1 << 63) - 1, 1])),
            Arc::new(Date32Array::from(vec![
                Some(0),
                Some(-1),
                None,
                Some(i32::MAX),
                Some(3),
                Some(3),
                Some(i32::MIN),
            ])),
            Arc::new(Int64Array::from(numbers.clone())),
            Arc::new(TimestampSecondArray::from(numbers)),
            Arc::new(Decimal128Array::from(decimals.to_vec())),
        ];
        for values in columns {
            let batch = RecordBatch::try_from_iter_with_nullable([("x", Arc::clone(&values), true)]).unwrap();
            // more of them than values are fetched ahead of
            let pairs = (0..7u32).flat_map(|x| (0..x).map(move |y| (x, y)));
            let (one, other): (Vec<u32>, Vec<u32>) = std::iter::repeat_n(pairs, 4).flatten().unzip();
            let both_ways = RowPairs {
                left: one.iter().chain(&other).copied().collect::<Vec<_>>().into(),
                right: other.iter().chain(&one).copied().collect::<Vec<_>>().into(),
            };
            for (op, sides) in [
                (Operator::Lt, LEFT_FIRST),
                (Operator::Gt, LEFT_FIRST),
                (Operator::Lt, RIGHT_FIRST),
                (Operator::Gt, RIGHT_FIRST),
            ] {
                let condition = comparison(&values, op, sides);
                let sorted = |pairs: RowPairs| {
                    let mut pairs: Vec<(u32, u32)> =
                        pairs.left.values().iter().copied().zip(pairs.right.values().iter().copied()).collect();
                    pairs.sort_unstable();
                    pairs
                };
                let expected = satisfying(std::slice::from_ref(&condition), both_ways.clone(), &batch, &batch).unwrap();
                let direction = Direction::among(&[condition]).unwrap();
                let found = sorted(direction.turn(&batch, &one, &other).unwrap());
                assert_eq!(found, sorted(expected), "{} {op} {sides:?}", values.data_type());
                assert!(direction.rest.is_empty() && found.len() > 8);
            }
        }
    }

    #[test]
    fn other_conditions_say_nothing() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0]));
        let differ = comparison(&numbers, Operator::NotEq, LEFT_FIRST);
        let conditions = [
            differ.clone(),
            comparison(&numbers, Operator::LtEq, LEFT_FIRST),
            comparison(&numbers, Operator::Lt, [(JoinSide::Left, 0), (JoinSide::Right, 1)]),
            comparison(&numbers, Operator::Lt, [(JoinSide::Left, 0), (JoinSide::Left, 0)]),
            comparison(&texts, Operator::Lt, LEFT_FIRST),
            comparison(&floats, Operator::Lt, LEFT_FIRST),
        ];
        assert!(Direction::among(&conditions).is_none());
        let direction = Direction::among(&[differ, comparison(&numbers, Operator::Gt, RIGHT_FIRST)]).unwrap();
        assert_eq!((direction.rest.len(), direction.is_less), (1, true));
    }
}
