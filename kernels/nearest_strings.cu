// Nearest joins of strings: which pairs may be neighbours, and their scores, in the rounds of nearest.cuh.
//
// The seeds of a probe block are the build blocks around its place by group and length. The filter is that of
// strings.cu with a bound for each row: the score of the worst that it keeps. What of two strings must be equal if they
// score no worse follows as there; for blocks from the loosest bound of their rows. A row that keeps too few has no bound.

// targets: sm75, sm80
#include "nearest.cuh"
#include "strings.cuh"

// A measure that ranks.
struct EditRanking {
    // The constants of the measure.
    double weights[2];
    u32 measure;
    // Bigrams of the longer string that an edit tears at most.
    u32 torn;
    // Whether the score is a number of edits.
    u32 is_distance;
    // Whether only strings of one length have a score.
    u32 needs_equal_lengths;
};

__device__ __forceinline__ bool is_jaro(const EditRanking& by) {
    return by.measure == JARO || by.measure == JARO_WINKLER;
}

// A bound that every score satisfies, and one that none does.
__device__ __forceinline__ double any_score(const EditRanking& by) { return by.is_distance ? 1e18 : -1.0; }
__device__ __forceinline__ double no_score(const EditRanking& by) { return by.is_distance ? -1.0 : 2.0; }

// The score of the worst neighbour that a row at a place of those that are searched keeps.
__device__ __forceinline__ double bound_of(const EditRanking& by, const Searched& searched, u32 place) {
    if (searched.reach[place] < 0.0f) return no_score(by);
    if (searched.kept[place] < searched.wanted) return any_score(by);
    i64 worst = searched.offered[(u64)place * searched.capacity + searched.wanted - 1].score;
    return float_of_key(searched.descending ? ~worst : worst);
}

// The score of what differs from a string of so many characters in a share of them, about.
__device__ __forceinline__ double score_at(const EditRanking& by, float share, u32 length) {
    if (share >= 1.0f) return any_score(by);
    if (by.is_distance) return (double)share * (double)length;
    return 1.0 - (double)share * (is_jaro(by) ? 0.5 : 1.0);
}

// How far a round looks for the row at a place of those that are searched, of so many characters. What is no farther
// than earlier rounds have seen is known.
__device__ __forceinline__ double bound_of_round(const EditRanking& by, const Searched& searched, u32 place,
                                                 const Round& round, u32 length) {
    double bound = bound_of(by, searched, place), far = score_at(by, round.far, length);
    double seen = score_at(by, round.seen, length);
    if (round.seen > 0.0f && (by.is_distance ? bound <= seen : bound >= seen)) return no_score(by);
    return by.is_distance ? min(bound, far) : max(bound, far);
}

// The edits between strings, the longer of `longest` characters, that score no worse than `bound`: no fewer than there
// may be, and a number that need not be whole.
__device__ __forceinline__ double edits_within(const EditRanking& by, double bound, u32 longest) {
    if (by.is_distance) return bound;
    return (1.0 - bound) * (double)longest * (1.0 + SLACK) + SLACK;
}

// The same as a whole number, up to `longest`.
__device__ __forceinline__ u32 whole_edits_within(const EditRanking& by, double bound, u32 longest) {
    return (u32)min(floor(edits_within(by, bound, longest)), (double)longest);
}

// What strings have in common at least that are so many edits from each other, the longer of them of `longest`
// characters. As long as an edit of a similarity tears fewer bigrams than it allows characters more, longer strings
// have no less in common; where it tears more, it allows all of them to be torn.
__device__ __forceinline__ Shared shared_within(const EditRanking& by, double edits, u32 longest) {
    double characters = ceil((double)longest - edits - SLACK);
    double bigrams = ceil((double)longest - 1.0 - by.torn * edits - SLACK);
    Shared least;
    least.characters = characters > 0.0 ? (u32)characters : 0;
    least.bigrams = bigrams > 0.0 ? (u32)bigrams : 0;
    return least;
}

