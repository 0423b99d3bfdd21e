// Nearest joins of sets: which pairs may be neighbours, and their scores, in the rounds of nearest.cuh.
//
// The seeds of a probe block are the build blocks around its place by group and size. The filter is that of sets.cu
// with a bound for each row: the score of the worst that it keeps. What sets must have in common is found by the
// measure's own score: it rises with the overlap and falls with the sizes, so that the least sizes of two blocks speak for all of
// their pairs. Only sets that share a token are found here.

// targets: sm75, sm80
#include "nearest_sets.cuh"
#include "signature_tile.cuh"

// The score of what a set of so many tokens has in common with itself, less a share of it.
__device__ __forceinline__ double score_at(const SetRanking& by, float share, u32 size) {
    SetSizes sizes;
    sizes.build = sizes.probe = max(size, 1u);
    return max(1.0 - (double)share, 0.0) * score_of(by, sizes.build, sizes);
}

// How far a round looks for the row at a place of those that are searched, of so many tokens. What is no farther than
// earlier rounds have seen is known.
__device__ __forceinline__ double bound_of_round(const SetRanking& by, const Searched& searched, u32 place,
                                                 const Round& round, u32 size) {
    double bound = bound_of(searched, place);
    if (round.seen > 0.0f && bound >= score_at(by, round.seen, size)) return NO_SCORE;
    return max(bound, score_at(by, round.far, size));
}

// The common bits that all pairs of two blocks need for scores no worse than `bound`; false where none can have one.
__device__ __forceinline__ bool needed_by_blocks(const SetRanking& by, double bound, const Summary& probe,
                                                 const Summary& build, int& bits) {
    if (probe.first_group > build.last_group || build.first_group > probe.last_group) return false;
    u32 most = min(probe.most_size, build.most_size);
    SetSizes least;
    least.build = build.least_size;
    least.probe = probe.least_size;
    u32 common = first_true(1, most + 1, [&](u32 common) { return may_score(by, bound, common, least); });
    bits = (int)common - (int)min(probe.most_excess, build.most_excess);
    return common <= most && bits <= (int)min(probe.most_ones, build.most_ones);
}

// Whether a pair may have a score no worse than `bound`, by signatures of `words` words.
__device__ __forceinline__ bool may_be_neighbours(const SetRanking& by, double bound, const Sets& probe, u32 p,
                                                  const Sets& build, u32 b, int words) {
    if (probe.groups[p] != build.groups[b]) return false;
    u32 common = min(most_common(probe, build, words, p, b), min(probe.known[p], build.known[b]));
    return common > 0 && may_score(by, bound, common, sizes_of(build, b, probe, p));
}

// One thread a probe block: the build blocks around its place by group and size, the middle one first.
extern "C" __global__ void __launch_bounds__(128) nearest_set_seeds(Sets probe, Sets build, Searched searched) {
    u32 at = (u32)thread_in_grid();
    if (at >= blocks_of(searched.count)) return;
    Summary rows = probe.summaries[searched.first / BLOCK + at];
    const Summary* blocks = build.summaries;
    u32 all = blocks_of(build.count);
    // the middle of the blocks that end with as large a set
    auto first_after = [&](u64 wanted) {
        return first_true(0, all, [&](u32 b) { return place(blocks[b].last_group, blocks[b].last_size) >= wanted; });
    };
    u64 wanted = place(rows.last_group, rows.last_size);
    u32 low = first_after(wanted), high = first_after(wanted + 1);
    seed_around(searched, at, min(low + (high - low) / 2, all - 1), all);
}

