// Joins on an OR of ANDs: the candidates of an entry on their way through its execution tree.
//
//   fingerprints of rows  --rule_drawn-------> rows with small ones: a sample, from which the trees are planned
//   rows by group         --rule_behind------> how many pairs each block of them has up to each of its rows
//   probe rows by group   --rule_stretches---> the same, and where the build rows of each group start
//   rows by group or band --rule_candidates--> a batch of pairs that have passed nothing
//   pairs of an index     --rule_found-------> the same of pairs that an index has found
//                         --rule_step_*------> one launch a step of the tree: how deep each pair has come, and its witness
//                         --rule_witnessed---> pairs that have a witness
//                         --rule_step_*------> the same for the tree of the entries before this one
//                         --rule_unseen------> those of them that none of these entries yields
//
// Source: HyperBlocker (PVLDB 2024), section 4: the sequential execution path with checkpoints and reuse, here one
// launch a step, so that no warp holds pairs of different steps. A pair's depth is its checkpoint: a step of depth d
// asks the pairs that have passed the d steps above it, and has them come back to it with what it answers. A warp
// gathers the pairs of its stretch that are asked before it filters any, and those that the filter leaves before it
// decides any, so that few of its lanes wait for others (section 5.1 balances by windows and stealing; here tasks are
// cut by pairs).

#include "common.cuh"
#include "measure/edit_measure.cuh"
#include "measure/set_measure.cuh"
#include "measure/vector_measure.cuh"

// The depth of a pair that has a witness.
#define DECIDED 255
// A step after which nothing is decided, and one whose atom is not remembered.
#define NONE 0xffffffffu  // for the host

// Pairs of which a warp gathers those that are asked, at most.
#define STRETCH 1024
#define THREADS 128

// Probe rows of an entry, each with a stretch of the build rows. The pairs of BLOCK items are numbered from 0 on;
// `behind` is the number behind the last one of an item.
struct Items {
    // Build rows, those of a stretch side by side.
    const u32* rows;
    const u32* probe_rows;
    // Where the stretch of each item starts; none where it starts right behind the item's self_join place.
    const u32* NULLABLE firsts;
    const u32* behind;
    u32 count;
    u32 unused;
};

// Pairs on their way, min(*count, capacity) of them.
struct Batch {
    Pair* pairs;
    u8* depths;
    // The clause of those that are decided; none where it is not asked for.
    u16* NULLABLE witnesses;
    // A bit for each atom that several steps ask: whether it has been evaluated, and whether it holds.
    u32* known;
    u32* holding;
    u64* count;
    u64 capacity;
};

struct Step {
    u32 depth;
    // The clause that holds for pairs that pass, or NONE.
    u32 witness;
    // The bit of the atom, or NONE.
    u32 remembered;
    // Which three numbers of the tally: pairs asked, evaluated, passed.
    u32 number;
    // Whether pairs pass of which a row is unknown.
    u32 unknown;
};

// What the filter of a step says of a pair: a row that is unknown has no value here, and the host decides.
enum Filtered : u32 { REFUSED, LEFT, OPEN };

// The rows of one side by their sizes and signatures, as the CPU's first filter.
struct Near {
    const u64* signatures;
    const u8* classes;
};

// Classes of sizes, the last one of rows that match nothing.
#define CLASSES 66
// The class of rows that are unknown, and whether a row has a vector if it is.
#define UNKNOWN CLASSES   // for the host
#define UNKNOWN_VECTOR 2  // for the host

// ArrowStrings of one side, by row.
struct RuleTexts {
    Near near;
    const u64* starts;
    const u32* lengths;
    const void* symbols;
};

// Sets of one side, by row: ranks of tokens, ascending.
struct RuleSets {
    Near near;
    const u64* starts;
    const u32* ranks;
    const u32* sizes;
};

// Vectors of one side, by row, as the query has them: numbers whose squares neither overflow nor vanish.
struct RuleVectors {
    const double* values;
    // A byte a row: whether it has a vector, none of whose elements is NULL; or UNKNOWN_VECTOR.
    const u8* has;
};

