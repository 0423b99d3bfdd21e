//! Launches of the kernels of `vectors.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DriverError};

use super::generated::constants::vector_measure::{CHEBYSHEV, EUCLIDEAN, MANHATTAN, PRODUCTS};
use super::generated::constants::vectors::GROUPED;
use super::generated::vector_measure::VectorCondition;
use super::generated::vectors::{Frame, Kernels, Vectors};
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, KeyedRows, Positions, TaskList, multiprocessors};
use crate::buffer::Buffer;
use crate::context::DeviceContext;
use crate::replicate::replicate;

/// The kernels of `vectors.cu`.
pub(crate) struct VectorKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// How vectors become points, and what is asked of these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FramedCondition {
    pub(crate) frame: Frame,
    pub(crate) condition: VectorCondition,
}

/// The vectors of a side in the order of its rows.
pub(crate) struct RowVectors {
    pub(crate) values: Buffer<f64>,
    /// Where a row's vector is among `values`, in vectors; none where that is the row number.
    pub(crate) sources: Option<Buffer<u32>>,
    /// The row numbers.
    pub(crate) rows: Buffer<u32>,
    /// None where all rows are of one group.
    pub(crate) groups: Option<Buffer<u32>>,
    pub(crate) count: u32,
}

impl RowVectors {
    fn sources(&self) -> &Buffer<u32> {
        self.sources.as_ref().unwrap_or(&self.rows)
    }
}

/// The columns of a side by position.
#[derive(Debug)]
pub(crate) struct VectorPositions {
    pub(crate) sources: Buffer<u32>,
    pub(crate) rows: Buffer<u32>,
    pub(crate) groups: Option<Buffer<u32>>,
    pub(crate) lengths: Buffer<f64>,
    /// Positions with vectors, and all in whole blocks.
    pub(crate) count: u32,
    pub(crate) padded: u32,
}

/// Points in half precision.
#[derive(Debug)]
pub(crate) struct Halves {
    pub(crate) numbers: Buffer<u16>,
    pub(crate) terms: Buffer<f32>,
    /// The largest residue and length of each block, as the bits of numbers in single precision.
    pub(crate) residues: Buffer<u32>,
    pub(crate) lengths: Buffer<u32>,
}

/// Boxes around blocks of points and around blocks of blocks.
#[derive(Debug)]
pub(crate) struct Boxes {
    pub(crate) lows: Buffer<f32>,
    pub(crate) highs: Buffer<f32>,
    pub(crate) norms: Buffer<f32>,
}

