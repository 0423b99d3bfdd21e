//! Rows drawn from a build side by their fingerprints, the same as the CPU engine draws.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::error::Result;

use super::atoms::RulesOnDevice;
use crate::fault::Fault;
use crate::kernels::{DrawnRows, Fingerprints};
use crate::wait::wait;

/// How many times as many rows as are wanted there is room for.
const ROOM: usize = 4;

impl RulesOnDevice {
    /// The `count` rows with the least fingerprints of the `rows` rows of the build side, in their order, with these;
    /// of equal ones the first rows. Some more are no greater than `bound`. `None` where no fingerprints were made,
    /// where many rows have the same ones, or where memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn draw(&mut self, rows: usize, count: usize, bound: u64) -> Result<Option<Vec<(u64, u32)>>> {
        let Some(prints) = self.prints.take() else { return Ok(None) };
        let least = |stream: Arc<CudaStream>| {
            self.up_to(&stream, Fingerprints { prints: &prints, rows: rows as u32 }, count, bound).inspect_err(|_| {
                let _ = wait(&stream);
            })
        };
        match self.budget.device.stream().and_then(least) {
            Err(Fault::Memory) => Ok(None),
            found => Ok(found?.map(|mut least| {
                if least.len() > count {
                    least.select_nth_unstable(count);
                    least.truncate(count);
                }
                least.sort_unstable();
                least
            })),
        }
    }

    /// The rows up to a bound, `count` at least.
    fn up_to(
        &self,
        stream: &Arc<CudaStream>,
        prints: Fingerprints<'_>,
        count: usize,
        bound: u64,
    ) -> Result<Option<Vec<(u64, u32)>>, Fault> {
        let (budget, capacity) = (&self.budget, ROOM * count);
        let mut drawn = DrawnRows {
            rows: budget.buffer(stream, capacity)?,
            prints: budget.buffer(stream, capacity)?,
            found: budget.zeros(stream, 1)?,
            capacity: capacity as u64,
        };
        budget.device.kernels().rules()?.drawn(stream, prints, bound, &mut drawn)?;
        let found = budget.fetch(&drawn.found, 0..1)?[0] as usize;
        if found > capacity || found < count.min(prints.rows as usize) {
            return Ok(None);
        }
        let (prints, rows) = (budget.fetch(&drawn.prints, 0..found)?, budget.fetch(&drawn.rows, 0..found)?);
        Ok(Some(prints.into_iter().zip(rows).collect()))
    }
}
