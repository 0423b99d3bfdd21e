// Set cosine, as crates/measures/src/set_cosine.rs: o / sqrt(|a| |b|), the product taken in integers.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double set_cosine(const Overlap& overlap) {
    return (double)overlap.common / sqrt((double)((u64)overlap.left * overlap.right));
}
