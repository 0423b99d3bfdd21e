// Containment, as crates/measures/src/containment.rs: o / |a|.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double containment(const Overlap& overlap) {
    return (double)overlap.common / (double)overlap.left;
}
