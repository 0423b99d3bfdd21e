// A condition on a set measure: what kernels decide by it, and what they filter by.
#pragma once

#include "set_measures.cuh"

// Sizes of the sets of a pair of rows.
struct SetSizes {
    u32 build;
    u32 probe;
};

// The accepted scores of a measure. No score is NaN; the host has turned NaN bounds into infinite ones.
struct SetCondition {
    double lower;
    double upper;
    // The least overlap of two sizes is this times what `form` makes of them, up to rounding; with LINEAR it is the
    // factor of the build size,
    double share;
    // and this is the factor of the probe size.
    double probe_share;
    // The least size of a build row's set is this times the size of the probe row's, up to rounding; 0 where no size is
    // too small.
    double build_of_probe;
    // The least size of a probe row's set, by the size of the build row's.
    double probe_of_build;
    // The constants of the measure.
    double weights[2];
    u32 measure;
    u32 form;
    u32 lower_inclusive;
    u32 upper_inclusive;
    // Whether the first argument of the measure is the probe row's set.
    u32 is_reversed;
    u32 unused;
};

// What the least overlap is made of: a sum of both sizes, their geometric mean, the smaller one, or nothing.
// Every form rises with both sizes, so that the least sizes of a tile speak for all of it.
enum SetForm { LINEAR, GEOMETRIC_MEAN, SMALLER, CONSTANT };  // for the host

// Covers the rounding of the few double precision operations of a bound, many times over.
#define SLACK 1e-9

// Whether two sets that share `common` tokens, at least one, match: decided by the scalar's own arithmetic.
__device__ __forceinline__ bool set_accepts(const SetCondition& test, u32 common, SetSizes sizes) {
    Overlap overlap;
    overlap.common = common;
    overlap.left = test.is_reversed ? sizes.probe : sizes.build;
    overlap.right = test.is_reversed ? sizes.build : sizes.probe;
    double score = set_score(test.measure, overlap, test.weights);
    bool high_enough = test.lower_inclusive ? score >= test.lower : score > test.lower;
    bool low_enough = test.upper_inclusive ? score <= test.upper : score < test.upper;
    return high_enough && low_enough;
}

// No pair of sets of at least these sizes matches with less overlap than this; it is at least 1.
__device__ __forceinline__ u32 set_least_overlap(const SetCondition& test, SetSizes sizes) {
    double least = test.share;
    if (test.form == LINEAR) least = test.share * sizes.build + test.probe_share * sizes.probe;
    if (test.form == GEOMETRIC_MEAN) least *= sqrt((double)sizes.build * sizes.probe);
    if (test.form == SMALLER) least *= min(sizes.build, sizes.probe);
    least = ceil(least * (1.0 - SLACK));
    if (!(least > 1.0)) return 1;
    return least < 4e9 ? (u32)least : 4000000000u;
}
