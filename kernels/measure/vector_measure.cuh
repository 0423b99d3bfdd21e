// The vector measures as one closed choice, as crates/measures/src/vector_measure.rs, and a condition on one of them.
#pragma once

#include "cosine.cuh"
#include "inner_product.cuh"
#include "l1.cuh"
#include "l2.cuh"
#include "linf.cuh"

// Distances by powers are the host's: what decides here is never asked about them.
enum VectorMeasure { L1, L2, LINF, COSINE, COSINE_DISTANCE, INNER_PRODUCT, POWERS };  // for the host

// The metric of a filter: cosines are those of points at a distance of 1 from the origin.
enum Metric { MANHATTAN, EUCLIDEAN, CHEBYSHEV, PRODUCTS };  // for the host

// The accepted scores of a measure, none of which is NaN (the host has turned NaN bounds into infinite ones), and how
// far a filter looks.
struct VectorCondition {
    double lower;
    double upper;
    // The farthest that a match may lie in the metric, or the negated least product.
    double most;
    // The farthest for a sum in single precision, and what comes on top for each unit of the points' norms.
    double far;
    double by_norm;
    // A power of two by which points are multiplied before they become halves.
    double scale;
    u32 measure;
    u32 metric;
    u32 dimension;
    // Dimensions of which boxes are known.
    u32 width;
    u32 lower_inclusive;
    u32 upper_inclusive;
};

// The score of two vectors, or false where SQL says NULL.
__device__ __forceinline__ bool vector_score(const VectorCondition& test, const double* a, const double* b,
                                             double& score) {
    switch (test.measure) {
        case L1: return l1_distance(a, b, test.dimension, score);
        case L2: return l2_distance(a, b, test.dimension, score);
        case LINF: return linf_distance(a, b, test.dimension, score);
        case COSINE: return cosine_similarity(a, b, test.dimension, score);
        case COSINE_DISTANCE: return cosine_distance(a, b, test.dimension, score);
        default: score = inner_product(a, b, test.dimension); return true;
    }
}

// Whether two vectors match: decided by the scalar's own arithmetic.
__device__ __forceinline__ bool vector_accepts(const VectorCondition& test, const double* a, const double* b) {
    double score;
    if (!vector_score(test, a, b, score)) return false;
    bool high_enough = test.lower_inclusive ? score >= test.lower : score > test.lower;
    bool low_enough = test.upper_inclusive ? score <= test.upper : score < test.upper;
    return high_enough && low_enough;
}
