//! The vectors of one side on their way to the device.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::vectors::MOST_CURVED;
use crate::kernels::{FrameOnDevice, RowVectors};
use crate::memory::Budget;
use crate::replicate::replicate;
use crate::wait::wait;
use similarity_engine::vectors::frame::Frame;
use similarity_engine::vectors::points::Points;

/// A copy of the filterable rows of `points` on the device, with their groups where the join has equality keys.
pub(super) fn upload(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    points: &Points,
    grouped: bool,
) -> Result<RowVectors, Fault> {
    let rows = &points.filterable;
    let count = rows.len() as u32;
    let (values, sources) = match points.vectors.matrix(points.dimension) {
        Some(matrix) => (budget.upload(stream, matrix)?, None),
        None => {
            let packed: Vec<f64> = (0..rows.len()).flat_map(|at| points.filterable(at)).copied().collect();
            let places: Vec<u32> = (0..count).collect();
            (budget.upload(stream, &packed)?, Some(budget.upload(stream, &places)?))
        }
    };
    let groups = grouped.then(|| budget.upload(stream, &rows.groups)).transpose()?;
    Ok(RowVectors { values, sources, rows: budget.upload(stream, &rows.rows)?, groups, count })
}

/// Bits of a place on the curve, without groups and with them.
const CURVE_BITS: [u32; 2] = [40, 32];
/// Bits of a dimension at most.
const MOST_BITS: u32 = 31;

/// How vectors become points, on the device.
#[derive(Debug)]
pub(crate) struct Framing {
    order: Buffer<u32>,
    centre: Buffer<f64>,
    first: Buffer<f64>,
    cells: Buffer<f64>,
    dimension: u32,
    curved: u32,
    bits: u32,
    unit: bool,
}

impl Framing {
    /// The frame of a build side, and the curve through its points.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        frame: &Frame,
        points: &Points,
        grouped: bool,
    ) -> Result<Self, Fault> {
        let curved = points.dimension.min(MOST_CURVED as usize);
        let bits = (CURVE_BITS[usize::from(grouped)] / curved.max(1) as u32).min(MOST_BITS);
        let (mut first, mut cells) = (Vec::new(), Vec::new());
        for (low, high) in frame.extents(points, curved) {
            let to_a_unit = f64::from(1u32 << bits) / (high - low);
            first.push(if low.is_finite() { low } else { 0.0 });
            cells.push(if to_a_unit.is_finite() { to_a_unit } else { 0.0 });
        }
        let order: Vec<u32> = frame.order().iter().map(|&k| k as u32).collect();
        let framing = Self {
            order: budget.upload(stream, &order)?,
            centre: budget.upload(stream, frame.centre())?,
            first: budget.upload(stream, &first)?,
            cells: budget.upload(stream, &cells)?,
            dimension: points.dimension as u32,
            curved: curved as u32,
            bits,
            unit: frame.is_unit(),
        };
        wait(stream)?;
        Ok(framing)
    }

    /// Bits of a place on the curve.
    pub(super) fn key_bits(&self) -> u32 {
        self.curved * self.bits
    }

    /// Frame as kernels read it, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> FrameOnDevice {
        FrameOnDevice {
            order: self.order.address(stream),
            centre: self.centre.address(stream),
            first: self.first.address(stream),
            cells: self.cells.address(stream),
            dimension: self.dimension,
            curved: self.curved,
            bits: self.bits,
            unit: u32::from(self.unit),
        }
    }
}

replicate!(Framing { order, centre, first, cells; same dimension, curved, bits, unit });
