//! A number for each row, on a device.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::NO_GROUP;
use similarity_engine::accelerator::numbers::DeviceNumbers;
use similarity_engine::equality::Codes;
use similarity_engine::error::{Error, Result};

use super::origin::Origin;
use crate::address::Address;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate};
use crate::wait::wait;

/// More have no room for the end of their last tile in 32 bits.
pub(super) const MOST_ROWS: usize = u32::MAX as usize - (1 << 13);

/// Whether some column has more rows than a device numbers, given how many each has.
pub(super) fn are_too_many(mut rows: impl Iterator<Item = usize>) -> bool {
    rows.any(|rows| rows > MOST_ROWS)
}

/// What `work` does on a stream of its own; `None` also where memory lacks.
pub(super) fn on_stream<T>(
    budget: &Budget,
    work: impl FnOnce(&Arc<CudaStream>) -> Result<Option<T>, Fault>,
) -> Result<Option<T>> {
    let _timer = budget.metrics.arrange_time.timer();
    // what a failed work leaves behind is given back once nobody reads it any more
    let waited = |stream: Arc<CudaStream>| {
        work(&stream).inspect_err(|_| {
            let _ = wait(&stream);
        })
    };
    match budget.device.stream().and_then(waited) {
        Err(Fault::Memory) => Ok(None),
        done => Ok(done?),
    }
}

/// A number for each row, on a device.
#[derive(Debug)]
pub struct NumbersOnDevice {
    pub(super) budget: Budget,
    pub(super) by_row: Buffer<u32>,
    pub(super) rows: u32,
    /// All numbers are below.
    pub(super) count: u64,
    /// What the host gives them by where the device fails; none for rows of another side than the build side.
    pub(super) origin: Option<Arc<Origin>>,
}

impl NumbersOnDevice {
    /// Numbers of codes, brought to the device unless it has given them; from another device that has.
    pub(crate) fn of(budget: &Budget, stream: &Arc<CudaStream>, given: &Codes) -> Result<Arc<Self>, Fault> {
        if let Some(on_device) = given.on_device()
            && let Ok(given) = Arc::clone(on_device).into_any().downcast::<Self>()
        {
            return match given.budget.is_of_device_of(budget) {
                true => Ok(given),
                false => Replicate::replicate(&given, &Copying { budget, stream }),
            };
        }
        let codes = given.on_host()?;
        let behind = |&code: &u32| if code == NO_GROUP { 0 } else { u64::from(code) + 1 };
        let count = codes.iter().map(behind).max().unwrap_or(0);
        let by_row = budget.upload(stream, codes)?;
        let (rows, origin) = (given.len() as u32, Some(Arc::new(Origin::Host(given.clone()))));
        Ok(Arc::new(Self { budget: budget.clone(), by_row, rows, count, origin }))
    }

    /// Address of the numbers by row, as kernels read them.
    pub(crate) fn address(&self, stream: &CudaStream) -> Address<u32> {
        self.by_row.address(stream)
    }

    /// Bits that hold all numbers.
    pub(super) fn bits(&self) -> u32 {
        u64::BITS - self.count.leading_zeros()
    }
}

impl Replicate for NumbersOnDevice {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        let by_row = self.by_row.replicate(to)?;
        Ok(Self { budget: to.budget.clone(), by_row, origin: self.origin.clone(), ..*self })
    }
}

impl DeviceNumbers for NumbersOnDevice {
    fn len(&self) -> usize {
        self.rows as usize
    }

    fn by_row(&self) -> Result<Vec<u32>> {
        let fetched = self.budget.fetch(&self.by_row, 0..self.len()).map_err(Error::from);
        match (&self.origin, fetched) {
            (Some(origin), Err(error)) if error.is_of_device() => origin.numbers(),
            (_, fetched) => fetched,
        }
    }

    fn at(&self, rows: &[u32]) -> Result<Vec<u32>> {
        gather(&self.budget, &self.by_row, rows, || self.by_row())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// What stands at some places of `values`, of which the host has to pick them where it has to have `all`: without
/// memory on the device, or where that fails.
pub(super) fn gather(
    budget: &Budget,
    values: &Buffer<u32>,
    places: &[u32],
    all: impl FnOnce() -> Result<Vec<u32>>,
) -> Result<Vec<u32>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let gathered = on_stream(budget, |stream| {
        let asked = budget.upload(stream, places)?;
        let mut found = budget.buffer(stream, places.len())?;
        budget.device.kernels().equality()?.gather(stream, values, &asked, places.len() as u32, &mut found)?;
        Ok(Some(budget.fetch(&found, 0..places.len())?))
    });
    match gathered {
        Ok(Some(gathered)) => Ok(gathered),
        Err(error) if !error.is_of_device() => Err(error),
        Ok(None) | Err(_) => {
            let all = all()?;
            Ok(places.iter().map(|&place| all[place as usize]).collect())
        }
    }
}