// Places of a build row, from the first to the last; of a probe row those that it accepts, to one past the last.
struct Span {
    u32 first;
    u32 last;
};

// One thread a row: those whose fingerprints are no greater than `bound`.
extern "C" __global__ void __launch_bounds__(THREADS) rule_drawn(const u64* prints, u32 rows, u64 bound, u32* drawn,
                                                                 u64* drawn_prints, u64* found, u64 capacity) {
    u32 row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows || prints[row] > bound) return;
    u64 place = atomicAdd(found, (u64)1);
    if (place >= capacity) return;
    drawn[place] = row;
    drawn_prints[place] = prints[row];
}

// The items of a self-join by groups, one block a block of them: place p is paired with those behind it in its group.
// Group g has the places starts[g] to starts[g + 1]; `pairs` becomes how many each block has.
extern "C" __global__ void __launch_bounds__(BLOCK) rule_behind(const u32* starts, u32 groups, u32 count, u32* behind,
                                                                u64* pairs) {
    u32 place = blockIdx.x * BLOCK + threadIdx.x;
    u64 self_join = 0, all;
    if (place < count)
        self_join = starts[first_true(1, groups + 1, [&](u32 group) { return starts[group] > place; })] - place - 1;
    u64 before = block_exclusive_sum<BLOCK>(self_join, &all);
    if (place < count) behind[place] = (u32)(before + self_join);
    if (threadIdx.x == 0) pairs[blockIdx.x] = all;
}

// The items of a probe batch, one block a block of them: probe rows in the order of their groups are paired with the
// build rows of these, which stand at starts[g] to starts[g + 1].
extern "C" __global__ void __launch_bounds__(BLOCK) rule_stretches(const u64* groups, u32 count, const u32* starts,
                                                                   u32* firsts, u32* behind, u64* pairs) {
    u32 item = blockIdx.x * BLOCK + threadIdx.x;
    u64 self_join = 0, all;
    if (item < count) {
        u32 first = starts[groups[item]];
        self_join = starts[groups[item] + 1] - first;
        firsts[item] = first;
    }
    u64 before = block_exclusive_sum<BLOCK>(self_join, &all);
    if (item < count) behind[item] = (u32)(before + self_join);
    if (threadIdx.x == 0) pairs[blockIdx.x] = all;
}

// Writes a pair that no step has asked; it has `certain` as witness, unless that is NONE.
__device__ __forceinline__ void begin(const Batch& batch, u64 at, Pair pair, u32 certain, u32 remembers) {
    batch.pairs[at] = pair;
    batch.depths[at] = certain == NONE ? 0 : DECIDED;
    if (certain != NONE) batch.witnesses[at] = (u16)certain;
    if (remembers) batch.known[at] = batch.holding[at] = 0;
}

// One block a task: pairs `first..end` of a block of BLOCK items.
extern "C" __global__ void __launch_bounds__(THREADS) rule_candidates(Items items, const Task* tasks, u32 certain,
                                                                      u32 remembers, Batch batch) {
    __shared__ u64 base;
    Task task = tasks[blockIdx.x];
    if (threadIdx.x == 0) base = atomicAdd(batch.count, (u64)(task.end - task.first));
    __syncthreads();
    u32 block = task.probe * BLOCK, end = min(items.count, block + BLOCK);
    for (u32 number = task.first + threadIdx.x; number < task.end; number += THREADS) {
        u64 at = base + (number - task.first);
        if (at >= batch.capacity) return;
        u32 item = first_true(block, end, [&](u32 i) { return items.behind[i] > number; });
        u32 before = item > block ? items.behind[item - 1] : 0;
        u32 place = (items.firsts ? items.firsts[item] : item + 1) + (number - before);
        Pair pair;
        pair.build = items.rows[place];
        pair.probe = items.probe_rows[item];
        begin(batch, at, pair, certain, remembers);
    }
}

