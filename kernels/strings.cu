// Edit-distance and Jaro joins: lossless signatures for all pairs of two sides, bit-parallel measures for what is left.
//
//   symbols, codes of a dense alphabet --edit_signatures--> two signatures, sort key of each row
//            --(sort.cu)-------> positions by (group, length, excess)
//            --edit_gather-----> columns in that order, padded to whole blocks of BLOCK positions
//            --edit_summaries--> what all rows of a block have in common
//            --edit_windows----> which build blocks a probe block can match by group and length
//            --edit_filter-----> pairs whose signatures allow a match
//            --edit_verify_*---> pairs that match, decided by the measure itself
//
// Why no match is lost. A string is a bag of characters and a bag of bigrams. An occurrence is a feature and how many
// equal ones stand before it in the string. It sets one bit of the signature of its bag, the same one in every string;
// features of one slot count as the same. Of two strings' bags at least as many occurrences are equal by slots as by
// features, and those equal are the first ones of their slot in either string, hence set the same bits in both. A
// string has no more occurrences whose bit both signatures have than common bits and its excess, its occurrences less
// its bits. So
//     occurrences that both have <= popcount(a & b) + min(excess of a, excess of b)
// Of two strings within k edits of each other both have at least
//     longer length - k      characters: an edit leaves all but one character of the longer string
//     longer length - 1 - 2k bigrams, each edit tearing two of the longer string's, or, with transpositions (each of which
//                            tears three), longer length - 1 - 3k, or 4k where these may enclose other edits
// and a Jaro similarity of j takes m >= (3j - 1) / (1 / left + 1 / right) matches, all of them characters that both
// have, and with so many matches, of which few are misplaced, some bigrams. Which j depends on how the strings begin,
// for pairs. The host's table gives the least of these numbers for a length and all greater ones, so that the least
// lengths of a block speak for all of it (blocks sorted by length as in sf-gSSJoin, section 6).

// targets: sm75, sm80
#include "strings.cuh"

// How the strings of a build side set bits: the Unicode scalar value of each code, and the bit of each occurrence.
struct Signer {
    const u32* scalars;
    const u8* character_bits;
    const u8* bigram_bits;
};

// Occurrences that are told apart, as ELEMENTS in features.rs; 2 to the power of `slots` features by SPAN characters.
#define OCCURRENCES_LOG2 14

template <int SPAN>
__device__ __forceinline__ constexpr u32 slots_log2() {
    return SPAN == 1 ? 7 : 10;
}

// Slots that stand for no feature.
#define NO_SLOT 0xffffffffu

// The slot of the feature that begins at a place of a string.
template <int SPAN, class Symbol>
__device__ __forceinline__ u32 slot_at(const Signer& signer, const Symbol* symbols, u32 length, u32 at) {
    if (at + SPAN > length) return NO_SLOT;
    u64 feature = signer.scalars[symbols[at]];
    if (SPAN == 2) feature = feature << 32 | signer.scalars[symbols[at + 1]];
    return (u32)((feature * 0x9e3779b97f4a7c15ull) >> (64 - slots_log2<SPAN>()));
}

// From so many symbols on a warp counts what it has seen, instead of looking at all of it again.
#define COUNTED_FROM 128

// Sets the bits of one bag, a warp a string, in memory that the warp shares, as are the counts of all slots. Returns
// how many bits there are.
template <int SPAN, class Symbol>
__device__ __forceinline__ u32 sign(const Signer& signer, const Symbol* symbols, u32 length, u32* bits, u8* counts) {
    u32 lane = lane_of_thread();
    const u8* bit_of = SPAN == 1 ? signer.character_bits : signer.bigram_bits;
    u32 occurrences = 1u << (OCCURRENCES_LOG2 - slots_log2<SPAN>());
    bool is_counted = length >= COUNTED_FROM;
    if (lane < STEP) bits[lane] = 0;
    for (u32 at = lane; is_counted && at < 1u << slots_log2<SPAN>(); at += 32) counts[at] = 0;
    __syncwarp();
    for (u32 first = 0; first < length; first += 32) {
        u32 slot = slot_at<SPAN>(signer, symbols, length, first + lane), seen = 0, same = 0;
        for (u32 before = is_counted ? first : 0; before <= first; before += 32) {
            u32 others = before == first ? slot : slot_at<SPAN>(signer, symbols, length, before + lane);
            u32 held = before == first ? lane : 32;
            for (u32 other = 0; other < 32; other++) {
                bool is_equal = __shfl_sync(ALL_LANES, others, other) == slot;
                seen += other < held && is_equal;
                same |= (u32)is_equal << other;
            }
        }
        if (is_counted) {
            u32 before = slot == NO_SLOT ? 0 : counts[slot];
            __syncwarp();
            // the last one of its slot; more than are told apart need not be counted
            if (slot != NO_SLOT && same >> lane == 1) counts[slot] = (u8)min(before + (u32)__popc(same), 255u);
            __syncwarp();
            seen += before;
        }
        if (slot == NO_SLOT) continue;
        u32 bit = bit_of[slot * occurrences + min(seen, occurrences - 1)];
        atomicOr(&bits[bit / 32], 1u << (bit % 32));
    }
    __syncwarp();
    u32 set = lane < STEP ? __popc(bits[lane]) : 0;
    for (u32 offset = 16; offset > 0; offset /= 2) set += __shfl_xor_sync(ALL_LANES, set, offset);
    return set;
}

