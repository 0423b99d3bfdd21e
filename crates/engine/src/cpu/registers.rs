//! Loops over arrays of numbers, compiled for the widest registers of the machine.

/// A loop that the compiler makes vector instructions of.
pub(crate) trait Loop {
    /// Runs it, by fused multiplications and additions where there are any. It has to be inlined always.
    fn run<const FUSED: bool>(self);
}

/// Runs a loop with the widest registers of this machine.
#[inline]
pub(crate) fn run(of: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            #[target_feature(enable = "avx512f,avx512bw")]
            fn wide(of: impl Loop) {
                of.run::<true>();
            }
            // SAFETY: the features have been detected.
            return unsafe { wide(of) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            #[target_feature(enable = "avx2,fma")]
            fn half(of: impl Loop) {
                of.run::<true>();
            }
            // SAFETY: the features have been detected.
            return unsafe { half(of) };
        }
    }
    of.run::<false>();
}