// One thread a pair of rows that an index has found, for which there is room.
extern "C" __global__ void __launch_bounds__(THREADS) rule_found(const u32* build_rows, const u32* probe_rows,
                                                                 u32 count, u32 certain, u32 remembers, Batch batch) {
    if (thread_in_grid() == 0) *batch.count = count;
    for (u64 at = thread_in_grid(); at < count; at += threads_in_grid()) {
        Pair pair;
        pair.build = build_rows[at];
        pair.probe = probe_rows[at];
        begin(batch, at, pair, certain, remembers);
    }
}

// Adds a warp's numbers to a tally.
__device__ __forceinline__ void count(u64* tally, u32 numbers) {
    for (u32 offset = 16; offset > 0; offset /= 2) numbers += __shfl_xor_sync(ALL_LANES, numbers, offset);
    if (lane_of_thread() == 0 && numbers > 0) atomicAdd(tally, (u64)numbers);
}

// How many pairs a warp gathers from at a time: as many warps as there are have an equal share of `all`.
__device__ __forceinline__ u32 stretch_of(u64 all) {
    u64 warps = threads_in_grid() / WARP_LANES, rounds = max((all + warps * STRETCH - 1) / (warps * STRETCH), (u64)1);
    u64 share = (all + warps * rounds - 1) / (warps * rounds);
    return (u32)((share + WARP_LANES - 1) / WARP_LANES) * WARP_LANES;
}

// Moves the places of lanes that `keep` theirs to the next ones behind `kept`; a place is not written before it was
// read.
__device__ __forceinline__ u32 gather(u16* places, u32 kept, bool keep, u32 place) {
    u32 mask = __ballot_sync(ALL_LANES, keep);
    if (keep) places[kept + __popc(mask & ((1u << lane_of_thread()) - 1))] = (u16)place;
    return kept + __popc(mask);
}

// Asks the pairs that have come as deep as `step` whether they pass: those of a build and a probe row that `filter` has
// left, as `holds` says.
template <class Filter, class Holds>
__device__ __forceinline__ void ask(const Batch& batch, const Step& step, u64* tally, Filter filter, Holds holds) {
    __shared__ u16 gathered[THREADS / WARP_LANES][STRETCH];
    u32 lane = lane_of_thread();
    u16* places = gathered[threadIdx.x / WARP_LANES];
    u64 all = min(*batch.count, batch.capacity);
    u32 asked = 0, evaluated = 0, passed = 0, bit = 1u << (step.remembered % 32), stretch = stretch_of(all);
    auto answer = [&](u64 at, bool passes) {
        passed += passes;
        bool is_witnessed = passes && step.witness != NONE;
        if (is_witnessed && batch.witnesses) batch.witnesses[at] = (u16)step.witness;
        batch.depths[at] = is_witnessed ? DECIDED : (u8)(step.depth + (passes ? 1 : 0));
    };
    auto remember = [&](u64 at, bool passes) {
        if (step.remembered == NONE) return;
        batch.known[at] |= bit;
        if (passes) batch.holding[at] |= bit;
    };
    u64 stride = threads_in_grid() / WARP_LANES * stretch;
    for (u64 first = thread_in_grid() / WARP_LANES * stretch; first < all; first += stride) {
        u32 open = 0, left = 0;
#pragma unroll 8
        for (u32 part = 0; part < stretch; part += WARP_LANES) {
            u64 at = first + part + lane;
            u32 depth = at < all ? batch.depths[at] : DECIDED;
            open = gather(places, open, depth >= step.depth && depth != DECIDED, part + lane);
        }
        __syncwarp();
        for (u32 next = 0; next < open; next += WARP_LANES) {
            bool is_left = false;
            u32 place = next + lane < open ? places[next + lane] : 0;
            if (next + lane < open) {
                u64 at = first + place;
                asked++;
                if (step.remembered != NONE && batch.known[at] & bit) {
                    answer(at, (batch.holding[at] & bit) != 0);
                } else {
                    Pair pair = batch.pairs[at];
                    evaluated++;
                    Filtered filtered = filter(pair.build, pair.probe);
                    is_left = filtered == LEFT;
                    if (!is_left) {
                        bool passes = filtered == OPEN && step.unknown;
                        remember(at, passes);
                        answer(at, passes);
                    }
                }
            }
            __syncwarp();
            left = gather(places, left, is_left, place);
        }
        __syncwarp();
        for (u32 next = lane; next < left; next += WARP_LANES) {
            u64 at = first + places[next];
            Pair pair = batch.pairs[at];
            bool passes = holds(pair.build, pair.probe);
            remember(at, passes);
            answer(at, passes);
        }
        __syncwarp();
    }
    count(tally + step.number * 3, asked);
    count(tally + step.number * 3 + 1, evaluated);
    count(tally + step.number * 3 + 2, passed);
}

