// Jaccard, as crates/measures/src/jaccard.rs: o / (r + s - o), one division in double precision.
#pragma once

__device__ __forceinline__ double jaccard(u32 overlap, u32 left, u32 right) {
    return (double)overlap / (double)((u64)left + right - overlap);
}
