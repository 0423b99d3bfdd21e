//! The files of kernels on a device, each read by the driver when it is first needed. Machine code takes it less than a
//! millisecond. PTX that it has never seen it compiles, which takes a while that nothing interrupts.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use cudarc::driver::DriverError;

use super::context::DeviceContext;
use super::exit_guard::ExitGuard;
use super::fault::Fault;
use super::kernels::{
    CodedStringKernels, ComponentKernels, EqualityKernels, MatchCountKernels, NearestCountKernels, NearestKernels,
    NearestSetKernels, NearestStringKernels, NearestVectorKernels, PrefixKernels, RuleKernels, SetKernels, SortKernels,
    StringKernels, VectorKernels,
};
use similarity_engine::Cancel;

/// Defines the files of kernels: their names, what each is read into, and who reads it.
macro_rules! modules {
    ($($module:ident, $name:ident: $kernels:ty;)*) => {
        /// A file of kernels, by its name.
        #[derive(Debug, Clone, Copy)]
        #[allow(dead_code, reason = "not every file is read ahead")]
        pub(super) enum Module {
            $($module,)*
        }

        /// What the driver has read so far.
        pub(super) struct Modules {
            context: Arc<DeviceContext>,
            $($name: Read<$kernels>,)*
        }

        impl Modules {
            /// The files for a device, none of which is read yet.
            pub(super) fn new(context: &Arc<DeviceContext>) -> Self {
                Self { context: Arc::clone(context), $($name: Read::default(),)* }
            }

            fn has(&self, module: Module) -> bool {
                match module {
                    $(Module::$module => self.$name.kernels.get().is_some(),)*
                }
            }

            fn read(&self, module: Module) -> Result<(), Fault> {
                match module {
                    $(Module::$module => self.$name().map(drop),)*
                }
            }

            $(
                /// The kernels of this file.
                pub(super) fn $name(&self) -> Result<&$kernels, Fault> {
                    self.$name.get(|| <$kernels>::load(&self.context))
                }
            )*
        }
    };
}

modules! {
    CodedStrings, coded_strings: CodedStringKernels;
    Components, components: ComponentKernels;
    Equality, equality: EqualityKernels;
    MatchCount, match_count: MatchCountKernels;
    Nearest, nearest: NearestKernels;
    NearestCounts, nearest_counts: NearestCountKernels;
    NearestSets, nearest_sets: NearestSetKernels;
    NearestStrings, nearest_strings: NearestStringKernels;
    NearestVectors, nearest_vectors: NearestVectorKernels;
    Prefixes, prefixes: PrefixKernels;
    Rules, rules: RuleKernels;
    Sets, sets: SetKernels;
    Sort, sort: SortKernels;
    Strings, strings: StringKernels;
    Vectors, vectors: VectorKernels;
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
                let _guard = ExitGuard::begin()?;
                let _ = self.kernels.set(read()?);
            }
        }
        Ok(self.kernels.get_or_init(|| unreachable!("it was set above")))
    }
}

/// How long it takes at most until it is noticed that nobody waits any more.
const LOOK: Duration = Duration::from_millis(5);

impl Modules {
    /// Has some files read, side by side, before they are needed, and waits for that as long as nobody cancels. An
    /// error is left to whoever needs what could not be read.
    pub(super) fn read_ahead(self: &Arc<Self>, modules: &[Module], cancel: &Cancel) {
        let (reading, all_read) = channel::<()>();
        for &module in modules.iter().filter(|module| !self.has(**module)) {
            let (files, reading) = (Arc::clone(self), reading.clone());
            // from now on, not from when the thread begins
            let Ok(guard) = ExitGuard::begin() else { break };
            let read = move || {
                let _ = files.read(module);
                drop((guard, reading));
            };
            // without a thread the first one who needs them reads them
            let _ = thread::Builder::new().name(format!("similarity-{module:?}")).spawn(read);
        }
        drop(reading);
        while !cancel.is_cancelled() && all_read.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_device::device_alone;

    #[test]
    fn what_is_read_ahead_is_there_unless_nobody_waits() {
        let device = device_alone();
        let all = [
            Module::CodedStrings,
            Module::Components,
            Module::Equality,
            Module::MatchCount,
            Module::Nearest,
            Module::NearestCounts,
            Module::NearestSets,
            Module::NearestStrings,
            Module::NearestVectors,
            Module::Prefixes,
            Module::Rules,
            Module::Sets,
            Module::Sort,
            Module::Strings,
            Module::Vectors,
        ];
        device.kernels().read_ahead(&all, &Cancel::default());
        assert!(all.iter().all(|&module| device.kernels().has(module)));
        let is_known = device.context().capability() < (10, 0);
        assert_eq!(device.context().files_from_ptx().value() == 0, is_known);
        let cancelled = Cancel::default();
        cancelled.cancel();
        // what it has started is read all the same
        let device = device_alone();
        device.kernels().read_ahead(&[Module::CodedStrings], &cancelled);
        assert!(device.kernels().coded_strings().is_ok());
    }
}
