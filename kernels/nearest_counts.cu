// Nearest joins of sets by an inverted index: how many tokens every build row shares with a probe row, counted.
//
//   postings of all tokens (prefixes.cu, sort.cu)
//     --nearest_set_postings--> how many of them the tokens of a probe side have
//     --nearest_set_counts----> the scores of rows that share a token, to the rows that may keep them
//     --(nearest.cu)----------> the best so far of each row, which bound what is scored next
//
// A block of threads counts for one probe row, in shared memory, over a range of build positions. Each token of the row
// adds one to the counters of those that have it. A count is the exact overlap, so that nothing is left to verify. What
// scores no better than the worst that the row keeps is passed over by its count alone.
//
// Counters have as few bits as the probe row's tokens need. Neighbouring positions count in different words, so that
// the threads that read a dense list seldom meet.
#include "nearest_sets.cuh"
#include "postings.cuh"

#define COUNTING_THREADS 256
// Lists of postings whose ends a block of threads finds at a time.
#define LISTS (COUNTING_THREADS / 2)
// A list of so many postings or more is read by all threads of a block, a shorter one by a warp.
#define LONG_LIST 256
// Postings that a thread reads before it counts them.
#define AHEAD 4

// Counters of a run of build positions, several in a word.
struct Counters {
    // A power of two of them.
    u32* words;
    u32 word_bits;
    // Bits of a counter.
    u32 width;
    // The position of the first one, and one past that of the last.
    u32 first;
    u32 end;
};

// The words that hold the counters.
__device__ __forceinline__ u32 words_of(const Counters& counters) {
    return min(counters.end - counters.first, 1u << counters.word_bits);
}

// Adds one to the counters of the positions of a list, of which the caller reads one in `step` from `first` on.
__device__ __forceinline__ void count_list(const Counters& counters, const u32* positions, u32 length, u32 first,
                                           u32 step) {
    u32 mask = (1u << counters.word_bits) - 1;
    for (u32 from = first; from < length; from += AHEAD * step) {
        // all of them are on their way before the first one is waited for
        u32 held[AHEAD];
#pragma unroll
        for (u32 n = 0; n < AHEAD; n++) {
            u32 at = from + n * step;
            held[n] = at < length ? positions[at] - counters.first : 0;
        }
#pragma unroll
        for (u32 n = 0; n < AHEAD; n++) {
            if (from + n * step >= length) break;
            atomicAdd(&counters.words[held[n] & mask], 1u << (held[n] >> counters.word_bits) * counters.width);
        }
    }
}

#define NO_COUNT 0xffffffffu

// The least number of common tokens with which a build row of the counters may have a score no worse than `bound`, or
// NO_COUNT.
__device__ __forceinline__ u32 least_common(const SetRanking& by, double bound, const Sets& probe, u32 p,
                                            const Sets& build, const Counters& counters) {
    // positions ascend by size up to the largest one that sort keys tell apart
    u32 last_size = build.sizes[counters.end - 1];
    u32 most = last_size < MOST_SIZE ? min(probe.known[p], last_size) : probe.known[p];
    SetSizes least = sizes_of(build, counters.first, probe, p);
    least.build = min(least.build, MOST_SIZE);
    u32 common = first_true(1, most + 1, [&](u32 common) { return may_score(by, bound, common, least); });
    return common <= most ? common : NO_COUNT;
}

