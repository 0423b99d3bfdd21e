// A condition on an edit measure.
#pragma once

#include "edit_measures.cuh"
#include "hamming.cuh"
#include "jaro_winkler.cuh"
#include "levenshtein.cuh"
#include "osa.cuh"

// What a condition allows strings of one length.
struct Reach {
    // The least and the greatest length of a partner.
    u32 shortest;
    u32 longest;
    // The most edits of pairs whose longer string has this length.
    u32 edits;
    // The fewest characters and bigrams, each with its number of occurrences, that both strings of a pair have whose
    // longer string has at least this length.
    u32 characters;
    u32 bigrams;
};

// The accepted scores of a measure. No score is NaN; the host has turned NaN bounds into infinite ones.
struct EditCondition {
    double lower;
    double upper;
    // A Jaro similarity below which no score is accepted, by how many characters strings begin with in common.
    double jaro[LONGEST_PREFIX + 1];
    // The constants of the measure.
    double weights[2];
    // What is allowed by length, from 0 to the longest on a device.
    const Reach* reach;
    u32 measure;
    u32 lower_inclusive;
    u32 upper_inclusive;
    u32 unused;
};

// Covers the rounding of the few double precision operations of a bound, many times over.
#define SLACK 1e-9

__device__ __forceinline__ bool edit_accepts(const EditCondition& test, double score) {
    bool high_enough = test.lower_inclusive ? score >= test.lower : score > test.lower;
    bool low_enough = test.upper_inclusive ? score <= test.upper : score < test.upper;
    return high_enough && low_enough;
}

__device__ __forceinline__ bool is_jaro(const EditCondition& test) {
    return test.measure == JARO || test.measure == JARO_WINKLER;
}

// What both of two strings have at least, if they match.
struct Shared {
    u32 characters;
    u32 bigrams;
};

// For strings of at least `left` and `right` characters.
__device__ __forceinline__ Shared edit_least_shared(const EditCondition& test, u32 left, u32 right) {
    Shared least = {0, 0};
    if (!is_jaro(test)) {
        Reach reach = test.reach[max(left, right)];
        least.characters = reach.characters;
        least.bigrams = reach.bigrams;
    } else if (left > 0 && right > 0) {
        double matches = (3.0 * test.jaro[LONGEST_PREFIX] - 1.0) / (1.0 / (double)left + 1.0 / (double)right);
        least.characters = max((i32)ceil(min(matches * (1.0 - SLACK), 1e9)), 1);
    }
    return least;
}

// What two strings of `left` and `right` characters, some each, have both at least, if their Jaro similarity is `jaro`
// or more and they have up to `common` characters in common; as jaro_bigrams of
// crates/engine/src/strings/predicate.rs.
__device__ __forceinline__ Shared jaro_least_shared(double jaro, u32 left, u32 right, u32 common) {
    double a_common_one = 1.0 / (double)left + 1.0 / (double)right;
    double most = (double)min(common, min(left, right)), needed = (3.0 * jaro - 1.0) / a_common_one;
    auto bigrams = [&](double matches) {
        double transpositions = max(matches * (1.0 - 3.0 * jaro + matches * a_common_one), 0.0);
        double misplaced = 2.0 * transpositions + 1.0;
        return 3.0 * matches - (double)left - (double)right - 1.0 - 2.0 * misplaced;
    };
    Shared least;
    least.characters = (u32)max((i32)ceil(min(needed * (1.0 - SLACK), 1e9)), 1);
    least.bigrams = (u32)max((i32)floor(min(bigrams(most), bigrams(min(needed, most)))), 0);
    return least;
}

__device__ __forceinline__ bool edit_lengths_match(const EditCondition& test, u32 left, u32 right) {
    Reach reach = test.reach[left];
    return right >= reach.shortest && right <= reach.longest;
}

// Whether two strings whose lengths match do so themselves: decided by the scalar's own arithmetic. One choice a
// kernel, since what a measure holds in registers is its own.
struct LevenshteinDecision {
    template <class Alphabet>
    static __device__ __forceinline__ bool holds(const EditCondition& test, const typename Alphabet::Symbol* longer,
                                                 u32 longest, const typename Alphabet::Symbol* shorter, u32 shortest) {
        u32 most = test.reach[longest].edits;
        u32 distance = levenshtein_within<Alphabet>(longer, longest, shorter, shortest, most);
        bool is_similarity = test.measure == LEVENSHTEIN_SIMILARITY;
        double score = is_similarity ? similarity_of_distance(distance, longest) : (double)distance;
        return distance <= most && edit_accepts(test, score);
    }
};

struct OsaDecision {
    template <class Alphabet>
    static __device__ __forceinline__ bool holds(const EditCondition& test, const typename Alphabet::Symbol* longer,
                                                 u32 longest, const typename Alphabet::Symbol* shorter, u32 shortest) {
        u32 most = test.reach[longest].edits;
        u32 distance = osa_within<Alphabet>(longer, longest, shorter, shortest, most);
        return distance <= most && edit_accepts(test, (double)distance);
    }
};

struct HammingDecision {
    template <class Alphabet>
    static __device__ __forceinline__ bool holds(const EditCondition& test, const typename Alphabet::Symbol* longer,
                                                 u32 longest, const typename Alphabet::Symbol* shorter, u32) {
        u32 most = test.reach[longest].edits;
        u32 distance = hamming_within(longer, shorter, longest, most);
        return distance <= most && edit_accepts(test, (double)distance);
    }
};

struct JaroDecision {
    template <class Alphabet>
    static __device__ __forceinline__ bool holds(const EditCondition& test, const typename Alphabet::Symbol* longer,
                                                 u32 longest, const typename Alphabet::Symbol* shorter, u32 shortest) {
        double jaro = jaro_similarity<Alphabet>(shorter, shortest, longer, longest);
        if (test.measure == JARO_WINKLER)
            jaro = raised_by_prefix(jaro, test.weights, shorter, shortest, longer, longest);
        return edit_accepts(test, jaro);
    }
};