/// For each probe block the first and one past the last near build block, and how many are near.
pub(crate) struct NearRanges {
    pub(crate) firsts: Buffer<u32>,
    pub(crate) ends: Buffer<u32>,
    pub(crate) counts: Buffer<u32>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(crate) struct VectorSides {
    pub(crate) probe: Vectors,
    pub(crate) build: Vectors,
    pub(crate) condition: VectorCondition,
    /// Whether both are one side.
    pub(crate) self_join: bool,
}

replicate!(VectorPositions { sources, rows, groups, lengths; same count, padded });
replicate!(Halves { numbers, terms, residues, lengths });
replicate!(Boxes { lows, highs, norms });

impl VectorKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 16 * multiprocessors(context)? })
    }

    /// The length and the sort key of each row.
    pub(crate) fn keys(
        &self,
        stream: &CudaStream,
        frame: Frame,
        rows: &RowVectors,
        lengths: &mut Buffer<f64>,
        records: &mut KeyedRows,
    ) -> Launched {
        // SAFETY: every output has an entry a row.
        unsafe {
            self.kernels.vector_keys(
                stream,
                Grid::Items(rows.count.into()),
                frame,
                rows.values.address(stream),
                rows.sources().address(stream),
                rows.groups.as_ref().map(|groups| groups.address(stream)),
                rows.count,
                lengths.address_mut(stream),
                records.keys.address_mut(stream),
                records.rows.address_mut(stream),
            )
        }
    }

    /// Columns in the order of `order`.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        rows: &RowVectors,
        lengths: &Buffer<f64>,
        order: &Buffer<u32>,
        out: &mut VectorPositions,
    ) -> Launched {
        // SAFETY: every output has `padded` positions, and both sides have groups or neither has.
        unsafe {
            self.kernels.vector_gather(
                stream,
                Grid::Items(out.padded.into()),
                order.address(stream),
                out.count,
                out.padded,
                rows.sources().address(stream),
                rows.rows.address(stream),
                rows.groups.as_ref().map(|groups| groups.address(stream)),
                lengths.address(stream),
                out.sources.address_mut(stream),
                out.rows.address_mut(stream),
                out.groups.as_mut().map(|groups| groups.address_mut(stream)),
                out.lengths.address_mut(stream),
            )
        }
    }

    /// Points in single precision.
    pub(crate) fn points(
        &self,
        stream: &CudaStream,
        frame: Frame,
        values: &Buffer<f64>,
        positions: &VectorPositions,
        points: &mut Buffer<f32>,
    ) -> Launched {
        let numbers = u64::from(positions.padded) * u64::from(frame.dimension);
        // SAFETY: `points` has all numbers of all positions.
        unsafe {
            self.kernels.vector_points(
                stream,
                Grid::Items(numbers),
                frame,
                values.address(stream),
                positions.sources.address(stream),
                positions.lengths.address(stream),
                positions.count,
                positions.padded,
                points.address_mut(stream),
            )
        }
    }

    /// Points in half precision.
    pub(crate) fn halves(
        &self,
        stream: &Arc<CudaStream>,
        FramedCondition { frame, condition }: FramedCondition,
        values: &Buffer<f64>,
        positions: &VectorPositions,
        out: &mut Halves,
    ) -> Launched {
        stream.memset_zeros(&mut out.residues.slice)?;
        stream.memset_zeros(&mut out.lengths.slice)?;
        // SAFETY: the outputs have all positions and blocks.
        unsafe {
            self.kernels.vector_halves(
                stream,
                Grid::Items(positions.padded.into()),
                frame,
                values.address(stream),
                positions.sources.address(stream),
                positions.lengths.address(stream),
                positions.count,
                positions.padded,
                (condition.metric == PRODUCTS).into(),
                condition.scale,
                out.numbers.address_mut(stream),
                out.terms.address_mut(stream),
                out.residues.address_mut(stream),
                out.lengths.address_mut(stream),
            )
        }
    }

    /// Boxes of blocks, and of blocks of these.
    pub(crate) fn boxes(
        &self,
        stream: &CudaStream,
        FramedCondition { frame, condition }: FramedCondition,
        values: &Buffer<f64>,
        positions: &VectorPositions,
        out: &mut Boxes,
    ) -> Launched {
        let blocks = positions.count.div_ceil(BLOCK);
        let (lows, highs) = (out.lows.address_mut(stream), out.highs.address_mut(stream));
        let norms = out.norms.address_mut(stream);
        // SAFETY: the outputs have all boxes.
        unsafe {
            self.kernels.vector_boxes(
                stream,
                Grid::Warps(blocks),
                frame,
                values.address(stream),
                positions.sources.address(stream),
                positions.lengths.address(stream),
                positions.count,
                condition.metric,
                condition.width,
                lows,
                highs,
                norms,
            )
        }?;
        let grid = Grid::Warps(blocks.div_ceil(GROUPED));
        // SAFETY: as above.
        unsafe { self.kernels.vector_outer_boxes(stream, grid, positions.count, condition.width, lows, highs, norms) }
    }

    /// Which build blocks are near each of `blocks` probe blocks.
    pub(crate) fn reach(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        blocks: u32,
        out: &mut NearRanges,
    ) -> Launched {
        // SAFETY: the outputs have an entry a block, and the addresses are of live columns.
        unsafe {
            self.kernels.vector_reach(
                stream,
                Grid::Warps(blocks),
                sides.probe,
                sides.build,
                sides.condition,
                sides.self_join.into(),
                out.firsts.address_mut(stream),
                out.ends.address_mut(stream),
                out.counts.address_mut(stream),
            )
        }
    }

    /// Appends the positions of pairs that the filter cannot tell from matches, for some probe positions; in half
    /// precision where both sides have such points.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        tasks: TaskList<'_>,
        positions: Positions,
        out: &mut Appended<'_>,
    ) -> Launched {
        let filter = match sides.condition.metric {
            _ if sides.build.halves.is_some() => Kernels::vector_filter_halves,
            MANHATTAN => Kernels::vector_filter_l1,
            EUCLIDEAN => Kernels::vector_filter_l2,
            CHEBYSHEV => Kernels::vector_filter_linf,
            _ => Kernels::vector_filter_product,
        };
        // SAFETY: the addresses are of live columns.
        unsafe {
            filter(
                &self.kernels,
                stream,
                tasks.grid(),
                sides.probe,
                sides.build,
                sides.condition,
                tasks.on_device.address(stream),
                sides.self_join.into(),
                positions.begin,
                positions.end,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Appends the row numbers of the candidates whose differences, each to a power, have no larger sum than `most`.
    pub(crate) fn verify_powers(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        (power, most): (f64, f64),
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        // SAFETY: the threads share whatever number of candidates there is, and the addresses are of live columns.
        unsafe {
            self.kernels.vector_verify_powers(
                stream,
                Grid::Blocks(self.blocks),
                sides.probe,
                sides.build,
                sides.condition.dimension,
                power,
                most,
                candidates.pairs.address(stream),
                candidates.count.address(stream),
                candidates.capacity,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Appends the row numbers of the candidates that match.
    pub(crate) fn verify(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        // SAFETY: the threads share whatever number of candidates there is, and the addresses are of live columns.
        unsafe {
            self.kernels.vector_verify(
                stream,
                Grid::Blocks(self.blocks),
                sides.probe,
                sides.build,
                sides.condition,
                candidates.pairs.address(stream),
                candidates.count.address(stream),
                candidates.capacity,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }
}
