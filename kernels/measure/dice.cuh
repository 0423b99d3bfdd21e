// Dice, as crates/measures/src/dice.rs: 2 o / (|a| + |b|), one division in double precision.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double dice(const Overlap& overlap) {
    return (double)(2 * (u64)overlap.common) / (double)((u64)overlap.left + overlap.right);
}
