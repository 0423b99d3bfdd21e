//! What decides between equal scores: one number for each row.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalSortExpr;

use crate::exec::engine::EngineResult;
use similarity_engine::BuildContext;
use similarity_engine::parallel::sort_in_parallel;

/// The place of each row of `batch` among the different values of `then_by`, 0 where there is none.
pub(super) fn ranks(then_by: &[PhysicalSortExpr], batch: &RecordBatch, context: &BuildContext<'_>) -> Result<Vec<u32>> {
    (context.reserve)(batch.num_rows() * size_of::<u32>()).or_datafusion()?;
    let mut ranks = vec![0; batch.num_rows()];
    // the first of all columns is often a key, which makes the others needless
    let first = &then_by[..then_by.len().min(1)];
    let mut ranked = 0;
    for columns in [first, then_by] {
        if ranked < columns.len() && rank(columns, batch, context, &mut ranks)? == batch.num_rows() {
            break;
        }
        ranked = columns.len();
    }
    Ok(ranks)
}

/// Ranks that are known, reserved.
pub(super) fn copied(ranks: &[u32], context: &BuildContext<'_>) -> Result<Vec<u32>> {
    (context.reserve)(size_of_val(ranks)).or_datafusion()?;
    Ok(ranks.to_vec())
}

/// Ranks the rows and returns how many different values there are.
fn rank(
    then_by: &[PhysicalSortExpr],
    batch: &RecordBatch,
    context: &BuildContext<'_>,
    ranks: &mut [u32],
) -> Result<usize> {
    let values = |tie: &PhysicalSortExpr| tie.expr.evaluate(batch)?.into_array(batch.num_rows());
    let values: Vec<ArrayRef> = then_by.iter().map(values).collect::<Result<_>>()?;
    if let ([only], [tie]) = (values.as_slice(), then_by)
        && in_order(only, tie.options)?
    {
        ranks.iter_mut().zip(0..).for_each(|(rank, row)| *rank = row);
        return Ok(ranks.len());
    }
    let fields = values.iter().zip(then_by);
    let fields = fields.map(|(values, tie)| SortField::new_with_options(values.data_type().clone(), tie.options));
    let rows = RowConverter::new(fields.collect())?.convert_columns(&values)?;
    (context.reserve)(rows.size()).or_datafusion()?;
    (context.reserve)(rows.num_rows() * size_of::<(u128, u32)>()).or_datafusion()?;
    let row = |row: u32| rows.row(row as usize);
    let mut order: Vec<(u128, u32)> = (0..batch.num_rows() as u32).map(|at| (prefix(row(at).as_ref()), at)).collect();
    let compare = |(one, a): &(u128, u32), (other, b): &(u128, u32)| one.cmp(other).then_with(|| row(*a).cmp(&row(*b)));
    sort_in_parallel(&mut order, context.threads, compare);
    let mut rank = 0;
    for (at, one) in order.iter().enumerate() {
        let differs = at > 0 && compare(&order[at - 1], one).is_ne();
        rank += u32::from(differs);
        ranks[one.1 as usize] = rank;
    }
    Ok(if order.is_empty() { 0 } else { rank as usize + 1 })
}

/// The first bytes of a row, which order rows as far as they go.
fn prefix(row: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    let length = row.len().min(bytes.len());
    bytes[..length].copy_from_slice(&row[..length]);
    u128::from_be_bytes(bytes)
}

/// Whether no two values are equal, none is NULL and all stand in order, as those of a key often do.
fn in_order(values: &ArrayRef, options: SortOptions) -> Result<bool> {
    if values.is_empty() || values.null_count() > 0 || values.data_type().is_nested() {
        return Ok(false);
    }
    let (before, after) = (values.slice(0, values.len() - 1), values.slice(1, values.len() - 1));
    let follows = if options.descending { cmp::gt(&before, &after)? } else { cmp::lt(&before, &after)? };
    Ok(follows.true_count() == follows.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, StringArray};
    use datafusion::physical_expr::expressions::Column;

    use super::*;
    use similarity_engine::Cancel;

    #[test]
    fn equal_rows_share_a_rank() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(2), None, Some(1), Some(2), Some(2)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["b", "x", "x", "a", "b"]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let cancel = Cancel::default();
        let context = BuildContext::new(1, &cancel, &|_| Ok(()));
        let by = |name: &str, index, descending, nulls_first| {
            PhysicalSortExpr::new(Arc::new(Column::new(name, index)), SortOptions { descending, nulls_first })
        };
        let ranks = |then_by: &[PhysicalSortExpr]| ranks(then_by, &batch, &context).unwrap();
        assert_eq!(ranks(&[]), [0; 5]);
        assert_eq!(ranks(&[by("n", 0, false, false)]), [1, 2, 0, 1, 1]);
        assert_eq!(ranks(&[by("n", 0, false, false), by("t", 1, false, false)]), [2, 3, 0, 1, 2]);
        assert_eq!(ranks(&[by("n", 0, true, true)]), [1, 0, 2, 1, 1]);
    }

    #[test]
    fn values_in_order_are_their_own_ranks() {
        let options = |descending| SortOptions { descending, nulls_first: false };
        let numbers = |numbers: &[Option<i32>]| Arc::new(Int32Array::from(numbers.to_vec())) as ArrayRef;
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "ba"]));
        assert!(in_order(&texts, options(false)).unwrap() && !in_order(&texts, options(true)).unwrap());
        assert!(in_order(&numbers(&[Some(3), Some(1)]), options(true)).unwrap());
        for none in [&[][..], &[Some(1), Some(1)], &[Some(2), Some(1)], &[Some(1), None]] {
            assert!(!in_order(&numbers(none), options(false)).unwrap(), "{none:?}");
        }
    }
}
