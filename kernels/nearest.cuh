// What the nearest joins of all families of keys have in common: the rows that are searched, what they are offered, and
// the order of neighbours.
//
//   nearest_<family>_seeds---> for each probe block the build blocks that are compared first
//   nearest_<family>_filter--> pairs that may be neighbours: of the seeds, then of a sample of all blocks, of a larger
//                              one, and at last of all
//   nearest_<family>_offer---> the scores of these, by the measure itself, to the rows that may keep them
//   nearest_select-----------> the best so far of each row, which bound what the filter lets pass next
//   nearest_fetch------------> the rows' neighbours, one row after the other
//
// A round loses no neighbour: whatever the filter passes over is worse than `wanted` rows that the probe row had been
// offered before.
//
// Neighbours are in the order of (score as an integer, rank, row number), which no two rows share, so that a row that
// is offered twice is found out, and rows of one score do not pile up. What a row is offered beyond `capacity` is lost:
// then `crowded` is raised, and the candidates have to be offered once more to such rows, whose reach is in `again`,
// until none is lost: each time they keep better ones.
#pragma once

#include "common.cuh"

// A build row as a neighbour, in the order of its fields; less is better.
struct Neighbour {
    i64 score;
    u32 rank;
    u32 row;
};

__device__ __forceinline__ bool operator<(const Neighbour& one, const Neighbour& other) {
    if (one.score != other.score) return one.score < other.score;
    return one.rank != other.rank ? one.rank < other.rank : one.row < other.row;
}

// What the reach of a row is: the farthest by a distance or by a cosine of vectors, or no more than whether neighbours
// are sought, where the filter goes by the worst score.
enum ReachBy { BY_DISTANCE, BY_COSINE, BY_SCORE };  // for the host

// The probe positions that are searched, from `first`, a multiple of BLOCK, on: one entry each.
struct Searched {
    // `capacity` places each: the best so far, in order, then what is offered since.
    Neighbour* offered;
    // How many were offered, and of these how many are kept.
    u32* counts;
    u32* kept;
    // How far a neighbour may be, in the metric; negative where none is sought.
    float* reach;
    // How far one may be for rows that were offered too many, negative for others.
    float* again;
    // How many were, of all rows.
    u64* crowded;
    // Build blocks of each block, `seed_count` each; null where no blocks come first.
    u32* NULLABLE seeds;
    u32 first;
    u32 count;
    u32 capacity;
    u32 wanted;
    u32 seed_count;
    // How many of them are nearest to points instead of to the centre: none, or the last two.
    u32 corner_count;
    // Whether larger scores are better.
    u32 descending;
    // How a reach follows from a score, a `ReachBy`, of vectors of so many numbers.
    u32 reach_by;
    u32 dimension;
    // What rounding adds to the reach of sums in single precision: a factor, and for each unit of the points' norms.
    float wider;
    float by_norm;
};

// Which build blocks a round is about: the seed of this number, or where that is NO_SEED every block whose number is a
// multiple of `stride`, but none of `done`, where that is not 0.
struct Round {
    u32 seed;
    u32 stride;
    u32 done;
    // How far the filter looks by a row's score, as a share of the worst one, and how far it has looked in all blocks.
    float far;
    float seen;
};

#define NO_SEED 0xffffffffu  // for the host
// Whether a round without a seed is about a build block.
__device__ __forceinline__ bool is_of_round(const Round& round, u32 block) {
    return block % round.stride == 0 && (round.done == 0 || block % round.done != 0);
}

// An integer in the order of floats, NaN being the greatest; and back.
__device__ __forceinline__ i64 float_key(double value) {
    i64 bits = __double_as_longlong(value);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
__device__ __forceinline__ double float_of_key(i64 key) {
    return __longlong_as_double(key ^ (i64)((u64)(key >> 63) >> 1));
}

// Offers a neighbour to the row at a place of those that are searched.
__device__ __forceinline__ void offer(const Searched& searched, u32 place, const Neighbour& neighbour) {
    Neighbour* offered = searched.offered + (u64)place * searched.capacity;
    if (searched.kept[place] == searched.wanted && !(neighbour < offered[searched.wanted - 1])) return;
    u32 at = atomicAdd(&searched.counts[place], 1u);
    if (at < searched.capacity) offered[at] = neighbour;
}

// Offers the build row `row` with a score to that row.
__device__ __forceinline__ void offer_row(const Searched& searched, u32 place, double score, u32 row,
                                          const u32* ranks) {
    Neighbour neighbour;
    neighbour.score = searched.descending ? ~float_key(score) : float_key(score);
    neighbour.row = row;
    neighbour.rank = ranks ? ranks[row] : 0;
    offer(searched, place, neighbour);
}

// Writes the seeds of a probe block: the build blocks around `middle`, that one first, then nearer ones before others.
__device__ __forceinline__ void seed_around(const Searched& searched, u32 probe_block, u32 middle, u32 blocks) {
    u32* seeds = searched.seeds + (u64)probe_block * searched.seed_count;
    for (u32 n = 0; n < searched.seed_count; n++) {
        u32 apart = (n + 1) / 2;
        bool is_before = n % 2 == 1, is_there = is_before ? apart <= middle : middle + apart < blocks;
        seeds[n] = !is_there ? NO_SEED : is_before ? middle - apart : middle + apart;
    }
}
