// Rankings by how many conditions hold, or by the sum of their weights, for 64 probe rows at a time: a bit each.
//
//   match_count_gather--> the build side group by group, by rank: for each condition a column of places, or two where
//                         rows have intervals
//   match_count_masks---> for a block of 64 probe rows and every place of a column, which of the rows accept it
//   match_count_<..>----> the scores of build rows, to the rows that may keep them; at last the rows that tie
//   (nearest.cu)--------> the best so far of each row, which bound what is offered next
//
// A build row looks up the mask of its place in each condition. Where scores are counts, these masks are added bit by
// bit: word k has digit k of the counts of all 64 rows, and the same operations compare them with what each row needs.
// So a lookup and few operations decide a condition for 64 pairs, however many places it accepts. Positions are in the
// order of ranks and row numbers. So of rows that count the same as the worst that a row keeps, only those before it
// count for something.
#include "nearest.cuh"

// What the places of a column are: those of rows that have one, or the first or the last one of intervals. A column of
// first places is followed by that of the last ones.
enum PlaceKind { ONE_PLACE, FIRST_PLACE, LAST_PLACE };  // for the host

// A column of the build side.
struct CountedColumn {
    // Where the masks of its places begin among those of a probe block. Behind those that rows stand at is one that
    // nobody accepts.
    u32 masks;
    u32 condition;
    // A `PlaceKind`.
    u32 kind;
};

// The build side by position.
struct CountedRows {
    // Columns of `stride` places each, in two bytes or in four.
    const void* places;
    // One more than there are, whose `masks` is how many masks a probe block has.
    const CountedColumn* columns;
    // The row at each position, and its rank; null where all have the same rank.
    const u32* rows;
    const u32* NULLABLE ranks;
    u32 count;
    u32 stride;
    u32 column_count;
    u32 conditions;
};

// A probe side by position, up to whole blocks.
struct CountingRows {
    // For each row and condition the first place that it accepts, and one past the last one.
    const uint2* accepted;
    const u32* rows;
    // The build positions of its group: the first one, and one past the last one.
    const u32* firsts;
    const u32* ends;
};

// Build positions that a block of threads goes through.
#define PART 2048  // for the host
#define COUNTING_THREADS 256
#define NOBODY 0xffffffffu

// One thread a position up to `stride`: writes the place of its row in every column. `spans` has the first and the last
// place of each row and condition; `row_ranks` is by row.
template <class Place>
__device__ __forceinline__ void gather(const CountedRows& build, const uint2* spans, const u32* row_ranks,
                                       Place* places, u32* ranks) {
    u32 at = (u32)thread_in_grid();
    if (at >= build.stride) return;
    bool is_there = at < build.count;
    u32 row = is_there ? build.rows[at] : 0;
    if (is_there && ranks) ranks[at] = row_ranks[row];
    for (u32 c = 0; c < build.column_count; c++) {
        CountedColumn column = build.columns[c];
        u32 place = build.columns[c + 1].masks - column.masks - 1;
        if (is_there) {
            uint2 span = spans[(u64)row * build.conditions + column.condition];
            bool is_none = span.x == NOBODY && span.y == 0;
            if (!is_none) place = column.kind == LAST_PLACE ? span.y : span.x;
        }
        places[(u64)c * build.stride + at] = (Place)place;
    }
}

// One thread a position up to `stride`: writes the place of its row in every column, and its rank where there are any.
// `spans` has the first and the last place of each row and condition, and `row_ranks` is by row.
#define GATHER(name, Place)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256) name(                                                         \
        CountedRows build, const uint2* spans, const u32* NULLABLE row_ranks, Place* places, u32* NULLABLE ranks) { \
        gather(build, spans, row_ranks, places, ranks);                                                             \
    }
GATHER(match_count_gather_narrow, u16)
GATHER(match_count_gather_wide, u32)

