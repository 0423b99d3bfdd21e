// Overlap count, as crates/measures/src/overlap_count.rs: o.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double overlap_count(const Overlap& overlap) { return (double)overlap.common; }
