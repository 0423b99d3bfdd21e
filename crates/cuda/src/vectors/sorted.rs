//! The points of one side on the device, in the order in which blocks of them are compared.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::{Framing, upload};
use crate::block_ranges::BLOCK;
use crate::fault::Fault;
use crate::kernels::{
    Boxes, FrameOnDevice, Halves, RowKeys, RowVectors, VectorCondition, VectorPositions, VectorsOnDevice,
};
use crate::memory::{Budget, Buffer};
use crate::sort::sort;
use crate::tiled_index::Side;
use similarity_engine::vectors::points::Points;

/// Numbers of a point that a step of a matrix product takes, `STEP` of `kernels/vectors.cuh`.
const STEP: usize = 16;
/// Blocks in an outer box, `GROUPED` of `kernels/vectors.cuh`.
const GROUPED: u32 = 64;

/// The points of the filter.
#[derive(Debug)]
enum Filtered {
    Single(Buffer<f32>),
    Half(Box<Halves>),
}

/// The filterable rows of one side, one a position, along the curve of each group.
#[derive(Debug)]
pub(crate) struct SortedPoints {
    values: Buffer<f64>,
    positions: VectorPositions,
    filtered: Filtered,
    boxes: Boxes,
    pub(super) count: u32,
}

impl Side for SortedPoints {
    fn count(&self) -> u32 {
        self.count
    }

    fn rows(&self, budget: &Budget, positions: Range<usize>) -> Result<Vec<u32>, Fault> {
        budget.fetch(&self.positions.rows, positions)
    }
}

impl SortedPoints {
    /// Uploads the filterable rows of `points` and puts them into order; in half precision where asked for.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (points, grouped): (&Points, bool),
        framing: &Framing,
        (condition, in_halves): (&VectorCondition, bool),
    ) -> Result<Self, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let rows = upload(budget, stream, points, grouped)?;
        let frame = framing.on_device(stream);
        let last = if grouped { points.filterable.groups.iter().max() } else { None };
        let groups = last.map_or(0, |&last| u32::BITS - last.leading_zeros());
        let positions = order(budget, stream, &frame, &rows, framing.key_bits() + groups)?;
        let values = rows.values;
        let filtered = match in_halves {
            true => Filtered::Half(Box::new(halves(budget, stream, (&frame, condition), &values, &positions)?)),
            false => Filtered::Single(single(budget, stream, &frame, &values, &positions)?),
        };
        let boxes = boxes(budget, stream, (&frame, condition), &values, &positions)?;
        stream.synchronize()?;
        let count = positions.count;
        Ok(Self { values, positions, filtered, boxes, count })
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u32 {
        self.count.div_ceil(BLOCK)
    }

    /// The columns as kernels read them, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> VectorsOnDevice {
        let (points, halves) = match &self.filtered {
            Filtered::Single(points) => (points.address(stream), None),
            Filtered::Half(halves) => (0, Some(halves)),
        };
        VectorsOnDevice {
            values: self.values.address(stream),
            sources: self.positions.sources.address(stream),
            rows: self.positions.rows.address(stream),
            groups: self.positions.groups.as_ref().map_or(0, |groups| groups.address(stream)),
            points,
            halves: halves.map_or(0, |halves| halves.numbers.address(stream)),
            terms: halves.map_or(0, |halves| halves.terms.address(stream)),
            residues: halves.map_or(0, |halves| halves.residues.address(stream)),
            lengths: halves.map_or(0, |halves| halves.lengths.address(stream)),
            lows: self.boxes.lows.address(stream),
            highs: self.boxes.highs.address(stream),
            norms: self.boxes.norms.address(stream),
            count: self.count,
            unused: 0,
        }
    }
}

/// Positions along the curve, by keys of so many bits.
fn order(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    frame: &FrameOnDevice,
    rows: &RowVectors,
    bits: u32,
) -> Result<VectorPositions, Fault> {
    let (kernels, count) = (budget.device.vectors()?, rows.count);
    let padded = count.next_multiple_of(BLOCK);
    let mut keys = RowKeys {
        lengths: budget.buffer(stream, count as usize)?,
        keys: budget.buffer(stream, count as usize)?,
        order: budget.buffer(stream, count as usize)?,
    };
    let buffer = || budget.buffer(stream, padded as usize);
    let mut positions = VectorPositions {
        sources: buffer()?,
        rows: buffer()?,
        groups: rows.groups.is_some().then(buffer).transpose()?,
        lengths: budget.buffer(stream, padded as usize)?,
        count,
        padded,
    };
    if count > 0 {
        kernels.keys(stream, frame, rows, &mut keys)?;
        let (_, order) = sort(budget, stream, keys.keys, keys.order, count, bits)?;
        kernels.gather(stream, rows, &keys.lengths, &order, &mut positions)?;
    }
    Ok(positions)
}

fn single(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    frame: &FrameOnDevice,
    values: &Buffer<f64>,
    positions: &VectorPositions,
) -> Result<Buffer<f32>, Fault> {
    let mut points = budget.buffer(stream, positions.padded as usize * frame.dimension as usize)?;
    if positions.count > 0 {
        budget.device.vectors()?.points(stream, frame, values, positions, &mut points)?;
    }
    Ok(points)
}

fn halves(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    by: (&FrameOnDevice, &VectorCondition),
    values: &Buffer<f64>,
    positions: &VectorPositions,
) -> Result<Halves, Fault> {
    let padded = positions.padded as usize;
    let blocks = padded / BLOCK as usize;
    let mut halves = Halves {
        numbers: budget.buffer(stream, padded * (by.0.dimension as usize).next_multiple_of(STEP))?,
        terms: budget.buffer(stream, padded)?,
        residues: budget.buffer(stream, blocks)?,
        lengths: budget.buffer(stream, blocks)?,
    };
    if positions.count > 0 {
        budget.device.vectors()?.halves(stream, by, values, positions, &mut halves)?;
    }
    Ok(halves)
}

fn boxes(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    by: (&FrameOnDevice, &VectorCondition),
    values: &Buffer<f64>,
    positions: &VectorPositions,
) -> Result<Boxes, Fault> {
    let blocks = positions.count.div_ceil(BLOCK);
    let all = (blocks + blocks.div_ceil(GROUPED)) as usize;
    let ends = all * by.1.width as usize;
    let mut boxes = Boxes {
        lows: budget.buffer(stream, ends)?,
        highs: budget.buffer(stream, ends)?,
        norms: budget.buffer(stream, all)?,
    };
    if positions.count > 0 {
        budget.device.vectors()?.boxes(stream, by, values, positions, &mut boxes)?;
    }
    Ok(boxes)
}
