// The set measures as one closed choice, as crates/measures/src/set_measure.rs, and a condition on one of them.
#pragma once

#include "dice.cuh"
#include "jaccard.cuh"
#include "overlap_coefficient.cuh"
#include "set_cosine.cuh"
#include "trigram.cuh"

enum SetMeasure { JACCARD, DICE, SET_COSINE, OVERLAP_COEFFICIENT, OVERLAP_COUNT, TRIGRAM };

// The accepted scores of a measure. No score is NaN; the host has turned NaN bounds into infinite ones.
struct SetTest {
    double lower;
    double upper;
    // The least overlap of two sizes is this times what `form` makes of them, up to rounding.
    double share;
    // A size times this is the least size of a partner, up to rounding; 0 where no size is too small.
    double smallest;
    u32 measure;
    u32 form;
    u32 lower_inclusive;
    u32 upper_inclusive;
};

// What the least overlap is proportional to: the sum of both sizes, their geometric mean, the smaller one, or nothing.
// Every form rises with both sizes, so that the least sizes of a tile speak for all of it.
enum Form { SUM, GEOMETRIC_MEAN, SMALLER, CONSTANT };

// Covers the rounding of the few double precision operations of a bound, many times over.
#define SLACK 1e-9

__device__ __forceinline__ double set_score(u32 measure, u32 overlap, u32 left, u32 right) {
    switch (measure) {
        case JACCARD: return jaccard(overlap, left, right);
        case DICE: return dice(overlap, left, right);
        case SET_COSINE: return set_cosine(overlap, left, right);
        case OVERLAP_COEFFICIENT: return overlap_coefficient(overlap, left, right);
        case TRIGRAM: return trigram_similarity(overlap, left, right);
        default: return (double)overlap;
    }
}

// Whether two sets that share `overlap` tokens, at least one, match: decided by the scalar's own arithmetic.
__device__ __forceinline__ bool set_accepts(const SetTest& test, u32 overlap, u32 left, u32 right) {
    double score = set_score(test.measure, overlap, left, right);
    bool high_enough = test.lower_inclusive ? score >= test.lower : score > test.lower;
    bool low_enough = test.upper_inclusive ? score <= test.upper : score < test.upper;
    return high_enough && low_enough;
}

// No pair of sets of at least `left` and `right` elements matches with less overlap than this; it is at least 1.
__device__ __forceinline__ u32 set_least_overlap(const SetTest& test, u32 left, u32 right) {
    double of = 1.0;
    if (test.form == SUM) of = (double)left + right;
    if (test.form == GEOMETRIC_MEAN) of = sqrt((double)left * right);
    if (test.form == SMALLER) of = min(left, right);
    double overlap = ceil(test.share * of * (1.0 - SLACK));
    if (!(overlap > 1.0)) return 1;
    return overlap < 4e9 ? (u32)overlap : 4000000000u;
}