// The same of what is soon evaluated.
template <class Holds>
__device__ __forceinline__ void ask(const Batch& batch, const Step& step, u64* tally, Holds holds) {
    auto filter = [&](u32 b, u32 p) { return holds(b, p) ? LEFT : REFUSED; };
    ask(batch, step, tally, filter, [](u32, u32) { return true; });
}

// Asks whether both have a group, and the same one.
extern "C" __global__ void __launch_bounds__(THREADS) rule_step_codes(Batch batch, Step step, u64* tally,
                                                                      const u32* build, const u32* probe) {
    ask(batch, step, tally, [&](u32 b, u32 p) { return build[b] == probe[p] && build[b] != NONE; });
}

// Asks whether the places of the build row lie among those that the probe row accepts.
extern "C" __global__ void __launch_bounds__(THREADS) rule_step_band(Batch batch, Step step, u64* tally,
                                                                     const Span* build, const Span* probe) {
    ask(batch, step, tally, [&](u32 b, u32 p) {
        Span place = build[b], accepted = probe[p];
        return place.first < accepted.last && place.last >= accepted.first;
    });
}

// Asks for a byte of either row; a side may have none.
extern "C" __global__ void __launch_bounds__(THREADS) rule_step_bits(Batch batch, Step step, u64* tally,
                                                                     const u8* NULLABLE build,
                                                                     const u8* NULLABLE probe) {
    ask(batch, step, tally, [&](u32 b, u32 p) { return (build && build[b]) || (probe && probe[p]); });
}

// Whether sizes and signatures of two rows let them match, by what `allowance` says of a probe and a build class.
__device__ __forceinline__ Filtered admit(const signed char* allowance, const Near& build, u32 b, const Near& probe,
                                          u32 p) {
    u32 one = build.classes[b], other = probe.classes[p];
    if (max(one, other) == UNKNOWN) return min(one, other) == CLASSES - 1 ? REFUSED : OPEN;
    int differing = __popcll(build.signatures[b] ^ probe.signatures[p]);
    return differing <= allowance[other * CLASSES + one] ? LEFT : REFUSED;
}

template <class Decision, class Alphabet>
__device__ __forceinline__ void ask_texts(const Batch& batch, const Step& step, u64* tally, const RuleTexts& build,
                                          const RuleTexts& probe, const signed char* allowance,
                                          const EditCondition& test) {
    using Symbol = typename Alphabet::Symbol;
    auto filter = [&](u32 b, u32 p) {
        Filtered admitted = admit(allowance, build.near, b, probe.near, p);
        if (admitted != LEFT) return admitted;
        return edit_lengths_match(test, probe.lengths[p], build.lengths[b]) ? LEFT : REFUSED;
    };
    ask(batch, step, tally, filter, [&](u32 b, u32 p) {
        u32 rights = build.lengths[b], lefts = probe.lengths[p];
        const Symbol *left = (const Symbol*)probe.symbols + probe.starts[p],
                     *right = (const Symbol*)build.symbols + build.starts[b];
        bool is_longer = lefts >= rights;
        return Decision::template holds<Alphabet>(test, is_longer ? left : right, max(lefts, rights),
                                                  is_longer ? right : left, min(lefts, rights));
    });
}

