// Epsilon joins of vectors: near points in blocks, blocks in boxes, all pairs of near blocks by a filter.
//
//   vectors --vector_keys-----> for each row its place along a space-filling curve, and its length
//           --(sort.cu)-------> positions by (group, place)
//           --vector_gather---> columns in that order, padded to whole blocks of BLOCK positions
//           --vector_points---> points in single precision, or
//           --vector_halves---> in half precision, with what rounding has moved them by
//           --vector_boxes----> a box and a norm for each block
//           --vector_outer_boxes> and for each GROUPED blocks
//           --vector_reach----> which build blocks a probe block can match, and how many
//           --vector_filter_*-> pairs that the filter cannot tell from matches
//           --vector_verify---> pairs that match, decided by the measure itself
//           --vector_verify_powers> or those that may match, by a sum of powers: the host decides them
//
// `vectors.cuh` says what a point is, and why no filter loses a match.

// targets: sm75, sm80
#include "vectors.cuh"

// Dimensions of the curve at most.
#define MOST_CURVED 8  // for the host

// How vectors become points.
struct Frame {
    // The vector's dimension for each of the point's.
    const u32* order;
    const double* centre;
    // For each dimension of the curve where its cells begin, and how many there are to a unit.
    const double* first;
    const double* cells;
    u32 dimension;
    // Dimensions of the curve, and bits of each.
    u32 curved;
    u32 bits;
    // Whether vectors are divided by their lengths.
    u32 unit;
};

__device__ __forceinline__ double coordinate(const Frame& frame, const double* vector, double length, u32 k) {
    return vector[frame.order[k]] / length - frame.centre[k];
}

// One thread a row: its length, 1 where that is of no account, and its sort key.
extern "C" __global__ void __launch_bounds__(128) vector_keys(Frame frame, const double* values, const u32* sources,
                                                              const u32* NULLABLE groups, u32 count, double* lengths,
                                                              u64* keys, u32* order) {
    for (u64 at = thread_in_grid(); at < count; at += threads_in_grid()) {
        const double* vector = values + (u64)sources[at] * frame.dimension;
        double squares = 0.0;
        for (u32 k = 0; frame.unit && k < frame.dimension; k++) squares += vector[k] * vector[k];
        double length = frame.unit ? sqrt(squares) : 1.0;
        u32 cells[MOST_CURVED];
        for (u32 k = 0; k < frame.curved; k++) {
            double cell = (coordinate(frame, vector, length, k) - frame.first[k]) * frame.cells[k];
            double last = (double)((1u << frame.bits) - 1);
            cells[k] = (u32)(cell > 0.0 ? (cell < last ? cell : last) : 0.0);
        }
        u64 key = groups ? groups[at] : 0;
        for (u32 bit = frame.bits; bit-- > 0;)
            for (u32 k = 0; k < frame.curved; k++) key = key << 1 | (cells[k] >> bit & 1);
        lengths[at] = length;
        keys[at] = key;
        order[at] = (u32)at;
    }
}

// One thread a position: columns in the order of `order`.
extern "C" __global__ void __launch_bounds__(256) vector_gather(const u32* order, u32 count, u32 padded,
                                                                const u32* sources, const u32* rows,
                                                                const u32* NULLABLE groups, const double* lengths,
                                                                u32* out_sources, u32* out_rows,
                                                                u32* NULLABLE out_groups, double* out_lengths) {
    for (u64 at = thread_in_grid(); at < padded; at += threads_in_grid()) {
        bool is_vector = at < count;
        u32 from = is_vector ? order[at] : 0;
        out_sources[at] = is_vector ? sources[from] : 0;
        out_rows[at] = is_vector ? rows[from] : 0;
        out_lengths[at] = is_vector ? lengths[from] : 1.0;
        if (groups) out_groups[at] = is_vector ? groups[from] : 0;
    }
}

// One thread a number of a point; points from `count` on are at the centre.
extern "C" __global__ void __launch_bounds__(256) vector_points(Frame frame, const double* values, const u32* sources,
                                                                const double* lengths, u32 count, u32 padded,
                                                                float* points) {
    u32 dimension = frame.dimension;
    for (u64 at = thread_in_grid(); at < (u64)padded * dimension; at += threads_in_grid()) {
        u64 block = at / ((u64)BLOCK * dimension);
        u32 k = (u32)(at / BLOCK % dimension), position = (u32)(block * BLOCK + at % BLOCK);
        const double* vector = values + (u64)sources[position] * dimension;
        points[at] = position < count ? (float)coordinate(frame, vector, lengths[position], k) : 0.0f;
    }
}

