// What all kernels over vectors read: points in blocks along a curve, boxes around them, and the filters that compare
// blocks.
//
// A point is its vector less a centre, the telling dimensions first, divided by its length for a cosine. The curve is
// the Z-order of LSS (Lieberman, Sankaranarayanan and Samet, ICDE 2008, section IV): positions of a block are near each
// other, so that most blocks are told apart by their boxes. A warp walks the boxes of the build side, 32 at a time, two
// levels deep, and compares a probe block of 64 points with each build block that is near.
//
// Why no filter loses a match. With u = 2^-24 and d dimensions:
//   single precision: a point is its vector within u |p| in the norm of the metric, a difference within u of itself, a sum
//       of d terms within (d + 2) u of itself. So the sum of two points at a distance of e is no more than that of
//       e (1 + 4 (d + 8) u) + 4 u max(|p|, |q|), which `far` and `by_norm` say; a sum of products is within
//       4 (d + 8) u |p| |q|. A sum that is NaN is not told from a match.
//   boxes: the gap of two boxes, rounded outwards, is no larger than the distance of any two points, in each dimension; the
//       sum of gaps rounds as that of differences, for which the limit of points has room.
//   half precision: a point p, times a power of two, becomes p' with a residue |p - p'| that is known, as computed; numbers
//       below the normal range become 0. If p and q match, |p' - q'| <= r = most + residue(p) + residue(q), that is
//       r^2 / 2 - p'^2 / 2 - q'^2 / 2 + p' q' >= 0. Products of halves are exact in single precision. Tensor cores add at
//       least in single precision, rounded in any way, in any order: each addition is off by at most 2^-23 of the largest
//       sum of magnitudes, r^2 / 2 + (|p'| + |q'|)^2 / 2, which all steps together do not exceed. There are at most
//       d + 31 additions with the padding; `slack` allows twice as much. For inner products
//       p' q' >= least - (|p'| residue(q) + |q'| residue(p) + residue(p) residue(q)) by the same sums.
#pragma once

#include "common.cuh"
#include "measure/vector_measure.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TENSOR_CORES 1
#endif

// Blocks of an outer box.
#define GROUPED 64  // for the host
// Numbers of a point that one matrix instruction takes.
#define STEP 16  // for the host
// The vectors of one side in order; every column has a multiple of BLOCK entries, those after `count` are of no vector.
struct Vectors {
    // Vectors as the query has them, one row after the other.
    const double* values;
    // Which row of `values` a position is.
    const u32* sources;
    // Row numbers.
    const u32* rows;
    // Null where all are of one group.
    const u32* NULLABLE groups;
    // Points, block by block: the first number of BLOCK points, their second ones and so on.
    const float* NULLABLE points;
    // Points in half precision, four numbers of a point together: see `half_place`.
    const uint2* NULLABLE halves;
    // Minus half the square of each point in half precision.
    const float* NULLABLE terms;
    // The largest residue and norm of each block, in half precision.
    const float* NULLABLE residues;
    const float* NULLABLE lengths;
    // Boxes of blocks, then the outer ones, dimension by dimension.
    const float* lows;
    const float* highs;
    // The largest norm of a point in each box.
    const float* norms;
    u32 count;
    u32 unused;
};

__device__ __forceinline__ u32 boxes_of(u32 count) {
    return blocks_of(count) + (blocks_of(count) + GROUPED - 1) / GROUPED;
}

__device__ __forceinline__ float number_of(u32 half) {
    u32 magnitude = half & 0x7fffu;
    return __uint_as_float((half & 0x8000u) << 16 | (magnitude ? (magnitude << 13) + (112u << 23) : 0));
}

// The largest sum of a match of two points with norms up to these.
__device__ __forceinline__ float limit_of(const VectorCondition& test, float left, float right) {
    if (test.metric == PRODUCTS) return above(test.far + test.by_norm * left * right);
    double far = test.far + test.by_norm * max(left, right);
    return above(test.metric == EUCLIDEAN ? far * far : far);
}

