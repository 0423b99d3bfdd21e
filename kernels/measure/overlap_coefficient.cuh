// Overlap coefficient, as crates/measures/src/overlap_coefficient.rs: o / min(r, s).
#pragma once

__device__ __forceinline__ double overlap_coefficient(u32 overlap, u32 left, u32 right) {
    return (double)overlap / (double)min(left, right);
}
