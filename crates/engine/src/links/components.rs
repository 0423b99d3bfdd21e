//! Connected components on the engine that a session asks for.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use arrow::compute::concat;
use arrow::datatypes::DataType;

use super::clustering::{Clustering, Method};
use super::integers::{Ends, IntegerIds};
use super::sink::{LinkChunk, LinkSink, LinkTable};
use crate::accelerator::Accelerator;
use crate::accelerator::components::{DeviceComponents, LinkedIds, PIECE};
use crate::cancel::Cancel;
use crate::choice::Engine;
use crate::error::Result;
use crate::metrics::MetricValue;
use crate::offered::{Declined, Offered};
use crate::offload;
use crate::parallel::{each_in_parallel, in_turn};
use crate::reason::Reason;

/// Links that one engine hands to the other at a time.
const HANDED: usize = 1 << 17;

/// Connected components of links between ids, by the CPU or a device.
///
/// ```text
///            ┌─> CPU ──── its clusters are links, too ───┐
/// links ─────┤        <── the forest of a full device    ├─> each id with the smallest one of its cluster
///            └─> device ─────────────────────────────────┘
/// ```
///
/// A device takes links as they come, and keeps ids and trees of them, but no link. Under `auto` the CPU begins, and a
/// device takes over once there are links enough. A device whose memory is full gives its trees back as links, with
/// which the CPU goes on. Either way the clusters are those of all links.
#[derive(Debug)]
pub struct Components {
    engine: Engine,
    data_type: DataType,
    /// How a device takes the ids, if it does.
    integers: Option<IntegerIds>,
    /// Links that will come, as far as the planner knows.
    expected: u64,
    links: AtomicU64,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    cpu: Clustering,
    /// The device that has the links since it was chosen.
    device: Option<OnDevice>,
    /// A device that was left.
    left: Option<Arc<dyn Accelerator>>,
    /// Whether the engine does not change any more, unless a device's memory is full.
    is_chosen: bool,
    reason: Reason,
}

#[derive(Debug)]
struct OnDevice {
    device: Arc<dyn Accelerator>,
    components: Box<dyn DeviceComponents>,
}