template <class Symbol>
__device__ __forceinline__ void signatures(const u64* starts, const Symbol* symbols, const u32* groups, u32 count,
                                           const Signer& signer, u32 by_characters, u32* characters, u32* bigrams,
                                           u32* character_excess, u32* bigram_excess, u32* prefixes, u64* keys,
                                           u32* order) {
    __shared__ u32 bits[8][2][STEP];
    __shared__ u8 counts[8][1u << slots_log2<2>()];
    u32 lane = lane_of_thread(), warp = threadIdx.x >> 5;
    u32 row = blockIdx.x * 8 + warp;
    if (row >= count) return;
    const Symbol* text = symbols + starts[row];
    u32 length = (u32)(starts[row + 1] - starts[row]);
    u32 of_characters = length - sign<1>(signer, text, length, bits[warp][0], counts[warp]);
    u32 of_bigrams = (length > 0 ? length - 1 : 0) - sign<2>(signer, text, length, bits[warp][1], counts[warp]);
    if (lane < STEP) {
        characters[(u64)row * STEP + lane] = bits[warp][0][lane];
        bigrams[(u64)row * STEP + lane] = bits[warp][1][lane];
    }
    if (lane != 0) return;
    character_excess[row] = of_characters;
    bigram_excess[row] = of_bigrams;
    u32 prefix = 0;
    for (u32 at = 0; at < min(length, (u32)LONGEST_PREFIX); at++) prefix |= (text[at] & 0xffu) << (8 * at);
    prefixes[row] = prefix;
    u32 group = groups ? groups[row] : 0, excess = min(by_characters ? of_characters : of_bigrams, MOST_EXCESS);
    keys[row] = (u64)group << (LENGTH_BITS + EXCESS_BITS) | (u64)length << EXCESS_BITS | excess;
    order[row] = row;
}

// One warp a row: its signatures, what they leave out, and its sort key, by the excess of characters or of bigrams.
#define SIGNATURES(name, Symbol)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) name(                                                         \
        const u64* starts, const Symbol* symbols, const u32* NULLABLE groups, u32 count, Signer signer,             \
        u32 by_characters, u32* characters, u32* bigrams, u32* character_excess, u32* bigram_excess, u32* prefixes, \
        u64* keys, u32* order) {                                                                                    \
        signatures(starts, symbols, groups, count, signer, by_characters, characters, bigrams, character_excess,    \
                   bigram_excess, prefixes, keys, order);                                                           \
    }
SIGNATURES(edit_signatures_small, u8)
SIGNATURES(edit_signatures_large, u32)

// One thread a word of a position: columns in the order of `order`. Positions from `count` to `padded` get empty
// strings.
extern "C" __global__ void __launch_bounds__(256) edit_gather(
    const u32* order, u32 count, u32 padded, const u32* characters, const u32* bigrams, const u32* character_excess,
    const u32* bigram_excess, const u32* prefixes, const u32* NULLABLE groups, const u32* rows, const u64* starts,
    u32* out_characters, u32* out_bigrams, u32* out_character_excess, u32* out_bigram_excess, u32* out_prefixes,
    u32* out_lengths, u32* out_groups, u32* out_rows, u64* out_starts) {
    for (u64 at = thread_in_grid(); at < (u64)padded * STEP; at += threads_in_grid()) {
        u32 position = (u32)(at / STEP), word = (u32)(at % STEP);
        bool is_text = position < count;
        u32 row = is_text ? order[position] : 0;
        out_characters[at] = is_text ? characters[(u64)row * STEP + word] : 0;
        out_bigrams[at] = is_text ? bigrams[(u64)row * STEP + word] : 0;
        if (word != 0) continue;
        out_character_excess[position] = is_text ? character_excess[row] : 0;
        out_bigram_excess[position] = is_text ? bigram_excess[row] : 0;
        out_prefixes[position] = is_text ? prefixes[row] : 0;
        out_lengths[position] = is_text ? (u32)(starts[row + 1] - starts[row]) : 0;
        out_groups[position] = is_text && groups ? groups[row] : 0;
        out_rows[position] = is_text ? rows[row] : 0;
        out_starts[position] = is_text ? starts[row] : 0;
    }
}

