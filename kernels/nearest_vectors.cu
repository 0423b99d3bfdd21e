// Nearest joins of vectors: which pairs may be neighbours, and their scores, in the rounds of nearest.cuh.
//
// The seeds are the build blocks whose centres are nearest to that of a probe block, and in few dimensions to its first
// and its last point: the curve may leap in between. `vectors.cuh` says what a point is. What the filter passes over is
// farther than the reach of a row, by the same proof as for a condition with its worst score as the bound.

// targets: sm75, sm80
#include "nearest.cuh"
#include "vectors.cuh"

// Outer boxes that seeds are from: the nearest to a block's centre, and to a point.
#define BOXES_OF_CENTRE 4
#define BOXES_OF_POINT 12

__device__ __forceinline__ float raised(float x) { return x + x * 1e-6f + 1e-37f; }

// How far the filter looks for a probe block whose rows have reaches of their own.
struct RowReach {
    const float* reach;
    u32 first;
    u32 metric;
    float wider;
    float by_norm;
    float scale;
    // The largest of the block.
    float most;

    __device__ __forceinline__ float limit(float reach, float left, float right) const {
        if (reach < 0.0f) return -1.0f;
        float far = reach * wider + by_norm * max(left, right);
        return raised(metric == EUCLIDEAN ? far * far : far);
    }
    __device__ __forceinline__ float of_block(float left, float right) const { return limit(most, left, right); }
    __device__ __forceinline__ float of_position(u64 position, float left, float right) const {
        return limit(reach[position - first], left, right);
    }
    __device__ __forceinline__ float slack(u64 position, float left, float right, float one, float two,
                                           float rounding) const {
        float self_join = reach[position - first];
        if (self_join < 0.0f) return __uint_as_float(0xff800000u);
        float far = self_join * scale + one + two, half = far * far / 2.0f;
        return raised(half + rounding * (half + (left + right) * (left + right) / 2.0f));
    }
};

// How far a box from `low` to `high` is in a dimension, twice: its centre from that of a block's box, its centre from a
// point, and itself from a point. A box within which the curve leaps contains points that are far from its centre.
struct FromCentre {
    const float* lows;
    const float* highs;
    u32 boxes;
    __device__ __forceinline__ float operator()(u32 k, float low, float high) const {
        return lows[(u64)k * boxes] + highs[(u64)k * boxes] - (low + high);
    }
};
struct CentreFromPoint {
    const float* point;
    __device__ __forceinline__ float operator()(u32 k, float low, float high) const {
        return 2.0f * point[k * BLOCK] - (low + high);
    }
};
struct BoxFromPoint {
    const float* point;
    __device__ __forceinline__ float operator()(u32 k, float low, float high) const {
        float x = point[k * BLOCK];
        return 2.0f * max(max(low - x, x - high), 0.0f);
    }
};

// Boxes of the build side, `rows` positions each: those from `from` to before `end`, of which `first` is the one of
// position 0.
struct BoxRange {
    u32 from;
    u32 end;
    u32 first;
    u32 rows;
};

// The nearest box, and its distance, of those that come after (distance, box) in this order; NO_SEED comes before all.
// All lanes of a warp call it and are given the same.
template <class Away>
__device__ __forceinline__ void next_nearest(const Vectors& probe, u32 block, const Vectors& build,
                                             const BoxRange& range, u32 width, const Away& away, float& distance,
                                             u32& box) {
    u32 others = boxes_of(build.count);
    u64 self_join = (u64)block * BLOCK;
    float best = __uint_as_float(0x7f800000u);
    u32 found = NO_SEED;
    for (u32 other = range.from + lane_of_thread(); other < range.end; other += WARP_LANES) {
        u64 row = (u64)(other - range.first) * range.rows;
        if (!share_group(probe, self_join, self_join + BLOCK, build, row, row + range.rows)) continue;
        float sum = 0.0f;
        for (u32 k = 0; k < width; k++) {
            u64 at = (u64)k * others + other;
            float gap = away(k, build.lows[at], build.highs[at]);
            sum = fmaf(gap, gap, sum);
        }
        // one that is NaN is of points without end
        sum = sum < __uint_as_float(0x7f800000u) ? sum : __uint_as_float(0x7f800000u);
        bool comes_after = box == NO_SEED || sum > distance || (sum == distance && other > box);
        if (comes_after && (found == NO_SEED || sum < best)) {
            best = sum;
            found = other;
        }
    }
    for (u32 offset = 16; offset > 0; offset /= 2) {
        float sum = __shfl_xor_sync(ALL_LANES, best, offset);
        u32 other = __shfl_xor_sync(ALL_LANES, found, offset);
        if (other != NO_SEED && (found == NO_SEED || sum < best || (sum == best && other < found))) {
            best = sum;
            found = other;
        }
    }
    distance = best;
    box = found;
}