// Asks the pairs that have come as deep as the step whether their strings match.
#define TEXT_STEP(name, Decision, Alphabet)                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS) name(Batch batch, Step step, u64* tally, RuleTexts build, \
                                                               RuleTexts probe, const signed char* allowance,       \
                                                               EditCondition test) {                                \
        ask_texts<Decision, Alphabet>(batch, step, tally, build, probe, allowance, test);                           \
    }
TEXT_STEP(rule_step_levenshtein_small, LevenshteinDecision, SmallAlphabet)
TEXT_STEP(rule_step_levenshtein_large, LevenshteinDecision, LargeAlphabet)
TEXT_STEP(rule_step_osa_small, OsaDecision, SmallAlphabet)
TEXT_STEP(rule_step_osa_large, OsaDecision, LargeAlphabet)
TEXT_STEP(rule_step_hamming_small, HammingDecision, SmallAlphabet)
TEXT_STEP(rule_step_hamming_large, HammingDecision, LargeAlphabet)
TEXT_STEP(rule_step_jaro_small, JaroDecision, SmallAlphabet)
TEXT_STEP(rule_step_jaro_large, JaroDecision, LargeAlphabet)

// Asks whether sets match.
extern "C" __global__ void __launch_bounds__(THREADS) rule_step_sets(Batch batch, Step step, u64* tally, RuleSets build,
                                                                     RuleSets probe, const signed char* allowance,
                                                                     SetCondition test) {
    auto filter = [&](u32 b, u32 p) { return admit(allowance, build.near, b, probe.near, p); };
    ask(batch, step, tally, filter, [&](u32 b, u32 p) {
        u32 common = 0;
        u64 left = probe.starts[p], left_end = probe.starts[p + 1], right = build.starts[b],
            right_end = build.starts[b + 1];
        while (left < left_end && right < right_end) {
            u32 one = probe.ranks[left], other = build.ranks[right];
            common += one == other;
            left += one <= other;
            right += other <= one;
        }
        SetSizes sizes;
        sizes.build = build.sizes[b];
        sizes.probe = probe.sizes[p];
        return common > 0 && set_accepts(test, common, sizes);
    });
}

// Asks whether vectors match.
extern "C" __global__ void __launch_bounds__(THREADS) rule_step_vectors(Batch batch, Step step, u64* tally,
                                                                        RuleVectors build, RuleVectors probe,
                                                                        VectorCondition test) {
    auto filter = [&](u32 b, u32 p) {
        u8 one = build.has[b], other = probe.has[p];
        if (!one || !other) return REFUSED;
        return max(one, other) == UNKNOWN_VECTOR ? OPEN : LEFT;
    };
    ask(batch, step, tally, filter, [&](u32 b, u32 p) {
        return vector_accepts(test, build.values + (u64)b * test.dimension, probe.values + (u64)p * test.dimension);
    });
}

// One thread a pair: those with a witness, and it.
extern "C" __global__ void __launch_bounds__(THREADS) rule_witnessed(Batch batch, Pair* pairs, u16* witnesses,
                                                                     u64* found, u64 capacity) {
    u64 all = min(*batch.count, batch.capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        if (batch.depths[at] != DECIDED) continue;
        u64 place = atomicAdd(found, (u64)1);
        if (place >= capacity) continue;
        pairs[place] = batch.pairs[at];
        witnesses[place] = batch.witnesses[at];
    }
}

// One thread a pair with a witness: those that no entry before has one for, counted by clause.
extern "C" __global__ void __launch_bounds__(THREADS) rule_unseen(Batch batch, const u16* witnesses, u64* by_clause,
                                                                  Pair* pairs, u64* found, u64 capacity) {
    u64 all = min(*batch.count, batch.capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        if (batch.depths[at] == DECIDED) continue;
        atomicAdd(&by_clause[witnesses[at]], (u64)1);
        append(batch.pairs[at], pairs, found, capacity);
    }
}

#include "layout/rules.cuh"
