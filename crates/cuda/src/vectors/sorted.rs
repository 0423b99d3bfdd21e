//! The points of one side on the device, ordered along the curve of each group.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::{Framing, upload};
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::vectors::{GROUPED, STEP};
use crate::kernels::{
    BLOCK, Boxes, FramedCondition, Halves, KeyedRows, RowVectors, VectorCondition, VectorPositions, VectorsOnDevice,
};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate, replicate};
use crate::sorted_side::{Family, PackedRows, SortedSide};
use similarity_engine::vectors::points;

/// The filterable rows of one side, one a position.
pub(crate) type SortedPoints = SortedSide<Points>;

/// The rows of a side, of which the filterable ones are brought to the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedPoints<'a> {
    pub(crate) points: &'a points::Points,
    /// Whether there are equality keys.
    pub(crate) grouped: bool,
}

/// How vectors become points of a filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointSigner<'a> {
    pub(crate) framing: &'a Framing,
    pub(crate) condition: VectorCondition,
    /// Whether points are in half precision.
    pub(crate) in_halves: bool,
}

impl PointSigner<'_> {
    fn on_device(&self, stream: &CudaStream) -> FramedCondition {
        FramedCondition { frame: self.framing.on_device(stream), condition: self.condition }
    }
}

/// The points of the filter.
#[derive(Debug)]
enum Filtered {
    Single(Buffer<f32>),
    Half(Box<Halves>),
}

/// The columns of a side.
#[derive(Debug)]
pub(crate) struct Points {
    values: Buffer<f64>,
    positions: VectorPositions,
    filtered: Filtered,
    boxes: Boxes,
}

impl Family for Points {
    type Packed<'a> = PackedPoints<'a>;
    type Signer<'a> = PointSigner<'a>;
    type Rows = RowVectors;
    /// The length of each row.
    type Signatures = Buffer<f64>;
    type Positions = VectorPositions;
    type OnDevice = VectorsOnDevice;

    fn packed(&PackedPoints { points, grouped }: &PackedPoints<'_>) -> PackedRows {
        let rows = &points.filterable;
        PackedRows {
            count: rows.len() as u32,
            last_group: if grouped { rows.groups.iter().max().copied() } else { None },
            unmatchable: points.unmatchable,
        }
    }

    fn key_bits(signer: &PointSigner<'_>) -> u32 {
        signer.framing.key_bits()
    }

    fn upload(budget: &Budget, stream: &Arc<CudaStream>, packed: &PackedPoints<'_>) -> Result<RowVectors, Fault> {
        upload(budget, stream, packed.points, packed.grouped)
    }

    fn room(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &RowVectors,
        _: &PointSigner<'_>,
        count: u32,
    ) -> Result<(Buffer<f64>, VectorPositions), Fault> {
        let padded = count.next_multiple_of(BLOCK);
        let buffer = || budget.buffer(stream, padded as usize);
        let positions = VectorPositions {
            sources: buffer()?,
            rows: buffer()?,
            groups: rows.groups.is_some().then(buffer).transpose()?,
            lengths: budget.buffer(stream, padded as usize)?,
            count,
            padded,
        };
        Ok((budget.buffer(stream, count as usize)?, positions))
    }

    fn sign(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &RowVectors,
        signer: &PointSigner<'_>,
        lengths: &mut Buffer<f64>,
        records: &mut KeyedRows,
    ) -> Result<(), Fault> {
        budget.device.kernels().vectors()?.keys(stream, signer.framing.on_device(stream), rows, lengths, records)
    }

    fn gather(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &RowVectors,
        _: &PointSigner<'_>,
        lengths: &Buffer<f64>,
        order: &Buffer<u32>,
        positions: &mut VectorPositions,
    ) -> Result<(), Fault> {
        budget.device.kernels().vectors()?.gather(stream, rows, lengths, order, positions)
    }

    fn summarise(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: RowVectors,
        signer: &PointSigner<'_>,
        positions: VectorPositions,
        _: u32,
    ) -> Result<Self, Fault> {
        let (by, values) = (signer.on_device(stream), rows.values);
        let filtered = match signer.in_halves {
            true => Filtered::Half(Box::new(halves(budget, stream, by, &values, &positions)?)),
            false => Filtered::Single(single(budget, stream, by, &values, &positions)?),
        };
        let boxes = boxes(budget, stream, by, &values, &positions)?;
        Ok(Self { values, positions, filtered, boxes })
    }

    fn rows(&self) -> &Buffer<u32> {
        &self.positions.rows
    }

    fn on_device(&self, stream: &CudaStream, count: u32) -> VectorsOnDevice {
        let (points, halves) = match &self.filtered {
            Filtered::Single(points) => (Some(points.address(stream)), None),
            Filtered::Half(halves) => (None, Some(halves)),
        };
        VectorsOnDevice {
            values: self.values.address(stream),
            sources: self.positions.sources.address(stream),
            rows: self.positions.rows.address(stream),
            groups: self.positions.groups.as_ref().map(|groups| groups.address(stream)),
            points,
            // the numbers of a lane together
            halves: halves.map(|halves| halves.numbers.address(stream).cast()),
            terms: halves.map(|halves| halves.terms.address(stream)),
            // the bits of numbers
            residues: halves.map(|halves| halves.residues.address(stream).cast()),
            lengths: halves.map(|halves| halves.lengths.address(stream).cast()),
            lows: self.boxes.lows.address(stream),
            highs: self.boxes.highs.address(stream),
            norms: self.boxes.norms.address(stream),
            count,
            unused: 0,
        }
    }
}

fn single(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    by: FramedCondition,
    values: &Buffer<f64>,
    positions: &VectorPositions,
) -> Result<Buffer<f32>, Fault> {
    let mut points = budget.buffer(stream, positions.padded as usize * by.frame.dimension as usize)?;
    if positions.count > 0 {
        budget.device.kernels().vectors()?.points(stream, by.frame, values, positions, &mut points)?;
    }
    Ok(points)
}

fn halves(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    by: FramedCondition,
    values: &Buffer<f64>,
    positions: &VectorPositions,
) -> Result<Halves, Fault> {
    let padded = positions.padded as usize;
    let blocks = padded / BLOCK as usize;
    let mut halves = Halves {
        numbers: budget.buffer(stream, padded * by.frame.dimension.next_multiple_of(STEP) as usize)?,
        terms: budget.buffer(stream, padded)?,
        residues: budget.buffer(stream, blocks)?,
        lengths: budget.buffer(stream, blocks)?,
    };
    if positions.count > 0 {
        budget.device.kernels().vectors()?.halves(stream, by, values, positions, &mut halves)?;
    }
    Ok(halves)
}

fn boxes(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    by: FramedCondition,
    values: &Buffer<f64>,
    positions: &VectorPositions,
) -> Result<Boxes, Fault> {
    let blocks = positions.count.div_ceil(BLOCK);
    let all = (blocks + blocks.div_ceil(GROUPED)) as usize;
    let ends = all * by.condition.width as usize;
    let mut boxes = Boxes {
        lows: budget.buffer(stream, ends)?,
        highs: budget.buffer(stream, ends)?,
        norms: budget.buffer(stream, all)?,
    };
    if positions.count > 0 {
        budget.device.kernels().vectors()?.boxes(stream, by, values, positions, &mut boxes)?;
    }
    Ok(boxes)
}

replicate!(Points { values, positions, filtered, boxes });

impl Replicate for Filtered {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(match self {
            Self::Single(points) => Self::Single(points.replicate(to)?),
            Self::Half(points) => Self::Half(points.replicate(to)?),
        })
    }
}
