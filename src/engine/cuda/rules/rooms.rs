//! Device memory that pairs walk in, kept from one launch to the next.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::CudaStream;

use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::{BatchOnDevice, RowPair};
use crate::engine::cuda::memory::{Budget, Room};

/// What the pairs of one launch need.
#[derive(Debug, Default)]
pub(super) struct WalkingRoom {
    pub(super) pairs: Room<RowPair>,
    pub(super) count: Room<u64>,
    /// Of the pairs that walk the tree.
    pub(super) states: States,
    /// Of those that have a witness, on the path of the entries before.
    pub(super) earlier: States,
    /// Of those that have a witness there.
    pub(super) witnesses: Room<u16>,
    /// What the steps of the tree count, and of the path before.
    pub(super) numbers: Room<u64>,
    pub(super) unused: Room<u64>,
    /// The pairs that are of this entry, by their witness.
    pub(super) by_clause: Room<u64>,
}

/// What is known of each pair on its way.
#[derive(Debug, Default)]
pub(super) struct States {
    depths: Room<u8>,
    witnesses: Room<u16>,
    known: Room<u32>,
    holding: Room<u32>,
}

impl States {
    /// Those of `capacity` pairs that a tree's candidates are, where they are written first of all.
    pub(super) fn of_candidates(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (capacity, remembers): (usize, bool),
        (pairs, count): (u64, u64),
    ) -> Result<BatchOnDevice, Fault> {
        let remembered = if remembers { capacity } else { 0 };
        Ok(BatchOnDevice {
            pairs,
            depths: self.depths.of(budget, stream, capacity)?.address(stream),
            witnesses: self.witnesses.of(budget, stream, capacity)?.address(stream),
            known: self.known.of(budget, stream, remembered)?.address(stream),
            holding: self.holding.of(budget, stream, remembered)?.address(stream),
            count,
            capacity: capacity as u64,
        })
    }

    /// Those of up to `capacity` pairs that are there already, none of which has gone a step, and whose witnesses nobody asks.
    pub(super) fn of_pairs(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (capacity, remembers): (usize, bool),
        (pairs, count): (u64, u64),
    ) -> Result<BatchOnDevice, Fault> {
        let remembered = if remembers { capacity } else { 0 };
        Ok(BatchOnDevice {
            pairs,
            depths: self.depths.zeros(budget, stream, capacity)?.address(stream),
            witnesses: 0,
            known: self.known.zeros(budget, stream, remembered)?.address(stream),
            holding: self.holding.zeros(budget, stream, remembered)?.address(stream),
            count,
            capacity: capacity as u64,
        })
    }
}

/// The rooms of a join that nobody walks in. Each is of one queue, so that it is given back only after what was launched in it.
#[derive(Debug, Default)]
pub(super) struct WalkingRooms(Mutex<Vec<(Arc<CudaStream>, WalkingRoom)>>);

impl WalkingRooms {
    /// The one of a queue, or a new one.
    pub(super) fn take(&self, stream: &Arc<CudaStream>) -> WalkingRoom {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = rooms.iter().position(|(of, _)| Arc::ptr_eq(of, stream));
        known.map(|at| rooms.swap_remove(at).1).unwrap_or_default()
    }

    /// What `work` does, once more without the rooms that nobody uses where memory lacks.
    pub(super) fn spare<T>(&self, mut work: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
        match work() {
            Err(Fault::Memory) => {
                let unused = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
                if unused.is_empty() {
                    return Err(Fault::Memory);
                }
                drop(unused);
                work()
            }
            done => done,
        }
    }

    /// Takes one back.
    pub(super) fn give_back(&self, stream: &Arc<CudaStream>, room: WalkingRoom) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::clone(stream), room));
    }
}
