//! Device memory that pairs walk in, kept from one launch to the next.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaStream, DeviceRepr, ValidAsZeroBits};

use crate::address::AddressMut;
use crate::context::Spare;
use crate::fault::Fault;
use crate::kernels::{BatchOnDevice, Pair};
use crate::memory::{Budget, Room};

/// What the pairs of one launch need.
#[derive(Debug, Default)]
pub(super) struct WalkBuffer {
    pub(super) pairs: Room<Pair>,
    /// Build and probe rows of pairs that an index has found.
    pub(super) found: [Room<u32>; 2],
    pub(super) count: Room<u64>,
    /// States of the pairs that walk the tree.
    pub(super) states: States,
    /// States of the pairs with a witness, on the path of the entries before.
    pub(super) earlier: States,
    /// Witnesses of the pairs that have one on that path.
    pub(super) witnesses: Room<u16>,
    /// What the steps of the tree count, and of the path before.
    pub(super) numbers: Room<u64>,
    pub(super) unused: Room<u64>,
    /// The pairs that are of this entry, by their witness.
    pub(super) by_clause: Room<u64>,
}

/// Pairs whose states are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkingPairs {
    pub(super) pairs: AddressMut<Pair>,
    pub(super) count: AddressMut<u64>,
    pub(super) capacity: usize,
    /// Whether some step remembers an atom.
    pub(super) remembers: bool,
    /// Whether the pairs are there already, so that their witness is not asked for. Otherwise everything is written
    /// with the pairs.
    pub(super) are_there: bool,
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
    /// States of pairs that no step has asked.
    pub(super) fn of(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        walking: WalkingPairs,
    ) -> Result<BatchOnDevice, Fault> {
        let WalkingPairs { pairs, count, capacity, remembers, are_there } = walking;
        let remembered = if remembers { capacity } else { 0 };
        fn room<T: DeviceRepr + ValidAsZeroBits>(
            room: &mut Room<T>,
            budget: &Budget,
            stream: &Arc<CudaStream>,
            length: usize,
            with_zeros: bool,
        ) -> Result<AddressMut<T>, Fault> {
            let buffer =
                if with_zeros { room.zeros(budget, stream, length)? } else { room.of(budget, stream, length)? };
            Ok(buffer.address_mut(stream))
        }
        let witnesses = (!are_there).then(|| room(&mut self.witnesses, budget, stream, capacity, false));
        Ok(BatchOnDevice {
            pairs,
            depths: room(&mut self.depths, budget, stream, capacity, are_there)?,
            witnesses: witnesses.transpose()?,
            known: room(&mut self.known, budget, stream, remembered, are_there)?,
            holding: room(&mut self.holding, budget, stream, remembered, are_there)?,
            count,
            capacity: capacity as u64,
        })
    }
}

/// The rooms of a join that nobody walks in. Each is of one stream, so that it is given back only after what was
/// launched in it.
#[derive(Debug, Default)]
pub(super) struct WalkBuffers(Mutex<Vec<(Arc<CudaStream>, WalkBuffer)>>);

impl WalkBuffers {
    /// The one of a stream, or a new one.
    pub(super) fn take(&self, stream: &Arc<CudaStream>) -> WalkBuffer {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = rooms.iter().position(|(of, _)| Arc::ptr_eq(of, stream));
        known.map(|at| rooms.swap_remove(at).1).unwrap_or_default()
    }

    /// Takes one back.
    pub(super) fn give_back(&self, stream: &Arc<CudaStream>, room: WalkBuffer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::clone(stream), room));
    }
}

impl Spare for WalkBuffers {
    fn give_way(&self) -> bool {
        let unused = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        !unused.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_device::device;

    #[test]
    fn rooms_that_nobody_uses_give_way() {
        let budget = Budget::new(&device(), 0.5);
        let (rooms, stream) = (Arc::new(WalkBuffers::default()), budget.device.stream().unwrap());
        budget.device.may_take_back(&rooms);
        let mut room = rooms.take(&stream);
        let made = room.count.of(&budget, &stream, 3).unwrap().address(&stream);
        rooms.give_back(&stream, room);
        let mut room = rooms.take(&stream);
        assert_eq!(room.count.of(&budget, &stream, 2).unwrap().address(&stream), made);
        rooms.give_back(&stream, room);
        // of any join, whoever asks
        let more = Budget::new(&device(), 1.0);
        assert!(more.buffer::<u8>(&stream, more.device.memory() + 1).is_err());
        assert!(rooms.0.lock().unwrap().is_empty() && !rooms.give_way());
    }
}
