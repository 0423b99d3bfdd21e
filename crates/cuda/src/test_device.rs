//! The device that unit tests use: a real one, or the emulated driver of `kernels/emulator`.

use std::sync::{Arc, OnceLock};

use super::Device;
use super::memory::Budget;

/// Devices of the emulated driver, and of a machine those that there are.
pub(crate) static DEVICES: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
    device();
    Device::count().expect("the driver counts its devices")
});

/// Opens it, for all tests that do not count its memory. The emulated driver is built and loaded when there is no
/// other.
pub(crate) fn device() -> Arc<Device> {
    static DEVICE: OnceLock<Arc<Device>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        // SAFETY: it opens the driver's library by its usual names and calls nothing in it.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            assert!(std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none(), "there is no CUDA driver");
            load_emulated_driver();
        }
        Device::open(0).expect("the driver has a device")
    });
    Arc::clone(device)
}

/// Device of the unit tests, while nobody else takes from its budget.
pub(crate) fn device_alone() -> Arc<Device> {
    device();
    Arc::new(Device::detect(0).expect("it can be used twice"))
}

/// `bytes` of its memory.
pub(crate) fn budget_of(device: &Arc<Device>, bytes: usize) -> Budget {
    Budget::new(device, bytes as f64 / device.memory() as f64)
}

/// What is loaded is found by its name from then on.
fn load_emulated_driver() {
    // SAFETY: nobody reads the environment meanwhile but who opens the device.
    unsafe { std::env::set_var("EMULATED_DEVICE_COUNT", "3") };
    // SAFETY: loading runs the initialisers of our own driver, which have no requirements.
    let loaded = unsafe { libloading::Library::new(emulated_cuda::library()) }.expect("the emulated driver loads");
    std::mem::forget(loaded);
}