// The half-precision number nearest to x, as bits; 0 below the normal range. |x| <= 2^15.
__device__ __forceinline__ u32 half_of(float x) {
    u32 bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    magnitude += 0xfffu + (magnitude >> 13 & 1);
    if (magnitude < 113u << 23) return sign;
    return sign | ((magnitude - (112u << 23)) >> 13);
}

// Where number k of a position is among the halves of `steps` steps a point: a lane of a matrix instruction holds the
// numbers 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of column g, with g = lane / 4 and t = lane % 4.
__device__ __forceinline__ u64 half_place(u32 steps, u32 position, u32 k) {
    u32 column = position % BLOCK, within = k % STEP;
    u64 eight = ((u64)(position / BLOCK) * steps + k / STEP) * (BLOCK / 8) + column / 8;
    return ((eight * 8 + column % 8) * 4 + within % 8 / 2) * 4 + within / 8 * 2 + within % 2;
}

// One thread a position: its point in half precision, and what that makes of it. A point that is out of range becomes
// the centre. `residues` and `lengths`, of blocks, are zeroed before.
extern "C" __global__ void __launch_bounds__(128) vector_halves(Frame frame, const double* values, const u32* sources,
                                                                const double* row_lengths, u32 count, u32 padded,
                                                                u32 products, double scale, u16* halves, float* terms,
                                                                u32* residues, u32* lengths) {
    u32 dimension = frame.dimension, steps = (dimension + STEP - 1) / STEP;
    for (u64 at = thread_in_grid(); at < padded; at += threads_in_grid()) {
        u32 position = (u32)at;
        const double* vector = values + (u64)sources[position] * dimension;
        double length = row_lengths[position], all = 0.0;
        bool fits = position < count;
        for (u32 k = 0; k < dimension && position < count; k++) {
            double x = coordinate(frame, vector, length, k) * scale;
            all += x * x;
            if (!(fabs(x) <= 32768.0)) fits = false;
        }
        double squares = 0.0, residue = fits ? 0.0 : all;
        for (u32 k = 0; k < steps * STEP; k++) {
            u32 half = 0;
            if (fits && k < dimension) {
                double x = coordinate(frame, vector, length, k) * scale;
                half = half_of((float)x);
                double number = (double)number_of(half);
                squares += number * number;
                residue += (x - number) * (x - number);
            }
            halves[half_place(steps, position, k)] = (u16)half;
        }
        terms[position] = products ? 0.0f : -(float)(squares / 2.0);
        // by its own roundings in double precision the point is off by far less
        float moved = position < count ? above(sqrt(residue) + sqrt(all) * 1e-12) : 0.0f;
        atomicMax(&residues[position / BLOCK], __float_as_uint(moved));
        atomicMax(&lengths[position / BLOCK], __float_as_uint(above(sqrt(squares))));
    }
}

