// Trigram similarity, as crates/measures/src/trigram.rs: Jaccard in single precision.
#pragma once

__device__ __forceinline__ double trigram_similarity(u32 overlap, u32 left, u32 right) {
    return (double)__fdiv_rn((float)overlap, (float)((u64)left + right - overlap));
}