// A Jaro similarity below which no score is as good as `bound`, of strings that begin with up to `prefix` characters in
// common; as least_jaro of crates/measures/src/jaro_winkler.rs.
__device__ __forceinline__ double least_jaro(const EditRanking& by, double bound, u32 prefix) {
    if (by.measure == JARO || !(bound > by.weights[1])) return bound - SLACK;
    double raise = by.weights[0] * (double)prefix;
    double least = (bound - 1e-15 - raise) / (1.0 - raise);
    // at a raise of 1 it is no number
    return (least > by.weights[1] ? least : by.weights[1]) - SLACK;
}

// Whether strings whose lengths are in this ratio, the shorter to the longer one, may have a Jaro similarity of `jaro`:
// with all characters of the shorter one in order it is (2 + ratio) / 3.
__device__ __forceinline__ bool ratio_allows(double jaro, u32 shorter, u32 longer) {
    return (2.0 + (double)shorter / (double)longer) / 3.0 >= jaro - SLACK;
}

// The common bits that all pairs of two blocks need for scores no worse than `bound`; false where none can have one.
__device__ __forceinline__ bool needed_by_blocks(const EditRanking& by, double bound, const Summary& probe,
                                                 const Summary& build, Needed& bits) {
    if (probe.first_group > build.last_group || build.first_group > probe.last_group) return false;
    u32 shorter = min(probe.most_length, build.most_length), longer = max(probe.least_length, build.least_length);
    bool is_apart = longer > shorter;
    Shared least = {0, 0};
    if (by.needs_equal_lengths && is_apart) return false;
    if (!is_jaro(by)) {
        double edits = edits_within(by, bound, longer);
        if (edits < (is_apart ? (double)(longer - shorter) : 0.0)) return false;
        least = shared_within(by, edits, longer);
    } else if (bound > 0.0) {
        double jaro = least_jaro(by, bound, LONGEST_PREFIX);
        if (is_apart && !ratio_allows(jaro, shorter, longer)) return false;
        if (probe.least_length > 0 && build.least_length > 0)
            least.characters = jaro_least_shared(jaro, probe.least_length, build.least_length, 0).characters;
    }
    bits.characters = (int)least.characters - (int)min(probe.character_excess, build.character_excess);
    bits.bigrams = (int)least.bigrams - (int)min(probe.bigram_excess, build.bigram_excess);
    return bits.characters <= (int)min(probe.character_bits, build.character_bits) &&
           bits.bigrams <= (int)min(probe.bigram_bits, build.bigram_bits);
}

// Whether a pair may have a score no worse than `bound`.
__device__ __forceinline__ bool may_score(const EditRanking& by, double bound, const CodedStrings& probe, u32 p,
                                          const CodedStrings& build, u32 b) {
    if (probe.groups[p] != build.groups[b]) return false;
    u32 left = probe.lengths[p], right = build.lengths[b], longest = max(left, right), shortest = min(left, right);
    if (by.needs_equal_lengths && left != right) return false;
    u32 characters = common_bits(probe.characters, p, build.characters, b) +
                     min(probe.character_excess[p], build.character_excess[b]);
    Shared least = {0, 0};
    if (!is_jaro(by)) {
        if (edits_within(by, bound, longest) < (double)(longest - shortest)) return false;
        least = shared_within(by, whole_edits_within(by, bound, longest), longest);
    } else if (bound > 0.0 && longest > 0) {
        // without a character in common the score is 0
        double jaro = least_jaro(by, bound, common_prefix(probe, p, build, b));
        if (shortest == 0 || !ratio_allows(jaro, shortest, longest)) return false;
        least = jaro_least_shared(jaro, left, right, characters);
    }
    if (characters < least.characters) return false;
    u32 bigrams = common_bits(probe.bigrams, p, build.bigrams, b) + min(probe.bigram_excess[p], build.bigram_excess[b]);
    return bigrams >= least.bigrams;
}