// One warp a block: the box of its points over the first `width` dimensions, and their largest norm.
extern "C" __global__ void __launch_bounds__(128) vector_boxes(Frame frame, const double* values, const u32* sources,
                                                               const double* lengths, u32 count, u32 metric, u32 width,
                                                               float* lows, float* highs, float* norms) {
    u32 block = (u32)(thread_in_grid() / WARP_LANES), boxes = boxes_of(count);
    if (block >= blocks_of(count)) return;
    double sums[2] = {0.0, 0.0};
    for (u32 k = 0; k < frame.dimension; k++) {
        float low = __uint_as_float(0x7f800000u), high = -low;
        for (u32 half = 0; half < 2; half++) {
            u32 position = block * BLOCK + half * WARP_LANES + lane_of_thread();
            if (position >= count) continue;
            float x = (float)coordinate(frame, values + (u64)sources[position] * frame.dimension, lengths[position], k);
            low = min(low, x);
            high = max(high, x);
            double magnitude = fabs((double)x);
            if (metric == MANHATTAN) sums[half] += magnitude;
            else if (metric == CHEBYSHEV) sums[half] = max(sums[half], magnitude);
            else sums[half] += magnitude * magnitude;
        }
        if (k >= width) continue;
        for (u32 offset = 16; offset > 0; offset /= 2) {
            low = min(low, __shfl_xor_sync(ALL_LANES, low, offset));
            high = max(high, __shfl_xor_sync(ALL_LANES, high, offset));
        }
        if (lane_of_thread() != 0) continue;
        lows[(u64)k * boxes + block] = (float)((double)low - fabs((double)low) * 1e-6 - 1e-37);
        highs[(u64)k * boxes + block] = above(high);
    }
    double most = max(sums[0], sums[1]);
    if (metric == EUCLIDEAN || metric == PRODUCTS) most = sqrt(most);
    float norm = above(most);
    for (u32 offset = 16; offset > 0; offset /= 2) norm = max(norm, __shfl_xor_sync(ALL_LANES, norm, offset));
    if (lane_of_thread() == 0) norms[block] = norm;
}

// One warp an outer box: what contains the boxes of its blocks.
extern "C" __global__ void __launch_bounds__(128) vector_outer_boxes(u32 count, u32 width, float* lows, float* highs,
                                                                     float* norms) {
    u32 outer = (u32)(thread_in_grid() / WARP_LANES), blocks = blocks_of(count), boxes = boxes_of(count);
    if (outer >= boxes - blocks) return;
    u32 first = outer * GROUPED, end = min(blocks, first + GROUPED);
    for (u32 k = 0; k <= width; k++) {
        float low = __uint_as_float(0x7f800000u), high = -low;
        for (u32 block = first + lane_of_thread(); block < end; block += WARP_LANES) {
            low = min(low, k < width ? lows[(u64)k * boxes + block] : 0.0f);
            high = max(high, k < width ? highs[(u64)k * boxes + block] : norms[block]);
        }
        for (u32 offset = 16; offset > 0; offset /= 2) {
            low = min(low, __shfl_xor_sync(ALL_LANES, low, offset));
            high = max(high, __shfl_xor_sync(ALL_LANES, high, offset));
        }
        if (lane_of_thread() != 0) continue;
        if (k == width) norms[blocks + outer] = high;
        else {
            lows[(u64)k * boxes + blocks + outer] = low;
            highs[(u64)k * boxes + blocks + outer] = high;
        }
    }
}

// One warp a probe block: the first build block near it, one past the last, and how many there are. With `self_join`
// only those from the block itself on.
extern "C" __global__ void __launch_bounds__(128) vector_reach(Vectors probe, Vectors build, VectorCondition test,
                                                               u32 self_join, u32* firsts, u32* ends, u32* near) {
    u32 block = (u32)(thread_in_grid() / WARP_LANES), blocks = blocks_of(build.count);
    if (block >= blocks_of(probe.count)) return;
    u32 from = self_join ? block : 0, to = blocks;
    if (probe.groups && build.groups) {
        u32 low = probe.groups[block * BLOCK], high = probe.groups[min(probe.count, (block + 1) * BLOCK) - 1];
        from =
            first_true(from, blocks, [&](u32 b) { return build.groups[min(build.count, (b + 1) * BLOCK) - 1] >= low; });
        to = first_true(from, blocks, [&](u32 b) { return build.groups[b * BLOCK] > high; });
    }
    u32 first = to, end = from, all = 0;
    visit_near(
        probe, block, build, from, to, test, TestReach{test}, [](u32) { return true; },
        [&](u32 other) {
            first = min(first, other);
            end = max(end, other + 1);
            all++;
        });
    if (lane_of_thread() != 0) return;
    firsts[block] = first;
    ends[block] = max(first, end);
    near[block] = all;
}

// One block of 4 warps a task, each warp with one probe block.
template <class Compare>
__device__ __forceinline__ void filter(const Vectors& probe, const Vectors& build, const VectorCondition& test,
                                       const Task* tasks, const Kept& kept, Compare compare) {
    Task task = tasks[blockIdx.x];
    u32 block = task.probe + threadIdx.x / WARP_LANES;
    if (block * BLOCK >= kept.end) return;
    u32 first = kept.self_join ? max(task.first, block) : task.first;
    visit_near(
        probe, block, build, first, task.end, test, TestReach{test}, [](u32) { return true; },
        [&](u32 other) { compare(block, other); });
}