impl Components {
    /// Components without a link yet, between ids of this type; of links that the planner expects so many of.
    ///
    /// # Errors
    /// A type whose values have no order.
    pub fn new(engine: Engine, ids: &DataType, expected: Option<usize>) -> Result<Self> {
        let cpu = Clustering::new(Method::Components, ids)?;
        let pays = engine.platform().and_then(offload::of_components).is_some();
        let integers = IntegerIds::of(ids).filter(|_| pays);
        let is_chosen = integers.is_none();
        let state = State { cpu, device: None, left: None, is_chosen, reason: Reason::default() };
        Ok(Self {
            engine,
            data_type: ids.clone(),
            integers,
            expected: expected.unwrap_or(0) as u64,
            links: AtomicU64::new(0),
            state: RwLock::new(state),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the engine, if so many links are enough for that.
    fn choose(&self, links: u64) -> Result<()> {
        let (Some(integers), false) = (&self.integers, self.read().is_chosen) else { return Ok(()) };
        let Some(pays) = self.engine.platform().and_then(offload::of_components) else { return Ok(()) };
        let (devices, reason) = self.engine.devices(pays, || Ok(links.max(self.expected)))?;
        let mut state = self.write();
        if state.is_chosen {
            return Ok(());
        }
        state.is_chosen = devices.is_some() || reason.declined.is_some();
        state.reason = reason;
        if let Some(devices) = devices {
            let device = devices.one().for_join();
            match device.components(integers.are_signed())? {
                Offered::Taken(components) => state.device = Some(OnDevice { device, components }),
                Offered::Declined(why) => state.reason.declined = Some(why),
            }
        }
        Ok(())
    }

    /// Has the CPU go on with what a device has found so far.
    fn leave(&self, integers: &IntegerIds, why: Declined) -> Result<()> {
        let mut state = self.write();
        // another thread may have met the same
        let Some(OnDevice { device, components }) = state.device.take() else { return Ok(()) };
        hand_over(&components.forest()?, integers, &state.cpu, &Cancel::default())?;
        state.reason.declined = Some(why);
        state.left = Some(device);
        Ok(())
    }
}

impl LinkSink for Components {
    fn add(&self, chunk: &LinkChunk) -> Result<()> {
        let rows = chunk.left.iter().map(|ids| ids.len() as u64).sum();
        self.choose(self.links.fetch_add(rows, Ordering::Relaxed) + rows)?;
        if let Some(integers) = &self.integers {
            let sent = match &self.read().device {
                Some(OnDevice { components, .. }) => Some(link(components.as_ref(), &integers.ends(chunk)?)?),
                None => None,
            };
            match sent {
                Some(Offered::Taken(())) => return Ok(()),
                Some(Offered::Declined(why)) => self.leave(integers, why)?,
                None => {}
            }
        }
        self.read().cpu.add(chunk)
    }

    fn memory(&self) -> usize {
        self.read().cpu.memory()
    }

    fn memory_to_finish(&self) -> usize {
        let state = self.read();
        let fetched = state.device.as_ref().map_or(0, |on| on.components.ids() * size_of::<[u64; 2]>());
        state.cpu.memory_to_finish() + fetched
    }

    fn finish(self: Box<Self>, threads: usize, cancel: &Cancel) -> Result<Box<dyn LinkTable>> {
        // also where no link has come
        self.choose(self.links.load(Ordering::Relaxed))?;
        let Self { data_type, integers, state, .. } = *self;
        let State { cpu, device, left, mut reason, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (table, device) = match (device, integers) {
            (Some(on), Some(integers)) => match finish_on_device(&on, cpu, integers, &data_type, threads, cancel)? {
                (table, None) => {
                    let engine = Some(format!("{}{reason}", on.device.name()));
                    return Ok(Box::new(Placed { table, engine, metrics: on.device.metrics() }));
                }
                (table, Some(why)) => {
                    reason.declined = Some(why);
                    (table, Some(on.device))
                }
            },
            _ => (Box::new(cpu).finish(threads, cancel)?, left),
        };
        let metrics = device.iter().flat_map(|device| device.metrics()).chain(reason.metric()).collect();
        let engine = match (&reason.declined, &reason.weighed) {
            (Some(why), _) => Some(format!("cpu ({why})")),
            (None, Some(weighed)) => Some(format!("cpu ({weighed})")),
            (None, None) => None,
        };
        Ok(Box::new(Placed { table, engine, metrics }))
    }
}

/// The clusters of links on a device and of those that the CPU has had before. Where the device has no memory for them,
/// the CPU finds them, and why comes with them.
fn finish_on_device(
    OnDevice { components, .. }: &OnDevice,
    cpu: Clustering,
    integers: IntegerIds,
    data_type: &DataType,
    threads: usize,
    cancel: &Cancel,
) -> Result<(Box<dyn LinkTable>, Option<Declined>)> {
    let before = if cpu.is_empty() { None } else { Some(Box::new(cpu).finish(threads, cancel)?) };
    let both = match &before {
        Some(before) => link_all(components.as_ref(), before.as_ref(), &integers, threads, cancel)?,
        None => Offered::Taken(()),
    };
    let found = match both {
        Offered::Taken(()) => components.clusters(threads, cancel)?,
        Offered::Declined(why) => Offered::Declined(why),
    };
    match found {
        Offered::Taken(pieces) => Ok((Box::new(FetchedClusters::new(integers, pieces)), None)),
        Offered::Declined(why) => {
            let cpu = Clustering::new(Method::Components, data_type)?;
            hand_over(&components.forest()?, &integers, &cpu, cancel)?;
            if let Some(before) = before {
                let add = |rows: Range<usize>| cpu.add(&links_of(before.as_ref(), rows)?);
                each_part(before.rows(), threads, cancel, add)?;
            }
            Ok((Box::new(cpu).finish(threads, cancel)?, Some(why)))
        }
    }
}

/// Sends links to a device.
fn link(components: &dyn DeviceComponents, ends: &[Ends]) -> Result<Offered<()>> {
    let left: Vec<&[u64]> = ends.iter().map(|ends| &*ends.left).collect();
    let right: Vec<&[u64]> = ends.iter().map(|ends| &*ends.right).collect();
    components.link(&left, &right)
}

/// Sends clusters to a device, as links.
fn link_all(
    components: &dyn DeviceComponents,
    clusters: &dyn LinkTable,
    integers: &IntegerIds,
    threads: usize,
    cancel: &Cancel,
) -> Result<Offered<()>> {
    let send = |rows: Range<usize>| link(components, &integers.ends(&links_of(clusters, rows)?)?);
    let sent = each_part(clusters.rows(), threads, cancel, send)?;
    Ok(sent.into_iter().find(|sent| matches!(sent, Offered::Declined(_))).unwrap_or(Offered::Taken(())))
}

/// Gives the CPU what a device has found.
fn hand_over(forest: &[LinkedIds], integers: &IntegerIds, cpu: &Clustering, cancel: &Cancel) -> Result<()> {
    let chunks = forest.iter().flat_map(|LinkedIds { ids, others }| ids.chunks(HANDED).zip(others.chunks(HANDED)));
    let add = |(ids, others): (&[u64], &[u64])| {
        cancel.check()?;
        let array = |bits: &[u64]| integers.array(bits.to_vec().into());
        cpu.add(&LinkChunk { left: vec![array(ids)?], right: vec![array(others)?], scores: vec![] })
    };
    each_in_parallel(chunks, add).into_iter().collect()
}

/// Some clusters as links of each id with the smallest one of its cluster.
fn links_of(clusters: &dyn LinkTable, rows: Range<usize>) -> Result<LinkChunk> {
    let mut columns = clusters.columns(rows)?;
    let right = columns.split_off(columns.len() / 2);
    Ok(LinkChunk { left: columns, right, scores: vec![] })
}

/// Results of `work` on parts of `0..rows`, until it is cancelled.
fn each_part<T: Send>(
    rows: usize,
    threads: usize,
    cancel: &Cancel,
    work: impl Fn(Range<usize>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    in_turn(rows.div_ceil(HANDED), threads, |part| {
        cancel.check()?;
        work(part * HANDED..rows.min((part + 1) * HANDED))
    })
}

/// Clusters with what is known of the engine that has found them.
#[derive(Debug)]
struct Placed {
    table: Box<dyn LinkTable>,
    engine: Option<String>,
    metrics: Vec<MetricValue>,
}

impl LinkTable for Placed {
    fn rows(&self) -> usize {
        self.table.rows()
    }

    fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        self.table.columns(rows)
    }

    fn engine(&self) -> Option<&str> {
        self.engine.as_deref()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.metrics.clone()
    }
}

/// Clusters that were fetched from a device.
#[derive(Debug)]
struct FetchedClusters {
    integers: IntegerIds,
    rows: usize,
    /// The ids and those of their clusters, in pieces of [`PIECE`] rows.
    pieces: Vec<[ScalarBuffer<u64>; 2]>,
}

impl FetchedClusters {
    fn new(integers: IntegerIds, pieces: Vec<LinkedIds>) -> Self {
        let rows = pieces.iter().map(|piece| piece.ids.len()).sum();
        let pieces = pieces.into_iter().map(|LinkedIds { ids, others }| [ids.into(), others.into()]).collect();
        Self { integers, rows, pieces }
    }

    fn column(&self, at: usize, rows: &Range<usize>) -> Result<ArrayRef> {
        let pieces = rows.start / PIECE..rows.end.div_ceil(PIECE);
        let parts = pieces.map(|piece| {
            let first = piece * PIECE;
            let (start, end) = (rows.start.max(first) - first, rows.end.min(first + PIECE) - first);
            self.integers.array(self.pieces[piece][at].slice(start, end - start))
        });
        let parts = parts.collect::<Result<Vec<ArrayRef>>>()?;
        match parts.as_slice() {
            [] => self.integers.array(ScalarBuffer::default()),
            [part] => Ok(Arc::clone(part)),
            parts => Ok(concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>())?),
        }
    }
}

impl LinkTable for FetchedClusters {
    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.column(0, &rows)?, self.column(1, &rows)?])
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;

    use super::*;

    #[test]
    fn rows_may_be_of_several_pieces() {
        let end = 2 * PIECE + 5;
        let pieces = (0..end).step_by(PIECE).map(|first| {
            let ids = first as u64..end.min(first + PIECE) as u64;
            LinkedIds { others: ids.clone().map(|id| id / 2).collect(), ids: ids.collect() }
        });
        let table = FetchedClusters::new(IntegerIds::of(&DataType::UInt64).unwrap(), pieces.collect());
        assert_eq!(table.rows(), end);
        for rows in [0..0, 0..10, PIECE - 3..PIECE + 4, PIECE..2 * PIECE, PIECE - 1..end, 7..7, end..end] {
            let columns = table.columns(rows.clone()).unwrap();
            let expected = rows.map(|row| row as u64);
            assert!(columns[0].as_primitive::<UInt64Type>().values().iter().copied().eq(expected.clone()));
            assert!(columns[1].as_primitive::<UInt64Type>().values().iter().copied().eq(expected.map(|id| id / 2)));
        }
    }

    #[test]
    fn a_session_without_a_device_uses_the_cpu() {
        let ids: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![Some(3), None, Some(5)]));
        let sink = Box::new(Components::new(Engine::Cpu, &DataType::Int32, Some(usize::MAX)).unwrap());
        sink.add(&LinkChunk { left: vec![Arc::clone(&ids)], right: vec![ids], scores: vec![] }).unwrap();
        let found = sink.finish(1, &Cancel::default()).unwrap();
        assert_eq!((found.rows(), found.engine(), found.metrics().len()), (2, None, 0));
    }
}