// One thread a probe block: the build blocks around its place by group and length, the middle one first.
extern "C" __global__ void __launch_bounds__(128) nearest_string_seeds(CodedStrings probe, CodedStrings build,
                                                                       Searched searched) {
    u32 at = (u32)thread_in_grid();
    if (at >= blocks_of(searched.count)) return;
    Summary rows = probe.summaries[searched.first / BLOCK + at];
    const Summary* blocks = build.summaries;
    u32 all = blocks_of(build.count);
    // the middle of the blocks that end with as long a string
    auto first_after = [&](u64 wanted) {
        return first_true(0, all, [&](u32 b) { return place(blocks[b].last_group, blocks[b].last_length) >= wanted; });
    };
    u64 wanted = place(rows.last_group, rows.last_length);
    u32 low = first_after(wanted), high = first_after(wanted + 1);
    seed_around(searched, at, min(low + (high - low) / 2, all - 1), all);
}

// One block of 4 warps a task, each with one probe block: appends the positions of pairs of a round whose signatures
// allow a score that a row would keep.
extern "C" __global__ void __launch_bounds__(128) nearest_string_filter(CodedStrings probe, CodedStrings build,
                                                                        EditRanking by, const Task* tasks,
                                                                        Searched searched, Round round, Pair* pairs,
                                                                        u64* count, u64 capacity) {
    __shared__ double bounds[4][BLOCK];
    Task task = tasks[blockIdx.x];
    u32 warp = threadIdx.x / WARP_LANES, lane = lane_of_thread();
    u32 block = task.probe + warp, at = block - searched.first / BLOCK;
    if (at >= blocks_of(searched.count)) return;
    double *own = bounds[warp], loosest = no_score(by);
    auto looser = [&](double one, double other) { return by.is_distance ? max(one, other) : min(one, other); };
    for (u32 n = lane; n < BLOCK; n += WARP_LANES) {
        own[n] = bound_of_round(by, searched, at * BLOCK + n, round, probe.lengths[block * BLOCK + n]);
        loosest = looser(loosest, own[n]);
    }
    for (u32 offset = 16; offset > 0; offset /= 2)
        loosest = looser(loosest, __shfl_xor_sync(ALL_LANES, loosest, offset));
    __syncwarp();
    if (loosest == no_score(by)) return;
    Summary rows = probe.summaries[block];
    ProbeRows<1, 4> characters, bigrams;
    characters.load(probe.characters, block * BLOCK);
    bigrams.load(probe.bigrams, block * BLOCK);
    auto compare = [&](u32 other) {
        Needed least;
        if (!needed_by_blocks(by, loosest, rows, build.summaries[other], least)) return;
        visit_hits(characters, bigrams, build, other, least, [&](u32 n, u32 b) {
            u32 p = block * BLOCK + n;
            if (b >= build.count || own[n] == no_score(by) || !may_score(by, own[n], probe, p, build, b)) return;
            Pair pair;
            pair.build = b;
            pair.probe = p;
            append(pair, pairs, count, capacity);
        });
    };
    if (round.seed != NO_SEED) {
        u32 other = searched.seeds[(u64)at * searched.seed_count + round.seed];
        if (other != NO_SEED) compare(other);
        return;
    }
    for (u32 first = task.first; first < task.end; first += WARP_LANES) {
        u32 other = first + lane;
        Needed least;
        bool is_one = other < task.end && is_of_round(round, other) &&
                      needed_by_blocks(by, loosest, rows, build.summaries[other], least);
        for (u32 ones = __ballot_sync(ALL_LANES, is_one); ones != 0; ones &= ones - 1) compare(first + __ffs(ones) - 1);
    }
}

// The score of two strings, or false where it is worse than `bound` or there is none: by the scalar's own arithmetic.
// One choice a kernel, as in edit_measure.cuh.
struct LevenshteinScore {
    template <class Alphabet, class Symbol>
    static __device__ __forceinline__ bool of(const EditRanking& by, double bound, const Symbol* longer, u32 longest,
                                              const Symbol* shorter, u32 shortest, double& score) {
        u32 most = whole_edits_within(by, bound, longest);
        if (longest - shortest > most) return false;
        u32 distance = levenshtein_within<Alphabet>(longer, longest, shorter, shortest, most);
        score = by.is_distance ? (double)distance : similarity_of_distance(distance, longest);
        return distance <= most;
    }
};