// One thread a mask, of `blocks` probe blocks from position `first` on: which rows of the block accept the place.
extern "C" __global__ void __launch_bounds__(256) match_count_masks(CountedRows build, CountingRows probe, u32 first,
                                                                    u32 blocks, u64* masks) {
    u32 of_block = build.columns[build.column_count].masks;
    u64 all = (u64)blocks * of_block;
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        u32 number = (u32)(at % of_block), p = first + (u32)(at / of_block) * BLOCK;
        u32 c = first_true(0, build.column_count, [&](u32 c) { return build.columns[c + 1].masks > number; });
        CountedColumn column = build.columns[c];
        u32 place = number - column.masks;
        u64 mask = 0;
        if (number + 1 < build.columns[c + 1].masks) {
            for (u32 n = 0; n < BLOCK; n++) {
                uint2 span = probe.accepted[(u64)probe.rows[p + n] * build.conditions + column.condition];
                bool is_accepted =
                    (column.kind == LAST_PLACE || place < span.y) && (column.kind == FIRST_PLACE || place >= span.x);
                mask |= (u64)is_accepted << n;
            }
        }
        masks[at] = mask;
    }
}

// Where rows go that tie with the worst one that a row keeps: pairs of a build row and a probe position. `pairs` is null
// where rows are offered instead.
struct TiedRows {
    Pair* NULLABLE pairs;
    u64 capacity;
};

// What the launches for some probe blocks have in common.
struct Counting {
    CountedRows build;
    CountingRows probe;
    Searched searched;
    TiedRows tied;
    // The masks of the blocks, of which the first one is that of this number among those that are searched.
    const u64* masks;
    u32 first_block;
    // How many parts of the build side there are for each block.
    u32 part_count;
    const u32* parts;
    // The weight of each condition; null where none has any.
    const double* NULLABLE weights;
    // How many rows were offered, and how many tie.
    u64* counted;
};

// A run of build positions that a block of threads goes through for a probe block.
struct Run {
    u32 begin;
    u32 end;
    // Place of the probe block's first row among those that are searched.
    u32 place;
    const u64* masks;
};

// The run of this block of threads: they come probe block by probe block, each with all parts.
__device__ __forceinline__ Run run_of_block(const Counting& by) {
    Run run;
    u32 block = blockIdx.x / by.part_count;
    run.begin = by.parts[blockIdx.x % by.part_count] * PART;
    run.end = min(run.begin + PART, by.build.count);
    run.place = (by.first_block + block) * BLOCK;
    run.masks = by.masks + (u64)block * by.build.columns[by.build.column_count].masks;
    return run;
}

// The worst neighbour of a row that keeps as many as it wants.
__device__ __forceinline__ Neighbour worst_of(const Searched& searched, u32 place) {
    return searched.offered[(u64)place * searched.capacity + searched.wanted - 1];
}

__device__ __forceinline__ u32 rank_at(const CountedRows& build, u32 b) { return build.ranks ? build.ranks[b] : 0; }

// What a row seeks among the rows of a run.
struct Needed {
    // Whether there may be something.
    bool is_sought;
    // Whether it has to score as the worst one that is kept or better, with `above` better.
    bool is_bound;
    bool above;
    i64 score;
};

__device__ __forceinline__ Needed needed_by(const Counting& by, const Run& run, u32 place) {
    Needed needed;
    u32 p = by.searched.first + place;
    u32 from = max(run.begin, by.probe.firsts[p]), to = min(run.end, by.probe.ends[p]);
    needed.is_sought = by.searched.reach[place] >= 0.0f && from < to;
    needed.is_bound = needed.is_sought && by.searched.kept[place] == by.searched.wanted;
    needed.above = false;
    needed.score = 0;
    if (!needed.is_bound) {
        needed.is_sought = needed.is_sought && !by.tied.pairs;
        return needed;
    }
    Neighbour worst = worst_of(by.searched, place), first = worst;
    needed.score = worst.score;
    // positions are in the order of ranks and rows
    first.rank = rank_at(by.build, from);
    first.row = by.build.rows[from];
    if (by.tied.pairs) needed.is_sought = first.rank <= worst.rank && rank_at(by.build, to - 1) >= worst.rank;
    else needed.above = !(first < worst);
    return needed;
}

