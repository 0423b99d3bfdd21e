// Scores of sets as neighbours, and what a row asks of them: for all ways in which the sets of a build side are found.
#pragma once

#include "nearest.cuh"
#include "sets.cuh"

// A measure that ranks.
struct SetRanking {
    // The constants of the measure.
    double weights[2];
    u32 measure;
    // Whether the first argument of the measure is the probe row's set.
    u32 is_reversed;
};

// A bound that no score satisfies; 0 is one that every score does.
#define NO_SCORE 1e300

// The score of the worst neighbour that a row at a place of those that are searched keeps.
__device__ __forceinline__ double bound_of(const Searched& searched, u32 place) {
    if (searched.reach[place] < 0.0f) return NO_SCORE;
    if (searched.kept[place] < searched.wanted) return 0.0;
    return float_of_key(~searched.offered[(u64)place * searched.capacity + searched.wanted - 1].score);
}

// The score of two sets that share `common` tokens, at least one.
__device__ __forceinline__ double score_of(const SetRanking& by, u32 common, SetSizes sizes) {
    Overlap overlap;
    overlap.common = common;
    overlap.left = by.is_reversed ? sizes.probe : sizes.build;
    overlap.right = by.is_reversed ? sizes.build : sizes.probe;
    return set_score(by.measure, overlap, by.weights);
}

// Whether sets of at least these sizes that share `common` tokens may score no worse than `bound`.
__device__ __forceinline__ bool may_score(const SetRanking& by, double bound, u32 common, SetSizes least) {
    least.build = max(least.build, common);
    least.probe = max(least.probe, common);
    return score_of(by, common, least) * (1.0 + SLACK) >= bound;
}