// Whether positions from `first` to before `end` may be of the same group as others of the other side.
__device__ __forceinline__ bool share_group(const Vectors& probe, u64 first, u64 end, const Vectors& build, u64 others,
                                            u64 others_end) {
    if (!probe.groups || !build.groups) return true;
    u32 last = probe.groups[min(end, (u64)probe.count) - 1],
        others_last = build.groups[min(others_end, (u64)build.count) - 1];
    return probe.groups[first] <= others_last && build.groups[others] <= last;
}

// How far the filter looks where that is the same for all rows.
struct TestReach {
    const VectorCondition& test;

    // The largest sum of a match of any two points with norms up to these, and of one of a position's.
    __device__ __forceinline__ float of_block(float left, float right) const { return limit_of(test, left, right); }
    __device__ __forceinline__ float of_position(u64, float left, float right) const {
        return limit_of(test, left, right);
    }

    // What is added to the products of a position's point and others in half precision, so that no match is below 0: by
    // the largest norms and residues of both.
    __device__ __forceinline__ float slack(u64, double left, double right, double one, double two,
                                           double rounding) const {
        if (test.metric == PRODUCTS) {
            double least = -test.most * test.scale * test.scale, moved = left * two + right * one + one * two;
            return above(moved - least + rounding * (fabs(least) + moved + left * right));
        }
        double far = test.most * test.scale + one + two, half = far * far / 2.0;
        return above(half + rounding * (half + (left + right) * (left + right) / 2.0));
    }
};

// Whether points of two boxes may match, of which the first is a block's.
template <class Reach>
__device__ __forceinline__ bool is_near(const Vectors& probe, u32 block, const Vectors& build, u32 box,
                                        const VectorCondition& test, const Reach& reach) {
    float limit = reach.of_block(probe.norms[block], build.norms[box]);
    if (test.metric == PRODUCTS) return !(-probe.norms[block] * build.norms[box] > limit);
    u32 boxes = boxes_of(probe.count), others = boxes_of(build.count);
    float sum = 0.0f;
    for (u32 k = 0; k < test.width; k++) {
        u64 at = (u64)k * boxes + block, other = (u64)k * others + box;
        float gap = max(max(probe.lows[at] - build.highs[other], build.lows[other] - probe.highs[at]), 0.0f);
        if (test.metric == EUCLIDEAN) sum = fmaf(gap, gap, sum);
        else sum = test.metric == MANHATTAN ? sum + gap : max(sum, gap);
        if (sum > limit) return false;
    }
    return true;
}

// Calls `visit` with each build block from `first` to before `end` that `counts` and is near a probe block. All lanes
// of a warp call it.
template <class Reach, class Counts, class Visit>
__device__ __forceinline__ void visit_near(const Vectors& probe, u32 block, const Vectors& build, u32 first, u32 end,
                                           const VectorCondition& test, const Reach& reach, Counts counts,
                                           Visit visit) {
    u32 lane = lane_of_thread(), blocks = blocks_of(build.count);
    u64 self_join = (u64)block * BLOCK, outer_size = (u64)GROUPED * BLOCK;
    for (u32 outers = first / GROUPED; outers * GROUPED < end; outers += WARP_LANES) {
        u32 outer = outers + lane;
        bool near =
            (u64)outer * GROUPED < end &&
            share_group(probe, self_join, self_join + BLOCK, build, outer * outer_size, (outer + 1) * outer_size) &&
            is_near(probe, block, build, blocks + outer, test, reach);
        for (u32 hits = __ballot_sync(ALL_LANES, near); hits != 0; hits &= hits - 1) {
            u32 begin = (outers + __ffs(hits) - 1) * GROUPED;
            for (u32 from = begin; from < begin + GROUPED; from += WARP_LANES) {
                u32 other = from + lane;
                bool is_one = other >= first && other < end && counts(other) &&
                              share_group(probe, self_join, self_join + BLOCK, build, (u64)other * BLOCK,
                                          (u64)(other + 1) * BLOCK) &&
                              is_near(probe, block, build, other, test, reach);
                for (u32 ones = __ballot_sync(ALL_LANES, is_one); ones != 0; ones &= ones - 1)
                    visit(from + __ffs(ones) - 1);
            }
        }
    }
}

// What a filter keeps, and which pairs count: those of probe positions in `begin..end`, with `self_join` those behind
// them.
struct Kept {
    Pair* pairs;
    u64* count;
    u64 capacity;
    u32 self_join;
    u32 begin;
    u32 end;
};