// One block of 4 warps a task, each with one probe block, Q * 16 rows of it at a time.
template <int W, int Q>
__device__ __forceinline__ void filter(const Sets& probe, const Sets& build, const SetRanking& by, const Task* tasks,
                                       const Searched& searched, const Round& round, double* own, Pair* pairs,
                                       u64* count, u64 capacity) {
    Task task = tasks[blockIdx.x];
    u32 lane = lane_of_thread(), block = task.probe + threadIdx.x / WARP_LANES, at = block - searched.first / BLOCK;
    if (at >= blocks_of(searched.count)) return;
    double loosest = NO_SCORE;
    for (u32 n = lane; n < BLOCK; n += WARP_LANES) {
        own[n] = bound_of_round(by, searched, at * BLOCK + n, round, probe.sizes[block * BLOCK + n]);
        loosest = min(loosest, own[n]);
    }
    for (u32 offset = 16; offset > 0; offset /= 2) loosest = min(loosest, __shfl_xor_sync(ALL_LANES, loosest, offset));
    __syncwarp();
    if (loosest == NO_SCORE) return;
    Summary rows = probe.summaries[block];
    for (u32 part = 0; part < BLOCK; part += Q * 16) {
        u32 row = block * BLOCK + part;
        ProbeRows<W, Q> held;
        held.load(probe.signatures, row);
        auto compare = [&](u32 other) {
            int least;
            if (!needed_by_blocks(by, loosest, rows, build.summaries[other], least)) return;
            visit_reaching(held, build.signatures, other, least, [&](u32 n, u32 b) {
                double bound = own[part + n];
                if (b >= build.count || bound == NO_SCORE) return;
                if (!may_be_neighbours(by, bound, probe, row + n, build, b, W * STEP)) return;
                Pair pair;
                pair.build = b;
                pair.probe = row + n;
                append(pair, pairs, count, capacity);
            });
            __syncwarp();
        };
        if (round.seed != NO_SEED) {
            u32 other = searched.seeds[(u64)at * searched.seed_count + round.seed];
            if (other != NO_SEED) compare(other);
            continue;
        }
        for (u32 first = task.first; first < task.end; first += WARP_LANES) {
            u32 other = first + lane;
            int least;
            bool is_one = other < task.end && is_of_round(round, other) &&
                          needed_by_blocks(by, loosest, rows, build.summaries[other], least);
            for (u32 ones = __ballot_sync(ALL_LANES, is_one); ones != 0; ones &= ones - 1)
                compare(first + __ffs(ones) - 1);
        }
    }
}

// One block of 4 warps a task, each with one probe block: appends the positions of pairs of a round whose signatures of
// so many bits allow a score that a row would keep.
#define FILTER(name, W, Q)                                                                                           \
    extern "C" __global__ void __launch_bounds__(128) name(Sets probe, Sets build, SetRanking by, const Task* tasks, \
                                                           Searched searched, Round round, Pair* pairs, u64* count,  \
                                                           u64 capacity) {                                           \
        __shared__ double bounds[4][BLOCK];                                                                          \
        filter<W, Q>(probe, build, by, tasks, searched, round, bounds[threadIdx.x / WARP_LANES], pairs, count,       \
                     capacity);                                                                                      \
    }
FILTER(nearest_set_filter_256, 1, 4)
FILTER(nearest_set_filter_512, 2, 4)
FILTER(nearest_set_filter_1024, 4, 2)
FILTER(nearest_set_filter_2048, 8, 1)

// One warp a candidate, of which there are min(*candidate_count, capacity): its score, to its row. `ranks` is by row
// number, null where all rows have the same.
extern "C" __global__ void __launch_bounds__(256) nearest_set_offer(Sets probe, Sets build, SetRanking by,
                                                                    const u32* NULLABLE ranks, Searched searched,
                                                                    const Pair* candidates, const u64* candidate_count,
                                                                    u64 capacity) {
    u64 all = min(*candidate_count, capacity);
    for (u64 at = thread_in_grid() / WARP_LANES; at < all; at += threads_in_grid() / WARP_LANES) {
        Pair candidate = candidates[at];
        u32 p = candidate.probe, b = candidate.build, place = p - searched.first;
        if (searched.reach[place] < 0.0f) continue;
        u32 common = overlap(probe, p, build, b);
        if (lane_of_thread() != 0 || common == 0) continue;
        offer_row(searched, place, score_of(by, common, sizes_of(build, b, probe, p)), build.rows[b], ranks);
    }
}

#include "layout/nearest_sets.cuh"