// One thread a block of positions.
extern "C" __global__ void __launch_bounds__(128) edit_summaries(const u32* lengths, const u32* character_excess,
                                                                 const u32* bigram_excess, const u32* groups, u32 count,
                                                                 Summary* summaries) {
    u32 block = blockIdx.x * blockDim.x + threadIdx.x;
    u32 first = block * BLOCK;
    if (first >= count) return;
    u32 end = min(count, first + BLOCK);
    Summary s;
    s.least_length = 0xffffffffu;
    s.most_length = s.character_excess = s.bigram_excess = s.character_bits = s.bigram_bits = 0;
    for (u32 at = first; at < end; at++) {
        s.least_length = min(s.least_length, lengths[at]);
        s.most_length = max(s.most_length, lengths[at]);
        s.character_excess = max(s.character_excess, character_excess[at]);
        s.bigram_excess = max(s.bigram_excess, bigram_excess[at]);
        s.character_bits = max(s.character_bits, lengths[at] - character_excess[at]);
        s.bigram_bits = max(s.bigram_bits, bigrams_of(lengths[at]) - bigram_excess[at]);
    }
    s.first_group = groups[first];
    s.last_group = groups[end - 1];
    s.first_length = lengths[first];
    s.last_length = lengths[end - 1];
    summaries[block] = s;
}

// One thread a probe block from `first` on: the range of build blocks that hold all partners of its strings, by group
// and length. With `self_join` only those from the block itself on.
extern "C" __global__ void __launch_bounds__(128) edit_windows(CodedStrings probe, CodedStrings build,
                                                               EditCondition test, u32 first, u32 end, u32 self_join,
                                                               u32* firsts, u32* ends) {
    u32 block = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (block >= end) return;
    Summary s = probe.summaries[block];
    u64 low = place(s.first_group, 0), high = place(s.last_group, 0xffffffffu);
    if (s.first_group == s.last_group) {
        low = place(s.first_group, test.reach[s.least_length].shortest);
        high = place(s.first_group, test.reach[s.most_length].longest);
    }
    const Summary* blocks = build.summaries;
    u32 all = blocks_of(build.count);
    u32 from = first_true(self_join ? block : 0, all,
                          [&](u32 b) { return place(blocks[b].last_group, blocks[b].last_length) >= low; });
    u32 to = first_true(from, all, [&](u32 b) { return place(blocks[b].first_group, blocks[b].first_length) > high; });
    firsts[block - first] = from;
    ends[block - first] = to;
}

// Those of all pairs of two blocks; false where none can match.
__device__ __forceinline__ bool needed_by_blocks(const EditCondition& test, const Summary& probe, const Summary& build,
                                                 Needed& bits) {
    if (probe.first_group > build.last_group || build.first_group > probe.last_group) return false;
    if (build.most_length < test.reach[probe.least_length].shortest) return false;
    if (build.least_length > test.reach[probe.most_length].longest) return false;
    Shared least = edit_least_shared(test, probe.least_length, build.least_length);
    bits.characters = (int)least.characters - (int)min(probe.character_excess, build.character_excess);
    bits.bigrams = (int)least.bigrams - (int)min(probe.bigram_excess, build.bigram_excess);
    return bits.characters <= (int)min(probe.character_bits, build.character_bits) &&
           bits.bigrams <= (int)min(probe.bigram_bits, build.bigram_bits);
}