__device__ __forceinline__ bool counts(const Vectors& probe, const Vectors& build, const Kept& kept, Pair pair) {
    u32 p = pair.probe, b = pair.build;
    if (p < kept.begin || p >= kept.end || b >= build.count || (kept.self_join && b <= p)) return false;
    return !probe.groups || !build.groups || probe.groups[p] == build.groups[b];
}

// Appends the pairs of a warp that count: `hits` has a bit for each of a lane's, which `pair_of` gives. As `append`,
// with one addition to the counter for all. All lanes call it.
template <class PairOf>
__device__ __forceinline__ void keep(const Vectors& probe, const Vectors& build, const Kept& kept, u64 hits,
                                     PairOf pair_of) {
    for (u64 bits = hits; bits != 0; bits &= bits - 1) {
        u32 bit = __ffsll(bits) - 1;
        if (!counts(probe, build, kept, pair_of(bit))) hits &= ~((u64)1 << bit);
    }
    __syncwarp();
    u32 lane = lane_of_thread(), self_join = __popcll(hits), up_to_own = self_join;
    for (u32 offset = 1; offset < WARP_LANES; offset *= 2) {
        u32 below = __shfl_up_sync(ALL_LANES, up_to_own, offset);
        if (lane >= offset) up_to_own += below;
    }
    u32 all = __shfl_sync(ALL_LANES, up_to_own, WARP_LANES - 1);
    if (all == 0) return;
    u64 at = lane == 0 ? atomicAdd(kept.count, (u64)all) : 0;
    at = __shfl_sync(ALL_LANES, at, 0) + up_to_own - self_join;
    for (; hits != 0; hits &= hits - 1, at++)
        if (at < kept.capacity) kept.pairs[at] = pair_of(__ffsll(hits) - 1);
    __syncwarp();
}

template <u32 METRIC>
__device__ __forceinline__ float add(float sum, float a, float b) {
    if (METRIC == PRODUCTS) return fmaf(-a, b, sum);
    float difference = a - b;
    if (METRIC == EUCLIDEAN) return fmaf(difference, difference, sum);
    if (METRIC == MANHATTAN) return sum + fabsf(difference);
    // one that is NaN is of a point without end, for which the limit is as well
    return fabsf(difference) <= sum ? sum : fabsf(difference);
}

// All pairs of two blocks in single precision, by a warp: 32 columns at a time, of which each lane has 8 with 8 rows.
template <u32 METRIC, class Reach>
__device__ __forceinline__ void compare(const Vectors& probe, u32 block, const Vectors& build, u32 other,
                                        const VectorCondition& test, const Reach& reach, const Kept& kept) {
    u32 rows = lane_of_thread() / 4 * 8, columns = lane_of_thread() % 4 * 8, dimension = test.dimension;
    const float* a = probe.points + (u64)block * BLOCK * dimension + rows;
    float limits[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        limits[i] = reach.of_position((u64)block * BLOCK + rows + i, probe.norms[block], build.norms[other]);
    for (u32 half = 0; half < BLOCK; half += 32) {
        const float* b = build.points + (u64)other * BLOCK * dimension + half + columns;
        float sums[8][8] = {};
        for (u32 k = 0; k < dimension; k++) {
            float4 x[2] = {*(const float4*)(a + k * BLOCK), *(const float4*)(a + k * BLOCK + 4)};
            float4 y[2] = {*(const float4*)(b + k * BLOCK), *(const float4*)(b + k * BLOCK + 4)};
            const float left[8] = {x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w};
            const float right[8] = {y[0].x, y[0].y, y[0].z, y[0].w, y[1].x, y[1].y, y[1].z, y[1].w};
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) sums[i][j] = add<METRIC>(sums[i][j], left[i], right[j]);
        }
        bool far = true;
#pragma unroll
        for (int i = 0; i < 64; i++) far = far && sums[i / 8][i % 8] > limits[i / 8];
        if (__all_sync(ALL_LANES, far)) continue;
        u64 hits = 0;
#pragma unroll
        for (int i = 0; i < 64; i++) hits |= (u64) !(sums[i / 8][i % 8] > limits[i / 8]) << i;
        keep(probe, build, kept, hits, [&](u32 i) {
            Pair pair;
            pair.build = other * BLOCK + half + columns + i % 8;
            pair.probe = block * BLOCK + rows + i / 8;
            return pair;
        });
    }
}

