//! The files of kernels on a device, each read by the driver when it is first needed: what it has never seen it
//! compiles, which takes a while that nothing interrupts.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use cudarc::driver::DriverError;

use super::device::Device;
use super::fault::Fault;
use super::jit_guard::JitGuard;
use super::kernels::{
    CodedStringKernels, EqualityKernels, NearestKernels, PrefixKernels, RuleKernels, SetKernels, SortKernels,
    StringKernels, VectorKernels,
};
use similarity_engine::Cancel;

/// A file of kernels, by its name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Module {
    Edits,
    Keys,
    Nearest,
    Rules,
    Sets,
    Texts,
    Vectors,
}

/// What the driver has read so far.
#[derive(Default)]
pub(super) struct Modules {
    edits: Read<StringKernels>,
    keys: Read<EqualityKernels>,
    nearest: Read<NearestKernels>,
    prefixes: Read<PrefixKernels>,
    rules: Read<RuleKernels>,
    sets: Read<SetKernels>,
    sort: Read<SortKernels>,
    texts: Read<CodedStringKernels>,
    vectors: Read<VectorKernels>,
}

/// The kernels of a file, once somebody has asked for them.
struct Read<T> {
    kernels: OnceLock<T>,
    reading: Mutex<()>,
}

impl<T> Default for Read<T> {
    fn default() -> Self {
        Self { kernels: OnceLock::new(), reading: Mutex::default() }
    }
}

impl<T> Read<T> {
    /// The kernels, read by the first one who asks while others wait.
    fn get(&self, read: impl FnOnce() -> Result<T, DriverError>) -> Result<&T, Fault> {
        if self.kernels.get().is_none() {
            let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            if self.kernels.get().is_none() {
                let _compiling = JitGuard::begin()?;
                let _ = self.kernels.set(read()?);
            }
        }
        Ok(self.kernels.get_or_init(|| unreachable!("it was set above")))
    }
}

/// How long it takes at most until it is noticed that nobody waits any more.
const LOOK: Duration = Duration::from_millis(5);

impl Device {
    /// Has some files read, side by side, before they are needed, and waits for that as long as nobody cancels. An
    /// error is left to whoever needs what could not be read.
    pub(super) fn read_ahead(self: &Arc<Self>, modules: &[Module], cancel: &Cancel) {
        let (reading, all_read) = channel::<()>();
        for &module in modules.iter().filter(|module| !self.has(**module)) {
            let (device, reading) = (Arc::clone(self), reading.clone());
            // from now on, not from when the thread begins
            let Ok(compiling) = JitGuard::begin() else { break };
            let read = move || {
                let _ = device.read(module);
                drop((compiling, reading));
            };
            // without a thread the first one who needs them reads them
            let _ = thread::Builder::new().name(format!("similarity-{module:?}")).spawn(read);
        }
        drop(reading);
        while !cancel.is_cancelled() && all_read.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {}
    }

    fn has(&self, module: Module) -> bool {
        let modules = self.modules();
        match module {
            Module::Edits => modules.edits.kernels.get().is_some(),
            Module::Keys => modules.keys.kernels.get().is_some(),
            Module::Nearest => modules.nearest.kernels.get().is_some(),
            Module::Rules => modules.rules.kernels.get().is_some(),
            Module::Sets => modules.sets.kernels.get().is_some(),
            Module::Texts => modules.texts.kernels.get().is_some(),
            Module::Vectors => modules.vectors.kernels.get().is_some(),
        }
    }

    fn read(&self, module: Module) -> Result<(), Fault> {
        match module {
            Module::Edits => self.edits().map(drop),
            Module::Keys => self.keys().map(drop),
            Module::Nearest => self.nearest().map(drop),
            Module::Rules => self.rules().map(drop),
            Module::Sets => self.sets().map(drop),
            Module::Texts => self.texts().map(drop),
            Module::Vectors => self.vectors().map(drop),
        }
    }

    pub(super) fn edits(&self) -> Result<&StringKernels, Fault> {
        self.modules().edits.get(|| StringKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn keys(&self) -> Result<&EqualityKernels, Fault> {
        self.modules().keys.get(|| EqualityKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn nearest(&self) -> Result<&NearestKernels, Fault> {
        self.modules().nearest.get(|| NearestKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn prefixes(&self) -> Result<&PrefixKernels, Fault> {
        self.modules().prefixes.get(|| PrefixKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn rules(&self) -> Result<&RuleKernels, Fault> {
        self.modules().rules.get(|| RuleKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn sets(&self) -> Result<&SetKernels, Fault> {
        self.modules().sets.get(|| SetKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn sort(&self) -> Result<&SortKernels, Fault> {
        self.modules().sort.get(|| SortKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn texts(&self) -> Result<&CodedStringKernels, Fault> {
        self.modules().texts.get(|| CodedStringKernels::load(self.context(), self.has_tensor_cores()))
    }

    pub(super) fn vectors(&self) -> Result<&VectorKernels, Fault> {
        self.modules().vectors.get(|| VectorKernels::load(self.context(), self.has_tensor_cores()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_device::device_alone;

    #[test]
    fn what_is_read_ahead_is_there_unless_nobody_waits() {
        let device = device_alone();
        let all =
            [Module::Edits, Module::Keys, Module::Nearest, Module::Rules, Module::Sets, Module::Texts, Module::Vectors];
        device.read_ahead(&all, &Cancel::default());
        assert!(all.iter().all(|&module| device.has(module)));
        let cancelled = Cancel::default();
        cancelled.cancel();
        // what it has started is read all the same
        let device = device_alone();
        device.read_ahead(&[Module::Texts], &cancelled);
        assert!(device.texts().is_ok());
    }
}
