// L-infinity distance, as crates/measures/src/linf.rs: the largest absolute difference.
#pragma once

__device__ __forceinline__ bool linf_distance(const double* a, const double* b, u32 dimension, double& distance) {
    double most = 0.0;
    for (u32 k = 0; k < dimension; k++) {
        double difference = fabs(a[k] - b[k]);
        if (!isfinite(difference)) return false;
        most = difference > most ? difference : most;
    }
    distance = most;
    return true;
}