struct OsaScore {
    template <class Alphabet, class Symbol>
    static __device__ __forceinline__ bool of(const EditRanking& by, double bound, const Symbol* longer, u32 longest,
                                              const Symbol* shorter, u32 shortest, double& score) {
        u32 most = whole_edits_within(by, bound, longest);
        if (longest - shortest > most) return false;
        u32 distance = osa_within<Alphabet>(longer, longest, shorter, shortest, most);
        score = (double)distance;
        return distance <= most;
    }
};

struct HammingScore {
    template <class Alphabet, class Symbol>
    static __device__ __forceinline__ bool of(const EditRanking& by, double bound, const Symbol* longer, u32 longest,
                                              const Symbol* shorter, u32 shortest, double& score) {
        u32 most = whole_edits_within(by, bound, longest);
        if (longest != shortest) return false;
        u32 distance = hamming_within(longer, shorter, longest, most);
        score = (double)distance;
        return distance <= most;
    }
};

struct JaroScore {
    template <class Alphabet, class Symbol>
    static __device__ __forceinline__ bool of(const EditRanking& by, double, const Symbol* longer, u32 longest,
                                              const Symbol* shorter, u32 shortest, double& score) {
        score = jaro_similarity<Alphabet>(shorter, shortest, longer, longest);
        if (by.measure == JARO_WINKLER) score = raised_by_prefix(score, by.weights, shorter, shortest, longer, longest);
        return true;
    }
};

template <class Score, class Alphabet>
__device__ __forceinline__ void offer(const CodedStrings& probe, const CodedStrings& build, const EditRanking& by,
                                      const u32* ranks, const Searched& searched, const Pair* candidates,
                                      const u64* candidate_count, u64 capacity) {
    using Symbol = typename Alphabet::Symbol;
    u64 all = min(*candidate_count, capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        Pair candidate = candidates[at];
        u32 p = candidate.probe, b = candidate.build, place = p - searched.first;
        double bound = bound_of(by, searched, place), score;
        if (bound == no_score(by)) continue;
        const Symbol *left = (const Symbol*)probe.symbols + probe.starts[p],
                     *right = (const Symbol*)build.symbols + build.starts[b];
        u32 lefts = probe.lengths[p], rights = build.lengths[b];
        bool is_longer = lefts >= rights;
        if (!Score::template of<Alphabet>(by, bound, is_longer ? left : right, max(lefts, rights),
                                          is_longer ? right : left, min(lefts, rights), score))
            continue;
        offer_row(searched, place, score, build.rows[b], ranks);
    }
}

// One thread a candidate, of which there are min(*candidate_count, capacity): its score, to its row. `ranks` is by row
// number, null where all rows have the same.
#define OFFER(name, Score, Alphabet)                                                                          \
    extern "C" __global__ void __launch_bounds__(128) name(                                                   \
        CodedStrings probe, CodedStrings build, EditRanking by, const u32* NULLABLE ranks, Searched searched, \
        const Pair* candidates, const u64* candidate_count, u64 capacity) {                                   \
        offer<Score, Alphabet>(probe, build, by, ranks, searched, candidates, candidate_count, capacity);     \
    }
OFFER(nearest_string_offer_levenshtein_small, LevenshteinScore, SmallAlphabet)
OFFER(nearest_string_offer_levenshtein_large, LevenshteinScore, LargeAlphabet)
OFFER(nearest_string_offer_osa_small, OsaScore, SmallAlphabet)
OFFER(nearest_string_offer_osa_large, OsaScore, LargeAlphabet)
OFFER(nearest_string_offer_hamming_small, HammingScore, SmallAlphabet)
OFFER(nearest_string_offer_hamming_large, HammingScore, LargeAlphabet)
OFFER(nearest_string_offer_jaro_small, JaroScore, SmallAlphabet)
OFFER(nearest_string_offer_jaro_large, JaroScore, LargeAlphabet)

#include "layout/nearest_strings.cuh"
