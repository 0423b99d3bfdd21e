// Nearest joins of vectors: the best build rows for each row of some probe blocks, in rounds.
//
//   blocks --nearest_seeds----> for each probe block the build blocks whose centres are nearest to its own, and in few dimensions
//                               to its first and its last point: the curve may leap in between
//          --nearest_filter_*-> pairs that the filter cannot tell from neighbours: of the seeds, then of a sample of all
//                               blocks, of a larger one, and at last of all
//          --nearest_offer----> the scores of these, by the measure itself, to the rows that may keep them
//          --nearest_select---> the best so far of each row, and from the worst of them how far the filter looks next
//          --nearest_fetch----> the rows' neighbours, one row after the other
//
// `vectors.cuh` says what a point is. A round loses no neighbour: whatever the filter passes over is farther than
// `wanted` rows that the probe row had been offered before, by the same proof as for a condition with the score of the
// worst of them as its bound, which `farthest` turns into a distance as crates/engine/src/vectors/reach.rs does.
//
// Neighbours are in the order of (score as an integer, rank, row number), which no two rows share, so that a row that
// is offered twice is found out, and rows of one score do not pile up. What a row is offered beyond `capacity` is lost:
// then `crowded` is raised, and the candidates have to be offered once more to such rows, whose reach is in `again`,
// until none is lost: each time they keep better ones.

// targets: sm75, sm80
#include "vectors.cuh"

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
    // Build blocks of each block, `seed_count` each.
    u32* seeds;
    u32 first;
    u32 count;
    u32 capacity;
    u32 wanted;
    u32 seed_count;
    // How many of them are nearest to points instead of to the centre: none, or the last two.
    u32 corner_count;
    // Whether larger scores are better.
    u32 descending;
    // What rounding adds to the reach of sums in single precision: a factor, and for each unit of the points' norms.
    float wider;
    float by_norm;
    u32 unused;
};

// Which build blocks a round is about: the seed of this number, or where that is NO_SEED every block whose number is a
// multiple of `stride`, but none of `done`, where that is not 0.
struct Round {
    u32 seed;
    u32 stride;
    u32 done;
};

