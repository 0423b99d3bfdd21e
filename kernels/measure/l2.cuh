// L2 distance, as crates/measures/src/l2.rs: the root of the sum of squared differences from the first element to the
// last.
#pragma once

__device__ __forceinline__ bool l2_distance(const double* a, const double* b, u32 dimension, double& distance) {
    double squares = 0.0;
    for (u32 k = 0; k < dimension; k++) {
        double difference = a[k] - b[k];
        squares += difference * difference;
    }
    distance = sqrt(squares);
    return isfinite(squares);
}
