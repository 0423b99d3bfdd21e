//! Random projections of vectors, one band of them to a key.

use similarity_measures::random::Random;

use crate::cpu::lsh::{Bands, key};
use crate::cpu::registers::{self, Loop};
use crate::error::Result;
use crate::stored::{Sink, Source, Store, Stored};

/// Projections that are computed at once.
const LANES: usize = 32;

/// What is kept of a projection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rounding {
    /// Whether it is positive.
    Sign,
    /// Which slot of this width it falls into.
    Slot { width: f32 },
}

/// The projections of some bands.
#[derive(Debug)]
pub(super) struct Projections {
    bands: Bands,
    rounding: Rounding,
    dimension: usize,
    /// Group by group of [`LANES`] projections, dimension by dimension.
    directions: Vec<[f32; LANES]>,
    /// Where the slots of each projection start, as a share of the width.
    starts: Vec<f32>,
}

/// Which projections they are is written; these are always the same.
impl Store for Projections {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.bands.store(sink)?;
        self.dimension.store(sink)?;
        match self.rounding {
            Rounding::Sign => None,
            Rounding::Slot { width } => Some(width),
        }
        .store(sink)
    }
}

impl Stored for Projections {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let (bands, dimension) = (Stored::load(source)?, Stored::load(source)?);
        let rounding = match Stored::load(source)? {
            Some(width) => Rounding::Slot { width },
            None => Rounding::Sign,
        };
        Ok(Self::new(bands, dimension, rounding))
    }
}

impl Projections {
    pub(super) fn new(bands: Bands, dimension: usize, rounding: Rounding) -> Self {
        let groups = bands.all_hashes().div_ceil(LANES);
        let mut random = Random::new(0, 1);
        let directions = (0..groups * dimension).map(|_| std::array::from_fn(|_| random.normal() as f32)).collect();
        let starts = (0..groups * LANES).map(|_| random.uniform() as f32).collect();
        Self { bands, rounding, dimension, directions, starts }
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&self.directions[..]) + size_of_val(&self.starts[..])
    }

    /// Writes a key for each band of a vector of a group.
    pub(super) fn keys(&self, vector: &[f64], group: u32, projected: &mut Vec<f32>, keys: &mut [u32]) {
        projected.clear();
        // of the length of the whole the side of a plane does not depend
        let scale = match self.rounding {
            Rounding::Sign => 1.0 / vector.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs())),
            Rounding::Slot { .. } => 1.0,
        };
        projected.resize(self.starts.len() + self.dimension, 0.0);
        let (narrow, projected) = projected.split_at_mut(self.dimension);
        narrow.iter_mut().zip(vector).for_each(|(narrow, &wide)| *narrow = (wide * scale) as f32);
        registers::run(Project { directions: &self.directions, vector: narrow, projected });
        let hashes = self.bands.hashes;
        for (band, own) in keys.iter_mut().enumerate() {
            let places = band * hashes..(band + 1) * hashes;
            let rounded = places.map(|place| match self.rounding {
                Rounding::Sign => u32::from(projected[place] > 0.0),
                Rounding::Slot { width } => (projected[place] / width + self.starts[place]).floor() as i32 as u32,
            });
            *own = key(group, rounded);
        }
    }
}

/// The products of a vector with some directions.
struct Project<'a> {
    directions: &'a [[f32; LANES]],
    vector: &'a [f32],
    projected: &'a mut [f32],
}

impl Loop for Project<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let groups = self.directions.chunks_exact(self.vector.len());
        for (directions, projected) in groups.zip(self.projected.as_chunks_mut::<LANES>().0) {
            let mut sums = [0.0; LANES];
            for (x, direction) in self.vector.iter().zip(directions) {
                for lane in 0..LANES {
                    sums[lane] =
                        if FUSED { x.mul_add(direction[lane], sums[lane]) } else { sums[lane] + x * direction[lane] };
                }
            }
            *projected = sums;
        }
    }
}