// One block of 4 warps a task: appends the positions of pairs that the filter in single precision cannot tell from
// matches. Probe positions `begin..end` count.
#define FILTER(name, METRIC)                                                                                     \
    extern "C" __global__ void __launch_bounds__(128) name(Vectors probe, Vectors build, VectorCondition test,   \
                                                           const Task* tasks, u32 self_join, u32 begin, u32 end, \
                                                           Pair* pairs, u64* count, u64 capacity) {              \
        Kept kept = {pairs, count, capacity, self_join, begin, end};                                             \
        filter(probe, build, test, tasks, kept, [&](u32 block, u32 other) {                                      \
            compare<METRIC>(probe, block, build, other, test, TestReach{test}, kept);                            \
        });                                                                                                      \
    }
FILTER(vector_filter_l1, MANHATTAN)
FILTER(vector_filter_l2, EUCLIDEAN)
FILTER(vector_filter_linf, CHEBYSHEV)
FILTER(vector_filter_product, PRODUCTS)

// Without tensor cores the filter in single precision is faster.
#if defined(TENSOR_CORES) || !defined(__CUDA_ARCH__)
// One block of 4 warps a task: appends the positions of pairs that the filter in half precision cannot tell from
// matches. Probe positions `begin..end` count.
extern "C" __global__ void __launch_bounds__(128) vector_filter_halves(Vectors probe, Vectors build,
                                                                       VectorCondition test, const Task* tasks,
                                                                       u32 self_join, u32 begin, u32 end, Pair* pairs,
                                                                       u64* count, u64 capacity) {
    Kept kept = {pairs, count, capacity, self_join, begin, end};
    filter(probe, build, test, tasks, kept,
           [&](u32 block, u32 other) { compare_halves(probe, block, build, other, test, TestReach{test}, kept); });
}
#endif

// Appends the row numbers of those candidates whose vectors `accepts` does, one thread a candidate; none where some
// have found no room.
template <class Accepts>
__device__ __forceinline__ void verify(const Vectors& probe, const Vectors& build, u32 dimension,
                                       const Pair* candidates, const u64* candidate_count, u64 capacity, Pair* pairs,
                                       u64* count, u64 pair_capacity, Accepts accepts) {
    u64 all = all_of(candidate_count, capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        Pair candidate = candidates[at];
        const double* left = build.values + (u64)build.sources[candidate.build] * dimension;
        const double* right = probe.values + (u64)probe.sources[candidate.probe] * dimension;
        if (!accepts(left, right)) continue;
        Pair pair;
        pair.build = build.rows[candidate.build];
        pair.probe = probe.rows[candidate.probe];
        append(pair, pairs, count, pair_capacity);
    }
}

// The candidates that match.
extern "C" __global__ void __launch_bounds__(128) vector_verify(Vectors probe, Vectors build, VectorCondition test,
                                                                const Pair* candidates, const u64* candidate_count,
                                                                u64 capacity, Pair* pairs, u64* count,
                                                                u64 pair_capacity) {
    auto accepts = [&](const double* left, const double* right) { return vector_accepts(test, left, right); };
    verify(probe, build, test.dimension, candidates, candidate_count, capacity, pairs, count, pair_capacity, accepts);
}

// The candidates whose differences, each to the `power`, are together no more than `most`, or are no number.
extern "C" __global__ void __launch_bounds__(128) vector_verify_powers(Vectors probe, Vectors build, u32 dimension,
                                                                       double power, double most,
                                                                       const Pair* candidates,
                                                                       const u64* candidate_count, u64 capacity,
                                                                       Pair* pairs, u64* count, u64 pair_capacity) {
    auto accepts = [&](const double* left, const double* right) {
        double sum = 0.0;
        for (u32 k = 0; k < dimension; k++) sum += pow(fabs(left[k] - right[k]), power);
        return !(sum > most);
    };
    verify(probe, build, dimension, candidates, candidate_count, capacity, pairs, count, pair_capacity, accepts);
}

#include "layout/vectors.cuh"
