// The best of what the rows of a nearest join are offered: what is the same for all families of keys, see nearest.cuh.

#include "nearest.cuh"

// How far a neighbour may be whose score is no worse, as crates/engine/src/vectors/reach.rs has it for vectors.
__device__ __forceinline__ float farthest(const Searched& searched, double score) {
    if (searched.reach_by == BY_SCORE) return __uint_as_float(0x7f800000u);
    double d = searched.dimension, unit = 1.0 / ((u64)1 << 53),
           far = score * (1.0 + (d + 64.0) * 8.0 * unit) + 2.3e-308;
    if (searched.reach_by == BY_COSINE) {
        double squares = 2.0 - 2.0 * score;
        far = sqrt((squares > 0.0 ? squares : 0.0) + (d + 16.0) * 16.0 * unit) + (d + 16.0) * 8.0 * unit;
    }
    // one that is NaN is of a score that any other is better than
    return far >= 0.0 ? above(far) : __uint_as_float(0x7f800000u);
}

extern __shared__ Neighbour sorted[];

// One block of 128 threads a row, `capacity` neighbours of shared memory, 2,048 at most: the best `wanted` of those
// offered.
extern "C" __global__ void __launch_bounds__(128) nearest_select(Searched searched) {
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
        reach = farthest(searched, float_of_key(searched.descending ? ~score : score));
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
