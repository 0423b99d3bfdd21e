//! The forms in which a kernel file comes with the crate, and the one that a device is given.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaModule, DriverError};
use cudarc::nvrtc::Ptx;
use miniz_oxide::inflate::decompress_to_vec_zlib;

use super::context::DeviceContext;
use super::exit_guard::outlive_compiler;

/// Compute capability, major and minor.
type Capability = (i32, i32);

/// A kernel file as `kernels/build.py` compiles it. Each form stands after those for earlier devices.
pub(super) struct Compiled {
    /// Machine code, compressed, for a capability and for later ones of the same major version.
    pub(super) cubins: &'static [(Capability, &'static [u8])],
    /// PTX for a capability and for all later ones.
    pub(super) ptx: &'static [(Capability, &'static str)],
}

impl Compiled {
    /// Has the driver read the file: as machine code or, where there is none that it takes, as PTX, which it compiles.
    pub(super) fn read(&self, context: &DeviceContext) -> Result<Arc<CudaModule>, DriverError> {
        let refused = match self.cubin(context.capability()).map(|code| read_cubin(context, code)) {
            Some(Err(error)) if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY => error,
            Some(read) => return read,
            None => DriverError(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        };
        let ptx = self.ptx(context.capability()).ok_or(refused)?;
        outlive_compiler(context.cuda())?;
        let module = context.cuda().load_module(Ptx::from_src(ptx))?;
        context.files_from_ptx().add(1);
        Ok(module)
    }

    /// Machine code for a device.
    fn cubin(&self, (major, minor): Capability) -> Option<&'static [u8]> {
        let runs = |of: Capability| of.0 == major && of.1 <= minor;
        self.cubins.iter().rev().find(|(of, _)| runs(*of)).map(|&(_, code)| code)
    }

    /// PTX for a device.
    fn ptx(&self, capability: Capability) -> Option<&'static str> {
        self.ptx.iter().rev().find(|(of, _)| *of <= capability).map(|&(_, text)| text)
    }
}

fn read_cubin(context: &DeviceContext, compressed: &[u8]) -> Result<Arc<CudaModule>, DriverError> {
    let code = decompress_to_vec_zlib(compressed).map_err(|_| DriverError(CUresult::CUDA_ERROR_INVALID_IMAGE))?;
    context.cuda().load_module(Ptx::from_binary(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPILED: Compiled = Compiled {
        cubins: &[((7, 5), b"7.5"), ((8, 0), b"8.0"), ((8, 6), b"8.6"), ((9, 0), b"9.0")],
        ptx: &[((7, 5), "7.5"), ((8, 0), "8.0")],
    };

    #[test]
    fn a_device_is_given_the_latest_form_that_it_runs() {
        let forms = [
            ((7, 0), None, None),
            ((7, 5), Some("7.5"), Some("7.5")),
            ((8, 0), Some("8.0"), Some("8.0")),
            ((8, 6), Some("8.6"), Some("8.0")),
            ((8, 9), Some("8.6"), Some("8.0")),
            ((9, 0), Some("9.0"), Some("8.0")),
            ((10, 0), None, Some("8.0")),
            ((12, 1), None, Some("8.0")),
        ];
        for (capability, cubin, ptx) in forms {
            assert_eq!(COMPILED.cubin(capability), cubin.map(str::as_bytes), "{capability:?}");
            assert_eq!(COMPILED.ptx(capability), ptx, "{capability:?}");
        }
    }
}