// Keeps a pair that has passed for its blocks if it passes for itself.
__device__ __forceinline__ void keep(const CodedStrings& probe, const CodedStrings& build, const EditCondition& test,
                                     u32 self_join, u32 p, u32 b, Pair* pairs, u64* count, u64 capacity) {
    if (b >= build.count || (self_join && b <= p)) return;
    if (probe.groups[p] != build.groups[b]) return;
    u32 left = probe.lengths[p], right = build.lengths[b];
    if (!edit_lengths_match(test, left, right)) return;
    Shared least = edit_least_shared(test, left, right);
    u32 characters = common_bits(probe.characters, p, build.characters, b) +
                     min(probe.character_excess[p], build.character_excess[b]);
    if (is_jaro(test) && left > 0 && right > 0) {
        least = jaro_least_shared(test.jaro[common_prefix(probe, p, build, b)], left, right, characters);
    }
    if (characters < least.characters) return;
    u32 bigrams = common_bits(probe.bigrams, p, build.bigrams, b) + min(probe.bigram_excess[p], build.bigram_excess[b]);
    if (bigrams < least.bigrams) return;
    Pair pair;
    pair.build = b;
    pair.probe = p;
    append(pair, pairs, count, capacity);
}

// One block of 4 warps a task, each warp with 64 probe rows, of which those in `begin..end` count.
extern "C" __global__ void __launch_bounds__(128) edit_filter(CodedStrings probe, CodedStrings build,
                                                              EditCondition test, const Task* tasks, u32 self_join,
                                                              u32 begin, u32 end, Pair* pairs, u64* count,
                                                              u64 capacity) {
    Task task = tasks[blockIdx.x];
    u32 row = task.probe * BLOCK + (threadIdx.x >> 5) * BLOCK;
    if (row >= end) return;
    Summary rows = probe.summaries[row / BLOCK];
    ProbeRows<1, 4> characters, bigrams;
    characters.load(probe.characters, row);
    bigrams.load(probe.bigrams, row);
    u32 first = self_join ? max(task.first, row / BLOCK) : task.first;
    for (u32 block = first; block < task.end; block++) {
        Needed least;
        if (!needed_by_blocks(test, rows, build.summaries[block], least)) continue;
        visit_hits(characters, bigrams, build, block, least, [&](u32 at, u32 b) {
            u32 p = row + at;
            if (p >= begin && p < end) keep(probe, build, test, self_join, p, b, pairs, count, capacity);
        });
    }
}

template <class Decision, class Alphabet>
__device__ __forceinline__ void verify(const CodedStrings& probe, const CodedStrings& build, const EditCondition& test,
                                       const Pair* candidates, const u64* candidate_count, u64 capacity, Pair* pairs,
                                       u64* count, u64 pair_capacity) {
    using Symbol = typename Alphabet::Symbol;
    u64 all = all_of(candidate_count, capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        Pair candidate = candidates[at];
        u32 p = candidate.probe, b = candidate.build;
        const Symbol *left = (const Symbol*)probe.symbols + probe.starts[p],
                     *right = (const Symbol*)build.symbols + build.starts[b];
        u32 lefts = probe.lengths[p], rights = build.lengths[b];
        bool is_longer = lefts >= rights;
        if (!Decision::template holds<Alphabet>(test, is_longer ? left : right, max(lefts, rights),
                                                is_longer ? right : left, min(lefts, rights)))
            continue;
        Pair pair;
        pair.build = build.rows[b];
        pair.probe = probe.rows[p];
        append(pair, pairs, count, pair_capacity);
    }
}

// One thread a candidate, none where some have found no room: row numbers of those that match.
#define VERIFY(name, Decision, Alphabet)                                                                               \
    extern "C" __global__ void __launch_bounds__(128) name(CodedStrings probe, CodedStrings build, EditCondition test, \
                                                           const Pair* candidates, const u64* candidate_count,         \
                                                           u64 capacity, Pair* pairs, u64* count, u64 pair_capacity) { \
        verify<Decision, Alphabet>(probe, build, test, candidates, candidate_count, capacity, pairs, count,            \
                                   pair_capacity);                                                                     \
    }
VERIFY(edit_verify_levenshtein_small, LevenshteinDecision, SmallAlphabet)
VERIFY(edit_verify_levenshtein_large, LevenshteinDecision, LargeAlphabet)
VERIFY(edit_verify_osa_small, OsaDecision, SmallAlphabet)
VERIFY(edit_verify_osa_large, OsaDecision, LargeAlphabet)
VERIFY(edit_verify_hamming_small, HammingDecision, SmallAlphabet)
VERIFY(edit_verify_hamming_large, HammingDecision, LargeAlphabet)
VERIFY(edit_verify_jaro_small, JaroDecision, SmallAlphabet)
VERIFY(edit_verify_jaro_large, JaroDecision, LargeAlphabet)

#include "layout/strings.cuh"