// Offers the build row at a position to a row of the probe block where both are in one group, and returns how many
// were offered; or appends it where it ties with the worst row that is kept, and is none that is kept.
__device__ __forceinline__ u32 find_row(const Counting& by, u32 place, i64 score, u32 b) {
    u32 p = by.searched.first + place;
    if (b < by.probe.firsts[p] || b >= by.probe.ends[p]) return 0;
    Neighbour found;
    found.score = score;
    found.rank = rank_at(by.build, b);
    found.row = by.build.rows[b];
    if (!by.tied.pairs) {
        offer(by.searched, place, found);
        return 1;
    }
    Neighbour worst = worst_of(by.searched, place);
    if (score != worst.score || found.rank != worst.rank || found.row <= worst.row) return 0;
    Pair pair;
    pair.build = found.row;
    pair.probe = p;
    append(pair, by.tied.pairs, by.counted + 1, by.tied.capacity);
    return 0;
}

// Adds what the threads of a block have offered.
__device__ __forceinline__ void count_offers(const Counting& by, u32 offers) {
    __syncwarp();
    for (u32 step = WARP_LANES / 2; step > 0; step /= 2) offers += __shfl_xor_sync(ALL_LANES, offers, step);
    if (lane_of_thread() == 0 && offers > 0) atomicAdd(by.counted, (u64)offers);
}

// The masks of one condition for the rows at ROWS positions, one block of threads apart from `b` on. `c` is its column,
// and where rows have intervals it becomes that of their last places.
template <class Place, u32 ROWS>
__device__ __forceinline__ void look_up(const CountedRows& build, const u64* masks, u32& c, u32 b, u64* held) {
    CountedColumn column = build.columns[c];
    const Place* places = (const Place*)build.places + (u64)c * build.stride + b;
#pragma unroll
    for (u32 n = 0; n < ROWS; n++) held[n] = masks[column.masks + places[n * COUNTING_THREADS]];
    if (column.kind != FIRST_PLACE) return;
    c++;
    const u64* of_last = masks + build.columns[c].masks;
    places += build.stride;
#pragma unroll
    for (u32 n = 0; n < ROWS; n++) held[n] &= of_last[places[n * COUNTING_THREADS]];
}

// Goes by how many conditions hold. Counts have DIGITS binary digits; a thread has ROWS positions at a time.
template <class Place, u32 DIGITS, u32 ROWS>
__device__ __forceinline__ void go_by_counts(const Counting& by) {
    // digits of the least count that each row needs, and the rows that seek any, 32 of them a word
    __shared__ u32 least_digits[DIGITS][2], seeking[2];
    Run run = run_of_block(by);
    u32 thread = threadIdx.x;
    if (thread < BLOCK) {
        Needed needed = needed_by(by, run, run.place + thread);
        u32 least = needed.is_bound ? (u32)~needed.score + needed.above : 0, half = thread / WARP_LANES;
        u32 ones = __ballot_sync(ALL_LANES, needed.is_sought && least <= by.build.conditions);
        if (lane_of_thread() == 0) seeking[half] = ones;
        for (u32 k = 0; k < DIGITS; k++) {
            ones = __ballot_sync(ALL_LANES, least >> k & 1);
            if (lane_of_thread() == 0) least_digits[k][half] = ones;
        }
    }
    __syncthreads();
    auto joined = [](const u32* halves) { return (u64)halves[1] << 32 | halves[0]; };
    u64 sought = joined(seeking), least[DIGITS];
    if (sought == 0) return;
#pragma unroll
    for (u32 k = 0; k < DIGITS; k++) least[k] = joined(least_digits[k]);
    u32 offers = 0;
    for (u32 from = run.begin + thread; from < run.end; from += ROWS * COUNTING_THREADS) {
        u64 digits[ROWS][DIGITS] = {};
        for (u32 c = 0; c < by.build.column_count; c++) {
            u64 held[ROWS];
            look_up<Place, ROWS>(by.build, run.masks, c, from, held);
#pragma unroll
            for (u32 n = 0; n < ROWS; n++) {
                u64 carry = held[n];
#pragma unroll
                for (u32 k = 0; k < DIGITS; k++) {
                    u64 next = digits[n][k] & carry;
                    digits[n][k] ^= carry;
                    carry = next;
                }
            }
        }
#pragma unroll
        for (u32 n = 0; n < ROWS; n++) {
            u32 b = from + n * COUNTING_THREADS;
            // the highest digit in which both differ decides
            u64 is_less = 0;
#pragma unroll
            for (u32 k = 0; k < DIGITS; k++)
                is_less = (~digits[n][k] & least[k]) | (~(digits[n][k] ^ least[k]) & is_less);
            for (u64 good = b < run.end ? sought & ~is_less : 0; good != 0; good &= good - 1) {
                u32 bit = __ffsll(good) - 1, count = 0;
#pragma unroll
                for (u32 k = 0; k < DIGITS; k++) count |= (u32)(digits[n][k] >> bit & 1) << k;
                offers += find_row(by, run.place + bit, ~(i64)count, b);
            }
        }
    }
    count_offers(by, offers);
}

