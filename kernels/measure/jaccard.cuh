// Jaccard, as crates/measures/src/jaccard.rs: o / (|a| + |b| - o), one division in double precision.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double jaccard(const Overlap& overlap) {
    return (double)overlap.common / (double)((u64)overlap.left + overlap.right - overlap.common);
}
