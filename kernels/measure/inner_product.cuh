// Inner product, as in crates/measures/src/vector_measure.rs: the sum of products from the first element to the last.
#pragma once

__device__ __forceinline__ double inner_product(const double* a, const double* b, u32 dimension) {
    double dot = 0.0;
    for (u32 k = 0; k < dimension; k++) dot += a[k] * b[k];
    return dot;
}
