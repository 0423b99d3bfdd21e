// Cosine similarity and distance, as crates/measures/src/cosine.rs: all three sums from the first element to the last.
#pragma once

struct CosineSums {
    double dot;
    double left;
    double right;
};

__device__ __forceinline__ CosineSums cosine_sums(const double* a, const double* b, u32 dimension) {
    CosineSums sums;
    sums.dot = sums.left = sums.right = 0.0;
    for (u32 k = 0; k < dimension; k++) {
        sums.dot += a[k] * b[k];
        sums.left += a[k] * a[k];
        sums.right += b[k] * b[k];
    }
    return sums;
}

__device__ __forceinline__ bool cosine_similarity(const double* a, const double* b, u32 dimension, double& score) {
    CosineSums sums = cosine_sums(a, b, dimension);
    if (!isfinite(sums.dot) || !isfinite(sums.left) || !isfinite(sums.right)) return false;
    if (!(sums.left > 0.0 && sums.right > 0.0)) return false;
    double cosine = sums.dot / (sqrt(sums.left) * sqrt(sums.right));
    cosine = cosine < -1.0 ? -1.0 : cosine;
    cosine = cosine > 1.0 ? 1.0 : cosine;
    score = cosine + 0.0;
    return true;
}

__device__ __forceinline__ bool cosine_distance(const double* a, const double* b, u32 dimension, double& distance) {
    CosineSums sums = cosine_sums(a, b, dimension);
    if (sums.left == 0.0 || sums.right == 0.0) return false;
    distance = 1.0 - sums.dot / (sqrt(sums.left) * sqrt(sums.right));
    return true;
}
