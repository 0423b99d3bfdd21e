// Tversky index, as crates/measures/src/tversky.rs: o / (o + alpha (|a| - o) + beta (|b| - o)), summed from left to
// right.
#pragma once

#include "overlap.cuh"

__device__ __forceinline__ double tversky(const Overlap& overlap, const double* weights) {
    double common = (double)overlap.common;
    double only_left = (double)(overlap.left - overlap.common), only_right = (double)(overlap.right - overlap.common);
    return common / (common + weights[0] * only_left + weights[1] * only_right);
}