// The sum of the weights of the conditions that hold for a row of the probe block and the build row at a position, in
// the order of the conditions.
template <class Place>
__device__ __forceinline__ double sum_of(const Counting& by, const Run& run, u32 bit, u32 b) {
    double sum = 0.0;
    for (u32 c = 0; c < by.build.column_count; c++) {
        double weight = by.weights[by.build.columns[c].condition];
        u64 held;
        look_up<Place, 1>(by.build, run.masks, c, b, &held);
        if (held >> bit & 1) sum += weight;
    }
    return sum;
}

// Goes by the sum of weights, for half a probe block at a time: as many sums as registers hold.
template <class Place>
__device__ __forceinline__ void go_by_sums(const Counting& by) {
    // the least sum that each row needs, and the rows that seek any, 32 of them a word
    __shared__ double least[BLOCK];
    __shared__ u32 seeking[2];
    Run run = run_of_block(by);
    u32 thread = threadIdx.x;
    if (thread < BLOCK) {
        Needed needed = needed_by(by, run, run.place + thread);
        double bound = needed.is_bound ? float_of_key(~needed.score + needed.above) : 0.0;
        least[thread] = needed.is_sought ? bound : __longlong_as_double(0x7ff0000000000000ll);
        u32 ones = __ballot_sync(ALL_LANES, needed.is_sought);
        if (lane_of_thread() == 0) seeking[thread / WARP_LANES] = ones;
    }
    __syncthreads();
    u32 offers = 0;
    for (u32 half = 0; half < 2; half++) {
        if (seeking[half] == 0) continue;
        for (u32 b = run.begin + thread; b < run.end; b += COUNTING_THREADS) {
            double sums[WARP_LANES] = {};
            for (u32 c = 0; c < by.build.column_count; c++) {
                double weight = by.weights[by.build.columns[c].condition];
                u64 held;
                look_up<Place, 1>(by.build, run.masks, c, b, &held);
                u32 ones = (u32)(held >> half * WARP_LANES);
#pragma unroll
                for (u32 n = 0; n < WARP_LANES; n++)
                    if (ones >> n & 1) sums[n] += weight;
            }
            u32 good = 0;
#pragma unroll
            for (u32 n = 0; n < WARP_LANES; n++) good |= (u32)(sums[n] >= least[half * WARP_LANES + n]) << n;
            // what is looked for by a number is not in registers, so that the few sums are made once more
            for (; good != 0; good &= good - 1) {
                u32 bit = half * WARP_LANES + __ffs((int)good) - 1;
                offers += find_row(by, run.place + bit, ~float_key(sum_of<Place>(by, run, bit, b)), b);
            }
        }
    }
    count_offers(by, offers);
}

// One block of threads a probe block and a part of PART build positions: offers the rows of the block what they may
// keep of those in their groups, or appends what ties with the worst of those that they keep.
#define COUNT(name, Place, DIGITS, ROWS) \
    extern "C" __global__ void __launch_bounds__(256) name(Counting by) { go_by_counts<Place, DIGITS, ROWS>(by); }
COUNT(match_count_narrow_4, u16, 4, 4)
COUNT(match_count_narrow_8, u16, 8, 2)
COUNT(match_count_wide_4, u32, 4, 4)
COUNT(match_count_wide_8, u32, 8, 2)

// One block of threads a probe block and a part, as above, by the sum of the weights of the conditions that hold.
#define ADD_UP(name, Place) \
    extern "C" __global__ void __launch_bounds__(256) name(Counting by) { go_by_sums<Place>(by); }
ADD_UP(match_count_sums_narrow, u16)
ADD_UP(match_count_sums_wide, u32)

#include "layout/match_count.cuh"
