//! Times a ranking of vectors that may miss neighbours, and an exact one, build included.
//!
//! ```text
//! approximate <base> <queries> <dimension> <k> <recall> <threads> [<exact neighbours>]
//! ```
//!
//! Both files hold vectors one after the other, in single precision. The numbers of the exact neighbours are written as
//! 32-bit integers; where that file is there already, it is read instead. `benches/approximate.py` makes the vectors
//! and runs other tools on them.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{FixedSizeListArray, Float32Array};
use arrow::datatypes::{DataType, Field};
use similarity_engine::condition::{Condition, VectorCondition};
use similarity_engine::nearest::{Best, DynNearestIndex, Wanted};
use similarity_engine::recall::Recall;
use similarity_engine::{BuildContext, Cancel, KeyColumn, PrepareContext, Probe, cpu};
use similarity_measures::VectorMeasure;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, queries, dimension, k, recall, threads, exact @ ..] = arguments.as_slice() else {
        return Err("six or seven arguments, see the head of this file".into());
    };
    let (dimension, rows, threads): (usize, usize, usize) = (dimension.parse()?, k.parse()?, threads.parse()?);
    let recall = Recall::new(recall.parse()?).ok_or("a recall is above 0 and at most 1")?;
    let (base, queries) = (vectors(base, dimension)?, vectors(queries, dimension)?);
    let wanted = Wanted { rows, ties: false };
    let exact_neighbours: Vec<u32> = match exact {
        [path, ..] if std::fs::exists(path)? => {
            std::fs::read(path)?.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
        }
        _ => {
            let found = ranked("exact", (&base, &queries), None, wanted, threads)?;
            if let [path, ..] = exact {
                std::fs::write(path, found.iter().flat_map(|row| row.to_le_bytes()).collect::<Vec<u8>>())?;
            }
            found
        }
    };
    let found = ranked("approximate", (&base, &queries), Some(recall), wanted, threads)?;
    let among = |(found, exact): (&[u32], &[u32])| found.iter().filter(|row| exact.contains(row)).count();
    let hits: usize = found.chunks(rows).zip(exact_neighbours.chunks(rows)).map(among).sum();
    println!("recall {:.4}", hits as f64 / exact_neighbours.len() as f64);
    Ok(())
}

/// The vectors in a file.
fn vectors(path: &str, dimension: usize) -> Result<KeyColumn, Failure> {
    let numbers: Float32Array = std::fs::read(path)?
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect::<Vec<_>>()
        .into();
    let field = Arc::new(Field::new_list_field(DataType::Float32, false));
    let lists = FixedSizeListArray::try_new(field, i32::try_from(dimension)?, Arc::new(numbers), None)?;
    Ok(KeyColumn { values: Arc::new(lists), groups: None })
}

/// The neighbours of each query, one query after the other.
fn ranked(
    name: &str,
    (base, queries): (&KeyColumn, &KeyColumn),
    recall: Option<Recall>,
    wanted: Wanted,
    threads: usize,
) -> Result<Vec<u32>, Failure> {
    let (never, start) = (Cancel::default(), Instant::now());
    let reserve = |_| Ok(());
    let context =
        BuildContext { recall, probe_rows: Some(queries.values.len()), ..BuildContext::new(threads, &never, &reserve) };
    let ranks = (0..base.values.len() as u32).collect();
    let condition = Condition::Vector(VectorCondition::every_score(VectorMeasure::L2));
    let index = cpu::build_approximate(&condition.into(), base, ranks, wanted, &context)?;
    let built = start.elapsed();
    let batch = index.prepare(queries, &PrepareContext { threads, cancel: &never })?.batch;
    let prepared = start.elapsed() - built;
    let probe = Probe::Batch(&batch);
    let order = index.order(probe)?;
    let positions: Vec<u32> = (0..order.len() as u32).collect();
    let mut found = vec![0; queries.values.len() * wanted.rows];
    let at_once = index.positions_at_once(probe, wanted.rows)?;
    std::thread::scope(|scope| {
        let share = positions.len().div_ceil(threads);
        let search = |share| neighbours(index.as_ref(), probe, share, at_once, wanted);
        let shares: Vec<_> = positions.chunks(share).map(|share| scope.spawn(move || search(share))).collect();
        for (share, positions) in shares.into_iter().zip(positions.chunks(share)) {
            let rows = share.join().map_err(|_| "a search has failed")?;
            for (rows, &position) in rows.iter().zip(positions) {
                let to = order[position as usize] as usize * wanted.rows;
                found[to..to + rows.len()].copy_from_slice(rows);
            }
        }
        Ok::<_, Failure>(())
    })?;
    let all = start.elapsed();
    println!("{name}: {}", index.info().path);
    println!("{name}: {all:.2?}, of that build {built:.2?}, sample {prepared:.2?}");
    for metric in index.metrics() {
        println!("{name}: {} {}", metric.name(), metric.as_usize());
    }
    Ok(found)
}

/// The neighbours of the rows at some positions.
fn neighbours(
    index: &DynNearestIndex,
    probe: Probe<'_, similarity_engine::AnyBatch>,
    positions: &[u32],
    at_once: usize,
    wanted: Wanted,
) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for some in positions.chunks(at_once) {
        let mut best: Vec<_> = some.iter().map(|_| Best::new(wanted)).collect();
        // a search on the CPU does not fail
        let _ = index.nearest(probe, some, &mut best, &Cancel::default());
        let mut found = Vec::new();
        for best in &mut best {
            best.take_into(&mut found);
            all.push(found.drain(..).map(|neighbour| neighbour.row).collect());
        }
    }
    all
}