// Writes the `wanted` build blocks that are the nearest by `away` among those of the OUTERS nearest outer boxes by
// `outer_away`, NO_SEED where there are fewer. All lanes of a warp call it.
template <u32 OUTERS, class OuterAway, class Away>
__device__ __forceinline__ void nearest_blocks(const Vectors& probe, u32 block, const Vectors& build, u32 width,
                                               const OuterAway& outer_away, const Away& away, u32* seeds, u32 wanted) {
    u32 blocks = blocks_of(build.count), outers[OUTERS], count = 0, last = NO_SEED;
    BoxRange range = {blocks, boxes_of(build.count), blocks, GROUPED * BLOCK};
    float distance = 0.0f;
    for (u32 n = 0; n < OUTERS; n++) {
        next_nearest(probe, block, build, range, width, outer_away, distance, last);
        if (last == NO_SEED) break;
        outers[count++] = last - blocks;
    }
    last = NO_SEED;
    for (u32 n = 0; n < wanted; n++) {
        // the nearest of those of each outer box
        float before = distance;
        u32 seed = NO_SEED;
        for (u32 o = 0; o < count; o++) {
            float here = before;
            u32 box = last;
            range = {outers[o] * GROUPED, min(blocks, (outers[o] + 1) * GROUPED), 0, BLOCK};
            next_nearest(probe, block, build, range, width, away, here, box);
            if (box != NO_SEED && (seed == NO_SEED || here < distance || (here == distance && box < seed))) {
                distance = here;
                seed = box;
            }
        }
        if (lane_of_thread() == 0) seeds[n] = seed;
        last = seed;
        if (seed == NO_SEED) count = 0;
    }
}

// One warp a probe block: its seeds, each block once, NO_SEED where there are fewer.
extern "C" __global__ void __launch_bounds__(128) nearest_vector_seeds(Vectors probe, Vectors build, u32 width,
                                                                       Searched searched) {
    u32 at = (u32)(thread_in_grid() / WARP_LANES), block = searched.first / BLOCK + at;
    if (at >= blocks_of(searched.count)) return;
    u32* seeds = searched.seeds + (u64)at * searched.seed_count;
    u32 boxes = boxes_of(probe.count), by_box = searched.seed_count - searched.corner_count;
    FromCentre centre = {probe.lows + block, probe.highs + block, boxes};
    nearest_blocks<BOXES_OF_CENTRE>(probe, block, build, width, centre, centre, seeds, by_box);
    u32 end = min(probe.count, (block + 1) * BLOCK);
    for (u32 corner = 0; corner < searched.corner_count; corner++) {
        u32 position = corner == 0 ? block * BLOCK : end - 1;
        const float* point = probe.points + (u64)block * BLOCK * width + position % BLOCK;
        nearest_blocks<BOXES_OF_POINT>(probe, block, build, width, BoxFromPoint{point}, CentreFromPoint{point},
                                       seeds + by_box + corner, 1);
    }
    if (lane_of_thread() != 0) return;
    for (u32 n = by_box; n < searched.seed_count; n++)
        for (u32 before = 0; before < n; before++)
            if (seeds[before] == seeds[n]) seeds[n] = NO_SEED;
}