// One thread a probe position: adds up how many postings its tokens have.
extern "C" __global__ void __launch_bounds__(256) nearest_set_postings(Sets probe, Postings postings, u64* total) {
    u64 sum = 0;
    for (u64 p = thread_in_grid(); p < probe.count; p += threads_in_grid()) {
        const u32* tokens = probe.tokens + probe.starts[p];
        for (u32 n = 0; n < probe.known[p]; n++) sum += postings.starts[tokens[n] + 1] - postings.starts[tokens[n]];
    }
    for (u32 offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
    if (lane_of_thread() == 0 && sum > 0) atomicAdd(total, sum);
}

extern __shared__ u32 counter_words[];

// One block of threads a searched row and a range of `4 << word_bits` build positions: offers the row what it may keep
// of those in its group. Blocks come range by range, each for all rows. `counted` receives how many rows were scored
// and how many postings were read. There are `4 << word_bits` bytes of shared memory.
extern "C" __global__ void __launch_bounds__(COUNTING_THREADS) nearest_set_counts(Sets probe, Sets build, SetRanking by,
                                                                                  Postings postings,
                                                                                  const u32* NULLABLE ranks,
                                                                                  Searched searched, const u32* ranges,
                                                                                  u32 word_bits, u64* counted) {
    __shared__ u32 ends[COUNTING_THREADS], needed, scored;
    u32 thread = threadIdx.x, warp = thread / WARP_LANES, place = blockIdx.x % searched.count;
    if (searched.reach[place] < 0.0f) return;
    u32 p = searched.first + place, known = probe.known[p], group = probe.groups[p];
    u32 length = 4u << word_bits, begin = ranges[blockIdx.x / searched.count] * length;
    u32 behind = begin + min(length, build.count - begin);
    if (build.groups[begin] != group || build.groups[behind - 1] != group) {
        begin = first_true(begin, behind, [&](u32 b) { return build.groups[b] >= group; });
        behind = first_true(begin, behind, [&](u32 b) { return build.groups[b] > group; });
    }
    double bound = bound_of(searched, place);
    const u32* tokens = probe.tokens + probe.starts[p];
    Counters counters;
    counters.words = counter_words;
    counters.word_bits = word_bits;
    counters.width = known < 1u << 8 ? 8 : known < 1u << 16 ? 16 : 32;
    u64 read = 0;
    if (thread == 0) scored = 0;
    u32 per_word = 32 / counters.width, mask = 0xffffffffu >> (32 - counters.width);
    for (counters.first = begin; counters.first < behind; counters.first = counters.end) {
        counters.end = counters.first + min(per_word << word_bits, behind - counters.first);
        // the counters before have been read
        __syncthreads();
        if (thread == 0) needed = least_common(by, bound, probe, p, build, counters);
        for (u32 w = thread; w < words_of(counters); w += COUNTING_THREADS) counters.words[w] = 0;
        __syncthreads();
        if (needed == NO_COUNT) continue;
        for (u32 from = 0; from < known; from += LISTS) {
            u32 lists = min(known - from, (u32)LISTS);
            if (thread < 2 * lists) {
                u32 token = tokens[from + thread / 2], wanted = thread % 2 == 0 ? counters.first : counters.end;
                ends[thread] = first_true(postings.starts[token], postings.starts[token + 1],
                                          [&](u32 at) { return postings.positions[at] >= wanted; });
            }
            __syncthreads();
            for (u32 list = 0; list < lists; list++) {
                const u32* positions = postings.positions + ends[2 * list];
                u32 length = ends[2 * list + 1] - ends[2 * list];
                if (length >= LONG_LIST) count_list(counters, positions, length, thread, COUNTING_THREADS);
                else if (list % (COUNTING_THREADS / WARP_LANES) == warp)
                    count_list(counters, positions, length, lane_of_thread(), WARP_LANES);
                read += length;
            }
            __syncthreads();
        }
        u32 offers = 0;
        for (u32 w = thread; w < words_of(counters); w += COUNTING_THREADS) {
            u32 word = counters.words[w];
            for (u32 n = 0; word != 0 && n < per_word; n++) {
                u32 common = word >> n * counters.width & mask, b = counters.first + (n << word_bits) + w;
                if (common < needed) continue;
                offers++;
                offer_row(searched, place, score_of(by, common, sizes_of(build, b, probe, p)), build.rows[b], ranks);
            }
        }
        if (offers > 0) atomicAdd(&scored, offers);
    }
    __syncthreads();
    if (thread != 0) return;
    if (scored > 0) atomicAdd(counted, (u64)scored);
    if (read > 0) atomicAdd(counted + 1, read);
}

#include "layout/nearest_counts.cuh"