// d += the products of 16 rows and 8 columns over one step: a thread has rows g and g + 8, columns 2 t and 2 t + 1,
// with g = lane / 4 and t = lane % 4. `upper`, `lower` and `column` are what it holds of rows and columns; `rows` and
// `columns` point to what all lanes hold.
__device__ __forceinline__ void multiply(float d[4], uint2 upper, uint2 lower, uint2 column, const uint2* rows,
                                         const uint2* columns) {
#ifdef TENSOR_CORES
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(column.x), "r"(column.y));
#else
    u32 g = lane_of_thread() / 4, t = lane_of_thread() % 4;
    for (u32 z = 0; z < 4; z++) {
        const u16* row = (const u16*)(rows + z / 2 * WARP_LANES + g * 4);
        const u16* other = (const u16*)(columns + (t * 2 + z % 2) * 4);
        for (u32 k = 0; k < STEP; k++) d[z] += number_of(row[k]) * number_of(other[k]);
    }
#endif
}

// All pairs of two blocks in half precision, by a warp: 32 columns at a time.
template <class Reach>
__device__ __forceinline__ void compare_halves(const Vectors& probe, u32 block, const Vectors& build, u32 other,
                                               const VectorCondition& test, const Reach& reach, const Kept& kept) {
    u32 lane = lane_of_thread(), g = lane / 4, t = lane % 4, steps = (test.dimension + STEP - 1) / STEP;
    const uint2 *rows = probe.halves + (u64)block * steps * (8 * WARP_LANES),
                *columns = build.halves + (u64)other * steps * (8 * WARP_LANES);
    double rounding = (steps * STEP + 32) * (1.0 / (1 << 22));
    float terms[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u64 position = (u64)block * BLOCK + i * 8 + g;
        terms[i] = probe.terms[position] + reach.slack(position, probe.lengths[block], build.lengths[other],
                                                       probe.residues[block], build.residues[other], rounding);
    }
    for (u32 half = 0; half < BLOCK; half += 32) {
        float d[4][4][4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float2 term = *(const float2*)(build.terms + other * BLOCK + half + c * 8 + t * 2);
#pragma unroll
            for (int q = 0; q < 4; q++) {
                d[q][c][0] = terms[q * 2] + term.x;
                d[q][c][1] = terms[q * 2] + term.y;
                d[q][c][2] = terms[q * 2 + 1] + term.x;
                d[q][c][3] = terms[q * 2 + 1] + term.y;
            }
        }
#pragma unroll 1
        for (u32 step = 0; step < steps; step++) {
            const uint2 *a = rows + (u64)step * (8 * WARP_LANES),
                        *b = columns + (u64)step * (8 * WARP_LANES) + half / 8 * WARP_LANES;
            uint2 left[8], right[4];
#pragma unroll
            for (int i = 0; i < 8; i++) left[i] = a[i * WARP_LANES + lane];
#pragma unroll
            for (int c = 0; c < 4; c++) right[c] = b[c * WARP_LANES + lane];
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    multiply(d[q][c], left[q * 2], left[q * 2 + 1], right[c], a + q * 2 * WARP_LANES,
                             b + c * WARP_LANES);
        }
        int all_negative = -1;
#pragma unroll
        for (int i = 0; i < 64; i++) all_negative &= __float_as_int(d[i / 16][i / 4 % 4][i % 4]);
        if (__all_sync(ALL_LANES, all_negative < 0)) continue;
        u64 hits = 0;
#pragma unroll
        for (int i = 0; i < 64; i++) hits |= (u64)(__float_as_int(d[i / 16][i / 4 % 4][i % 4]) >= 0) << i;
        keep(probe, build, kept, hits, [&](u32 i) {
            Pair pair;
            pair.build = other * BLOCK + half + i / 4 % 4 * 8 + t * 2 + i % 2;
            pair.probe = block * BLOCK + i / 16 * 16 + g + i % 4 / 2 * 8;
            return pair;
        });
    }
}
