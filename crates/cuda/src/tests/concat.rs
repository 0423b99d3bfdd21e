//! Batches put together, some columns of which are sent to a device meanwhile.

use arrow::array::Int64Array;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use similarity_engine::metrics::MetricValue;

use super::*;
use arrow::array::{BinaryViewArray, RecordBatch, RecordBatchOptions, StringViewArray};
use similarity_engine::concat::concat_in_parallel;

use crate::prefetch::PinnedPrefetch;
use similarity_engine::accelerator::ColumnPrefetch;

/// More views than caches hold, from where on they are written past them.
const LARGE: usize = 1 << 18;

use crate::memory::Budget;
use crate::test_device::device;

#[test]
fn batches_are_one_after_the_other() {
    let field = |(name, data_type): (&str, DataType)| Field::new(name, data_type, true);
    let fields = [("n", DataType::Int64), ("s", DataType::Utf8View), ("b", DataType::BinaryView)].map(field);
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = |first: i64, rows: i64| {
        let numbers = (first..first + rows).map(|n| (n % 7 > 0).then_some(n));
        let texts = (first..first + rows).map(|n| (n % 5 > 0).then(|| format!("a string of many bytes, {n}")));
        let bytes =
            (first..first + rows).map(|n| Some(format!("{n:0>width$}", width = (n % 30) as usize).into_bytes()));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(numbers.collect::<Int64Array>()),
            Arc::new(texts.collect::<StringViewArray>()),
            Arc::new(bytes.collect::<BinaryViewArray>()),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    // one without long strings, and parts of others
    let batches = [
        batch(0, 30_000),
        batch(30_000, 0),
        batch(30_000, 5000),
        batch(5, 1),
        batch(0, 9000).slice(77, 5000),
        batch(7000, 3000).slice(2999, 1),
    ];
    // and more rows than caches hold
    let many: Vec<RecordBatch> = batches.iter().chain(vec![&batches[0]; 8]).cloned().collect();
    assert!(many.iter().map(RecordBatch::num_rows).sum::<usize>() > LARGE);
    for batches in [&batches[..0], &batches[..1], &batches[..3], &batches, &many] {
        let expected = concat_batches(&schema, batches).unwrap();
        for threads in [1, 2] {
            assert_eq!(concat_in_parallel(&schema, batches, threads, None).unwrap(), expected);
        }
    }
    // and more than a thread sends at once, of columns some of which are sent
    let (device, whole) = (device(), concat_batches(&schema, &many).unwrap());
    for threads in [1, 3] {
        for columns in [&[1][..], &[1, 2]] {
            let sending = PinnedPrefetch::try_new(Budget::new(&device, 0.5), columns, whole.num_rows()).unwrap();
            let together = concat_in_parallel(&schema, &many, threads, Some(&sending)).unwrap();
            assert_eq!(together, whole);
            let views = |metric: &MetricValue| (metric.name() == "device_bytes_in").then(|| metric.as_usize() / 16);
            // a join has no use for columns of bytes
            assert_eq!(Box::new(sending).arrived(&together).metrics().iter().find_map(views), Some(whole.num_rows()));
        }
    }
    let none = Arc::new(Schema::empty());
    let rows = RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&none), vec![], &rows).unwrap();
    assert_eq!(concat_in_parallel(&none, &[batch.clone(), batch], 2, None).unwrap().num_rows(), 6);
}