#define NO_SEED 0xffffffffu  // for the host
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
extern "C" __global__ void __launch_bounds__(128) nearest_seeds(Vectors probe, Vectors build, u32 width,
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
    auto counts = [&](u32 other) { return other % round.stride == 0 && (round.done == 0 || other % round.done != 0); };
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
FILTER(nearest_filter_l1, MANHATTAN)
FILTER(nearest_filter_l2, EUCLIDEAN)
FILTER(nearest_filter_linf, CHEBYSHEV)

// Without tensor cores the filter in single precision is faster.
#if defined(TENSOR_CORES) || !defined(__CUDA_ARCH__)
// One block of 4 warps a task: appends the positions of pairs of a round that the filter in half precision cannot tell
// from neighbours.
extern "C" __global__ void __launch_bounds__(128) nearest_filter_halves(Vectors probe, Vectors build,
                                                                        VectorCondition test, const Task* tasks,
                                                                        Searched searched, Round round, Pair* pairs,
                                                                        u64* count, u64 capacity) {
    Kept kept = {pairs, count, capacity, 0, 0, probe.count};
    filter(probe, build, test, tasks, searched, round, [&](u32 block, u32 other, const RowReach& reach) {
        compare_halves(probe, block, build, other, test, reach, kept);
    });
}
#endif

// An integer in the order of floats, NaN being the greatest; and back.
__device__ __forceinline__ i64 float_key(double value) {
    i64 bits = __double_as_longlong(value);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
__device__ __forceinline__ double float_of_key(i64 key) {
    return __longlong_as_double(key ^ (i64)((u64)(key >> 63) >> 1));
}

// One thread a candidate, of which there are min(*candidate_count, capacity). `ranks` is by row number, null where all
// rows have the same.
extern "C" __global__ void __launch_bounds__(128) nearest_offer(Vectors probe, Vectors build, VectorCondition test,
                                                                const u32* NULLABLE ranks, Searched searched,
                                                                const Pair* candidates, const u64* candidate_count,
                                                                u64 capacity) {
    u64 all = min(*candidate_count, capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        Pair candidate = candidates[at];
        u32 self_join = candidate.probe - searched.first;
        if (searched.reach[self_join] < 0.0f) continue;
        const double* left = build.values + (u64)build.sources[candidate.build] * test.dimension;
        const double* right = probe.values + (u64)probe.sources[candidate.probe] * test.dimension;
        double score;
        if (!vector_score(test, left, right, score)) continue;
        Neighbour neighbour;
        neighbour.score = searched.descending ? ~float_key(score) : float_key(score);
        neighbour.row = build.rows[candidate.build];
        neighbour.rank = ranks ? ranks[neighbour.row] : 0;
        Neighbour* offered = searched.offered + (u64)self_join * searched.capacity;
        if (searched.kept[self_join] == searched.wanted && !(neighbour < offered[searched.wanted - 1])) continue;
        u32 place = atomicAdd(&searched.counts[self_join], 1u);
        if (place < searched.capacity) offered[place] = neighbour;
    }
}

// The largest distance in the metric of two vectors with a score that is no worse.
__device__ __forceinline__ float farthest(const VectorCondition& test, double score) {
    double d = test.dimension, unit = 1.0 / ((u64)1 << 53), far = score * (1.0 + (d + 64.0) * 8.0 * unit) + 2.3e-308;
    if (test.measure == COSINE) {
        double squares = 2.0 - 2.0 * score;
        far = sqrt((squares > 0.0 ? squares : 0.0) + (d + 16.0) * 16.0 * unit) + (d + 16.0) * 8.0 * unit;
    }
    // one that is NaN is of a score that any other is better than
    return far >= 0.0 ? above(far) : __uint_as_float(0x7f800000u);
}

extern __shared__ Neighbour sorted[];

// One block of 128 threads a row, `capacity` neighbours of shared memory, 2,048 at most: the best `wanted` of those
// offered.
extern "C" __global__ void __launch_bounds__(128) nearest_select(VectorCondition test, Searched searched) {
    u32 self_join = blockIdx.x, thread = threadIdx.x, threads = blockDim.x;
    u32 offers = searched.counts[self_join], kept = searched.kept[self_join], capacity = searched.capacity;
    if (offers == kept) {
        if (thread == 0) searched.again[self_join] = -1.0f;
        return;
    }
    Neighbour* offered = searched.offered + (u64)self_join * capacity;
    u32 count = min(offers, capacity), size = 2;
    while (size < count) size *= 2;
    const Neighbour none = {0x7fffffffffffffffll, ALL_LANES, ALL_LANES};
    for (u32 at = thread; at < size; at += threads) sorted[at] = at < count ? offered[at] : none;
    __syncthreads();
    // bitonic: runs of `run` become sorted ones, every other one backwards
    auto sort = [&]() {
        for (u32 run = 2; run <= size; run *= 2) {
            for (u32 step = run / 2; step > 0; step /= 2) {
                for (u32 pair = thread; pair < size / 2; pair += threads) {
                    u32 low = pair / step * step * 2 + pair % step, high = low + step;
                    Neighbour one = sorted[low], other = sorted[high];
                    bool forwards = (low & run) == 0;
                    if (forwards ? other < one : one < other) {
                        sorted[low] = other;
                        sorted[high] = one;
                    }
                }
                __syncthreads();
            }
        }
    };
    sort();
    // a row that was offered twice is beside itself; one bit for each place of the thread
    u32 twice = 0;
    for (u32 at = thread, bit = 0; at < size; at += threads, bit++)
        twice |= (u32)(at > 0 && sorted[at].row == sorted[at - 1].row && sorted[at].row != none.row) << bit;
    if (__syncthreads_or(twice != 0)) {
        for (u32 at = thread, bit = 0; at < size; at += threads, bit++)
            if (twice >> bit & 1) sorted[at] = none;
        __syncthreads();
        sort();
    }
    u32 different = 0;
    for (u32 at = thread; at < size; at += threads) different += sorted[at].row != none.row;
    for (u32 at = thread; at < searched.wanted && at < size; at += threads) offered[at] = sorted[at];
    __shared__ u32 all;
    if (thread == 0) all = 0;
    __syncthreads();
    atomicAdd(&all, different);
    __syncthreads();
    if (thread != 0) return;
    u32 now = min(all, searched.wanted);
    float reach = searched.reach[self_join];
    if (now == searched.wanted) {
        i64 score = sorted[now - 1].score;
        reach = farthest(test, float_of_key(searched.descending ? ~score : score));
    }
    searched.reach[self_join] = reach;
    searched.counts[self_join] = searched.kept[self_join] = now;
    searched.again[self_join] = offers > capacity ? reach : -1.0f;
    if (offers > capacity) atomicAdd(searched.crowded, (u64)1);
}

// One thread a place: the `wanted` places of each row, of which `kept` are set.
extern "C" __global__ void __launch_bounds__(256) nearest_fetch(Searched searched, Neighbour* out) {
    u64 all = (u64)searched.count * searched.wanted;
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        u64 self_join = at / searched.wanted, place = at % searched.wanted;
        if (place < searched.kept[self_join]) out[at] = searched.offered[self_join * searched.capacity + place];
    }
}

#include "layout/nearest.cuh"