// One block of 4 warps a task, each warp with one probe block.
template <class Compare>
__device__ __forceinline__ void filter(const Vectors& probe, const Vectors& build, const VectorCondition& test,
                                       const Task* tasks, const Searched& searched, const Round& round,
                                       Compare compare) {
    Task task = tasks[blockIdx.x];
    u32 block = task.probe + threadIdx.x / WARP_LANES, at = block - searched.first / BLOCK;
    if (at >= blocks_of(searched.count)) return;
    const float* self_join = searched.reach + (u64)at * BLOCK + lane_of_thread();
    float most = max(self_join[0], self_join[WARP_LANES]);
    for (u32 offset = 16; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(ALL_LANES, most, offset));
    if (most < 0.0f) return;
    RowReach reach = {searched.reach,   searched.first,    test.metric, searched.wider,
                      searched.by_norm, (float)test.scale, most};
    if (round.seed != NO_SEED) {
        u32 other = searched.seeds[(u64)at * searched.seed_count + round.seed];
        if (other != NO_SEED) compare(block, other, reach);
        return;
    }
    auto counts = [&](u32 other) { return is_of_round(round, other); };
    visit_near(probe, block, build, task.first, task.end, test, reach, counts,
               [&](u32 other) { compare(block, other, reach); });
}

// One block of 4 warps a task: appends the positions of pairs of a round that the filter in single precision cannot tell
// from neighbours.
#define FILTER(name, METRIC)                                                                                   \
    extern "C" __global__ void __launch_bounds__(128) name(Vectors probe, Vectors build, VectorCondition test, \
                                                           const Task* tasks, Searched searched, Round round,  \
                                                           Pair* pairs, u64* count, u64 capacity) {            \
        Kept kept = {pairs, count, capacity, 0, 0, probe.count};                                               \
        filter(probe, build, test, tasks, searched, round, [&](u32 block, u32 other, const RowReach& reach) {  \
            compare<METRIC>(probe, block, build, other, test, reach, kept);                                    \
        });                                                                                                    \
    }
FILTER(nearest_vector_filter_l1, MANHATTAN)
FILTER(nearest_vector_filter_l2, EUCLIDEAN)
FILTER(nearest_vector_filter_linf, CHEBYSHEV)

// Without tensor cores the filter in single precision is faster.
#if defined(TENSOR_CORES) || !defined(__CUDA_ARCH__)
// One block of 4 warps a task: appends the positions of pairs of a round that the filter in half precision cannot tell
// from neighbours.
extern "C" __global__ void __launch_bounds__(128) nearest_vector_filter_halves(Vectors probe, Vectors build,
                                                                               VectorCondition test, const Task* tasks,
                                                                               Searched searched, Round round,
                                                                               Pair* pairs, u64* count, u64 capacity) {
    Kept kept = {pairs, count, capacity, 0, 0, probe.count};
    filter(probe, build, test, tasks, searched, round, [&](u32 block, u32 other, const RowReach& reach) {
        compare_halves(probe, block, build, other, test, reach, kept);
    });
}
#endif

// One thread a candidate, of which there are min(*candidate_count, capacity). `ranks` is by row number, null where all
// rows have the same.
extern "C" __global__ void __launch_bounds__(128) nearest_vector_offer(Vectors probe, Vectors build,
                                                                       VectorCondition test, const u32* NULLABLE ranks,
                                                                       Searched searched, const Pair* candidates,
                                                                       const u64* candidate_count, u64 capacity) {
    u64 all = min(*candidate_count, capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        Pair candidate = candidates[at];
        u32 self_join = candidate.probe - searched.first;
        if (searched.reach[self_join] < 0.0f) continue;
        const double* left = build.values + (u64)build.sources[candidate.build] * test.dimension;
        const double* right = probe.values + (u64)probe.sources[candidate.probe] * test.dimension;
        double score;
        if (!vector_score(test, left, right, score)) continue;
        offer_row(searched, self_join, score, build.rows[candidate.build], ranks);
    }
}

#include "layout/nearest_vectors.cuh"
