// Trigram similarity, as crates/measures/src/trigram.rs: Jaccard in single precision.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double trigram(const Overlap& overlap) {
    return (double)__fdiv_rn((float)overlap.common, (float)((u64)overlap.left + overlap.right - overlap.common));
}
