// L1 distance, as crates/measures/src/l1.rs: the sum of absolute differences from the first element to the last.
#pragma once

__device__ __forceinline__ bool l1_distance(const double* a, const double* b, u32 dimension, double& distance) {
    double sum = 0.0;
    for (u32 k = 0; k < dimension; k++) sum += fabs(a[k] - b[k]);
    distance = sum;
    return isfinite(sum);
}
