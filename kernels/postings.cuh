// Postings: which build positions have a token.
#pragma once

#include "common.cuh"

// The build positions of each token, for tokens below `ranks`.
struct Postings {
    // One more than tokens.
    const u32* starts;
    const u32* positions;
};
