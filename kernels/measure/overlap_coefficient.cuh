// Overlap coefficient, as crates/measures/src/overlap_coefficient.rs: o / min(|a|, |b|).
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double overlap_coefficient(const Overlap& overlap) {
    return (double)overlap.common / (double)min(overlap.left, overlap.right);
}
